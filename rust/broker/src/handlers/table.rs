//! Which API is handled by which module.

use super::{Call, Rooms};
use crate::error::HandlerError;
use crate::request_queue::Request;
use crate::response_queue::{Response, Slot};
use bytes::Bytes;
use kafkalite_protocol::ApiKey;

macro_rules! apis {
    ($($api:ident => $module:ident,)*) => {
        /// The APIs this broker serves, ascending: ApiVersions tells of them and of no other.
        pub const SERVED: &[ApiKey] = &[$(ApiKey::$api),*];

        fn dispatch(rooms: &Rooms, api: ApiKey, request: Request) -> Result<(), HandlerError> {
            match api {
                $(ApiKey::$api => super::$module::handle(rooms, Call::decode(request)?),)*
                _ => return Err(unsupported(&request)),
            }
            Ok(())
        }

        fn panicked(api: ApiKey, slot: &Slot, body: Option<Bytes>) -> Option<Response> {
            match api {
                $(ApiKey::$api => super::panicked::respond(super::$module::handle, slot, body),)*
                _ => None,
            }
        }
    };
}

apis! {
    Produce => produce,
    Fetch => fetch,
    ListOffsets => list_offsets,
    Metadata => metadata,
    OffsetCommit => offset_commit,
    OffsetFetch => offset_fetch,
    FindCoordinator => find_coordinator,
    JoinGroup => join_group,
    Heartbeat => heartbeat,
    LeaveGroup => leave_group,
    SyncGroup => sync_group,
    DescribeGroups => describe_groups,
    ListGroups => list_groups,
    SaslHandshake => sasl_handshake,
    ApiVersions => api_versions,
    CreateTopics => create_topics,
    DeleteTopics => delete_topics,
    DeleteRecords => delete_records,
    InitProducerId => init_producer_id,
    OffsetForLeaderEpoch => offset_for_leader_epoch,
    DescribeAcls => describe_acls,
    CreateAcls => create_acls,
    DeleteAcls => delete_acls,
    DescribeConfigs => describe_configs,
    AlterConfigs => alter_configs,
    AlterReplicaLogDirs => alter_replica_log_dirs,
    DescribeLogDirs => describe_log_dirs,
    SaslAuthenticate => sasl_authenticate,
    CreatePartitions => create_partitions,
    CreateDelegationToken => create_delegation_token,
    RenewDelegationToken => renew_delegation_token,
    ExpireDelegationToken => expire_delegation_token,
    DescribeDelegationToken => describe_delegation_token,
    DeleteGroups => delete_groups,
    ElectLeaders => elect_leaders,
    IncrementalAlterConfigs => incremental_alter_configs,
    AlterPartitionReassignments => alter_partition_reassignments,
    ListPartitionReassignments => list_partition_reassignments,
    OffsetDelete => offset_delete,
    DescribeClientQuotas => describe_client_quotas,
    DescribeUserScramCredentials => describe_user_scram_credentials,
    DescribeQuorum => describe_quorum,
    DescribeCluster => describe_cluster,
    DescribeProducers => describe_producers,
    ListConfigResources => list_config_resources,
    DescribeTopicPartitions => describe_topic_partitions,
}

fn unsupported(request: &Request) -> HandlerError {
    let (api_key, api_version) = (request.header.api_key, request.header.api_version);
    HandlerError::Unsupported { api_key, api_version }
}

/// Runs one request to its answer, or until it waits.
///
/// # Errors
/// The request cannot be understood; its connection is closed.
pub fn run(rooms: &Rooms, request: Request) -> Result<(), HandlerError> {
    match request.header.api() {
        Some(api) if api.versions().contains(request.header.api_version) => {
            dispatch(rooms, api, request)
        }
        // Whoever asks in a version we do not know is told which ones we do (KIP-511).
        Some(ApiKey::ApiVersions) => {
            super::api_versions::handle_unsupported(request);
            Ok(())
        }
        _ => Err(unsupported(&request)),
    }
}

/// What a client hears when the handler of its request panicked, if there is a place to say it.
/// `body` is the request's, as long as its handler ran.
#[must_use]
pub fn on_panic(slot: &Slot, body: Option<Bytes>) -> Option<Response> {
    panicked(ApiKey::from_i16(slot.api_key)?, slot, body)
}

/// Whether a request cannot block and costs little, so that a network thread may run it itself.
/// ListOffsets is none of them: the offset of a time is looked up in the log, on the disk if need
/// be.
#[must_use]
pub fn may_run_inline(request: &Request) -> bool {
    matches!(request.header.api(), Some(ApiKey::Produce | ApiKey::Fetch | ApiKey::ApiVersions))
}
