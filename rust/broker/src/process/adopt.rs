//! Takes over a partition that another broker wrote, Apache Kafka for instance.
//!
//! The broker of the data directory is stopped while that happens; the directory's lock sees to it.
//! The topic is created there first, and its partition is still empty.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalite_log::checkpoint::{
    CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE, TOPIC_IDS_FILE, read_offsets, read_topic_id,
    read_topic_ids, write_offsets, write_topic_ids,
};
use kafkalite_log::storage::RealStorage;
use kafkalite_log::{Adopted, LogConfig, LogDir, LogError, adopt as copy};
use kafkalite_protocol::Offset;

use super::failure::Failure;
use crate::clock::{Clock, SystemClock};

/// Files that stay open at once; a copy needs a handful.
const OPEN_FILES: usize = 64;

/// Copies the segments in `source` over the empty partition `partition` of `topic` in `data_dir`.
///
/// # Errors
/// A locked directory, or segments that cannot be taken over; nothing is changed then.
pub fn adopt(
    source: &Path,
    topic: &str,
    partition: i32,
    data_dir: &Path,
) -> Result<Adopted, Failure> {
    let carry_out = || {
        let directory = LogDir::open(data_dir, Arc::new(RealStorage), OPEN_FILES)?;
        let now_ms = SystemClock::new().wall_ms();
        let name = format!("{topic}-{partition}");
        let adopted = copy(&directory, source, &name, &LogConfig::default(), now_ms)?;
        // Without these the next start would believe the empty partition's.
        let key = (topic.to_owned(), partition);
        note(&directory, LOG_START_FILE, key.clone(), adopted.log_start_offset)?;
        note(&directory, RECOVERY_POINT_FILE, key.clone(), adopted.log_end_offset)?;
        // How far the other broker compacted the partition is unknown.
        note(&directory, CLEANER_FILE, key, Offset::ZERO)?;
        Ok(adopted)
    };
    carry_out().map_err(|error| match &error {
        LogError::Locked { .. } => super::failure::log(&error),
        other => Failure::refused(
            "nothing was taken over".to_owned(),
            other.to_string(),
            "give the directory of one partition, as TOPIC-N, and an empty partition for it.",
        ),
    })
}

fn note(
    directory: &LogDir,
    file: &str,
    key: (String, i32),
    offset: Offset,
) -> Result<(), LogError> {
    let path: PathBuf = Path::new(directory.path().as_ref()).join(file);
    let storage = directory.storage().as_ref();
    let mut offsets = read_offsets(storage, &path)?;
    let (topic, partition) = key.clone();
    offsets.insert(key, offset);
    write_offsets(storage, &path, &offsets)?;
    // A broker believes an entry of the very topic only that has the name.
    let log = directory.path().join(format!("{topic}-{partition}"));
    let path = directory.path().join(TOPIC_IDS_FILE);
    match (read_topic_id(storage, &log)?, read_topic_ids(storage, &path)?) {
        (Some(id), Some(mut topics)) => {
            topics.insert((file.to_owned(), topic), id);
            write_topic_ids(storage, &path, &topics)
        }
        // An earlier release ran here last: the next start notes whose all entries are.
        _ => Ok(()),
    }
}
