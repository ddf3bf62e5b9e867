//! What a fault has to know of each API: which topics its requests name, and where its answers
//! have errors.
//!
//! Three kinds of APIs:
//! - one error for the whole answer: JoinGroup, Heartbeat, InitProducerId
//! - errors of parts, and requests that change something: Produce, OffsetCommit, CreateTopics. The
//!   refused parts are taken out of the request, so that the broker does not see them
//! - errors of parts, and requests that only read: Fetch, ListOffsets, Metadata. The broker
//!   answers, and the answer is changed
//!
//! Source: `getErrorResponse` of Kafka's requests.

use std::ops::RangeInclusive;

use kafkalite_protocol::messages::Request;
use kafkalite_protocol::{ApiKey, ErrorCode, Uuid};

use super::parts::Parts;

/// A topic by name or id, and a partition of it.
pub(super) type Named = (String, Uuid, i32);

/// APIs whose requests name partitions of topics.
pub(super) const NAME_PARTITIONS: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DeleteRecords,
];

/// APIs whose requests name topics alone.
pub(super) const NAME_TOPICS: &[ApiKey] = &[
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::AlterConfigs,
    ApiKey::IncrementalAlterConfigs,
];

/// APIs whose requests name a group.
pub(super) const NAME_GROUPS: &[ApiKey] = &[
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::OffsetDelete,
    ApiKey::DescribeGroups,
    ApiKey::DeleteGroups,
];

/// An API whose messages faults read and change. The defaults are those of an API that names no
/// topic and whose answers have one error for all.
pub(super) trait Faulted: Request<Response: Default + Send + 'static> + 'static {
    /// Whether refused parts are taken out of requests.
    const TAKES: bool = false;

    /// Whether `error` is one of the whole answer. The version may still have no place for it.
    fn is_whole(_error: ErrorCode, _parts: &Parts) -> bool {
        true
    }

    /// Whether the request names one of `parts`. One that does not say which topics it is about
    /// may name every topic.
    fn names(&self, parts: &Parts) -> bool {
        parts.are_all()
    }

    /// Takes `parts` out of the request, and refuses them.
    fn take(&mut self, _parts: &Parts, _error: i16) -> Self::Response {
        Self::Response::default()
    }

    /// Whether nothing is left to ask.
    fn is_empty(&self) -> bool {
        false
    }

    /// Adds to `answer` what was refused.
    fn join(_answer: &mut Self::Response, _refused: Self::Response) {}

    /// Gives `parts` of an answer this error; how many there were. The request named `asked`.
    fn mark(
        _answer: &mut Self::Response,
        _parts: &Parts,
        _asked: &[Named],
        _error: ErrorCode,
    ) -> usize {
        0
    }

    /// Tells the client to wait; `false`: the API has no field for it.
    fn throttle(_answer: &mut Self::Response, _ms: i32) -> bool {
        false
    }

    /// Changes a byte of the records of `parts`; `false`: there are none.
    fn corrupt(_answer: &mut Self::Response, _parts: &Parts) -> bool {
        false
    }

    /// Names `broker` as the replica to read from, or as the leader, of `parts` without an error;
    /// how many there were.
    fn point(
        _answer: &mut Self::Response,
        _parts: &Parts,
        _asked: &[Named],
        _broker: i32,
        _leader_epoch: Option<i32>,
    ) -> usize {
        0
    }

    /// Lists fewer versions of an API; `false`: the answer lists none that is hidden.
    fn limit(_answer: &mut Self::Response, _api: ApiKey, _left: &RangeInclusive<i16>) -> bool {
        false
    }

    /// What a fetch asks for, its session's partitions apart; and that session. Other APIs have
    /// none.
    fn asked(&self, _version: i16, _parts: &Parts) -> (Vec<Named>, Option<i32>) {
        (Vec::new(), None)
    }

    /// Makes a request that could wait for records return at once.
    fn hurry(&mut self) {}
}
