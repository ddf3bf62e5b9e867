//! What can go wrong between a client and its cluster.
//!
//! Every error's text begins with a name in capitals, Kafka's own if it has one. So readers who
//! know Kafka know the error, and logs can be searched for it.

use kafkalite_connection::ConnectionError;
use kafkalite_protocol::ErrorCode;

/// Why an operation of a client failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No address of the cluster answered.
    #[error("NO_BROKER_REACHABLE: cannot reach any broker{}", lines(causes))]
    NoBrokerReachable {
        /// Each address that was tried, and what happened there.
        causes: Vec<(String, String)>,
        /// How long it was tried, in milliseconds.
        after_ms: u64,
    },
    /// A broker answered, and refused.
    #[error("{}: {about}{}", code.name(), after_colon(message))]
    Broker {
        /// Kafka's code.
        code: ErrorCode,
        /// The broker's own words, where it sent some.
        message: Option<String>,
        /// What was asked, and of whom.
        about: String,
    },
    /// The time for it was over.
    #[error("REQUEST_TIMED_OUT: {what} took longer than {after_ms} ms")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long, in milliseconds.
        after_ms: u64,
    },
    /// A record was not acknowledged within `delivery.timeout.ms`.
    #[error(
        "REQUEST_TIMED_OUT: {topic} [{partition}] did not acknowledge a record within \
         {after_ms} ms{}",
        after_colon(last)
    )]
    DeliveryTimeout {
        /// The record's topic.
        topic: String,
        /// The record's partition.
        partition: i32,
        /// Since it was sent, in milliseconds.
        after_ms: u64,
        /// What the last try failed with.
        last: Option<String>,
    },
    /// The connection ended while something was on its way.
    #[error("NETWORK_EXCEPTION: {address}: {why}")]
    Disconnected {
        /// The broker's address.
        address: String,
        /// Who ended it, and why.
        why: String,
    },
    /// A broker sent what Kafka's protocol does not allow.
    #[error("MALFORMED_RESPONSE: {address}: {why}")]
    MalformedResponse {
        /// The broker's address.
        address: String,
        /// What was wrong with it.
        why: String,
    },
    /// The broker speaks no version of an API that this client speaks.
    #[error("UNSUPPORTED_VERSION: {address} does not serve {api} in {needed}{}", has(served))]
    UnsupportedVersion {
        /// The broker's address.
        address: String,
        /// Kafka's name of the API.
        api: &'static str,
        /// The versions this client speaks.
        needed: String,
        /// The versions the broker speaks, if any.
        served: Option<String>,
    },
    /// A configuration that cannot be.
    #[error("INVALID_CONFIG: {key}: {why}")]
    Config {
        /// The key, with dots.
        key: String,
        /// What is wrong with it or its value.
        why: String,
        /// What would be right.
        hint: Option<String>,
    },
    /// An argument that cannot be.
    #[error("INVALID_REQUEST: {what}: {why}")]
    InvalidArgument {
        /// Its name.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The topic has no such partition, as brokers told just now.
    #[error(
        "UNKNOWN_TOPIC_OR_PARTITION: {topic} has {count} partition{}, there is no {partition}",
        if *count == 1 { "" } else { "s" }
    )]
    NoPartition {
        /// The topic.
        topic: String,
        /// How many it has; they are counted from 0.
        count: usize,
        /// The one that was named.
        partition: i32,
    },
    /// The producer's memory stayed full for `max.block.ms`.
    #[error("BUFFER_FULL: {needed} bytes found no room in buffer.memory within {after_ms} ms")]
    BufferFull {
        /// Bytes the record takes.
        needed: usize,
        /// How long was waited for room, in milliseconds.
        after_ms: u64,
    },
    /// A record is larger than a limit allows.
    #[error("MESSAGE_TOO_LARGE: a record of {size} bytes, {limit_key} is {limit}")]
    MessageTooLarge {
        /// Bytes the record takes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
        /// The key that sets it.
        limit_key: &'static str,
    },
    /// Partitions have no committed offset, and `auto.offset.reset` is `none`.
    #[error(
        "NO_OFFSET: no committed offset for {}, and auto.offset.reset is none",
        partitions.join(", ")
    )]
    NoOffset {
        /// Topic and number of each.
        partitions: Vec<String>,
    },
    /// A fetched record batch that cannot be read.
    #[error("CORRUPT_MESSAGE: the batch of {partition} at offset {offset} cannot be read: {why}")]
    CorruptBatch {
        /// Topic and number.
        partition: String,
        /// Where the batch begins.
        offset: i64,
        /// What is wrong with it.
        why: String,
    },
    /// The client was closed.
    #[error("CLIENT_CLOSED: {what} is closed")]
    Closed {
        /// Which client.
        what: String,
    },
    /// The client was made in another process.
    #[error("CLIENT_FORKED: this client was made before a fork; its thread lives in the parent")]
    Forked,
    /// What was called is not possible now.
    #[error("ILLEGAL_STATE: {why}")]
    IllegalState {
        /// Why it is not.
        why: String,
    },
    /// The system refused a resource: a thread, a socket, randomness.
    #[error("RESOURCE_UNAVAILABLE: {what}: {why}")]
    Resource {
        /// What was asked for.
        what: String,
        /// The system's words.
        why: String,
    },
}

