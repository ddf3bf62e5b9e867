#![allow(clippy::unwrap_used)]

use super::super::configs::{ConfigChange, ConfigOperation, NoRules, alter_configs};
use super::super::in_sync::{IsrChange, IsrMember, alter_partitions};
use super::*;
use crate::metadata::records::{
    ControllerEpochRecord, CreateTopicRecord, ListenerRecord, RecordsBatch, RegisterBrokerRecord,
};
use kafkalite_protocol::{LeaderEpoch, Uuid};

pub(in crate::metadata::controller) const TOPIC: Uuid = Uuid([7; 16]);

/// Brokers 1, 2 and 3, each with a replica of partition 0 of topic `t`; who is alive.
pub(in crate::metadata::controller) struct Cluster {
    pub(in crate::metadata::controller) image: MetadataImage,
    alive: Vec<i32>,
}

impl Cluster {
    /// All are in sync, 1 leads, and `min.insync.replicas` is `min`.
    pub(in crate::metadata::controller) fn new(min: usize) -> Self {
        let mut cluster = Self { image: MetadataImage::default(), alive: vec![1, 2, 3] };
        let register = |id: i32| {
            let listener =
                ListenerRecord { name: "A".to_owned(), host: format!("b{id}"), port: 9092 };
            MetadataRecord::RegisterBroker(RegisterBrokerRecord {
                broker_id: id,
                epoch: i64::from(id) * 10,
                listeners: vec![listener],
                ..RegisterBrokerRecord::default()
            })
        };
        let mut records: Vec<MetadataRecord> = [1, 2, 3].map(register).into();
        let replicas = vec![1, 2, 3];
        let partition =
            PartitionRecord { leader: 1, isr: replicas.clone(), replicas, ..Default::default() };
        let (name, topic_id) = ("t".to_owned(), TOPIC);
        let topic =
            CreateTopicRecord { name, topic_id, partitions: vec![partition], configs: vec![] };
        records.push(MetadataRecord::CreateTopic(topic));
        let min = min.to_string();
        let cluster_wide = ConfigResource::cluster();
        records.push(MetadataRecord::set_config(&cluster_wide, MIN_INSYNC_REPLICAS, Some(&min)));
        cluster.commit(records);
        cluster
    }

    pub(in crate::metadata::controller) fn allow_unclean(&mut self) {
        let topic = ConfigResource::topic("t");
        self.commit(vec![MetadataRecord::set_config(&topic, UNCLEAN, Some("true"))]);
    }

    pub(in crate::metadata::controller) fn commit(&mut self, records: Vec<MetadataRecord>) {
        let base_offset = self.image.offset + 1;
        let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records };
        self.image = self.image.with_batch(&batch).unwrap();
    }

    pub(in crate::metadata::controller) fn decide<T>(
        &self,
        decide: impl FnOnce(&Elections<'_>) -> T,
    ) -> T {
        let is_alive = |id: i32| self.alive.contains(&id);
        decide(&Elections { image: &self.image, is_alive: &is_alive })
    }

    /// Broker `id` goes away, or begins again: then it is not alive before it has its metadata.
    pub(in crate::metadata::controller) fn leaves(&mut self, id: i32, why: Leaving) -> &mut Self {
        self.alive.retain(|alive| *alive != id);
        let records = self.decide(|elections| elections.leave(id, why));
        self.commit(records);
        self
    }

    pub(in crate::metadata::controller) fn comes(&mut self, id: i32) -> &mut Self {
        self.alive.push(id);
        let records = self.decide(|elections| elections.balance());
        self.commit(records);
        self
    }

    /// Leader, ISR and ELR.
    pub(in crate::metadata::controller) fn state(&self) -> (i32, Vec<i32>, Vec<i32>) {
        let now = self.image.partition("t", 0).unwrap();
        (now.leader, now.isr.clone(), now.elr.clone())
    }

    pub(in crate::metadata::controller) fn epochs(&self) -> (i32, i32) {
        let now = self.image.partition("t", 0).unwrap();
        (now.leader_epoch.0, now.partition_epoch)
    }

    /// What the leader of epoch `epochs.0` asks for, which knows partition epoch `epochs.1`.
    pub(in crate::metadata::controller) fn alter(
        &mut self,
        leader: i32,
        epochs: (i32, i32),
        isr: &[(i32, i64)],
    ) -> ErrorCode {
        let member =
            |(id, broker_epoch): &(i32, i64)| IsrMember { id: *id, broker_epoch: *broker_epoch };
        let change = IsrChange {
            topic_id: TOPIC,
            partition: 0,
            leader_epoch: LeaderEpoch(epochs.0),
            partition_epoch: epochs.1,
            isr: isr.iter().map(member).collect(),
        };
        let life = i64::from(leader) * 10;
        let (records, mut answers) =
            self.decide(|elections| alter_partitions(elections, leader, life, &[change]));
        self.commit(records);
        answers.pop().unwrap().map_or_else(|error| error.code, |()| ErrorCode::None)
    }
}

