//! What must be true of a batch before it is appended. Runs before any lock, on any core.
//!
//! A batch whose records contradict its header would stop every Java consumer of the topic. So by
//! default every record is walked, through the decompressor if the batch is compressed. Nothing is
//! allocated per record. A wrong max timestamp is corrected (kafkajs sends such), with a new CRC.
//! Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
//! `LogValidator`.

use bytes::Bytes;
use kafkalite_protocol::compression::{Codec, compress_into, decompress};
use kafkalite_protocol::record_batch::{
    BatchHeader, HEADER_LENGTH, MAGIC_END, NO_TIMESTAMP, RecordBatch, RecordBatchError,
    RecordShape, TimestampType, walk_records,
};
use thiserror::Error;

use crate::config::{BatchValidation, LogConfig};

#[cfg(test)]
mod tests;

/// The oldest Produce version that may carry zstd.
const ZSTD_PRODUCE_VERSION: i16 = 7;
/// A batch may inflate to this many bytes. Nothing that large is kept: the walk streams.
pub const DECOMPRESSED_CAP_BYTES: usize = 1 << 30;
/// More record errors than this are counted, not listed.
const RECORD_ERRORS_KEPT: usize = 100;

/// What is wrong with one record of a refused batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The record's place in its batch, from 0.
    pub batch_index: i32,
    /// For a person.
    pub message: String,
}

/// Why a batch is refused; one variant per Kafka error code.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ValidationError {
    /// `CORRUPT_MESSAGE`: the bytes are not those the producer meant.
    #[error("{reason}")]
    CorruptMessage {
        /// For a person.
        reason: String,
    },
    /// `INVALID_RECORD`: the producer meant something that cannot be stored.
    #[error("{reason}")]
    InvalidRecord {
        /// For a person.
        reason: String,
        /// Which records, if some are to blame.
        record_errors: Vec<RecordError>,
    },
    /// `INVALID_RECORD` as well: there is not exactly one whole batch of the one format, so no log
    /// was asked.
    #[error("{reason}")]
    NotOneBatch {
        /// For a person.
        reason: String,
    },
    /// `INVALID_TIMESTAMP`
    #[error("{reason}")]
    InvalidTimestamp {
        /// For a person.
        reason: String,
        /// Which records, if some are to blame.
        record_errors: Vec<RecordError>,
    },
    /// `MESSAGE_TOO_LARGE`
    #[error("The record batch size is {size} bytes which exceeds the maximum of {max}.")]
    MessageTooLarge {
        /// Bytes of the batch.
        size: usize,
        /// `max.message.bytes`.
        max: u32,
    },
    /// `UNSUPPORTED_COMPRESSION_TYPE`
    #[error("{reason}")]
    UnsupportedCompressionType {
        /// For a person.
        reason: String,
    },
    /// `UNSUPPORTED_FOR_MESSAGE_FORMAT`
    #[error("{reason}")]
    UnsupportedForMessageFormat {
        /// For a person.
        reason: String,
    },
}

impl ValidationError {
    fn corrupt(reason: impl ToString) -> Self {
        Self::CorruptMessage { reason: reason.to_string() }
    }

    fn not_one_batch(reason: &str) -> Self {
        Self::NotOneBatch { reason: reason.to_owned() }
    }

    fn invalid(reason: impl ToString) -> Self {
        Self::InvalidRecord { reason: reason.to_string(), record_errors: Vec::new() }
    }
}

/// A batch that may be appended: its header as it will be written, and its records as they came.
#[derive(Clone, Debug)]
pub struct ValidatedBatch {
    pub(crate) header: BatchHeader,
    pub(crate) payload: Bytes,
}

impl ValidatedBatch {
    /// A batch that this broker built itself; only its frame is looked at.
    ///
    /// # Errors
    /// If `bytes` is not exactly one batch.
    pub fn trusted(bytes: &Bytes) -> Result<Self, ValidationError> {
        let batch = RecordBatch::parse(bytes).map_err(ValidationError::corrupt)?;
        Ok(Self {
            header: *batch.header(),
            payload: bytes.slice(HEADER_LENGTH..batch.header().size()),
        })
    }

    /// The header; base offset and leader epoch are those the client sent.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Bytes of the batch as it will be written.
    #[must_use]
    pub fn size(&self) -> usize {
        self.header.size()
    }
}

