//! After a crash: reads what was not known to be on the disk, batch by batch.

use std::sync::Arc;

use kafkalite_protocol::record_batch::HEADER_LENGTH;

use super::*;
use crate::batch_scan::{BatchReader, ScanError};
use crate::storage::replace_file;

pub(super) fn recover_unclean(
    dir: &Arc<PartitionDir>,
    mut segments: Vec<Arc<Segment>>,
    mut epochs: LeaderEpochs,
    config: &LogConfig,
    state: OpenState,
) -> Result<Recovered, LogError> {
    // The newest segment is always read: after a crash the end of its last batch is unknown.
    let first = segments
        .windows(2)
        .take_while(|pair| pair[1].base_offset() <= state.recovery_point)
        .count();
    let scan_from = segments[first].base_offset();
    let (mut producers, mut snapshot) = load_producers(dir, &segments[..first], scan_from)?;
    let mut report = RecoveryReport::default();
    let mut end = scan_from;
    for index in first..segments.len() {
        let segment = segments[index].clone();
        // An overlap is damage. Compaction leaves gaps. Any other gap means that a power cut took
        // the end of a segment, and later records must not outlive earlier ones. Below the log's
        // start a gap is what a power cut left of a deletion.
        let gap = index > first && segment.base_offset() > end.max(state.log_start_offset);
        if segment.base_offset() < end || (gap && !config.cleanup_compact) {
            remove_from(dir, &mut segments, index, &mut report)?;
            break;
        }
        end = segment.base_offset();
        if snapshot.take() != Some(end) {
            // Behind a gap the snapshot knows batches that a power cut took.
            if let Some(noted) = read_snapshot(dir, end)?.filter(|_| !gap) {
                producers.recall(noted);
            }
            if !producers.is_empty() {
                write_snapshot(dir, &producers, end)?;
            }
        }
        let size = segment.size();
        let mut seen = Seen { producers: &mut producers, epochs: &mut epochs, end: &mut end };
        let valid = verify_segment(&segment, config, &mut seen)?;
        report.scanned_bytes += u64::from(size);
        if index + 1 < segments.len() && valid == size {
            segment.seal()?;
            segment.close_file();
        } else {
            report.truncated_bytes += u64::from(size - valid);
            remove_from(dir, &mut segments, index + 1, &mut report)?;
            break;
        }
    }
    epochs.truncate_from_end(end);
    report.lost_below_recovery_point = end < state.recovery_point;
    tell(dir, &report, state, end);
    remove_snapshots(dir, |offset| offset > end)?;
    let path = dir.file(LEADER_EPOCH_FILE);
    write_epochs(dir.storage(), &path, epochs.entries(), Durability::PageCache)?;
    Ok(Recovered {
        segments,
        producers,
        snapshot_offset: None,
        epochs,
        log_end_offset: end,
        report,
        as_left: false,
        state,
        note: None,
    })
}

/// Says in the log what was cut away.
fn tell(dir: &PartitionDir, report: &RecoveryReport, state: OpenState, end: Offset) {
    if report.lost_below_recovery_point {
        tracing::error!(
            partition = %dir.path().display(),
            recovery_point = state.recovery_point.0,
            log_end = end.0,
            "records that were on the disk are damaged; the log was cut there"
        );
    } else if report.truncated_bytes > 0 {
        tracing::warn!(
            partition = %dir.path().display(), bytes = report.truncated_bytes, log_end = end.0,
            "cut an incomplete tail away after an unclean stop"
        );
    }
}

/// Writes the snapshot at a segment's start again. A power cut may have taken the one of the roll,
/// and deletion may take the records below.
fn write_snapshot(
    dir: &PartitionDir,
    producers: &ProducerState,
    offset: Offset,
) -> Result<(), LogError> {
    let path = dir.file(&snapshot_name(offset));
    let bytes = producers.encode();
    let written = replace_file(dir.storage(), &path, &bytes, Durability::PageCache);
    match written.map_err(|error| dir.failed(&path, error)) {
        Err(LogError::DiskFull { .. }) => {
            tracing::warn!(snapshot = %path.display(), "no room for it");
            Ok(())
        }
        written => written,
    }
}

/// Removes the segments from `index` on: they stand after a batch that is lost.
fn remove_from(
    dir: &PartitionDir,
    segments: &mut Vec<Arc<Segment>>,
    index: usize,
    report: &mut RecoveryReport,
) -> Result<(), LogError> {
    for segment in segments.split_off(index.max(1)) {
        report.truncated_bytes += u64::from(segment.size());
        segment.close_file();
        for path in segment.mark_deleted()? {
            dir.storage().remove_file(&path).map_err(|error| dir.failed(path, error))?;
        }
    }
    Ok(())
}

/// What the batches that were read so far add up to.
struct Seen<'a> {
    producers: &'a mut ProducerState,
    epochs: &'a mut LeaderEpochs,
    end: &'a mut Offset,
}

/// Reads a whole segment; returns how many bytes of it are valid. Its indexes are rebuilt.
fn verify_segment(
    segment: &Segment,
    config: &LogConfig,
    seen: &mut Seen<'_>,
) -> Result<u32, LogError> {
    let file = segment.file()?;
    let mut indexes = segment.begin_recovery();
    let mut valid = 0;
    let mut reader = BatchReader::new(file.storage(), segment.size());
    loop {
        let (position, batch) = match reader.next() {
            Ok(Some(next)) => next,
            Ok(None) | Err(ScanError::Invalid(_)) => break,
            Err(error @ ScanError::Io(_)) => return segment.scanned(Err(error)),
        };
        let header = batch.header();
        if batch.verify_crc().is_err() || !follows(segment, header, *seen.end) {
            break;
        }
        segment.note_batch(&mut indexes, header, position, config.index_interval_bytes);
        seen.producers.note(header);
        seen.epochs.confirm(header.leader_epoch, header.base_offset);
        *seen.end = header.next_offset();
        valid = position.0 + header.size() as u32;
    }
    segment.end_recovery(valid, indexes)?;
    Ok(valid)
}

/// Whether a batch may stand after `end` in this segment.
fn follows(segment: &Segment, header: &BatchHeader, end: Offset) -> bool {
    header.base_offset >= end
        && header.last_offset_delta >= 0
        && segment.relative(header.last_offset()).is_some()
        && header.size() >= HEADER_LENGTH
}
