use super::*;

const MS: u64 = 1_000_000;

#[test]
fn bytes_of_one_second_may_be_had_at_once_and_more_is_paid_off() {
    let throttle = Throttle::default();
    throttle.record(1 << 40, 0);
    assert!(!throttle.is_exceeded(0), "there is no limit");
    throttle.limit(Some(1_000), 0);
    throttle.record(999, 0);
    assert!(!throttle.is_exceeded(0));
    throttle.record(5_001, 0);
    assert!(throttle.is_exceeded(0));
    assert!(throttle.is_exceeded(5_000 * MS));
    assert!(!throttle.is_exceeded(5_001 * MS));
    // Idle time is not saved up.
    assert!(!throttle.is_exceeded(60_000 * MS));
    throttle.record(1_000, 60_000 * MS);
    assert!(throttle.is_exceeded(60_000 * MS));
}

#[test]
fn no_more_than_ten_seconds_are_paid_off() {
    let throttle = Throttle::default();
    throttle.limit(Some(1_000), 0);
    for ms in 0..100 {
        throttle.record(1 << 20, ms * MS);
    }
    assert!(throttle.is_exceeded(10_000 * MS));
    assert!(!throttle.is_exceeded(10_101 * MS));
}

#[test]
fn a_slow_limit_counts_parts_of_a_byte() {
    let throttle = Throttle::default();
    throttle.limit(Some(1), 0);
    throttle.record(2, 0);
    for ms in 0..2_000 {
        assert!(throttle.is_exceeded(ms * MS), "{ms}");
    }
    assert!(!throttle.is_exceeded(2_000 * MS));
}

#[test]
fn a_limit_of_nothing_copies_nothing_and_the_largest_is_none() {
    let throttle = Throttle::default();
    throttle.limit(Some(0), 0);
    assert!(throttle.is_exceeded(1 << 60));
    throttle.limit(Some(u64::MAX), 0);
    throttle.record(1 << 50, 1);
    assert!(!throttle.is_exceeded(u64::MAX));
    throttle.limit(None, 0);
    assert!(!throttle.is_exceeded(0));
}

#[test]
fn the_same_limit_again_forgives_nothing() {
    let throttle = Throttle::default();
    throttle.limit(Some(10), 0);
    throttle.record(20, 0);
    throttle.limit(Some(10), 0);
    assert!(throttle.is_exceeded(0));
    throttle.limit(Some(11), 0);
    assert!(!throttle.is_exceeded(0));
}
