//! A leader that the controller does not hear, and whose replicas in sync do not fetch.

use super::PartitionState;

impl PartitionState {
    /// Looks whether this leader can commit. `silence_ms` is there while the controller does not
    /// hear this broker: how long a replica in sync may be silent then. `quiet_ms` is as for
    /// [`Self::look_at_lag`]. Whether the outcome has changed.
    pub fn look_at_silence(
        &mut self,
        (now_ms, silence_ms): (u64, Option<u64>),
        quiet_ms: impl Fn(i32) -> Option<u64>,
    ) -> bool {
        let is_silent = |limit_ms| self.in_sync.is_any_silent(now_ms, limit_ms, quiet_ms);
        let is_cut_off = self.is_leader() && silence_ms.is_some_and(is_silent);
        std::mem::replace(&mut self.is_cut_off, is_cut_off) != is_cut_off
    }

    /// Whether this leader cannot commit, and another broker may lead by now.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }
}

#[cfg(test)]
mod tests;
