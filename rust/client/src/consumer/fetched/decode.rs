//! From the bytes of a fetched partition to blocks of records.
//!
//! Batch by batch the CRC is checked, and compressed records are decompressed under a cap. Records
//! before the wanted offset and control records are left out, and under read_committed those of
//! aborted transactions too. An error of a batch is raised with its offset, after all batches
//! before it were handed out.
//! Source: Kafka's `CompletedFetch`; KIP-98 for transactions.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::compression::{Codec, decompress};
use kafkalite_protocol::record_batch::{BatchHeader, RecordBatch, RecordBatchError, RecordIter};

use crate::consumer::cursor::{Cursor, Position};
use crate::consumer::record_block::RecordBlock;

/// What the records of a control batch may take.
const MARKER_MAX_BYTES: usize = 1 << 16;

/// A transaction that was aborted: its producer, and where it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The producer's id.
    pub producer_id: i64,
    /// The first offset of the transaction.
    pub first_offset: i64,
}

/// How to decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions {
    /// Whether each batch's checksum is checked.
    pub check_crcs: bool,
    /// Whether records of aborted transactions are left out.
    pub read_committed: bool,
    /// What the records of one batch may take, decompressed.
    pub batch_max_bytes: usize,
}

/// A batch that cannot be read.
#[derive(Debug)]
pub struct DecodeFailure {
    /// Its first offset, if it can be read.
    pub offset: i64,
    /// What is wrong with it.
    pub why: RecordBatchError,
}

/// The batches of one partition out of one fetch response, decoded piece by piece.
#[derive(Debug)]
pub struct Decoder {
    cursor: Arc<Cursor>,
    bytes: Bytes,
    at: usize,
    from: Position,
    options: DecodeOptions,
    /// Not begun yet, the first last.
    aborted: Vec<Aborted>,
    /// Producers whose open transaction is one of the aborted ones.
    aborting: HashSet<i64>,
    /// Met behind what the last block holds.
    failure: Option<DecodeFailure>,
}

impl Decoder {
    /// Decodes `bytes`, from `from` on.
    #[must_use]
    pub fn new(
        cursor: Arc<Cursor>,
        from: Position,
        bytes: Bytes,
        mut aborted: Vec<Aborted>,
        options: DecodeOptions,
    ) -> Self {
        aborted.sort_by_key(|one| std::cmp::Reverse(one.first_offset));
        let (aborting, failure) = (HashSet::new(), None);
        Self { cursor, bytes, at: 0, from, options, aborted, aborting, failure }
    }

    /// The place that it decodes for.
    #[must_use]
    pub fn cursor(&self) -> &Arc<Cursor> {
        &self.cursor
    }

    /// The next block: whole batches, until there are `max_records` or their bytes pass
    /// `max_bytes`. `None` at the end.
    ///
    /// # Errors
    /// If the next batch cannot be read; there is nothing more then.
    pub fn next_block(
        &mut self,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<RecordBlock>, DecodeFailure> {
        if let Some(failure) = self.failure.take() {
            return Err(self.end_with(failure));
        }
        let start = self.from;
        let mut block = RecordBlock::new(Arc::clone(&self.cursor), start);
        let mut bytes = 0;
        while block.len() < max_records && bytes < max_bytes {
            let decoded = block.len();
            match self.next_batch(&mut block) {
                Ok(None) => break,
                Ok(Some(taken)) => bytes += taken,
                Err(why) => {
                    block.truncate(decoded);
                    let failure = DecodeFailure { offset: self.from.offset, why };
                    if self.from == start {
                        return Err(self.end_with(failure));
                    }
                    // What was good comes first.
                    self.failure = Some(failure);
                    break;
                }
            }
        }
        block.end_at(self.from);
        Ok((self.from != start).then_some(block))
    }

    fn end_with(&mut self, failure: DecodeFailure) -> DecodeFailure {
        self.at = self.bytes.len();
        failure
    }

    /// Decodes one batch into `block`; how many bytes its records took, `None` at the end.
    fn next_batch(&mut self, block: &mut RecordBlock) -> Result<Option<usize>, RecordBatchError> {
        let bytes = self.bytes.clone();
        let batch = match RecordBatch::parse(&bytes[self.at..]) {
            Ok(batch) => batch,
            // A response may cut its last batch short.
            Err(RecordBatchError::Truncated { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (size, header) = (batch.bytes().len(), *batch.header());
        let next = Position { offset: header.next_offset().0, leader_epoch: header.leader_epoch.0 };
        if next.offset <= self.from.offset {
            self.at += size;
            return Ok(Some(0));
        }
        if self.options.check_crcs {
            batch.verify_crc()?;
        }
        let left_out = self.is_aborted(&batch)? || header.is_control();
        let taken = if left_out { size } else { self.take_records(block, &batch, &header)? };
        self.at += size;
        self.from = next;
        Ok(Some(taken))
    }

    fn take_records(
        &self,
        block: &mut RecordBlock,
        batch: &RecordBatch<'_>,
        header: &BatchHeader,
    ) -> Result<usize, RecordBatchError> {
        // A count that lies takes no more memory than the bytes that could hold it.
        let count = usize::try_from(header.record_count).unwrap_or(0);
        let (epoch, kind) = (header.leader_epoch.0, header.timestamp_type());
        let from = self.from.offset;
        if header.codec()? == Codec::None {
            block.reserve(count.min(batch.payload().len() / 7));
            block.begin_run(&self.bytes, epoch, kind);
            push_all(block, &self.bytes, RecordIter::new(header, batch.payload()), from)?;
            return Ok(batch.payload().len());
        }
        let payload = decompress(header.codec()?, batch.payload(), self.options.batch_max_bytes)?;
        block.reserve(count.min(payload.len() / 7));
        block.begin_run(&payload, epoch, kind);
        push_all(block, &payload, RecordIter::new(header, &payload), from)?;
        Ok(payload.len())
    }

    /// Whether the batch is part of an aborted transaction; an abort marker ends that.
    fn is_aborted(&mut self, batch: &RecordBatch<'_>) -> Result<bool, RecordBatchError> {
        let header = batch.header();
        if !self.options.read_committed || !header.has_producer_id() {
            return Ok(false);
        }
        while let Some(one) = self.aborted.pop_if(|one| one.first_offset <= batch.last_offset().0) {
            self.aborting.insert(one.producer_id);
        }
        if header.is_control() && is_abort_marker(batch)? {
            self.aborting.remove(&header.producer_id);
        }
        Ok(header.is_transactional() && self.aborting.contains(&header.producer_id))
    }
}

/// A marker's key is its version and its type, two bytes each; type 0 aborts, 1 commits.
fn is_abort_marker(batch: &RecordBatch<'_>) -> Result<bool, RecordBatchError> {
    let records = batch.records(MARKER_MAX_BYTES)?;
    let Some(marker) = records.iter().next() else { return Ok(false) };
    Ok(marker?.key.is_some_and(|key| key.get(2..4) == Some(&[0, 0])))
}

fn push_all(
    block: &mut RecordBlock,
    bytes: &[u8],
    records: RecordIter<'_>,
    from: i64,
) -> Result<(), RecordBatchError> {
    for record in records {
        let record = record?;
        if record.offset.0 >= from {
            block.push(bytes, &record);
        }
    }
    Ok(())
}