fn lines(causes: &[(String, String)]) -> String {
    causes.iter().map(|(address, cause)| format!("\n  {address}  {cause}")).collect()
}

fn after_colon(text: &Option<String>) -> String {
    text.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}

fn has(served: &Option<String>) -> String {
    served.as_ref().map(|versions| format!(", it serves {versions}")).unwrap_or_default()
}

/// The errors of connections, in the words of a client's keys.
impl From<ConnectionError> for ClientError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::NoBrokerReachable { causes, after_ms } => {
                Self::NoBrokerReachable { causes, after_ms }
            }
            ConnectionError::Refused { code, message, about } => {
                Self::Broker { code, message, about }
            }
            ConnectionError::Timeout { what, after_ms } => Self::Timeout { what, after_ms },
            ConnectionError::Disconnected { address, why } => Self::Disconnected { address, why },
            ConnectionError::MalformedResponse { address, why } => {
                Self::MalformedResponse { address, why }
            }
            ConnectionError::ResponseTooLarge { address, size, limit } => {
                let why =
                    format!("a response of {size} bytes, kafkalite.response.max.bytes is {limit}");
                Self::MalformedResponse { address, why }
            }
            ConnectionError::UnsupportedVersion { address, api, needed, served } => {
                Self::UnsupportedVersion { address, api, needed, served }
            }
        }
    }
}

impl ClientError {
    /// A refusal with `code`; `about` says what was asked.
    pub fn broker(code: ErrorCode, about: impl Into<String>) -> Self {
        Self::Broker { code, message: None, about: about.into() }
    }

    /// The same with the broker's own words; empty ones are left out.
    pub fn refused(code: ErrorCode, message: Option<String>, about: impl Into<String>) -> Self {
        Self::Broker { code, message: message.filter(|text| !text.is_empty()), about: about.into() }
    }

    /// An answer that says nothing of something that was asked for. Kafka's clients ask again.
    pub fn left_out(address: impl Into<String>, what: impl std::fmt::Display) -> Self {
        let why = format!("the answer says nothing of {what}");
        Self::MalformedResponse { address: address.into(), why }
    }

    /// `Ok` for code 0, else a refusal.
    pub fn check(
        code: i16,
        message: Option<&str>,
        about: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if code == 0 {
            return Ok(());
        }
        Err(Self::refused(ErrorCode::from_code(code), message.map(str::to_owned), about()))
    }

