//! What can go wrong in the commit log. The broker maps each variant to one Kafka error code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalite_protocol::compression::CompressionError;
use kafkalite_protocol::record_batch::RecordBatchError;
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use thiserror::Error;

use crate::commit_log::Role;

/// An operation on a commit log that failed.
#[derive(Clone, Debug, Error)]
pub enum LogError {
    /// The offset is below the log's start or above its end.
    #[error("offset {} is outside of [{}, {}]", .offset.0, .log_start_offset.0, .log_end_offset.0)]
    OffsetOutOfRange {
        /// What was asked for.
        offset: Offset,
        /// First offset there is.
        log_start_offset: Offset,
        /// The offset the next record gets.
        log_end_offset: Offset,
    },
    /// A producer's sequence does not follow its last one.
    #[error("producer {producer_id}: sequence {sequence} does not follow {last_sequence}")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: i64,
        /// The first sequence of the batch.
        sequence: i32,
        /// The last sequence that is in the log; -1 if none is, in this epoch.
        last_sequence: i32,
    },
    /// A newer instance of the producer has written already.
    #[error("producer {producer_id}: epoch {epoch} is older than {current_epoch}")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: i64,
        /// The epoch of the batch.
        epoch: i16,
        /// The newest epoch seen.
        current_epoch: i16,
    },
    /// The batch is larger than a segment may be.
    #[error("a batch of {size} bytes does not fit into a segment of {segment_bytes}")]
    BatchLargerThanSegment {
        /// Bytes of the batch.
        size: usize,
        /// `segment.bytes`.
        segment_bytes: u32,
    },
    /// A batch older than the newest leader epoch in the log.
    #[error("leader epoch {} is older than the log's {}", .epoch.0, .current.0)]
    StaleLeaderEpoch {
        /// The epoch of the append.
        epoch: LeaderEpoch,
        /// The newest in the log.
        current: LeaderEpoch,
    },
    /// The replica is in another role, or in another epoch, than the append or truncation needs.
    #[error("the replica is {role}, not {wanted}")]
    WrongRole {
        /// The role that the operation needs.
        wanted: Role,
        /// The role that the replica has.
        role: Role,
    },
    /// A batch of the leader that does not continue this log.
    #[error("the batch at offset {} does not continue the log: {reason}", .base_offset.0)]
    NotContiguous {
        /// The first offset of the batch.
        base_offset: Offset,
        /// What is wrong with the batch.
        reason: String,
    },
    /// There is no room on the disk. The log stays as it was and takes appends again when there is.
    #[error("{path}: no space left")]
    DiskFull {
        /// The file that could not grow.
        path: Arc<Path>,
    },
    /// The process, or the machine, has as many files open as it may. Nothing is wrong with the
    /// disk: what is open goes on, and what was refused is tried again when it is asked for again.
    #[error("{path}: too many open files")]
    OutOfDescriptors {
        /// The file that could not be opened.
        path: Arc<Path>,
    },
    /// The disk failed. The log directory is offline until the broker is restarted.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: Arc<Path>,
        /// What the kernel said.
        source: Arc<io::Error>,
    },
    /// An earlier failure took the log directory offline.
    #[error("log directory {path} is offline")]
    Offline {
        /// The directory.
        path: Arc<Path>,
    },
    /// The log was closed or is being deleted.
    #[error("log {path} is closed")]
    Closed {
        /// The partition's directory.
        path: Arc<Path>,
    },
    /// Another process runs on this directory.
    #[error("log directory {path} is locked by another process")]
    Locked {
        /// The directory.
        path: Arc<Path>,
    },
    /// A file of ours does not hold what it should.
    #[error("{path}: {reason}")]
    BadFile {
        /// The file.
        path: Arc<Path>,
        /// What is wrong with it.
        reason: String,
    },
    /// A batch in the log cannot be read.
    #[error(transparent)]
    Batch(Arc<RecordBatchError>),
}

impl From<RecordBatchError> for LogError {
    fn from(error: RecordBatchError) -> Self {
        Self::Batch(Arc::new(error))
    }
}

impl LogError {
    /// A failure of the kernel on `path`; a full disk and a lack of descriptors have errors of
    /// their own.
    #[must_use]
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path: Arc<Path> = path.into().into();
        if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            return Self::OutOfDescriptors { path };
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { path, source: Arc::new(source) },
        }
    }

    pub(crate) fn from_compression(error: CompressionError) -> Self {
        RecordBatchError::from(error).into()
    }

    pub(crate) fn bad_file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::BadFile { path: path.into().into(), reason: reason.to_string() }
    }

    /// Whether the disk itself failed, which takes the directory offline.
    #[must_use]
    pub fn is_disk_failure(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_dir::LogDir;
    use crate::storage::RealStorage;

    /// A topic of more partitions than there were descriptors took all others offline with it.
    #[test]
    fn only_a_failing_disk_takes_its_directory_offline() {
        for (number, goes_on) in
            [(libc::ENOSPC, true), (libc::EMFILE, true), (libc::ENFILE, true), (libc::EIO, false)]
        {
            let folder = tempfile::tempdir().expect("a directory");
            let dir = LogDir::open(folder.path(), Arc::new(RealStorage), 100);
            let dir = dir.expect("a log directory");
            let error = dir.failed("file", io::Error::from_raw_os_error(number));
            assert_eq!(!dir.is_offline(), goes_on, "{error}");
        }
    }
}
