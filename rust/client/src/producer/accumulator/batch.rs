//! A record batch of the producer: open while it takes records, then closed, sealed and sent.
//!
//! Records are written in the wire's format behind a gap for the batch's header, so that closing
//! copies nothing: sealing fills the gap in. Only compression makes a second buffer.
//! Source: the bytes are those of Kafka's `DefaultRecordBatch`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kafkalite_protocol::compression::{Codec, compress_into};
use kafkalite_protocol::record_batch::{
    BatchHeader, HEADER_LENGTH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch,
    advance_sequence, write_record,
};
use kafkalite_protocol::{LeaderEpoch, Offset};

use super::delivery::{Failure, Handle, Landed, Report, Token};
use super::memory::{Memory, Reservation};
use crate::error::ClientError;

/// What a record takes at most besides key, value and headers: a length, attributes, a timestamp's
/// delta, an offset's delta, three counts.
const RECORD_OVERHEAD: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;

/// One record on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// In ms since 1970.
    pub timestamp_ms: i64,
    /// `None` is null, unlike an empty key.
    pub key: Option<&'a [u8]>,
    /// `None` is null: a tombstone.
    pub value: Option<&'a [u8]>,
    /// How many headers, and their bytes as they lie in a record.
    pub headers: (i32, &'a [u8]),
}

impl Record<'_> {
    /// Bytes it takes in a batch, at most.
    #[must_use]
    pub fn size_bound(&self) -> usize {
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        RECORD_OVERHEAD + length(self.key) + length(self.value) + self.headers.1.len()
    }
}

/// Who wrote a batch, and as the how-manieth: what brokers know repetitions by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// Sequence of the batch's first record.
    pub base_sequence: i32,
}

/// A batch that takes records.
pub(super) struct OpenBatch<T> {
    pub(super) buffer: Vec<u8>,
    pub(super) count: u32,
    pub(super) base_timestamp: i64,
    pub(super) max_timestamp: i64,
    pub(super) created: Instant,
    pub(super) handle: Arc<Handle<T>>,
    pub(super) tokens: Vec<Token<T>>,
    pub(super) memory: Reservation,
    pub(super) serial: u64,
}

impl<T> OpenBatch<T> {
    /// Writes `record`; gives its index. The buffer has room, see [`Self::free`].
    #[inline]
    pub(super) fn push(&mut self, record: &Record<'_>) -> u32 {
        if self.count == 0 {
            self.base_timestamp = record.timestamp_ms;
            self.max_timestamp = record.timestamp_ms;
        }
        let delta = record.timestamp_ms.wrapping_sub(self.base_timestamp);
        let index = self.count;
        write_record(
            &mut self.buffer,
            delta,
            index as i32,
            record.key,
            record.value,
            record.headers,
        );
        self.max_timestamp = self.max_timestamp.max(record.timestamp_ms);
        self.count += 1;
        index
    }

    /// Bytes that can be written before the buffer must grow.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.buffer.capacity() - self.buffer.len()
    }

    pub(super) fn close(self) -> Batch<T> {
        self.handle.close(self.count);
        Batch {
            serial: self.serial,
            body: Body::Raw(self.buffer),
            header: header(self.count, self.base_timestamp, self.max_timestamp),
            handle: self.handle,
            first_index: 0,
            tokens: self.tokens,
            memory: self.memory,
            created: self.created,
            attempts: 0,
            stamp: None,
            stamp_replaced: false,
            unanswered: false,
            half_of_unanswered: false,
            last_failure: None,
        }
    }
}

fn header(count: u32, base_timestamp: i64, max_timestamp: i64) -> BatchHeader {
    BatchHeader {
        base_offset: Offset(0),
        batch_length: 0,
        leader_epoch: LeaderEpoch(-1),
        crc: 0,
        attributes: 0,
        last_offset_delta: count as i32 - 1,
        base_timestamp,
        max_timestamp,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        base_sequence: NO_SEQUENCE,
        record_count: count as i32,
    }
}

enum Body {
    /// Records behind a gap of a header's length, not compressed.
    Raw(Vec<u8>),
    /// As it was sent before it got another stamp: the header fits once it is written again.
    Packed(Vec<u8>),
    /// As it is sent.
    Sealed(Bytes),
}

/// A batch that takes no more records.
pub struct Batch<T> {
    serial: u64,
    body: Body,
    header: BatchHeader,
    handle: Arc<Handle<T>>,
    first_index: u32,
    tokens: Vec<Token<T>>,
    memory: Reservation,
    created: Instant,
    /// How often it was sent.
    pub attempts: u32,
    stamp: Option<Stamp>,
    /// Whether it got another sequence since it was sent last.
    stamp_replaced: bool,
    /// Whether an attempt found no answer: it may be written.
    pub unanswered: bool,
    half_of_unanswered: bool,
    /// What the last attempt failed with.
    pub last_failure: Option<Failure>,
}

