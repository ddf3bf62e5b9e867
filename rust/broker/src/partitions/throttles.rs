//! How many bytes a second are copied of throttled replicas that are behind, and of those that move
//! between log directories.
//!
//! A reassignment copies whole partitions, and an operator limits it on both sides: what a leader
//! sends, and what a follower fetches. Topics list the replicas that are meant. One that is in sync
//! is never held up, though its bytes count.
//!
//! Kafka compares the rate of the last 10 seconds with the limit. Here the bytes of one second may
//! be had at once. After more, nothing is copied until the time for them has passed, but no longer
//! than 10 seconds. So the rate is the same over time, without a burst when a limit begins. What
//! replicas in sync have had does not hold up the others for minutes.
//! Source: Kafka's `ReplicationQuotaManager`; KIP-73.

use crate::config::Throttled;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const SECOND_NS: u64 = 1_000_000_000;

/// So many seconds' bytes are paid off at most: Kafka's window forgets what is older.
const MOST_OWED_S: i64 = 10;

/// The directions in which this broker copies.
#[derive(Debug, Default)]
pub struct Throttles {
    /// What its leaders send: `leader.replication.throttled.rate`.
    pub leader: Throttle,
    /// What its followers fetch: `follower.replication.throttled.rate`.
    pub follower: Throttle,
    /// What it copies between its log directories:
    /// `replica.alter.log.dirs.io.max.bytes.per.second`.
    pub log_dirs: Throttle,
}

/// The limit of one direction. Times are monotonic, and handed in.
#[derive(Debug, Default)]
pub struct Throttle {
    budget: Mutex<Option<Budget>>,
}

#[derive(Debug)]
struct Budget {
    bytes_per_second: u64,
    /// Bytes that may be copied now; negative is what has to be paid off first.
    left: i64,
    /// Up to when `left` was counted.
    at_ns: u64,
}

impl Throttle {
    /// From now on so many bytes a second; `None` is no limit. The same limit again changes
    /// nothing.
    pub fn limit(&self, bytes_per_second: Option<u64>, now_ns: u64) {
        let mut budget = self.budget.lock();
        if budget.as_ref().map(|known| known.bytes_per_second) != bytes_per_second {
            *budget = bytes_per_second.map(|bytes_per_second| {
                let mut budget = Budget { bytes_per_second, left: 0, at_ns: now_ns };
                budget.left = budget.burst();
                budget
            });
        }
    }

    /// The limit, if there is one.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.budget.lock().as_ref().map(|budget| budget.bytes_per_second)
    }

    /// Bytes of throttled replicas were copied.
    pub fn record(&self, bytes: u64, now_ns: u64) {
        if let Some(budget) = &mut *self.budget.lock() {
            budget.refill(now_ns);
            let least = budget.burst().saturating_mul(-MOST_OWED_S);
            budget.left = budget.left.saturating_sub_unsigned(bytes).max(least);
        }
    }

    /// Whether nothing may be copied now.
    pub fn is_exceeded(&self, now_ns: u64) -> bool {
        self.budget.lock().as_mut().is_some_and(|budget| {
            budget.refill(now_ns);
            budget.left <= 0
        })
    }
}

impl Budget {
    /// What may be had at once: the bytes of one second.
    fn burst(&self) -> i64 {
        i64::try_from(self.bytes_per_second).unwrap_or(i64::MAX)
    }

    fn refill(&mut self, now_ns: u64) {
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.at_ns));
        let earned = elapsed_ns * u128::from(self.bytes_per_second) / u128::from(SECOND_NS);
        let Ok(earned) = u64::try_from(earned) else {
            (self.left, self.at_ns) = (i64::MAX, now_ns);
            return;
        };
        // What is less than a byte counts the next time.
        if earned > 0 || self.bytes_per_second == 0 {
            self.left = self.left.saturating_add_unsigned(earned).min(self.burst());
            self.at_ns = now_ns;
        }
    }
}

/// In which directions one partition is throttled here.
#[derive(Debug, Default)]
pub struct ThrottledHere {
    leader: AtomicBool,
    follower: AtomicBool,
}

impl ThrottledHere {
    /// Takes over what the topic says of this replica.
    pub fn set(&self, throttled: &Throttled, partition: i32) {
        self.leader.store(throttled.leader.names(partition), Ordering::Relaxed);
        self.follower.store(throttled.follower.names(partition), Ordering::Relaxed);
    }

    /// Whether reads of its followers are throttled.
    pub fn leader(&self) -> bool {
        self.leader.load(Ordering::Relaxed)
    }

    /// Whether its own fetches are throttled.
    pub fn follower(&self) -> bool {
        self.follower.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
