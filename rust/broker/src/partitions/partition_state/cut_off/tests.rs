#![allow(clippy::unwrap_used)]

use super::*;
use crate::metadata::PartitionImage;
use crate::partitions::{CommitStatus, FollowerFetch};
use kafkalite_log::LogEnd;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};

const ME: i32 = 1;
const EPOCH: LeaderEpoch = LeaderEpoch(5);
const DIRECTORY: Uuid = Uuid([5; 16]);
const LIMIT_MS: u64 = 3_500;
const LOST: CommitStatus = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);

fn image(leader: i32, epoch: i32, isr: &[i32]) -> PartitionImage {
    PartitionImage {
        leader,
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: epoch,
        replicas: vec![1, 2, 3],
        isr: isr.to_vec(),
        directories: vec![DIRECTORY; 3],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
    }
}

/// Leads with a log that ends at 10.
fn leader(isr: &[i32]) -> PartitionState {
    let end = |version| {
        let offset = Offset(10);
        LogEnd { offset, durable: offset, epoch: EPOCH, version }
    };
    let mut state = PartitionState::new(ME, DIRECTORY, end(1), Offset(0));
    state.follow_image(&image(ME, 5, isr), Some(end(2)));
    state
}

fn fetched(state: &mut PartitionState, id: i32, offset: i64, now_ms: u64) {
    let (offset, log_start) = (Offset(offset), Offset(0));
    let fetch = FollowerFetch { id, broker_epoch: 20, offset, log_start, now_ms };
    state.follower_fetched(&fetch, 30_000, |_, _| true);
}

fn looks(state: &mut PartitionState, now_ms: u64) -> bool {
    state.look_at_silence((now_ms, Some(LIMIT_MS)), |_| None)
}

#[test]
fn a_leader_that_is_cut_off_from_a_replica_in_sync_sends_its_clients_away() {
    let mut state = leader(&[ME, 2, 3]);
    fetched(&mut state, 2, 10, 1_000);
    fetched(&mut state, 3, 7, 4_000);
    assert!(!looks(&mut state, 4_500), "replica 2 may be silent for so long");
    assert_eq!(state.produce_status(Offset(10), EPOCH), CommitStatus::Pending);
    assert!(looks(&mut state, 4_501));
    assert_eq!(state.produce_status(Offset(10), EPOCH), LOST);
    assert_eq!(state.produce_status(Offset(7), EPOCH), CommitStatus::Committed);
    for acks_all in [true, false] {
        let refused = state.may_append(acks_all).unwrap_err();
        assert_eq!((refused.code, refused.current_leader), (ErrorCode::NotLeaderOrFollower, None));
    }
    assert!(!looks(&mut state, 4_502), "nothing new");
}

#[test]
fn it_leads_on_when_the_controller_hears_it_or_the_replica_fetches() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 7, 0);
    assert!(looks(&mut state, 10_000));
    assert!(state.look_at_silence((10_001, None), |_| None), "the controller hears this broker");
    assert_eq!(state.may_append(true).unwrap(), EPOCH);
    assert!(looks(&mut state, 10_002));
    fetched(&mut state, 2, 8, 10_003);
    assert!(looks(&mut state, 10_004));
    assert_eq!(state.produce_status(Offset(10), EPOCH), CommitStatus::Pending);
}

#[test]
fn without_a_majority_a_leader_goes_on_as_long_as_its_replicas_fetch() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 10, 9_000);
    assert!(!looks(&mut state, 10_000));
    // The session of a follower that has everything does not look at a quiet partition.
    assert!(!state.look_at_silence((60_000, Some(LIMIT_MS)), |_| Some(59_000)));
}

#[test]
fn a_leader_alone_in_sync_and_one_that_began_just_now_lead_on() {
    let mut alone = leader(&[ME]);
    fetched(&mut alone, 2, 3, 0);
    assert!(!looks(&mut alone, 60_000), "no other one can lead");
    let mut new = leader(&[ME, 2]);
    assert!(!looks(&mut new, 60_000), "no time has begun yet");
    new.look_at_lag((60_000, 30_000), |_| None, |_, _| true);
    assert!(looks(&mut new, 63_501));
}

#[test]
fn another_epoch_begins_without_what_was_noted_of_the_former() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 10, 0);
    assert!(looks(&mut state, 10_000));
    state.follow_image(&image(2, 6, &[2]), None);
    assert!(!state.is_cut_off());
    assert_eq!(state.may_append(true).unwrap_err().current_leader, Some((2, 6)));
    state.follow_image(&image(ME, 7, &[ME, 2]), None);
    assert_eq!(state.may_append(true).unwrap(), LeaderEpoch(7));
}
