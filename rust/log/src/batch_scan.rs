//! Two walks over a `.log` file: from header to header without the records between, and whole
//! batches one after the other.

use std::io;

use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH, RecordBatch, RecordBatchError};
use kafkalite_protocol::types::Position;

use crate::storage::{StorageFile, read_full};

/// Bytes read at once: many small batches, or the header of one large.
pub(crate) const READ_BYTES: usize = 2_048;

/// Why a scan stopped before the end.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// There is no valid batch where one should start.
    Invalid(RecordBatchError),
    /// The disk failed.
    Io(io::Error),
}

/// A walk over the headers between two positions.
pub(crate) struct BatchScan<'a> {
    file: &'a dyn StorageFile,
    next: u32,
    end: u32,
    buffer: [u8; READ_BYTES],
    buffered_at: u32,
    buffered: usize,
}

impl<'a> BatchScan<'a> {
    /// From the batch that starts at `from` up to the one that ends at `end`.
    pub(crate) fn new(file: &'a dyn StorageFile, from: Position, end: u32) -> Self {
        let buffer = [0; READ_BYTES];
        Self { file, next: from.0, end, buffer, buffered_at: from.0, buffered: 0 }
    }

    /// The next header and its position; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Position, BatchHeader)>, ScanError> {
        if self.next >= self.end {
            return Ok(None);
        }
        let at = Position(self.next);
        let header = self.header().map_err(ScanError::Io)?;
        let header = BatchHeader::parse(header).map_err(ScanError::Invalid)?;
        let available = (self.end - self.next) as usize;
        if header.size() > available {
            let error = RecordBatchError::Truncated { needed: header.size(), available };
            return Err(ScanError::Invalid(error));
        }
        // Not larger than `end - next`, so it fits.
        self.next += header.size() as u32;
        Ok(Some((at, header)))
    }

    /// As [`Self::next`], and stays before the batch.
    pub(crate) fn peek(&mut self) -> Result<Option<BatchHeader>, ScanError> {
        let at = self.next;
        let found = self.next();
        self.next = at;
        Ok(found?.map(|(_, header)| header))
    }

    fn header(&mut self) -> io::Result<&[u8]> {
        let wanted = HEADER_LENGTH.min((self.end - self.next) as usize);
        let mut skipped = (self.next - self.buffered_at) as usize;
        if skipped + wanted > self.buffered {
            let length = READ_BYTES.min((self.end - self.next) as usize);
            self.buffered = read_full(self.file, &mut self.buffer[..length], self.next.into())?;
            self.buffered_at = self.next;
            skipped = 0;
        }
        let end = (skipped + wanted).min(self.buffered);
        Ok(&self.buffer[skipped.min(end)..end])
    }
}

/// Reads whole batches one after the other, through a buffer of its own.
pub(crate) struct BatchReader<'a> {
    file: &'a dyn StorageFile,
    next: usize,
    end: usize,
    buffer: Vec<u8>,
    buffered_at: usize,
}

/// Bytes read at once; a larger batch is read whole.
const CHUNK_BYTES: usize = 1 << 20;

impl<'a> BatchReader<'a> {
    /// From the start of a file up to `end`.
    pub(crate) fn new(file: &'a dyn StorageFile, end: u32) -> Self {
        Self::starting_at(file, Position(0), end)
    }

    /// From the batch that starts at `from` up to `end`.
    pub(crate) fn starting_at(file: &'a dyn StorageFile, from: Position, end: u32) -> Self {
        let next = from.0 as usize;
        Self { file, next, end: end as usize, buffer: Vec::new(), buffered_at: next }
    }

    /// The next batch and its position; `None` at the end. Its CRC is not checked.
    pub(crate) fn next(&mut self) -> Result<Option<(Position, RecordBatch<'_>)>, ScanError> {
        if self.next >= self.end {
            return Ok(None);
        }
        let at = Position(self.next as u32);
        let size = self.buffer_batch()?;
        let from = self.next - self.buffered_at;
        let batch = RecordBatch::parse(&self.buffer[from..from + size]);
        self.next += size;
        Ok(Some((at, batch.map_err(ScanError::Invalid)?)))
    }

    /// The next header, without the records after it; `None` at the end, and where there is none.
    pub(crate) fn peek(&mut self) -> Result<Option<(Position, BatchHeader)>, ScanError> {
        let wanted = HEADER_LENGTH.min(self.end.saturating_sub(self.next));
        let buffered = self.buffer.len().saturating_sub(self.next - self.buffered_at);
        if buffered < wanted {
            self.fill(CHUNK_BYTES.min(self.end - self.next)).map_err(ScanError::Io)?;
        }
        let buffered = self.buffer.get(self.next - self.buffered_at..).unwrap_or_default();
        let header = BatchHeader::parse(buffered).ok();
        Ok(header.map(|header| (Position(self.next as u32), header)))
    }

    /// Goes on behind the next `bytes`.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.next = self.next.saturating_add(bytes).min(self.end);
    }

    /// Reads up to `bytes` from the next batch on: how many there were.
    fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        self.buffer.resize(bytes, 0);
        self.buffered_at = self.next;
        let read = read_full(self.file, &mut self.buffer, self.next as u64)?;
        self.buffer.truncate(read);
        Ok(read)
    }

    /// Makes sure that the next batch is in the buffer as a whole: its size.
    fn buffer_batch(&mut self) -> Result<usize, ScanError> {
        loop {
            let buffered = self.buffer.get(self.next - self.buffered_at..).unwrap_or_default();
            let left = self.end - self.next;
            let needed = match RecordBatch::parse(buffered) {
                Ok(batch) => return Ok(batch.bytes().len()),
                // The batch goes on after the buffer: read from its start, at least all of it.
                Err(RecordBatchError::Truncated { needed, .. }) if needed <= left => needed,
                Err(error) => return Err(ScanError::Invalid(error)),
            };
            let read = self.fill(needed.max(CHUNK_BYTES).min(left)).map_err(ScanError::Io)?;
            if read < needed {
                let error = RecordBatchError::Truncated { needed, available: read };
                return Err(ScanError::Invalid(error));
            }
        }
    }
}
