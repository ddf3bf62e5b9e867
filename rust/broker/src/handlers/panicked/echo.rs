//! Case by case: where each response has a place for UNKNOWN_SERVER_ERROR.

use super::{ERROR, Panicked};
use kafkalite_protocol::messages as m;

/// APIs whose responses have one error for all, in these versions.
macro_rules! whole {
    ($($module:ident, $request:ident, $response:ident, $versions:expr;)*) => {$(
        impl Panicked for m::$module::$request {
            fn whole(version: i16) -> Option<Self::Response> {
                let answer = || m::$module::$response { error_code: ERROR, ..Default::default() };
                ($versions).contains(&version).then(answer)
            }
        }
    )*};
}

/// APIs whose responses have an error for each thing asked about: `request` is echoed by `echo`.
/// With versions, those have one error for all instead.
macro_rules! each {
    ($($module:ident, $request:ident, $response:ident, $list:ident $(, $versions:expr)?;
        |$asked:ident, $version:ident| $echo:expr;)*) => {$(
        impl Panicked for m::$module::$request {
            $(fn whole(version: i16) -> Option<Self::Response> {
                let answer = || m::$module::$response { error_code: ERROR, ..Default::default() };
                ($versions).contains(&version).then(answer)
            })?

            #[allow(unused_variables)]
            fn answer(&self, $version: i16) -> Option<Self::Response> {
                let $asked = self;
                Self::whole($version).or_else(|| {
                    Some(m::$module::$response { $list: $echo, ..Default::default() })
                })
            }
        }
    )*};
}

/// The elements of a list, each echoed.
fn all<A, B>(asked: &[A], echo: impl FnMut(&A) -> B) -> Vec<B> {
    asked.iter().map(echo).collect()
}

whole! {
    api_versions, ApiVersionsRequest, ApiVersionsResponse, 0..;
    alter_partition_reassignments, AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse, 0..;
    create_delegation_token, CreateDelegationTokenRequest, CreateDelegationTokenResponse, 0..;
    describe_acls, DescribeAclsRequest, DescribeAclsResponse, 0..;
    describe_client_quotas, DescribeClientQuotasRequest, DescribeClientQuotasResponse, 0..;
    describe_cluster, DescribeClusterRequest, DescribeClusterResponse, 0..;
    describe_delegation_token, DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse, 0..;
    describe_log_dirs, DescribeLogDirsRequest, DescribeLogDirsResponse, 3..;
    describe_quorum, DescribeQuorumRequest, DescribeQuorumResponse, 0..;
    describe_user_scram_credentials, DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse, 0..;
    expire_delegation_token, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, 0..;
    heartbeat, HeartbeatRequest, HeartbeatResponse, 0..;
    init_producer_id, InitProducerIdRequest, InitProducerIdResponse, 0..;
    join_group, JoinGroupRequest, JoinGroupResponse, 0..;
    leave_group, LeaveGroupRequest, LeaveGroupResponse, 0..;
    list_config_resources, ListConfigResourcesRequest, ListConfigResourcesResponse, 0..;
    list_groups, ListGroupsRequest, ListGroupsResponse, 0..;
    list_partition_reassignments, ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse, 0..;
    offset_delete, OffsetDeleteRequest, OffsetDeleteResponse, 0..;
    renew_delegation_token, RenewDelegationTokenRequest, RenewDelegationTokenResponse, 0..;
    sasl_authenticate, SaslAuthenticateRequest, SaslAuthenticateResponse, 0..;
    sasl_handshake, SaslHandshakeRequest, SaslHandshakeResponse, 0..;
    sync_group, SyncGroupRequest, SyncGroupResponse, 0..;
}

