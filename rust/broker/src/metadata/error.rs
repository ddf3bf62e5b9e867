//! What the control plane refuses, and what stops it.

use super::features::LevelRange;
use kafkalite_protocol::ErrorCode;
use std::path::PathBuf;

/// A refusal as the wire says it: a code, and words for the human behind the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// The words; `None` lets the client print the code's own.
    pub message: Option<String>,
}

impl ApiError {
    /// A refusal with words.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// Why metadata cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's own error.
        source: std::io::Error,
    },
    /// Bytes below the committed end are not what was written.
    #[error("{} is damaged at byte {position}: {reason}", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where the damaged frame begins.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file was written by a newer kafkalite.
    #[error("{} has format {found}, this kafkalite reads up to {supported}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u8,
        /// The newest format that is understood here.
        supported: u8,
    },
    /// A record of a kind that this kafkalite does not have: a newer one wrote it.
    #[error(
        "the record at offset {offset} of {} has the type {record_type}, which this kafkalite does \
         not know: a newer release wrote it",
        path.display()
    )]
    UnknownRecord {
        /// The file.
        path: PathBuf,
        /// The record's offset.
        offset: i64,
        /// The number of its type.
        record_type: u16,
    },
    /// A record in a version that this kafkalite does not read: a newer one wrote it.
    #[error(
        "the record at offset {offset} of {} (type {record_type}) has version {version}, this \
         kafkalite reads up to {supported}: a newer release wrote it",
        path.display()
    )]
    NewerRecord {
        /// The file.
        path: PathBuf,
        /// The record's offset.
        offset: i64,
        /// The number of its type.
        record_type: u16,
        /// The version that was found.
        version: i16,
        /// The newest one that is understood here.
        supported: i16,
    },
    /// The metadata log belongs to another cluster than the data directory.
    #[error("the metadata log is of cluster {found}, the data directory of cluster {expected}")]
    ClusterId {
        /// The cluster id of `meta.properties`.
        expected: String,
        /// The cluster id in the metadata log.
        found: String,
    },
    /// A record does not fit the image it is applied to.
    #[error("record at offset {offset} does not fit: {reason}")]
    Replay {
        /// The record's offset.
        offset: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// A broker is too old, or too new, for its cluster.
    #[error(
        "broker {broker_id} does not support the finalized level {level} of {feature}, only \
         {}: it needs another release of kafkalite",
        supported(*range)
    )]
    Feature {
        /// The broker.
        broker_id: i32,
        /// The feature that it does not support.
        feature: String,
        /// The level that counts in the cluster.
        level: i16,
        /// The levels that the broker supports.
        range: LevelRange,
    },
    /// The cluster does not take this broker in: see [`Self::Feature`].
    #[error("the cluster does not register this broker: {why}")]
    Unsupported {
        /// Its words.
        why: String,
    },
    /// The level of the cluster's records has no such record.
    #[error(
        "a record needs a higher level of kafkalite.record.version than {level}; raise it when \
         all brokers run the new release: kafka-features upgrade"
    )]
    RecordVersion {
        /// The finalized level.
        level: i16,
    },
    /// Another change was committed since this one was decided upon.
    #[error("the change was decided at offset {expected}, the log is at {found} by now")]
    Overtaken {
        /// The last offset of the image that it was decided upon.
        expected: i64,
        /// The last offset of the log.
        found: i64,
    },
    /// No broker leads the controller quorum, or none that this one reaches.
    #[error("no controller was found: {reason}")]
    NoController {
        /// What was seen.
        reason: String,
    },
    /// The cluster did not take this broker in.
    #[error(
        "the cluster did not register this broker within {timeout_ms} ms \
         (initial.broker.registration.timeout.ms): {why}; most of its voters must run"
    )]
    NotRegistered {
        /// How long it was tried.
        timeout_ms: u64,
        /// What was heard last.
        why: String,
    },
    /// Another broker's records do not fit, or the quorum refuses them.
    #[error("the controller refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The log of the controller quorum cannot be used.
    #[error("the controller quorum cannot be used: {0}")]
    Quorum(#[from] kafkalite_quorum::QuorumError),
    /// An earlier write or fsync failed; nothing is written any more until the broker is started
    /// again.
    #[error("the metadata log is offline since an earlier failure: {reason}")]
    Offline {
        /// The earlier failure.
        reason: String,
    },
}

/// The levels that a broker supports, in words.
fn supported(range: LevelRange) -> String {
    match range.max {
        0 => "no level of it".to_owned(),
        _ => format!("the levels {range}"),
    }
}

impl From<MetadataError> for ApiError {
    /// To a client every failure of the metadata log is a storage error, which it may try again.
    fn from(error: MetadataError) -> Self {
        let code = match error {
            MetadataError::NoController { .. } => ErrorCode::NotController,
            MetadataError::Feature { .. }
            | MetadataError::Unsupported { .. }
            | MetadataError::RecordVersion { .. } => ErrorCode::UnsupportedVersion,
            _ => ErrorCode::KafkaStorageError,
        };
        Self::new(code, error.to_string())
    }
}
