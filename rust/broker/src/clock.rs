//! Time, handed in: nothing in the broker asks the operating system for it anywhere else.
//!
//! Wall time (milliseconds since the Unix epoch, may jump) is for record timestamps and retention.
//! Monotonic time (nanoseconds since an arbitrary start, never goes back) is for deadlines and
//! durations. A test holds a [`ManualClock`] and moves it. A thread that sleeps until a deadline
//! registers with [`Clock::on_advance`]. So a move of the clock wakes the thread as real time
//! would.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

mod moved;
#[cfg(test)]
mod tests;

pub use moved::MovedClock;

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch, UTC.
    fn wall_ms(&self) -> i64;

    /// Nanoseconds since an arbitrary start; never decreases.
    fn monotonic_ns(&self) -> u64;

    /// Milliseconds since that same start, rounded down.
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / NS_PER_MS
    }

    /// Calls `wake` whenever time was moved by hand. Real time needs no call: sleepers time out.
    fn on_advance(&self, wake: Box<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        // A machine set before 1970 is treated as standing at the epoch.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        // 2^64 ns are 584 years of uptime.
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until a test moves it.
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ns: AtomicU64,
    wakes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl ManualClock {
    /// A clock showing `wall_ms`, its monotonic time at zero.
    #[must_use]
    pub fn new(wall_ms: i64) -> Self {
        Self {
            wall_ms: AtomicI64::new(wall_ms),
            monotonic_ns: AtomicU64::new(0),
            wakes: Mutex::new(Vec::new()),
        }
    }

    /// Moves both times forward by `ms` milliseconds and wakes every registered sleeper.
    pub fn advance_ms(&self, ms: u64) {
        self.wall_ms.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX), Ordering::SeqCst);
        self.monotonic_ns.fetch_add(ms.saturating_mul(NS_PER_MS), Ordering::SeqCst);
        for wake in self.wakes.lock().iter() {
            wake();
        }
    }

    /// Sets the wall time alone, as an administrator or NTP may; monotonic time does not move.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(Ordering::SeqCst)
    }

    fn on_advance(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.wakes.lock().push(wake);
    }
}
