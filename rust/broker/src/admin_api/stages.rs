//! The stages of the data plane between two moments, from what is counted anyway.

use std::collections::BTreeMap;

use kafkalite_protocol::ApiKey;
use serde::Serialize;
use serde_json::Value as Json;

use super::brokers::Source;
use crate::admin_http::api_name;
use crate::clock::NS_PER_MS;
use crate::metrics::{HistogramSnapshot, Metrics, Stage, Value};

mod counts;

pub(super) use counts::{Counts, Finished};

/// APIs of one event: those with the most requests.
const MOST_APIS: usize = 12;

const PRODUCE: i16 = ApiKey::Produce as i16;
const FETCH: i16 = ApiKey::Fetch as i16;

/// Figures of each network thread, labelled with its number.
const OF_NETWORK_THREADS: &str = "kafkalite_network_thread_busy_seconds";

const REQUEST_QUEUE: &str = "kafkalite_request_queue_size";
const RESPONSE_QUEUE: &str = "kafkalite_response_queue_size";
/// The part of a queue that faults hold back.
const HELD: &str = "held";

/// Everything that is counted, at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    at_ns: u64,
    histograms: BTreeMap<(i16, Stage), HistogramSnapshot>,
    /// By name and the value of the first label, summed up over the other labels.
    scalars: BTreeMap<(String, String), f64>,
}

impl Snapshot {
    /// What is counted at `at_ns`.
    pub(super) fn take(metrics: &Metrics, at_ns: u64) -> Self {
        let mut histograms = BTreeMap::new();
        metrics.for_each_stage(|api, stage, snapshot| {
            histograms.insert((api, stage), snapshot.clone());
        });
        let mut scalars: BTreeMap<(String, String), f64> = BTreeMap::new();
        metrics.for_each_scalar(|name, _, labels, value| {
            let label = labels.first().map(|(_, text)| text.clone()).unwrap_or_default();
            let value = match value {
                Value::Counter(total) => total as f64,
                Value::Seconds(total) => total,
                Value::Gauge(now) => now as f64,
            };
            *scalars.entry((name.to_owned(), label)).or_default() += value;
        });
        Self { at_ns, histograms, scalars }
    }

    /// Adds the requests and answers that faults hold back: they wait in these queues as well.
    pub(super) fn add_held(&mut self, (requests, answers): (usize, usize)) {
        let queues = [(REQUEST_QUEUE, requests), (RESPONSE_QUEUE, answers)];
        for (name, count) in queues.into_iter().filter(|(_, count)| *count > 0) {
            self.scalars.insert((name.to_owned(), HELD.to_owned()), count as f64);
        }
    }

    /// The sum of a figure over its labels.
    fn sum(&self, name: &str) -> f64 {
        self.labelled(name).map(|(_, value)| value).sum()
    }

    fn labelled<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let of_name = self.scalars.iter().filter(move |((of, _), _)| of == name);
        of_name.map(|((_, label), value)| (label.as_str(), *value))
    }

    fn one(&self, name: &str, label: &str) -> f64 {
        self.scalars.get(&(name.to_owned(), label.to_owned())).copied().unwrap_or_default()
    }
}

/// What happened between two moments.
#[derive(Debug, Default, Serialize)]
pub(super) struct Event {
    pub broker_id: i32,
    pub number: u64,
    pub timestamp_ms: i64,
    interval_ms: f64,
    connections: i64,
    requests_per_second: f64,
    bytes_in_per_second: f64,
    bytes_out_per_second: f64,
    /// The part of the bytes out that never left the kernel; `None`: there were none.
    zero_copy_share: Option<f64>,
    stages: Vec<StageRow>,
    apis: Vec<ApiRow>,
    pub requests: Vec<Json>,
    pub slow: Vec<Json>,
    /// Whose figures these are, if those of others were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures_of: Option<Vec<Source>>,
}

/// One stage.
#[derive(Debug, Default, Serialize)]
struct StageRow {
    name: &'static str,
    /// What is in it now; `None`: it holds nothing.
    depth: Option<i64>,
    /// Its threads; `None`: it has none of its own.
    threads: Option<i64>,
    /// The part of the time in which its threads were busy.
    busy: Option<f64>,
    per_second: f64,
    /// How long requests were in it; `None`: there were none.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// The parts of a stage that has several, by name.
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    depth: i64,
}

