//! Who leads a partition, and which replicas may.
//!
//! ```text
//!  ISR  in-sync replicas: they have every committed record
//!  ELR  eligible leader replicas (KIP-966): they left the ISR while it was too small for the high
//!       watermark to move, so they have every committed record as well
//! ```
//! A leader is elected from the ISR, else from the ELR, in the order of the replicas. A broker that
//! stopped uncleanly may have lost the end of its logs, so it leaves both. When none is left in the
//! two, the last leader is put into the ISR: no other replica has as much. It does not lead while
//! it is away, or while its disk is.
//! Where `unclean.leader.election.enable` says so, any replica leads before none does. What the
//! files of a broker say of that key counts at the leader of the quorum only. It looks for
//! partitions without a leader ([`Elections::unclean`]).
//!
//! Pure: an image and who is alive go in, records come out.
//! Source: Kafka's `PartitionChangeBuilder` and `ReplicationControlManager`; KIP-966.

use super::super::error::ApiError;
use super::super::image::{MetadataImage, PartitionImage, TopicImage};
use super::super::records::{
    ConfigResource, MetadataRecord, PartitionChangeRecord, PartitionRecord,
};
use super::Decision;
use super::configs::MIN_INSYNC_REPLICAS;
use super::reassignments::end_reassignment;
use kafkalite_protocol::ErrorCode;
use std::sync::Arc;

const UNCLEAN: &str = "unclean.leader.election.enable";

/// Partitions that get an unclean leader in one change: the records of more could be too many.
const MAX_UNCLEAN: usize = 1_000;

/// Why a broker's replicas are in sync no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It is away, or stops. Its logs are complete.
    Away,
    /// It began again after an unclean stop: its logs may have lost their ends.
    Restarted,
}

/// Which election a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionKind {
    /// The first replica shall lead.
    Preferred,
    /// Any replica that is alive shall lead, where none does.
    Unclean,
    /// This broker shall lead, if it is alive and in sync. If it leads, its epoch rises: so it is
    /// after another broker led meanwhile. No client can ask for it.
    Named(i32),
}

/// A decision on one image.
#[derive(Clone, Copy)]
pub struct Elections<'a> {
    /// What is decided upon.
    pub image: &'a MetadataImage,
    /// Whether a broker may lead now.
    pub is_alive: &'a dyn Fn(i32) -> bool,
}

/// A partition and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub topic: &'a TopicImage,
    pub index: i32,
    pub now: &'a PartitionImage,
}

impl<'a> Place<'a> {
    /// A partition, if it is there.
    pub fn of(topic: &'a TopicImage, index: i32) -> Option<Self> {
        Some(Self { topic, index, now: topic.partition(index)? })
    }
}

/// Leader, ISR and ELR as they are to be.
pub(super) struct Wanted {
    pub leader: i32,
    pub isr: Vec<i32>,
    pub elr: Vec<i32>,
}

/// Elects leaders of partitions, by topic and index, each named once.
pub fn elect_leaders(
    image: &MetadataImage,
    kind: ElectionKind,
    partitions: &[(Arc<str>, i32)],
) -> Decision<()> {
    let is_alive = |id| image.is_alive(id);
    let elections = Elections { image, is_alive: &is_alive };
    let mut records = Vec::new();
    let elect = |(topic, index): &(Arc<str>, i32)| {
        elections.elect(topic, *index, kind).map(|record| records.push(record))
    };
    let answers = partitions.iter().map(elect).collect();
    (records, answers)
}

