//! The few Kafka frames a load needs, encoded by hand.
//!
//! Produce v7, Fetch v11 and CreateTopics v2: the newest versions without compact types, so that
//! every field lies at an offset that depends only on the topic's name. They name one topic and
//! one partition each. Source: the message schemas of Apache Kafka.

use crc_fast::{CrcAlgorithm, checksum};

/// API key of Produce.
pub const PRODUCE: i16 = 0;
/// API key of Fetch.
pub const FETCH: i16 = 1;
/// API key of CreateTopics.
pub const CREATE_TOPICS: i16 = 19;
/// Bytes of a record batch before its records.
pub const BATCH_HEADER_BYTES: usize = 61;
/// Where the checked part of a record batch begins; its checksum stands in the 4 bytes before.
pub const BATCH_CRC_START: usize = 21;

const CLIENT_ID: &str = "load";

/// A frame being written; every number is big-endian.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an `i8`.
    pub fn i8(&mut self, value: i8) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends an `i16`.
    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends an `i32`.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends an `i64`.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a string with its length as an `i16`.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.i16(value.len() as i16).raw(value.as_bytes())
    }

    /// Appends a zigzag varint, as records use them.
    pub fn varint(&mut self, value: i32) -> &mut Self {
        let mut rest = ((value << 1) ^ (value >> 31)).cast_unsigned();
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    /// The bytes with their length before them as an `i32`.
    #[must_use]
    pub fn framed(&self) -> Vec<u8> {
        let mut frame = (self.0.len() as i32).to_be_bytes().to_vec();
        frame.extend_from_slice(&self.0);
        frame
    }
}

fn request(api_key: i16, version: i16, correlation_id: i32) -> Writer {
    let mut writer = Writer::default();
    writer.i16(api_key).i16(version).i32(correlation_id).string(CLIENT_ID);
    writer
}

/// CRC-32C of a record batch, over all that its checksum covers.
#[must_use]
pub fn batch_crc(batch: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, &batch[BATCH_CRC_START..]) as u32
}

/// An uncompressed record batch of about `batch_bytes` whose records have values of about
/// `record_bytes`. Returns it with the number of its records, at least one.
#[must_use]
pub fn record_batch(batch_bytes: usize, record_bytes: usize, timestamp_ms: i64) -> (Vec<u8>, i32) {
    let room = batch_bytes.saturating_sub(BATCH_HEADER_BYTES);
    let count = (room / record_bytes.max(1)).max(1);
    let mut records = Writer::default();
    for offset_delta in 0..count {
        // The rest is shared out evenly, so the batch comes out at the size asked for.
        let share = (room - records.0.len().min(room)) / (count - offset_delta);
        let mut record = Writer::default();
        record.i8(0).varint(0).varint(offset_delta as i32).varint(-1);
        // Two lengths and the header count are still to come: 2-3 bytes each, and 1.
        let value =
            vec![b'a' + (offset_delta % 26) as u8; share.saturating_sub(record.0.len() + 6)];
        record.varint(value.len() as i32).raw(&value).varint(0);
        records.varint(record.0.len() as i32).raw(&record.0);
    }
    let mut batch = Writer::default();
    batch.i64(0).i32((BATCH_HEADER_BYTES - 12 + records.0.len()) as i32).i32(-1).i8(2).i32(0);
    batch.i16(0).i32(count as i32 - 1).i64(timestamp_ms).i64(timestamp_ms);
    batch.i64(-1).i16(-1).i32(-1).i32(count as i32).raw(&records.0);
    let crc = batch_crc(&batch.0);
    batch.0[BATCH_CRC_START - 4..BATCH_CRC_START].copy_from_slice(&crc.to_be_bytes());
    (batch.0, count as i32)
}

/// A Produce v7 request with one record batch.
#[must_use]
pub fn produce(
    correlation_id: i32,
    topic: &str,
    partition: i32,
    acks: i16,
    batch: &[u8],
) -> Vec<u8> {
    let mut writer = request(PRODUCE, 7, correlation_id);
    // No transactional id; 30 s.
    writer.i16(-1).i16(acks).i32(30_000).i32(1).string(topic).i32(1).i32(partition);
    writer.i32(batch.len() as i32).raw(batch).framed()
}

/// A Fetch v11 request outside of a session that waits 500 ms for the first byte.
#[must_use]
pub fn fetch(
    correlation_id: i32,
    topic: &str,
    partition: i32,
    offset: i64,
    max_bytes: i32,
) -> Vec<u8> {
    let mut writer = request(FETCH, 11, correlation_id);
    // A consumer's replica id, wait, min bytes, max bytes, read uncommitted, no session.
    writer.i32(-1).i32(500).i32(1).i32(max_bytes).i8(0).i32(0).i32(-1);
    // The partition: leader epoch unknown, log start offset unused; nothing forgotten; no rack.
    writer.i32(1).string(topic).i32(1).i32(partition).i32(-1).i64(offset).i64(-1).i32(max_bytes);
    writer.i32(0).string("").framed()
}

/// A CreateTopics v2 request for one topic with one replica.
#[must_use]
pub fn create_topic(correlation_id: i32, topic: &str, partitions: i32) -> Vec<u8> {
    let mut writer = request(CREATE_TOPICS, 2, correlation_id);
    writer.i32(1).string(topic).i32(partitions).i16(1).i32(0).i32(0).i32(30_000).i8(0).framed()
}

/// Where the fields of a response lie, counted from after its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLayout {
    /// The partition's error code.
    pub error: usize,
    /// Up to here a response must be seen to be judged.
    pub head: usize,
}

impl ResponseLayout {
    /// Of Produce v7: the base offset follows the error.
    #[must_use]
    pub fn produce(topic: &str) -> Self {
        Self { error: 18 + topic.len(), head: 28 + topic.len() }
    }

    /// Of Fetch v11: the head ends with the length of the records.
    #[must_use]
    pub fn fetch(topic: &str) -> Self {
        Self { error: 28 + topic.len(), head: 66 + topic.len() }
    }
}

/// The `i16` at `at`.
#[must_use]
pub fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The `i32` at `at`.
#[must_use]
pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The `i64` at `at`.
#[must_use]
pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