/// A value is kept as it was written, as in Kafka, and blanks around it mean nothing. It was taken
/// for 1: no replica was eligible, and one that restarted uncleanly led without its last records.
#[test]
fn blanks_around_min_insync_replicas_mean_nothing() {
    let mut cluster = Cluster::new(1);
    let topic = ConfigResource::topic("t");
    cluster.commit(vec![MetadataRecord::set_config(&topic, MIN_INSYNC_REPLICAS, Some(" 2 "))]);
    cluster.leaves(3, Leaving::Away);
    assert_eq!(cluster.leaves(2, Leaving::Away).state(), (1, vec![1], vec![2]));
}

#[test]
fn an_in_sync_replica_takes_over_in_the_order_of_the_replicas() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.leaves(1, Leaving::Away).state(), (2, vec![2, 3], vec![]));
    assert_eq!(cluster.epochs(), (1, 1));
    assert_eq!(cluster.leaves(3, Leaving::Away).state(), (2, vec![2], vec![]));
    assert_eq!(cluster.epochs(), (1, 2), "the leader stays in its epoch");
}

/// A stop before the follower is in sync left the partition without a leader.
#[test]
fn a_broker_that_stops_hands_over_and_leads_on_where_it_alone_is_in_sync() {
    let mut cluster = Cluster::new(1);
    let hand_over = |cluster: &mut Cluster| {
        let records = cluster.decide(|elections| elections.hand_over(1));
        cluster.commit(records);
        cluster.state()
    };
    let mut alone = Cluster::new(1);
    alone.leaves(2, Leaving::Away).leaves(3, Leaving::Away);
    assert_eq!(hand_over(&mut alone), (1, vec![1], vec![]));
    assert_eq!(hand_over(&mut cluster), (2, vec![2, 3], vec![]));
    assert_eq!(hand_over(&mut cluster), (2, vec![2, 3], vec![]), "it is done once");
    let mut followed = Cluster::new(1);
    followed.leaves(1, Leaving::Away).comes(1).leaves(3, Leaving::Away);
    assert_eq!(followed.alter(2, (1, 2), &[(2, 20), (1, 10)]), ErrorCode::None);
    assert_eq!(hand_over(&mut followed), (2, vec![2], vec![]), "a follower leaves the ISR");
}

/// KIP-966: they left while no record could be committed.
#[test]
fn replicas_that_leave_below_min_insync_replicas_stay_eligible() {
    let mut cluster = Cluster::new(2);
    cluster.leaves(3, Leaving::Away).leaves(2, Leaving::Away);
    assert_eq!(cluster.state(), (1, vec![1], vec![2]), "3 left while two others were in sync");
    assert_eq!(cluster.leaves(1, Leaving::Away).state(), (-1, vec![], vec![1, 2]));
    assert_eq!(cluster.comes(3).state(), (-1, vec![], vec![1, 2]), "it misses records");
    assert_eq!(cluster.comes(2).state(), (2, vec![2], vec![1]));
}

/// The last replica standing comes back without its records: another one has all that counts.
#[test]
fn a_replica_that_may_have_lost_records_is_not_elected_while_another_has_them() {
    let mut cluster = Cluster::new(2);
    cluster.leaves(3, Leaving::Away).leaves(2, Leaving::Away).leaves(1, Leaving::Restarted);
    assert_eq!(cluster.comes(1).state(), (-1, vec![], vec![2]));
    assert_eq!(cluster.comes(2).state(), (2, vec![2], vec![]));
}

/// The other one left the ISR before, and lost what it had at a power cut. Then it was the last one
/// to come back, and led: the leader's records were cut off.
#[test]
fn the_last_leader_leads_again_when_no_replica_is_sure_to_have_all() {
    let mut cluster = Cluster::new(2);
    cluster.leaves(3, Leaving::Away).leaves(2, Leaving::Away).leaves(1, Leaving::Away);
    assert_eq!(cluster.state(), (-1, vec![], vec![1, 2]));
    assert_eq!(cluster.leaves(1, Leaving::Restarted).state(), (-1, vec![], vec![2]));
    assert_eq!(cluster.leaves(2, Leaving::Restarted).state(), (-1, vec![1], vec![]));
    assert_eq!(cluster.comes(2).state(), (-1, vec![], vec![1]));
    assert_eq!(cluster.comes(1).state(), (1, vec![1], vec![]));
}