each! {
    alter_configs, AlterConfigsRequest, AlterConfigsResponse, responses; |asked, version|
        all(&asked.resources, |one| m::alter_configs::AlterConfigsResourceResponse {
            error_code: ERROR, resource_type: one.resource_type,
            resource_name: one.resource_name.clone(), ..Default::default()
        });
    alter_replica_log_dirs, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, results;
        |asked, version| {
            let topics = asked.dirs.iter().flat_map(|dir| &dir.topics);
            topics.map(|topic| m::alter_replica_log_dirs::AlterReplicaLogDirTopicResult {
                topic_name: topic.name.clone(),
                partitions: all(&topic.partitions, |index|
                    m::alter_replica_log_dirs::AlterReplicaLogDirPartitionResult {
                    partition_index: *index, error_code: ERROR,
                }),
            }).collect()
        };
    create_acls, CreateAclsRequest, CreateAclsResponse, results; |asked, version|
        all(&asked.creations, |_| m::create_acls::AclCreationResult {
            error_code: ERROR, ..Default::default()
        });
    create_partitions, CreatePartitionsRequest, CreatePartitionsResponse, results; |asked, version|
        all(&asked.topics, |one| m::create_partitions::CreatePartitionsTopicResult {
            name: one.name.clone(), error_code: ERROR, ..Default::default()
        });
    create_topics, CreateTopicsRequest, CreateTopicsResponse, topics; |asked, version|
        all(&asked.topics, |one| m::create_topics::CreatableTopicResult {
            name: one.name.clone(), error_code: ERROR, ..Default::default()
        });
    delete_acls, DeleteAclsRequest, DeleteAclsResponse, filter_results; |asked, version|
        all(&asked.filters, |_| m::delete_acls::DeleteAclsFilterResult {
            error_code: ERROR, ..Default::default()
        });
    delete_groups, DeleteGroupsRequest, DeleteGroupsResponse, results; |asked, version|
        all(&asked.groups_names, |one| m::delete_groups::DeletableGroupResult {
            group_id: one.clone(), error_code: ERROR,
        });
    delete_records, DeleteRecordsRequest, DeleteRecordsResponse, topics; |asked, version|
        all(&asked.topics, |topic| m::delete_records::DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions: all(&topic.partitions, |one|
                m::delete_records::DeleteRecordsPartitionResult {
                partition_index: one.partition_index, low_watermark: -1, error_code: ERROR,
            }),
        });
    delete_topics, DeleteTopicsRequest, DeleteTopicsResponse, responses; |asked, version|
        if version >= 6 {
            all(&asked.topics, |one| m::delete_topics::DeletableTopicResult {
                name: one.name.clone(), topic_id: one.topic_id, error_code: ERROR,
                ..Default::default()
            })
        } else {
            all(&asked.topic_names, |one| m::delete_topics::DeletableTopicResult {
                name: Some(one.clone()), error_code: ERROR, ..Default::default()
            })
        };
    describe_configs, DescribeConfigsRequest, DescribeConfigsResponse, results; |asked, version|
        all(&asked.resources, |one| m::describe_configs::DescribeConfigsResult {
            error_code: ERROR, resource_type: one.resource_type,
            resource_name: one.resource_name.clone(), ..Default::default()
        });
    describe_groups, DescribeGroupsRequest, DescribeGroupsResponse, groups; |asked, version|
        all(&asked.groups, |one| m::describe_groups::DescribedGroup {
            error_code: ERROR, group_id: one.clone(), ..Default::default()
        });
    describe_producers, DescribeProducersRequest,
        DescribeProducersResponse, topics; |asked, version|
        all(&asked.topics, |topic| m::describe_producers::TopicResponse {
            name: topic.name.clone(),
            partitions: all(&topic.partition_indexes, |index|
                m::describe_producers::PartitionResponse {
                partition_index: *index, error_code: ERROR, ..Default::default()
            }),
        });
    describe_topic_partitions, DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse, topics;
        |asked, version|
        all(&asked.topics, |one|
            m::describe_topic_partitions::DescribeTopicPartitionsResponseTopic {
            error_code: ERROR, name: Some(one.name.clone()), ..Default::default()
        });
    elect_leaders, ElectLeadersRequest, ElectLeadersResponse, replica_election_results, 1..;
        |asked, version|
        all(asked.topic_partitions.as_deref().unwrap_or_default(), |topic| {
            m::elect_leaders::ReplicaElectionResult {
                topic: topic.topic.clone(),
                partition_result: all(&topic.partitions, |index| m::elect_leaders::PartitionResult {
                    partition_id: *index, error_code: ERROR, ..Default::default()
                }),
            }
        });
    fetch, FetchRequest, FetchResponse, responses, 7..; |asked, version|
        all(&asked.topics, |topic| m::fetch::FetchableTopicResponse {
            topic: topic.topic.clone(),
            partitions: all(&topic.partitions, |one| m::fetch::PartitionData {
                partition_index: one.partition, error_code: ERROR, high_watermark: -1,
                ..Default::default()
            }),
            ..Default::default()
        });
    find_coordinator, FindCoordinatorRequest, FindCoordinatorResponse, coordinators, 0..=3;
        |asked, version|
        all(&asked.coordinator_keys, |key| m::find_coordinator::Coordinator {
            key: key.clone(), node_id: -1, port: -1, error_code: ERROR, ..Default::default()
        });
    incremental_alter_configs, IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse, responses;
        |asked, version|
        all(&asked.resources, |one| m::incremental_alter_configs::AlterConfigsResourceResponse {
            error_code: ERROR, resource_type: one.resource_type,
            resource_name: one.resource_name.clone(), ..Default::default()
        });
    list_offsets, ListOffsetsRequest, ListOffsetsResponse, topics; |asked, version|
        all(&asked.topics, |topic| m::list_offsets::ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: all(&topic.partitions, |one| m::list_offsets::ListOffsetsPartitionResponse {
                partition_index: one.partition_index, error_code: ERROR, ..Default::default()
            }),
        });
    metadata, MetadataRequest, MetadataResponse, topics, 13..; |asked, version|
        all(asked.topics.as_deref().unwrap_or_default(), |one| m::metadata::MetadataResponseTopic {
            error_code: ERROR,
            // A null name may be written from version 12 on.
            name: one.name.clone().or_else(|| (version < 12).then(String::new)),
            topic_id: one.topic_id,
            ..Default::default()
        });
    offset_commit, OffsetCommitRequest, OffsetCommitResponse, topics; |asked, version|
        all(&asked.topics, |topic| m::offset_commit::OffsetCommitResponseTopic {
            name: topic.name.clone(), topic_id: topic.topic_id,
            partitions: all(&topic.partitions, |one|
                m::offset_commit::OffsetCommitResponsePartition {
                partition_index: one.partition_index, error_code: ERROR,
            }),
        });
    offset_for_leader_epoch, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, topics;
        |asked, version|
        all(&asked.topics, |topic| m::offset_for_leader_epoch::OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: all(&topic.partitions, |one| m::offset_for_leader_epoch::EpochEndOffset {
                error_code: ERROR, partition: one.partition, ..Default::default()
            }),
        });
}

