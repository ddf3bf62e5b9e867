//! From a topic's configuration to the settings of its partitions.

use crate::config::{self, BrokerConfig, Throttled, TopicConfig};
use kafkalite_log::{BatchValidation, LogConfig};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::TimestampType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every partition of a topic obeys.
#[derive(Clone, Debug)]
pub struct TopicSettings {
    /// Of each log.
    pub log: Arc<LogConfig>,
    /// `min.insync.replicas`.
    pub min_in_sync_replicas: usize,
    /// The replicas here whose replication is limited.
    pub throttled: Throttled,
}

impl TopicSettings {
    /// What `overrides` amount to over the broker's defaults; one that does not hold costs its own
    /// key alone.
    #[must_use]
    pub fn new(broker: &BrokerConfig, overrides: &BTreeMap<String, String>) -> Self {
        let topic = TopicConfig::new(broker, overrides);
        let min_in_sync_replicas = usize::try_from(topic.min_insync_replicas).unwrap_or(1);
        let log = Arc::new(log_config(&topic));
        Self { log, min_in_sync_replicas, throttled: topic.throttled }
    }
}

fn log_config(topic: &TopicConfig) -> LogConfig {
    let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
    LogConfig {
        segment_bytes: unsigned(topic.segment_bytes),
        segment_ms: topic.segment_ms,
        segment_jitter_ms: topic.segment_jitter_ms,
        segment_index_bytes: unsigned(topic.segment_index_bytes),
        index_interval_bytes: unsigned(topic.index_interval_bytes),
        retention_ms: topic.retention_ms,
        retention_bytes: topic.retention_bytes,
        max_message_bytes: unsigned(topic.max_message_bytes),
        cleanup_delete: topic.cleanup_delete,
        cleanup_compact: topic.cleanup_compact,
        flush_messages: u64::try_from(topic.flush_messages).unwrap_or(u64::MAX),
        flush_ms: topic.flush_ms,
        delete_retention_ms: topic.delete_retention_ms,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        min_cleanable_dirty_ratio: topic.min_cleanable_dirty_ratio,
        message_timestamp_type: if topic.log_append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        message_timestamp_before_max_ms: topic.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms: topic.message_timestamp_after_max_ms,
        compression_type: codec(&topic.compression_type),
        compression_level: level(topic),
        preallocate: topic.preallocate,
        file_delete_delay_ms: topic.file_delete_delay_ms,
        validation: match topic.batch_validation {
            config::BatchValidation::Strict => BatchValidation::Strict,
            config::BatchValidation::Relaxed => BatchValidation::Relaxed,
        },
        producer_id_expiration_ms: topic.producer_id_expiration_ms,
    }
}

/// The level of the codec that a topic insists on; gzip's -1 is its default.
fn level(topic: &TopicConfig) -> Option<i32> {
    match codec(&topic.compression_type)? {
        Codec::Gzip => Some(topic.compression_gzip_level).filter(|level| *level != -1),
        Codec::Zstd => Some(topic.compression_zstd_level),
        Codec::None | Codec::Snappy | Codec::Lz4 => None,
    }
}

/// The codec a topic insists on; `None` for `producer`, which takes whatever comes.
fn codec(compression_type: &str) -> Option<Codec> {
    match compression_type {
        "uncompressed" => Some(Codec::None),
        "gzip" => Some(Codec::Gzip),
        "snappy" => Some(Codec::Snappy),
        "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd),
        _ => None,
    }
}
