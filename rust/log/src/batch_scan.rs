//! Steps from batch header to batch header in a `.log` file, without reading the records between.

use std::io;

use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH, RecordBatchError};
use kafkalite_protocol::types::Position;

use crate::storage::{StorageFile, read_full};

/// Bytes read at once: many small batches, or the header of one large.
const READ_BYTES: usize = 2_048;

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
