//! Completes a truncation that a crash stopped.
//!
//! The note says where the log was to be cut. Nothing was appended since: all that stands at or
//! above the cut goes, and a segment begins there. Each step may be done again after a crash.

use std::io;

use kafkalite_protocol::types::Offset;

use super::leftovers::remove_segment;
use super::{offset_in_name, remove_snapshots};
use crate::batch_scan::{BatchScan, ScanError};
use crate::checkpoint::{LEADER_EPOCH_FILE, write_epochs};
use crate::commit_log::OpenState;
use crate::error::LogError;
use crate::log_dir::PartitionDir;
use crate::segment::{LOG_SUFFIX, file_name};
use crate::storage::{DirEntry, Durability, OpenMode};
use crate::truncation_note::{Cut, TRUNCATION_FILE, TruncationNote};

/// Completes the truncation that is noted among the directory's `entries`, if one is. What the
/// checkpoints say of the log, less what does not hold after the truncation; and the note.
pub(super) fn complete(
    dir: &PartitionDir,
    mut state: OpenState,
    entries: &mut Vec<DirEntry>,
) -> Result<(OpenState, Option<TruncationNote>), LogError> {
    if !entries.iter().any(|entry| entry.name == TRUNCATION_FILE) {
        return Ok((state, None));
    }
    let path = dir.file(TRUNCATION_FILE);
    let read = TruncationNote::read(dir.storage(), &path);
    let Some(mut note) = read.map_err(|error| dir.judge(error))? else {
        return Ok((state, None));
    };
    if !note.is_done {
        state.clean = false;
        cut_files(dir, note.cut, entries)?;
        sync_names(dir)?;
        note.is_done = true;
        note.write(dir.storage(), &path).map_err(|error| dir.judge(error))?;
        sync_names(dir)?;
        let path = dir.path();
        *entries = dir.storage().list(&path).map_err(|error| dir.failed(&*path, error))?;
        tracing::warn!(
            partition = %dir.path().display(), log_end = note.cut.next.0,
            "a truncation that a crash stopped is completed"
        );
    }
    state.recovery_point = state.recovery_point.min(note.lowest);
    // What was compacted above the cut are other records now.
    state.cleaned_to = state.cleaned_to.min(note.lowest);
    state.log_start_offset = state.log_start_offset.min(note.start.unwrap_or(Offset(i64::MAX)));
    Ok((state, Some(note)))
}

fn cut_files(dir: &PartitionDir, cut: Cut, entries: &[DirEntry]) -> Result<(), LogError> {
    let mut last = None;
    for entry in entries {
        let Some(base_offset) = offset_in_name(&entry.name, LOG_SUFFIX) else { continue };
        if cut.keeps && base_offset < cut.next {
            last = Some((base_offset, entry.length));
        } else {
            remove_segment(dir, base_offset)?;
        }
    }
    if let Some((base_offset, length)) = last {
        cut_segment(dir, &file_name(base_offset, LOG_SUFFIX), length, cut.next)?;
    }
    remove_snapshots(dir, |offset| !cut.keeps || offset > cut.next)?;
    if !cut.keeps {
        // Of a log that keeps records, the epochs are read from the batches.
        let path = dir.file(LEADER_EPOCH_FILE);
        let written = write_epochs(dir.storage(), &path, &[], Durability::DiskWithDirectory);
        written.map_err(|error| dir.judge(error))?;
    }
    let path = dir.file(&file_name(cut.next, LOG_SUFFIX));
    let created = dir.storage().open(&path, OpenMode::Create).map(drop);
    created.map_err(|error| dir.failed(path, error))
}

/// Cuts a segment's file before the batch that holds `offset` or comes after it.
fn cut_segment(
    dir: &PartitionDir,
    name: &str,
    length: u64,
    offset: Offset,
) -> Result<(), LogError> {
    let path = dir.file(name);
    let failed = |error: io::Error| dir.failed(&path, error);
    let file = dir.storage().open(&path, OpenMode::Write).map_err(failed)?;
    let size = u32::try_from(length)
        .map_err(|_| LogError::bad_file(&path, "a segment of 4 GiB or more"))?;
    let mut end = 0;
    let mut scan = BatchScan::new(file.as_ref(), Default::default(), size);
    loop {
        match scan.next() {
            Ok(Some((position, header))) if header.last_offset() < offset => {
                end = u64::from(position.0) + header.size() as u64;
            }
            Err(ScanError::Io(error)) => return Err(failed(error)),
            // What follows a batch that does not read is cut as well.
            Ok(_) | Err(ScanError::Invalid(_)) => break,
        }
    }
    file.set_len(end).map_err(failed)?;
    file.sync_data().map_err(failed)
}

fn sync_names(dir: &PartitionDir) -> Result<(), LogError> {
    let path = dir.path();
    dir.storage().sync_dir(&path).map_err(|error| dir.failed(&*path, error))
}
