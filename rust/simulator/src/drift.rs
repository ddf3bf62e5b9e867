//! Clocks that run at rates of their own, beside the time of the run.

use crate::rng::Rng;

/// A clock that shows 0 when the run begins.
#[derive(Clone, Copy, Debug)]
pub struct Drift {
    /// Its ms in 1,000 ms of the run.
    rate: u64,
}

impl Drift {
    /// A clock that shows the time of the run.
    pub const NONE: Self = Self { rate: 1_000 };

    /// A clock that is wrong by a tenth at most.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        Self { rate: rng.between(900, 1_100) }
    }

    /// What it shows at `now_ms` of the run.
    #[must_use]
    pub fn shown_ms(self, now_ms: u64) -> u64 {
        now_ms * self.rate / 1_000
    }

    /// In how many ms of the run it shows at least `delay_ms` more than at `now_ms`.
    #[must_use]
    pub fn until(self, now_ms: u64, delay_ms: u64) -> u64 {
        let shown_ms = self.shown_ms(now_ms) + delay_ms;
        (shown_ms * 1_000).div_ceil(self.rate).saturating_sub(now_ms)
    }
}
