//! `/live`: the data plane as it moves, five times a second, as server-sent events.
//!
//! Each reader remembers what it saw last, and its next event tells the difference. Nothing is
//! gathered without a reader, readers are few, and one that does not take its events gets fewer of
//! them: the next is made when the socket has room. A tick reads counters of memory only, so it
//! runs on the thread of the admin port.
//!
//! With `?broker=` other brokers are asked for what they counted, once a second. Counts of all add
//! up to one event, as if the brokers were one: quantiles are those of all requests together.

use std::collections::BTreeMap;
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

use super::asked::{Asked, BROKER, Whose};
use super::brokers::Source;
use super::stages::{Counts, Event, Finished, Snapshot};
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;

/// The path below `/api/v1`.
pub(super) const PATH: &str = "/live";
/// The parameters of its query.
pub(super) const QUERY: &[&str] = &[BROKER];
/// The parameter of a broker's question: the number of the first request that it does not know.
const FIRST: &str = "first";
/// The parameters of questions of brokers.
pub(super) const OF_BROKERS: &[&str] = &[FIRST];
/// Time between two events.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// Time between two events that other brokers are asked for.
const TICK_OF_OTHERS: Duration = Duration::from_secs(1);
/// Streams that are read at a time.
pub(super) const MOST_READERS: usize = 8;
/// How long requests are sampled after a tick.
const SAMPLED_FOR_NS: u64 = 1_000_000_000;
/// How long requests are sampled after another broker asked.
const SAMPLED_FOR_OTHERS_NS: u64 = 3_000_000_000;

/// What a broker had told when the last event was made.
struct Before {
    started_ns: u64,
    counted: Snapshot,
    /// The number of the first request that is not sent yet.
    first: u64,
}

/// What a broker tells now.
struct Now {
    broker_id: i32,
    started_ns: u64,
    counted: Snapshot,
    finished: Finished,
}

/// One stream.
struct Reader {
    api: Arc<AdminApi>,
    whose: Whose,
    ticks: Interval,
    before: BTreeMap<i32, Before>,
    number: u64,
    _place: OwnedSemaphorePermit,
}

/// Answers with a stream, or says that there are too many.
pub(super) fn answer(
    api: Arc<AdminApi>,
    places: &Arc<Semaphore>,
    asked: Result<Asked, Refusal>,
) -> Response {
    let whose = match asked.and_then(|asked| asked.whose()) {
        Ok(Whose::One(id)) if id == api.local_id => Whose::Own,
        Ok(whose) => whose,
        Err(refusal) => return refusal.into_response(),
    };
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        let why = format!("{MOST_READERS} streams are read already");
        let hint = "close another page of the console, or wait.";
        let what = "the stream is refused";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what, why, hint).into_response();
    };
    let mut ticks = interval(if whose == Whose::Own { TICK } else { TICK_OF_OTHERS });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader { api, whose, ticks, before: BTreeMap::new(), number: 0, _place: place };
    let events = stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await;
        Some((Ok::<_, Infallible>(event), reader))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

impl AdminApi {
    /// What this broker counted, and the requests that finished from number `first` on.
    fn counted(&self, first: Option<u64>, sampled_for_ns: u64) -> Now {
        let now_ns = self.clock.monotonic_ns();
        let finished = self.metrics.finished();
        finished.want_until(now_ns.saturating_add(sampled_for_ns));
        let mut counted = Snapshot::take(&self.metrics, now_ns);
        if let Some(control) = &self.control {
            counted.add_held(control.held());
        }
        Now {
            broker_id: self.local_id,
            started_ns: self.started_ns,
            counted,
            finished: Finished::take(finished, first, now_ns),
        }
    }
}

/// What this broker tells another one.
pub(super) fn counts(api: &AdminApi, asked: &Asked) -> Answer {
    let first = asked.number(FIRST, 0..=u64::MAX)?;
    let Now { started_ns, counted, finished, .. } = api.counted(first, SAMPLED_FOR_OTHERS_NS);
    json(&counted.counts(started_ns, finished))
}

impl Reader {
    /// Waits for the next tick, and tells what happened since the last.
    async fn next(&mut self) -> Bytes {
        if self.number == 0 {
            // The first tick is at once, and nothing has happened yet.
            self.ticks.tick().await;
            let (told, _) = self.told().await;
            self.take(told);
        }
        self.ticks.tick().await;
        let (told, sources) = self.told().await;
        let mut event = self.take(told);
        event.broker_id = match self.whose {
            Whose::One(id) => id,
            Whose::Own | Whose::All => self.api.local_id,
        };
        event.number = self.number;
        event.timestamp_ms = self.api.clock.wall_ms();
        event.figures_of = (self.whose != Whose::Own).then_some(sources);
        self.number += 1;
        Bytes::from(frame(&event))
    }

    /// What happened since the last tick, and notes what is now.
    fn take(&mut self, told: Vec<Now>) -> Event {
        let former = std::mem::take(&mut self.before);
        let (mut before, mut now) = (Snapshot::default(), Snapshot::default());
        let mut requests = Finished::default();
        for Now { broker_id, started_ns, counted, finished } in told {
            // A broker that did not answer at the last tick, or had another life, begins again.
            let life = former.get(&broker_id).filter(|life| life.started_ns == started_ns);
            if let Some(life) = life {
                before.add(broker_id, &life.counted);
                now.add(broker_id, &counted);
            }
            let first = finished.next;
            match self.whose {
                Whose::All => requests.add(broker_id, finished),
                Whose::Own | Whose::One(_) => requests = finished,
            }
            self.before.insert(broker_id, Before { started_ns, counted, first });
        }
        let mut event = Event::between(&before, &now);
        (event.requests, event.slow) = (requests.requests, requests.slow);
        event
    }

    fn first_of(&self, broker_id: i32) -> Option<u64> {
        self.before.get(&broker_id).map(|before| before.first)
    }

    /// What the brokers counted whose figures are read.
    async fn told(&self) -> (Vec<Now>, Vec<Source>) {
        let api = &self.api;
        if self.whose == Whose::Own {
            return (vec![api.counted(self.first_of(api.local_id), SAMPLED_FOR_NS)], Vec::new());
        }
        let mut others = api.others();
        if let Whose::One(of) = self.whose {
            others.retain(|(id, _)| *id == of);
        }
        let question = |id: i32| {
            let first = self.first_of(id).map(|first| (FIRST.to_owned(), first.to_string()));
            Asked::with(first.into_iter().collect())
        };
        let (mut told, mut sources) = (Vec::new(), Vec::new());
        // One time for all, before the answers: brokers count when they are asked. A broker that
        // stands still keeps the answers of the others waiting.
        let now_ns = api.clock.monotonic_ns();
        if self.whose == Whose::All {
            told.push(api.counted(self.first_of(api.local_id), SAMPLED_FOR_OTHERS_NS));
            sources.push(api.own_source());
        }
        let said = api.ask_all(&others, PATH, question).await;
        for (mut source, answer) in said {
            let broker_id = source.broker_id;
            match answer.map(|answer| answer.map(|body| serde_json::from_slice::<Counts>(&body))) {
                Some(Ok(Ok(counts))) => {
                    let counted = Snapshot::of(&counts, now_ns);
                    let Counts { started_ns, finished, .. } = counts;
                    told.push(Now { broker_id, started_ns, counted, finished });
                }
                Some(Ok(Err(error))) => source.is_silent(error.to_string()),
                Some(Err(refusal)) => source.is_silent(refusal.why),
                None => {}
            }
            sources.push(source);
        }
        sources.sort_by_key(|source| source.broker_id);
        (told, sources)
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
