//! Kafka's error codes.
//!
//! Source: `org.apache.kafka.common.protocol.Errors` of Apache Kafka 4.3: names, numbers, and which
//! are retriable.

/// What went wrong, as the wire says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum ErrorCode {
    /// `UNKNOWN_SERVER_ERROR`.
    UnknownServerError = -1,
    /// `NONE`.
    None = 0,
    /// `OFFSET_OUT_OF_RANGE`.
    OffsetOutOfRange = 1,
    /// `CORRUPT_MESSAGE`, retriable.
    CorruptMessage = 2,
    /// `UNKNOWN_TOPIC_OR_PARTITION`, retriable.
    UnknownTopicOrPartition = 3,
    /// `INVALID_FETCH_SIZE`.
    InvalidFetchSize = 4,
    /// `LEADER_NOT_AVAILABLE`, retriable.
    LeaderNotAvailable = 5,
    /// `NOT_LEADER_OR_FOLLOWER`, retriable.
    NotLeaderOrFollower = 6,
    /// `REQUEST_TIMED_OUT`, retriable.
    RequestTimedOut = 7,
    /// `BROKER_NOT_AVAILABLE`.
    BrokerNotAvailable = 8,
    /// `REPLICA_NOT_AVAILABLE`, retriable.
    ReplicaNotAvailable = 9,
    /// `MESSAGE_TOO_LARGE`.
    MessageTooLarge = 10,
    /// `STALE_CONTROLLER_EPOCH`.
    StaleControllerEpoch = 11,
    /// `OFFSET_METADATA_TOO_LARGE`.
    OffsetMetadataTooLarge = 12,
    /// `NETWORK_EXCEPTION`, retriable.
    NetworkException = 13,
    /// `COORDINATOR_LOAD_IN_PROGRESS`, retriable.
    CoordinatorLoadInProgress = 14,
    /// `COORDINATOR_NOT_AVAILABLE`, retriable.
    CoordinatorNotAvailable = 15,
    /// `NOT_COORDINATOR`, retriable.
    NotCoordinator = 16,
    /// `INVALID_TOPIC_EXCEPTION`.
    InvalidTopicException = 17,
    /// `RECORD_LIST_TOO_LARGE`.
    RecordListTooLarge = 18,
    /// `NOT_ENOUGH_REPLICAS`, retriable.
    NotEnoughReplicas = 19,
    /// `NOT_ENOUGH_REPLICAS_AFTER_APPEND`, retriable.
    NotEnoughReplicasAfterAppend = 20,
    /// `INVALID_REQUIRED_ACKS`.
    InvalidRequiredAcks = 21,
    /// `ILLEGAL_GENERATION`.
    IllegalGeneration = 22,
    /// `INCONSISTENT_GROUP_PROTOCOL`.
    InconsistentGroupProtocol = 23,
    /// `INVALID_GROUP_ID`.
    InvalidGroupId = 24,
    /// `UNKNOWN_MEMBER_ID`.
    UnknownMemberId = 25,
    /// `INVALID_SESSION_TIMEOUT`.
    InvalidSessionTimeout = 26,
    /// `REBALANCE_IN_PROGRESS`.
    RebalanceInProgress = 27,
    /// `INVALID_COMMIT_OFFSET_SIZE`.
    InvalidCommitOffsetSize = 28,
    /// `TOPIC_AUTHORIZATION_FAILED`.
    TopicAuthorizationFailed = 29,
    /// `GROUP_AUTHORIZATION_FAILED`.
    GroupAuthorizationFailed = 30,
    /// `CLUSTER_AUTHORIZATION_FAILED`.
    ClusterAuthorizationFailed = 31,
    /// `INVALID_TIMESTAMP`.
    InvalidTimestamp = 32,
    /// `UNSUPPORTED_SASL_MECHANISM`.
    UnsupportedSaslMechanism = 33,
    /// `ILLEGAL_SASL_STATE`.
    IllegalSaslState = 34,
    /// `UNSUPPORTED_VERSION`.
    UnsupportedVersion = 35,
    /// `TOPIC_ALREADY_EXISTS`.
    TopicAlreadyExists = 36,
    /// `INVALID_PARTITIONS`.
    InvalidPartitions = 37,
    /// `INVALID_REPLICATION_FACTOR`.
    InvalidReplicationFactor = 38,
    /// `INVALID_REPLICA_ASSIGNMENT`.
    InvalidReplicaAssignment = 39,
    /// `INVALID_CONFIG`.
    InvalidConfig = 40,
    /// `NOT_CONTROLLER`, retriable.
    NotController = 41,
    /// `INVALID_REQUEST`.
    InvalidRequest = 42,
    /// `UNSUPPORTED_FOR_MESSAGE_FORMAT`.
    UnsupportedForMessageFormat = 43,
    /// `POLICY_VIOLATION`.
    PolicyViolation = 44,
    /// `OUT_OF_ORDER_SEQUENCE_NUMBER`.
    OutOfOrderSequenceNumber = 45,
    /// `DUPLICATE_SEQUENCE_NUMBER`.
    DuplicateSequenceNumber = 46,
    /// `INVALID_PRODUCER_EPOCH`.
    InvalidProducerEpoch = 47,
    /// `INVALID_TXN_STATE`.
    InvalidTxnState = 48,
    /// `INVALID_PRODUCER_ID_MAPPING`.
    InvalidProducerIdMapping = 49,
    /// `INVALID_TRANSACTION_TIMEOUT`.
    InvalidTransactionTimeout = 50,
    /// `CONCURRENT_TRANSACTIONS`, retriable.
    ConcurrentTransactions = 51,
    /// `TRANSACTION_COORDINATOR_FENCED`.
    TransactionCoordinatorFenced = 52,
    /// `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`.
    TransactionalIdAuthorizationFailed = 53,
    /// `SECURITY_DISABLED`.
    SecurityDisabled = 54,
    /// `OPERATION_NOT_ATTEMPTED`.
    OperationNotAttempted = 55,
    /// `KAFKA_STORAGE_ERROR`, retriable.
    KafkaStorageError = 56,
    /// `LOG_DIR_NOT_FOUND`.
    LogDirNotFound = 57,
    /// `SASL_AUTHENTICATION_FAILED`.
    SaslAuthenticationFailed = 58,
    /// `UNKNOWN_PRODUCER_ID`.
    UnknownProducerId = 59,
    /// `REASSIGNMENT_IN_PROGRESS`.
    ReassignmentInProgress = 60,
    /// `DELEGATION_TOKEN_AUTH_DISABLED`.
    DelegationTokenAuthDisabled = 61,
    /// `DELEGATION_TOKEN_NOT_FOUND`.
    DelegationTokenNotFound = 62,
    /// `DELEGATION_TOKEN_OWNER_MISMATCH`.
    DelegationTokenOwnerMismatch = 63,
    /// `DELEGATION_TOKEN_REQUEST_NOT_ALLOWED`.
    DelegationTokenRequestNotAllowed = 64,
    /// `DELEGATION_TOKEN_AUTHORIZATION_FAILED`.
    DelegationTokenAuthorizationFailed = 65,
    /// `DELEGATION_TOKEN_EXPIRED`.
    DelegationTokenExpired = 66,
    /// `INVALID_PRINCIPAL_TYPE`.
    InvalidPrincipalType = 67,
    /// `NON_EMPTY_GROUP`.
    NonEmptyGroup = 68,
    /// `GROUP_ID_NOT_FOUND`.
    GroupIdNotFound = 69,
    /// `FETCH_SESSION_ID_NOT_FOUND`, retriable.
    FetchSessionIdNotFound = 70,
    /// `INVALID_FETCH_SESSION_EPOCH`, retriable.
    InvalidFetchSessionEpoch = 71,
    /// `LISTENER_NOT_FOUND`, retriable.
    ListenerNotFound = 72,
    /// `TOPIC_DELETION_DISABLED`.
    TopicDeletionDisabled = 73,
    /// `FENCED_LEADER_EPOCH`, retriable.
    FencedLeaderEpoch = 74,
    /// `UNKNOWN_LEADER_EPOCH`, retriable.
    UnknownLeaderEpoch = 75,
    /// `UNSUPPORTED_COMPRESSION_TYPE`.
    UnsupportedCompressionType = 76,
    /// `STALE_BROKER_EPOCH`.
    StaleBrokerEpoch = 77,
    /// `OFFSET_NOT_AVAILABLE`, retriable.
    OffsetNotAvailable = 78,
    /// `MEMBER_ID_REQUIRED`.
    MemberIdRequired = 79,
    /// `PREFERRED_LEADER_NOT_AVAILABLE`, retriable.
    PreferredLeaderNotAvailable = 80,
    /// `GROUP_MAX_SIZE_REACHED`.
    GroupMaxSizeReached = 81,
    /// `FENCED_INSTANCE_ID`.
    FencedInstanceId = 82,
    /// `ELIGIBLE_LEADERS_NOT_AVAILABLE`, retriable.
    EligibleLeadersNotAvailable = 83,
    /// `ELECTION_NOT_NEEDED`, retriable.
    ElectionNotNeeded = 84,
    /// `NO_REASSIGNMENT_IN_PROGRESS`.
    NoReassignmentInProgress = 85,
    /// `GROUP_SUBSCRIBED_TO_TOPIC`.
    GroupSubscribedToTopic = 86,
    /// `INVALID_RECORD`.
    InvalidRecord = 87,
    /// `UNSTABLE_OFFSET_COMMIT`, retriable.
    UnstableOffsetCommit = 88,
    /// `THROTTLING_QUOTA_EXCEEDED`, retriable.
    ThrottlingQuotaExceeded = 89,
    /// `PRODUCER_FENCED`.
    ProducerFenced = 90,
    /// `RESOURCE_NOT_FOUND`.
    ResourceNotFound = 91,
    /// `DUPLICATE_RESOURCE`.
    DuplicateResource = 92,
    /// `UNACCEPTABLE_CREDENTIAL`.
    UnacceptableCredential = 93,
    /// `INCONSISTENT_VOTER_SET`.
    InconsistentVoterSet = 94,
    /// `INVALID_UPDATE_VERSION`.
    InvalidUpdateVersion = 95,
    /// `FEATURE_UPDATE_FAILED`.
    FeatureUpdateFailed = 96,
    /// `PRINCIPAL_DESERIALIZATION_FAILURE`.
    PrincipalDeserializationFailure = 97,
    /// `SNAPSHOT_NOT_FOUND`.
    SnapshotNotFound = 98,
    /// `POSITION_OUT_OF_RANGE`.
    PositionOutOfRange = 99,
    /// `UNKNOWN_TOPIC_ID`, retriable.
    UnknownTopicId = 100,
    /// `DUPLICATE_BROKER_REGISTRATION`.
    DuplicateBrokerRegistration = 101,
    /// `BROKER_ID_NOT_REGISTERED`.
    BrokerIdNotRegistered = 102,
    /// `INCONSISTENT_TOPIC_ID`, retriable.
    InconsistentTopicId = 103,
    /// `INCONSISTENT_CLUSTER_ID`.
    InconsistentClusterId = 104,
    /// `TRANSACTIONAL_ID_NOT_FOUND`.
    TransactionalIdNotFound = 105,
    /// `FETCH_SESSION_TOPIC_ID_ERROR`, retriable.
    FetchSessionTopicIdError = 106,
    /// `INELIGIBLE_REPLICA`.
    IneligibleReplica = 107,
    /// `NEW_LEADER_ELECTED`.
    NewLeaderElected = 108,
    /// `OFFSET_MOVED_TO_TIERED_STORAGE`.
    OffsetMovedToTieredStorage = 109,
    /// `FENCED_MEMBER_EPOCH`.
    FencedMemberEpoch = 110,
    /// `UNRELEASED_INSTANCE_ID`.
    UnreleasedInstanceId = 111,
    /// `UNSUPPORTED_ASSIGNOR`.
    UnsupportedAssignor = 112,
    /// `STALE_MEMBER_EPOCH`.
    StaleMemberEpoch = 113,
    /// `MISMATCHED_ENDPOINT_TYPE`.
    MismatchedEndpointType = 114,
    /// `UNSUPPORTED_ENDPOINT_TYPE`.
    UnsupportedEndpointType = 115,
    /// `UNKNOWN_CONTROLLER_ID`.
    UnknownControllerId = 116,
    /// `UNKNOWN_SUBSCRIPTION_ID`.
    UnknownSubscriptionId = 117,
    /// `TELEMETRY_TOO_LARGE`.
    TelemetryTooLarge = 118,
    /// `INVALID_REGISTRATION`.
    InvalidRegistration = 119,
    /// `TRANSACTION_ABORTABLE`.
    TransactionAbortable = 120,
    /// `INVALID_RECORD_STATE`.
    InvalidRecordState = 121,
    /// `SHARE_SESSION_NOT_FOUND`, retriable.
    ShareSessionNotFound = 122,
    /// `INVALID_SHARE_SESSION_EPOCH`, retriable.
    InvalidShareSessionEpoch = 123,
    /// `FENCED_STATE_EPOCH`.
    FencedStateEpoch = 124,
    /// `INVALID_VOTER_KEY`.
    InvalidVoterKey = 125,
    /// `DUPLICATE_VOTER`.
    DuplicateVoter = 126,
    /// `VOTER_NOT_FOUND`.
    VoterNotFound = 127,
    /// `INVALID_REGULAR_EXPRESSION`.
    InvalidRegularExpression = 128,
    /// `REBOOTSTRAP_REQUIRED`.
    RebootstrapRequired = 129,
    /// `STREAMS_INVALID_TOPOLOGY`.
    StreamsInvalidTopology = 130,
    /// `STREAMS_INVALID_TOPOLOGY_EPOCH`.
    StreamsInvalidTopologyEpoch = 131,
    /// `STREAMS_TOPOLOGY_FENCED`.
    StreamsTopologyFenced = 132,
    /// `SHARE_SESSION_LIMIT_REACHED`, retriable.
    ShareSessionLimitReached = 133,
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Whether this says that nothing went wrong.
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }

    /// The error with this number; one we do not know is `UnknownServerError`.
    pub fn from_code(code: i16) -> Self {
        let index = usize::try_from(i32::from(code) + 1).unwrap_or(0);
        TABLE.get(index).map_or(Self::UnknownServerError, |(error, _, _)| *error)
    }

    /// Every error there is, by number.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(error, _, _)| *error)
    }

    /// Kafka's name, as in `UNKNOWN_TOPIC_OR_PARTITION`.
    pub fn name(self) -> &'static str {
        TABLE[(self as i16 + 1) as usize].1
    }

    /// Whether trying again can help.
    pub fn is_retriable(self) -> bool {
        TABLE[(self as i16 + 1) as usize].2
    }
}

