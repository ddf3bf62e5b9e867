//! Recordings: the requests of a test run, each with its outcome.
//!
//! A recording begins when it is made, and keeps the newest requests, those without an answer
//! among them. A request that is in several recordings is kept once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kafkalite_protocol::ApiKey;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::TestControl;
use super::life::Life;
use super::refusal::Refused;
use super::seen::{End, Failed, Part, Seen};
use super::spec::Kind;
use crate::clock::NS_PER_MS;
use crate::request_queue::clipped;

/// Recordings that are there at the same time, at most.
const MOST_RECORDINGS: usize = 100;
/// Requests of a recording, at most.
const MOST_REQUESTS: usize = 100_000;
/// Requests of a recording whose maker does not say.
const USUAL_REQUESTS: usize = 10_000;
/// Requests of a page, at most.
pub(super) const MOST_ROWS: usize = 1_000;
/// Requests of a page of a reader that does not say.
const USUAL_ROWS: usize = 100;

/// What a recording keeps.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    /// The newest requests, so many at most.
    limit: Option<usize>,
    /// Only those of this client.
    client_id: Option<String>,
    /// Only those of this API, by Kafka's name.
    api: Option<String>,
}

/// A page of a recording.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Page {
    /// Requests with greater numbers.
    pub after: u64,
    /// So many of them.
    pub limit: Option<usize>,
    /// The life of the broker that the recording is of; `None`: this one.
    pub life: Option<String>,
}

struct Recording {
    id: u64,
    limit: usize,
    client_id: Option<String>,
    api: Option<ApiKey>,
    requests: VecDeque<Arc<Seen>>,
    /// Requests that made room for newer ones.
    dropped: u64,
    is_over: bool,
}

#[derive(Default)]
struct Inner {
    all: Vec<Recording>,
    last_id: u64,
}

/// All recordings.
#[derive(Default)]
pub(super) struct Recordings {
    inner: Mutex<Inner>,
    /// Whether one of them goes on: each request asks.
    is_on: AtomicBool,
}

/// A recording as its maker sees it.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    id: u64,
    /// Of which life of the broker it is.
    life: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<&'static str>,
    limit: usize,
    requests: usize,
    dropped: u64,
    recording: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct List {
    recordings: Vec<Told>,
}

/// A page.
#[derive(Debug, Serialize)]
pub(super) struct Rows {
    #[serde(flatten)]
    recording: Told,
    rows: Vec<Row>,
    /// What `after` has to be for the next page.
    next: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Topic {
    name: String,
    partitions: Vec<i32>,
}

#[derive(Debug, Serialize)]
struct Error {
    /// `None`: the error of the whole answer.
    topic: Option<String>,
    /// `None`: the error of the whole topic.
    partition: Option<i32>,
    code: i16,
    error: &'static str,
}

#[derive(Debug, Serialize)]
struct FaultHit {
    id: u64,
    kind: Kind,
}

/// A request as a recording shows it.
#[derive(Debug, Serialize)]
struct Row {
    number: u64,
    api: &'static str,
    version: i16,
    client_id: Option<String>,
    connection_id: u64,
    peer: String,
    correlation_id: i32,
    /// When its work began, in ms since 1970.
    at_ms: i64,
    topics: Vec<Topic>,
    /// Partitions that are left out.
    more_partitions: usize,
    group: Option<String>,
    member: Option<String>,
    /// `answered`, `silent`, `closed` or `open`.
    outcome: &'static str,
    errors: Vec<Error>,
    /// Errors that are left out.
    more_errors: usize,
    queue_ms: f64,
    handler_ms: Option<f64>,
    waited_ms: Option<f64>,
    total_ms: Option<f64>,
    faults: Vec<FaultHit>,
}

impl Recording {
    fn wants(&self, seen: &Seen) -> bool {
        !self.is_over
            && self.api.is_none_or(|api| api == seen.api)
            && self.client_id.as_deref().is_none_or(|id| seen.client_id.as_deref() == Some(id))
    }

    fn told(&self, life: &Life) -> Told {
        Told {
            id: self.id,
            life: life.as_str().to_owned(),
            client_id: self.client_id.clone(),
            api: self.api.map(ApiKey::name),
            limit: self.limit,
            requests: self.requests.len(),
            dropped: self.dropped,
            recording: !self.is_over,
        }
    }
}

fn unknown(id: u64) -> Refused {
    let (what, why) = (format!("there is no recording {id}"), "it was removed, or never made");
    let hint = "GET /api/v1/recordings lists the recordings.".to_owned();
    Refused { status: 404, what, why: why.to_owned(), hint }
}

impl Recordings {
    /// Keeps a request in each recording that wants it.
    pub fn keep(&self, seen: &Arc<Seen>) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        let mut inner = self.inner.lock();
        for recording in inner.all.iter_mut().filter(|recording| recording.wants(seen)) {
            if recording.requests.len() == recording.limit {
                recording.requests.pop_front();
                recording.dropped += 1;
            }
            recording.requests.push_back(Arc::clone(seen));
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        let changed = change(&mut inner);
        let is_on = inner.all.iter().any(|recording| !recording.is_over);
        self.is_on.store(is_on, Ordering::Release);
        changed
    }

