//! The rate of cold reads while clients produce.
//!
//! A disk that is read at full speed delays all other work of the machine. Beside a replay of 1
//! GB/s, produce's p99 was several times its value without the replay. A plain process that read as
//! fast did the same (`benches/cold_replay.py`). Producers should not pay for a replay; while no
//! client produces, a replay has the whole disk.

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Produce requests are counted at most this often: who begins to produce waits no longer.
const LOOK_NS: u64 = NS_PER_SECOND / 100;

/// Clients count as producing for this time after a produce.
const PRODUCING_NS: u64 = NS_PER_SECOND;

/// Says how long each read has to wait. One for all threads of the pool; times in nanoseconds.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: u64,
    /// When what was let through is paid for.
    free_at_ns: u64,
    /// Produce requests so far, when they were last counted, and until when they matter.
    produced: u64,
    looked_ns: u64,
    producing_until_ns: u64,
}

impl Pace {
    /// `bytes_per_second` is the rate while clients produce; 0 is no limit.
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, free_at_ns: 0, produced: 0, looked_ns: 0, producing_until_ns: 0 }
    }

    /// How long from `now_ns` to wait before `bytes` are read. `produced` counts produce requests
    /// since the start.
    pub(super) fn wait_ns(
        &mut self,
        now_ns: u64,
        bytes: u64,
        produced: impl FnOnce() -> u64,
    ) -> u64 {
        if self.bytes_per_second == 0 || !self.is_producing(now_ns, produced) {
            return 0;
        }
        let from_ns = self.free_at_ns.max(now_ns);
        let cost_ns =
            u128::from(bytes) * u128::from(NS_PER_SECOND) / u128::from(self.bytes_per_second);
        self.free_at_ns = from_ns.saturating_add(u64::try_from(cost_ns).unwrap_or(u64::MAX));
        from_ns - now_ns
    }

    fn is_producing(&mut self, now_ns: u64, produced: impl FnOnce() -> u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        if since_ns >= LOOK_NS {
            let before = std::mem::replace(&mut self.produced, produced());
            self.looked_ns = now_ns;
            // A count of long ago tells nothing of now: the next look will.
            if self.produced > before && since_ns < PRODUCING_NS {
                self.producing_until_ns = now_ns.saturating_add(PRODUCING_NS);
            }
        }
        now_ns < self.producing_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A pace that has seen a produce request at 0.1 s.
    fn producing(bytes_per_second: u64) -> Pace {
        let mut pace = Pace::new(bytes_per_second);
        assert_eq!(pace.wait_ns(100 * MS, 0, || 1), 0);
        pace
    }

    #[test]
    fn while_clients_produce_reads_keep_to_the_rate() {
        let mut pace = producing(1_000_000);
        let waits: Vec<u64> = [100, 100, 105]
            .map(|now_ms| pace.wait_ns(now_ms * MS, 100_000, || unreachable!("just counted")) / MS)
            .into();
        assert_eq!(waits, [0, 100, 195]);
    }

    #[test]
    fn a_read_after_a_pause_waits_for_nothing_and_saves_nothing_up() {
        let mut pace = producing(1_000_000);
        assert_eq!(pace.wait_ns(100 * MS, 100_000, || 1), 0);
        assert_eq!(pace.wait_ns(900 * MS, 100_000, || 1), 0);
        assert_eq!(pace.wait_ns(900 * MS, 100_000, || 1), 100 * MS);
    }

    #[test]
    fn a_second_after_the_last_produce_request_nothing_waits() {
        let mut pace = producing(1);
        assert_eq!(pace.wait_ns(100 * MS, 1_000_000, || 1), 0);
        assert!(pace.wait_ns(1_099 * MS, 1, || 1) > 0);
        assert_eq!(pace.wait_ns(1_100 * MS, 1, || 1), 0);
    }

    #[test]
    fn requests_counted_after_a_long_time_say_nothing_of_now() {
        let mut pace = Pace::new(1);
        assert_eq!(pace.wait_ns(5_000 * MS, 1_000_000, || 1_000), 0);
        assert_eq!(pace.wait_ns(5_100 * MS, 1_000_000, || 1_000), 0);
        assert_eq!(pace.wait_ns(5_200 * MS, 1_000_000, || 1_001), 0);
        assert!(pace.wait_ns(5_200 * MS, 1, || 1_001) > 0);
    }

    #[test]
    fn without_a_limit_nothing_waits_or_is_counted() {
        let mut pace = Pace::new(0);
        for now_ms in [100, 100, 5_000] {
            let wait_ns = pace.wait_ns(now_ms * MS, u64::MAX, || unreachable!("not asked for"));
            assert_eq!(wait_ns, 0);
        }
    }

    #[test]
    fn the_slowest_rate_and_the_largest_read_do_not_overflow() {
        let mut pace = producing(1);
        assert_eq!(pace.wait_ns(100 * MS, u64::MAX, || 1), 0);
        assert_eq!(pace.wait_ns(100 * MS, u64::MAX, || 1), u64::MAX - 100 * MS);
    }
}
