#![allow(clippy::unwrap_used)]

use super::*;
use crate::metadata::image::UNASSIGNED;

mod commits;

const ME: i32 = 1;
const DIRECTORY: Uuid = Uuid([5; 16]);
const NOW_MS: u64 = 5_000;
const LAG_MS: u64 = 100;
/// Every broker serves, or none.
const ALL: fn(i32, i64) -> bool = |_, _| true;
const NONE: fn(i32, i64) -> bool = |_, _| false;

fn image(leader: i32, epoch: i32, isr: &[i32]) -> PartitionImage {
    PartitionImage {
        leader,
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: 0,
        replicas: vec![1, 2, 3],
        isr: isr.to_vec(),
        directories: vec![DIRECTORY; 3],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        last_leader: -1,
    }
}

/// All of it on the disk.
fn end(offset: i64, epoch: i32, version: u64) -> LogEnd {
    let offset = Offset(offset);
    LogEnd { offset, durable: offset, epoch: LeaderEpoch(epoch), version }
}

/// A log that ends at 10, whose version is 1.
fn opened() -> PartitionState {
    PartitionState::new(ME, DIRECTORY, end(10, -1, 1), Offset(4))
}

/// Leads epoch 5 with a log that ends at 10; the version is 2.
fn leader(isr: &[i32]) -> PartitionState {
    let mut state = opened();
    state.follow_image(&image(ME, 5, isr), Some(end(10, 5, 2)));
    state
}

/// Replica `id` fetches from `offset`.
fn fetched(state: &mut PartitionState, id: i32, offset: i64) -> Option<Offset> {
    fetched_at(state, id, offset, NOW_MS)
}

fn fetched_at(state: &mut PartitionState, id: i32, offset: i64, now_ms: u64) -> Option<Offset> {
    state.follower_fetched(&fetch(id, 20, offset, now_ms), LAG_MS, ALL)
}

fn fetch(id: i32, broker_epoch: i64, offset: i64, now_ms: u64) -> FollowerFetch {
    let (offset, log_start) = (Offset(offset), Offset(2));
    FollowerFetch { id, broker_epoch, offset, log_start, now_ms }
}

fn members(isr: &[(i32, i64)]) -> Vec<IsrMember> {
    isr.iter()
        .map(|(id, broker_epoch)| IsrMember { id: *id, broker_epoch: *broker_epoch })
        .collect()
}

#[test]
fn alone_the_high_watermark_is_the_log_end() {
    let mut state = leader(&[ME]);
    assert_eq!(state.high_watermark(), Offset(10));
    assert_eq!(state.log_ended(end(12, 5, 3)), Some(Offset(12)));
    assert_eq!(state.log_ended(end(12, 5, 4)), None);
}

#[test]
fn the_high_watermark_is_the_lowest_end_of_the_in_sync_replicas() {
    let mut state = leader(&[ME, 2]);
    assert_eq!(state.high_watermark(), Offset(4));
    assert_eq!(fetched(&mut state, 2, 7), Some(Offset(7)));
    // Replica 3 is not in sync, so no request waits for it.
    assert_eq!(fetched(&mut state, 3, 5), None);
    assert_eq!(fetched(&mut state, 2, 10), Some(Offset(10)));
}

#[test]
fn a_smaller_in_sync_set_lets_the_high_watermark_pass() {
    let mut state = leader(&[ME, 2]);
    assert_eq!(state.follow_image(&image(ME, 5, &[ME]), None), Some(Offset(10)));
}

#[test]
fn a_fresh_leader_with_followers_is_catching_up_until_its_epoch_is_committed() {
    let mut state = leader(&[ME, 2]);
    assert!(state.is_catching_up());
    fetched(&mut state, 2, 10);
    assert!(!state.is_catching_up());
}

#[test]
fn a_leader_tells_how_far_its_followers_are() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 7);
    let told = |state: &PartitionState| {
        let mut followers = Vec::new();
        let ends = state.replication(|one| {
            followers.push((one.broker_id, one.in_sync, one.behind));
        });
        (ends.map(|ends| (ends.log_end_offset, ends.high_watermark)), followers)
    };
    let (ends, followers) = told(&state);
    assert_eq!(ends, Some((Offset(10), state.high_watermark())));
    assert!(followers.contains(&(2, true, Some(3))), "{followers:?}");
    assert!(followers.contains(&(3, false, None)), "it has not fetched: {followers:?}");
    state.follow_image(&image(2, 6, &[2, ME]), Some(end(10, 6, 3)));
    assert_eq!(told(&state), (None, vec![]), "it follows");
}

