//! Log directories that fail while their broker serves.

use super::super::super::elections::ElectionKind;
use super::super::super::elections::tests::{Cluster, TOPIC};
use super::*;
use crate::metadata::records::UnregisterBrokerRecord;
use kafkalite_protocol::ErrorCode;

const GOOD: Uuid = Uuid([8; 16]);
const FAILED: Uuid = Uuid([9; 16]);

/// Broker `id` registers, and can use these directories.
fn registers(cluster: &mut Cluster, id: i32, online_dirs: &[Uuid]) {
    let known = &cluster.image.brokers[&id];
    let online_dirs = online_dirs.to_vec();
    let known = BrokerImage { online_dirs, log_dirs: vec![GOOD, FAILED], ..known.clone() };
    cluster.commit(vec![MetadataRecord::RegisterBroker(known.record())]);
}

/// As [`Cluster::new`]; the replica on broker `id` is in the directory that fails.
fn cluster(min: usize, id: i32) -> Cluster {
    let mut cluster = Cluster::new(min);
    registers(&mut cluster, id, &[GOOD, FAILED]);
    let noted = ReplicaDirectories::from([(TOPIC, BTreeMap::from([(0, FAILED)]))]);
    let records = assign_replicas(&cluster.image, id, &noted);
    assert_eq!(records.len(), 1);
    cluster.commit(records);
    cluster
}

fn fails(cluster: &mut Cluster, id: i32, directory: Uuid) -> (i32, Vec<i32>, Vec<i32>) {
    let records = fail_directory(&cluster.image, id, directory).unwrap();
    cluster.commit(records);
    assert_eq!(fail_directory(&cluster.image, id, directory), Ok(vec![]), "it is noted once");
    cluster.state()
}

/// A broker whose disk failed stayed the leader, and nothing could be written.
#[test]
fn another_replica_leads_in_the_place_of_a_failed_disk_if_one_can() {
    let mut led = cluster(1, 1);
    assert_eq!(fails(&mut led, 1, GOOD), (1, vec![1, 2, 3], vec![]));
    let mut led = cluster(1, 1);
    assert_eq!(fails(&mut led, 1, FAILED), (2, vec![2, 3], vec![]));
    // Where no other one has all records, none leads until the disk is back.
    let mut alone = cluster(1, 1);
    alone.leaves(2, Leaving::Away).leaves(3, Leaving::Away);
    assert_eq!(fails(&mut alone, 1, FAILED), (-1, vec![], vec![1]));
    assert_eq!(alone.comes(2).state(), (-1, vec![], vec![1]));
    assert_eq!(alone.comes(1).state(), (-1, vec![], vec![1]), "its disk is not back");
    registers(&mut alone, 1, &[GOOD, FAILED]);
    assert_eq!(alone.comes(1).state(), (1, vec![1], vec![]));
}

/// It was elected, answered that its disk failed, and no election was needed in its place.
#[test]
fn an_eligible_replica_is_not_elected_while_its_disk_is_away() {
    let mut cluster = cluster(2, 2);
    cluster.leaves(3, Leaving::Away);
    assert_eq!(fails(&mut cluster, 2, FAILED), (1, vec![1], vec![2]));
    assert_eq!(cluster.leaves(1, Leaving::Away).state(), (-1, vec![], vec![1, 2]));
    cluster.leaves(1, Leaving::Restarted);
    assert_eq!(cluster.comes(1).state(), (-1, vec![], vec![2]));
    let elect = |elections: &Elections<'_>| elections.elect("t", 0, ElectionKind::Unclean);
    let elected = cluster.decide(elect).unwrap();
    cluster.commit(vec![elected]);
    assert_eq!(cluster.state(), (1, vec![1], vec![]));
}

/// The leader does not know it yet, and asks with what the follower fetched before.
#[test]
fn a_replica_on_a_failed_disk_does_not_join_the_in_sync_replicas() {
    let mut cluster = cluster(1, 2);
    cluster.leaves(2, Leaving::Away).comes(2);
    assert_eq!(fails(&mut cluster, 2, FAILED), (1, vec![1, 3], vec![]));
    let (epochs, asked) = (cluster.epochs(), [(1, 10), (3, 30), (2, 20)]);
    assert_eq!(cluster.alter(1, epochs, &asked), ErrorCode::IneligibleReplica);
}

/// An empty list means that the broker did not say what it can use.
#[test]
fn a_broker_whose_last_directory_fails_leads_nothing_that_was_in_it() {
    let mut cluster = cluster(1, 1);
    registers(&mut cluster, 1, &[FAILED]);
    assert_eq!(fails(&mut cluster, 1, FAILED), (2, vec![2, 3], vec![]));
    let partition = cluster.image.partition("t", 0).unwrap();
    assert!(!cluster.image.has_directory(partition, 1));
    let mut silent = self::cluster(1, 1);
    registers(&mut silent, 1, &[]);
    assert_eq!(fails(&mut silent, 1, FAILED), (2, vec![2, 3], vec![]));
    assert_eq!(silent.image.brokers[&1].online_dirs, [GOOD]);
}

/// Only those of brokers that are not there were offline.
#[test]
fn replicas_on_disks_that_failed_or_are_away_are_offline() {
    let offline = |cluster: &Cluster| {
        cluster.image.offline_replicas(cluster.image.partition("t", 0).unwrap())
    };
    let mut cluster = cluster(1, 2);
    assert_eq!(offline(&cluster), [0; 0]);
    fails(&mut cluster, 2, FAILED);
    assert_eq!(offline(&cluster), [2]);
    registers(&mut cluster, 2, &[GOOD]);
    assert_eq!(offline(&cluster), [2], "it began without the disk");
    let before = &cluster.image.brokers[&3];
    let fenced = BrokerImage { fenced: true, ..before.clone() };
    cluster.commit(vec![MetadataRecord::RegisterBroker(fenced.record())]);
    assert_eq!(offline(&cluster), [2, 3]);
}

/// It registers again without an election. Its clients hear from it that the disk failed.
#[test]
fn a_broker_without_company_leads_on_when_a_disk_fails() {
    let mut cluster = cluster(1, 1);
    let left = |id: i32| {
        let epoch = i64::from(id) * 10;
        MetadataRecord::UnregisterBroker(UnregisterBrokerRecord { broker_id: id, epoch })
    };
    cluster.leaves(2, Leaving::Away).leaves(3, Leaving::Away);
    cluster.commit(vec![left(2), left(3)]);
    assert_eq!(fails(&mut cluster, 1, FAILED), (1, vec![1], vec![]));
    let partition = cluster.image.partition("t", 0).unwrap();
    assert_eq!(cluster.image.offline_replicas(partition), [1, 2, 3]);
}