impl Panicked for m::offset_fetch::OffsetFetchRequest {
    fn whole(version: i16) -> Option<Self::Response> {
        let answer =
            || m::offset_fetch::OffsetFetchResponse { error_code: ERROR, ..Default::default() };
        (2..=7).contains(&version).then(answer)
    }

    fn answer(&self, version: i16) -> Option<Self::Response> {
        use m::offset_fetch::{
            OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
            OffsetFetchResponseTopic,
        };
        Self::whole(version).or_else(|| {
            let groups = all(&self.groups, |group| OffsetFetchResponseGroup {
                group_id: group.group_id.clone(),
                error_code: ERROR,
                ..Default::default()
            });
            let topics = all(self.topics.as_deref().unwrap_or_default(), |topic| {
                let partitions =
                    all(&topic.partition_indexes, |index| OffsetFetchResponsePartition {
                        partition_index: *index,
                        committed_offset: -1,
                        error_code: ERROR,
                        ..Default::default()
                    });
                OffsetFetchResponseTopic { name: topic.name.clone(), partitions }
            });
            Some(OffsetFetchResponse { groups, topics, ..Default::default() })
        })
    }
}

impl Panicked for m::produce::ProduceRequest {
    fn answer(&self, _version: i16) -> Option<Self::Response> {
        use m::produce::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};
        // With acks=0 nobody waits for a response; the end of the connection tells.
        (self.acks != 0).then(|| ProduceResponse {
            responses: all(&self.topic_data, |topic| TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partition_responses: all(&topic.partition_data, |one| PartitionProduceResponse {
                    index: one.index,
                    error_code: ERROR,
                    base_offset: -1,
                    log_start_offset: -1,
                    ..Default::default()
                }),
            }),
            ..Default::default()
        })
    }
}
