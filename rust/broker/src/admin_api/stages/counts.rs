//! What one broker counted, as it tells another one, and how counts of several become one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{OF_NETWORK_THREADS, REQUEST_QUEUE, RESPONSE_QUEUE, Snapshot};
use crate::admin_api::requests;
use crate::metrics::{BUCKETS, FinishedRequests, HistogramSnapshot, Kept, Stage};

/// Sampled and slow requests of one answer, each at most.
const MOST_REQUESTS: usize = 12;

/// The figures that an event is made of, beside the times of stages.
const SCALARS: [&str; 11] = [
    "kafkalite_cold_read_queue_size",
    "kafkalite_connections",
    "kafkalite_io_threads",
    "kafkalite_io_threads_busy_seconds",
    "kafkalite_network_bytes_in",
    "kafkalite_network_bytes_out_copied",
    "kafkalite_network_bytes_out_zero_copy",
    OF_NETWORK_THREADS,
    "kafkalite_purgatory_size",
    REQUEST_QUEUE,
    RESPONSE_QUEUE,
];

/// What one broker counted until now, as it tells another one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::admin_api) struct Counts {
    /// When it began to serve: in another life it counts from zero.
    pub started_ns: u64,
    times: Vec<Times>,
    /// Name, first label, value.
    scalars: Vec<(String, String, f64)>,
    pub finished: Finished,
}

/// Requests that finished.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::admin_api) struct Finished {
    /// The number of the first request that is not told here.
    pub next: u64,
    pub requests: Vec<Json>,
    pub slow: Vec<Json>,
}

/// How long requests of an API spent in a stage.
#[derive(Debug, Serialize, Deserialize)]
struct Times {
    api: i16,
    stage: String,
    sum_ns: u64,
    /// The buckets that count something.
    buckets: Vec<(usize, u64)>,
}

impl Finished {
    /// Those from number `first` on, or none; and the number of those that come.
    pub(in crate::admin_api) fn take(
        finished: &FinishedRequests,
        first: Option<u64>,
        now_ns: u64,
    ) -> Self {
        let next = finished.next_number();
        let first = first.unwrap_or(next);
        let rows = |kept| {
            let newest = finished.newest(kept, first, MOST_REQUESTS);
            let newest = newest.iter().filter(|(number, _)| *number < next);
            let rows = newest.map(|(number, request)| requests::row(*number, request, now_ns));
            rows.filter_map(|row| serde_json::to_value(row).ok()).collect()
        };
        Self { next, requests: rows(Kept::Sampled), slow: rows(Kept::Slow) }
    }

    /// Adds those of another broker, and writes into each whose it is.
    pub(in crate::admin_api) fn add(&mut self, broker_id: i32, mut other: Self) {
        for request in other.requests.iter_mut().chain(&mut other.slow) {
            if let Some(members) = request.as_object_mut() {
                members.insert("broker_id".to_owned(), broker_id.into());
            }
        }
        self.requests.append(&mut other.requests);
        self.slow.append(&mut other.slow);
    }
}

impl Snapshot {
    /// What another broker told, at `at_ns` of this broker's clock. What it does not know here
    /// is left out.
    pub(in crate::admin_api) fn of(counts: &Counts, at_ns: u64) -> Self {
        let mut histograms = BTreeMap::new();
        for Times { api, stage, sum_ns, buckets } in &counts.times {
            let Some(stage) = Stage::ALL.into_iter().find(|one| one.name() == stage) else {
                continue;
            };
            let mut all = [0u64; BUCKETS];
            for (bucket, count) in buckets {
                if let Some(own) = all.get_mut(*bucket) {
                    *own = *count;
                }
            }
            let count = all.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
            let snapshot = HistogramSnapshot { count, sum_ns: *sum_ns, buckets: all };
            histograms.insert((*api, stage), snapshot);
        }
        let scalars = counts.scalars.iter();
        let scalars = scalars.map(|(name, label, value)| ((name.clone(), label.clone()), *value));
        Self { at_ns, histograms, scalars: scalars.collect() }
    }