/// Checks what a client sent for one partition: exactly one batch, whole, sane, acceptable.
///
/// `now_ms` is the broker's time, `produce_version` that of the request.
///
/// # Errors
/// The Kafka error code to answer for this partition alone; nothing of the batch may be appended.
pub fn validate(
    records: &Bytes,
    config: &LogConfig,
    now_ms: i64,
    produce_version: i16,
) -> Result<ValidatedBatch, ValidationError> {
    let batch = the_only_batch(records)?;
    let header = *batch.header();
    let codec = header.codec().map_err(|error| ValidationError::UnsupportedCompressionType {
        reason: error.to_string(),
    })?;
    if codec == Codec::Zstd && produce_version < ZSTD_PRODUCE_VERSION {
        return Err(ValidationError::UnsupportedCompressionType {
            reason: format!("Produce requests with version {produce_version} cannot carry zstd"),
        });
    }
    if header.base_offset.0 != 0 {
        let reason = format!(
            "The baseOffset of the record batch should be 0, but it is {}",
            header.base_offset.0
        );
        return Err(ValidationError::invalid(reason));
    }
    check_size(header.size(), config)?;
    batch.verify_crc().map_err(ValidationError::corrupt)?;
    check_header(&header)?;
    let mut max_timestamp = header.max_timestamp;
    // Without a timestamp in the header, or with keys to look for, trust is no option.
    let walk = config.validation == BatchValidation::Strict
        || codec == Codec::None
        || header.max_timestamp == NO_TIMESTAMP
        || config.cleanup_compact;
    if walk {
        max_timestamp = walk_batch(&batch, config, now_ms)?;
    } else {
        check_timestamp(&header, config, now_ms)?;
    }
    let payload = records.slice(HEADER_LENGTH..header.size());
    rewrite(header, payload, max_timestamp, config, now_ms)
}

fn the_only_batch(records: &Bytes) -> Result<RecordBatch<'_>, ValidationError> {
    let batch = RecordBatch::parse(records).map_err(|error| match error {
        RecordBatchError::BadMagic { magic: 0 | 1 } => ValidationError::not_one_batch(
            "Only record batches with magic version 2 can be produced",
        ),
        RecordBatchError::Truncated { .. } => {
            ValidationError::not_one_batch("A produce request must hold one whole record batch")
        }
        error => ValidationError::corrupt(error),
    })?;
    let rest = &records[batch.bytes().len()..];
    // Kafka drops bytes at the end that are no whole batch; a second batch it refuses.
    let second = rest.len() >= MAGIC_END && {
        let length = i32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
        usize::try_from(length).is_ok_and(|length| length <= rest.len() - 12)
    };
    if second {
        return Err(ValidationError::not_one_batch(
            "A produce request must hold exactly one record batch per partition",
        ));
    }
    Ok(batch)
}

fn check_size(size: usize, config: &LogConfig) -> Result<(), ValidationError> {
    if size > config.max_message_bytes as usize {
        return Err(ValidationError::MessageTooLarge { size, max: config.max_message_bytes });
    }
    Ok(())
}

fn check_header(header: &BatchHeader) -> Result<(), ValidationError> {
    let count = header.record_count;
    if count <= 0 || i64::from(header.last_offset_delta) + 1 != i64::from(count) {
        return Err(ValidationError::invalid(format!(
            "The batch declares {count} records but offsets up to {}",
            header.last_offset_delta
        )));
    }
    if header.is_control() {
        return Err(ValidationError::invalid("Clients are not allowed to write control records"));
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return Err(ValidationError::invalid(format!(
            "Invalid sequence number {} in a record batch with producerId {}",
            header.base_sequence, header.producer_id
        )));
    }
    if header.is_transactional() && !header.has_producer_id() {
        return Err(ValidationError::invalid("A transactional batch without a producer id"));
    }
    if header.delete_horizon_ms().is_some() {
        return Err(ValidationError::invalid("Clients are not allowed to set a delete horizon"));
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(ValidationError::InvalidTimestamp {
            reason: "Producer should not set timestamp type to LogAppendTime".to_string(),
            record_errors: Vec::new(),
        });
    }
    Ok(())
}

/// Whether a timestamp is farther from now than the topic allows; bounds only bind create times.
fn is_out_of_range(timestamp_ms: i64, config: &LogConfig, now_ms: i64) -> bool {
    if config.message_timestamp_type == TimestampType::LogAppendTime || timestamp_ms == NO_TIMESTAMP
    {
        return false;
    }
    let age = now_ms.saturating_sub(timestamp_ms);
    age > config.message_timestamp_before_max_ms
        || age.saturating_neg() > config.message_timestamp_after_max_ms
}

