//! From Rust's errors to Python's exceptions: the only mapping there is.
//!
//! The exceptions are classes of `kafkalite.errors`; the module is imported when the first of them
//! is needed, so that a broker starts without it.

use ErrorCode as E;
use kafkalite_broker::process::Failure;
use kafkalite_client::{ClientError, ErrorCode};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

/// The exception for `failure`: its text, and its hint as the attribute `hint`.
pub fn start_error(py: Python<'_>, failure: &Failure) -> PyErr {
    let why = failure.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let attributes = PyDict::new(py);
    let made = attributes.set_item("hint", hint(failure)).and_then(|()| {
        make(py, "BrokerStartError", &format!("{}{why}", failure.what), &attributes)
    });
    made.map_or_else(|other| other, PyErr::from_value)
}

/// The hint, if there is one.
fn hint(failure: &Failure) -> Option<&str> {
    Some(failure.hint.as_str()).filter(|hint| !hint.is_empty())
}

/// The exception for a tool's `failure`: its text, and what a command makes of it as attributes:
/// `what`, `why`, `hint` and `exit_code`.
pub fn refused(py: Python<'_>, failure: &Failure) -> PyErr {
    let why = failure.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let attributes = PyDict::new(py);
    let made = attributes.set_item("hint", hint(failure)).and_then(|()| {
        let text = format!("{}{why}", failure.what);
        let error = make(py, "KafkaliteError", &text, &attributes)?;
        error.setattr("what", &failure.what)?;
        error.setattr("why", &failure.why)?;
        error.setattr("exit_code", failure.exit_code)?;
        Ok(error)
    });
    made.map_or_else(|other| other, PyErr::from_value)
}

/// The exception for `error`, to be raised.
pub fn client_error(py: Python<'_>, error: &ClientError) -> PyErr {
    client_exception(py, error).map_or_else(|other| other, PyErr::from_value)
}

/// The exception for `error`, as a value.
pub fn client_exception<'py>(py: Python<'py>, error: &ClientError) -> PyResult<Bound<'py, PyAny>> {
    let attributes = PyDict::new(py);
    attributes.set_item("code", error.code().map(ErrorCode::code))?;
    attributes.set_item("retriable", error.retriable())?;
    attributes.set_item("fatal", error.fatal())?;
    attributes.set_item("hint", error.hint())?;
    if let ClientError::NoBrokerReachable { causes, .. } = error {
        let by_address = PyDict::new(py);
        for (address, cause) in causes {
            by_address.set_item(address, cause)?;
        }
        attributes.set_item("causes", by_address)?;
    }
    make(py, class_of(error), &error.to_string(), &attributes)
}

/// A key or a value that its deserializer could not read; `cause` is what that raised. What ends
/// a program or a task is not the deserializer's, and stays as it is.
pub fn deserialization_error(
    py: Python<'_>,
    what: &str,
    (topic, number): (&Py<PyString>, i32),
    offset: i64,
    cause: PyErr,
) -> PyErr {
    if ends_something(py, &cause) {
        return cause;
    }
    let topic_name = topic.bind(py).to_string_lossy();
    let of = format!("of {topic_name}-{number} at offset {offset}");
    let hint = format!("it is not passed over: seek behind offset {offset} to go on without it.");
    let error = no_serialization(py, &format!("the {what} {of}"), Some(hint), cause);
    let placed = || -> PyResult<()> {
        let class = py.import("kafkalite.records")?.getattr("TopicPartition")?;
        error.value(py).setattr("partition", class.call1((topic, number))?)?;
        error.value(py).setattr("offset", offset)
    };
    // Its text says where as well. A signal's handler may raise in Python's code.
    match placed() {
        Err(other) if ends_something(py, &other) => other,
        _ => error,
    }
}

/// A key or a value that its serializer could not write; `cause` is what that raised. What ends a
/// program or a task is not the serializer's, and stays as it is.
pub fn serialization_error(py: Python<'_>, what: &str, cause: PyErr) -> PyErr {
    if ends_something(py, &cause) {
        return cause;
    }
    no_serialization(py, &format!("the {what} of a record"), None, cause)
}