#[test]
fn a_stranger_that_fetches_moves_nothing() {
    assert_eq!(fetched(&mut leader(&[ME, 2]), 9, 10), None);
}

#[test]
fn an_older_image_changes_nothing() {
    let mut state = leader(&[ME]);
    assert_eq!(state.new_role(&image(2, 4, &[2])), None);
    state.follow_image(&image(2, 4, &[2]), None);
    assert!(state.is_leader());
}

#[test]
fn requests_are_fenced_by_epoch_and_leadership() {
    let led = leader(&[ME]);
    let mut followed = leader(&[ME]);
    followed.follow_image(&image(2, 6, &[2, ME]), Some(end(10, 6, 3)));
    for (state, claimed, outcome) in [
        (&led, LeaderEpoch::UNKNOWN, Ok(())),
        (&led, LeaderEpoch(5), Ok(())),
        (&led, LeaderEpoch(4), Err(ErrorCode::FencedLeaderEpoch)),
        (&led, LeaderEpoch(6), Err(ErrorCode::UnknownLeaderEpoch)),
        (&followed, LeaderEpoch::UNKNOWN, Err(ErrorCode::NotLeaderOrFollower)),
        (&followed, LeaderEpoch(5), Err(ErrorCode::FencedLeaderEpoch)),
    ] {
        assert_eq!(state.check_leader(claimed), outcome, "{claimed:?}");
    }
}

#[test]
fn truncation_takes_the_high_watermark_along() {
    let mut state = leader(&[ME]);
    state.follow_image(&image(2, 6, &[2]), Some(end(10, 6, 3)));
    state.log_ended(end(6, 6, 4));
    assert_eq!(state.high_watermark(), Offset(6));
}

#[test]
fn deleted_records_take_the_high_watermark_along() {
    let mut state = opened();
    assert_eq!(state.log_start_moved(Offset(6)), Some(Offset(6)));
    assert_eq!(state.log_start_moved(Offset(5)), None);
}

/// A thread that appended was overtaken by the truncation of the next epoch's follower: its end
/// was counted, and with it records that were gone.
#[test]
fn an_append_that_is_reported_late_does_not_undo_a_truncation() {
    let mut state = leader(&[ME]);
    let late = end(12, 5, 3);
    state.follow_image(&image(2, 6, &[2]), Some(end(12, 6, 4)));
    state.log_ended(end(7, 6, 5));
    assert_eq!(state.log_ended(late), None);
    assert_eq!(state.high_watermark(), Offset(7));
    let again = image(ME, 7, &[ME]);
    assert_eq!(state.follow_image(&again, Some(end(7, 7, 6))), None);
    assert_eq!(state.high_watermark(), Offset(7));
}

/// The same with `flush.messages=1`: the disk had had what was cut.
#[test]
fn a_flush_that_is_reported_late_does_not_undo_a_truncation() {
    let mut state = opened();
    state.set_rules(true, 1);
    let late = DurableEnd { offset: Offset(10), version: 2 };
    let cut = LogEnd { durable: Offset(6), ..end(6, 4, 3) };
    state.follow_image(&image(2, 4, &[2]), Some(cut));
    state.flushed(late);
    let leads = LogEnd { durable: Offset(6), ..end(9, 5, 5) };
    state.follow_image(&image(ME, 5, &[ME]), Some(leads));
    assert_eq!(state.high_watermark(), Offset(6), "three records are not on the disk");
    assert_eq!(state.flushed(DurableEnd { offset: Offset(9), version: 6 }), Some(Offset(9)));
}

/// A follower's append that is reported late brings the high watermark of an older leader.
#[test]
fn the_high_watermark_of_a_leader_counts_for_the_log_it_came_with() {
    let mut state = opened();
    state.follow_image(&image(2, 5, &[2]), Some(end(10, 5, 2)));
    assert_eq!(state.followed(end(14, 5, 3), Offset(12)), Some(Offset(12)));
    assert_eq!(state.followed(end(16, 5, 4), Offset(99)), Some(Offset(16)), "no further than here");
    state.log_ended(end(8, 5, 6));
    assert_eq!(state.followed(end(18, 5, 5), Offset(18)), None);
    assert_eq!(state.high_watermark(), Offset(8));
}

#[test]
fn whatever_the_order_of_telling_the_newest_end_counts() {
    let told = [end(11, 5, 3), end(12, 5, 4), end(15, 5, 7), end(13, 5, 5)];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    for order in orders {
        let mut state = leader(&[ME]);
        for at in order {
            state.log_ended(told[at]);
        }
        assert_eq!(state.high_watermark(), Offset(15), "{order:?}");
    }
}

