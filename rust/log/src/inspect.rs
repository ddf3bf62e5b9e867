//! Looks at segments from outside and changes nothing: what `log dump` tells and `log verify`
//! checks.
//!
//! No lock is taken, so a running broker may have appended since: its newest batch may be seen in
//! part. What a broker preallocates, or leaves behind when it is killed, are zeros at the end of
//! the newest segment; they are no damage.

use std::path::{Path, PathBuf};

pub use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{BatchHeader, RecordBatch};
use kafkalite_protocol::types::{Offset, Position};

use crate::batch_scan::ScanError;
use crate::error::LogError;
use crate::recovery::offset_in_name;
use crate::segment::LOG_SUFFIX;
use crate::storage::{OpenMode, RealStorage, Storage, StorageFile};
use crate::validation::DECOMPRESSED_CAP_BYTES;

mod check;
mod entries;
#[cfg(test)]
mod tests;
mod walk;

pub use check::{SegmentCheck, check_epochs, check_segment};
pub use entries::{IndexEntries, index_entries};

use walk::{Met, Walk};

/// A batch of more bytes is not read as a whole: its checksum is checked, its records are not
/// looked at. Kafka's largest is a setting, 1 MiB by default.
pub const LARGE_BYTES: usize = 64 << 20;

/// One segment on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its `.log` file.
    pub path: PathBuf,
    /// The offset in its name.
    pub base_offset: Offset,
    /// Bytes of that file.
    pub bytes: u64,
}

/// A batch as it lies on the disk.
#[derive(Clone, Debug)]
pub struct FoundBatch {
    /// Where it starts in its segment's file.
    pub position: u64,
    /// Its fields.
    pub header: BatchHeader,
    /// What is wrong with its checksum or its records.
    pub flaw: Option<String>,
    /// Its records, if they were asked for and can be read; none of a batch of more than
    /// [`LARGE_BYTES`].
    pub records: Vec<FoundRecord>,
}

/// A record as it lies in its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// Where it stands in the log.
    pub offset: Offset,
    /// In ms: its own, or that of the append.
    pub timestamp_ms: i64,
    /// `None` is null.
    pub key: Option<Vec<u8>>,
    /// `None` is null: a tombstone.
    pub value: Option<Vec<u8>>,
    /// In order; names may repeat.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Some batches of a segment.
#[derive(Debug, Default)]
pub struct Chunk {
    /// In the order of the file.
    pub batches: Vec<FoundBatch>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// The segments at `path`: those of a partition's directory in their order, or the one whose file
/// it is.
///
/// # Errors
/// The place cannot be read, or holds no segment.
pub fn segments(path: &Path) -> Result<Vec<SegmentEntry>, LogError> {
    if !path.exists() {
        return Err(LogError::bad_file(path, "no such file or directory"));
    }
    let none = || LogError::bad_file(path, format!("no segments here: no {LOG_SUFFIX} files"));
    if path.is_file() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let base_offset = offset_in_name(name, LOG_SUFFIX).ok_or_else(none)?;
        let length = path.metadata().map_err(|error| LogError::io(path, error))?.len();
        return Ok(vec![SegmentEntry { path: path.to_owned(), base_offset, bytes: length }]);
    }
    let entries = RealStorage.list(path).map_err(|error| LogError::io(path, error))?;
    let mut found: Vec<SegmentEntry> = entries
        .into_iter()
        .filter_map(|entry| {
            let base_offset = offset_in_name(&entry.name, LOG_SUFFIX)?;
            Some(SegmentEntry { path: path.join(entry.name), base_offset, bytes: entry.length })
        })
        .collect();
    found.sort_by_key(|segment| segment.base_offset);
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// Reads batches from `position` on until they make `most_bytes`, at least one.
///
/// # Errors
/// The file cannot be read, or something stands there that is no batch and not all zeros.
pub fn read_batches(
    path: &Path,
    position: u64,
    most_bytes: u64,
    with_records: bool,
) -> Result<Chunk, LogError> {
    let (file, length) = open(path)?;
    let from = u32::try_from(position).unwrap_or(u32::MAX).min(length);
    let mut walk = Walk::new(file.as_ref(), Position(from), length);
    let mut chunk = Chunk::default();
    let mut end = u64::from(from);
    loop {
        match walk.next() {
            Ok(Some(met)) => {
                let found = found(&met, with_records);
                end = found.position + found.header.size() as u64;
                chunk.batches.push(found);
            }
            Ok(None) => return Ok(chunk),
            Err(ScanError::Invalid(_)) if is_zero_from(file.as_ref(), end, length) => {
                return Ok(chunk);
            }
            Err(ScanError::Invalid(error)) if chunk.batches.is_empty() => {
                return Err(LogError::bad_file(path, format!("at position {end}: {error}")));
            }
            // Told by the next call, after the batches before it.
            Err(ScanError::Invalid(_)) => break,
            Err(ScanError::Io(error)) => return Err(LogError::io(path, error)),
        }
        if end - u64::from(from) >= most_bytes {
            break;
        }
    }
    chunk.next = Some(end);
    Ok(chunk)
}

fn open(path: &Path) -> Result<(Box<dyn StorageFile>, u32), LogError> {
    let failed = |error| LogError::io(path, error);
    let file = RealStorage.open(path, OpenMode::Read).map_err(failed)?;
    let length = u32::try_from(file.length().map_err(failed)?)
        .map_err(|_| LogError::bad_file(path, "a segment of 4 GiB or more"))?;
    Ok((file, length))
}

fn found(met: &Met<'_>, with_records: bool) -> FoundBatch {
    let (at, header, flaw) = match met {
        Met::Batch(at, batch) => {
            (at, *batch.header(), batch.verify_crc().err().map(|error| error.to_string()))
        }
        Met::Large(at, header, sound) => (at, *header, sound.clone().err()),
    };
    let mut found = FoundBatch { position: at.0.into(), header, flaw, records: Vec::new() };
    if with_records
        && let Met::Batch(_, batch) = met
        && let Err(error) = read_records(batch, &mut found.records)
        && found.flaw.is_none()
    {
        found.flaw = Some(error);
    }
    found
}

fn read_records(batch: &RecordBatch<'_>, into: &mut Vec<FoundRecord>) -> Result<(), String> {
    let records = batch.records(DECOMPRESSED_CAP_BYTES).map_err(|error| error.to_string())?;
    for record in &records {
        let record = record.map_err(|error| error.to_string())?;
        let headers = record.headers();
        into.push(FoundRecord {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers.map(|(key, value)| (key.into(), value.map(Into::into))).collect(),
        });
    }
    Ok(())
}

/// Whether all bytes from `position` on are zero.
pub(crate) fn is_zero_from(file: &dyn StorageFile, position: u64, size: u32) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    let mut at = position;
    while at < u64::from(size) {
        match file.read_at(&mut buffer, at) {
            Ok(read) if read > 0 && buffer[..read].iter().all(|byte| *byte == 0) => {
                at += read as u64;
            }
            _ => return false,
        }
    }
    true
}
