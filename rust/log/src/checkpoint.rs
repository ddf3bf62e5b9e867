//! The small text files that Kafka keeps beside its logs, byte for byte.
//!
//! | file                                                       | lines                        |
//! |------------------------------------------------------------|------------------------------|
//! | recovery-point-, log-start-, replication-offset-checkpoint | 0, count, TOPIC PART OFFSET  |
//! | leader-epoch-checkpoint (in a partition)                   | 0, count, EPOCH START_OFFSET |
//! | partition.metadata (in a partition)                        | version: 0, topic_id: ID     |
//! | .kafka_cleanshutdown                                       | JSON: version, brokerEpoch   |
//!
//! One more is ours: `checkpoint-topic-ids` says of which topic the entries of the checkpoints
//! above are, as FILE TOPIC ID. Kafka's files name topics by a name that may be given again.
//!
//! Each is replaced as a whole. A file that does not read is an error, never an empty file: the
//! caller decides what to do without it. Source: Kafka's `CheckpointFile`, `OffsetCheckpointFile`,
//! `LeaderEpochCheckpointFile`, `PartitionMetadataFile`, `CleanShutdownFileHandler`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use kafkalite_protocol::types::{LeaderEpoch, Offset, Uuid};

use crate::error::LogError;
use crate::leader_epochs::EpochStart;
use crate::storage::{Durability, Storage, read_file, replace_file};

#[cfg(test)]
mod tests;

/// Per partition: everything below this offset is known to be on disk.
pub const RECOVERY_POINT_FILE: &str = "recovery-point-offset-checkpoint";
/// Per partition: its first offset, where DeleteRecords moved it.
pub const LOG_START_FILE: &str = "log-start-offset-checkpoint";
/// Per partition: its high watermark.
pub const HIGH_WATERMARK_FILE: &str = "replication-offset-checkpoint";
/// Per partition: how far compaction came.
pub const CLEANER_FILE: &str = "cleaner-offset-checkpoint";
/// Whose the entries of the files above are; no file of Kafka's.
pub const TOPIC_IDS_FILE: &str = "checkpoint-topic-ids";
/// There after a clean stop only.
pub const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";
/// In a partition's directory.
pub const LEADER_EPOCH_FILE: &str = "leader-epoch-checkpoint";
/// In a partition's directory.
pub const PARTITION_METADATA_FILE: &str = "partition.metadata";

const VERSION: &str = "0";

/// Offsets by topic and partition.
pub type PartitionOffsets = BTreeMap<(String, i32), Offset>;

/// Topic ids by checkpoint file and topic name.
pub type CheckpointTopics = BTreeMap<(String, String), Uuid>;

fn read_text(storage: &dyn Storage, path: &Path) -> Result<Option<String>, LogError> {
    match read_file(storage, path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| LogError::bad_file(path, "it is not UTF-8")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::io(path, error)),
    }
}

/// The lines after version and count, if both are right.
fn lines<'a>(path: &Path, text: &'a str) -> Result<Vec<&'a str>, LogError> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Err(LogError::bad_file(path, "unknown version"));
    }
    let count = lines.next().and_then(|line| line.parse::<usize>().ok());
    let entries: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
    if count != Some(entries.len()) {
        return Err(LogError::bad_file(path, "its count does not match its lines"));
    }
    Ok(entries)
}

/// Reads one of the checkpoints of offsets; empty if there is none.
///
/// # Errors
/// `BadFile` if it is damaged.
pub fn read_offsets(storage: &dyn Storage, path: &Path) -> Result<PartitionOffsets, LogError> {
    let Some(text) = read_text(storage, path)? else { return Ok(PartitionOffsets::new()) };
    let entry = |line: &str| {
        let mut fields = line.split(' ');
        let topic = fields.next()?.to_string();
        let partition = fields.next()?.parse().ok()?;
        let offset = Offset(fields.next()?.parse().ok()?);
        fields.next().is_none().then_some(((topic, partition), offset))
    };
    let bad = |line: &str| LogError::bad_file(path, format!("malformed line: {line}"));
    lines(path, &text)?.into_iter().map(|line| entry(line).ok_or_else(|| bad(line))).collect()
}

/// Replaces one of the checkpoints of offsets; on the disk when it returns.
///
/// # Errors
/// Whatever the disk says.
pub fn write_offsets(
    storage: &dyn Storage,
    path: &Path,
    offsets: &PartitionOffsets,
) -> Result<(), LogError> {
    let mut text = format!("{VERSION}\n{}\n", offsets.len());
    for ((topic, partition), offset) in offsets {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{topic} {partition} {}", offset.0);
    }
    replace_file(storage, path, text.as_bytes(), Durability::Disk)
        .map_err(|e| LogError::io(path, e))
}

/// Reads whose the entries of the checkpoints are; `None` if that was never noted.
///
/// # Errors
/// `BadFile` if it is damaged.
pub fn read_topic_ids(
    storage: &dyn Storage,
    path: &Path,
) -> Result<Option<CheckpointTopics>, LogError> {
    let Some(text) = read_text(storage, path)? else { return Ok(None) };
    let entry = |line: &str| {
        let mut fields = line.split(' ');
        let (file, topic) = (fields.next()?.to_string(), fields.next()?.to_string());
        let id = Uuid::parse(fields.next()?)?;
        fields.next().is_none().then_some(((file, topic), id))
    };
    let bad = |line: &str| LogError::bad_file(path, format!("malformed line: {line}"));
    let entries = lines(path, &text)?.into_iter();
    entries.map(|line| entry(line).ok_or_else(|| bad(line))).collect::<Result<_, _>>().map(Some)
}

