//! The last requests as JSON, for who cannot look into the broker's process.
//!
//! An array, oldest first. Each has `api` (Kafka's name), `version`, `client_id` (or null), `peer`
//! (the client's address) and `age_ms` (since the request arrived). `queue_ms`, `handler_ms`,
//! `waited_ms`, `sending_ms` and `total_ms` are the ms in each stage, null for a stage that has not
//! begun. The contents of requests and answers are left out.

use serde::Serialize;

use super::api_name;
use crate::metrics::RecentRequest;

/// Most requests in one answer; up to 65,536 are remembered.
const MOST: usize = 1_000;

#[derive(Serialize)]
struct Row<'a> {
    api: String,
    version: i16,
    client_id: Option<&'a str>,
    peer: String,
    age_ms: f64,
    queue_ms: f64,
    handler_ms: Option<f64>,
    waited_ms: Option<f64>,
    sending_ms: Option<f64>,
    total_ms: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(request: &'a RecentRequest, now_ns: u64) -> Self {
        let times = request.times(now_ns);
        Self {
            api: api_name(request.api_key),
            version: request.api_version,
            client_id: request.client_id.as_deref(),
            peer: request.peer.to_string(),
            age_ms: times.age_ms,
            queue_ms: times.queue_ms,
            handler_ms: times.handler_ms,
            waited_ms: times.waited_ms,
            sending_ms: times.sending_ms,
            total_ms: times.total_ms,
        }
    }
}

/// The newest of `requests`, where the monotonic clock shows `now_ns`.
///
/// # Errors
/// None that can happen: every value has a form in JSON.
pub fn json(requests: &[RecentRequest], now_ns: u64) -> serde_json::Result<String> {
    let newest = &requests[requests.len().saturating_sub(MOST)..];
    let rows: Vec<Row<'_>> = newest.iter().map(|request| Row::of(request, now_ns)).collect();
    serde_json::to_string(&rows)
}
