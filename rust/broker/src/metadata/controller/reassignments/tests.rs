#![allow(clippy::unwrap_used)]

use super::super::elections::Leaving;
use super::super::elections::tests::Cluster;
use super::*;
use crate::metadata::image::Assignment;

/// Replicas of the partition are to be on these brokers, or where they were.
fn reassign(cluster: &mut Cluster, replicas: Option<&[i32]>) -> ErrorCode {
    let asked = asked("t", 0, replicas);
    match cluster.decide(|elections| elections.reassign(&asked, true)) {
        Ok(record) => {
            cluster.commit(record.into_iter().collect());
            ErrorCode::None
        }
        Err(error) => error.code,
    }
}

fn asked(topic: &str, partition: i32, replicas: Option<&[i32]>) -> Reassignment {
    Reassignment { topic: topic.into(), partition, replicas: replicas.map(<[i32]>::to_vec) }
}

/// Replicas, and which of them come and go.
fn moving(cluster: &Cluster) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let now = cluster.image.partition("t", 0).unwrap();
    (now.replicas.clone(), now.adding_replicas.clone(), now.removing_replicas.clone())
}

/// One replica, on broker 1.
fn alone() -> Cluster {
    let mut cluster = Cluster::new(1);
    assert_eq!(reassign(&mut cluster, Some(&[1])), ErrorCode::None);
    assert_eq!(cluster.state(), (1, vec![1], vec![]), "nothing has to be copied for that");
    assert_eq!(moving(&cluster), (vec![1], vec![], vec![]));
    cluster
}

#[test]
fn old_replicas_go_when_all_new_ones_are_in_sync() {
    let mut cluster = alone();
    assert_eq!(reassign(&mut cluster, Some(&[2, 3])), ErrorCode::None);
    let under_way = (vec![2, 3, 1], vec![2, 3], vec![1]);
    assert_eq!((moving(&cluster), cluster.state().0), (under_way.clone(), 1));
    let now = cluster.image.partition("t", 0).unwrap();
    assert_eq!(now.assignment(1), Assignment::Unknown);
    assert_eq!(now.assignment(2), Assignment::Unassigned, "its broker chooses a directory");
    let epochs = cluster.epochs();
    assert_eq!(cluster.alter(1, epochs, &[(1, 10), (2, 20)]), ErrorCode::None);
    assert_eq!(moving(&cluster), under_way);
    let epochs = cluster.epochs();
    assert_eq!(cluster.alter(1, epochs, &[(1, 10), (2, 20), (3, 30)]), ErrorCode::None);
    assert_eq!(moving(&cluster), (vec![2, 3], vec![], vec![]));
    assert_eq!(cluster.state(), (2, vec![2, 3], vec![]));
    assert_eq!(cluster.epochs(), (epochs.0 + 1, epochs.1 + 1));
}

#[test]
fn a_leader_that_stays_leads_on() {
    let mut cluster = Cluster::new(1);
    assert_eq!(reassign(&mut cluster, Some(&[2, 1])), ErrorCode::None);
    assert_eq!(moving(&cluster), (vec![2, 1], vec![], vec![]));
    assert_eq!((cluster.state(), cluster.epochs().0), ((1, vec![1, 2], vec![]), 1));
    let before = cluster.image.clone();
    assert_eq!(reassign(&mut cluster, Some(&[2, 1])), ErrorCode::None);
    assert_eq!(before.topics, cluster.image.topics, "it is there already");
}

/// Its broker may see both changes late, and delete its log then. What it fetched from its old
/// log in the same epoch put it in sync.
#[test]
fn a_replica_that_goes_and_comes_back_has_to_fetch_in_a_new_epoch() {
    let mut cluster = Cluster::new(1);
    reassign(&mut cluster, Some(&[1, 2]));
    assert_eq!(cluster.epochs(), (1, 1));
    reassign(&mut cluster, Some(&[1, 2, 3]));
    assert_eq!((cluster.state(), cluster.epochs()), ((1, vec![1, 2], vec![]), (1, 2)));
    reassign(&mut cluster, None);
    assert_eq!((cluster.state(), cluster.epochs()), ((1, vec![1, 2], vec![]), (2, 3)));
}

#[test]
fn a_cancelled_reassignment_leaves_the_old_replicas() {
    let mut cluster = alone();
    reassign(&mut cluster, Some(&[2, 3]));
    let epochs = cluster.epochs();
    cluster.alter(1, epochs, &[(1, 10), (2, 20)]);
    assert_eq!(reassign(&mut cluster, None), ErrorCode::None);
    assert_eq!(moving(&cluster), (vec![1], vec![], vec![]));
    assert_eq!(cluster.state(), (1, vec![1], vec![]));
    assert_eq!(reassign(&mut cluster, None), ErrorCode::NoReassignmentInProgress);
}

#[test]
fn a_cancellation_that_could_lose_records_has_to_be_allowed() {
    let mut cluster = alone();
    reassign(&mut cluster, Some(&[2, 3]));
    let epochs = cluster.epochs();
    cluster.alter(1, epochs, &[(1, 10), (2, 20)]);
    cluster.leaves(1, Leaving::Away);
    assert_eq!(cluster.state().0, 2);
    assert_eq!(reassign(&mut cluster, None), ErrorCode::InvalidReplicaAssignment);
    cluster.allow_unclean();
    assert_eq!(reassign(&mut cluster, None), ErrorCode::None);
    assert_eq!((moving(&cluster).0, cluster.state().0), (vec![1], -1));
    assert_eq!(cluster.comes(1).state(), (1, vec![1], vec![]));
}

#[test]
fn a_later_target_takes_the_place_of_an_earlier_one() {
    let mut cluster = alone();
    reassign(&mut cluster, Some(&[2]));
    assert_eq!(reassign(&mut cluster, Some(&[3])), ErrorCode::None);
    assert_eq!(moving(&cluster), (vec![3, 1, 2], vec![3], vec![1, 2]));
    assert_eq!(reassign(&mut cluster, Some(&[2, 3])), ErrorCode::None);
    assert_eq!(moving(&cluster).2, [1]);
    assert_eq!(reassign(&mut cluster, Some(&[1])), ErrorCode::None);
    assert_eq!(moving(&cluster), (vec![1], vec![], vec![]), "the target is what there was");
}

#[test]
fn a_reassignment_that_cannot_be_is_refused() {
    let cluster = alone();
    let refusal = |asked: &Reassignment, may_resize| {
        let decided = cluster.decide(|elections| elections.reassign(asked, may_resize));
        decided.unwrap_err().code
    };
    let (unknown, invalid) =
        (ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidReplicaAssignment);
    for (asked, expected) in [
        (asked("u", 0, Some(&[1])), unknown),
        (asked("t", 1, Some(&[1])), unknown),
        (asked("t", 0, Some(&[])), invalid),
        (asked("t", 0, Some(&[2, 2])), invalid),
        (asked("t", 0, Some(&[9])), invalid),
        (asked("t", 0, Some(&[2, 3])), ErrorCode::InvalidReplicationFactor),
        (asked("t", 0, None), ErrorCode::NoReassignmentInProgress),
    ] {
        assert_eq!(refusal(&asked, false), expected, "{asked:?}");
    }
}
