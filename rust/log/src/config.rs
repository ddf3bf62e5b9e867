//! What a topic may set about its log. The broker's table of keys fills this; it may be swapped
//! while the log runs.

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::TimestampType;

/// Used where an index is rebuilt without its topic at hand.
pub(crate) const DEFAULT_INDEX_INTERVAL_BYTES: u32 = 4_096;

/// How far a batch is looked into before it is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchValidation {
    /// Every record is walked, decompressed if need be: no reader meets a batch it cannot read.
    Strict,
    /// Compressed batches are believed unless something forces a look inside.
    Relaxed,
}

/// The settings of one log; names are those of the topic configs, units end them.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`
    pub segment_bytes: u32,
    /// `segment.ms`
    pub segment_ms: i64,
    /// `segment.jitter.ms`
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`
    pub index_interval_bytes: u32,
    /// `retention.ms`; -1 keeps records without a limit of time.
    pub retention_ms: i64,
    /// `retention.bytes`; -1 for no bound.
    pub retention_bytes: i64,
    /// `max.message.bytes`, of a whole batch.
    pub max_message_bytes: u32,
    /// `cleanup.policy` contains `delete`.
    pub cleanup_delete: bool,
    /// `cleanup.policy` contains `compact`.
    pub cleanup_compact: bool,
    /// `flush.messages`; `u64::MAX` leaves it to the kernel, 1 is group commit.
    pub flush_messages: u64,
    /// `flush.ms`: the background sweep's; no acknowledgement waits for it.
    pub flush_ms: i64,
    /// `delete.retention.ms`: how long a compacted log keeps tombstones.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`
    pub min_cleanable_dirty_ratio: f64,
    /// `message.timestamp.type`
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub message_timestamp_after_max_ms: i64,
    /// `compression.type`; `None` is `producer`: whatever came.
    pub compression_type: Option<Codec>,
    /// The level for that codec: `compression.gzip.level` or `compression.zstd.level`; `None` is
    /// the codec's default. LZ4 has one level here.
    pub compression_level: Option<i32>,
    /// `preallocate`
    pub preallocate: bool,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: i64,
    /// `kafkalite.batch.validation`
    pub validation: BatchValidation,
    /// `producer.id.expiration.ms`, of the broker.
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    /// Kafka's defaults. The broker sets every field from its own table; tests start from here.
    fn default() -> Self {
        const HOUR_MS: i64 = 3_600_000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * HOUR_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4_096,
            retention_ms: 7 * 24 * HOUR_MS,
            retention_bytes: -1,
            max_message_bytes: (1 << 20) + 12,
            cleanup_delete: true,
            cleanup_compact: false,
            flush_messages: u64::MAX,
            flush_ms: i64::MAX,
            delete_retention_ms: 24 * HOUR_MS,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: HOUR_MS,
            compression_type: None,
            compression_level: None,
            preallocate: false,
            file_delete_delay_ms: 60_000,
            validation: BatchValidation::Strict,
            producer_id_expiration_ms: 24 * HOUR_MS,
        }
    }
}
