//! What to believe when a log is opened.
//!
//! After a clean stop: the names and sizes of the files, and the last entries of the newest
//! indexes. After a crash: nothing from the recovery point on. Those segments are read batch by
//! batch. The first bad batch ends the log there. Indexes and producer state are rebuilt. Leader
//! epochs are those of their file, as far as the batches do not contradict it. Compaction may have
//! removed the batch with which an epoch began. A cut below the recovery point means that the disk
//! lost durable records: that is logged as an error.
//! Source: Kafka's `LogLoader`, `LogSegment.recover`, `ProducerStateManager`.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use kafkalite_protocol::record_batch::BatchHeader;
use kafkalite_protocol::types::{Offset, Position};

use crate::batch_scan::BatchScan;
use crate::checkpoint::{LEADER_EPOCH_FILE, read_epochs, write_epochs};
use crate::commit_log::OpenState;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::leader_epochs::{EpochStart, LeaderEpochs};
use crate::log_dir::PartitionDir;
use crate::producer_state::{ProducerState, snapshot};
use crate::segment::{LOG_SUFFIX, Segment};
use crate::storage::{DirEntry, Durability, OpenMode, read_full};
use crate::truncation_note::TruncationNote;

mod leftovers;
mod truncation;
mod verify;

pub(crate) use leftovers::{CLEANED_SUFFIX, SWAP_SUFFIX};

/// Suffix of producer state.
const SNAPSHOT_SUFFIX: &str = ".snapshot";

/// What opening a log found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes that were read and checked.
    pub scanned_bytes: u64,
    /// Bytes that were cut away.
    pub truncated_bytes: u64,
    /// Records that were promised to be on the disk are not: a disk that lies, or was damaged.
    pub lost_below_recovery_point: bool,
    /// The greatest producer id in its producer state, of those that a cluster may have given out.
    /// A log that was carried over has ids of another cluster.
    pub greatest_producer_id: Option<i64>,
}

/// A log as it was found.
pub(crate) struct Recovered {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) producers: ProducerState,
    pub(crate) snapshot_offset: Option<Offset>,
    pub(crate) epochs: LeaderEpochs,
    pub(crate) log_end_offset: Offset,
    pub(crate) report: RecoveryReport,
    /// Files and state are those of the clean stop: if nothing happens, nothing has to be written.
    pub(crate) as_left: bool,
    /// What the checkpoints said, less what a truncation since made void.
    pub(crate) state: OpenState,
    /// The truncation that the checkpoints may not know of.
    pub(crate) note: Option<TruncationNote>,
}

/// The name of the producer state before the record at `offset`.
pub(crate) fn snapshot_name(offset: Offset) -> String {
    crate::segment::file_name(offset, SNAPSHOT_SUFFIX)
}

/// The offset in a file's name, if it has 20 digits and `suffix`.
pub(crate) fn offset_in_name(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Offset)
}

/// Opens the partition in `dir`; creates it if there is none.
pub(crate) fn recover(
    dir: &Arc<PartitionDir>,
    config: &LogConfig,
    state: OpenState,
    now_ms: i64,
) -> Result<Recovered, LogError> {
    let path = dir.path();
    let failed = |error: io::Error| dir.failed(&*path, error);
    // Listed once, as a start opens thousands of directories in which nothing is left over.
    let entries = match dir.storage().list(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            dir.storage().create_dir(&path).map_err(failed)?;
            Vec::new()
        }
        listed => listed.map_err(failed)?,
    };
    let mut entries = leftovers::clean_up(dir, entries)?;
    // After it: a compaction that is brought to its end may have records above the cut.
    let (state, note) = truncation::complete(dir, state, &mut entries)?;
    let mut segments = list_segments(dir, &entries)?;
    let is_new = segments.is_empty();
    if is_new {
        let first = Segment::new(dir.clone(), state.log_start_offset, 0, now_ms);
        first.create()?;
        first.close_file();
        segments.push(Arc::new(first));
    }
    let epochs = load_epochs(dir, &segments, state.log_start_offset)?;
    let mut recovered = if state.clean {
        recover_clean(dir, segments, epochs, &entries)?
    } else {
        verify::recover_unclean(dir, segments, epochs, config, state)?
    };
    (recovered.state, recovered.note) = (state, note);
    recovered.report.greatest_producer_id = recovered.producers.greatest_id();
    // More than segments and their end: each clean stop leaves one, at no segment's start.
    if snapshots(&entries).count() > recovered.segments.len() + 1 {
        let bases = recovered.segments.iter().map(|segment| segment.base_offset()).collect();
        prune_snapshots(dir, &bases)?;
    }
    if state.clean {
        // As Kafka on loading a snapshot.
        recovered.producers.expire(now_ms, config.producer_id_expiration_ms);
        let end = recovered.log_end_offset;
        recovered.as_left = !is_new && recovered.snapshot_offset == Some(end);
    }
    Ok(recovered)
}

