//! One request as test control saw it, and what is known of its connection.
//!
//! Each connection notes its own requests under a lock of its own: those without an answer, and
//! the errors that are answered again and again. The notes go with the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use kafkalite_protocol::{ApiKey, ErrorCode};
use parking_lot::Mutex;

use super::spec::Kind;
use crate::clock::NS_PER_MS;
use crate::request_queue::RequestContext;

/// Partitions and errors that are kept of one request, at most.
const MOST_KEPT: usize = 1_000;
/// Errors that are kept of one connection, at most.
const MOST_STREAKS: usize = 1_000;

/// Requests that succeed only for a present member of a group.
const IN_A_GROUP: [ApiKey; 3] = [ApiKey::JoinGroup, ApiKey::SyncGroup, ApiKey::Heartbeat];
/// Errors of a member that has to join its group again.
const OF_STALE_MEMBERS: [i16; 3] = [
    ErrorCode::IllegalGeneration.code(),
    ErrorCode::UnknownMemberId.code(),
    ErrorCode::RebalanceInProgress.code(),
];

/// A topic by name, or by its id if no topic has that; `None`: the request or answer as a whole.
pub(super) type TopicName = Option<Arc<str>>;

/// A part of a request or of an answer. The partition is `None` for a topic as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub topic: TopicName,
    pub partition: Option<i32>,
}

/// A part of an answer, and its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    pub part: Part,
    pub code: i16,
}

impl Failed {
    /// Kafka's name of the error.
    pub fn name(&self) -> &'static str {
        ErrorCode::from_code(self.code).name()
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With an answer.
    Answered,
    /// Without one, as the client wants: a produce with acks=0.
    Silent,
    /// The connection is closed.
    Closed,
}

/// A fault that struck a request.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub fault: u64,
    pub kind: Kind,
    /// For how long, in ms; 0 for kinds without a time.
    pub ms: u32,
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// The error that it gives, and what it is for: without a topic, everything. `None`: the fault
    /// gives no error.
    pub error: Option<Failed>,
}

impl Hit {
    /// Whether an error of an answer is the one of this fault. The broker may have given the same
    /// answer other errors, and so may other faults.
    fn made(&self, one: &Failed) -> bool {
        let Some(error) = &self.error else { return false };
        let (wanted, part) = (&error.part, &one.part);
        // An error of the whole answer has no part.
        let has_topic = wanted.topic.is_none() || part.topic.is_none();
        let has_partition = wanted.partition.is_none() || part.partition.is_none();
        error.code == one.code
            && (has_topic || wanted.topic == part.topic)
            && (has_partition || wanted.partition == part.partition)
    }

    /// Until when it holds the request or the client, on the monotonic clock.
    pub fn until_ns(&self) -> u64 {
        self.at_ns.saturating_add(u64::from(self.ms) * NS_PER_MS)
    }
}

/// How far a request is.
#[derive(Debug, Default, Clone)]
pub(super) struct Progress {
    /// When its handler returned.
    pub handled_ns: Option<u64>,
    /// When it was answered, and how.
    pub ended: Option<(u64, End)>,
    /// Errors of its answer.
    pub errors: Vec<Failed>,
    /// Errors that are left out.
    pub more_errors: usize,
    /// The faults that struck it, in order.
    pub hits: Vec<Hit>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Seen {
    /// From 1: in the order in which requests came to test control.
    pub number: u64,
    pub api: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Arc<str>>,
    pub connection_id: u64,
    pub peer: SocketAddr,
    /// When its frame was complete.
    pub received_ns: u64,
    /// When it left the request queue.
    pub started_ns: u64,
    /// When it left the request queue, in ms since 1970.
    pub wall_ms: i64,
    pub parts: Vec<Part>,
    /// Partitions that are left out.
    pub more_parts: usize,
    pub group: Option<String>,
    pub member: Option<String>,
    progress: Mutex<Progress>,
}

/// The part of a list that is kept, and how much is left out.
pub(super) fn kept<T>(mut all: Vec<T>) -> (Vec<T>, usize) {
    let more = all.len().saturating_sub(MOST_KEPT);
    all.truncate(MOST_KEPT);
    // A recording keeps it for long.
    all.shrink_to_fit();
    (all, more)
}

/// What a [`Seen`] begins with.
pub(super) struct Began {
    pub number: u64,
    pub api: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Arc<str>>,
    pub received_ns: u64,
    pub started_ns: u64,
    pub wall_ms: i64,
    pub parts: Vec<Part>,
    pub group: Option<String>,
    pub member: Option<String>,
}

impl Seen {
    pub fn new(context: &RequestContext, began: Began) -> Self {
        let (parts, more_parts) = kept(began.parts);
        Self {
            number: began.number,
            api: began.api,
            version: began.version,
            correlation_id: began.correlation_id,
            client_id: began.client_id,
            connection_id: context.connection_id,
            peer: context.peer,
            received_ns: began.received_ns,
            started_ns: began.started_ns,
            wall_ms: began.wall_ms,
            parts,
            more_parts,
            group: began.group,
            member: began.member,
            progress: Mutex::default(),
        }
    }

    /// Its handler returned.
    pub fn handled(&self, now_ns: u64) {
        self.progress.lock().handled_ns.get_or_insert(now_ns);
    }

    /// A fault struck it.
    pub fn hit(&self, hit: Hit) {
        self.progress.lock().hits.push(hit);
    }

