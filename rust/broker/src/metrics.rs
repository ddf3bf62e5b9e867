//! What the broker counts: stage durations, totals, gauges. Nothing here formats text.
//!
//! Recording must not slow the path it measures. So a duration is two relaxed additions into a
//! histogram of powers of two ([`Histogram`]). A counter or gauge is one atomic that its room
//! holds by `Arc`. [`Metrics::for_each_stage`] and [`Metrics::for_each_scalar`] enumerate all of it
//! for `admin_http`, which owns the exposition. Figures of single topics, partitions and groups are
//! gathered only when their page is read ([`Metrics::tables`]).
//!
//! Source: the stages are those of Kafka's `RequestMetrics` (`RequestQueueTimeMs`, `LocalTimeMs`,
//! `RemoteTimeMs`, `ResponseQueueTimeMs`, `ResponseSendTimeMs`, `TotalTimeMs`) and a few of ours.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

mod finished;
mod histogram;
mod kept_lines;
mod recent;
mod tables;
#[cfg(test)]
mod tests;

pub use finished::{FinishedRequest, FinishedRequests, Kept, Passed, SLOW_NS};
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};
pub use kept_lines::{KeptLine, KeptLines, kept_lines};
pub use recent::{RecentRequest, RecentRequests, StageTimes};
pub use tables::{Column, Kind, Table};
use tables::{Gather, Page};

/// API keys at or above this share the last slot; Kafka 4.3 uses keys below 100.
const API_SLOTS: usize = 128;

/// One stage of a request's way through the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Stage {
    /// From a frame's first byte to its place in the request queue.
    Network,
    /// From there until a handler starts. Zero if it ran inline.
    RequestQueue,
    /// The handler itself.
    Local,
    /// Appending to the commit log, within `Local`.
    Append,
    /// From the handler's return to the response: time in purgatory.
    Remote,
    /// Reading ranges that had left the page cache, within `Remote`. A fetch may do so twice: to
    /// find an old offset, and for what it answers.
    ColdRead,
    /// From the response to the network thread taking it.
    ResponseQueue,
    /// From there until its last byte is in the socket send buffer.
    ResponseSend,
    /// From the complete frame to that last byte.
    Total,
}

impl Stage {
    /// Every stage, in the order a request meets them.
    pub const ALL: [Self; 9] = [
        Self::Network,
        Self::RequestQueue,
        Self::Local,
        Self::Append,
        Self::Remote,
        Self::ColdRead,
        Self::ResponseQueue,
        Self::ResponseSend,
        Self::Total,
    ];

    /// The value of the label `stage`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::RequestQueue => "request_queue",
            Self::Local => "local",
            Self::Append => "append",
            Self::Remote => "remote",
            Self::ColdRead => "cold_read",
            Self::ResponseQueue => "response_queue",
            Self::ResponseSend => "response_send",
            Self::Total => "total",
        }
    }
}

/// A total that only grows.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The total so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A total of time, counted in nanoseconds. Its name is in seconds, and so is what readers see.
#[derive(Debug, Clone, Default)]
pub struct TimeCounter(Counter);

impl TimeCounter {
    /// Adds `ns` nanoseconds.
    pub fn add_ns(&self, ns: u64) {
        self.0.add(ns);
    }
}

/// A value that goes up and down.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter or a gauge as enumerated: its kind and its value now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A total that only grows.
    Counter(u64),
    /// A total of time, in seconds.
    Seconds(f64),
    /// A value that goes up and down.
    Gauge(i64),
}

