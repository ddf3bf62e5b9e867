//! Whether a peer takes the answer that is being written to it, although the socket takes no more.
//!
//! A write tells little of a peer that reads slowly. The socket takes megabytes at once, and then
//! nothing until a third of them is gone. So before such a connection ends, the thread asks the
//! system how much the peer's machine has acknowledged meanwhile. It looks once soon after a write,
//! and compares at each deadline.

use crate::clock::NS_PER_MS;

/// What was on its way when the last byte moved has arrived after this time. Or after a quarter of
/// the time to the deadline, if that is shorter. What is acknowledged later was read by the peer.
const ARRIVES_NS: u64 = 1_000 * NS_PER_MS;

/// What a peer had left of its answer when the thread looked.
#[derive(Default)]
pub(super) struct Taking {
    /// When bytes had moved last, this look included, and how many the peer had not acknowledged.
    /// It holds as long as no further byte moves.
    seen: Option<(u64, u32)>,
}

impl Taking {
    /// When to look, if bytes moved last at `moved_ns` and the connection ends at `deadline_ns`.
    pub(super) fn due_ns(&self, moved_ns: u64, deadline_ns: u64) -> u64 {
        match self.seen {
            Some((seen_ns, _)) if seen_ns == moved_ns => deadline_ns,
            _ => moved_ns + (deadline_ns.saturating_sub(moved_ns) / 4).min(ARRIVES_NS),
        }
    }

    /// Notes that `left` bytes are not acknowledged, at a time that was due. Returns whether the
    /// connection counts as one on which bytes moved at `now_ns`.
    pub(super) fn look(&mut self, moved_ns: u64, deadline_ns: u64, now_ns: u64, left: u32) -> bool {
        let has_moved = match self.seen {
            Some((seen_ns, before)) if seen_ns == moved_ns => left < before,
            // A first look so late shows too little: the thread was held up, or the connection had
            // no deadline while a request waited.
            _ => now_ns > moved_ns + deadline_ns.saturating_sub(moved_ns) / 2,
        };
        self.seen = Some((if has_moved { now_ns } else { moved_ns }, left));
        has_moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that ends five seconds after the last sign of life. All times in milliseconds.
    #[derive(Default)]
    struct House {
        taking: Taking,
        moved_ms: u64,
    }

    impl House {
        /// When the thread has to look.
        fn due_ms(&self) -> u64 {
            let (moved_ns, deadline_ns) = self.times();
            self.taking.due_ns(moved_ns, deadline_ns) / NS_PER_MS
        }

        /// The thread looks. Returns whether the connection goes on.
        fn goes_on(&mut self, now_ms: u64, left: u32) -> bool {
            let (moved_ns, deadline_ns) = self.times();
            assert!(now_ms >= self.due_ms());
            if self.taking.look(moved_ns, deadline_ns, now_ms * NS_PER_MS, left) {
                self.moved_ms = now_ms;
            }
            self.moved_ms + 5_000 > now_ms
        }

        fn times(&self) -> (u64, u64) {
            (self.moved_ms * NS_PER_MS, (self.moved_ms + 5_000) * NS_PER_MS)
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_has_until_its_deadline_whatever_was_on_its_way() {
        let mut house = House::default();
        assert_eq!(house.due_ms(), 1_000);
        assert!(house.goes_on(1_000, 900_000));
        assert_eq!(house.due_ms(), 5_000);
        assert!(!house.goes_on(5_000, 900_000));
    }

    #[test]
    fn a_peer_that_takes_some_has_a_deadline_more_from_the_look_that_showed_it() {
        let mut house = House::default();
        assert!(house.goes_on(1_000, 900_000));
        assert!(house.goes_on(5_000, 899_999));
        assert_eq!(house.due_ms(), 10_000);
        assert!(house.goes_on(10_000, 800_000));
        assert_eq!(house.due_ms(), 15_000);
        assert!(!house.goes_on(15_000, 800_000));
    }

    /// What was written in between would hide what the peer took.
    #[test]
    fn after_a_write_the_thread_looks_again() {
        let mut house = House::default();
        assert!(house.goes_on(1_000, 900_000));
        house.moved_ms = 4_000;
        assert_eq!(house.due_ms(), 5_000);
        assert!(house.goes_on(5_000, 950_000));
        assert!(house.goes_on(9_000, 940_000));
    }

    #[test]
    fn a_peer_that_was_not_looked_at_in_time_gets_its_time_again() {
        for late_ms in [2_501, 5_000, 60_000] {
            let mut house = House::default();
            assert!(house.goes_on(late_ms, 900_000), "{late_ms} ms");
            assert_eq!(house.due_ms(), late_ms + 5_000);
            assert!(!house.goes_on(late_ms + 5_000, 900_000));
        }
    }

    #[test]
    fn before_a_short_deadline_the_first_look_is_early() {
        assert_eq!(Taking::default().due_ns(100, 500), 200);
    }
}