/// One API: the whole way of its requests.
#[derive(Debug, Serialize)]
struct ApiRow {
    api: String,
    per_second: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// Two snapshots.
struct Between<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl Event {
    /// What happened between two snapshots.
    pub(super) fn between(before: &Snapshot, now: &Snapshot) -> Self {
        // A clock that stands still must not divide by zero.
        let ns = now.at_ns.saturating_sub(before.at_ns).max(1);
        let of = Between { before, now, seconds: ns as f64 / 1e9 };
        let copied = of.per_second("kafkalite_network_bytes_out_copied");
        let zero_copy = of.per_second("kafkalite_network_bytes_out_zero_copy");
        let bytes_out = copied + zero_copy;
        let apis = of.apis();
        Self {
            interval_ms: ns as f64 / NS_PER_MS as f64,
            connections: whole(now.sum("kafkalite_connections")),
            requests_per_second: apis.iter().map(|api| api.per_second).sum(),
            bytes_in_per_second: of.per_second("kafkalite_network_bytes_in"),
            bytes_out_per_second: bytes_out,
            zero_copy_share: (bytes_out > 0.0).then_some(zero_copy / bytes_out),
            stages: of.stages(),
            apis: most_used(apis),
            ..Self::default()
        }
    }
}

fn most_used(mut apis: Vec<ApiRow>) -> Vec<ApiRow> {
    apis.sort_by(|one, other| other.per_second.total_cmp(&one.per_second));
    apis.truncate(MOST_APIS);
    apis
}

impl Between<'_> {
    fn stages(&self) -> Vec<StageRow> {
        let timed = |name, stage| self.timed(name, stage, |_| true);
        let now = self.now;
        let threads = now.labelled(OF_NETWORK_THREADS).count();
        let io_threads = now.sum("kafkalite_io_threads");
        let lanes = now.labelled(REQUEST_QUEUE);
        let lanes = lanes.map(|(name, depth)| Part { name: name.to_owned(), depth: whole(depth) });
        let responses = now.sum(RESPONSE_QUEUE);
        vec![
            StageRow { depth: Some(whole(now.sum("kafkalite_connections"))), ..row("socket") },
            StageRow {
                threads: i64::try_from(threads).ok(),
                busy: self.busy(OF_NETWORK_THREADS, threads as f64),
                ..timed("network_threads", Stage::Network)
            },
            StageRow {
                depth: Some(whole(now.sum(REQUEST_QUEUE))),
                parts: lanes.collect(),
                ..timed("request_queue", Stage::RequestQueue)
            },
            StageRow {
                threads: Some(whole(io_threads)),
                busy: self.busy("kafkalite_io_threads_busy_seconds", io_threads),
                ..timed("io_threads", Stage::Local)
            },
            timed("commit_log", Stage::Append),
            StageRow {
                depth: Some(whole(now.sum("kafkalite_cold_read_queue_size"))),
                ..timed("cold_reads", Stage::ColdRead)
            },
            self.purgatory("produce_purgatory", "Produce", PRODUCE),
            self.purgatory("fetch_purgatory", "Fetch", FETCH),
            StageRow {
                depth: Some(whole(responses)),
                ..timed("response_queues", Stage::ResponseQueue)
            },
            timed("response_send", Stage::ResponseSend),
        ]
    }

    fn purgatory(&self, name: &'static str, operation: &str, api: i16) -> StageRow {
        let depth = self.now.one("kafkalite_purgatory_size", operation);
        let timed = self.timed(name, Stage::Remote, |of| of == api);
        StageRow { depth: Some(whole(depth)), ..timed }
    }

    /// A row with what requests of some APIs spent in a stage.
    fn timed(&self, name: &'static str, stage: Stage, is_of: impl Fn(i16) -> bool) -> StageRow {
        let apis = self.now.histograms.keys().filter(|(api, of)| *of == stage && is_of(*api));
        let sum = apis.fold(HistogramSnapshot::default(), |sum, key| sum.plus(&self.of(*key)));
        StageRow {
            per_second: sum.count as f64 / self.seconds,
            p50_ms: quantile_ms(&sum, 0.5),
            p99_ms: quantile_ms(&sum, 0.99),
            ..row(name)
        }
    }

    fn apis(&self) -> Vec<ApiRow> {
        let totals = self.now.histograms.keys().filter(|(_, stage)| *stage == Stage::Total);
        let apis = totals.map(|key| {
            let times = self.of(*key);
            ApiRow {
                api: api_name(key.0),
                per_second: times.count as f64 / self.seconds,
                p50_ms: quantile_ms(&times, 0.5),
                p99_ms: quantile_ms(&times, 0.99),
            }
        });
        apis.filter(|api| api.per_second > 0.0).collect()
    }

    /// What a histogram counted in between.
    fn of(&self, key: (i16, Stage)) -> HistogramSnapshot {
        let now = self.now.histograms.get(&key).cloned().unwrap_or_default();
        self.before.histograms.get(&key).map_or(now.clone(), |before| now.since(before))
    }

    fn per_second(&self, name: &str) -> f64 {
        (self.now.sum(name) - self.before.sum(name)).max(0.0) / self.seconds
    }

