//! Which API is handled by which module, and how its requests travel.

use super::authorized_operations::{Operation, Resource};
use super::{Call, Rooms};
use crate::cluster::Cluster;
use crate::error::HandlerError;
use crate::request_queue::{ApiPolicy, Lane, Request};
use crate::response_queue::Overlap;
use kafkalite_protocol::ApiKey;

macro_rules! apis {
    ($($api:ident => $module:ident: $lane:ident, $overlap:ident, $where:ident,
        $operation:ident $($resource:ident)?;)*) => {
        /// The APIs this broker serves, ascending: ApiVersions lists these and no other.
        pub const SERVED: &[ApiKey] = &[$(ApiKey::$api),*];

        fn dispatch(rooms: &Rooms, api: ApiKey, request: Request) -> Result<(), HandlerError> {
            match api {
                $(ApiKey::$api => super::$module::handle(rooms, Call::decode(request)?),)*
                _ => return Err(unsupported(&request)),
            }
            Ok(())
        }

        /// How requests travel, by Kafka's number of their API; an API that is not served takes
        /// the control lane to its refusal.
        #[must_use]
        pub fn policy(api_key: i16) -> ApiPolicy {
            match ApiKey::from_i16(api_key) {
                $(Some(ApiKey::$api) => ApiPolicy {
                    lane: Lane::$lane,
                    overlap: Overlap::$overlap,
                    inline: runs_inline!($where),
                },)*
                _ => ApiPolicy { lane: Lane::Control, overlap: Overlap::Alone, inline: false },
            }
        }

        /// What a client must be allowed to do; `None`: every client may. Some requests need more
        /// for parts of what they name.
        #[must_use]
        pub const fn required(api: ApiKey) -> Option<(Operation, Resource)> {
            match api {
                $(ApiKey::$api => required_operation!($operation $($resource)?),)*
                _ => None,
            }
        }
    };
}

/// An API runs on a network thread only if it cannot block and costs little. ListOffsets does not:
/// the offset of a time is looked up in the log, on the disk if need be.
macro_rules! runs_inline {
    (inline) => {
        true
    };
    (queued) => {
        false
    };
}

macro_rules! required_operation {
    (none) => {
        None
    };
    ($operation:ident $resource:ident) => {
        Some((Operation::$operation, Resource::$resource))
    };
}

