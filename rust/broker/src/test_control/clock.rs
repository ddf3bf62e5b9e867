//! Moving the clock: what became due is done when the move returns.

use serde::{Deserialize, Serialize};

use super::TestControl;
use super::refusal::Refused;
use crate::clock::Clock;

/// The clock is moved by so much at most, all moves together: 100 years. The nanoseconds of
/// monotonic time have room for 584.
const MOST_MS: u64 = 100 * 365 * 86_400_000;

/// How far, and what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advance {
    /// In ms.
    ms: u64,
    /// Whether deadlines move as well.
    #[serde(default)]
    monotonic: bool,
}

/// The clock as clients see it.
#[derive(Serialize)]
pub(super) struct Told {
    /// Wall time, in ms since 1970.
    now_ms: i64,
    /// How far wall time was moved.
    wall_ahead_ms: i64,
    /// How far deadlines were moved.
    monotonic_ahead_ms: u64,
}

impl TestControl {
    pub(super) fn told_clock(&self) -> Told {
        let (wall_ahead_ms, monotonic_ahead_ms) = self.clock.ahead_ms();
        Told { now_ms: self.clock.wall_ms(), wall_ahead_ms, monotonic_ahead_ms }
    }

    /// Moves the clock, and does what became due on this thread. The order: deadlines, retention
    /// with the expiry of producer ids, compaction, offsets and groups. Then threads that sleep
    /// until a time look at the clock.
    pub(super) fn advance(&self, how: &Advance) -> Result<Told, Refused> {
        let _moving = self.moving.lock();
        let ahead_ms = u64::try_from(self.clock.ahead_ms().0).unwrap_or(0);
        if how.ms > MOST_MS.saturating_sub(ahead_ms) {
            let why = "it would be more than 100 years ahead";
            return Err(Refused::bad("the clock is not moved", why, "start the broker again."));
        }
        let timer = self.behind.get().and_then(|(_, timer)| timer.upgrade());
        match timer.filter(|_| how.monotonic) {
            Some(timer) => timer.turn_after(|| self.clock.advance_ms(how.ms, true)),
            None => self.clock.advance_ms(how.ms, how.monotonic),
        }
        if let Some(do_due) = self.do_due.get() {
            do_due(self.clock.wall_ms());
        }
        if let Some(rooms) = self.rooms() {
            rooms.groups.expire();
        }
        self.clock.wake();
        Ok(self.told_clock())
    }
}
