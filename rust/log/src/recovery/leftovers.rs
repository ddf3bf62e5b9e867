//! Files that a crash left between two names.
//!
//! `.deleted`, `.tmp` and `.cleaned` are on the way out or unfinished: removed. `.swap` replaces
//! the segments that it was compacted from, complete and on the disk: its move is finished.

use kafkalite_protocol::types::Offset;

use super::offset_in_name;
use crate::batch_scan::BatchScan;
use crate::error::LogError;
use crate::log_dir::PartitionDir;
use crate::segment::{INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_name};
use crate::storage::{DirEntry, OpenMode};

/// A compacted segment that replaces others.
pub(crate) const SWAP_SUFFIX: &str = ".swap";
/// A compacted segment that is being written.
pub(crate) const CLEANED_SUFFIX: &str = ".cleaned";
/// What the names end with of which a start leaves none.
const LEFTOVERS: [&str; 4] = [".deleted", ".tmp", CLEANED_SUFFIX, SWAP_SUFFIX];

/// Of a directory that has these entries; returns the entries that it has then.
pub(super) fn clean_up(
    dir: &PartitionDir,
    entries: Vec<DirEntry>,
) -> Result<Vec<DirEntry>, LogError> {
    let is_leftover = |entry: &DirEntry| LEFTOVERS.iter().any(|it| entry.name.ends_with(it));
    if !entries.iter().any(is_leftover) {
        return Ok(entries);
    }
    let path = dir.path();
    let failed = |error| dir.failed(&*path, error);
    let mut swaps = Vec::new();
    for entry in &entries {
        if is_leftover(entry) && !entry.name.ends_with(SWAP_SUFFIX) {
            dir.storage().remove_file(&dir.file(&entry.name)).map_err(failed)?;
        } else if let Some(base) = offset_in_name(&entry.name, ".log.swap") {
            swaps.push((base, entry.length));
        }
    }
    // An index that became `.swap` before the crash, and its log did not.
    for entry in entries.iter().filter(|entry| entry.name.ends_with(SWAP_SUFFIX)) {
        let swapped = |(base, _): &(Offset, u64)| entry.name.starts_with(&file_name(*base, "."));
        if !swaps.iter().any(swapped) {
            dir.storage().remove_file(&dir.file(&entry.name)).map_err(failed)?;
        }
    }
    for (base_offset, length) in swaps {
        let name = format!("{}{SWAP_SUFFIX}", file_name(base_offset, LOG_SUFFIX));
        let end = end_of(dir, &name, base_offset, length)?;
        // Everything between its base and its end was compacted into it.
        for entry in &entries {
            let old = offset_in_name(&entry.name, LOG_SUFFIX);
            if let Some(old) = old.filter(|old| base_offset <= *old && *old < end) {
                remove_segment(dir, old)?;
            }
        }
        // The log last: as long as it has its old name, the next start comes here again.
        for suffix in [INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX] {
            let to = dir.file(&file_name(base_offset, suffix));
            let from = dir.file(&format!("{}{SWAP_SUFFIX}", file_name(base_offset, suffix)));
            match dir.storage().rename(&from, &to) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(dir.failed(from, error)),
            }
        }
    }
    dir.storage().list(&path).map_err(failed)
}

/// The offset after the last batch of a file.
fn end_of(
    dir: &PartitionDir,
    name: &str,
    base_offset: Offset,
    length: u64,
) -> Result<Offset, LogError> {
    let path = dir.file(name);
    let opened = dir.storage().open(&path, OpenMode::Read);
    let file = opened.map_err(|error| dir.failed(&path, error))?;
    let size = u32::try_from(length)
        .map_err(|_| LogError::bad_file(&path, "a segment of 4 GiB or more"))?;
    let mut end = Offset(base_offset.0 + 1);
    let mut scan = BatchScan::new(file.as_ref(), Default::default(), size);
    while let Ok(Some((_, header))) = scan.next() {
        end = header.next_offset();
    }
    Ok(end)
}

pub(super) fn remove_segment(dir: &PartitionDir, base_offset: Offset) -> Result<(), LogError> {
    for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
        let path = dir.file(&file_name(base_offset, suffix));
        match dir.storage().remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(dir.failed(path, error)),
        }
    }
    Ok(())
}
