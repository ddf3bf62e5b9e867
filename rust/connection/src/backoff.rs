//! How long to wait before the next try: longer each time, never the same for two clients.
//!
//! Source: KIP-580 (`retry.backoff.ms`, `retry.backoff.max.ms`): doubling, with 20 % of jitter.

use std::time::Duration;

/// A wait that doubles from `initial` up to `max`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
}

/// Doubling more often than this passes every maximum.
const MAX_DOUBLINGS: u32 = 20;

impl Backoff {
    /// The wait after `failures` failures in a row, with jitter; none after none.
    pub fn after(&self, failures: u32) -> Duration {
        let jitter = getrandom::u32().unwrap_or(u32::MAX / 2);
        self.with_jitter(failures, jitter)
    }

    /// The same where `jitter` says where between 80 % and 120 % the wait lies.
    pub fn with_jitter(&self, failures: u32, jitter: u32) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doubled = self.initial.saturating_mul(1 << (failures - 1).min(MAX_DOUBLINGS));
        let factor = 0.8 + 0.4 * f64::from(jitter) / f64::from(u32::MAX);
        doubled.min(self.max.max(self.initial)).mul_f64(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_its_maximum() {
        let ms = Duration::from_millis;
        let backoff = Backoff { initial: ms(50), max: ms(1_000) };
        for (failures, wait) in [(0, 0), (1, 50), (2, 100), (5, 800), (6, 1_000), (4_000, 1_000)] {
            let lowest = backoff.with_jitter(failures, 0);
            assert_eq!(lowest, ms(wait).mul_f64(0.8), "{failures} failures");
            assert_eq!(backoff.with_jitter(failures, u32::MAX), ms(wait).mul_f64(1.2));
        }
    }
}