fn list_segments(
    dir: &Arc<PartitionDir>,
    entries: &[DirEntry],
) -> Result<Vec<Arc<Segment>>, LogError> {
    // Most idle logs have one.
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(1);
    let mut bytes_before = 0;
    for entry in entries {
        let Some(base_offset) = offset_in_name(&entry.name, LOG_SUFFIX) else { continue };
        let size = u32::try_from(entry.length)
            .map_err(|_| LogError::bad_file(dir.file(&entry.name), "a segment of 4 GiB or more"))?;
        let segment = Segment::new(dir.clone(), base_offset, size, entry.modified_ms);
        segment.set_bytes_before(bytes_before);
        bytes_before += u64::from(size);
        // Sorted by name, and names have one length.
        if let Some(before) = segments.last() {
            before.mark_sealed();
        }
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// The leader epochs from their file; those of older records, or all if the file is damaged, from
/// the batches. A crash may come between the deletion of epochs and that of their records.
fn load_epochs(
    dir: &Arc<PartitionDir>,
    segments: &[Arc<Segment>],
    log_start: Offset,
) -> Result<LeaderEpochs, LogError> {
    let path = dir.file(LEADER_EPOCH_FILE);
    let known = match read_epochs(dir.storage(), &path) {
        Err(error @ LogError::BadFile { .. }) => {
            tracing::warn!("{error}; reading leader epochs from the log");
            Vec::new()
        }
        known => known?,
    };
    let first_known = known.first().map_or(Offset(i64::MAX), |epoch| epoch.start_offset);
    let mut epochs = LeaderEpochs::default();
    if first_known > log_start {
        let older = segments.iter().take_while(|segment| segment.base_offset() < first_known);
        for segment in older.filter(|segment| segment.size() > 0) {
            // A bad batch is dealt with later; the epochs before it hold.
            let _ = scan_headers(segment, Offset(0), |header| {
                if header.base_offset < first_known {
                    epochs.assign(header.leader_epoch, header.base_offset);
                }
            });
        }
    }
    for EpochStart { epoch, start_offset } in known {
        epochs.assign(epoch, start_offset);
    }
    Ok(epochs)
}

fn recover_clean(
    dir: &Arc<PartitionDir>,
    segments: Vec<Arc<Segment>>,
    mut epochs: LeaderEpochs,
    entries: &[DirEntry],
) -> Result<Recovered, LogError> {
    let active = segments.last().expect("the caller made one if there was none");
    let log_end_offset = active.end_after_clean_close()?;
    epochs.truncate_from_end(log_end_offset);
    let newest = snapshots(entries).filter(|offset| *offset <= log_end_offset).max();
    let (producers, snapshot_offset) = match newest {
        None if log_end_offset == segments[0].base_offset() => (ProducerState::default(), None),
        _ => load_producers(dir, &segments, log_end_offset)?,
    };
    let report = RecoveryReport::default();
    let (as_left, state, note) = (false, OpenState::default(), None);
    Ok(Recovered {
        segments,
        producers,
        snapshot_offset,
        epochs,
        log_end_offset,
        report,
        as_left,
        state,
        note,
    })
}

/// The producer state before the record at `end`: the newest snapshot, and the headers since.
pub(crate) fn load_producers(
    dir: &PartitionDir,
    segments: &[Arc<Segment>],
    end: Offset,
) -> Result<(ProducerState, Option<Offset>), LogError> {
    let (mut producers, snapshot_offset) = newest_snapshot(dir, end)?;
    let from = snapshot_offset.unwrap_or(Offset(0));
    if from < end {
        for (index, segment) in segments.iter().enumerate() {
            let ends_before = segments.get(index + 1).is_some_and(|n| n.base_offset() <= from);
            if ends_before || segment.base_offset() >= end {
                continue;
            }
            scan_headers(segment, from, |header| {
                if header.base_offset >= from && header.base_offset < end {
                    producers.note(header);
                }
            })?;
        }
    }
    Ok((producers, snapshot_offset))
}

/// The newest readable snapshot at or below `end`; damaged ones are removed on the way.
pub(crate) fn newest_snapshot(
    dir: &PartitionDir,
    end: Offset,
) -> Result<(ProducerState, Option<Offset>), LogError> {
    let path = dir.path();
    let listed = dir.storage().list(&path).map_err(|error| dir.failed(&*path, error))?;
    let mut offsets: Vec<_> = snapshots(&listed).filter(|offset| *offset <= end).collect();
    while let Some(offset) = offsets.pop() {
        if let Some(producers) = read_snapshot(dir, offset)? {
            return Ok((producers, Some(offset)));
        }
        let path = dir.file(&snapshot_name(offset));
        tracing::warn!(snapshot = %path.display(), "damaged, looking for an older one");
        dir.storage().remove_file(&path).map_err(|error| dir.failed(&path, error))?;
    }
    Ok((ProducerState::default(), None))
}

/// The producer state before the record at `offset`; `None` if its snapshot is missing or damaged.
fn read_snapshot(dir: &PartitionDir, offset: Offset) -> Result<Option<ProducerState>, LogError> {
    let path = dir.file(&snapshot_name(offset));
    let read = || -> io::Result<Option<ProducerState>> {
        let file = dir.storage().open(&path, OpenMode::Read)?;
        let length = file.length()?;
        let mut head = [0; snapshot::HEAD_LENGTH];
        let read = read_full(file.as_ref(), &mut head, 0)?;
        // It may be large, as it has every producer of a day. No file may only claim to be.
        if read < head.len() || snapshot::length(head) != Some(length) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let read = read_full(file.as_ref(), &mut bytes, 0)?;
        Ok(ProducerState::decode(&bytes[..read]))
    };
    match read() {
        Ok(state) => Ok(state),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(dir.failed(path, error)),
    }
}

/// Removes the snapshots whose offset is `unwanted`.
pub(crate) fn remove_snapshots(
    dir: &PartitionDir,
    unwanted: impl Fn(Offset) -> bool,
) -> Result<(), LogError> {
    let held = dir.hold();
    let remove = || -> io::Result<()> {
        for offset in snapshots(&dir.storage().list(&held)?).filter(|offset| unwanted(*offset)) {
            dir.storage().remove_file(&held.join(snapshot_name(offset)))?;
        }
        Ok(())
    };
    let (removed, path) = (remove(), Arc::clone(&held));
    drop(held);
    removed.map_err(|error| dir.failed(&*path, error))
}

/// The offsets of the snapshots among these files, in order.
fn snapshots(entries: &[DirEntry]) -> impl Iterator<Item = Offset> {
    entries.iter().filter_map(|entry| offset_in_name(&entry.name, SNAPSHOT_SUFFIX))
}

/// Removes the snapshots that stand at no segment's start, except the newest.
pub(crate) fn prune_snapshots(
    dir: &PartitionDir,
    bases: &BTreeSet<Offset>,
) -> Result<(), LogError> {
    let path = dir.path();
    let listed = dir.storage().list(&path).map_err(|error| dir.failed(&*path, error))?;
    let newest = snapshots(&listed).max();
    remove_snapshots(dir, |offset| Some(offset) < newest && !bases.contains(&offset))
}

/// Shows every header of `segment` from the batch that holds `from` on.
fn scan_headers(
    segment: &Segment,
    from: Offset,
    mut visit: impl FnMut(&BatchHeader),
) -> Result<(), LogError> {
    let file = segment.file()?;
    let mut scan = match segment.relative(from) {
        Some(relative) if relative > 0 => segment.scan_from(file.storage(), relative)?,
        _ => BatchScan::new(file.storage(), Position(0), segment.size()),
    };
    while let Some((_, header)) = segment.scanned(scan.next())? {
        visit(&header);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
