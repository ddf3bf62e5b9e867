//! When a network thread runs a request itself instead of queueing it.
//!
//! Inline saves two wakes, which is most of the cost of a small request. But a thread that blocks
//! in a handler serves none of its connections meanwhile. So a request runs inline only if it is
//! small and cheap, nothing waits before it, and this turn's budget is not spent. Recent handlers
//! of this thread must also have returned quickly. So if a disk makes appends slow, they go to the
//! I/O threads for a while.

use super::InlineMode;
use crate::clock::NS_PER_MS;

/// Requests run inline between two polls.
const TURN_BUDGET: u32 = 256;
/// Above this average, requests are queued for a while.
const SLOW_NS: u64 = 200_000;
/// No request counts for more than this, so that three slow ones in a short time are needed. A
/// single slow one may mean that the thread lost its core for a time slice, not that the disk is
/// slow.
const SLOWEST_COUNTED_NS: u64 = 4 * SLOW_NS;
/// How long.
const BACK_OFF_NS: u64 = 100 * NS_PER_MS;

/// One network thread's view of what it may run.
pub struct InlineGate {
    mode: InlineMode,
    max_bytes: usize,
    left_this_turn: u32,
    average_ns: u64,
    closed_until_ns: u64,
}

impl InlineGate {
    /// A gate for one thread.
    #[must_use]
    pub fn new(mode: InlineMode, max_bytes: usize) -> Self {
        let left_this_turn = TURN_BUDGET;
        Self { mode, max_bytes, left_this_turn, average_ns: 0, closed_until_ns: 0 }
    }

    /// The thread polled its sockets again.
    pub fn next_turn(&mut self) {
        self.left_this_turn = TURN_BUDGET;
    }

    /// Whether a request, a frame of `bytes`, may run inline as far as the thread is concerned;
    /// `is_cheap` says that its API may at all. `queue_is_empty` is asked only where it matters.
    #[must_use]
    pub fn admits(
        &self,
        is_cheap: bool,
        bytes: usize,
        now_ns: u64,
        queue_is_empty: impl FnOnce() -> bool,
    ) -> bool {
        match self.mode {
            InlineMode::Never => false,
            InlineMode::Always => true,
            InlineMode::Auto => {
                is_cheap
                    && bytes <= self.max_bytes
                    && self.left_this_turn > 0
                    && now_ns >= self.closed_until_ns
                    && queue_is_empty()
            }
        }
    }

    /// A request ran inline and took `duration_ns`.
    pub fn record(&mut self, duration_ns: u64, now_ns: u64) {
        self.left_this_turn = self.left_this_turn.saturating_sub(1);
        self.average_ns = (self.average_ns * 7 + duration_ns.min(SLOWEST_COUNTED_NS)) / 8;
        if self.average_ns > SLOW_NS {
            self.closed_until_ns = now_ns.saturating_add(BACK_OFF_NS);
            // Or one slow request long ago would close the gate again at the first that follows.
            self.average_ns = 0;
        }
    }
}
