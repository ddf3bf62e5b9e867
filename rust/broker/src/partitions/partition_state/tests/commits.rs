//! What becomes of an appended batch.

use super::*;

#[test]
fn a_batch_is_committed_in_the_epoch_in_which_it_was_appended_or_lost() {
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    let epoch = LeaderEpoch(5);
    let mut state = leader(&[ME, 2]);
    state.log_ended(end(12, 5, 3));
    assert_eq!(state.commit_status(Offset(12), epoch), CommitStatus::Pending);
    fetched(&mut state, 2, 11);
    assert_eq!(state.commit_status(Offset(12), epoch), CommitStatus::Pending);
    assert_eq!(state.commit_status(Offset(11), epoch), CommitStatus::Committed);
    assert_eq!(state.commit_status(Offset(11), LeaderEpoch(4)), lost);
    // Truncated and refilled by others: the high watermark says nothing of the batch.
    state.follow_image(&image(2, 6, &[2]), Some(end(12, 6, 4)));
    assert_eq!(state.commit_status(Offset(11), epoch), lost);
    state.log_ended(end(5, 6, 5));
    state.followed(end(20, 6, 6), Offset(20));
    assert_eq!(state.commit_status(Offset(12), epoch), lost);
    state.follow_image(&image(ME, 7, &[ME]), Some(end(20, 7, 7)));
    assert_eq!(state.commit_status(Offset(12), epoch), lost);
    assert_eq!(state.commit_status(Offset(20), LeaderEpoch(7)), CommitStatus::Committed);
}

#[test]
fn nothing_is_promised_while_only_the_log_has_another_role() {
    let mut state = leader(&[ME]);
    let status = |state: &PartitionState| state.commit_status(Offset(10), LeaderEpoch(5));
    assert_eq!(status(&state), CommitStatus::Committed);
    // Told before the image is followed.
    state.log_ended(end(10, 6, 3));
    assert_eq!(status(&state), CommitStatus::Pending);
    state.follow_image(&image(2, 6, &[2]), None);
    assert_eq!(status(&state), CommitStatus::Lost(ErrorCode::NotLeaderOrFollower));
}

/// A reassignment raises the epoch of a leader that stays. A producer that sends a batch once more
/// would have it twice.
#[test]
fn a_batch_is_committed_by_a_leader_that_leads_on_in_the_next_epoch() {
    let mut state = leader(&[ME, 2]);
    state.log_ended(end(12, 5, 3));
    let status = |state: &PartitionState| state.commit_status(Offset(12), LeaderEpoch(5));
    fetched(&mut state, 2, 11);
    state.log_ended(end(12, 6, 4));
    state.follow_image(&image(ME, 6, &[ME, 2]), None);
    assert_eq!(status(&state), CommitStatus::Pending);
    fetched(&mut state, 2, 12);
    assert_eq!(status(&state), CommitStatus::Committed);
    // Another broker may have led in epoch 7.
    state.follow_image(&image(ME, 8, &[ME, 2]), Some(end(12, 8, 5)));
    assert_eq!(status(&state), CommitStatus::Lost(ErrorCode::NotLeaderOrFollower));
}

#[test]
fn a_batch_for_acks_1_waits_for_the_disk_only_where_the_disk_is_asked_for() {
    let mut state = leader(&[ME, 2]);
    let unflushed = LogEnd { durable: Offset(10), ..end(12, 5, 3) };
    state.log_ended(unflushed);
    let epoch = LeaderEpoch(5);
    assert_eq!(state.local_status(Offset(12), epoch), CommitStatus::Committed);
    state.set_rules(true, 1);
    assert_eq!(state.local_status(Offset(12), epoch), CommitStatus::Pending);
    state.flushed(DurableEnd { offset: Offset(12), version: 4 });
    assert_eq!(state.local_status(Offset(12), epoch), CommitStatus::Committed);
    state.follow_image(&image(2, 6, &[2]), Some(end(12, 6, 5)));
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(state.local_status(Offset(12), epoch), lost);
}