/// Whether an error is no failure but a requested end: Ctrl-C, `SystemExit`, a cancelled task.
/// Python keeps these out of `Exception`.
pub fn ends_something(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
}

/// The class of an error and what it says. Its `__str__` is Python's code, where a signal's handler
/// may raise: `Display` would lose that.
///
/// # Errors
/// What `__str__` raises that is no `Exception`.
fn said(py: Python<'_>, error: &PyErr) -> PyResult<String> {
    let class = error.get_type(py).qualname()?;
    let class = class.to_string_lossy();
    match error.value(py).str() {
        Ok(text) => Ok(format!("{class}: {}", text.to_string_lossy())),
        Err(other) if ends_something(py, &other) => Err(other),
        Err(_) => Ok(format!("{class}: <exception str() failed>")),
    }
}

fn no_serialization(py: Python<'_>, what: &str, hint: Option<String>, cause: PyErr) -> PyErr {
    let said = match said(py, &cause) {
        Ok(said) => said,
        Err(other) => return other,
    };
    let text = format!("SERIALIZATION_FAILED: {what}: {said}");
    let attributes = PyDict::new(py);
    let made = attributes
        .set_item("hint", hint)
        .and_then(|()| make(py, "SerializationError", &text, &attributes));
    let error = made.map_or_else(|other| other, PyErr::from_value);
    error.set_cause(py, Some(cause));
    error
}

fn make<'py>(
    py: Python<'py>,
    class: &str,
    text: &str,
    attributes: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("kafkalite.errors")?.getattr(class)?.cast_into::<PyType>()?;
    class.call((text,), Some(attributes))
}

/// The class for an error.
fn class_of(error: &ClientError) -> &'static str {
    match error {
        ClientError::Broker { code, .. } => class_of_code(*code),
        ClientError::NoBrokerReachable { .. } => "NoBrokerReachable",
        ClientError::Timeout { .. } => "RequestTimedOut",
        ClientError::DeliveryTimeout { .. } => "DeliveryTimeout",
        ClientError::Disconnected { .. } => "ConnectionLostError",
        ClientError::MalformedResponse { .. } => "MalformedResponse",
        ClientError::UnsupportedVersion { .. } => "UnsupportedVersionError",
        ClientError::Config { .. } => "ConfigError",
        ClientError::InvalidArgument { .. } => "InvalidArgumentError",
        ClientError::NoPartition { .. } => "UnknownTopicError",
        ClientError::BufferFull { .. } => "BufferFullError",
        ClientError::MessageTooLarge { .. } => "MessageTooLarge",
        ClientError::NoOffset { .. } => "NoOffsetError",
        ClientError::CorruptBatch { .. } => "InvalidRecordError",
        ClientError::Closed { .. } => "ClosedError",
        ClientError::Forked => "ForkedClientError",
        ClientError::IllegalState { .. } => "IllegalStateError",
        ClientError::Resource { .. } => "KafkaliteError",
    }
}

/// The class for a refusal of a broker.
fn class_of_code(code: ErrorCode) -> &'static str {
    let found = CLASSES.iter().find(|(_, codes)| codes.contains(&code));
    found.map_or("BrokerError", |(class, _)| class)
}