    /// How far it is, at one moment.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }
}

/// An error that an API answered a connection, and answers again until it succeeds.
#[derive(Debug, Clone)]
pub(super) struct Streak {
    pub api: ApiKey,
    pub part: Part,
    pub code: i16,
    /// How often, without another outcome in between.
    pub times: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    /// The fault that made the last of them, if one did.
    pub fault: Option<u64>,
    /// The group of the last request, if it is one of a group.
    pub group: Option<String>,
    pub member: Option<String>,
}

#[derive(Debug, Default)]
struct Notes {
    /// By number.
    open: BTreeMap<u64, Arc<Seen>>,
    streaks: BTreeMap<(i16, Part), Streak>,
    /// The last answer that told the client to wait: until when, for how many ms, the fault.
    throttled: Option<(u64, u32, u64)>,
    answered: BTreeMap<i16, Answered>,
}

/// The last answer of an API.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub at_ns: u64,
    /// What it answered.
    pub seen: Arc<Seen>,
}

/// What test control notes of a connection.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<Notes>);

/// A look at a connection's notes.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Requests without an answer, the oldest first.
    pub open: Vec<Arc<Seen>>,
    pub streaks: Vec<Streak>,
    pub throttled: Option<(u64, u32, u64)>,
    /// The last answer of each API.
    pub answered: BTreeMap<i16, Answered>,
}

impl Watched {
    /// The notes of a connection.
    pub fn of(context: &RequestContext) -> Arc<Self> {
        let notes = context.notes.get_or_init(|| Arc::new(Self::default()));
        // Nothing else is ever put there.
        Arc::clone(notes).downcast().unwrap_or_default()
    }

    /// A request comes.
    pub fn begin(&self, seen: &Arc<Seen>) {
        self.0.lock().open.insert(seen.number, Arc::clone(seen));
    }

    /// The newest open request with this correlation id.
    pub fn find(&self, correlation_id: i32) -> Option<Arc<Seen>> {
        let notes = self.0.lock();
        let mut newest = notes.open.values().rev();
        newest.find(|seen| seen.correlation_id == correlation_id).cloned()
    }

    /// A request ends. `outcomes` are those of all parts of its answer.
    pub fn end(&self, seen: &Seen, end: End, outcomes: Vec<Failed>, now_ns: u64) {
        let mut notes = self.0.lock();
        let Some(kept_seen) = notes.open.remove(&seen.number) else { return };
        let hits = {
            let mut progress = seen.progress.lock();
            progress.ended = Some((now_ns, end));
            let failed = outcomes.iter().filter(|one| one.code != 0).cloned();
            (progress.errors, progress.more_errors) = kept(failed.collect());
            progress.hits.clone()
        };
        // A fault that let the answer wait may have struck behind it.
        if let Some(hit) = hits.iter().rfind(|hit| hit.kind == Kind::Throttle) {
            let until_ns = now_ns.saturating_add(u64::from(hit.ms) * NS_PER_MS);
            notes.throttled = Some((until_ns, hit.ms, hit.fault));
        }
        if end == End::Answered {
            notes.answered.insert(seen.api as i16, Answered { at_ns: now_ns, seen: kept_seen });
            notes.count(seen, &outcomes, &hits, now_ns);
        }
    }

    /// All of it, at one moment.
    pub fn look(&self) -> Look {
        let notes = self.0.lock();
        Look {
            open: notes.open.values().cloned().collect(),
            streaks: notes.streaks.values().cloned().collect(),
            throttled: notes.throttled,
            answered: notes.answered.clone(),
        }
    }
}

impl Notes {
    /// Counts the errors of an answer, and forgets those that are over.
    fn count(&mut self, seen: &Seen, outcomes: &[Failed], hits: &[Hit], now_ns: u64) {
        let api = seen.api as i16;
        if seen.api == ApiKey::Metadata && !self.streaks.is_empty() {
            // A topic that is no longer asked for.
            let told: BTreeSet<&Part> = outcomes.iter().map(|one| &one.part).collect();
            self.streaks.retain(|(of, part), _| *of != api || told.contains(part));
        }
        if IN_A_GROUP.contains(&seen.api) && outcomes.iter().all(|one| one.code == 0) {
            // What it got before is over. Its partitions may belong to others now, so that no
            // success of theirs ever comes.
            let is_over =
                |one: &Streak| one.group == seen.group && OF_STALE_MEMBERS.contains(&one.code);
            self.streaks.retain(|_, one| !is_over(one));
        }
        for one in outcomes.iter().filter(|one| one.code == 0) {
            if self.streaks.is_empty() {
                break;
            }
            self.streaks.remove(&(api, one.part.clone()));
        }
        for one in outcomes.iter().filter(|one| one.code != 0) {
            // Each part has the error of the fault that struck first.
            let fault = hits.iter().find(|hit| hit.made(one)).map(|hit| hit.fault);
            let key = (api, one.part.clone());
            if let Some(streak) = self.streaks.get_mut(&key)
                && streak.code == one.code
            {
                (streak.times, streak.last_ns, streak.fault) = (streak.times + 1, now_ns, fault);
                continue;
            }
            if self.streaks.len() == MOST_STREAKS {
                self.streaks.pop_first();
            }
            let streak = Streak {
                api: seen.api,
                part: one.part.clone(),
                code: one.code,
                times: 1,
                first_ns: now_ns,
                last_ns: now_ns,
                fault,
                group: seen.group.clone(),
                member: seen.member.clone(),
            };
            self.streaks.insert(key, streak);
        }
    }
}