impl<T> Batch<T> {
    /// Names it among all batches of the producer; parts of a split batch share it.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Where it stands among the batches of its partition.
    #[must_use]
    pub fn order(&self) -> (u64, u32) {
        (self.serial, self.first_index)
    }

    /// When its first record was appended.
    #[must_use]
    pub fn created(&self) -> Instant {
        self.created
    }

    /// Records in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.header.record_count as u32
    }

    /// Bytes it takes on the wire, as far as that is known.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.body {
            Body::Raw(bytes) | Body::Packed(bytes) => bytes.len(),
            Body::Sealed(bytes) => bytes.len(),
        }
    }

    /// Its producer and sequence, once it has them.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// The sequence after its last record's, if it has one.
    #[must_use]
    pub fn next_sequence(&self) -> Option<i32> {
        let stamp = self.stamp?;
        Some(advance_sequence(stamp.base_sequence, self.header.record_count))
    }

    /// Whether it got another sequence since it was sent last: the broker's answer to the old one
    /// says nothing about the new one.
    #[must_use]
    pub fn stamp_replaced(&self) -> bool {
        self.stamp_replaced
    }

    /// Gives it a producer and a sequence; what was sent before stays as it was.
    pub fn set_stamp(&mut self, stamp: Stamp) {
        if self.stamp == Some(stamp) {
            return;
        }
        self.stamp_replaced = self.stamp.is_some() && self.attempts > 0;
        self.stamp = Some(stamp);
        if let Body::Sealed(bytes) = &mut self.body {
            // Copies only while the old bytes are still on their way out.
            self.body = Body::Packed(Vec::from(std::mem::take(bytes)));
        }
    }

    /// Whether the batch that it was split off may be written, with all its records under one
    /// sequence: a broker does not know those of the halves again.
    #[must_use]
    pub fn half_of_unanswered(&self) -> bool {
        self.half_of_unanswered
    }

    /// The bytes to send now; compresses with `codec` when asked for the first time.
    ///
    /// # Errors
    /// If the codec fails, which it does only out of memory.
    pub fn to_send(
        &mut self,
        codec: Codec,
        level: Option<i32>,
        memory: &Memory,
        batch_size: usize,
    ) -> Result<Bytes, ClientError> {
        self.attempts += 1;
        self.stamp_replaced = false;
        let mut bytes = match std::mem::replace(&mut self.body, Body::Raw(Vec::new())) {
            Body::Sealed(bytes) => {
                self.body = Body::Sealed(bytes.clone());
                return Ok(bytes);
            }
            Body::Packed(bytes) => bytes,
            Body::Raw(bytes) if codec == Codec::None => bytes,
            Body::Raw(bytes) => {
                self.header.set_codec(codec);
                let mut packed = memory.buffer(HEADER_LENGTH + bytes.len() / 2);
                packed.resize(HEADER_LENGTH, 0);
                compress_into(codec, level, &bytes[HEADER_LENGTH..], &mut packed).map_err(
                    |error| ClientError::IllegalState { why: format!("compression: {error}") },
                )?;
                memory.recycle(bytes, batch_size);
                packed
            }
        };
        if let Some(stamp) = self.stamp {
            self.header.producer_id = stamp.producer_id;
            self.header.producer_epoch = stamp.epoch;
            self.header.base_sequence = stamp.base_sequence;
        }
        self.header.seal(&bytes[HEADER_LENGTH..]);
        bytes[..HEADER_LENGTH].copy_from_slice(&self.header.to_bytes());
        let bytes = Bytes::from(bytes);
        self.body = Body::Sealed(bytes.clone());
        Ok(bytes)
    }

    /// Completes all waiting callers with `outcome`, except for records (by index in the batch)
    /// with a failure of their own. Returns the outcomes for the sink, and whether the handle is
    /// complete.
    pub fn complete(
        mut self,
        outcome: Result<Landed, Failure>,
        own: &BTreeMap<u32, Failure>,
        memory: &Memory,
        batch_size: usize,
    ) -> (Option<Report<T>>, bool) {
        let count = self.count();
        let body = std::mem::replace(&mut self.body, Body::Raw(Vec::new()));
        match body {
            Body::Raw(bytes) | Body::Packed(bytes) => memory.recycle(bytes, batch_size),
            Body::Sealed(bytes) if bytes.is_unique() => {
                memory.recycle(Vec::from(bytes), batch_size);
            }
            Body::Sealed(_) => {}
        }
        // The memory is free before callers get the outcome.
        let mut kept = Some(self.memory).filter(|_| !self.tokens.is_empty());
        let mut all = false;
        let mut tell = |from: u32, to: u32, outcome: Result<Landed, Failure>| {
            if from < to {
                let outcome = outcome.map(|landed| landed.after(from));
                let (late, last) =
                    self.handle.complete(self.first_index + from, to - from, outcome);
                self.tokens.extend(late);
                all |= last;
            }
        };
        let mut from = 0;
        for (index, failure) in own.range(..count) {
            tell(from, *index, outcome.clone());
            tell(*index, index + 1, Err(Arc::clone(failure)));
            from = index + 1;
        }
        tell(from, count, outcome);
        if self.tokens.is_empty() {
            return (None, all);
        }
        let report = Report { handle: self.handle, tokens: self.tokens, memory: kept.take() };
        (Some(report), all)
    }

    /// Its handle, whom all who wait ask.
    #[must_use]
    pub fn handle(&self) -> &Arc<Handle<T>> {
        &self.handle
    }

    /// Two batches of about half the bytes each, in order, with the sequences the records had.
    ///
    /// # Errors
    /// Gives the batch back if it has one record, or cannot be read.
    pub fn split(self) -> Result<[Self; 2], Box<Self>> {
        if self.count() < 2 {
            return Err(Box::new(self));
        }
        let halves = match &self.body {
            Body::Sealed(bytes) => halves(bytes),
            // As it was sent, with the stamp of then.
            Body::Packed(bytes) => halves(bytes),
            // It was never sent, so no broker found it too large.
            Body::Raw(_) => None,
        };
        match halves {
            Some(halves) => Ok(self.into_halves(halves)),
            None => Err(Box::new(self)),
        }
    }

    fn into_halves(self, [first, second]: [Half; 2]) -> [Self; 2] {
        let at = self.first_index + first.count;
        let second_stamp = self.stamp.map(|stamp| Stamp {
            base_sequence: advance_sequence(stamp.base_sequence, first.count as i32),
            ..stamp
        });
        let (left, right) = self.tokens.into_iter().partition(|token| token.index < at);
        let mut memory = self.memory;
        let half_of_unanswered = self.unanswered || self.half_of_unanswered;
        let part = |half: Half, first_index, tokens, stamp, memory| Self {
            serial: self.serial,
            body: Body::Raw(half.buffer),
            header: header(half.count, half.base_timestamp, half.max_timestamp),
            handle: Arc::clone(&self.handle),
            first_index,
            tokens,
            memory,
            created: self.created,
            attempts: 0,
            stamp,
            stamp_replaced: false,
            unanswered: false,
            half_of_unanswered,
            last_failure: None,
        };
        let of_second = memory.take(memory.bytes() / 2);
        [
            part(first, self.first_index, left, self.stamp, memory),
            part(second, at, right, second_stamp, of_second),
        ]
    }
}

