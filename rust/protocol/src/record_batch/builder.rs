//! Builds the batches that a broker writes itself: offset commits, group metadata, markers.

use bytes::Bytes;

use super::encode::{write_header, write_record};
use super::{
    BatchHeader, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, RecordBatchError,
};
use crate::compression::{Codec, compress};
use crate::types::{LeaderEpoch, Offset};

/// A record's header: a key, and a value that may be null.
pub type RecordHeader<'a> = (&'a str, Option<&'a [u8]>);

/// Collects records and closes them into one batch.
#[derive(Debug)]
pub struct RecordBatchBuilder {
    header: BatchHeader,
    codec: Codec,
    payload: Vec<u8>,
    headers: Vec<u8>,
}

impl RecordBatchBuilder {
    /// An empty batch whose records will be compressed with `codec`.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        let mut header = BatchHeader {
            base_offset: Offset(0),
            batch_length: 0,
            leader_epoch: LeaderEpoch(-1),
            crc: 0,
            attributes: 0,
            last_offset_delta: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        header.set_codec(codec);
        Self { header, codec, payload: Vec::new(), headers: Vec::new() }
    }

    /// Writes on behalf of an idempotent producer.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Marks the batch as the broker's own: its records are markers, not data.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.header.set_control();
        self
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.header.set_transactional();
        self
    }

    /// Adds one record; `timestamp_ms` in milliseconds since 1970.
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) {
        if self.header.record_count == 0 {
            self.header.base_timestamp = timestamp_ms;
        }
        self.headers.clear();
        for (key, value) in headers {
            write_header(&mut self.headers, key, *value);
        }
        let delta = timestamp_ms.wrapping_sub(self.header.base_timestamp);
        let count = headers.len() as i32;
        let offset_delta = self.header.record_count;
        write_record(&mut self.payload, delta, offset_delta, key, value, (count, &self.headers));
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp_ms);
        self.header.last_offset_delta = offset_delta;
        self.header.record_count += 1;
    }

    /// Bytes collected so far, before compression and without the batch's header.
    #[must_use]
    pub fn payload_length(&self) -> usize {
        self.payload.len()
    }

    /// Records collected so far.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Closes the batch at `base_offset`.
    ///
    /// # Errors
    /// If the codec fails.
    pub fn build(
        mut self,
        base_offset: Offset,
        leader_epoch: LeaderEpoch,
    ) -> Result<Bytes, RecordBatchError> {
        let payload = match self.codec {
            Codec::None => self.payload,
            codec => compress(codec, &self.payload)?,
        };
        self.header.base_offset = base_offset;
        self.header.leader_epoch = leader_epoch;
        self.header.seal(&payload);
        let mut out = Vec::with_capacity(self.header.size());
        out.extend_from_slice(&self.header.to_bytes());
        out.extend_from_slice(&payload);
        Ok(Bytes::from(out))
    }
}
