//! Faults of the APIs that administer topics, groups and configs, and of those with one error.

use std::ops::RangeInclusive;

use kafkalite_protocol::messages as m;
use kafkalite_protocol::{ApiKey, ErrorCode, Uuid};
use m::alter_configs::{AlterConfigsRequest, AlterConfigsResponse};
use m::alter_replica_log_dirs::AlterReplicaLogDirsRequest;
use m::create_acls::CreateAclsRequest;
use m::create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
use m::create_topics::{CreateTopicsRequest, CreateTopicsResponse};
use m::delete_acls::DeleteAclsRequest;
use m::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use m::delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
use m::describe_configs::DescribeConfigsRequest;
use m::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use m::describe_producers::DescribeProducersRequest;
use m::describe_topic_partitions::DescribeTopicPartitionsRequest;
use m::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use m::incremental_alter_configs::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::data_apis::{split, throttled};
use super::faulted::{Faulted, Named};
use super::parts::Parts;

/// The number of a topic among resources that have configs.
const TOPIC: i8 = 2;

impl Faulted for CreateTopicsRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        self.topics.iter().any(|topic| parts.hit_topic(&topic.name, Uuid::ZERO))
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> CreateTopicsResponse {
        let hit = split(&mut self.topics, |topic| parts.hit_topic(&topic.name, Uuid::ZERO));
        let topics = hit.into_iter().map(|topic| m::create_topics::CreatableTopicResult {
            name: topic.name,
            error_code,
            ..Default::default()
        });
        CreateTopicsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn join(answer: &mut CreateTopicsResponse, refused: CreateTopicsResponse) {
        answer.topics.extend(refused.topics);
    }

    fn mark(answer: &mut CreateTopicsResponse, parts: &Parts, _: &[Named], e: ErrorCode) -> usize {
        let topics = answer.topics.iter_mut();
        let hit = topics.filter(|topic| parts.hit_topic(&topic.name, Uuid::ZERO));
        hit.map(|topic| topic.error_code = e.code()).count()
    }

    throttled!();
}

impl Faulted for DeleteTopicsRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        let mut names = self.topic_names.iter();
        let mut topics = self.topics.iter();
        names.any(|name| parts.hit_topic(name, Uuid::ZERO))
            || topics.any(|topic| {
                parts.hit_topic(topic.name.as_deref().unwrap_or_default(), topic.topic_id)
            })
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> DeleteTopicsResponse {
        let answered = |name, topic_id| m::delete_topics::DeletableTopicResult {
            name,
            topic_id,
            error_code,
            ..Default::default()
        };
        let names = split(&mut self.topic_names, |name| parts.hit_topic(name, Uuid::ZERO));
        let topics = split(&mut self.topics, |topic| {
            parts.hit_topic(topic.name.as_deref().unwrap_or_default(), topic.topic_id)
        });
        let names = names.into_iter().map(|name| answered(Some(name), Uuid::ZERO));
        let topics = topics.into_iter().map(|topic| answered(topic.name, topic.topic_id));
        DeleteTopicsResponse { responses: names.chain(topics).collect(), ..Default::default() }
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.topic_names.is_empty()
    }

    fn join(answer: &mut DeleteTopicsResponse, refused: DeleteTopicsResponse) {
        answer.responses.extend(refused.responses);
    }

    fn mark(answer: &mut DeleteTopicsResponse, parts: &Parts, _: &[Named], e: ErrorCode) -> usize {
        let topics = answer.responses.iter_mut();
        let hit = topics.filter(|topic| {
            parts.hit_topic(topic.name.as_deref().unwrap_or_default(), topic.topic_id)
        });
        hit.map(|topic| topic.error_code = e.code()).count()
    }

    throttled!();
}

