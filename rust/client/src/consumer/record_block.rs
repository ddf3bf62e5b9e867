//! Records of one partition that were decoded together: where each lies, and the bytes they lie in.
//!
//! A block copies no key and no value. It holds the response that the records came in, or the
//! decompressed bytes of a compressed batch. For each record it has 40 bytes of positions. So a
//! caller may make objects of some records, columns of all, or nothing at all.

use std::sync::Arc;

use bytes::Bytes;
pub use kafkalite_protocol::record_batch::TimestampType;
use kafkalite_protocol::record_batch::{HeaderIter, Record};

use crate::consumer::cursor::{Cursor, Position};

/// Where one record lies in the bytes of its run.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: i64,
    timestamp_ms: i64,
    key_at: u32,
    key_length: i32,
    value_at: u32,
    value_length: i32,
    headers_at: u32,
    header_count: i32,
}

/// Consecutive records that share their bytes, their leader epoch and the meaning of timestamps.
#[derive(Clone, Debug)]
struct Run {
    /// The first record of it.
    first: usize,
    bytes: Bytes,
    leader_epoch: i32,
    timestamp_type: TimestampType,
}

/// One record, viewed in its block. What is not asked for is not looked at.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    run: &'a Run,
    span: &'a Span,
}

impl<'a> RecordView<'a> {
    /// Its place in the log.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.span.offset
    }

    /// In ms; -1 without one.
    #[must_use]
    pub fn timestamp_ms(&self) -> i64 {
        self.span.timestamp_ms
    }

    /// Who set the timestamp.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        self.run.timestamp_type
    }

    /// The epoch of the leader that appended it.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.run.leader_epoch
    }

    /// `None` is null, unlike an empty key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        part(&self.run.bytes, self.span.key_at, self.span.key_length)
    }

    /// `None` is a tombstone.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        part(&self.run.bytes, self.span.value_at, self.span.value_length)
    }

    /// How many headers it has.
    #[must_use]
    pub fn header_count(&self) -> usize {
        // The decoder refuses negative counts.
        self.span.header_count as usize
    }

    /// Its headers, in order; keys may repeat.
    #[must_use]
    pub fn headers(&self) -> HeaderIter<'a> {
        let headers = &self.run.bytes[self.span.headers_at as usize..];
        HeaderIter::new(self.span.header_count, headers)
    }
}

/// What the records of a block have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of all keys.
    pub key_bytes: usize,
    /// Bytes of all values.
    pub value_bytes: usize,
    /// Records with a key.
    pub keys: usize,
    /// Records with a value.
    pub values: usize,
    /// Headers of all records.
    pub headers: usize,
}

impl Totals {
    fn add(&mut self, span: &Span) {
        self.key_bytes += span.key_length.max(0) as usize;
        self.value_bytes += span.value_length.max(0) as usize;
        self.keys += usize::from(span.key_length >= 0);
        self.values += usize::from(span.value_length >= 0);
        self.headers += span.header_count as usize;
    }
}

/// Decoded records of one partition, in the order of their offsets.
#[derive(Debug)]
pub struct RecordBlock {
    cursor: Arc<Cursor>,
    spans: Vec<Span>,
    runs: Vec<Run>,
    next: Position,
}

impl RecordBlock {
    /// An empty block for records at `cursor`.
    #[must_use]
    pub fn new(cursor: Arc<Cursor>, start: Position) -> Self {
        Self { cursor, spans: Vec::new(), runs: Vec::new(), next: start }
    }

    /// The place that its records were fetched for.
    #[must_use]
    pub fn cursor(&self) -> &Arc<Cursor> {
        &self.cursor
    }

    /// How many records it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has none: what was fetched may all have been markers, or aborted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The place behind all that was decoded, records that are not handed out included.
    #[must_use]
    pub fn next(&self) -> Position {
        self.next
    }

    /// Begins a run of records that lie in `bytes`; joins the last run where it may.
    pub fn begin_run(&mut self, bytes: &Bytes, leader_epoch: i32, timestamp_type: TimestampType) {
        let same = self.runs.last().is_some_and(|run| {
            run.leader_epoch == leader_epoch
                && run.timestamp_type == timestamp_type
                && run.bytes.as_ptr() == bytes.as_ptr()
                && run.bytes.len() == bytes.len()
        });
        if same {
            return;
        }
        let first = self.spans.len();
        self.runs.push(Run { first, bytes: bytes.clone(), leader_epoch, timestamp_type });
    }

