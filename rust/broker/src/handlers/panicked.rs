//! The answer to a request whose handler panicked. It is UNKNOWN_SERVER_ERROR if the response of
//! its version has one error for all. Otherwise the connection is closed, and the client asks
//! again.
//!
//! Source: `getErrorResponse` of Kafka's requests, of which those that need the request are left
//! out (ADR 0090).

use super::frame;
use crate::response_queue::{Response, Slot};
use kafkalite_protocol::messages as m;
use kafkalite_protocol::{ApiKey, ErrorCode};

#[cfg(test)]
mod tests;

/// The response to a request whose handler panicked; `None`: the connection is closed.
#[must_use]
pub fn on_panic(slot: &Slot) -> Option<Response> {
    let api = ApiKey::from_i16(slot.api_key)?;
    refusal(api, slot.api_version, slot.correlation_id, ErrorCode::UnknownServerError)
}

/// Which responses have one error for all, and in which versions.
macro_rules! whole {
    ($($api:ident, $module:ident, $response:ident, $versions:expr;)*) => {
        /// A response with one error for all; `None`: responses of this version have none.
        #[must_use]
        pub fn refusal(
            api: ApiKey,
            version: i16,
            correlation_id: i32,
            error: ErrorCode,
        ) -> Option<Response> {
            let error_code = error.code();
            let framed = match api {
                $(ApiKey::$api if ($versions).contains(&version) => {
                    let error = m::$module::$response { error_code, ..Default::default() };
                    frame(api, version, correlation_id, &error)
                })*
                _ => return None,
            };
            Some(Response::frame(framed))
        }
    };
}

whole! {
    Fetch, fetch, FetchResponse, 7..;
    Metadata, metadata, MetadataResponse, 13..;
    OffsetFetch, offset_fetch, OffsetFetchResponse, 2..=7;
    FindCoordinator, find_coordinator, FindCoordinatorResponse, 0..=3;
    JoinGroup, join_group, JoinGroupResponse, 0..;
    Heartbeat, heartbeat, HeartbeatResponse, 0..;
    LeaveGroup, leave_group, LeaveGroupResponse, 0..;
    SyncGroup, sync_group, SyncGroupResponse, 0..;
    ListGroups, list_groups, ListGroupsResponse, 0..;
    SaslHandshake, sasl_handshake, SaslHandshakeResponse, 0..;
    ApiVersions, api_versions, ApiVersionsResponse, 0..;
    InitProducerId, init_producer_id, InitProducerIdResponse, 0..;
    DescribeAcls, describe_acls, DescribeAclsResponse, 0..;
    DescribeLogDirs, describe_log_dirs, DescribeLogDirsResponse, 3..;
    SaslAuthenticate, sasl_authenticate, SaslAuthenticateResponse, 0..;
    CreateDelegationToken, create_delegation_token, CreateDelegationTokenResponse, 0..;
    RenewDelegationToken, renew_delegation_token, RenewDelegationTokenResponse, 0..;
    ExpireDelegationToken, expire_delegation_token, ExpireDelegationTokenResponse, 0..;
    DescribeDelegationToken, describe_delegation_token, DescribeDelegationTokenResponse, 0..;
    ElectLeaders, elect_leaders, ElectLeadersResponse, 1..;
    AlterPartitionReassignments, alter_partition_reassignments,
        AlterPartitionReassignmentsResponse, 0..;
    ListPartitionReassignments, list_partition_reassignments,
        ListPartitionReassignmentsResponse, 0..;
    OffsetDelete, offset_delete, OffsetDeleteResponse, 0..;
    DescribeClientQuotas, describe_client_quotas, DescribeClientQuotasResponse, 0..;
    DescribeUserScramCredentials, describe_user_scram_credentials,
        DescribeUserScramCredentialsResponse, 0..;
    DescribeQuorum, describe_quorum, DescribeQuorumResponse, 0..;
    UpdateFeatures, update_features, UpdateFeaturesResponse, 0..;
    DescribeCluster, describe_cluster, DescribeClusterResponse, 0..;
    BrokerHeartbeat, broker_heartbeat, BrokerHeartbeatResponse, 0..;
    Quorum, quorum, QuorumResponse, 0..;
    ProposeRecords, propose_records, ProposeRecordsResponse, 0..;
    JoinCluster, join_cluster, JoinClusterResponse, 0..;
    DescribeFigures, describe_figures, DescribeFiguresResponse, 0..;
    UnregisterBroker, unregister_broker, UnregisterBrokerResponse, 0..;
    AddRaftVoter, add_raft_voter, AddRaftVoterResponse, 0..;
    RemoveRaftVoter, remove_raft_voter, RemoveRaftVoterResponse, 0..;
    GetTelemetrySubscriptions, get_telemetry_subscriptions,
        GetTelemetrySubscriptionsResponse, 0..;
    PushTelemetry, push_telemetry, PushTelemetryResponse, 0..;
    ListConfigResources, list_config_resources, ListConfigResourcesResponse, 0..;
}