#[test]
fn the_last_replica_that_had_all_leads_again_if_no_other_has() {
    let mut cluster = Cluster::new(1);
    cluster.leaves(2, Leaving::Away).leaves(3, Leaving::Away).leaves(1, Leaving::Restarted);
    assert_eq!(cluster.state(), (-1, vec![1], vec![]));
    assert_eq!(cluster.comes(2).state(), (-1, vec![], vec![1]));
    assert_eq!(cluster.comes(1).state(), (1, vec![1], vec![]));
}

#[test]
fn an_unclean_leader_is_elected_only_where_that_is_allowed() {
    let mut cluster = Cluster::new(1);
    cluster.leaves(2, Leaving::Away).leaves(1, Leaving::Away).leaves(3, Leaving::Away);
    assert_eq!(cluster.state(), (-1, vec![], vec![3]));
    assert_eq!(cluster.comes(2).state().0, -1);
    cluster.allow_unclean();
    assert_eq!(cluster.comes(2).state(), (2, vec![2], vec![]));
}

/// The setting comes when the partition has no leader already. No broker comes or goes after it.
#[test]
fn a_partition_without_a_leader_gets_one_when_unclean_elections_become_allowed() {
    let of_topic = ConfigResource::topic("t");
    let of_controller = ConfigResource::broker(3);
    let (cluster_wide, of_other) = (ConfigResource::cluster(), ConfigResource::broker(2));
    // What was set, what the controller's files say, and who leads then.
    for (set, by_default, leader) in [
        (vec![], false, -1),
        (vec![], true, 2),
        (vec![(&of_topic, "true")], false, 2),
        (vec![(&of_topic, " TRUE")], false, 2),
        (vec![(&of_topic, "false")], true, -1),
        (vec![(&cluster_wide, "true")], false, 2),
        (vec![(&cluster_wide, "false")], true, -1),
        (vec![(&cluster_wide, "true"), (&of_topic, "false")], true, -1),
        (vec![(&of_controller, "true")], false, 2),
        (vec![(&of_controller, "false"), (&cluster_wide, "true")], true, -1),
        (vec![(&of_other, "true")], false, -1),
    ] {
        let mut cluster = Cluster::new(1);
        let record = ControllerEpochRecord { controller_id: 3, epoch: 2 };
        cluster.commit(vec![MetadataRecord::ControllerEpoch(record)]);
        cluster.leaves(2, Leaving::Away).leaves(1, Leaving::Away).leaves(3, Leaving::Away);
        assert_eq!(cluster.comes(2).state(), (-1, vec![], vec![3]));
        let records = set
            .iter()
            .map(|(resource, value)| MetadataRecord::set_config(resource, UNCLEAN, Some(value)));
        cluster.commit(records.collect());
        let records = cluster.decide(|elections| elections.unclean(by_default));
        cluster.commit(records);
        let (isr, elr) = if leader == 2 { (vec![2], vec![]) } else { (vec![], vec![3]) };
        assert_eq!(cluster.state(), (leader, isr, elr), "{set:?} {by_default}");
        let again = cluster.decide(|elections| elections.unclean(by_default));
        assert!(again.is_empty(), "nothing is left to do");
    }
}

/// A replica that is alive and has all records leads, also where it is not the first one.
#[test]
fn an_unclean_election_prefers_a_replica_that_lost_nothing() {
    for asked in [true, false] {
        let mut cluster = Cluster::new(1);
        cluster.leaves(2, Leaving::Away).leaves(1, Leaving::Away).leaves(3, Leaving::Away);
        // All are back, and no election has been held yet.
        cluster.alive = vec![1, 2, 3];
        let records = cluster.decide(|elections| match asked {
            true => vec![elections.elect("t", 0, ElectionKind::Unclean).unwrap()],
            false => elections.unclean(true),
        });
        cluster.commit(records);
        assert_eq!(cluster.state(), (3, vec![3], vec![]));
    }
}