impl<'a> Elections<'a> {
    /// What follows when `broker` leaves: it is in no ISR and leads nothing, and others take over.
    #[must_use]
    pub fn leave(&self, broker: i32, why: Leaving) -> Vec<MetadataRecord> {
        let is_its = |place: &Place<'_>| {
            let Place { now, .. } = place;
            let sets = [&now.isr, &now.elr];
            now.leader == broker || sets.iter().any(|set| set.contains(&broker))
        };
        self.places()
            .filter(is_its)
            .filter_map(|place| self.without(place, &[broker], why))
            .collect()
    }

    /// What follows when `broker` is about to leave and serves yet: others lead where they are in
    /// sync, and it leaves the ISR there. Where it alone is in sync it leads on.
    #[must_use]
    pub fn hand_over(&self, broker: i32) -> Vec<MetadataRecord> {
        let has_others = |place: &Place<'_>| {
            let isr = &place.now.isr;
            let is_other = |id: &i32| *id != broker && (self.is_alive)(*id);
            isr.contains(&broker) && isr.iter().any(is_other)
        };
        self.places()
            .filter(has_others)
            .filter_map(|place| self.without(place, &[broker], Leaving::Away))
            .collect()
    }

    /// What follows from who is alive: brokers that are not leave, and a partition without a leader
    /// gets one if it can.
    #[must_use]
    pub fn balance(&self) -> Vec<MetadataRecord> {
        let changed = self.places().filter_map(|place| {
            let replicas = place.now.replicas.iter().copied();
            let away: Vec<i32> = replicas.filter(|id| !(self.is_alive)(*id)).collect();
            self.without(place, &away, Leaving::Away)
        });
        changed.collect()
    }

    /// What follows when `min.insync.replicas` is another one: where as many replicas are in sync
    /// now, the leader commits without the others. So none of the others is eligible any more.
    pub(super) fn without_eligible(&self) -> Vec<MetadataRecord> {
        let changed = self.places().filter(|place| !place.now.elr.is_empty()).filter_map(|place| {
            let PartitionImage { leader, isr, elr, .. } = place.now;
            self.change(place, Wanted { leader: *leader, isr: isr.clone(), elr: elr.clone() })
        });
        changed.collect()
    }

    /// What follows when partitions without a leader are looked at: one gets any replica that is
    /// alive, where its configs allow that. `by_default`: what holds where nothing was altered.
    #[must_use]
    pub fn unclean(&self, by_default: bool) -> Vec<MetadataRecord> {
        let leaderless = self.places().filter(|place| place.now.leader == -1);
        let allowed =
            leaderless.filter(|place| self.is_unclean_allowed(place.topic).unwrap_or(by_default));
        let elected = allowed.filter_map(|place| self.led_by(place, self.any_alive(place.now)?));
        elected.take(MAX_UNCLEAN).collect()
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place<'a>> {
        self.image.topics.iter().flat_map(|topic| {
            (0..).zip(&topic.partitions).map(move |(index, now)| Place { topic, index, now })
        })
    }

    /// What follows for one partition when the brokers `gone` leave it.
    pub(super) fn without(
        &self,
        place: Place<'_>,
        gone: &[i32],
        why: Leaving,
    ) -> Option<MetadataRecord> {
        let now = place.now;
        let mut isr: Vec<i32> = now.isr.iter().copied().filter(|id| !gone.contains(id)).collect();
        let mut elr = self.eligible(place, &isr);
        if why == Leaving::Restarted {
            elr.retain(|id| !gone.contains(id));
        }
        if isr.is_empty() && elr.is_empty() {
            isr.extend(last_standing(now));
        }
        let is_alive = |id: i32| (self.is_alive)(id) && !gone.contains(&id);
        let among_others = Elections { image: self.image, is_alive: &is_alive };
        let stays = among_others.can_lead(now, now.leader) && isr.contains(&now.leader);
        let next = PartitionImage { isr, elr, ..now.clone() };
        let leader = match stays {
            true => now.leader,
            false => among_others.elected(place.topic, &next),
        };
        among_others.record(place, PartitionImage { leader, ..next })
    }

    /// The eligible leader replicas beside the in-sync replicas `isr`.
    pub(super) fn eligible(&self, place: Place<'_>, isr: &[i32]) -> Vec<i32> {
        let Place { now, .. } = place;
        if isr.len() >= self.min_in_sync(place.topic, now) {
            return Vec::new();
        }
        let had_all = |id: &i32| now.isr.contains(id) || now.elr.contains(id);
        let replicas = now.replicas.iter().copied();
        replicas.filter(|id| had_all(id) && !isr.contains(id)).collect()
    }

    /// `min.insync.replicas`, or the replicas there are if it asks for more.
    fn min_in_sync(&self, topic: &TopicImage, partition: &PartitionImage) -> usize {
        let min = self.config(topic, MIN_INSYNC_REPLICAS);
        let min = min.and_then(|value| value.trim().parse().ok()).unwrap_or(1);
        partition.replicas.len().min(min)
    }

    /// Whether any replica may lead where no other can, if that was altered at run time. As in
    /// Kafka a value of the broker that is the controller counts.
    pub(super) fn is_unclean_allowed(&self, topic: &TopicImage) -> Option<bool> {
        let controller = ConfigResource::broker(self.image.controller_id);
        let of_controller = || self.image.configs_of(&controller)?.get(UNCLEAN);
        let value = topic.configs.get(UNCLEAN).or_else(of_controller);
        let value = value.map(String::as_str).or_else(|| self.config(topic, UNCLEAN))?;
        Some(value.trim().eq_ignore_ascii_case("true"))
    }

    fn config<'b>(&'b self, topic: &'b TopicImage, key: &str) -> Option<&'b str> {
        let of_cluster = || self.image.configs_of(&ConfigResource::cluster())?.get(key);
        topic.configs.get(key).or_else(of_cluster).map(String::as_str)
    }

    /// Whether a replica's broker serves, and can use the log directory of the replica.
    pub(super) fn can_lead(&self, partition: &PartitionImage, id: i32) -> bool {
        (self.is_alive)(id) && self.image.has_directory(partition, id)
    }

    /// Who may lead a partition as it is to be; -1 is none.
    fn elected(&self, topic: &TopicImage, next: &PartitionImage) -> i32 {
        let is_unclean = || self.is_unclean_allowed(topic) == Some(true);
        let elected = self.clean(next);
        elected.or_else(|| self.any_alive(next).filter(|_| is_unclean())).unwrap_or(-1)
    }

    /// The first replica that is alive and has every committed record.
    fn clean(&self, next: &PartitionImage) -> Option<i32> {
        let among = |ids: &[i32]| {
            let mut replicas = next.replicas.iter().copied();
            replicas.find(|id| ids.contains(id) && self.can_lead(next, *id))
        };
        among(&next.isr).or_else(|| among(&next.elr))
    }

    /// The first replica that is alive, one that has every committed record before all others.
    fn any_alive(&self, next: &PartitionImage) -> Option<i32> {
        let mut replicas = next.replicas.iter().copied();
        self.clean(next).or_else(|| replicas.find(|id| self.can_lead(next, *id)))
    }

    fn led_by(&self, place: Place<'_>, leader: i32) -> Option<MetadataRecord> {
        let (isr, elr) = (place.now.isr.clone(), place.now.elr.clone());
        self.change(place, Wanted { leader, isr, elr })
    }

    /// The record that gives a partition another leader, ISR and ELR, if they are others.
    pub(super) fn change(&self, place: Place<'_>, wanted: Wanted) -> Option<MetadataRecord> {
        let Wanted { leader, isr, elr } = wanted;
        self.record(place, PartitionImage { leader, isr, elr, ..place.now.clone() })
    }

    /// The record that gives a partition its new state, if that is another one. A reassignment
    /// whose new replicas are all in sync ends with it.
    pub(super) fn record(&self, place: Place<'_>, next: PartitionImage) -> Option<MetadataRecord> {
        let now = place.now;
        let mut next = end_reassignment(next);
        next.elr.retain(|id| next.replicas.contains(id));
        if next.leader != -1 && !next.replicas.contains(&next.leader) {
            next.leader = self.elected(place.topic, &next);
        }
        let leader = next.leader;
        if leader != -1 && !next.isr.contains(&leader) {
            // After an unclean election only the new leader is in sync.
            let is_eligible = next.elr.contains(&leader);
            next.isr.retain(|_| is_eligible);
            next.isr.push(leader);
            next.elr.retain(|id| is_eligible && *id != leader);
        }
        if next.isr.len() >= self.min_in_sync(place.topic, &next) {
            next.elr.clear();
        }
        next.last_leader = match (leader, now.leader) {
            (-1, -1) => now.last_leader,
            (-1, before) => before,
            _ => -1,
        };
        if next == *now {
            return None;
        }
        // A replica that leaves may come back before its broker knows of either, and delete its log
        // then. What it fetches in the epoch of before must not count.
        let has_left = now.replicas.iter().any(|id| !next.replicas.contains(id));
        if leader != now.leader || has_left {
            next.leader_epoch.0 += 1;
        }
        next.partition_epoch += 1;
        let partition = PartitionRecord::from(&next);
        let (topic_id, partition_index) = (place.topic.id, place.index);
        let change = PartitionChangeRecord { topic_id, partition_index, partition };
        Some(MetadataRecord::PartitionChange(change))
    }

    /// The preferred leader, if it can lead: its broker is alive, and it has every record.
    pub(super) fn preferred(&self, now: &PartitionImage) -> Option<i32> {
        let first = now.replicas.first().copied();
        first.filter(|id| now.isr.contains(id) && self.can_lead(now, *id))
    }

    /// Elects another leader for one partition, as a client asks.
    ///
    /// # Errors
    /// - `UnknownTopicOrPartition`: there is none
    /// - `ElectionNotNeeded`: the leader is as it shall be
    /// - `PreferredLeaderNotAvailable`, `EligibleLeadersNotAvailable`: no replica can take over
    pub fn elect(
        &self,
        topic: &str,
        index: i32,
        kind: ElectionKind,
    ) -> Result<MetadataRecord, ApiError> {
        let unknown = |message| ApiError::new(ErrorCode::UnknownTopicOrPartition, message);
        let found = self.image.topic(topic);
        let found = found.ok_or_else(|| unknown(format!("No such topic as {topic}")))?;
        let place = Place::of(found, index);
        let place =
            place.ok_or_else(|| unknown(format!("No such partition as {topic}-{index}")))?;
        let not_needed = || {
            let message = "Leader election not needed for topic partition.";
            ApiError::new(ErrorCode::ElectionNotNeeded, message)
        };
        let now = place.now;
        let leader = match kind {
            ElectionKind::Preferred => {
                if now.replicas.first() == Some(&now.leader) {
                    return Err(not_needed());
                }
                self.preferred(now).ok_or_else(|| {
                    let message = "The preferred leader was not available.";
                    ApiError::new(ErrorCode::PreferredLeaderNotAvailable, message)
                })?
            }
            ElectionKind::Named(id) if now.isr.contains(&id) && self.can_lead(now, id) => {
                if now.leader == id {
                    return self.led_again(place).ok_or_else(not_needed);
                }
                id
            }
            ElectionKind::Named(id) => {
                let message = format!("Broker {id} is no in-sync replica that is alive.");
                return Err(ApiError::new(ErrorCode::EligibleLeadersNotAvailable, message));
            }
            ElectionKind::Unclean => {
                if now.leader != -1 {
                    return Err(not_needed());
                }
                self.any_alive(now).ok_or_else(|| {
                    let message = "Failed to elect leader for partition as no eligible leader is \
                                   available.";
                    ApiError::new(ErrorCode::EligibleLeadersNotAvailable, message)
                })?
            }
        };
        self.led_by(place, leader).ok_or_else(not_needed)
    }

    /// The record that has the leader lead on in the next epoch.
    fn led_again(&self, place: Place<'_>) -> Option<MetadataRecord> {
        let mut next = place.now.clone();
        next.leader_epoch.0 += 1;
        self.record(place, next)
    }
}

/// The replica that is in sync when no other is known to have every committed record.
fn last_standing(now: &PartitionImage) -> Option<i32> {
    let had_all = |id: &&i32| now.isr.contains(id) || now.elr.contains(id);
    let leader = Some(&now.leader).filter(had_all).or(now.isr.last());
    // An eligible one left before the last leader did. That one may have come back uncleanly since.
    let last_leader = Some(&now.last_leader).filter(|id| now.replicas.contains(id));
    leader.or(last_leader).or(now.elr.last()).copied()
}

#[cfg(test)]
pub(super) mod tests;