fn check_timestamp(
    header: &BatchHeader,
    config: &LogConfig,
    now_ms: i64,
) -> Result<(), ValidationError> {
    if is_out_of_range(header.max_timestamp, config, now_ms) {
        let reason = format!("Timestamp {} is out of range", header.max_timestamp);
        return Err(ValidationError::InvalidTimestamp { reason, record_errors: Vec::new() });
    }
    Ok(())
}

/// What the walk over the records finds.
struct Findings {
    max_timestamp: i64,
    misnumbered: Option<i32>,
    bad_timestamp: bool,
    count: usize,
    record_errors: Vec<RecordError>,
}

impl Findings {
    #[cold]
    fn blame(&mut self, batch_index: i32, message: String) {
        self.count += 1;
        if self.record_errors.len() < RECORD_ERRORS_KEPT {
            self.record_errors.push(RecordError { batch_index, message });
        }
    }

    fn into_result(self) -> Result<i64, ValidationError> {
        if let Some(index) = self.misnumbered {
            return Err(ValidationError::invalid(format!(
                "Record {index} has a wrong offset delta"
            )));
        }
        if self.count == 0 {
            return Ok(self.max_timestamp);
        }
        let record_errors = self.record_errors;
        if self.bad_timestamp {
            let reason = "One or more records have been rejected due to invalid timestamp";
            return Err(ValidationError::InvalidTimestamp {
                reason: reason.to_string(),
                record_errors,
            });
        }
        let reason =
            format!("One or more records have been rejected due to {} record errors", self.count);
        Err(ValidationError::InvalidRecord { reason, record_errors })
    }
}

/// The largest timestamp of the records, if all of them are acceptable.
fn walk_batch(
    batch: &RecordBatch<'_>,
    config: &LogConfig,
    now_ms: i64,
) -> Result<i64, ValidationError> {
    let header = batch.header();
    let mut found = Findings {
        max_timestamp: NO_TIMESTAMP,
        misnumbered: None,
        bad_timestamp: false,
        count: 0,
        record_errors: Vec::new(),
    };
    let visit = |index: i32, shape: RecordShape| {
        let timestamp = header.record_timestamp(shape.timestamp_delta);
        found.max_timestamp = found.max_timestamp.max(timestamp);
        if shape.offset_delta != index && found.misnumbered.is_none() {
            found.misnumbered = Some(index);
        }
        if is_out_of_range(timestamp, config, now_ms) {
            found.bad_timestamp = true;
            found.blame(index, format!("Timestamp {timestamp} is out of range at {now_ms}"));
        }
        if config.cleanup_compact && !shape.has_key {
            let message = "Compacted topic cannot accept message without key";
            found.blame(index, message.to_string());
        }
    };
    walk_records(header, batch.payload(), DECOMPRESSED_CAP_BYTES, visit)
        .map_err(ValidationError::invalid)?;
    found.into_result()
}

/// Changes what the topic asks to be changed; a batch that fits as it is keeps its CRC.
fn rewrite(
    mut header: BatchHeader,
    mut payload: Bytes,
    max_timestamp: i64,
    config: &LogConfig,
    now_ms: i64,
) -> Result<ValidatedBatch, ValidationError> {
    let mut changed = header.max_timestamp != max_timestamp;
    header.max_timestamp = max_timestamp;
    if config.message_timestamp_type == TimestampType::LogAppendTime {
        header.set_log_append_time(now_ms);
        changed = true;
    }
    let codec = header.codec().map_err(ValidationError::invalid)?;
    if let Some(wanted) = config.compression_type.filter(|wanted| *wanted != codec) {
        // All of it at once, so bounded by what a batch may reasonably hold.
        let cap = (config.max_message_bytes as usize).saturating_mul(64).max(64 << 20);
        let plain = decompress(codec, &payload, cap).map_err(ValidationError::invalid)?;
        let mut packed = Vec::with_capacity(plain.len() / 2);
        compress_into(wanted, config.compression_level, &plain, &mut packed)
            .map_err(ValidationError::invalid)?;
        payload = packed.into();
        header.set_codec(wanted);
        changed = true;
    }
    if changed {
        header.seal(&payload);
        check_size(header.size(), config)?;
    }
    Ok(ValidatedBatch { header, payload })
}