/// The records of one half of a split batch.
struct Half {
    buffer: Vec<u8>,
    count: u32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl Half {
    fn new() -> Self {
        Self { buffer: vec![0; HEADER_LENGTH], count: 0, base_timestamp: 0, max_timestamp: 0 }
    }

    fn push(&mut self, record: &kafkalite_protocol::record_batch::Record<'_>) {
        if self.count == 0 {
            self.base_timestamp = record.timestamp_ms;
            self.max_timestamp = record.timestamp_ms;
        }
        let delta = record.timestamp_ms.wrapping_sub(self.base_timestamp);
        let index = self.count as i32;
        let headers = record.raw_headers();
        write_record(&mut self.buffer, delta, index, record.key, record.value, headers);
        self.max_timestamp = self.max_timestamp.max(record.timestamp_ms);
        self.count += 1;
    }
}

fn halves(bytes: &[u8]) -> Option<[Half; 2]> {
    let batch = RecordBatch::parse(bytes).ok()?;
    // We wrote it, so there is no bomb in it.
    let records = batch.records(usize::MAX).ok()?;
    let total = batch.header().record_count as u32;
    let middle = records.payload().len() / 2;
    let (mut first, mut second) = (Half::new(), Half::new());
    for record in &records {
        let record = record.ok()?;
        let is_first = first.count == 0
            || (second.count == 0 && first.count + 1 < total && first.buffer.len() < middle);
        if is_first { first.push(&record) } else { second.push(&record) }
    }
    (second.count > 0).then_some([first, second])
}
