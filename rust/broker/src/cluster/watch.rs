//! What the leader of the quorum sees of its members over time.
//!
//! Times are handed in. A new leader knows nothing yet, so each voter has its whole time again.

use crate::metadata::MetadataImage;
use kafkalite_quorum::{Status, VoterId};
use std::collections::{BTreeMap, BTreeSet};

/// A voter whose broker is fenced for so long is replaced, in nanoseconds.
pub const REPLACE_NS: u64 = 300_000_000_000;

/// The notes of the leader of one term.
#[derive(Default)]
pub struct Watch {
    term: Option<u64>,
    /// Since when the broker of a voter is fenced, in monotonic nanoseconds.
    fenced_since: BTreeMap<VoterId, u64>,
    /// When a member had every record, in ms since 1970.
    caught_up: BTreeMap<VoterId, i64>,
}

impl Watch {
    /// This broker does not lead.
    pub fn follow(&mut self) {
        *self = Self::default();
    }

    /// One look at the members; the voters that are away for too long.
    pub fn look(
        &mut self,
        image: &MetadataImage,
        status: &Status,
        (now_ns, wall_ms): (u64, i64),
    ) -> BTreeSet<VoterId> {
        if self.term.replace(status.term) != Some(status.term) {
            self.fenced_since.clear();
            self.caught_up.clear();
        }
        let members = || status.voters.iter().chain(&status.learners);
        self.caught_up.retain(|id, _| members().any(|one| one.id == *id));
        for one in members().filter(|one| one.end >= Some(status.end)) {
            self.caught_up.insert(one.id, wall_ms);
        }
        let is_away = |id: &VoterId| *id != status.me && !image.is_alive(id.node_id);
        let away = status.voters.iter().map(|one| one.id).filter(is_away);
        let before = std::mem::take(&mut self.fenced_since);
        self.fenced_since = away.map(|id| (id, *before.get(&id).unwrap_or(&now_ns))).collect();
        let is_over = |since: u64| now_ns.saturating_sub(since) >= REPLACE_NS;
        let over = self.fenced_since.iter().filter(|(_, since)| is_over(**since));
        over.map(|(id, _)| *id).collect()
    }

    /// When the member had every record the last time that this broker looked.
    pub fn caught_up_ms(&self, id: VoterId) -> Option<i64> {
        self.caught_up.get(&id).copied()
    }
}

/// When a voter that stopped for its disk is started again: after 1 s, then after twice as long
/// each time, up to 60 s.
pub struct Restarts {
    delay_ns: u64,
    due_ns: Option<u64>,
    last_ns: u64,
}

const FIRST_NS: u64 = 1_000_000_000;
const LAST_NS: u64 = 60_000_000_000;

impl Default for Restarts {
    fn default() -> Self {
        Self { delay_ns: FIRST_NS, due_ns: None, last_ns: 0 }
    }
}

impl Restarts {
    /// Whether to start the voter now. One that ran for a minute begins with the shortest wait.
    pub fn due(&mut self, is_stopped: bool, now_ns: u64) -> bool {
        if !is_stopped {
            self.due_ns = None;
            if now_ns.saturating_sub(self.last_ns) >= LAST_NS {
                self.delay_ns = FIRST_NS;
            }
            return false;
        }
        let due_ns = *self.due_ns.get_or_insert(now_ns.saturating_add(self.delay_ns));
        if now_ns < due_ns {
            return false;
        }
        (self.due_ns, self.last_ns) = (None, now_ns);
        self.delay_ns = (2 * self.delay_ns).min(LAST_NS);
        true
    }
}

#[cfg(test)]
mod tests;