// API => handler: lane, what it may run beside, thread, operation and resource. What brokers say
// to each other has their lane on every listener. They may have no listener of their own, and a
// flood of clients must not depose a leader.
// Source of the last column: "Operations and Resources on Protocols" of Kafka's documentation.
apis! {
    Produce => produce: Data, Produce, inline, Write Topic;
    Fetch => fetch: Data, Fetch, inline, Read Topic;
    ListOffsets => list_offsets: Data, Alone, queued, Describe Topic;
    Metadata => metadata: Control, Alone, queued, Describe Topic;
    OffsetCommit => offset_commit: Control, Alone, queued, Read Group;
    OffsetFetch => offset_fetch: Control, Alone, queued, Describe Group;
    FindCoordinator => find_coordinator: Control, Alone, queued, Describe Group;
    JoinGroup => join_group: Control, Alone, queued, Read Group;
    Heartbeat => heartbeat: Control, Alone, queued, Read Group;
    LeaveGroup => leave_group: Control, Alone, queued, Read Group;
    SyncGroup => sync_group: Control, Alone, queued, Read Group;
    DescribeGroups => describe_groups: Control, Alone, queued, Describe Group;
    ListGroups => list_groups: Control, Alone, queued, Describe Cluster;
    SaslHandshake => sasl_handshake: Control, Alone, queued, none;
    ApiVersions => api_versions: Control, Alone, inline, none;
    CreateTopics => create_topics: Control, Alone, queued, Create Cluster;
    DeleteTopics => delete_topics: Control, Alone, queued, Delete Topic;
    DeleteRecords => delete_records: Data, Alone, queued, Delete Topic;
    InitProducerId => init_producer_id: Control, Alone, queued, IdempotentWrite Cluster;
    OffsetForLeaderEpoch => offset_for_leader_epoch: Data, Alone, queued, Describe Topic;
    DescribeAcls => describe_acls: Control, Alone, queued, Describe Cluster;
    CreateAcls => create_acls: Control, Alone, queued, Alter Cluster;
    DeleteAcls => delete_acls: Control, Alone, queued, Alter Cluster;
    DescribeConfigs => describe_configs: Control, Alone, queued, DescribeConfigs Topic;
    AlterConfigs => alter_configs: Control, Alone, queued, AlterConfigs Topic;
    AlterReplicaLogDirs => alter_replica_log_dirs: Control, Alone, queued, Alter Cluster;
    DescribeLogDirs => describe_log_dirs: Control, Alone, queued, Describe Cluster;
    SaslAuthenticate => sasl_authenticate: Control, Alone, queued, none;
    CreatePartitions => create_partitions: Control, Alone, queued, Alter Topic;
    CreateDelegationToken => create_delegation_token: Control, Alone, queued, none;
    RenewDelegationToken => renew_delegation_token: Control, Alone, queued, none;
    ExpireDelegationToken => expire_delegation_token: Control, Alone, queued, none;
    DescribeDelegationToken => describe_delegation_token: Control, Alone, queued, none;
    DeleteGroups => delete_groups: Control, Alone, queued, Delete Group;
    ElectLeaders => elect_leaders: Control, Alone, queued, Alter Cluster;
    IncrementalAlterConfigs => incremental_alter_configs:
        Control, Alone, queued, AlterConfigs Topic;
    AlterPartitionReassignments => alter_partition_reassignments:
        Control, Alone, queued, Alter Cluster;
    ListPartitionReassignments => list_partition_reassignments:
        Control, Alone, queued, Describe Cluster;
    OffsetDelete => offset_delete: Control, Alone, queued, Delete Group;
    DescribeClientQuotas => describe_client_quotas: Control, Alone, queued, DescribeConfigs Cluster;
    DescribeUserScramCredentials => describe_user_scram_credentials:
        Control, Alone, queued, Describe Cluster;
    DescribeQuorum => describe_quorum: Control, Alone, queued, Describe Cluster;
    UpdateFeatures => update_features: Control, Alone, queued, Alter Cluster;
    DescribeCluster => describe_cluster: Control, Alone, queued, Describe Cluster;
    DescribeProducers => describe_producers: Control, Alone, queued, Read Topic;
    BrokerHeartbeat => broker_heartbeat: Brokers, Alone, queued, ClusterAction Cluster;
    UnregisterBroker => unregister_broker: Control, Alone, queued, Alter Cluster;
    GetTelemetrySubscriptions => get_telemetry_subscriptions: Data, Alone, queued, none;
    PushTelemetry => push_telemetry: Data, Alone, queued, none;
    ListConfigResources => list_config_resources: Control, Alone, queued, DescribeConfigs Cluster;
    DescribeTopicPartitions => describe_topic_partitions: Control, Alone, queued, Describe Topic;
    AddRaftVoter => add_raft_voter: Control, Alone, queued, Alter Cluster;
    RemoveRaftVoter => remove_raft_voter: Control, Alone, queued, Alter Cluster;
    Quorum => quorum: Brokers, Alone, queued, ClusterAction Cluster;
    ProposeRecords => propose_records: Brokers, Alone, queued, ClusterAction Cluster;
    JoinCluster => join_cluster: Control, Alone, queued, ClusterAction Cluster;
    DescribeFigures => describe_figures: Control, Alone, queued, ClusterAction Cluster;
}

/// What brokers ask each other. The list for clients lacks these.
pub const PRIVATE: [ApiKey; 5] = [
    ApiKey::BrokerHeartbeat,
    ApiKey::Quorum,
    ApiKey::ProposeRecords,
    ApiKey::JoinCluster,
    ApiKey::DescribeFigures,
];

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
        // A request of an unknown version gets the list of known versions (KIP-511).
        Some(ApiKey::ApiVersions) => {
            super::api_versions::handle_unsupported(request);
            Ok(())
        }
        _ => Err(unsupported(&request)),
    }
}

/// Runs a request that came before this broker's rooms are there: the voters of a cluster need each
/// other to start. Other
/// connections are closed, and clients try again.
///
/// # Errors
/// The request cannot be understood; its connection is closed.
pub fn run_early(cluster: &Cluster, request: Request) -> Result<(), HandlerError> {
    let Some(api) = request.header.api() else { return Err(unsupported(&request)) };
    if !api.versions().contains(request.header.api_version) {
        return Err(unsupported(&request));
    }
    match api {
        ApiKey::ApiVersions => {
            super::api_versions::answer(cluster, Call::decode(request)?);
        }
        ApiKey::Quorum => super::quorum::answer(cluster, Call::decode(request)?),
        ApiKey::ProposeRecords => super::propose_records::answer(cluster, Call::decode(request)?),
        _ => drop(request),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
