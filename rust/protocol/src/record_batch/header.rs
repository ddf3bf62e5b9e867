//! The 61 bytes before the records of a batch, decoded once into plain fields.

use super::{
    CRC_START, HEADER_LENGTH, LOG_OVERHEAD, MAGIC_END, MAGIC_V2, NO_PRODUCER_ID, NO_TIMESTAMP,
    RecordBatchError, crc32c_of_two,
};
use crate::compression::Codec;
use crate::types::{LeaderEpoch, Offset};

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

/// What a batch's timestamps mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// Set by the producer, record by record.
    CreateTime,
    /// Set by the broker: the batch's max timestamp is that of every record.
    LogAppendTime,
}

/// A batch's fields before its records, as they lie on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record the batch was made with (it may be compacted away since).
    pub base_offset: Offset,
    /// Bytes after the length field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of the bytes from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: i16,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas are added to, in ms; with a delete horizon, that horizon.
    pub base_timestamp: i64,
    /// The largest timestamp of the records, in ms.
    pub max_timestamp: i64,
    /// The idempotent producer, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the batch.
    pub record_count: i32,
}

fn bytes_at<const N: usize>(bytes: &[u8; HEADER_LENGTH], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Decodes the header at the start of `bytes`, which may end right after it.
    ///
    /// # Errors
    /// If there are too few bytes, the magic is not 2, or the length cannot hold a header.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordBatchError> {
        let truncated =
            || RecordBatchError::Truncated { needed: HEADER_LENGTH, available: bytes.len() };
        if bytes.len() < MAGIC_END {
            return Err(truncated());
        }
        // Length and magic come first: they tell garbage from a batch that is cut short.
        let batch_length = i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let magic = i8::from_be_bytes([bytes[16]]);
        if magic != MAGIC_V2 {
            return Err(RecordBatchError::BadMagic { magic });
        }
        if batch_length < (HEADER_LENGTH - LOG_OVERHEAD) as i32 {
            return Err(RecordBatchError::BadLength { length: batch_length });
        }
        let fixed: &[u8; HEADER_LENGTH] = bytes
            .get(..HEADER_LENGTH)
            .and_then(|head| head.try_into().ok())
            .ok_or_else(truncated)?;
        Ok(Self {
            base_offset: Offset(i64::from_be_bytes(bytes_at(fixed, 0))),
            batch_length,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(bytes_at(fixed, 12))),
            crc: u32::from_be_bytes(bytes_at(fixed, 17)),
            attributes: i16::from_be_bytes(bytes_at(fixed, 21)),
            last_offset_delta: i32::from_be_bytes(bytes_at(fixed, 23)),
            base_timestamp: i64::from_be_bytes(bytes_at(fixed, 27)),
            max_timestamp: i64::from_be_bytes(bytes_at(fixed, 35)),
            producer_id: i64::from_be_bytes(bytes_at(fixed, 43)),
            producer_epoch: i16::from_be_bytes(bytes_at(fixed, 51)),
            base_sequence: i32::from_be_bytes(bytes_at(fixed, 53)),
            record_count: i32::from_be_bytes(bytes_at(fixed, 57)),
        })
    }

    /// The 61 bytes of this header, with the CRC field as it stands.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LENGTH] {
        let mut out = [0; HEADER_LENGTH];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.0.to_be_bytes());
        put(8, &self.batch_length.to_be_bytes());
        put(12, &self.leader_epoch.0.to_be_bytes());
        put(16, &MAGIC_V2.to_be_bytes());
        put(17, &self.crc.to_be_bytes());
        put(21, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(35, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        out
    }

    /// Sets length and CRC to what they must be with `payload` after this header.
    ///
    /// # Panics
    /// If header and payload together pass `i32::MAX` bytes, which no frame can carry.
    pub fn seal(&mut self, payload: &[u8]) {
        self.batch_length = i32::try_from(HEADER_LENGTH - LOG_OVERHEAD + payload.len())
            .expect("a frame's length is an i32, so a batch in it is smaller");
        self.crc = crc32c_of_two(&self.to_bytes()[CRC_START..], payload);
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size(&self) -> usize {
        // `parse` and `seal` leave no negative length.
        LOG_OVERHEAD + self.batch_length.max(0) as usize
    }

    /// Offset of the last record, inclusive; saturates, as the field may hold anything.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset after the last one.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// Sequence of the last record; sequences wrap at 2^31-1. -1 without a sequence.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        advance_sequence(self.base_sequence, self.last_offset_delta)
    }

    /// The codec of the records.
    ///
    /// # Errors
    /// If the attribute bits name none.
    pub fn codec(&self) -> Result<Codec, RecordBatchError> {
        let id = (self.attributes & CODEC_MASK) as u8;
        Codec::from_id(id).ok_or(RecordBatchError::UnknownCodec { id })
    }

    /// Who set the timestamps.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether its records are markers of the broker and not data.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether an idempotent producer wrote it.
    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// When compaction may drop this batch's tombstones, in ms; `None` until it was compacted once.
    #[must_use]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// Marks the base timestamp as a delete horizon; the records' deltas must be relative to it.
    pub fn set_delete_horizon_ms(&mut self, horizon_ms: i64) {
        self.attributes |= DELETE_HORIZON;
        self.base_timestamp = horizon_ms;
    }

    /// Sets the codec bits.
    pub fn set_codec(&mut self, codec: Codec) {
        self.attributes = (self.attributes & !CODEC_MASK) | i16::from(codec.id());
    }

    /// Marks every record as appended at `timestamp_ms`.
    pub fn set_log_append_time(&mut self, timestamp_ms: i64) {
        self.attributes |= LOG_APPEND_TIME;
        self.max_timestamp = timestamp_ms;
    }

    pub(super) fn set_control(&mut self) {
        self.attributes |= CONTROL;
    }

    pub(super) fn set_transactional(&mut self) {
        self.attributes |= TRANSACTIONAL;
    }

    /// The timestamp of a record with `delta`, in ms.
    #[must_use]
    pub fn record_timestamp(&self, delta: i64) -> i64 {
        match self.timestamp_type() {
            TimestampType::LogAppendTime => self.max_timestamp,
            // A producer without a clock sends -1 in every record.
            TimestampType::CreateTime if self.base_timestamp == NO_TIMESTAMP && delta == 0 => {
                NO_TIMESTAMP
            }
            TimestampType::CreateTime => self.base_timestamp.wrapping_add(delta),
        }
    }
}

/// The sequence `increment` after `sequence`; after 2^31-1 comes 0.
#[must_use]
pub fn advance_sequence(sequence: i32, increment: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(increment.max(0));
    // Two non-negative i32 sum to less than 2^32, so one subtraction is enough.
    if sum > i64::from(i32::MAX) { (sum - i64::from(i32::MAX) - 1) as i32 } else { sum as i32 }
}