    /// Kafka's code for it, where Kafka has one.
    pub fn code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::Broker { code, .. } => *code,
            Self::NoBrokerReachable { .. } => ErrorCode::BrokerNotAvailable,
            Self::Timeout { .. } | Self::DeliveryTimeout { .. } => ErrorCode::RequestTimedOut,
            Self::Disconnected { .. } => ErrorCode::NetworkException,
            Self::UnsupportedVersion { .. } => ErrorCode::UnsupportedVersion,
            Self::Config { .. } => ErrorCode::InvalidConfig,
            Self::InvalidArgument { .. } => ErrorCode::InvalidRequest,
            Self::NoPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::MessageTooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::CorruptBatch { .. } => ErrorCode::CorruptMessage,
            Self::NoOffset { .. }
            | Self::MalformedResponse { .. }
            | Self::BufferFull { .. }
            | Self::Closed { .. }
            | Self::Forked
            | Self::IllegalState { .. }
            | Self::Resource { .. } => return None,
        })
    }

    /// Whether the same call can succeed later without a change of the program.
    pub fn retriable(&self) -> bool {
        match self {
            // Kafka's tools give up on it; a client waits for the broker to come back.
            Self::Broker { code: ErrorCode::BrokerNotAvailable, .. } => true,
            Self::Broker { code, .. } => code.is_retriable(),
            Self::NoBrokerReachable { .. }
            | Self::Timeout { .. }
            | Self::DeliveryTimeout { .. }
            | Self::Disconnected { .. }
            | Self::BufferFull { .. }
            | Self::Resource { .. } => true,
            Self::MalformedResponse { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Config { .. }
            | Self::InvalidArgument { .. }
            | Self::NoPartition { .. }
            | Self::MessageTooLarge { .. }
            | Self::NoOffset { .. }
            | Self::CorruptBatch { .. }
            | Self::Closed { .. }
            | Self::Forked
            | Self::IllegalState { .. } => false,
        }
    }

    /// Whether this client can do no more: only a new one helps.
    pub fn fatal(&self) -> bool {
        match self {
            Self::Broker { code, .. } => matches!(
                code,
                ErrorCode::ProducerFenced
                    | ErrorCode::InvalidProducerEpoch
                    | ErrorCode::InvalidProducerIdMapping
                    | ErrorCode::TransactionCoordinatorFenced
                    | ErrorCode::TransactionalIdAuthorizationFailed
                    | ErrorCode::ClusterAuthorizationFailed
                    | ErrorCode::FencedInstanceId
                    | ErrorCode::SaslAuthenticationFailed
                    | ErrorCode::UnsupportedSaslMechanism
            ),
            Self::Closed { .. } | Self::Forked => true,
            _ => false,
        }
    }

    /// Whether the way to the broker failed, not what was asked of it: another connection, to the
    /// same or to another broker, may do.
    pub fn is_transport(&self) -> bool {
        matches!(
            self,
            Self::Disconnected { .. } | Self::Timeout { .. } | Self::MalformedResponse { .. }
        )
    }

    /// What to do about it, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoBrokerReachable { causes, .. } => {
                let all_refused = causes.iter().all(|(_, why)| why.contains("refused"));
                let what =
                    if all_refused { "nothing listens there" } else { "check the addresses" };
                let first = causes.first().map_or("HOST:PORT", |(address, _)| address);
                Some(format!(
                    "{what}. Start one with `kafkalite dev`, or run `kafkalite doctor {first}`."
                ))
            }
            Self::Config { hint, .. } => hint.clone(),
            Self::Broker { code, .. } => broker_hint(*code).map(str::to_owned),
            Self::NoPartition { topic, partition, .. } => Some(format!(
                "partitions are counted from 0; for more of them: `kafkalite topics \
                 add-partitions {topic} {}`.",
                i64::from(*partition) + 1
            )),
            Self::BufferFull { .. } => Some(
                "the brokers take less than is sent: raise buffer.memory or max.block.ms, or wait \
                 for deliveries."
                    .to_owned(),
            ),
            Self::MessageTooLarge { limit_key, .. } => Some(format!("raise {limit_key}.")),
            Self::NoOffset { .. } => {
                Some("seek first, commit an offset, or set auto.offset.reset.".to_owned())
            }
            Self::CorruptBatch { offset, .. } => {
                Some(format!("seek behind offset {offset} to go on without it."))
            }
            Self::Forked => {
                Some("make the client after the fork, in the process that uses it.".to_owned())
            }
            _ => None,
        }
    }
}

fn broker_hint(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::UnknownTopicOrPartition => {
            "create the topic first, or let the broker create it: auto.create.topics.enable=true."
        }
        ErrorCode::InvalidTopicException => {
            "a topic's name is 1 to 249 of a-z, A-Z, 0-9, `.`, `_` and `-`, and not `.` or `..`."
        }
        ErrorCode::TopicAlreadyExists => "pass exist_ok=True if that is fine.",
        ErrorCode::InvalidReplicationFactor => {
            "a partition has at most one replica on each broker; -1 takes the broker's default."
        }
        ErrorCode::OffsetOutOfRange => {
            "seek to an offset that is there, or set auto.offset.reset to go to either end."
        }
        ErrorCode::InvalidSessionTimeout => {
            "session.timeout.ms must lie between the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms."
        }
        ErrorCode::NonEmptyGroup => "stop the group's consumers first.",
        ErrorCode::MessageTooLarge => "raise the topic's max.message.bytes.",
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "fewer replicas are in sync than min.insync.replicas asks for."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
