//! What must hold: looked at after every step, and once more over the whole history at the end.
//!
//! - `history`: the answers that clients got and the records that they read
//! - `logs`: high watermarks, log ends, and the bytes below the high watermark on every replica
//! - `groups`: owners, generations and committed offsets of the group
//! - `topics`: changes of metadata, and the images of all brokers
//!
//! The checker sees every broker at once. It knows nothing of how brokers decide.

pub mod groups;
pub mod history;
pub mod logs;
pub mod topics;

use groups::Groups;
use history::History;
use logs::Logs;
use std::collections::BTreeSet;
use topics::Topics;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule it breaks.
    pub kind: &'static str,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    /// A violation of the rule `kind`.
    #[must_use]
    pub fn new(kind: &'static str, detail: String) -> Self {
        Self { kind, detail }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Everything that is watched during a run.
#[derive(Debug, Default)]
pub struct Checker {
    /// What clients saw.
    pub history: History,
    /// The replicas.
    pub logs: Logs,
    /// The group.
    pub groups: Groups,
    /// The metadata.
    pub topics: Topics,
    fired: BTreeSet<(i32, u32, u64)>,
    found: Vec<Violation>,
}

impl Checker {
    /// Notes a violation.
    pub fn report(&mut self, kind: &'static str, detail: String) {
        self.found.push(Violation::new(kind, detail));
    }

    /// Everything found so far, by all rules that look at single steps.
    #[must_use]
    pub fn found(&self) -> Vec<Violation> {
        let rules = [&self.found, &self.logs.found, &self.groups.found, &self.topics.found];
        rules.into_iter().flatten().cloned().collect()
    }

    /// Whether nothing was found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let rules = [&self.found, &self.logs.found, &self.groups.found, &self.topics.found];
        rules.into_iter().all(Vec::is_empty)
    }

    /// A timer of a broker ran its task at `now_ms`.
    pub fn timer_fired(&mut self, broker: (i32, u32), id: u64, deadline_ms: u64, now_ms: u64) {
        let told = || format!("timer {id} of broker {}, {deadline_ms} at {now_ms} ms", broker.0);
        if !self.fired.insert((broker.0, broker.1, id)) {
            self.report("timer-fired-twice", told());
        }
        if now_ms < deadline_ms {
            self.report("timer-early", told());
        }
    }
}
