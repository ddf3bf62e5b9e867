//! A clock that a test moves forward while real time goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{Clock, NS_PER_MS};

/// Another clock, and how far it was moved.
pub struct MovedClock {
    inner: Arc<dyn Clock>,
    wall_ms: AtomicI64,
    monotonic_ns: AtomicU64,
    wakes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl MovedClock {
    /// `inner`, not moved yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        Self {
            inner,
            wall_ms: AtomicI64::new(0),
            monotonic_ns: AtomicU64::new(0),
            wakes: Mutex::default(),
        }
    }

    /// Moves wall time forward, and monotonic time too if `both` says so. Wakes no thread: see
    /// [`Self::wake`].
    pub fn advance_ms(&self, ms: u64, both: bool) {
        let wall_ms = i64::try_from(ms).unwrap_or(i64::MAX);
        // The caller's limit keeps both sums small.
        self.wall_ms.fetch_add(wall_ms, Ordering::SeqCst);
        if both {
            self.monotonic_ns.fetch_add(ms.saturating_mul(NS_PER_MS), Ordering::SeqCst);
        }
    }

    /// Wakes the threads that sleep until a time of this clock.
    pub fn wake(&self) {
        self.wakes.lock().iter().for_each(|wake| wake());
    }

    /// How far it was moved: wall time and monotonic time, in ms.
    #[must_use]
    pub fn ahead_ms(&self) -> (i64, u64) {
        let monotonic_ms = self.monotonic_ns.load(Ordering::SeqCst) / NS_PER_MS;
        (self.wall_ms.load(Ordering::SeqCst), monotonic_ms)
    }
}

impl Clock for MovedClock {
    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms().saturating_add(self.wall_ms.load(Ordering::Relaxed))
    }

    fn monotonic_ns(&self) -> u64 {
        self.inner.monotonic_ns().saturating_add(self.monotonic_ns.load(Ordering::Relaxed))
    }

    /// The clock below may be moved as well.
    fn on_advance(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let wake: Arc<dyn Fn() + Send + Sync> = wake.into();
        let below = Arc::clone(&wake);
        self.inner.on_advance(Box::new(move || below()));
        self.wakes.lock().push(Box::new(move || wake()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ManualClock;
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn wall_time_moves_alone_or_with_monotonic_time() {
        let below = Arc::new(ManualClock::new(1_000));
        let clock = MovedClock::new(below.clone());
        clock.advance_ms(500, false);
        assert_eq!((clock.wall_ms(), clock.monotonic_ms()), (1_500, 0));
        clock.advance_ms(500, true);
        assert_eq!((clock.wall_ms(), clock.monotonic_ms()), (2_000, 500));
        below.advance_ms(7);
        assert_eq!((clock.wall_ms(), clock.monotonic_ms()), (2_007, 507));
        assert_eq!(clock.ahead_ms(), (1_000, 500));
    }

    #[test]
    fn sleepers_wake_when_either_clock_is_moved() {
        let below = Arc::new(ManualClock::new(0));
        let clock = MovedClock::new(below.clone());
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&woken);
        clock.on_advance(Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        clock.advance_ms(1, true);
        clock.wake();
        below.advance_ms(1);
        assert_eq!(woken.load(Ordering::SeqCst), 2);
    }
}