impl Faulted for CreatePartitionsRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        self.topics.iter().any(|topic| parts.hit_topic(&topic.name, Uuid::ZERO))
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> CreatePartitionsResponse {
        let hit = split(&mut self.topics, |topic| parts.hit_topic(&topic.name, Uuid::ZERO));
        let results = hit.into_iter().map(|topic| {
            let (name, error_message) = (topic.name, None);
            m::create_partitions::CreatePartitionsTopicResult { name, error_code, error_message }
        });
        CreatePartitionsResponse { results: results.collect(), ..Default::default() }
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn join(answer: &mut CreatePartitionsResponse, refused: CreatePartitionsResponse) {
        answer.results.extend(refused.results);
    }

    fn mark(
        answer: &mut CreatePartitionsResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let topics = answer.results.iter_mut();
        let hit = topics.filter(|topic| parts.hit_topic(&topic.name, Uuid::ZERO));
        hit.map(|topic| topic.error_code = error.code()).count()
    }

    throttled!();
}

impl Faulted for DeleteGroupsRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> DeleteGroupsResponse {
        let groups = split(&mut self.groups_names, |group| parts.hit_group(group)).into_iter();
        let results =
            groups.map(|group_id| m::delete_groups::DeletableGroupResult { group_id, error_code });
        DeleteGroupsResponse { results: results.collect(), ..Default::default() }
    }

    fn is_empty(&self) -> bool {
        self.groups_names.is_empty()
    }

    fn join(answer: &mut DeleteGroupsResponse, refused: DeleteGroupsResponse) {
        answer.results.extend(refused.results);
    }

    fn mark(answer: &mut DeleteGroupsResponse, parts: &Parts, _: &[Named], e: ErrorCode) -> usize {
        let hit = answer.results.iter_mut().filter(|group| parts.hit_group(&group.group_id));
        hit.map(|group| group.error_code = e.code()).count()
    }

    throttled!();
}

impl Faulted for DescribeGroupsRequest {
    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn mark(
        answer: &mut DescribeGroupsResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let hit = answer.groups.iter_mut().filter(|group| parts.hit_group(&group.group_id));
        hit.map(|group| {
            let (group_id, error_code) = (std::mem::take(&mut group.group_id), error.code());
            *group = DescribedGroup { group_id, error_code, ..Default::default() };
        })
        .count()
    }

    throttled!();
}

impl Faulted for FindCoordinatorRequest {
    fn mark(
        answer: &mut FindCoordinatorResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let found = answer.coordinators.iter_mut();
        found
            .filter(|one| parts.hit_group(&one.key))
            .map(|one| {
                (one.error_code, one.node_id, one.port) = (error.code(), -1, -1);
                one.host.clear();
            })
            .count()
    }

    throttled!();
}

/// Errors in the elements of one list of the answer.
macro_rules! listed {
    ($($request:ident: $list:ident;)*) => {$(
        impl Faulted for $request {
            fn is_whole(_: ErrorCode, _: &Parts) -> bool {
                false
            }

            fn mark(
                answer: &mut Self::Response,
                _: &Parts,
                _: &[Named],
                error: ErrorCode,
            ) -> usize {
                answer.$list.iter_mut().map(|one| one.error_code = error.code()).count()
            }

            throttled!();
        }
    )*};
}

listed! {
    CreateAclsRequest: results;
    DeleteAclsRequest: filter_results;
    DescribeConfigsRequest: results;
    DescribeTopicPartitionsRequest: topics;
}

fn is_hit(parts: &Parts, resource_type: i8, name: &str) -> bool {
    parts.are_all() || resource_type == TOPIC && parts.hit_topic(name, Uuid::ZERO)
}

/// The two APIs that change configs.
macro_rules! altering {
    ($($module:ident, $request:ident, $response:ident;)*) => {$(
        impl Faulted for $request {
            const TAKES: bool = true;

            fn is_whole(_: ErrorCode, _: &Parts) -> bool {
                false
            }

            fn names(&self, parts: &Parts) -> bool {
                let mut all = self.resources.iter();
                all.any(|one| is_hit(parts, one.resource_type, &one.resource_name))
            }

            fn take(&mut self, parts: &Parts, error_code: i16) -> $response {
                let hit = split(&mut self.resources, |one| {
                    is_hit(parts, one.resource_type, &one.resource_name)
                });
                let responses = hit.into_iter().map(|one| {
                    m::$module::AlterConfigsResourceResponse {
                        error_code,
                        error_message: None,
                        resource_type: one.resource_type,
                        resource_name: one.resource_name,
                    }
                });
                $response { responses: responses.collect(), ..Default::default() }
            }

            fn is_empty(&self) -> bool {
                self.resources.is_empty()
            }

            fn join(answer: &mut $response, refused: $response) {
                answer.responses.extend(refused.responses);
            }

            fn mark(answer: &mut $response, parts: &Parts, _: &[Named], e: ErrorCode) -> usize {
                let all = answer.responses.iter_mut();
                let hit = all.filter(|one| is_hit(parts, one.resource_type, &one.resource_name));
                hit.map(|one| one.error_code = e.code()).count()
            }

            throttled!();
        }
    )*};
}