#[test]
fn a_deleted_partition_has_no_leader() {
    let mut state = leader(&[ME]);
    state.vanish();
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(state.check_leader(LeaderEpoch::UNKNOWN), Err(unknown));
    assert_eq!(state.may_append(false).map_err(|refusal| refusal.code), Err(unknown));
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(state.commit_status(Offset(1), LeaderEpoch(5)), lost);
    assert_eq!(state.new_role(&image(ME, 9, &[ME])), None);
}

#[test]
fn an_in_sync_set_of_an_older_partition_epoch_changes_nothing() {
    let at = |partition_epoch, isr| PartitionImage { partition_epoch, ..image(ME, 5, isr) };
    let mut state = leader(&[ME]);
    state.follow_image(&at(3, &[ME, 2]), None);
    assert_eq!(state.follow_image(&at(2, &[ME]), None), None);
    state.log_ended(end(12, 5, 3));
    assert_eq!(state.high_watermark(), Offset(10), "replica 2 is waited for");
    assert_eq!(state.follow_image(&at(4, &[ME]), None), Some(Offset(12)));
}

#[test]
fn the_log_takes_a_new_role_with_a_new_leader_or_epoch_and_no_other_image() {
    let state = leader(&[ME]);
    let of = |image| state.new_role(&image);
    assert_eq!(of(image(ME, 5, &[ME, 2])), None, "other in-sync replicas");
    assert_eq!(of(image(ME, 6, &[ME])), Some(Role::Leader(LeaderEpoch(6))));
    assert_eq!(of(image(2, 6, &[2])), Some(Role::Follower(LeaderEpoch(6))));
    assert_eq!(of(image(-1, 6, &[ME])), Some(Role::Follower(LeaderEpoch(6))));
}

#[test]
fn while_a_proposal_is_on_its_way_both_in_sync_sets_are_waited_for() {
    let mut state = leader(&[ME]);
    fetched(&mut state, 2, 10);
    let proposal = state.expand_isr().unwrap();
    assert_eq!((proposal.leader_epoch, proposal.partition_epoch), (LeaderEpoch(5), 0));
    assert_eq!(state.propose_isr(members(&[(ME, -1), (2, 20), (3, 20)])), None, "one at a time");
    assert_eq!(state.log_ended(end(12, 5, 3)), None, "replica 2 may be in sync already");
    let older = IsrProposal { partition_epoch: -1, ..proposal.clone() };
    assert_eq!(state.isr_refused(&older), None, "the answer to another proposal");
    assert_eq!(state.isr_refused(&proposal), None, "replica 2 may join later");
    let late = NOW_MS + LAG_MS + 1;
    assert_eq!(state.look_at_lag((late, LAG_MS), |_| None, ALL), Some(Offset(12)));
}

#[test]
fn a_replica_that_a_proposal_takes_out_is_waited_for_until_the_image_has_it() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 10);
    state.propose_isr(members(&[(ME, -1)])).unwrap();
    assert_eq!(state.log_ended(end(12, 5, 3)), None);
    let accepted = PartitionImage { partition_epoch: 1, ..image(ME, 5, &[ME]) };
    assert_eq!(state.follow_image(&accepted, None), Some(Offset(12)));
    assert!(state.propose_isr(members(&[(ME, -1), (2, 20)])).is_some());
}

#[test]
fn only_a_leader_proposes_in_sync_replicas() {
    let mut state = leader(&[ME]);
    state.follow_image(&image(2, 6, &[2]), Some(end(10, 6, 3)));
    assert_eq!(state.propose_isr(members(&[(ME, -1)])), None);
}

/// KIP-966: a replica that is about to become in sync would otherwise do so without the records
/// that were committed meanwhile.
#[test]
fn a_replica_that_is_about_to_join_is_waited_for() {
    let mut state = leader(&[ME]);
    fetched(&mut state, 2, 10);
    assert_eq!(state.log_ended(end(12, 5, 3)), None);
    assert_eq!(fetched(&mut state, 2, 11), Some(Offset(11)));
    let late = NOW_MS + LAG_MS + 1;
    assert_eq!(fetched_at(&mut state, 2, 11, late), Some(Offset(12)), "it fell behind");
}