/// Replaces the note of whose the entries of the checkpoints are; on the disk when it returns.
///
/// # Errors
/// Whatever the disk says.
pub fn write_topic_ids(
    storage: &dyn Storage,
    path: &Path,
    topics: &CheckpointTopics,
) -> Result<(), LogError> {
    let mut text = format!("{VERSION}\n{}\n", topics.len());
    for ((file, topic), id) in topics {
        let _ = writeln!(text, "{file} {topic} {id}");
    }
    replace_file(storage, path, text.as_bytes(), Durability::Disk)
        .map_err(|e| LogError::io(path, e))
}

/// Reads a partition's leader epochs; empty if there is no file.
///
/// # Errors
/// `BadFile` if it is damaged.
pub fn read_epochs(storage: &dyn Storage, path: &Path) -> Result<Vec<EpochStart>, LogError> {
    let Some(text) = read_text(storage, path)? else { return Ok(Vec::new()) };
    let entry = |line: &str| {
        let (epoch, offset) = line.split_once(' ')?;
        let epoch = LeaderEpoch(epoch.parse().ok()?);
        Some(EpochStart { epoch, start_offset: Offset(offset.parse().ok()?) })
    };
    let bad = |line: &str| LogError::bad_file(path, format!("malformed line: {line}"));
    lines(path, &text)?.into_iter().map(|line| entry(line).ok_or_else(|| bad(line))).collect()
}

/// Replaces a partition's leader epochs.
///
/// # Errors
/// Whatever the disk says.
pub fn write_epochs(
    storage: &dyn Storage,
    path: &Path,
    epochs: &[EpochStart],
    durability: Durability,
) -> Result<(), LogError> {
    let mut text = format!("{VERSION}\n{}\n", epochs.len());
    for entry in epochs {
        let _ = writeln!(text, "{} {}", entry.epoch.0, entry.start_offset.0);
    }
    replace_file(storage, path, text.as_bytes(), durability).map_err(|e| LogError::io(path, e))
}

/// Reads the topic id from a partition's directory; `None` if none was ever written there.
///
/// # Errors
/// `BadFile` if it is damaged.
pub fn read_topic_id(storage: &dyn Storage, partition: &Path) -> Result<Option<Uuid>, LogError> {
    let path = partition.join(PARTITION_METADATA_FILE);
    let Some(text) = read_text(storage, &path)? else { return Ok(None) };
    if text.chars().all(|char| char == '\0') {
        // Earlier releases did not sync it: a power cut left none of it.
        return Ok(None);
    }
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    if value("version") != Some(VERSION) {
        return Err(LogError::bad_file(&path, "unknown version"));
    }
    let id = value("topic_id").and_then(Uuid::parse);
    id.map(Some).ok_or_else(|| LogError::bad_file(&path, "no topic id"))
}

/// Writes the topic id into a partition's directory; on the disk when it returns. A log without a
/// readable id does not open, and one without any is taken for the log of whatever topic has its
/// name.
///
/// # Errors
/// Whatever the disk says.
pub fn write_topic_id(
    storage: &dyn Storage,
    partition: &Path,
    topic_id: Uuid,
) -> Result<(), LogError> {
    let path = partition.join(PARTITION_METADATA_FILE);
    let text = format!("version: {VERSION}\ntopic_id: {topic_id}");
    replace_file(storage, &path, text.as_bytes(), Durability::Disk)
        .map_err(|error| LogError::io(&path, error))
}

/// Notes a clean stop. To be written last, after everything else is on the disk.
///
/// # Errors
/// Whatever the disk says.
pub fn write_clean_shutdown(
    storage: &dyn Storage,
    log_dir: &Path,
    broker_epoch: i64,
) -> Result<(), LogError> {
    let path = log_dir.join(CLEAN_SHUTDOWN_FILE);
    let text = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
    replace_file(storage, &path, text.as_bytes(), Durability::Disk)
        .map_err(|error| LogError::io(&path, error))
}

/// The epoch of the broker that noted a clean stop; -1 where the note has none, as of an earlier
/// release.
///
/// # Errors
/// Whatever the disk says.
pub fn read_clean_shutdown(storage: &dyn Storage, log_dir: &Path) -> Result<Option<i64>, LogError> {
    let path = log_dir.join(CLEAN_SHUTDOWN_FILE);
    match read_file(storage, &path) {
        Ok(text) => Ok(Some(noted_epoch(&text).unwrap_or(-1))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::io(&path, error)),
    }
}

/// Removes the note of a clean stop: a crash from now on is unclean. To be called before anything
/// else in the directory changes.
///
/// # Errors
/// Whatever the disk says.
pub fn forget_clean_shutdown(storage: &dyn Storage, log_dir: &Path) -> Result<(), LogError> {
    let path = log_dir.join(CLEAN_SHUTDOWN_FILE);
    match storage.remove_file(&path) {
        Ok(()) => storage.sync_dir(log_dir).map_err(|error| LogError::io(log_dir, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(LogError::io(&path, error)),
    }
}

fn noted_epoch(text: &[u8]) -> Option<i64> {
    let (_, after) = std::str::from_utf8(text).ok()?.split_once("\"brokerEpoch\":")?;
    after.trim().strip_suffix('}')?.trim().parse().ok()
}
