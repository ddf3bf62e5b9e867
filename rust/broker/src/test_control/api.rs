//! One API as faults see it: where its requests name partitions, and where its answers hold errors.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use bytes::Bytes;
use kafkalite_protocol::header::response_header_is_flexible;
use kafkalite_protocol::messages as m;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::{ApiKey, ErrorCode, Reader, Writer};

use super::faulted::{Faulted, Named};
use super::parts::Parts;
use super::told::{Asked, Outcomes, Told};
use crate::handlers::{frame, refusal};
use crate::request_queue::Request;
use crate::response_queue::{Piece, Response};

/// What an answer needs to know of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub api: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
}

/// Adds to an answer what was refused before.
pub(super) type Join = Box<dyn FnOnce(Response) -> Response + Send>;

/// What becomes of a request that a fault refuses.
pub(super) enum Answered {
    /// It is answered; the broker does not see it.
    Whole(Response),
    /// The broker sees the rest of it, and its answer is joined with the refused part.
    Part(Join),
}

/// What an answer says in place of the truth.
pub(super) enum Change<'a> {
    /// The client is to wait for so many ms.
    Throttle(i32),
    /// A byte of the records of these parts is another one.
    Corrupt(&'a Parts),
    /// Another broker is the one to read from, or the leader.
    Point { parts: &'a Parts, asked: &'a [Named], broker: i32, leader_epoch: Option<i32> },
    /// Fewer versions of an API are served.
    Limit(ApiKey, RangeInclusive<i16>),
}

/// An API.
pub(super) trait Api: Sync {
    /// Whether a request names one of `parts`.
    fn names(&self, body: &Bytes, version: i16, parts: &Parts) -> bool;

    /// What a fetch asks for, and its session.
    fn asked(&self, body: &Bytes, version: i16, parts: &Parts) -> (Vec<Named>, Option<i32>);

    /// Whether a request is refused before the broker sees it.
    fn is_refused_before(&self, head: Head, parts: &Parts, error: ErrorCode) -> bool;

    /// Refuses `parts` of a request; `None`: it cannot be read.
    fn refuse(&self, request: &mut Request, parts: &Parts, error: ErrorCode) -> Option<Answered>;

    /// Makes a request that could wait for records return at once.
    fn hurry(&self, request: &mut Request);

    /// Gives `parts` of an answer an error, if `fires` says so when there are any.
    fn mark(
        &self,
        answer: Response,
        head: Head,
        parts_and_asked: (&Parts, &[Named]),
        error: ErrorCode,
        fires: &mut dyn FnMut() -> bool,
    ) -> Response;

    /// Has an answer say something else, if it can and `fires` says so.
    fn change(
        &self,
        answer: Response,
        head: Head,
        change: &Change<'_>,
        fires: &mut dyn FnMut() -> bool,
    ) -> Response;

    /// Whether its answers can tell clients to wait.
    fn throttles(&self) -> bool;

    /// What a client's request names; `None`: a broker sent it, or it cannot be read.
    fn tells(&self, body: &Bytes, version: i16) -> Option<Asked>;

    /// The outcomes of an answer; `None`: it cannot be read. No record of it is read.
    fn outcomes(&self, pieces: &[Piece], head: Head) -> Option<Outcomes>;
}

struct Of<R>(PhantomData<fn() -> R>);

fn decoded<W: Wire>(body: &Bytes, version: i16) -> Option<W> {
    W::decode(&mut Reader::of_request(body.clone()), version).ok()
}

fn encoded<W: Wire>(message: &W, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    writer.into_bytes()
}

/// The whole frame in memory; `None` if the disk does not give it.
fn gathered(pieces: &[Piece]) -> Option<Bytes> {
    if let [Piece::Mem(bytes)] = pieces {
        return Some(bytes.clone());
    }
    let mut all = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Mem(bytes) => all.extend_from_slice(bytes),
            Piece::File(slice) => all.extend(slice.read().ok()?),
        }
    }
    Some(all.into())
}

/// The frame without the records that lie in files: their lengths are zero in it.
fn without_files(pieces: &[Piece], is_flexible: bool) -> Option<Bytes> {
    let is_file = |piece: &Piece| matches!(piece, Piece::File(_));
    if !pieces.iter().any(is_file) {
        return gathered(pieces);
    }
    let mut all: Vec<u8> = Vec::new();
    for run in pieces.chunk_by(|one, next| is_file(one) == is_file(next)) {
        if !is_file(&run[0]) {
            all.extend_from_slice(&gathered(run)?);
            continue;
        }
        let length: usize = run.iter().map(Piece::len).sum();
        let (written, zero) = match is_flexible {
            true => (unsigned_varint(length + 1), unsigned_varint(1)),
            false => (i32::try_from(length).ok()?.to_be_bytes().to_vec(), vec![0; 4]),
        };
        let head = all.len().checked_sub(written.len()).filter(|head| all[*head..] == written)?;
        all.truncate(head);
        all.extend(zero);
    }
    Some(all.into())
}

