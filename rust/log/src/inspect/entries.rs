//! What a segment's indexes hold, as they lie on the disk.

use std::path::Path;

use kafkalite_protocol::types::{Offset, Position};

use crate::error::LogError;
use crate::index::offset_index::OffsetIndex;
use crate::index::time_index::TimeIndex;
use crate::recovery::offset_in_name;
use crate::segment::{INDEX_SUFFIX, TIME_INDEX_SUFFIX};

/// The entries of one index file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexEntries {
    /// The last offset of a batch, and where that batch starts in the `.log`.
    Offsets(Vec<(Offset, Position)>),
    /// A time in ms, and the offset up to which nothing is later.
    Times(Vec<(i64, Offset)>),
}

/// Reads an `.index` or a `.timeindex`; offsets are those of the log, not of the segment.
///
/// # Errors
/// The file cannot be read, or its name is that of no index.
pub fn index_entries(path: &Path) -> Result<IndexEntries, LogError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let absolute = |base: Offset, relative: u32| Offset(base.0 + i64::from(relative));
    if let Some(base) = offset_in_name(name, INDEX_SUFFIX) {
        let found = entries(path, OffsetIndex::decode)?.into_iter();
        let entry = |(relative, position)| (absolute(base, relative), position);
        return Ok(IndexEntries::Offsets(found.map(entry).collect()));
    }
    if let Some(base) = offset_in_name(name, TIME_INDEX_SUFFIX) {
        let found = entries(path, TimeIndex::decode)?.into_iter();
        let entry = |(time_ms, relative)| (time_ms, absolute(base, relative));
        return Ok(IndexEntries::Times(found.map(entry).collect()));
    }
    let why = format!("neither {INDEX_SUFFIX} nor {TIME_INDEX_SUFFIX}");
    Err(LogError::bad_file(path, why))
}

/// An index's entries up to the first that is all zeros: what is preallocated is none.
pub(super) fn entries<const LENGTH: usize, T>(
    path: &Path,
    decode: impl Fn(&[u8; LENGTH]) -> T,
) -> Result<Vec<T>, LogError> {
    let bytes = std::fs::read(path).map_err(|error| LogError::io(path, error))?;
    let (all, _) = bytes.as_chunks::<LENGTH>();
    let meant = all.iter().take_while(|entry| entry.iter().any(|byte| *byte != 0));
    Ok(meant.map(decode).collect())
}
