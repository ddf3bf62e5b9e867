//! The manual clock moves only by hand, and tells its sleepers.

use std::sync::Arc;

use super::*;

#[test]
fn advancing_moves_both_times_and_wakes_every_sleeper() {
    let clock = ManualClock::new(1_000);
    let woken = Arc::new(AtomicU64::new(0));
    for _ in 0..2 {
        let woken = Arc::clone(&woken);
        clock.on_advance(Box::new(move || {
            woken.fetch_add(1, Ordering::SeqCst);
        }));
    }
    clock.advance_ms(5);
    assert_eq!((clock.wall_ms(), clock.monotonic_ms()), (1_005, 5));
    assert_eq!(woken.load(Ordering::SeqCst), 2);
}

#[test]
fn setting_the_wall_time_leaves_monotonic_time_alone() {
    let clock = ManualClock::new(1_000);
    clock.advance_ms(7);
    clock.set_wall_ms(-3);
    assert_eq!((clock.wall_ms(), clock.monotonic_ms()), (-3, 7));
}
