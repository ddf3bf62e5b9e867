//! What the controller decides of partitions and brokers: a plain model, for want of a machine in
//! production. Pure, as production's decisions are: an image and a roster go in, records come out.
//!
//! The model follows KRaft. A broker is fenced until its image has its own registration. A fenced
//! or restarted broker leaves every in-sync set. Eligible replicas are kept while the set is below
//! `min.insync.replicas` (KIP-966). A proposal names the state it was made from, and the broker
//! epochs of its members (KIP-903).

use super::{partition_image, place};
use crate::io::Settings;
use crate::message::AlterPartition;
use crate::planted::Planted;
use kafkalite_broker::metadata::records::{
    ListenerRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord,
};
use kafkalite_broker::metadata::{MetadataImage, PartitionImage};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// How a broker's session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its image does not have its registration yet.
    Fresh,
    /// It may lead.
    Live,
    /// It was silent for too long.
    Over,
}

/// The session of a broker's newest process.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The broker epoch.
    pub epoch: i64,
    /// When it was heard last, ms.
    pub heard_ms: u64,
    /// How it stands.
    pub standing: Standing,
}

/// What the controller knows beside the image.
#[derive(Debug, Default)]
pub struct Roster {
    /// By broker.
    pub sessions: BTreeMap<i32, Session>,
    /// The last replica that was in sync, where none is any more.
    pub last_in_sync: BTreeMap<usize, i32>,
}

impl Roster {
    fn stands(&self, broker: i32, standing: Standing) -> bool {
        self.sessions.get(&broker).is_some_and(|session| session.standing == standing)
    }

    /// Whether this broker may lead now.
    #[must_use]
    pub fn is_live(&self, broker: i32) -> bool {
        self.stands(broker, Standing::Live)
    }

    /// Follows the log: who was in sync last.
    pub fn note(&mut self, settings: &Settings, before: &MetadataImage, after: &MetadataImage) {
        for partition in settings.all() {
            let isr =
                |image| partition_image(image, settings, partition).map_or(&[][..], |now| &now.isr);
            if let (Some(last), []) = (isr(before).last(), isr(after)) {
                self.last_in_sync.insert(partition, *last);
            }
        }
    }
}

/// The process of a broker that registered last.
#[must_use]
pub fn registered(image: &MetadataImage, broker: i32) -> Option<u32> {
    let host = &image.brokers.get(&broker)?.host;
    host.rsplit_once('-').and_then(|(_, incarnation)| incarnation.parse().ok())
}

/// One decision, on one image.
pub struct Elections<'a> {
    /// The run.
    pub settings: &'a Settings,
    /// What is decided upon.
    pub image: &'a MetadataImage,
    /// Who is there.
    pub roster: &'a Roster,
}