fn unsigned_varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Size, correlation id, and the tagged fields of a flexible header.
fn head_bytes(head: Head) -> usize {
    if response_header_is_flexible(head.api, head.version) { 9 } else { 8 }
}

impl<R: Faulted> Of<R> {
    /// The answer as `change` leaves it; the same answer where `change` returns `false`.
    fn changed(
        answer: Response,
        head: Head,
        change: impl FnOnce(&mut R::Response) -> bool,
    ) -> Response {
        let Response::Pieces(pieces) = answer else { return answer };
        let body = gathered(&pieces).filter(|frame| frame.len() >= head_bytes(head));
        let body = body.map(|frame| frame.slice(head_bytes(head)..));
        let read = body.and_then(|body| {
            let mut reader = Reader::new(body);
            R::Response::decode(&mut reader, head.version).ok()
        });
        let Some(mut read) = read else { return Response::Pieces(pieces) };
        if !change(&mut read) {
            return Response::Pieces(pieces);
        }
        Response::frame(frame(head.api, head.version, head.correlation_id, &read))
    }
}

impl<R: Told> Api for Of<R> {
    fn names(&self, body: &Bytes, version: i16, parts: &Parts) -> bool {
        decoded::<R>(body, version).is_some_and(|request| request.names(parts))
    }

    fn asked(&self, body: &Bytes, version: i16, parts: &Parts) -> (Vec<Named>, Option<i32>) {
        let request = decoded::<R>(body, version);
        request.map(|request| request.asked(version, parts)).unwrap_or_default()
    }

    fn is_refused_before(&self, head: Head, parts: &Parts, error: ErrorCode) -> bool {
        let is_whole = || {
            R::is_whole(error, parts)
                && refusal(head.api, head.version, head.correlation_id, error).is_some()
        };
        R::TAKES || is_whole()
    }

    fn refuse(&self, request: &mut Request, parts: &Parts, error: ErrorCode) -> Option<Answered> {
        let head = Head {
            api: R::API_KEY,
            version: request.header.api_version,
            correlation_id: request.header.correlation_id,
        };
        if !R::TAKES {
            let whole = refusal(head.api, head.version, head.correlation_id, error);
            return whole.map(Answered::Whole);
        }
        let mut read = decoded::<R>(&request.body, head.version)?;
        let refused = read.take(parts, error.code());
        if read.is_empty() {
            let framed = frame(head.api, head.version, head.correlation_id, &refused);
            return Some(Answered::Whole(Response::frame(framed)));
        }
        request.body = encoded(&read, head.version);
        let join = move |answer| {
            Self::changed(answer, head, |read| {
                R::join(read, refused);
                true
            })
        };
        Some(Answered::Part(Box::new(join)))
    }

    fn hurry(&self, request: &mut Request) {
        let version = request.header.api_version;
        if let Some(mut read) = decoded::<R>(&request.body, version) {
            read.hurry();
            request.body = encoded(&read, version);
        }
    }

    fn mark(
        &self,
        answer: Response,
        head: Head,
        (parts, asked): (&Parts, &[Named]),
        error: ErrorCode,
        fires: &mut dyn FnMut() -> bool,
    ) -> Response {
        if matches!(answer, Response::Pieces(_))
            && R::is_whole(error, parts)
            && let Some(whole) = refusal(head.api, head.version, head.correlation_id, error)
        {
            // It would take back the errors that are there.
            return if parts.except.is_empty() && fires() { whole } else { answer };
        }
        Self::changed(answer, head, |read| R::mark(read, parts, asked, error) > 0 && fires())
    }

    fn change(
        &self,
        answer: Response,
        head: Head,
        change: &Change<'_>,
        fires: &mut dyn FnMut() -> bool,
    ) -> Response {
        Self::changed(answer, head, |read| {
            let is_changed = match change {
                Change::Throttle(ms) => R::throttle(read, *ms),
                Change::Corrupt(parts) => R::corrupt(read, parts),
                Change::Point { parts, asked, broker, leader_epoch } => {
                    R::point(read, parts, asked, *broker, *leader_epoch) > 0
                }
                Change::Limit(api, left) => R::limit(read, *api, left),
            };
            is_changed && fires()
        })
    }

    fn throttles(&self) -> bool {
        R::throttle(&mut R::Response::default(), 0)
    }

    fn tells(&self, body: &Bytes, version: i16) -> Option<Asked> {
        let request = decoded::<R>(body, version)?;
        (!request.is_of_broker()).then(|| request.told())
    }