/// KIP-966: what is committed is in `min.insync.replicas` replicas.
#[test]
fn the_high_watermark_stands_still_below_min_insync_replicas() {
    let mut state = leader(&[ME]);
    state.set_rules(false, 2);
    assert_eq!(state.log_ended(end(12, 5, 3)), None);
    assert_eq!(state.high_watermark(), Offset(10));
    let few = state.may_append(true).map_err(|refusal| refusal.code);
    assert_eq!(few, Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(state.may_append(false).unwrap(), LeaderEpoch(5));
    fetched(&mut state, 2, 12);
    let joined = PartitionImage { partition_epoch: 1, ..image(ME, 5, &[ME, 2]) };
    assert_eq!(state.follow_image(&joined, None), Some(Offset(12)));
}

#[test]
fn min_insync_replicas_asks_for_no_more_replicas_than_there_are() {
    let mut state = opened();
    state.set_rules(false, 3);
    let alone = PartitionImage { replicas: vec![ME], ..image(ME, 5, &[ME]) };
    assert_eq!(state.follow_image(&alone, Some(end(10, 5, 2))), Some(Offset(10)));
    assert!(state.may_append(true).is_ok());
}

/// If the directory is lost before the note, its partition is made again without the records.
#[test]
fn nothing_is_acknowledged_before_the_directory_is_noted() {
    let noted_in = |directory| {
        let mut noted = image(ME, 5, &[ME]);
        noted.directories = vec![directory; 3];
        noted
    };
    let epoch = LeaderEpoch(5);
    for directory in [UNASSIGNED, Uuid([9; 16])] {
        let mut state = opened();
        state.follow_image(&noted_in(directory), Some(end(10, 5, 2)));
        assert_eq!(state.log_ended(end(12, 5, 3)), None);
        assert_eq!(state.commit_status(Offset(12), epoch), CommitStatus::Pending);
        assert_eq!(state.local_status(Offset(12), epoch), CommitStatus::Pending);
        assert_eq!(state.unassigned_directory(), Some(DIRECTORY));
        assert_eq!(state.follow_image(&noted_in(DIRECTORY), None), Some(Offset(12)));
        assert_eq!(state.commit_status(Offset(12), epoch), CommitStatus::Committed);
        assert_eq!(state.local_status(Offset(12), epoch), CommitStatus::Committed);
        assert_eq!(state.unassigned_directory(), None);
    }
}

#[test]
fn a_follower_that_has_caught_up_is_proposed_in_the_life_that_fetched() {
    let mut state = leader(&[ME]);
    state.log_ended(end(12, 5, 3));
    fetched(&mut state, 2, 11);
    assert_eq!(state.expand_isr(), None, "one record is missing");
    fetched(&mut state, 2, 12);
    let proposal = state.expand_isr().unwrap();
    assert_eq!(proposal.isr, members(&[(ME, -1), (2, 20)]));
    assert_eq!(state.expand_isr(), None, "it is on its way");
}

/// It may hold records of a former leader that no other replica has.
#[test]
fn a_follower_joins_no_earlier_than_with_the_first_record_of_the_epoch() {
    let mut state = opened();
    let with_two = PartitionImage { partition_epoch: 1, ..image(ME, 5, &[ME, 3]) };
    state.follow_image(&with_two, Some(end(10, 5, 2)));
    fetched(&mut state, 2, 9);
    assert_eq!(state.expand_isr(), None, "the high watermark is 4, the epoch began at 10");
    fetched(&mut state, 2, 10);
    assert!(state.expand_isr().is_some());
}

#[test]
fn a_follower_that_had_not_everything_for_long_leaves() {
    let mut state = leader(&[ME, 2, 3]);
    // A leader that begins knows nothing of them: their time begins with its first look.
    state.look_at_lag((NOW_MS, LAG_MS), |_| None, ALL);
    assert_eq!(state.shrink_isr(NOW_MS + LAG_MS, LAG_MS), None);
    fetched_at(&mut state, 2, 10, NOW_MS + 60);
    state.log_ended(end(12, 5, 3));
    // It has what the leader had at its last fetch, so it was up to date then.
    fetched_at(&mut state, 2, 10, NOW_MS + 90);
    let late = NOW_MS + LAG_MS + 1;
    let proposal = state.shrink_isr(late, LAG_MS).unwrap();
    assert_eq!(proposal.isr, members(&[(ME, -1), (2, 20)]));
}

/// Its session does not look at a partition that does not move, so no fetch of it comes in.
#[test]
fn a_follower_of_an_idle_partition_stays() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 10);
    let late = NOW_MS + 10 * LAG_MS;
    state.look_at_lag((late, LAG_MS), |_| Some(late - 1), ALL);
    assert_eq!(state.shrink_isr(late, LAG_MS), None);
    state.look_at_lag((late, LAG_MS), |_| None, ALL);
    assert!(state.shrink_isr(late + 2 * LAG_MS, LAG_MS).is_some());
}