impl From<ErrorCode> for i16 {
    fn from(error: ErrorCode) -> Self {
        error as Self
    }
}

/// By code, from -1 on without a gap: error, name, retriable.
const TABLE: &[(ErrorCode, &str, bool)] = &[
    (ErrorCode::UnknownServerError, "UNKNOWN_SERVER_ERROR", false),
    (ErrorCode::None, "NONE", false),
    (ErrorCode::OffsetOutOfRange, "OFFSET_OUT_OF_RANGE", false),
    (ErrorCode::CorruptMessage, "CORRUPT_MESSAGE", true),
    (ErrorCode::UnknownTopicOrPartition, "UNKNOWN_TOPIC_OR_PARTITION", true),
    (ErrorCode::InvalidFetchSize, "INVALID_FETCH_SIZE", false),
    (ErrorCode::LeaderNotAvailable, "LEADER_NOT_AVAILABLE", true),
    (ErrorCode::NotLeaderOrFollower, "NOT_LEADER_OR_FOLLOWER", true),
    (ErrorCode::RequestTimedOut, "REQUEST_TIMED_OUT", true),
    (ErrorCode::BrokerNotAvailable, "BROKER_NOT_AVAILABLE", false),
    (ErrorCode::ReplicaNotAvailable, "REPLICA_NOT_AVAILABLE", true),
    (ErrorCode::MessageTooLarge, "MESSAGE_TOO_LARGE", false),
    (ErrorCode::StaleControllerEpoch, "STALE_CONTROLLER_EPOCH", false),
    (ErrorCode::OffsetMetadataTooLarge, "OFFSET_METADATA_TOO_LARGE", false),
    (ErrorCode::NetworkException, "NETWORK_EXCEPTION", true),
    (ErrorCode::CoordinatorLoadInProgress, "COORDINATOR_LOAD_IN_PROGRESS", true),
    (ErrorCode::CoordinatorNotAvailable, "COORDINATOR_NOT_AVAILABLE", true),
    (ErrorCode::NotCoordinator, "NOT_COORDINATOR", true),
    (ErrorCode::InvalidTopicException, "INVALID_TOPIC_EXCEPTION", false),
    (ErrorCode::RecordListTooLarge, "RECORD_LIST_TOO_LARGE", false),
    (ErrorCode::NotEnoughReplicas, "NOT_ENOUGH_REPLICAS", true),
    (ErrorCode::NotEnoughReplicasAfterAppend, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", true),
    (ErrorCode::InvalidRequiredAcks, "INVALID_REQUIRED_ACKS", false),
    (ErrorCode::IllegalGeneration, "ILLEGAL_GENERATION", false),
    (ErrorCode::InconsistentGroupProtocol, "INCONSISTENT_GROUP_PROTOCOL", false),
    (ErrorCode::InvalidGroupId, "INVALID_GROUP_ID", false),
    (ErrorCode::UnknownMemberId, "UNKNOWN_MEMBER_ID", false),
    (ErrorCode::InvalidSessionTimeout, "INVALID_SESSION_TIMEOUT", false),
    (ErrorCode::RebalanceInProgress, "REBALANCE_IN_PROGRESS", false),
    (ErrorCode::InvalidCommitOffsetSize, "INVALID_COMMIT_OFFSET_SIZE", false),
    (ErrorCode::TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED", false),
    (ErrorCode::GroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED", false),
    (ErrorCode::ClusterAuthorizationFailed, "CLUSTER_AUTHORIZATION_FAILED", false),
    (ErrorCode::InvalidTimestamp, "INVALID_TIMESTAMP", false),
    (ErrorCode::UnsupportedSaslMechanism, "UNSUPPORTED_SASL_MECHANISM", false),
    (ErrorCode::IllegalSaslState, "ILLEGAL_SASL_STATE", false),
    (ErrorCode::UnsupportedVersion, "UNSUPPORTED_VERSION", false),
    (ErrorCode::TopicAlreadyExists, "TOPIC_ALREADY_EXISTS", false),
    (ErrorCode::InvalidPartitions, "INVALID_PARTITIONS", false),
    (ErrorCode::InvalidReplicationFactor, "INVALID_REPLICATION_FACTOR", false),
    (ErrorCode::InvalidReplicaAssignment, "INVALID_REPLICA_ASSIGNMENT", false),
    (ErrorCode::InvalidConfig, "INVALID_CONFIG", false),
    (ErrorCode::NotController, "NOT_CONTROLLER", true),
    (ErrorCode::InvalidRequest, "INVALID_REQUEST", false),
    (ErrorCode::UnsupportedForMessageFormat, "UNSUPPORTED_FOR_MESSAGE_FORMAT", false),
    (ErrorCode::PolicyViolation, "POLICY_VIOLATION", false),
    (ErrorCode::OutOfOrderSequenceNumber, "OUT_OF_ORDER_SEQUENCE_NUMBER", false),
    (ErrorCode::DuplicateSequenceNumber, "DUPLICATE_SEQUENCE_NUMBER", false),
    (ErrorCode::InvalidProducerEpoch, "INVALID_PRODUCER_EPOCH", false),
    (ErrorCode::InvalidTxnState, "INVALID_TXN_STATE", false),
    (ErrorCode::InvalidProducerIdMapping, "INVALID_PRODUCER_ID_MAPPING", false),
    (ErrorCode::InvalidTransactionTimeout, "INVALID_TRANSACTION_TIMEOUT", false),
    (ErrorCode::ConcurrentTransactions, "CONCURRENT_TRANSACTIONS", true),
    (ErrorCode::TransactionCoordinatorFenced, "TRANSACTION_COORDINATOR_FENCED", false),
    (ErrorCode::TransactionalIdAuthorizationFailed, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false),
    (ErrorCode::SecurityDisabled, "SECURITY_DISABLED", false),
    (ErrorCode::OperationNotAttempted, "OPERATION_NOT_ATTEMPTED", false),
    (ErrorCode::KafkaStorageError, "KAFKA_STORAGE_ERROR", true),
    (ErrorCode::LogDirNotFound, "LOG_DIR_NOT_FOUND", false),
    (ErrorCode::SaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED", false),
    (ErrorCode::UnknownProducerId, "UNKNOWN_PRODUCER_ID", false),
    (ErrorCode::ReassignmentInProgress, "REASSIGNMENT_IN_PROGRESS", false),
    (ErrorCode::DelegationTokenAuthDisabled, "DELEGATION_TOKEN_AUTH_DISABLED", false),
    (ErrorCode::DelegationTokenNotFound, "DELEGATION_TOKEN_NOT_FOUND", false),
    (ErrorCode::DelegationTokenOwnerMismatch, "DELEGATION_TOKEN_OWNER_MISMATCH", false),
    (ErrorCode::DelegationTokenRequestNotAllowed, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", false),
    (ErrorCode::DelegationTokenAuthorizationFailed, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", false),
    (ErrorCode::DelegationTokenExpired, "DELEGATION_TOKEN_EXPIRED", false),
    (ErrorCode::InvalidPrincipalType, "INVALID_PRINCIPAL_TYPE", false),
    (ErrorCode::NonEmptyGroup, "NON_EMPTY_GROUP", false),
    (ErrorCode::GroupIdNotFound, "GROUP_ID_NOT_FOUND", false),
    (ErrorCode::FetchSessionIdNotFound, "FETCH_SESSION_ID_NOT_FOUND", true),
    (ErrorCode::InvalidFetchSessionEpoch, "INVALID_FETCH_SESSION_EPOCH", true),
    (ErrorCode::ListenerNotFound, "LISTENER_NOT_FOUND", true),
    (ErrorCode::TopicDeletionDisabled, "TOPIC_DELETION_DISABLED", false),
    (ErrorCode::FencedLeaderEpoch, "FENCED_LEADER_EPOCH", true),
    (ErrorCode::UnknownLeaderEpoch, "UNKNOWN_LEADER_EPOCH", true),
    (ErrorCode::UnsupportedCompressionType, "UNSUPPORTED_COMPRESSION_TYPE", false),
    (ErrorCode::StaleBrokerEpoch, "STALE_BROKER_EPOCH", false),
    (ErrorCode::OffsetNotAvailable, "OFFSET_NOT_AVAILABLE", true),
    (ErrorCode::MemberIdRequired, "MEMBER_ID_REQUIRED", false),
    (ErrorCode::PreferredLeaderNotAvailable, "PREFERRED_LEADER_NOT_AVAILABLE", true),
    (ErrorCode::GroupMaxSizeReached, "GROUP_MAX_SIZE_REACHED", false),
    (ErrorCode::FencedInstanceId, "FENCED_INSTANCE_ID", false),
    (ErrorCode::EligibleLeadersNotAvailable, "ELIGIBLE_LEADERS_NOT_AVAILABLE", true),
    (ErrorCode::ElectionNotNeeded, "ELECTION_NOT_NEEDED", true),
    (ErrorCode::NoReassignmentInProgress, "NO_REASSIGNMENT_IN_PROGRESS", false),
    (ErrorCode::GroupSubscribedToTopic, "GROUP_SUBSCRIBED_TO_TOPIC", false),
    (ErrorCode::InvalidRecord, "INVALID_RECORD", false),
    (ErrorCode::UnstableOffsetCommit, "UNSTABLE_OFFSET_COMMIT", true),
    (ErrorCode::ThrottlingQuotaExceeded, "THROTTLING_QUOTA_EXCEEDED", true),
    (ErrorCode::ProducerFenced, "PRODUCER_FENCED", false),
    (ErrorCode::ResourceNotFound, "RESOURCE_NOT_FOUND", false),
    (ErrorCode::DuplicateResource, "DUPLICATE_RESOURCE", false),
    (ErrorCode::UnacceptableCredential, "UNACCEPTABLE_CREDENTIAL", false),
    (ErrorCode::InconsistentVoterSet, "INCONSISTENT_VOTER_SET", false),
    (ErrorCode::InvalidUpdateVersion, "INVALID_UPDATE_VERSION", false),
    (ErrorCode::FeatureUpdateFailed, "FEATURE_UPDATE_FAILED", false),
    (ErrorCode::PrincipalDeserializationFailure, "PRINCIPAL_DESERIALIZATION_FAILURE", false),
    (ErrorCode::SnapshotNotFound, "SNAPSHOT_NOT_FOUND", false),
    (ErrorCode::PositionOutOfRange, "POSITION_OUT_OF_RANGE", false),
    (ErrorCode::UnknownTopicId, "UNKNOWN_TOPIC_ID", true),
    (ErrorCode::DuplicateBrokerRegistration, "DUPLICATE_BROKER_REGISTRATION", false),
    (ErrorCode::BrokerIdNotRegistered, "BROKER_ID_NOT_REGISTERED", false),
    (ErrorCode::InconsistentTopicId, "INCONSISTENT_TOPIC_ID", true),
    (ErrorCode::InconsistentClusterId, "INCONSISTENT_CLUSTER_ID", false),
    (ErrorCode::TransactionalIdNotFound, "TRANSACTIONAL_ID_NOT_FOUND", false),
    (ErrorCode::FetchSessionTopicIdError, "FETCH_SESSION_TOPIC_ID_ERROR", true),
    (ErrorCode::IneligibleReplica, "INELIGIBLE_REPLICA", false),
    (ErrorCode::NewLeaderElected, "NEW_LEADER_ELECTED", false),
    (ErrorCode::OffsetMovedToTieredStorage, "OFFSET_MOVED_TO_TIERED_STORAGE", false),
    (ErrorCode::FencedMemberEpoch, "FENCED_MEMBER_EPOCH", false),
    (ErrorCode::UnreleasedInstanceId, "UNRELEASED_INSTANCE_ID", false),
    (ErrorCode::UnsupportedAssignor, "UNSUPPORTED_ASSIGNOR", false),
    (ErrorCode::StaleMemberEpoch, "STALE_MEMBER_EPOCH", false),
    (ErrorCode::MismatchedEndpointType, "MISMATCHED_ENDPOINT_TYPE", false),
    (ErrorCode::UnsupportedEndpointType, "UNSUPPORTED_ENDPOINT_TYPE", false),
    (ErrorCode::UnknownControllerId, "UNKNOWN_CONTROLLER_ID", false),
    (ErrorCode::UnknownSubscriptionId, "UNKNOWN_SUBSCRIPTION_ID", false),
    (ErrorCode::TelemetryTooLarge, "TELEMETRY_TOO_LARGE", false),
    (ErrorCode::InvalidRegistration, "INVALID_REGISTRATION", false),
    (ErrorCode::TransactionAbortable, "TRANSACTION_ABORTABLE", false),
    (ErrorCode::InvalidRecordState, "INVALID_RECORD_STATE", false),
    (ErrorCode::ShareSessionNotFound, "SHARE_SESSION_NOT_FOUND", true),
    (ErrorCode::InvalidShareSessionEpoch, "INVALID_SHARE_SESSION_EPOCH", true),
    (ErrorCode::FencedStateEpoch, "FENCED_STATE_EPOCH", false),
    (ErrorCode::InvalidVoterKey, "INVALID_VOTER_KEY", false),
    (ErrorCode::DuplicateVoter, "DUPLICATE_VOTER", false),
    (ErrorCode::VoterNotFound, "VOTER_NOT_FOUND", false),
    (ErrorCode::InvalidRegularExpression, "INVALID_REGULAR_EXPRESSION", false),
    (ErrorCode::RebootstrapRequired, "REBOOTSTRAP_REQUIRED", false),
    (ErrorCode::StreamsInvalidTopology, "STREAMS_INVALID_TOPOLOGY", false),
    (ErrorCode::StreamsInvalidTopologyEpoch, "STREAMS_INVALID_TOPOLOGY_EPOCH", false),
    (ErrorCode::StreamsTopologyFenced, "STREAMS_TOPOLOGY_FENCED", false),
    (ErrorCode::ShareSessionLimitReached, "SHARE_SESSION_LIMIT_REACHED", true),
];

#[cfg(test)]
mod tests;
