//! Takes over a partition that another broker wrote: Apache Kafka's segments become ours.
//!
//! Every batch is read and checked, and written again with the same offset and the same records.
//! Three things are changed on the way, because they mean something only where they were given:
//! - the leader epoch becomes 0: an epoch of another cluster may be above any that is led here, and
//!   appends would be refused as stale
//! - producer id, epoch and sequence are removed. This cluster hands out its own ids, and a new
//!   producer with an old id would find its batches "already in the log"
//! - indexes are rebuilt
//!
//! A log with transactions is refused. Nothing is visible under the partition's name until all of
//! it is on the disk.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use kafkalite_protocol::record_batch::{
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch,
};
use kafkalite_protocol::types::{LeaderEpoch, Offset};

use crate::batch_scan::{BatchReader, ScanError};
use crate::checkpoint::{
    LOG_START_FILE, PARTITION_METADATA_FILE, TOPIC_IDS_FILE, read_offsets, read_topic_id,
    read_topic_ids, write_topic_id,
};
use crate::commit_log::{CommitLog, OpenState};
use crate::config::LogConfig;
use crate::error::LogError;
use crate::inspect::is_zero_from;
use crate::log_dir::LogDir;
use crate::recovery::offset_in_name;
use crate::segment::LOG_SUFFIX;
use crate::storage::{OpenMode, StorageFile};
use crate::validation::DECOMPRESSED_CAP_BYTES;

#[cfg(test)]
mod tests;

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Segments written.
    pub segments: usize,
    /// Batches written.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Where the log starts; belongs into the log start checkpoint.
    pub log_start_offset: Offset,
    /// Where it ends; belongs into the recovery point checkpoint, as all is on the disk.
    pub log_end_offset: Offset,
}

/// Copies the partition in `source` over the one called `name` (TOPIC-PARTITION) in `log_dir`,
/// which must be empty or missing, with the broker of `log_dir` stopped. Its topic id stays.
///
/// # Errors
/// `BadFile` for a damaged batch, a transaction, or a partition that has records already; nothing
/// is changed then.
pub fn adopt(
    log_dir: &Arc<LogDir>,
    source: &Path,
    name: &str,
    config: &LogConfig,
    now_ms: i64,
) -> Result<Adopted, LogError> {
    let target = log_dir.path().join(name);
    let storage = log_dir.storage();
    let failed = |path: &Path, error| LogError::io(path, error);
    let bases = check_names(log_dir, source, &target)?;
    // The suffix keeps a broker from taking it for a partition.
    let staged_name = format!("{name}.adopted-stray");
    let staged = log_dir.path().join(&staged_name);
    if staged.exists() {
        storage.remove_dir_all(&staged).map_err(|error| failed(&staged, error))?;
    }
    storage.create_dir(&staged).map_err(|error| failed(&staged, error))?;
    let copied = copy_segments(log_dir, source, &staged, &bases)
        .and_then(|adopted| settle(log_dir, source, &staged_name, adopted, config, now_ms));
    let adopted = match copied {
        Ok(adopted) => adopted,
        Err(error) => {
            // The remains of the attempt are of no use.
            let _ = storage.remove_dir_all(&staged);
            return Err(error);
        }
    };
    if let Some(id) = read_topic_id(storage.as_ref(), &target)? {
        write_topic_id(storage.as_ref(), &staged, id)?;
    }
    if target.exists() {
        storage.remove_dir_all(&target).map_err(|error| failed(&target, error))?;
    }
    storage.rename(&staged, &target).map_err(|error| failed(&staged, error))?;
    storage.sync_dir(log_dir.path()).map_err(|error| failed(log_dir.path(), error))?;
    Ok(adopted)
}

/// The source's base offsets in order, if the source has segments and the target has no records.
fn check_names(log_dir: &LogDir, source: &Path, target: &Path) -> Result<Vec<Offset>, LogError> {
    let list =
        |path: &Path| log_dir.storage().list(path).map_err(|error| LogError::io(path, error));
    if target.exists() {
        let records = list(target)?
            .into_iter()
            .any(|entry| entry.name.ends_with(LOG_SUFFIX) && entry.length > 0);
        if records {
            return Err(LogError::bad_file(target, "the partition has records already"));
        }
    }
    let entries = list(source)?;
    let names = entries.iter().map(|entry| entry.name.as_str());
    let bases: Vec<_> = names.filter_map(|name| offset_in_name(name, LOG_SUFFIX)).collect();
    if bases.is_empty() {
        let reason =
            format!("no segments; a partition has {LOG_SUFFIX} and {PARTITION_METADATA_FILE}");
        return Err(LogError::bad_file(source, reason));
    }
    Ok(bases)
}

