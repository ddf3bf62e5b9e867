//! What the API answers where it cannot do what it was asked.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// An error as clients of the API read it: JSON with what happened, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The status of the answer.
    #[serde(skip)]
    pub status: StatusCode,
    /// What did not work.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(
        status: StatusCode,
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status, what: what.into(), why: why.into(), hint: hint.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // Three strings always have a form in JSON.
        let body = serde_json::to_string(&self).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
