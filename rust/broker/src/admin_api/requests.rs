//! `/requests`: single requests with the time of each stage.
//!
//! A sample is taken while someone looks: for some seconds after each of these requests, and
//! for as long as a stream is read. Slow requests are always kept.

use axum::http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::{AdminApi, Answer, json};
use crate::admin_http::{Refusal, api_name};
use crate::clock::NS_PER_MS;
use crate::metrics::{FinishedRequest, Kept, RecentRequest, SLOW_NS};

/// How long a sample is taken after this page was asked for.
const SAMPLED_FOR_NS: u64 = 10_000_000_000;

#[derive(Serialize)]
struct Requests {
    broker_id: i32,
    kind: &'static str,
    /// From this time on in the broker, waits left out, a request is slow.
    slow_ms: u64,
    requests: Vec<Row>,
}

/// A request and its way, in ms. What it has not done yet is `None`.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// Later requests have higher numbers. `None`: it is not finished.
    number: Option<u64>,
    api: String,
    version: i16,
    client_id: Option<String>,
    peer: String,
    connection_id: u64,
    /// How long ago its frame was complete.
    age_ms: f64,
    queue_ms: f64,
    handler_ms: Option<f64>,
    waited_ms: Option<f64>,
    response_queue_ms: Option<f64>,
    send_ms: Option<f64>,
    total_ms: Option<f64>,
}

/// `GET /requests`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let limit = asked.limit()?;
    let now_ns = api.clock.monotonic_ns();
    let finished = api.metrics.finished();
    let of = |kept| {
        let newest = finished.newest(kept, 0, limit);
        newest.iter().map(|(number, request)| row(*number, request, now_ns)).collect()
    };
    let (kind, requests) = match asked.text("kind").unwrap_or("recent") {
        "recent" => ("recent", of(Kept::Sampled)),
        "slow" => ("slow", of(Kept::Slow)),
        "waiting" => ("waiting", waiting(api, limit, now_ns)),
        other => return Err(unknown(other)),
    };
    finished.want_until(now_ns.saturating_add(SAMPLED_FOR_NS));
    let slow_ms = SLOW_NS / NS_PER_MS;
    json(&Requests { broker_id: api.local_id, kind, slow_ms, requests })
}

fn unknown(kind: &str) -> Refusal {
    let why = format!("{kind:?} is not a kind of request");
    let hint = "give recent, slow or waiting.";
    Refusal::new(StatusCode::BAD_REQUEST, "the parameter kind cannot be read", why, hint)
}

/// Requests without an answer, if the broker remembers requests one by one.
fn waiting(api: &AdminApi, limit: usize, now_ns: u64) -> Vec<Row> {
    let all = api.metrics.recent().map(|recent| recent.all()).unwrap_or_default();
    let open = all.iter().filter(|request| request.answered_ns.is_none());
    open.take(limit).map(|request| open_row(request, now_ns)).collect()
}

fn open_row(request: &RecentRequest, now_ns: u64) -> Row {
    let times = request.times(now_ns);
    Row {
        number: None,
        api: api_name(request.api_key),
        version: request.api_version,
        client_id: request.client_id.clone(),
        peer: request.peer.to_string(),
        connection_id: request.connection_id,
        age_ms: times.age_ms,
        queue_ms: times.queue_ms,
        handler_ms: times.handler_ms,
        waited_ms: None,
        response_queue_ms: None,
        send_ms: None,
        total_ms: None,
    }
}

/// A finished request at `now_ns`.
pub(super) fn row(number: u64, request: &FinishedRequest, now_ns: u64) -> Row {
    let passed = &request.passed;
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / NS_PER_MS as f64;
    Row {
        number: Some(number),
        api: api_name(request.api_key),
        version: request.api_version,
        client_id: request.client_id.clone(),
        peer: request.peer.to_string(),
        connection_id: request.connection_id,
        age_ms: ms(passed.received_ns, now_ns),
        queue_ms: ms(passed.received_ns, passed.started_ns),
        handler_ms: Some(ms(passed.started_ns, passed.handled_ns)),
        waited_ms: Some(ms(passed.handled_ns, passed.answered_ns)),
        response_queue_ms: Some(ms(passed.answered_ns, passed.taken_ns)),
        send_ms: Some(ms(passed.taken_ns, passed.sent_ns)),
        total_ms: Some(ms(passed.received_ns, passed.sent_ns)),
    }
}