altering! {
    alter_configs, AlterConfigsRequest, AlterConfigsResponse;
    incremental_alter_configs, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
}

/// Errors of partitions, in answers to requests that are rare.
macro_rules! of_partitions {
    ($($request:ident: $topics:ident;)*) => {$(
        impl Faulted for $request {
            fn is_whole(_: ErrorCode, _: &Parts) -> bool {
                false
            }

            fn mark(
                answer: &mut Self::Response,
                _: &Parts,
                _: &[Named],
                error: ErrorCode,
            ) -> usize {
                let all = answer.$topics.iter_mut().flat_map(|topic| &mut topic.partitions);
                all.map(|one| one.error_code = error.code()).count()
            }

            throttled!();
        }
    )*};
}

of_partitions! {
    AlterReplicaLogDirsRequest: results;
    DescribeProducersRequest: topics;
}

/// APIs with one error for the whole answer.
macro_rules! whole {
    ($($module:ident, $request:ident;)*) => {$(
        impl Faulted for m::$module::$request {
            throttled!();
        }
    )*};
}

whole! {
    join_group, JoinGroupRequest;
    heartbeat, HeartbeatRequest;
    leave_group, LeaveGroupRequest;
    sync_group, SyncGroupRequest;
    list_groups, ListGroupsRequest;
    init_producer_id, InitProducerIdRequest;
    describe_acls, DescribeAclsRequest;
    describe_log_dirs, DescribeLogDirsRequest;
    create_delegation_token, CreateDelegationTokenRequest;
    renew_delegation_token, RenewDelegationTokenRequest;
    expire_delegation_token, ExpireDelegationTokenRequest;
    describe_delegation_token, DescribeDelegationTokenRequest;
    elect_leaders, ElectLeadersRequest;
    alter_partition_reassignments, AlterPartitionReassignmentsRequest;
    list_partition_reassignments, ListPartitionReassignmentsRequest;
    offset_delete, OffsetDeleteRequest;
    describe_client_quotas, DescribeClientQuotasRequest;
    describe_user_scram_credentials, DescribeUserScramCredentialsRequest;
    update_features, UpdateFeaturesRequest;
    describe_cluster, DescribeClusterRequest;
    unregister_broker, UnregisterBrokerRequest;
    add_raft_voter, AddRaftVoterRequest;
    remove_raft_voter, RemoveRaftVoterRequest;
    get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest;
    push_telemetry, PushTelemetryRequest;
    list_config_resources, ListConfigResourcesRequest;
}

impl Faulted for m::api_versions::ApiVersionsRequest {
    fn limit(answer: &mut Self::Response, api: ApiKey, left: &RangeInclusive<i16>) -> bool {
        let mut is_limited = false;
        answer.api_keys.retain_mut(|one| {
            if one.api_key == api as i16 {
                let told = (one.min_version, one.max_version);
                one.min_version = one.min_version.max(*left.start());
                one.max_version = one.max_version.min(*left.end());
                is_limited |= told != (one.min_version, one.max_version);
            }
            one.min_version <= one.max_version
        });
        is_limited
    }

    throttled!();
}

impl Faulted for m::sasl_handshake::SaslHandshakeRequest {}
impl Faulted for m::sasl_authenticate::SaslAuthenticateRequest {}
impl Faulted for m::describe_quorum::DescribeQuorumRequest {}
