//! The metadata log on disk: `DATA_DIR/__cluster_metadata-0/`.
//!
//! ```text
//! 00000000000000000000.log                   frames of record batches from this offset on
//! 00000000000000004711-0000000007.checkpoint  an image: all below offset 4711, of epoch 7
//! ```
//! A batch counts once it is fsynced. When enough has been written since the last snapshot, the
//! image is written as a new one. Then a new `.log` begins, and older files are deleted.
//!
//! After a crash a torn frame at the end is cut off, because it was never acknowledged. A bad frame
//! below the committed end (see `frames.rs`) is an error, because it was acknowledged. A failed
//! write is taken back. A failed fsync takes the log offline, because the contents of the disk are
//! unknown.
//!
//! A directory of release 0.1 (`legacy.rs`) is opened by writing its image as a snapshot of today's
//! format, with a new log behind it. Until the last file of the old format is deleted the next
//! start does that again; nothing is appended before.

mod frames;
mod legacy;
mod snapshot;

use super::error::MetadataError;
use super::image::MetadataImage;
use super::records::{MetadataRecord, RecordsBatch};
use frames::{FramesFile, Header, io_error};

pub use frames::AppendFailure;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::Uuid;
pub use snapshot::{image_bytes, image_of};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least that is written between two snapshots, in bytes.
const SNAPSHOT_AFTER_BYTES: u64 = 1 << 20;

/// The metadata log of one data directory, open for appends.
#[derive(Debug)]
pub struct MetadataLog {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    active: FramesFile,
    /// Bytes of frames since the newest snapshot.
    bytes_since_snapshot: u64,
    /// Bytes to reach before the next one.
    snapshot_after_bytes: u64,
    /// Why nothing is written any more.
    offline: Option<String>,
    removed_topics: HashSet<Uuid>,
}

impl MetadataLog {
    /// Opens the log in `dir`, which is created when missing, and replays it.
    ///
    /// # Errors
    /// The directory cannot be read or written, or a committed byte is not what was written.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
    ) -> Result<(Self, MetadataImage), MetadataError> {
        let disk = storage.as_ref();
        disk.create_dir(dir).map_err(io_error("create", dir))?;
        let files = list(disk, dir)?;
        let snapshot = files.checkpoints.last().map(|path| snapshot::read(disk, path));
        let snapshot = snapshot.transpose()?;
        if let [stale @ .., _] = &files.checkpoints[..]
            && !stale.is_empty()
        {
            // A crash came before they were deleted. The name of the newest one may not be on the
            // disk yet.
            disk.sync_dir(dir).map_err(io_error("fsync", dir))?;
            delete(disk, stale)?;
        }
        let snapshot_len = snapshot.as_ref().map_or(0, |snapshot| snapshot.len);
        let mut is_legacy = snapshot.as_ref().is_some_and(|snapshot| snapshot.is_legacy);
        let mut image = snapshot.map_or_else(MetadataImage::default, |snapshot| snapshot.image);
        let (mut bytes_since_snapshot, mut timestamp_ms) = (0, 0);
        let mut removed_topics = HashSet::new();
        let mut logs = Vec::with_capacity(files.logs.len());
        for path in &files.logs {
            logs.push(FramesFile::open(disk, path)?);
        }
        // A new log may be there although the switch to it failed, so the torn one may be the one
        // before.
        let last = logs.iter().rposition(|log| !log.has_no_frames());
        for (index, file) in logs.iter_mut().enumerate() {
            let start = file.len();
            let path = &files.logs[index];
            file.replay(last.is_none_or(|last| index >= last), |position, batch| {
                image = replayed(&image, path, position, &batch)?;
                timestamp_ms = batch.timestamp_ms;
                removed_topics.extend(batch.records.iter().filter_map(removed_topic));
                Ok(())
            })?;
            bytes_since_snapshot += file.len() - start;
            is_legacy |= file.is_legacy();
        }
        let active = match logs.pop() {
            Some(file) => file,
            None => create_log(disk, dir, &image)?,
        };
        let snapshot_after_bytes = SNAPSHOT_AFTER_BYTES.max(snapshot_len);
        let dir = dir.to_owned();
        let mut log = Self {
            storage,
            dir,
            active,
            bytes_since_snapshot,
            snapshot_after_bytes,
            offline: None,
            removed_topics,
        };
        if is_legacy {
            tracing::info!(dir = %log.dir.display(), "the metadata log gets today's format");
            log.snapshot(&image, timestamp_ms)?;
        }
        Ok((log, image))
    }

    /// The topics that were removed by what was replayed behind the newest snapshot.
    pub fn removed_topics(&self) -> &HashSet<Uuid> {
        &self.removed_topics
    }

    /// Writes `batch` at this level of records; it counts when this returns.
    ///
    /// # Errors
    /// It was not written. After a failed fsync, or a failed write that could not be taken back,
    /// the log is offline until it is opened again.
    pub fn append(&mut self, batch: &RecordsBatch, level: i16) -> Result<(), AppendFailure> {
        if let Some(reason) = &self.offline {
            let error = MetadataError::Offline { reason: reason.clone() };
            return Err(AppendFailure { error, taken_back: true });
        }
        match self.active.append(batch, level) {
            Ok(written) => {
                self.bytes_since_snapshot += written;
                Ok(())
            }
            Err(failure) => {
                if !failure.taken_back {
                    tracing::error!(error = %failure.error, "the metadata log is offline");
                    self.offline = Some(failure.error.to_string());
                }
                Err(failure)
            }
        }
    }

    /// Writes `image`, which must be what the log adds up to, as a snapshot, if enough was appended
    /// since the last.
    pub fn snapshot_if_due(&mut self, image: &MetadataImage, timestamp_ms: i64) {
        if self.bytes_since_snapshot < self.snapshot_after_bytes || self.offline.is_some() {
            return;
        }
        // Without a snapshot the log only stays longer, so a failure costs no caller its answer.
        if let Err(error) = self.snapshot(image, timestamp_ms) {
            tracing::warn!(%error, "no snapshot of the metadata log");
            self.bytes_since_snapshot = 0;
        }
    }

    pub(super) fn snapshot(
        &mut self,
        image: &MetadataImage,
        timestamp_ms: i64,
    ) -> Result<(), MetadataError> {
        let disk = self.storage.as_ref();
        let path = self.dir.join(snapshot_name(image));
        let written = snapshot::write(disk, &path, image, timestamp_ms)?;
        self.active = create_log(disk, &self.dir, image)?;
        self.bytes_since_snapshot = 0;
        self.snapshot_after_bytes = SNAPSHOT_AFTER_BYTES.max(written);
        let files = list(disk, &self.dir)?;
        let stale_logs = files.logs.iter().rev().skip(1);
        delete(disk, stale_logs.chain(files.checkpoints.iter().rev().skip(1)))
    }
}

