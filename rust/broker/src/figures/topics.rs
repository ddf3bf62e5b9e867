//! The page `topics`.

use super::{Bounded, Figures, page};
use crate::metrics::{Column, Labels, Table};
use crate::partitions::Partition;
use std::collections::BTreeMap;
use std::sync::Arc;

const TRAFFIC: &[Column] = &[
    Column::counter(
        "kafka_server_brokertopicmetrics_messagesin",
        "Records that were appended to the topic since the broker opened its logs.",
    ),
    Column::counter(
        "kafka_server_brokertopicmetrics_bytesin",
        "Bytes of batches that were appended to the topic since the broker opened its logs.",
    ),
    Column::counter(
        "kafka_server_brokertopicmetrics_bytesout",
        "Bytes of batches that consumers were given of the topic since the broker opened its logs.",
    ),
];

const LOGS: &[Column] = &[
    Column::gauge("kafka_log_log_logstartoffset", "The first offset of the partition's log."),
    Column::gauge("kafka_log_log_logendoffset", "One past the last offset of the log."),
    Column::gauge("kafka_log_log_size", "Bytes of the log's segments."),
    Column::gauge("kafka_log_log_numlogsegments", "Segments of the log."),
    Column::gauge(
        "kafkalite_partition_high_watermark",
        "One past the last offset that consumers may read.",
    ),
    Column::gauge("kafkalite_partition_leader_epoch", "The leader epoch; -1 before the first."),
];

impl Figures {
    /// Traffic of each topic, and the log of each partition, by name and number.
    pub(super) fn topics(&self) -> Vec<Table> {
        let mut by_topic: BTreeMap<Arc<str>, Vec<Arc<Partition>>> = BTreeMap::new();
        for partition in self.partitions.all() {
            by_topic.entry(partition.topic_name()).or_default().push(partition);
        }
        let (mut traffic, mut logs) = (Bounded::new(TRAFFIC), Bounded::new(LOGS));
        for (name, mut partitions) in by_topic {
            partitions.sort_by_key(|partition| partition.index());
            let topic = ("topic", name.to_string());
            let id = partitions[0].topic_id();
            traffic.push(|| {
                let total = self.partitions.traffic_of(id);
                let totals = [total.records_in, total.bytes_in, total.bytes_out];
                (vec![topic.clone()], totals.map(|total| total as f64).to_vec())
            });
            for partition in &partitions {
                let index = ("partition", partition.index().to_string());
                logs.push(|| (Labels::from([topic.clone(), index]), log(partition)));
            }
        }
        page([traffic, logs])
    }
}

fn log(partition: &Partition) -> Vec<f64> {
    vec![
        partition.log_start_offset().0 as f64,
        partition.log_end_offset().0 as f64,
        partition.size_bytes() as f64,
        partition.log().segment_count() as f64,
        partition.high_watermark().0 as f64,
        f64::from(partition.leader_epoch().0),
    ]
}