    /// Ends all of them.
    pub fn clear(&self) {
        self.change(|inner| inner.all.clear());
    }
}

impl TestControl {
    /// Begins a recording.
    pub(super) fn record(&self, wanted: Wanted) -> Result<Told, Refused> {
        const WHAT: &str = "the recording is refused";
        let limit = wanted.limit.unwrap_or(USUAL_REQUESTS);
        if !(1..=MOST_REQUESTS).contains(&limit) {
            let why = format!("limit is {limit}, not from 1 to {MOST_REQUESTS}");
            return Err(Refused::bad(WHAT, why, "give a number of that range."));
        }
        let api = wanted.api.as_deref().map(super::spec::api_of).transpose()?;
        // Requests keep so much of the names of their clients.
        let client_id = wanted.client_id.map(|id| String::from(clipped(&id)));
        self.recordings.change(|inner| {
            if inner.all.len() == MOST_RECORDINGS {
                let why = format!("there are {MOST_RECORDINGS} recordings already");
                return Err(Refused::bad(WHAT, why, "remove some of them."));
            }
            inner.last_id += 1;
            let (id, requests) = (inner.last_id, VecDeque::new());
            let (dropped, is_over) = (0, false);
            let recording = Recording { id, limit, client_id, api, requests, dropped, is_over };
            let told = recording.told(&self.life);
            inner.all.push(recording);
            Ok(told)
        })
    }

    /// The recordings, the oldest first.
    pub(super) fn told_recordings(&self) -> List {
        let inner = self.recordings.inner.lock();
        let told = |recording: &Recording| recording.told(&self.life);
        List { recordings: inner.all.iter().map(told).collect() }
    }

    /// Requests of a recording.
    pub(super) fn recorded(&self, id: u64, page: &Page) -> Result<Rows, Refused> {
        let limit = page.limit.unwrap_or(USUAL_ROWS);
        if !(1..=MOST_ROWS).contains(&limit) {
            let why = format!("limit is {limit}, not from 1 to {MOST_ROWS}");
            let what = "the page is refused";
            return Err(Refused::bad(what, why, "give a number of that range."));
        }
        let (recording, mut found) = {
            let inner = self.recordings.inner.lock();
            let recording = inner.all.iter().find(|recording| recording.id == id);
            let recording = recording.ok_or_else(|| unknown(id))?;
            // Two threads may have taken their numbers in the other order than their turns.
            let mut later: Vec<Arc<Seen>> = recording.requests.iter().cloned().collect();
            later.retain(|seen| seen.number > page.after);
            (recording.told(&self.life), later)
        };
        found.sort_unstable_by_key(|seen| seen.number);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|last| last.number);
        Ok(Rows { recording, rows: found.iter().map(|seen| row(seen)).collect(), next })
    }

    /// Keeps no more requests in a recording; those that it has stay.
    pub(super) fn stop_recording(&self, id: u64) -> Result<Told, Refused> {
        self.recordings.change(|inner| {
            let mut all = inner.all.iter_mut();
            let recording = all.find(|recording| recording.id == id).ok_or_else(|| unknown(id))?;
            recording.is_over = true;
            Ok(recording.told(&self.life))
        })
    }

    /// Removes a recording.
    pub(super) fn delete_recording(&self, id: u64) -> Result<Told, Refused> {
        self.recordings.change(|inner| {
            let place = inner.all.iter().position(|recording| recording.id == id);
            let place = place.ok_or_else(|| unknown(id))?;
            let mut recording = inner.all.remove(place);
            recording.is_over = true;
            Ok(recording.told(&self.life))
        })
    }
}

/// Partitions by topic, in the order of the request.
fn topics(parts: &[Part]) -> Vec<Topic> {
    let mut topics: Vec<Topic> = Vec::new();
    for run in parts.chunk_by(|one, next| one.topic == next.topic) {
        if let Some(name) = &run[0].topic {
            let partitions = run.iter().filter_map(|part| part.partition).collect();
            topics.push(Topic { name: name.to_string(), partitions });
        }
    }
    topics
}

fn error(failed: &Failed) -> Error {
    Error {
        topic: failed.part.topic.as_deref().map(str::to_owned),
        partition: failed.part.partition,
        code: failed.code,
        error: failed.name(),
    }
}

fn row(seen: &Seen) -> Row {
    let progress = seen.progress();
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / NS_PER_MS as f64;
    let ended_ns = progress.ended.map(|(at_ns, _)| at_ns);
    // A thread of purgatory may answer before the handler has returned.
    let handled_ns = progress.handled_ns.map(|at_ns| ended_ns.map_or(at_ns, |end| at_ns.min(end)));
    let handled_ns = handled_ns.or(ended_ns);
    Row {
        number: seen.number,
        api: seen.api.name(),
        version: seen.version,
        client_id: seen.client_id.as_deref().map(str::to_owned),
        connection_id: seen.connection_id,
        peer: seen.peer.to_string(),
        correlation_id: seen.correlation_id,
        at_ms: seen.wall_ms,
        topics: topics(&seen.parts),
        more_partitions: seen.more_parts,
        group: seen.group.clone(),
        member: seen.member.clone(),
        outcome: match progress.ended {
            None => "open",
            Some((_, End::Answered)) => "answered",
            Some((_, End::Silent)) => "silent",
            Some((_, End::Closed)) => "closed",
        },
        errors: progress.errors.iter().map(error).collect(),
        more_errors: progress.more_errors,
        queue_ms: ms(seen.received_ns, seen.started_ns),
        handler_ms: handled_ns.map(|at_ns| ms(seen.started_ns, at_ns)),
        waited_ms: handled_ns.zip(ended_ns).map(|(from, to)| ms(from, to)),
        total_ms: ended_ns.map(|at_ns| ms(seen.received_ns, at_ns)),
        faults: progress
            .hits
            .iter()
            .map(|hit| FaultHit { id: hit.fault, kind: hit.kind })
            .collect(),
    }
}