    fn busy(&self, name: &str, threads: f64) -> Option<f64> {
        (threads > 0.0).then(|| (self.per_second(name) / threads).clamp(0.0, 1.0))
    }
}

fn row(name: &'static str) -> StageRow {
    StageRow { name, ..StageRow::default() }
}

fn quantile_ms(times: &HistogramSnapshot, q: f64) -> Option<f64> {
    (times.count > 0).then(|| times.quantile_ns(q) as f64 / NS_PER_MS as f64)
}

fn whole(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stage<'a>(event: &'a Event, name: &str) -> &'a StageRow {
        event.stages.iter().find(|row| row.name == name).expect(name)
    }

    #[test]
    fn an_event_tells_only_what_happened_in_between() {
        let metrics = Metrics::new();
        metrics.record(Stage::Total, PRODUCE, 1 << 30);
        let before = Snapshot::take(&metrics, 0);
        for _ in 0..10 {
            metrics.record(Stage::Total, PRODUCE, 1_000_000);
            metrics.record(Stage::Append, PRODUCE, 500_000);
        }
        metrics.record(Stage::Total, FETCH, 1_000_000);
        let event = Event::between(&before, &Snapshot::take(&metrics, SECOND / 2));
        let apis: Vec<_> = event.apis.iter().map(|api| (&*api.api, api.per_second)).collect();
        assert_eq!(apis, [("Produce", 20.0), ("Fetch", 2.0)]);
        assert!(event.apis[0].p99_ms.is_some_and(|ms| (0.5..2.1).contains(&ms)), "{event:?}");
        assert_eq!(stage(&event, "commit_log").per_second, 20.0);
        assert_eq!(stage(&event, "cold_reads").p50_ms, None);
        assert_eq!(event.interval_ms, 500.0);
    }

    #[test]
    fn threads_are_busy_for_a_part_of_their_time() {
        let metrics = Metrics::new();
        metrics.gauge("kafkalite_io_threads", "", vec![]).set(2);
        let busy = metrics.time("kafkalite_io_threads_busy_seconds", "", vec![]);
        let before = Snapshot::take(&metrics, 0);
        busy.add_ns(SECOND / 2);
        let event = Event::between(&before, &Snapshot::take(&metrics, SECOND));
        let row = stage(&event, "io_threads");
        assert_eq!((row.threads, row.busy), (Some(2), Some(0.25)));
        assert_eq!(stage(&event, "network_threads").busy, None);
    }

    #[test]
    fn each_lane_and_each_purgatory_has_its_own_depth() {
        let metrics = Metrics::new();
        let gauge = |name, key, value: &str| metrics.gauge(name, "", vec![(key, value.to_owned())]);
        gauge("kafkalite_request_queue_size", "lane", "control").set(1);
        gauge("kafkalite_request_queue_size", "lane", "data").set(7);
        gauge("kafkalite_purgatory_size", "operation", "Fetch").set(3);
        gauge("kafkalite_purgatory_size", "operation", "Produce").set(2);
        let at = |ns| Snapshot::take(&metrics, ns);
        let event = Event::between(&at(0), &at(1));
        let queue = stage(&event, "request_queue");
        let lanes: Vec<_> = queue.parts.iter().map(|part| (&*part.name, part.depth)).collect();
        assert_eq!((queue.depth, lanes), (Some(8), vec![("control", 1), ("data", 7)]));
        assert_eq!(stage(&event, "fetch_purgatory").depth, Some(3));
        assert_eq!(stage(&event, "produce_purgatory").depth, Some(2));
    }

    #[test]
    fn what_faults_hold_back_waits_in_the_queues() {
        let metrics = Metrics::new();
        let size = metrics.gauge(REQUEST_QUEUE, "", vec![("lane", "data".to_owned())]);
        size.set(7);
        let mut now = Snapshot::take(&metrics, 1);
        now.add_held((2, 0));
        let event = Event::between(&Snapshot::take(&metrics, 0), &now);
        let queue = stage(&event, "request_queue");
        let parts: Vec<_> = queue.parts.iter().map(|part| (&*part.name, part.depth)).collect();
        assert_eq!((queue.depth, parts), (Some(9), vec![("data", 7), ("held", 2)]));
        assert_eq!(stage(&event, "response_queues").depth, Some(0));
        now.add_held((0, 4));
        let event = Event::between(&now, &now);
        assert_eq!(stage(&event, "response_queues").depth, Some(4));
    }

    #[test]
    fn a_clock_that_stands_still_does_no_harm() {
        let metrics = Metrics::new();
        let at = || Snapshot::take(&metrics, 5);
        assert_eq!(Event::between(&at(), &at()).bytes_in_per_second, 0.0);
    }
}
