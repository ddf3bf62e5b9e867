//! From what went wrong to what the wire says: the one place where log errors become Kafka's error
//! codes.

use kafkalite_log::validation::ValidationError;
use kafkalite_log::{LogError, Role};
use kafkalite_protocol::{ApiKey, DecodeError, ErrorCode, LeaderEpoch, Offset};

pub mod panics;

/// Why a request ends with its connection.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The body is not what its version says.
    #[error("{} v{version} does not parse: {source}", api.name())]
    Malformed {
        /// The API.
        api: ApiKey,
        /// Its version.
        version: i16,
        /// What is wrong with the bytes.
        source: DecodeError,
    },
    /// A key or version that is not served.
    #[error("API key {api_key} version {api_version} is not served")]
    Unsupported {
        /// As it stood in the header.
        api_key: i16,
        /// As it stood in the header.
        api_version: i16,
    },
}

/// Why a batch was not appended, as its partition's answer says it.
#[derive(Debug)]
pub struct AppendRefusal {
    /// Kafka's error.
    pub code: ErrorCode,
    /// What is wrong, in words; Produce v8 and later carry it.
    pub message: Option<String>,
    /// Index in the batch and message of each bad record.
    pub record_errors: Vec<(i32, String)>,
    /// Whom to ask instead: leader and epoch (KIP-951).
    pub current_leader: Option<(i32, i32)>,
    /// Where the log starts, if it was the log that refused.
    pub log_start_offset: Option<Offset>,
}

impl AppendRefusal {
    /// A refusal with words.
    pub fn new(code: ErrorCode, message: String) -> Self {
        Self { message: Some(message), ..Self::from(code) }
    }

    /// What a log that starts at `log_start_offset` refused.
    ///
    /// Kafka sends the log start, except with the errors that its `ReplicaManager` counts as known.
    /// Clients take the log start as a sign that a producer's records were deleted (KIP-360).
    #[must_use]
    pub fn by_log(self, log_start_offset: Offset) -> Self {
        let known = matches!(
            self.code,
            ErrorCode::UnknownTopicOrPartition
                | ErrorCode::NotLeaderOrFollower
                | ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::CorruptMessage
                | ErrorCode::KafkaStorageError
                | ErrorCode::UnsupportedCompressionType
        );
        Self { log_start_offset: (!known).then_some(log_start_offset), ..self }
    }

    /// Another broker leads.
    #[must_use]
    pub fn not_leader(leader: i32, epoch: LeaderEpoch) -> Self {
        let current_leader = Some((leader, epoch.0));
        Self { current_leader, ..Self::from(ErrorCode::NotLeaderOrFollower) }
    }
}

impl From<ErrorCode> for AppendRefusal {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            record_errors: Vec::new(),
            current_leader: None,
            log_start_offset: None,
        }
    }
}

impl From<LogError> for AppendRefusal {
    fn from(error: LogError) -> Self {
        Self::new(log_error_code(&error), error.to_string())
    }
}

impl From<ValidationError> for AppendRefusal {
    fn from(error: ValidationError) -> Self {
        let code = match &error {
            ValidationError::CorruptMessage { .. } => ErrorCode::CorruptMessage,
            ValidationError::InvalidRecord { .. } | ValidationError::NotOneBatch { .. } => {
                ErrorCode::InvalidRecord
            }
            ValidationError::InvalidTimestamp { .. } => ErrorCode::InvalidTimestamp,
            ValidationError::MessageTooLarge { .. } => ErrorCode::MessageTooLarge,
            ValidationError::UnsupportedCompressionType { .. } => {
                ErrorCode::UnsupportedCompressionType
            }
            ValidationError::UnsupportedForMessageFormat { .. } => {
                ErrorCode::UnsupportedForMessageFormat
            }
        };
        let message = error.to_string();
        let record_errors = match error {
            ValidationError::InvalidRecord { record_errors, .. }
            | ValidationError::InvalidTimestamp { record_errors, .. } => record_errors,
            _ => Vec::new(),
        };
        let pairs = record_errors.into_iter().map(|record| (record.batch_index, record.message));
        Self { record_errors: pairs.collect(), ..Self::new(code, message) }
    }
}

/// Kafka's error for a failure of the commit log.
#[must_use]
pub fn log_error_code(error: &LogError) -> ErrorCode {
    match error {
        LogError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        LogError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        LogError::BatchLargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
        LogError::WrongRole { role: Role::Gone, .. } => ErrorCode::UnknownTopicOrPartition,
        LogError::StaleLeaderEpoch { .. } | LogError::WrongRole { .. } => {
            ErrorCode::NotLeaderOrFollower
        }
        LogError::Batch(_) | LogError::NotContiguous { .. } => ErrorCode::CorruptMessage,
        LogError::DiskFull { .. }
        | LogError::OutOfDescriptors { .. }
        | LogError::Io { .. }
        | LogError::Offline { .. }
        | LogError::Closed { .. }
        | LogError::Locked { .. }
        | LogError::BadFile { .. } => ErrorCode::KafkaStorageError,
    }
}
