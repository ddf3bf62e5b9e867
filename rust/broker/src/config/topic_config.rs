//! A topic's configuration as plain fields: what it sets for itself over the broker's defaults.

use std::collections::{BTreeMap, BTreeSet};

use super::broker_config::{BatchValidation, BrokerConfig};
use super::topic_values::TopicValues;
use super::value::Value;

/// Which replicas of a topic on one broker are throttled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttled {
    /// `leader.replication.throttled.replicas`
    pub leader: ThrottledPartitions,
    /// `follower.replication.throttled.replicas`
    pub follower: ThrottledPartitions,
}

/// Partitions of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThrottledPartitions {
    /// All: `*`.
    All,
    /// These.
    Of(BTreeSet<i32>),
}

impl ThrottledPartitions {
    /// Whether this one is among them.
    #[must_use]
    pub fn names(&self, partition: i32) -> bool {
        match self {
            Self::All => true,
            Self::Of(partitions) => partitions.contains(&partition),
        }
    }
}

/// A topic's configuration. Fields are named as their keys, dots turned to underscores.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// `cleanup.policy` contains `delete`.
    pub cleanup_delete: bool,
    /// `cleanup.policy` contains `compact`.
    pub cleanup_compact: bool,
    /// `compression.type`: `producer`, `uncompressed`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression_type: String,
    /// `compression.gzip.level`
    pub compression_gzip_level: i32,
    /// `compression.lz4.level`
    pub compression_lz4_level: i32,
    /// `compression.zstd.level`
    pub compression_zstd_level: i32,
    /// `delete.retention.ms`
    pub delete_retention_ms: i64,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: i64,
    /// `flush.messages`; `i64::MAX` leaves it to the kernel, 1 is group commit.
    pub flush_messages: i64,
    /// `flush.ms`
    pub flush_ms: i64,
    /// `index.interval.bytes`
    pub index_interval_bytes: i32,
    /// `max.compaction.lag.ms`
    pub max_compaction_lag_ms: i64,
    /// `max.message.bytes`, of a whole batch.
    pub max_message_bytes: i32,
    /// `message.timestamp.after.max.ms`
    pub message_timestamp_after_max_ms: i64,
    /// `message.timestamp.before.max.ms`
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub log_append_time: bool,
    /// `min.cleanable.dirty.ratio`
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`
    pub min_compaction_lag_ms: i64,
    /// `min.insync.replicas`
    pub min_insync_replicas: i32,
    /// `preallocate`
    pub preallocate: bool,
    /// `retention.bytes`; -1 for no bound.
    pub retention_bytes: i64,
    /// `retention.ms`; -1 keeps records without a limit of time.
    pub retention_ms: i64,
    /// `segment.bytes`, or `internal.segment.bytes` where that is set.
    pub segment_bytes: i32,
    /// `segment.index.bytes`
    pub segment_index_bytes: i32,
    /// `segment.jitter.ms`
    pub segment_jitter_ms: i64,
    /// `segment.ms`
    pub segment_ms: i64,
    /// The replicas that this broker is to throttle.
    pub throttled: Throttled,
    /// `unclean.leader.election.enable`
    pub unclean_leader_election_enable: bool,
    /// `kafkalite.batch.validation`
    pub batch_validation: BatchValidation,
    /// `producer.id.expiration.ms`, of the broker.
    pub producer_id_expiration_ms: i64,
}

impl TopicConfig {
    /// What `overrides` (keys with dots) amount to over the defaults of `broker`. An override that
    /// does not hold costs its own key alone, as [`TopicValues`] says.
    #[must_use]
    pub fn new(broker: &BrokerConfig, overrides: &BTreeMap<String, String>) -> Self {
        let values = TopicValues::new(&broker.values, overrides);
        let read = Reader { values: &values };
        let policies = read.list("cleanup.policy");
        let has = |policy: &str| policies.iter().any(|one| one == policy);
        Self {
            cleanup_delete: has("delete"),
            cleanup_compact: has("compact"),
            compression_type: read.text("compression.type"),
            compression_gzip_level: read.int("compression.gzip.level"),
            compression_lz4_level: read.int("compression.lz4.level"),
            compression_zstd_level: read.int("compression.zstd.level"),
            delete_retention_ms: read.long("delete.retention.ms"),
            file_delete_delay_ms: read.long("file.delete.delay.ms"),
            flush_messages: read.long("flush.messages"),
            flush_ms: read.long("flush.ms"),
            index_interval_bytes: read.int("index.interval.bytes"),
            max_compaction_lag_ms: read.long("max.compaction.lag.ms"),
            max_message_bytes: read.int("max.message.bytes"),
            message_timestamp_after_max_ms: read.long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: read.long("message.timestamp.before.max.ms"),
            log_append_time: read.text("message.timestamp.type") == "LogAppendTime",
            min_cleanable_dirty_ratio: read.double("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: read.long("min.compaction.lag.ms"),
            min_insync_replicas: read.int("min.insync.replicas"),
            preallocate: read.boolean("preallocate"),
            retention_bytes: read.long("retention.bytes"),
            retention_ms: read.long("retention.ms"),
            segment_bytes: read.segment_bytes(),
            segment_index_bytes: read.int("segment.index.bytes"),
            segment_jitter_ms: read.long("segment.jitter.ms"),
            segment_ms: read.long("segment.ms"),
            throttled: Throttled {
                leader: read.throttled("leader.replication.throttled.replicas", broker.node_id),
                follower: read.throttled("follower.replication.throttled.replicas", broker.node_id),
            },
            unclean_leader_election_enable: read.boolean("unclean.leader.election.enable"),
            batch_validation: match read.text("kafkalite.batch.validation").as_str() {
                "relaxed" => BatchValidation::Relaxed,
                _ => BatchValidation::Strict,
            },
            producer_id_expiration_ms: broker.producer_id_expiration_ms,
        }
    }
}

struct Reader<'a> {
    values: &'a TopicValues,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        self.values.value(name).cloned()
    }

    fn long(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Number(number)) => number,
            other => panic!("{name} is a number in the table, not {other:?}"),
        }
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.long(name)).expect("the table calls it an INT, and parse() keeps to it")
    }

    fn double(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Double(double)) => double,
            other => panic!("{name} is a double in the table, not {other:?}"),
        }
    }

    fn boolean(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Boolean(true))
    }

    fn text(&self, name: &str) -> String {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            other => panic!("{name} is a text in the table, not {other:?}"),
        }
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(list)) => list,
            other => panic!("{name} is a list in the table, not {other:?}"),
        }
    }

    fn throttled(&self, name: &str, node_id: i32) -> ThrottledPartitions {
        let list = self.list(name);
        if list == ["*"] {
            return ThrottledPartitions::All;
        }
        let pair = |part: &String| {
            let (partition, broker) = part.split_once(':')?;
            let is_here = broker.parse() == Ok(node_id);
            partition.parse().ok().filter(|_| is_here)
        };
        ThrottledPartitions::Of(list.iter().filter_map(pair).collect())
    }

    fn segment_bytes(&self) -> i32 {
        match self.value("internal.segment.bytes") {
            Some(_) => self.int("internal.segment.bytes"),
            None => self.int("segment.bytes"),
        }
    }
}
