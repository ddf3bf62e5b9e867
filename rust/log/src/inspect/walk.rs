//! A walk over the batches of a segment that anyone may have written: however much a header
//! claims, memory is bounded.

use std::io;

use kafkalite_protocol::record_batch::{BatchHeader, Crc32c, RecordBatch, RecordBatchError};
use kafkalite_protocol::types::Position;

use super::LARGE_BYTES;
use crate::batch_scan::{BatchReader, ScanError};
use crate::storage::{StorageFile, read_full};

/// Bytes in front of those that the checksum covers.
const UNCHECKED_BYTES: u64 = 21;

/// Bytes read at once of a large batch.
const PIECE_BYTES: usize = 256 << 10;

/// What stands at a position.
pub(super) enum Met<'a> {
    /// A whole batch.
    Batch(Position, RecordBatch<'a>),
    /// One of more than [`LARGE_BYTES`], of which the checksum alone was checked.
    Large(Position, BatchHeader, Result<(), String>),
}

/// The walk.
pub(super) struct Walk<'a> {
    file: &'a dyn StorageFile,
    reader: BatchReader<'a>,
    end: u32,
}

impl<'a> Walk<'a> {
    /// From the batch that starts at `from` up to `end`.
    pub(super) fn new(file: &'a dyn StorageFile, from: Position, end: u32) -> Self {
        Self { file, reader: BatchReader::starting_at(file, from, end), end }
    }

    /// The next batch; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Met<'_>>, ScanError> {
        if let Some((at, header)) = self.reader.peek()?
            && header.size() > LARGE_BYTES
            && header.size() <= (self.end - at.0) as usize
        {
            let sound = checksum(self.file, at, &header).map_err(ScanError::Io)?;
            self.reader.skip(header.size());
            return Ok(Some(Met::Large(at, header, sound)));
        }
        Ok(self.reader.next()?.map(|(at, batch)| Met::Batch(at, batch)))
    }
}

/// Reads a batch in pieces and compares its checksum.
fn checksum(
    file: &dyn StorageFile,
    at: Position,
    header: &BatchHeader,
) -> io::Result<Result<(), String>> {
    let mut crc = Crc32c::default();
    let mut piece = vec![0; PIECE_BYTES];
    let (mut position, end) =
        (u64::from(at.0) + UNCHECKED_BYTES, u64::from(at.0) + header.size() as u64);
    while position < end {
        let wanted = usize::try_from(end - position).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = read_full(file, &mut piece[..wanted], position)?;
        crc.update(&piece[..read]);
        if read < wanted {
            // Cut short meanwhile; the checksum tells.
            break;
        }
        position += read as u64;
    }
    let (stored, computed) = (header.crc, crc.finish());
    let flaw = || RecordBatchError::BadCrc { stored, computed }.to_string();
    Ok(if stored == computed { Ok(()) } else { Err(flaw()) })
}