/// Labels of one scalar: names and values.
pub type Labels = Vec<(&'static str, String)>;

enum Source {
    Counter(Counter),
    Time(TimeCounter),
    Gauge(Gauge),
    Computed(Box<dyn Computed>),
}

/// A value that another owner keeps.
trait Computed: Send + Sync {
    /// The value now; 0 once its keeper is gone.
    fn value(&self) -> i64;
}

/// A look at what a room keeps. It is weak and its function captures nothing: whatever the room
/// holds, the metrics among it, the metrics never hold the room.
struct Look<T> {
    at: Weak<T>,
    value: fn(&T) -> i64,
}

impl<T: Send + Sync> Computed for Look<T> {
    fn value(&self) -> i64 {
        self.at.upgrade().map_or(0, |kept| (self.value)(&kept))
    }
}

struct Scalar {
    name: &'static str,
    help: &'static str,
    labels: Labels,
    source: Source,
}

type StageHistograms = [Histogram; Stage::ALL.len()];

/// Everything the broker counts. Handed around as `Arc<Metrics>`.
pub struct Metrics {
    stages: Box<[OnceLock<Box<StageHistograms>>]>,
    scalars: Mutex<Vec<Scalar>>,
    pages: Mutex<Vec<(&'static str, Arc<dyn Gather>)>>,
    recent: Option<RecentRequests>,
    finished: FinishedRequests,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet; an API's histograms are allocated at its first request.
    #[must_use]
    pub fn new() -> Self {
        Self {
            stages: (0..API_SLOTS).map(|_| OnceLock::new()).collect(),
            scalars: Mutex::new(Vec::new()),
            pages: Mutex::new(Vec::new()),
            recent: None,
            finished: FinishedRequests::default(),
        }
    }

    /// The same, remembering the last `room` requests one by one; 0 is none.
    #[must_use]
    pub fn remembering(room: usize) -> Self {
        Self { recent: (room > 0).then(|| RecentRequests::new(room)), ..Self::new() }
    }

    /// The last requests, if they are remembered.
    #[must_use]
    pub fn recent(&self) -> Option<&RecentRequests> {
        self.recent.as_ref()
    }

    /// Requests whose answer has left: a sample, and the slow ones.
    #[must_use]
    pub fn finished(&self) -> &FinishedRequests {
        &self.finished
    }

    /// Records that `stage` of a request of `api_key` took `duration_ns`.
    pub fn record(&self, stage: Stage, api_key: i16, duration_ns: u64) {
        let slot = usize::try_from(api_key).unwrap_or(API_SLOTS).min(API_SLOTS - 1);
        let stages = self.stages[slot].get_or_init(Box::default);
        stages[stage as usize].record(duration_ns);
    }

    /// How many durations of `stage` were recorded for `api_key`, which is not negative.
    #[must_use]
    pub fn count(&self, stage: Stage, api_key: i16) -> u64 {
        let stages = self.stages.get(usize::try_from(api_key).unwrap_or(API_SLOTS));
        stages.and_then(OnceLock::get).map_or(0, |of| of[stage as usize].snapshot().count)
    }

    /// Calls `visit(api_key, stage, histogram)` for every pair that has recorded anything.
    pub fn for_each_stage(&self, mut visit: impl FnMut(i16, Stage, &HistogramSnapshot)) {
        for (api_key, stages) in (0i16..).zip(self.stages.iter()) {
            let Some(stages) = stages.get() else { continue };
            for stage in Stage::ALL {
                let snapshot = stages[stage as usize].snapshot();
                if snapshot.count > 0 {
                    visit(api_key, stage, &snapshot);
                }
            }
        }
    }

    /// A new counter under `name`; keep the handle, it is the way to add.
    pub fn counter(&self, name: &'static str, help: &'static str, labels: Labels) -> Counter {
        let counter = Counter::default();
        self.register(name, help, labels, Source::Counter(counter.clone()));
        counter
    }

    /// A new counter of time under `name`, which ends in `_seconds`.
    pub fn time(&self, name: &'static str, help: &'static str, labels: Labels) -> TimeCounter {
        let counter = TimeCounter::default();
        self.register(name, help, labels, Source::Time(counter.clone()));
        counter
    }

    /// A new gauge under `name`.
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: Labels) -> Gauge {
        let gauge = Gauge::default();
        self.register(name, help, labels, Source::Gauge(gauge.clone()));
        gauge
    }

    /// A gauge that is asked for when metrics are read, for values a room already keeps. The room
    /// is not kept alive by it; 0 once the room is gone.
    pub fn computed<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
        of: &Arc<T>,
        value: fn(&T) -> i64,
    ) {
        let look = Look { at: Arc::downgrade(of), value };
        self.register(name, help, labels, Source::Computed(Box::new(look)));
    }

    /// Adds a page of tables, gathered when it is asked for. `of` is not kept alive by it.
    pub fn page<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        of: &Arc<T>,
        gather: fn(&T) -> Vec<Table>,
    ) {
        let page = Page { at: Arc::downgrade(of), gather };
        self.pages.lock().push((name, Arc::new(page)));
    }

    /// The tables of the page of this name, as they are now.
    #[must_use]
    pub fn tables(&self, page: &str) -> Vec<Table> {
        let pages = self.pages.lock().clone();
        // Without the lock: one page may have to wait for a disk, and the others must not.
        pages.iter().filter(|(name, _)| *name == page).flat_map(|(_, page)| page.gather()).collect()
    }

    /// Calls `visit(name, help, labels, value)` for every counter and gauge, in the order of their
    /// registration.
    pub fn for_each_scalar(&self, mut visit: impl FnMut(&str, &str, &Labels, Value)) {
        for scalar in self.scalars.lock().iter() {
            let value = match &scalar.source {
                Source::Counter(counter) => Value::Counter(counter.get()),
                Source::Time(TimeCounter(ns)) => Value::Seconds(ns.get() as f64 / 1e9),
                Source::Gauge(gauge) => Value::Gauge(gauge.get()),
                Source::Computed(computed) => Value::Gauge(computed.value()),
            };
            visit(scalar.name, scalar.help, &scalar.labels, value);
        }
    }

    fn register(&self, name: &'static str, help: &'static str, labels: Labels, source: Source) {
        self.scalars.lock().push(Scalar { name, help, labels, source });
    }
}