impl Elections<'_> {
    fn partition(&self, partition: usize) -> Option<&PartitionImage> {
        partition_image(self.image, self.settings, partition)
    }

    /// A process of a broker starts. One that was not announced may have lost the end of its logs:
    /// it leaves every in-sync set, and may not be elected either.
    #[must_use]
    pub fn register(&self, broker: i32, incarnation: u32) -> Vec<MetadataRecord> {
        if registered(self.image, broker) == Some(incarnation) {
            return Vec::new();
        }
        let (name, host) = ("PLAINTEXT".to_owned(), format!("b{broker}-{incarnation}"));
        let mut records = vec![MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: broker,
            epoch: -1,
            listeners: vec![ListenerRecord { name, host, port: 9092 }],
            log_dirs: vec![Uuid([broker.unsigned_abs() as u8; 16])],
            ..RegisterBrokerRecord::default()
        })];
        if self.image.brokers.contains_key(&broker) {
            let outside = |id: i32| id == broker;
            records.extend(self.settings.all().filter_map(|at| self.without(at, outside, true)));
        }
        records
    }

    /// What follows from the sessions: those whose session is over leave, and a partition without a
    /// leader gets one if it can.
    #[must_use]
    pub fn balance(&self) -> Vec<MetadataRecord> {
        let outside = |id: i32| self.roster.stands(id, Standing::Over);
        self.settings.all().filter_map(|at| self.without(at, outside, false)).collect()
    }

    /// The partition without those `outside` in its in-sync set; with `forgets` they may not be
    /// elected either.
    fn without(
        &self,
        partition: usize,
        outside: impl Fn(i32) -> bool,
        forgets: bool,
    ) -> Option<MetadataRecord> {
        let now = self.partition(partition)?;
        let isr: Vec<i32> = now.isr.iter().copied().filter(|id| !outside(*id)).collect();
        let mut elr = self.eligible(now, &isr);
        if forgets {
            elr.retain(|id| !outside(*id));
        }
        let may_stay = |id: i32| self.roster.is_live(id) && !outside(id);
        let stays = may_stay(now.leader) && isr.contains(&now.leader);
        let leader = match stays {
            true => now.leader,
            false => self.elect(partition, now, &isr, &elr, may_stay),
        };
        self.write(partition, leader, isr, elr)
    }

    /// The eligible replicas beside the in-sync set `isr`: those that held every committed record
    /// when they left it, while the high watermark stands still.
    fn eligible(&self, now: &PartitionImage, isr: &[i32]) -> Vec<i32> {
        if isr.len() >= self.settings.min_isr {
            return Vec::new();
        }
        let all: BTreeSet<i32> = now.isr.iter().chain(&now.elr).copied().collect();
        all.into_iter().filter(|id| !isr.contains(id)).collect()
    }

    fn elect(
        &self,
        partition: usize,
        now: &PartitionImage,
        isr: &[i32],
        elr: &[i32],
        may_lead: impl Fn(i32) -> bool,
    ) -> i32 {
        let among = |set: &[i32]| {
            let mut replicas = now.replicas.iter().copied();
            replicas.find(|id| set.contains(id) && may_lead(*id))
        };
        // No other replica is known to have everything: the last one in sync has.
        let alone = isr.is_empty() && elr.is_empty();
        let known = self.roster.last_in_sync.get(&partition);
        let last = now.isr.last().or(known).copied();
        let last = last.filter(|id| alone && may_lead(*id));
        among(isr).or_else(|| among(elr)).or(last).unwrap_or(-1)
    }

    /// A partition's new state, if it is another one.
    fn write(
        &self,
        partition: usize,
        leader: i32,
        mut isr: Vec<i32>,
        mut elr: Vec<i32>,
    ) -> Option<MetadataRecord> {
        let now = self.partition(partition)?;
        if leader != -1 && !isr.contains(&leader) {
            isr.push(leader);
            elr.retain(|id| *id != leader);
        }
        if isr.len() >= self.settings.min_isr {
            elr.clear();
        }
        if leader == now.leader && isr == now.isr && elr == now.elr {
            return None;
        }
        let mut record = PartitionRecord::from(now);
        if leader != now.leader {
            record.leader_epoch += 1;
        }
        record.partition_epoch += 1;
        (record.leader, record.isr, record.elr) = (leader, isr, elr);
        let (topic, partition_index) = place(self.settings, partition);
        let topic_id = self.image.topic(topic)?.id;
        let change = PartitionChangeRecord { topic_id, partition_index, partition: record };
        Some(MetadataRecord::PartitionChange(change))
    }

    /// What a leader wants its in-sync replicas to be.
    ///
    /// # Errors
    /// Why they cannot be.
    pub fn alter(
        &self,
        broker: i32,
        alter: &AlterPartition,
        planted: Option<Planted>,
    ) -> Result<Option<MetadataRecord>, ErrorCode> {
        let now = self.partition(alter.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if planted != Some(Planted::StaleIsrAccepted) {
            if now.leader != broker || now.leader_epoch != alter.leader_epoch {
                return Err(ErrorCode::FencedLeaderEpoch);
            }
            if now.partition_epoch != alter.partition_epoch {
                return Err(ErrorCode::InvalidUpdateVersion);
            }
        }
        let may_join = |(id, epoch): &(i32, i64)| {
            let forgives = planted == Some(Planted::OldBrokerEpochAccepted);
            let session = self.roster.sessions.get(id);
            let session = session.filter(|session| session.standing == Standing::Live);
            session.is_some_and(|session| [session.epoch, -1].contains(epoch) || forgives)
        };
        if !alter.isr.iter().all(may_join) {
            return Err(ErrorCode::IneligibleReplica);
        }
        let isr: Vec<i32> = alter.isr.iter().map(|(id, _)| *id).collect();
        if isr == now.isr {
            return Ok(None);
        }
        let elr = self.eligible(now, &isr);
        Ok(self.write(alter.partition, now.leader, isr, elr))
    }

    /// Moves the leader to another live replica in sync, the `how`-th of those there are.
    #[must_use]
    pub fn move_leader(&self, partition: usize, how: usize) -> Option<MetadataRecord> {
        let now = self.partition(partition)?;
        let others = now.isr.iter().filter(|id| **id != now.leader && self.roster.is_live(**id));
        let others: Vec<i32> = others.copied().collect();
        let leader = *others.get(how % others.len().max(1))?;
        self.write(partition, leader, now.isr.clone(), now.elr.clone())
    }
}