    fn outcomes(&self, pieces: &[Piece], head: Head) -> Option<Outcomes> {
        let is_flexible = response_header_is_flexible(head.api, head.version);
        let frame = without_files(pieces, is_flexible)?;
        let body = frame.slice_ref(frame.get(head_bytes(head)..)?);
        let answer = R::Response::decode(&mut Reader::new(body), head.version).ok()?;
        Some(R::outcomes(&answer))
    }
}

macro_rules! apis {
    ($($api:ident: $module:ident, $request:ident;)*) => {
        /// The APIs that faults are for: those that clients use.
        pub(super) const FAULTED: &[ApiKey] = &[$(ApiKey::$api),*];

        /// How faults treat an API; `None`: they leave it alone.
        pub(super) fn of(api: ApiKey) -> Option<&'static dyn Api> {
            Some(match api {
                $(ApiKey::$api => &Of::<m::$module::$request>(PhantomData),)*
                _ => return None,
            })
        }
    };
}

apis! {
    Produce: produce, ProduceRequest;
    Fetch: fetch, FetchRequest;
    ListOffsets: list_offsets, ListOffsetsRequest;
    Metadata: metadata, MetadataRequest;
    OffsetCommit: offset_commit, OffsetCommitRequest;
    OffsetFetch: offset_fetch, OffsetFetchRequest;
    FindCoordinator: find_coordinator, FindCoordinatorRequest;
    JoinGroup: join_group, JoinGroupRequest;
    Heartbeat: heartbeat, HeartbeatRequest;
    LeaveGroup: leave_group, LeaveGroupRequest;
    SyncGroup: sync_group, SyncGroupRequest;
    DescribeGroups: describe_groups, DescribeGroupsRequest;
    ListGroups: list_groups, ListGroupsRequest;
    SaslHandshake: sasl_handshake, SaslHandshakeRequest;
    ApiVersions: api_versions, ApiVersionsRequest;
    CreateTopics: create_topics, CreateTopicsRequest;
    DeleteTopics: delete_topics, DeleteTopicsRequest;
    DeleteRecords: delete_records, DeleteRecordsRequest;
    InitProducerId: init_producer_id, InitProducerIdRequest;
    OffsetForLeaderEpoch: offset_for_leader_epoch, OffsetForLeaderEpochRequest;
    DescribeAcls: describe_acls, DescribeAclsRequest;
    CreateAcls: create_acls, CreateAclsRequest;
    DeleteAcls: delete_acls, DeleteAclsRequest;
    DescribeConfigs: describe_configs, DescribeConfigsRequest;
    AlterConfigs: alter_configs, AlterConfigsRequest;
    AlterReplicaLogDirs: alter_replica_log_dirs, AlterReplicaLogDirsRequest;
    DescribeLogDirs: describe_log_dirs, DescribeLogDirsRequest;
    SaslAuthenticate: sasl_authenticate, SaslAuthenticateRequest;
    CreatePartitions: create_partitions, CreatePartitionsRequest;
    CreateDelegationToken: create_delegation_token, CreateDelegationTokenRequest;
    RenewDelegationToken: renew_delegation_token, RenewDelegationTokenRequest;
    ExpireDelegationToken: expire_delegation_token, ExpireDelegationTokenRequest;
    DescribeDelegationToken: describe_delegation_token, DescribeDelegationTokenRequest;
    DeleteGroups: delete_groups, DeleteGroupsRequest;
    ElectLeaders: elect_leaders, ElectLeadersRequest;
    IncrementalAlterConfigs: incremental_alter_configs, IncrementalAlterConfigsRequest;
    AlterPartitionReassignments:
        alter_partition_reassignments, AlterPartitionReassignmentsRequest;
    ListPartitionReassignments: list_partition_reassignments, ListPartitionReassignmentsRequest;
    OffsetDelete: offset_delete, OffsetDeleteRequest;
    DescribeClientQuotas: describe_client_quotas, DescribeClientQuotasRequest;
    DescribeUserScramCredentials:
        describe_user_scram_credentials, DescribeUserScramCredentialsRequest;
    DescribeQuorum: describe_quorum, DescribeQuorumRequest;
    UpdateFeatures: update_features, UpdateFeaturesRequest;
    DescribeCluster: describe_cluster, DescribeClusterRequest;
    DescribeProducers: describe_producers, DescribeProducersRequest;
    UnregisterBroker: unregister_broker, UnregisterBrokerRequest;
    GetTelemetrySubscriptions: get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest;
    PushTelemetry: push_telemetry, PushTelemetryRequest;
    ListConfigResources: list_config_resources, ListConfigResourcesRequest;
    DescribeTopicPartitions: describe_topic_partitions, DescribeTopicPartitionsRequest;
    AddRaftVoter: add_raft_voter, AddRaftVoterRequest;
    RemoveRaftVoter: remove_raft_voter, RemoveRaftVoterRequest;
}
