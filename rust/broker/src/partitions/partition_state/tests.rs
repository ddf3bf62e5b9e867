use super::*;

const ME: i32 = 1;

fn image(leader: i32, epoch: i32, isr: &[i32]) -> PartitionImage {
    PartitionImage {
        leader,
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: 0,
        replicas: vec![1, 2, 3],
        isr: isr.to_vec(),
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
    }
}

/// Leads epoch 5 with a log that ends at 10.
fn leader(isr: &[i32]) -> PartitionState {
    let mut state = PartitionState::new(ME, Offset(10), Offset(4));
    state.follow_image(&image(ME, 5, isr));
    state
}

#[test]
fn alone_the_high_watermark_is_the_log_end() {
    let mut state = leader(&[ME]);
    assert_eq!(state.high_watermark(), Offset(10));
    assert_eq!(state.log_grew(Offset(12)), Some(Offset(12)));
    assert_eq!(state.log_grew(Offset(12)), None);
}

#[test]
fn the_high_watermark_is_the_lowest_end_of_the_in_sync_replicas() {
    let mut state = leader(&[ME, 2]);
    assert_eq!(state.high_watermark(), Offset(4));
    assert_eq!(state.follower_fetched(2, Offset(7)), Some(Offset(7)));
    // Replica 3 is not in sync, and nobody waits for it.
    assert_eq!(state.follower_fetched(3, Offset(5)), None);
    assert_eq!(state.follower_fetched(2, Offset(10)), Some(Offset(10)));
}

#[test]
fn a_smaller_in_sync_set_lets_the_high_watermark_pass() {
    let mut state = leader(&[ME, 2]);
    assert_eq!(state.follow_image(&image(ME, 5, &[ME])), Some(Offset(10)));
}

#[test]
fn a_fresh_leader_with_followers_is_catching_up_until_its_epoch_is_committed() {
    let mut state = leader(&[ME, 2]);
    assert!(state.is_catching_up());
    state.follower_fetched(2, Offset(10));
    assert!(!state.is_catching_up());
}

#[test]
fn a_stranger_that_fetches_moves_nothing() {
    assert_eq!(leader(&[ME, 2]).follower_fetched(9, Offset(10)), None);
}

#[test]
fn an_older_image_changes_nothing() {
    let mut state = leader(&[ME]);
    state.follow_image(&image(2, 4, &[2]));
    assert!(state.is_leader());
}

#[test]
fn requests_are_fenced_by_epoch_and_leadership() {
    let led = leader(&[ME]);
    let mut followed = leader(&[ME]);
    followed.follow_image(&image(2, 6, &[2, ME]));
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
    state.log_truncated(Offset(6));
    assert_eq!(state.high_watermark(), Offset(6));
    assert_eq!(state.log_grew(Offset(8)), Some(Offset(8)));
}

#[test]
fn deleted_records_take_the_high_watermark_along() {
    let mut state = PartitionState::new(ME, Offset(10), Offset(4));
    assert_eq!(state.log_start_moved(Offset(6)), Some(Offset(6)));
    assert_eq!(state.log_start_moved(Offset(5)), None);
}