    /// What it tells another broker.
    pub(in crate::admin_api) fn counts(&self, started_ns: u64, finished: Finished) -> Counts {
        let times = self.histograms.iter().map(|((api, stage), of)| Times {
            api: *api,
            stage: stage.name().to_owned(),
            sum_ns: of.sum_ns,
            buckets: of.buckets.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect(),
        });
        let scalars = self.scalars.iter().filter(|((name, _), _)| SCALARS.contains(&&**name));
        let scalars = scalars.map(|((name, label), value)| (name.clone(), label.clone(), *value));
        Counts { started_ns, times: times.collect(), scalars: scalars.collect(), finished }
    }

    /// Adds what a broker counted.
    pub(in crate::admin_api) fn add(&mut self, broker_id: i32, other: &Self) {
        self.at_ns = self.at_ns.max(other.at_ns);
        for (key, of) in &other.histograms {
            let sum = self.histograms.entry(*key).or_default();
            *sum = sum.plus(of);
        }
        for ((name, label), value) in &other.scalars {
            // The first thread of one broker is not that of another.
            let label = match name == OF_NETWORK_THREADS {
                true => format!("{broker_id} {label}"),
                false => label.clone(),
            };
            *self.scalars.entry((name.clone(), label)).or_default() += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use kafkalite_protocol::ApiKey;

    use super::*;
    use crate::admin_api::stages::Event;
    use crate::metrics::Metrics;

    const PRODUCE: i16 = ApiKey::Produce as i16;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn brokers_are_added_as_if_they_were_one() {
        let one = || {
            let metrics = Metrics::new();
            let gauge = metrics.gauge("kafkalite_connections", "", vec![]);
            gauge.set(3);
            let label = vec![("thread", "0".to_owned())];
            (metrics.time(OF_NETWORK_THREADS, "", label), metrics)
        };
        let brokers = [one(), one()];
        let at = |ns| {
            let mut all = Snapshot::default();
            for (id, (_, metrics)) in (1..).zip(&brokers) {
                // The way over the wire.
                let told = serde_json::to_string(
                    &Snapshot::take(metrics, 7).counts(1, Finished::default()),
                );
                let told = serde_json::from_str(&told.expect("JSON")).expect("the same");
                all.add(id, &Snapshot::of(&told, ns));
            }
            all
        };
        let before = at(0);
        for (id, (busy, metrics)) in (0..).zip(&brokers) {
            busy.add_ns(SECOND / 4);
            for _ in 0..10 {
                metrics.record(Stage::Total, PRODUCE, 1_000_000 << (2 * id));
            }
        }
        let event = Event::between(&before, &at(SECOND));
        assert_eq!(event.connections, 6);
        let produce = &event.apis[0];
        assert_eq!(produce.per_second, 20.0);
        // Half of them took four times as long.
        assert!(produce.p50_ms.is_some_and(|ms| ms < 2.1), "{produce:?}");
        assert!(produce.p99_ms.is_some_and(|ms| ms > 2.1), "{produce:?}");
        let network = event.stages.iter().find(|row| row.name == "network_threads");
        let network = network.expect("a stage");
        assert_eq!((network.threads, network.busy), (Some(2), Some(0.25)));
    }

    #[test]
    fn counts_of_another_version_do_no_harm() {
        let times = |stage: &str, bucket| Times {
            api: PRODUCE,
            stage: stage.to_owned(),
            sum_ns: u64::MAX,
            buckets: vec![(bucket, u64::MAX), (1, u64::MAX)],
        };
        let times = vec![times("total", usize::MAX), times("no such stage", 0)];
        let told = Counts { times, ..Counts::default() };
        let mut all = Snapshot::of(&told, 1);
        all.add(2, &Snapshot::of(&told, 1));
        let event = Event::between(&Snapshot::default(), &all);
        assert_eq!(event.apis.len(), 1);
    }
}
