//! When the thread has to look up although nothing happened, and which connections it ends then.
//!
//! Deadlines are long and move with every byte, so they have no timers. The thread knows a time
//! before which none can pass. At that time it looks at all its connections, and computes the next
//! such time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{NetworkThread, Served, parting};
use crate::network::NetworkConfig;
use crate::network::connection::CloseReason;

/// How often the thread looks whether others wait for memory that slow frames of its connections
/// hold.
const LOOK_NS: u64 = 500_000_000;
/// Looks at what peers take are made together within this time: many slow readers cost few scans.
const GATHER_NS: u64 = 100_000_000;

impl NetworkThread {
    /// How long the thread may sleep; `None` without bound.
    pub(super) fn timeout(&self) -> Option<Duration> {
        if !self.to_read.is_empty() || !self.to_write.is_empty() {
            return Some(Duration::ZERO);
        }
        let mut until_ns = self.next_scan_ns;
        if self.is_stopping() {
            until_ns = until_ns.min(self.shared.stop_deadline_ns.load(Ordering::Acquire));
            // Nothing tells that the last byte has arrived at a peer.
            until_ns = until_ns.min(self.now_ns().saturating_add(parting::LOOK_NS));
        }
        let left = until_ns.saturating_sub(self.now_ns());
        (until_ns != u64::MAX).then_some(Duration::from_nanos(left))
    }

    /// Makes sure that the deadline of connection `key` is not slept through.
    pub(super) fn schedule_scan(&mut self, key: usize) {
        if let Some(served) = self.connections.get(key) {
            let due_ns = served.due_ns(&self.config);
            let gives_up = served.connection.gives_up_memory_at(&self.config, served.paused);
            let gives_up_ns = gives_up.map_or(u64::MAX, |(at_ns, _)| at_ns);
            self.next_scan_ns = self.next_scan_ns.min(due_ns).min(gives_up_ns);
        }
    }

    /// Ends the connections whose deadline passed, if it is time to look.
    pub(super) fn end_overdue(&mut self) {
        let now_ns = self.now_ns();
        if now_ns < self.next_scan_ns {
            return;
        }
        let mut overdue = Vec::new();
        let mut next_ns = u64::MAX;
        for (key, served) in &mut self.connections {
            served.look_what_it_takes(&self.config, now_ns);
            let (deadline_ns, reason) = served.deadline(&self.config);
            if deadline_ns <= now_ns {
                overdue.push((key, reason));
                continue;
            }
            let due_ns = served.due_ns(&self.config);
            next_ns = next_ns.min(due_ns.max(now_ns.saturating_add(GATHER_NS)).min(deadline_ns));
            let gives_up = served.connection.gives_up_memory_at(&self.config, served.paused);
            let Some((at_ns, kind)) = gives_up else { continue };
            let own = usize::from(served.awaits_memory.is_some());
            if at_ns <= now_ns && self.half_frames.waiting(kind) > own {
                overdue.push((key, CloseReason::SlowFrame));
            } else {
                // A connection of another thread may begin to wait, and does not say so.
                next_ns = next_ns.min(at_ns.max(now_ns.saturating_add(LOOK_NS)));
            }
        }
        for (key, reason) in overdue {
            self.close(key, reason, "its deadline passed");
        }
        self.next_scan_ns = next_ns;
    }
}

impl Served {
    /// When the connection has to end, and why, as long as nothing moves.
    fn deadline(&self, config: &NetworkConfig) -> (u64, CloseReason) {
        if let Some(ended_ns) = self.ended_ns {
            return (self.connection.lingers_until(ended_ns), CloseReason::Peer);
        }
        self.connection.deadline(config, self.paused)
    }

    /// When the thread has to look at the connection, as long as nothing moves.
    fn due_ns(&self, config: &NetworkConfig) -> u64 {
        match self.deadline(config) {
            (deadline_ns, reason) if self.may_take(deadline_ns, reason) => {
                self.taking.due_ns(self.connection.moved_ns(), deadline_ns)
            }
            (deadline_ns, _) => deadline_ns,
        }
    }

    /// Whether the peer extends its deadline by what it takes of the answer that is being written.
    fn may_take(&self, deadline_ns: u64, reason: CloseReason) -> bool {
        let has_deadline = deadline_ns != u64::MAX && reason != CloseReason::SlowFrame;
        has_deadline && !self.connection.output.is_empty()
    }

    /// If it is time, looks whether the peer takes its answer: then the connection is not idle.
    fn look_what_it_takes(&mut self, config: &NetworkConfig, now_ns: u64) {
        let (deadline_ns, reason) = self.deadline(config);
        if now_ns < self.due_ns(config) || !self.may_take(deadline_ns, reason) {
            return;
        }
        let (moved_ns, left) = (self.connection.moved_ns(), self.stream.unacknowledged());
        if self.taking.look(moved_ns, deadline_ns, now_ns, left) {
            self.connection.touch(now_ns);
        }
    }
}