    /// Room for so many more records.
    pub fn reserve(&mut self, count: usize) {
        self.spans.reserve(count);
    }

    /// Adds a record whose key, value and headers lie in `bytes`, those of the last run.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], record: &Record<'_>) {
        let base = bytes.as_ptr() as usize;
        let place = |part: Option<&[u8]>| match part {
            // A slice of `bytes` begins where its address says; both are below 4 GiB.
            Some(part) => ((part.as_ptr() as usize).wrapping_sub(base) as u32, part.len() as i32),
            None => (0, -1),
        };
        let (key_at, key_length) = place(record.key);
        let (value_at, value_length) = place(record.value);
        let (header_count, headers) = record.raw_headers();
        self.spans.push(Span {
            offset: record.offset.0,
            timestamp_ms: record.timestamp_ms,
            key_at,
            key_length,
            value_at,
            value_length,
            headers_at: place(Some(headers)).0,
            header_count,
        });
    }

    /// Drops all records but the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.spans.truncate(count);
        self.runs.retain(|run| run.first < count);
    }

    /// Everything before `next` was looked at.
    pub fn end_at(&mut self, next: Position) {
        self.next = next;
    }

    /// The record at `index`.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn get(&self, index: usize) -> RecordView<'_> {
        let run = self.runs.partition_point(|run| run.first <= index) - 1;
        RecordView { run: &self.runs[run], span: &self.spans[index] }
    }

    /// The records `from..to`, in order.
    pub fn iter(&self, from: usize, to: usize) -> impl Iterator<Item = RecordView<'_>> {
        let mut run = self.runs.partition_point(|run| run.first <= from).saturating_sub(1);
        self.spans[from..to].iter().enumerate().map(move |(index, span)| {
            while self.runs.get(run + 1).is_some_and(|next| next.first <= from + index) {
                run += 1;
            }
            RecordView { run: &self.runs[run], span }
        })
    }

    /// The offset of the record at `index`.
    #[must_use]
    pub fn offset(&self, index: usize) -> i64 {
        self.spans[index].offset
    }

    /// Bytes of the record's key, value and headers.
    #[must_use]
    pub fn size(&self, index: usize) -> usize {
        let span = &self.spans[index];
        let parts = span.key_length.max(0) as usize + span.value_length.max(0) as usize;
        if span.header_count == 0 {
            return parts;
        }
        let headers = self.get(index).headers();
        parts + headers.map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum::<usize>()
    }

    /// The place behind the record at `index`; behind the last one that of the whole block.
    #[must_use]
    pub fn position_after(&self, index: usize) -> Position {
        if index + 1 >= self.spans.len() {
            return self.next;
        }
        let run = self.runs.partition_point(|run| run.first <= index) - 1;
        Position { offset: self.spans[index].offset + 1, leader_epoch: self.runs[run].leader_epoch }
    }
}

#[inline]
fn part(bytes: &[u8], at: u32, length: i32) -> Option<&[u8]> {
    (length >= 0).then(|| &bytes[at as usize..at as usize + length as usize])
}

/// Some consecutive records of a block.
#[derive(Clone, Debug)]
pub struct RecordSlice {
    /// The block they are in.
    pub block: Arc<RecordBlock>,
    /// The first of them.
    pub from: usize,
    /// Behind the last of them.
    pub to: usize,
}

impl RecordSlice {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Shows the records to `see`, in order: quicker than a loop over [`RecordSlice::iter`].
    #[inline]
    pub fn visit<'a>(&'a self, mut see: impl FnMut(RecordView<'a>)) {
        let block = &*self.block;
        let mut at = self.from;
        let mut number = block.runs.partition_point(|run| run.first <= at).saturating_sub(1);
        while at < self.to {
            let run = &block.runs[number];
            number += 1;
            let end = block.runs.get(number).map_or(self.to, |next| next.first.min(self.to));
            for span in &block.spans[at..end] {
                see(RecordView { run, span });
            }
            at = end;
        }
    }

    /// What its records have together.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for span in &self.block.spans[self.from..self.to] {
            totals.add(span);
        }
        totals
    }

    /// The records, in order.
    pub fn iter(&self) -> impl Iterator<Item = RecordView<'_>> {
        self.block.iter(self.from, self.to)
    }
}
