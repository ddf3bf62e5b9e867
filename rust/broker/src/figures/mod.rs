//! Figures of the broker as a whole, of its topics, partitions and groups: read when a page of
//! metrics is, and kept nowhere.
//!
//! | page | rows |
//! |---|---|
//! | `topics` | the traffic of each topic; start, end and size of each partition's log |
//! | `groups` | the members of each group; for each partition the committed offset and the lag |
//! | `clients` | what clients report (KIP-714): for each metric the sum and the greatest value |
//!
//! A page has at most [`MAX_ROWS`] rows in each table, and says how many it leaves out.
//! Source: Kafka's `BrokerTopicMetrics`, `Log`, `Partition`, `ReplicaManager` and
//! `KafkaController`, spelled as the rules that jmx-exporter publishes spell them. Groups have the
//! names of the common lag exporters: Kafka has no metric of a group's lag.

use crate::client_metrics::ClientMetrics;
use crate::clock::Clock;
use crate::coordinator::GroupCoordinator;
use crate::metadata::{Controller, PartitionImage};
use crate::metrics::{Column, Labels, Metrics, Table};
use crate::partitions::ReplicaManager;
use std::sync::Arc;

mod clients;
mod groups;
#[cfg(test)]
mod tests;
mod topics;

/// Rows that a table has at most: a scrape must stay small beside 100,000 partitions.
pub const MAX_ROWS: usize = 10_000;

/// An active controller has the answers of a majority of the voters within this time, in ms.
/// Source: KAFKA-15489, one and a half times `controller.quorum.fetch.timeout.ms`.
const ANSWERED_MS: u64 = 3_000;

/// The rooms that figures are read from.
pub struct Figures {
    /// Which broker this is.
    pub local_id: i32,
    /// The control plane.
    pub controller: Arc<Controller>,
    /// The replicas on this broker.
    pub partitions: Arc<ReplicaManager>,
    /// The groups it coordinates.
    pub groups: Arc<GroupCoordinator>,
    /// What clients report of themselves.
    pub client_metrics: Arc<ClientMetrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// A figure of the broker as a whole: its name, its meaning, and where it is read.
type BrokerGauge = (&'static str, &'static str, fn(&Figures) -> i64);

const BROKER_GAUGES: [BrokerGauge; 10] = [
    ("kafka_server_replicamanager_partitioncount", "Replicas on this broker.", |figures| {
        count(figures.partitions.all().len())
    }),
    ("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.", |figures| {
        figures.led(|_| true)
    }),
    (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions that this broker leads and that lack an in-sync replica.",
        |figures| figures.led(PartitionImage::is_under_replicated),
    ),
    (
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas on this broker whose log directory failed.",
        |figures| count(figures.partitions.all().iter().filter(|p| p.is_offline()).count()),
    ),
    (
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 if this broker is the active controller, and a majority of the voters answers it.",
        |figures| i64::from(figures.is_active_controller()),
    ),
    ("kafka_controller_kafkacontroller_activebrokercount", "Brokers that serve.", |figures| {
        let image = figures.controller.image();
        count(image.brokers.len() - image.fenced_brokers())
    }),
    (
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "Brokers that start, stop, or send no heartbeats.",
        |figures| count(figures.controller.image().fenced_brokers()),
    ),
    ("kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.", |figures| {
        count(figures.controller.image().topics.iter().count())
    }),
    (
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "Partitions of all topics of the cluster.",
        |figures| figures.cluster(|_| true),
    ),
    (
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions of the cluster that no broker leads.",
        |figures| figures.cluster(|partition| partition.leader < 0),
    ),
];

impl Figures {
    /// Shows the figures among `metrics` as long as they are kept.
    pub fn show_in(self: &Arc<Self>, metrics: &Metrics) {
        for (name, help, value) in BROKER_GAUGES {
            metrics.computed(name, help, vec![], self, value);
        }
        metrics.page("topics", self, Self::topics);
        metrics.page("groups", self, Self::groups);
        metrics.page("clients", self, Self::clients);
    }

    fn is_active_controller(&self) -> bool {
        self.controller.image().controller_id == self.local_id
            && self.controller.quorum().status().is_active(self.local_id, ANSWERED_MS)
    }

    fn led(&self, is_counted: fn(&PartitionImage) -> bool) -> i64 {
        let image = self.controller.image();
        let partitions = image.topics.iter().flat_map(|topic| &topic.partitions);
        let led = partitions.filter(|partition| partition.leader == self.local_id);
        count(led.filter(|partition| is_counted(partition)).count())
    }

    fn cluster(&self, is_counted: fn(&PartitionImage) -> bool) -> i64 {
        let image = self.controller.image();
        let partitions = image.topics.iter().flat_map(|topic| &topic.partitions);
        count(partitions.filter(|partition| is_counted(partition)).count())
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const LEFT_OUT: &[Column] = &[Column::gauge(
    "kafkalite_metrics_rows_left_out",
    "Rows that this page does not show: a table has 10,000 at most.",
)];

/// A table that keeps its first [`MAX_ROWS`] rows and counts the others: they are never built.
struct Bounded {
    table: Table,
    left_out: usize,
}

impl Bounded {
    const fn new(columns: &'static [Column]) -> Self {
        Self { table: Table { columns, rows: Vec::new() }, left_out: 0 }
    }

    fn has_room(&self) -> bool {
        self.table.rows.len() < MAX_ROWS
    }

    /// Adds what `row` builds, while there is room.
    fn push(&mut self, row: impl FnOnce() -> (Labels, Vec<f64>)) {
        if self.has_room() {
            self.table.rows.push(row());
        } else {
            self.left_out += 1;
        }
    }
}

/// `tables`, and one more that says how many rows are missing.
fn page<const N: usize>(tables: [Bounded; N]) -> Vec<Table> {
    let left_out: f64 = tables.iter().map(|table| table.left_out as f64).sum();
    let mut page: Vec<Table> = tables.into_iter().map(|bounded| bounded.table).collect();
    page.push(Table { columns: LEFT_OUT, rows: vec![(Labels::new(), vec![left_out])] });
    page
}