#[test]
fn the_preferred_leader_leads_when_a_client_asks_for_it() {
    let elect = |cluster: &mut Cluster, kind| match cluster
        .decide(|elections| elections.elect("t", 0, kind))
    {
        Ok(record) => {
            cluster.commit(vec![record]);
            ErrorCode::None
        }
        Err(error) => error.code,
    };
    let mut cluster = Cluster::new(1);
    assert_eq!(elect(&mut cluster, ElectionKind::Preferred), ErrorCode::ElectionNotNeeded);
    cluster.leaves(1, Leaving::Away);
    let unavailable = ErrorCode::PreferredLeaderNotAvailable;
    assert_eq!(elect(&mut cluster, ElectionKind::Preferred), unavailable);
    cluster.comes(1);
    assert_eq!(elect(&mut cluster, ElectionKind::Preferred), unavailable, "not in sync yet");
    let epochs = cluster.epochs();
    assert_eq!(cluster.alter(2, epochs, &[(2, -1), (3, -1), (1, 10)]), ErrorCode::None);
    assert_eq!(elect(&mut cluster, ElectionKind::Preferred), ErrorCode::None);
    assert_eq!(cluster.state(), (1, vec![2, 3, 1], vec![]));
    let named = ErrorCode::EligibleLeadersNotAvailable;
    assert_eq!(elect(&mut cluster, ElectionKind::Named(4)), named, "no replica");
    let (epoch, _) = cluster.epochs();
    assert_eq!(elect(&mut cluster, ElectionKind::Named(3)), ErrorCode::None);
    assert_eq!(cluster.state(), (3, vec![2, 3, 1], vec![]));
    assert_eq!(elect(&mut cluster, ElectionKind::Named(3)), ErrorCode::None, "it leads on");
    assert_eq!(cluster.state(), (3, vec![2, 3, 1], vec![]));
    assert_eq!(cluster.epochs().0, epoch + 2, "each of them has an epoch");
    let unknown = cluster.decide(|elections| elections.elect("t", 1, ElectionKind::Preferred));
    assert_eq!(unknown.unwrap_err().code, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn in_sync_replicas_change_as_the_leader_asks_in_the_state_that_it_knows() {
    let mut cluster = Cluster::new(2);
    for (leader, epochs, isr, expected) in [
        (2, (0, 0), vec![(2, 20)], ErrorCode::FencedLeaderEpoch),
        (1, (1, 0), vec![(1, 10)], ErrorCode::FencedLeaderEpoch),
        (1, (0, 1), vec![(1, 10)], ErrorCode::InvalidUpdateVersion),
        (1, (0, 0), vec![(2, 20)], ErrorCode::InvalidRequest),
        (1, (0, 0), vec![(1, 10), (9, 90)], ErrorCode::InvalidRequest),
        (1, (0, 0), vec![(1, 10), (2, 19)], ErrorCode::IneligibleReplica),
        (1, (0, 0), vec![(1, 10), (2, -1)], ErrorCode::None),
        (1, (0, 0), vec![(1, 10)], ErrorCode::InvalidUpdateVersion),
        (1, (0, 1), vec![(1, 10)], ErrorCode::None),
    ] {
        assert_eq!(cluster.alter(leader, epochs, &isr), expected, "{leader} {epochs:?} {isr:?}");
    }
    assert_eq!(cluster.state(), (1, vec![1], vec![2]));
    assert_eq!(cluster.alter(1, (0, 2), &[(1, 10), (3, 30)]), ErrorCode::None);
    assert_eq!(cluster.state(), (1, vec![1, 3], vec![]));
}

#[test]
fn a_replica_that_is_away_does_not_join() {
    let mut cluster = Cluster::new(1);
    cluster.leaves(3, Leaving::Away);
    let epochs = cluster.epochs();
    let asked = [(1, 10), (2, 20), (3, 30)];
    assert_eq!(cluster.alter(1, epochs, &asked), ErrorCode::IneligibleReplica);
}

#[test]
fn a_former_life_of_a_leader_changes_nothing() {
    let cluster = Cluster::new(1);
    let change = IsrChange {
        topic_id: TOPIC,
        partition: 0,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        isr: vec![IsrMember { id: 1, broker_epoch: -1 }],
    };
    let decide = |epoch, changes: &[IsrChange]| {
        cluster.decide(|elections| alter_partitions(elections, 1, epoch, changes))
    };
    let (records, answers) = decide(9, std::slice::from_ref(&change));
    assert!(records.is_empty());
    assert_eq!(answers[0].as_ref().unwrap_err().code, ErrorCode::StaleBrokerEpoch);
    let (records, answers) = decide(10, &[change.clone(), change]);
    assert_eq!(records.len(), 1, "a partition that is named twice changes once");
    assert_eq!(answers[1].as_ref().unwrap_err().code, ErrorCode::InvalidUpdateVersion);
}

/// It left when two were asked for, and would come back without what the leader committed alone.
#[test]
fn no_replica_stays_eligible_where_the_leader_commits_without_it() {
    for resource in [ConfigResource::cluster(), ConfigResource::topic("t")] {
        let mut cluster = Cluster::new(2);
        cluster.leaves(3, Leaving::Away).leaves(2, Leaving::Away);
        let mut with_min = |min: &str| {
            let set = ConfigOperation::Set(min.to_owned());
            let operations = vec![(MIN_INSYNC_REPLICAS.to_owned(), set)];
            let change = ConfigChange { resource: resource.clone(), replace: false, operations };
            let (records, answers) = alter_configs(&cluster.image, &[change], &NoRules);
            answers.into_iter().for_each(|answer| answer.unwrap());
            cluster.commit(records);
            cluster.state()
        };
        assert_eq!(with_min("3"), (1, vec![1], vec![2]));
        assert_eq!(with_min("1"), (1, vec![1], vec![]));
        assert_eq!(with_min("2"), (1, vec![1], vec![]));
    }
}
