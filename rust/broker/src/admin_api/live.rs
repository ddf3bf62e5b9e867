//! `/live`: the data plane as it moves, five times a second, as server-sent events.
//!
//! Each reader remembers what it saw last, and its next event tells the difference. Nothing is
//! gathered without a reader, readers are few, and one that does not take its events gets fewer of
//! them: the next is made when the socket has room. A tick reads counters of memory only, so it
//! runs on the thread of the admin port.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::AdminApi;
use super::stages::{Event, Snapshot};
use crate::admin_http::Refusal;

/// The path below `/api/v1`.
pub(super) const PATH: &str = "/live";
/// Time between two events.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// Streams that are read at a time.
pub(super) const MOST_READERS: usize = 8;
/// How long requests are sampled after a tick.
const SAMPLED_FOR_NS: u64 = 1_000_000_000;

/// One stream.
struct Reader {
    api: Arc<AdminApi>,
    ticks: Interval,
    before: Snapshot,
    number: u64,
    /// The number of the first request that is not sent yet.
    first: u64,
    _place: OwnedSemaphorePermit,
}

/// Answers with a stream, or says that there are too many.
pub(super) fn answer(api: Arc<AdminApi>, places: &Arc<Semaphore>) -> Response {
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        let why = format!("{MOST_READERS} streams are read already");
        let hint = "close another page of the console, or wait.";
        let what = "the stream is refused";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, why, hint).into_response();
    };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let finished = api.metrics.finished();
    finished.want_until(api.clock.monotonic_ns().saturating_add(SAMPLED_FOR_NS));
    let first = finished.next_number();
    let before = Snapshot::take(&api.metrics, api.clock.monotonic_ns());
    let reader = Reader { api, ticks, before, number: 0, first, _place: place };
    let events = stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await;
        Some((Ok::<_, Infallible>(event), reader))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

impl Reader {
    /// Waits for the next tick, and tells what happened since the last.
    async fn next(&mut self) -> Bytes {
        if self.number == 0 {
            // The first tick is at once, and nothing has happened yet.
            self.ticks.tick().await;
        }
        self.ticks.tick().await;
        let api = &self.api;
        let now_ns = api.clock.monotonic_ns();
        let now = Snapshot::take(&api.metrics, now_ns);
        let finished = api.metrics.finished();
        finished.want_until(now_ns.saturating_add(SAMPLED_FOR_NS));
        let mut event = Event::between(&self.before, &now);
        event.broker_id = api.local_id;
        event.number = self.number;
        event.timestamp_ms = api.clock.wall_ms();
        self.first = event.add_requests(finished, self.first, now_ns);
        self.before = now;
        self.number += 1;
        Bytes::from(frame(&event))
    }
}

/// An event as the stream has it.
fn frame(event: &Event) -> String {
    let data = serde_json::to_string(event).unwrap_or_default();
    let mut frame = String::with_capacity(data.len() + 64);
    // Writing to a string does not fail.
    let _ = write!(frame, "event: live\nid: {}\ndata: {data}\n\n", event.number);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn an_event_is_one_line_of_data() {
        let metrics = Metrics::new();
        let at = |ns| Snapshot::take(&metrics, ns);
        let frame = frame(&Event::between(&at(0), &at(1)));
        let lines: Vec<&str> = frame.split('\n').collect();
        assert_eq!(lines.len(), 5, "{frame}");
        assert_eq!(lines[..2], ["event: live", "id: 0"]);
        assert!(lines[2].starts_with("data: {\"broker_id\":"), "{frame}");
        assert_eq!(lines[3..], ["", ""]);
    }
}