/// By what a code is about; any other is a plain `BrokerError`.
const CLASSES: &[(&str, &[ErrorCode])] = &[
    ("UnknownTopicError", &[E::UnknownTopicOrPartition, E::UnknownTopicId, E::InconsistentTopicId]),
    ("TopicExistsError", &[E::TopicAlreadyExists]),
    ("InvalidTopicError", &[E::InvalidTopicException]),
    (
        "InvalidPartitionsError",
        &[E::InvalidPartitions, E::InvalidReplicationFactor, E::InvalidReplicaAssignment],
    ),
    ("ConfigError", &[E::InvalidConfig]),
    ("InvalidArgumentError", &[E::InvalidRequest]),
    ("UnsupportedVersionError", &[E::UnsupportedVersion]),
    ("RequestTimedOut", &[E::RequestTimedOut]),
    ("ConnectionLostError", &[E::NetworkException]),
    ("MessageTooLarge", &[E::MessageTooLarge, E::RecordListTooLarge]),
    (
        "LeaderUnavailableError",
        &[
            E::LeaderNotAvailable,
            E::NotLeaderOrFollower,
            E::ReplicaNotAvailable,
            E::ListenerNotFound,
            E::FencedLeaderEpoch,
            E::UnknownLeaderEpoch,
            E::OffsetNotAvailable,
            E::PreferredLeaderNotAvailable,
            E::EligibleLeadersNotAvailable,
        ],
    ),
    (
        "CoordinatorUnavailableError",
        &[E::CoordinatorLoadInProgress, E::CoordinatorNotAvailable, E::NotCoordinator],
    ),
    ("NotEnoughReplicasError", &[E::NotEnoughReplicas, E::NotEnoughReplicasAfterAppend]),
    ("OffsetOutOfRangeError", &[E::OffsetOutOfRange]),
    (
        "InvalidRecordError",
        &[
            E::CorruptMessage,
            E::InvalidRecord,
            E::InvalidTimestamp,
            E::UnsupportedCompressionType,
            E::UnsupportedForMessageFormat,
        ],
    ),
    (
        "AuthenticationError",
        &[E::SaslAuthenticationFailed, E::UnsupportedSaslMechanism, E::IllegalSaslState],
    ),
    (
        "AuthorizationError",
        &[
            E::TopicAuthorizationFailed,
            E::GroupAuthorizationFailed,
            E::ClusterAuthorizationFailed,
            E::TransactionalIdAuthorizationFailed,
            E::DelegationTokenAuthorizationFailed,
        ],
    ),
    ("PolicyViolationError", &[E::PolicyViolation]),
    ("StorageError", &[E::KafkaStorageError, E::LogDirNotFound]),
    ("ProducerFencedError", &[E::ProducerFenced, E::InvalidProducerEpoch]),
    (
        "OutOfOrderSequenceError",
        &[E::OutOfOrderSequenceNumber, E::DuplicateSequenceNumber, E::UnknownProducerId],
    ),
    (
        "TransactionError",
        &[
            E::InvalidTxnState,
            E::InvalidProducerIdMapping,
            E::InvalidTransactionTimeout,
            E::ConcurrentTransactions,
            E::TransactionCoordinatorFenced,
            E::TransactionalIdNotFound,
            E::TransactionAbortable,
        ],
    ),
    ("GroupNotFoundError", &[E::GroupIdNotFound]),
    ("GroupNotEmptyError", &[E::NonEmptyGroup]),
    (
        "RebalanceError",
        &[E::IllegalGeneration, E::UnknownMemberId, E::RebalanceInProgress, E::FencedMemberEpoch],
    ),
    ("FencedInstanceError", &[E::FencedInstanceId]),
    (
        "GroupError",
        &[
            E::InconsistentGroupProtocol,
            E::InvalidGroupId,
            E::InvalidSessionTimeout,
            E::InvalidCommitOffsetSize,
            E::OffsetMetadataTooLarge,
            E::MemberIdRequired,
            E::GroupMaxSizeReached,
            E::GroupSubscribedToTopic,
            E::UnstableOffsetCommit,
            E::UnreleasedInstanceId,
            E::UnsupportedAssignor,
            E::StaleMemberEpoch,
        ],
    ),
];

/// Every error code of Kafka: number, name, class, whether trying again can help.
#[pyfunction]
pub fn error_codes() -> Vec<(i16, &'static str, &'static str, bool)> {
    ErrorCode::all()
        .map(|code| (code.code(), code.name(), class_of_code(code), code.is_retriable()))
        .collect()
}