#[test]
fn a_fetch_of_a_former_life_acknowledges_nothing() {
    let mut state = leader(&[ME, 2]);
    fetched(&mut state, 2, 6);
    let former = fetch(2, 19, 10, NOW_MS);
    assert_eq!(state.follower_fetched(&former, LAG_MS, ALL), None);
    assert_eq!(state.high_watermark(), Offset(6));
}

/// The controller would refuse it, and no request should wait for it.
#[test]
fn a_fenced_replica_that_fetches_is_not_waited_for() {
    let mut state = leader(&[ME]);
    let fetch = fetch(2, 20, 10, NOW_MS);
    state.follower_fetched(&fetch, LAG_MS, NONE);
    assert_eq!(state.expand_isr(), None);
    assert_eq!(state.log_ended(end(12, 5, 3)), Some(Offset(12)));
    let unfenced = |id, epoch| (id, epoch) == (2, 21);
    state.look_at_lag((NOW_MS, LAG_MS), |_| None, unfenced);
    assert_eq!(state.log_ended(end(13, 5, 4)), Some(Offset(13)), "another life serves");
}

#[test]
fn a_replica_that_is_fenced_while_it_joins_is_waited_for_no_more() {
    let mut state = leader(&[ME]);
    fetched(&mut state, 2, 10);
    assert_eq!(state.log_ended(end(12, 5, 3)), None);
    assert_eq!(state.look_at_lag((NOW_MS, LAG_MS), |_| None, NONE), Some(Offset(12)));
}

/// Its fetches do not name a partition that does not move, so none of them would bring it in.
#[test]
fn a_replica_of_a_quiet_partition_joins_when_it_serves() {
    let mut state = leader(&[ME]);
    state.follower_fetched(&fetch(2, 20, 10, NOW_MS), LAG_MS, NONE);
    let late = NOW_MS + 10 * LAG_MS;
    state.look_at_lag((late, LAG_MS), |_| Some(late - 1), ALL);
    assert_eq!(state.expand_isr().unwrap().isr, members(&[(ME, -1), (2, 20)]));
}

/// A broker that lost its disk fetches from the start, and its last life had everything.
#[test]
fn what_a_former_life_had_holds_no_request_back() {
    let mut state = leader(&[ME]);
    fetched(&mut state, 2, 10);
    state.follower_fetched(&fetch(2, 21, 0, NOW_MS), LAG_MS, ALL);
    assert_eq!(state.log_ended(end(12, 5, 3)), Some(Offset(12)));
    state.look_at_lag((NOW_MS, LAG_MS), |_| Some(NOW_MS), ALL);
    assert_eq!(state.log_ended(end(13, 5, 4)), Some(Offset(13)));
}

#[test]
fn records_are_deleted_when_every_replica_that_is_alive_deleted_them() {
    let mut state = leader(&[ME, 2]);
    let lowest = |state: &PartitionState, alive: bool| state.lowest_start(Offset(5), |_| alive);
    assert_eq!((lowest(&state, true), lowest(&state, false)), (Offset(-1), Offset(5)));
    assert_eq!([2, 3].map(|id| fetched(&mut state, id, 10)), [Some(Offset(10)), None]);
    let lowest = [2, 3].map(|id| {
        let later = FollowerFetch { log_start: Offset(6), ..fetch(id, 20, 10, NOW_MS) };
        let before = lowest(&state, true);
        state.follower_fetched(&later, LAG_MS, ALL);
        (before, lowest(&state, true))
    });
    assert_eq!(lowest, [(Offset(2), Offset(2)), (Offset(2), Offset(5))]);
}

#[test]
fn a_producer_hears_that_too_few_replicas_are_in_sync_by_now() {
    let epoch = LeaderEpoch(5);
    let mut state = leader(&[ME, 2]);
    state.set_rules(false, 2);
    fetched(&mut state, 2, 10);
    assert_eq!(state.produce_status(Offset(10), epoch), CommitStatus::Committed);
    let alone = PartitionImage { partition_epoch: 1, ..image(ME, 5, &[ME]) };
    state.follow_image(&alone, None);
    let few = CommitStatus::Lost(ErrorCode::NotEnoughReplicasAfterAppend);
    assert_eq!(state.produce_status(Offset(10), epoch), few);
    assert_eq!(state.commit_status(Offset(10), epoch), CommitStatus::Committed);
}