/// Writes a log that adds up to `image` into `dir`, which is new.
///
/// # Errors
/// The disk refuses.
pub fn write_image(
    disk: &dyn Storage,
    dir: &Path,
    image: &MetadataImage,
    timestamp_ms: i64,
) -> Result<(), MetadataError> {
    disk.create_dir(dir).map_err(io_error("create", dir))?;
    snapshot::write(disk, &dir.join(snapshot_name(image)), image, timestamp_ms).map(drop)
}

fn snapshot_name(image: &MetadataImage) -> String {
    format!("{:020}-{:010}.checkpoint", image.offset + 1, image.epoch)
}

/// Deletes the log in `dir`: something else took its place.
///
/// # Errors
/// The disk refuses.
pub fn delete_log(disk: &dyn Storage, dir: &Path) -> Result<(), MetadataError> {
    let files = list(disk, dir)?;
    delete(disk, files.checkpoints.iter().chain(&files.logs))?;
    disk.sync_dir(dir).map_err(io_error("fsync", dir))
}

fn delete<'a>(
    disk: &dyn Storage,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), MetadataError> {
    for path in paths {
        disk.remove_file(path).map_err(io_error("delete", path))?;
    }
    Ok(())
}

fn removed_topic(record: &MetadataRecord) -> Option<Uuid> {
    match record {
        MetadataRecord::RemoveTopic(record) => Some(record.topic_id),
        _ => None,
    }
}

/// The image after a batch read from a file; a batch below a snapshot's end is in the image
/// already.
fn replayed(
    image: &MetadataImage,
    path: &Path,
    position: u64,
    batch: &RecordsBatch,
) -> Result<MetadataImage, MetadataError> {
    let end = image.offset + 1;
    if batch.base_offset < end {
        return Ok(image.clone());
    }
    if batch.base_offset > end {
        let reason = format!("offset {} follows offset {}", batch.base_offset, image.offset);
        return Err(MetadataError::Corrupt { path: path.to_owned(), position, reason });
    }
    image.with_batch(batch)
}

fn create_log(
    disk: &dyn Storage,
    dir: &Path,
    image: &MetadataImage,
) -> Result<FramesFile, MetadataError> {
    let header = Header { offset: image.offset + 1, epoch: image.epoch };
    FramesFile::create(disk, &dir.join(format!("{:020}.log", header.offset)), header)
}

/// What a directory holds, oldest first.
struct Files {
    logs: Vec<PathBuf>,
    checkpoints: Vec<PathBuf>,
}

/// Lists `dir`, and deletes files that were still being written when the broker died.
fn list(disk: &dyn Storage, dir: &Path) -> Result<Files, MetadataError> {
    let mut files = Files { logs: Vec::new(), checkpoints: Vec::new() };
    // Sorted by name, and offsets are padded with zeros: so by offset.
    for entry in disk.list(dir).map_err(io_error("read", dir))? {
        let path = dir.join(&entry.name);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => files.logs.push(path),
            Some("checkpoint") => files.checkpoints.push(path),
            Some("tmp") => disk.remove_file(&path).map_err(io_error("delete", &path))?,
            _ => {}
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