fn copy_segments(
    log_dir: &LogDir,
    source: &Path,
    staged: &Path,
    bases: &[Offset],
) -> Result<Adopted, LogError> {
    let storage = log_dir.storage();
    let mut adopted = Adopted::default();
    for base in bases {
        let name = crate::segment::file_name(*base, LOG_SUFFIX);
        let (from, to) = (source.join(&name), staged.join(&name));
        let failed = |error| LogError::io(&from, error);
        let file = storage.open(&from, OpenMode::Read).map_err(failed)?;
        let size = u32::try_from(file.length().map_err(failed)?)
            .map_err(|_| LogError::bad_file(&from, "a segment of 4 GiB or more"))?;
        let written = storage.open(&to, OpenMode::Create).map_err(|e| LogError::io(&to, e))?;
        let before = adopted;
        copy_batches(&from, file.as_ref(), size, &to, written.as_ref(), &mut adopted)?;
        written.sync_data().map_err(|error| LogError::io(&to, error))?;
        adopted.segments += 1;
        drop(written);
        // Compaction there may leave a gap before a segment. A start that does not know how far
        // the log was on the disk would take the gap for a lost end.
        let (begins, is_first) = (before.log_end_offset, before.batches == 0);
        let is_empty = adopted.batches == before.batches;
        let fits = adopted.log_end_offset.0 - begins.0 <= i64::from(i32::MAX);
        if !is_first && !is_empty && begins < *base && fits {
            let name = crate::segment::file_name(begins, LOG_SUFFIX);
            let renamed = storage.rename(&to, &staged.join(name));
            renamed.map_err(|error| LogError::io(&to, error))?;
        }
    }
    Ok(adopted)
}

fn copy_batches(
    from: &Path,
    file: &dyn StorageFile,
    size: u32,
    to: &Path,
    written: &dyn StorageFile,
    adopted: &mut Adopted,
) -> Result<(), LogError> {
    let mut reader = BatchReader::new(file, size);
    let mut position = 0;
    loop {
        let batch = match reader.next() {
            Ok(Some((_, batch))) => batch,
            Ok(None) => return Ok(()),
            // What a broker that was killed, or preallocates, leaves at the end.
            Err(ScanError::Invalid(_)) if is_zero_from(file, position, size) => return Ok(()),
            Err(ScanError::Invalid(error)) => {
                let reason = format!("after offset {}: {error}", adopted.log_end_offset.0);
                return Err(LogError::bad_file(from, reason));
            }
            Err(ScanError::Io(error)) => return Err(LogError::io(from, error)),
        };
        check(from, &batch, adopted.log_end_offset)?;
        let mut header = *batch.header();
        header.leader_epoch = LeaderEpoch(0);
        header.producer_id = NO_PRODUCER_ID;
        header.producer_epoch = NO_PRODUCER_EPOCH;
        header.base_sequence = NO_SEQUENCE;
        header.seal(batch.payload());
        let head = header.to_bytes();
        let mut buffers = [IoSlice::new(&head), IoSlice::new(batch.payload())];
        written.write_all_at(&mut buffers, position).map_err(|error| LogError::io(to, error))?;
        position += header.size() as u64;
        adopted.batches += 1;
        adopted.records += u64::from(header.record_count.unsigned_abs());
        adopted.log_end_offset = header.next_offset();
    }
}

fn check(from: &Path, batch: &RecordBatch<'_>, end: Offset) -> Result<(), LogError> {
    let header = batch.header();
    let bad = |reason: String| {
        LogError::bad_file(from, format!("batch at offset {}: {reason}", header.base_offset.0))
    };
    batch.verify_crc().map_err(|error| bad(error.to_string()))?;
    if header.is_transactional() || header.is_control() {
        return Err(bad("it belongs to a transaction, and there are none here".to_string()));
    }
    if header.base_offset < end || header.last_offset_delta < 0 {
        return Err(bad(format!("its offsets do not follow {}", end.0)));
    }
    let records = batch.records(DECOMPRESSED_CAP_BYTES).map_err(|error| bad(error.to_string()))?;
    for record in &records {
        record.map_err(|error| bad(error.to_string()))?;
    }
    Ok(())
}

/// Opens the copy as after a crash, which makes its indexes, and closes it cleanly.
fn settle(
    log_dir: &Arc<LogDir>,
    source: &Path,
    staged_name: &str,
    mut adopted: Adopted,
    config: &LogConfig,
    now_ms: i64,
) -> Result<Adopted, LogError> {
    // Another broker may have compacted it, whatever this topic is set to: gaps are fine.
    let config = LogConfig { cleanup_compact: true, ..config.clone() };
    let state =
        OpenState { log_start_offset: start_in_source(log_dir, source)?, ..OpenState::default() };
    let (log, report) = CommitLog::open(log_dir, staged_name, Arc::new(config), state, now_ms)?;
    if report.truncated_bytes > 0 {
        let reason = format!("{} bytes do not read back", report.truncated_bytes);
        return Err(LogError::bad_file(source, reason));
    }
    adopted.log_start_offset = log.log_start_offset();
    adopted.log_end_offset = log.log_end_offset();
    log.close(true)?;
    Ok(adopted)
}

/// The start of the partition in the other broker's checkpoint. It is 0 without a checkpoint, and
/// if the checkpoint is known to be of another topic of the name.
fn start_in_source(log_dir: &LogDir, source: &Path) -> Result<Offset, LogError> {
    let partition = source.file_name().and_then(|name| name.to_str()?.rsplit_once('-'));
    let (Some((topic, index)), Some(parent)) = (partition, source.parent()) else {
        return Ok(Offset(0));
    };
    let storage = log_dir.storage().as_ref();
    let starts = read_offsets(storage, &parent.join(LOG_START_FILE))?;
    if let Some(topics) = read_topic_ids(storage, &parent.join(TOPIC_IDS_FILE))? {
        let noted = topics.get(&(LOG_START_FILE.to_string(), topic.to_string())).copied();
        if noted.is_none() || noted != read_topic_id(storage, source)? {
            return Ok(Offset(0));
        }
    }
    let key = index.parse().ok().map(|index: i32| (topic.to_string(), index));
    Ok(key.and_then(|key| starts.get(&key).copied()).unwrap_or(Offset(0)))
}
