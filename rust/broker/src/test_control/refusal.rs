//! Why a command of test control is not obeyed.

use serde::Serialize;

/// A refusal, as the admin API and Python tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The status of HTTP.
    #[serde(skip)]
    pub status: u16,
    /// What did not work.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl Refused {
    /// The refusal of a broker that is not under test.
    #[must_use]
    pub fn off() -> Self {
        Self {
            status: 403,
            what: "the command is refused".to_owned(),
            why: "test control is off".to_owned(),
            hint: "start the broker with --test-control, or kafkalite.test.control=true."
                .to_owned(),
        }
    }

    /// The refusal of a broker that does not run.
    #[must_use]
    pub fn not_running() -> Self {
        Self {
            status: 409,
            what: "the command is refused".to_owned(),
            why: "the broker does not run".to_owned(),
            hint: "start it first.".to_owned(),
        }
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // Three strings always have a form in JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A refusal of what cannot be understood.
    pub(super) fn bad(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status: 400, what: what.into(), why: why.into(), hint: hint.into() }
    }
}
