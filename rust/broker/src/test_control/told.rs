//! What a request and its answer say: the partitions and the group that they name, and the errors
//! of the answer.
//!
//! A recording shows it, and an explanation is made of it. The order of an answer is kept.

use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages as m;
use m::alter_partition_reassignments::AlterPartitionReassignmentsRequest;
use m::describe_topic_partitions::DescribeTopicPartitionsRequest;
use m::join_group::JoinGroupRequest;
use m::leave_group::LeaveGroupRequest;
use m::offset_delete::OffsetDeleteRequest;
use m::offset_fetch::OffsetFetchRequest;
use m::sync_group::SyncGroupRequest;

use super::faulted::{Faulted, Named};

/// The partition of what is said of a topic as a whole.
pub(super) const WHOLE: i32 = -1;

/// What a request names.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub parts: Vec<Named>,
    /// Of some APIs several.
    pub groups: Vec<String>,
    /// The member that a request of a group comes from; empty before its first answer.
    pub member: Option<String>,
}

/// The outcome of each part of an answer: Kafka's number of an error, or 0. What is about the whole
/// answer names no topic.
pub(super) type Outcomes = Vec<(Named, i16)>;

/// An API whose messages are noted.
pub(super) trait Told: Faulted {
    /// What the request names.
    fn told(&self) -> Asked {
        Asked::default()
    }

    /// Whether a broker sent it. Such requests are not noted.
    fn is_of_broker(&self) -> bool {
        false
    }

    /// The outcomes of an answer.
    fn outcomes(answer: &Self::Response) -> Outcomes;
}

fn whole(error_code: i16) -> (Named, i16) {
    ((String::new(), Uuid::ZERO, WHOLE), error_code)
}

fn of_topic(name: &str, id: Uuid) -> Named {
    (name.to_owned(), id, WHOLE)
}

fn parts(parts: Vec<Named>) -> Asked {
    Asked { parts, ..Asked::default() }
}

fn of_group(group: &str, member: Option<&str>) -> Asked {
    let (groups, member) = (vec![group.to_owned()], member.map(str::to_owned));
    Asked { parts: Vec::new(), groups, member }
}

/// Several groups; or the one of versions that know no list.
fn of_groups(groups: Vec<String>, only: &str) -> Asked {
    if groups.is_empty() { of_group(only, None) } else { Asked { groups, ..Asked::default() } }
}

/// The partitions of a list of topics. A topic without an id has none in any version.
macro_rules! named {
    ($topics:expr, $name:ident $($id:ident)?, $partitions:ident, $index:ident) => {{
        let mut all: Vec<Named> = Vec::new();
        for topic in &$topics {
            for one in &topic.$partitions {
                all.push((topic.$name.clone(), id!(topic $($id)?), one.$index));
            }
        }
        all
    }};
}

/// The outcomes of a list of topics.
macro_rules! outcomes {
    ($topics:expr, $name:ident $($id:ident)?, $partitions:ident, $index:ident) => {{
        let mut all: Outcomes = Vec::new();
        for topic in &$topics {
            for one in &topic.$partitions {
                let named = (topic.$name.clone(), id!(topic $($id)?), one.$index);
                all.push((named, one.error_code));
            }
        }
        all
    }};
}

macro_rules! id {
    ($topic:ident) => {
        Uuid::ZERO
    };
    ($topic:ident $id:ident) => {
        $topic.$id
    };
}

impl Told for m::produce::ProduceRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topic_data, name topic_id, partition_data, index))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        outcomes!(answer.responses, name topic_id, partition_responses, index)
    }
}

impl Told for m::fetch::FetchRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topics, topic topic_id, partitions, partition))
    }

    fn is_of_broker(&self) -> bool {
        self.replica_id >= 0 || self.replica_state.replica_id >= 0
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let mut all = outcomes!(answer.responses, topic topic_id, partitions, partition_index);
        all.push(whole(answer.error_code));
        all
    }
}

impl Told for m::list_offsets::ListOffsetsRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topics, name, partitions, partition_index))
    }

    fn is_of_broker(&self) -> bool {
        self.replica_id >= 0
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        outcomes!(answer.topics, name, partitions, partition_index)
    }
}

impl Told for m::offset_for_leader_epoch::OffsetForLeaderEpochRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topics, topic, partitions, partition))
    }

    fn is_of_broker(&self) -> bool {
        self.replica_id >= 0
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        outcomes!(answer.topics, topic, partitions, partition)
    }
}

impl Told for m::metadata::MetadataRequest {
    fn told(&self) -> Asked {
        let topics = self.topics.iter().flatten();
        let name = |topic: &m::metadata::MetadataRequestTopic| {
            of_topic(topic.name.as_deref().unwrap_or_default(), topic.topic_id)
        };
        parts(topics.map(name).collect())
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let mut all = vec![whole(answer.error_code)];
        for topic in &answer.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            all.push((of_topic(name, topic.topic_id), topic.error_code));
            let partitions = topic.partitions.iter();
            all.extend(partitions.map(|one| {
                ((name.to_owned(), topic.topic_id, one.partition_index), one.error_code)
            }));
        }
        all
    }
}

impl Told for DescribeTopicPartitionsRequest {
    fn told(&self) -> Asked {
        parts(self.topics.iter().map(|topic| of_topic(&topic.name, Uuid::ZERO)).collect())
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let topics = answer.topics.iter();
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        topics.map(|one| ((name(&one.name), one.topic_id, WHOLE), one.error_code)).collect()
    }
}

impl Told for m::offset_commit::OffsetCommitRequest {
    fn told(&self) -> Asked {
        let parts = named!(self.topics, name topic_id, partitions, partition_index);
        Asked { parts, ..of_group(&self.group_id, Some(&self.member_id)) }
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        outcomes!(answer.topics, name topic_id, partitions, partition_index)
    }
}

impl Told for OffsetFetchRequest {
    fn told(&self) -> Asked {
        let topics = self.topics.iter().flatten();
        let mut named: Vec<Named> = topics
            .flat_map(|topic| {
                let partitions = topic.partition_indexes.iter();
                partitions.map(|one| (topic.name.clone(), Uuid::ZERO, *one))
            })
            .collect();
        let topics = self.groups.iter().flat_map(|group| group.topics.iter().flatten());
        named.extend(topics.flat_map(|topic| {
            let partitions = topic.partition_indexes.iter();
            partitions.map(|one| (topic.name.clone(), topic.topic_id, *one))
        }));
        let groups = self.groups.iter().map(|group| group.group_id.clone());
        Asked { parts: named, ..of_groups(groups.collect(), &self.group_id) }
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let mut all = outcomes!(answer.topics, name, partitions, partition_index);
        if answer.groups.is_empty() {
            all.push(whole(answer.error_code));
        }
        for group in &answer.groups {
            all.push(whole(group.error_code));
            all.extend(outcomes!(group.topics, name topic_id, partitions, partition_index));
        }
        all
    }
}

impl Told for m::delete_records::DeleteRecordsRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topics, name, partitions, partition_index))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        outcomes!(answer.topics, name, partitions, partition_index)
    }
}

impl Told for JoinGroupRequest {
    fn told(&self) -> Asked {
        of_group(&self.group_id, Some(&self.member_id))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        vec![whole(answer.error_code)]
    }
}

impl Told for SyncGroupRequest {
    fn told(&self) -> Asked {
        of_group(&self.group_id, Some(&self.member_id))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        vec![whole(answer.error_code)]
    }
}

impl Told for m::heartbeat::HeartbeatRequest {
    fn told(&self) -> Asked {
        of_group(&self.group_id, Some(&self.member_id))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        vec![whole(answer.error_code)]
    }
}

impl Told for LeaveGroupRequest {
    fn told(&self) -> Asked {
        of_group(&self.group_id, Some(&self.member_id))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let members = answer.members.iter().map(|member| whole(member.error_code));
        [whole(answer.error_code)].into_iter().chain(members).collect()
    }
}

impl Told for OffsetDeleteRequest {
    fn told(&self) -> Asked {
        let parts = named!(self.topics, name, partitions, partition_index);
        Asked { parts, ..of_group(&self.group_id, None) }
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let mut all = outcomes!(answer.topics, name, partitions, partition_index);
        all.push(whole(answer.error_code));
        all
    }
}

impl Told for m::find_coordinator::FindCoordinatorRequest {
    fn told(&self) -> Asked {
        /// The type of a group's coordinator.
        const GROUP: i8 = 0;
        let is_group = self.key_type == GROUP;
        let of_keys = || of_groups(self.coordinator_keys.clone(), &self.key);
        if is_group { of_keys() } else { Asked::default() }
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let found = answer.coordinators.iter().map(|one| whole(one.error_code));
        found.chain([whole(answer.error_code)]).collect()
    }
}

impl Told for AlterPartitionReassignmentsRequest {
    fn told(&self) -> Asked {
        parts(named!(self.topics, name, partitions, partition_index))
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let mut all = outcomes!(answer.responses, name, partitions, partition_index);
        all.push(whole(answer.error_code));
        all
    }
}

/// APIs of topics: an outcome for each.
macro_rules! of_topics {
    ($($module:ident, $request:ident: $asked:ident, $answered:ident;)*) => {$(
        impl Told for m::$module::$request {
            fn told(&self) -> Asked {
                parts(self.$asked.iter().map(|topic| of_topic(&topic.name, Uuid::ZERO)).collect())
            }

            fn outcomes(answer: &Self::Response) -> Outcomes {
                let topics = answer.$answered.iter();
                topics.map(|one| (of_topic(&one.name, Uuid::ZERO), one.error_code)).collect()
            }
        }
    )*};
}

of_topics! {
    create_topics, CreateTopicsRequest: topics, topics;
    create_partitions, CreatePartitionsRequest: topics, results;
}

impl Told for m::delete_topics::DeleteTopicsRequest {
    fn told(&self) -> Asked {
        let names = self.topic_names.iter().map(|name| of_topic(name, Uuid::ZERO));
        let topics = self
            .topics
            .iter()
            .map(|topic| of_topic(topic.name.as_deref().unwrap_or_default(), topic.topic_id));
        parts(names.chain(topics).collect())
    }

    fn outcomes(answer: &Self::Response) -> Outcomes {
        let topics = answer.responses.iter();
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        topics.map(|one| ((name(&one.name), one.topic_id, WHOLE), one.error_code)).collect()
    }
}

/// APIs of several groups: an outcome for each.
macro_rules! of_several_groups {
    ($($module:ident, $request:ident: $asked:ident, $answered:ident;)*) => {$(
        impl Told for m::$module::$request {
            fn told(&self) -> Asked {
                Asked { groups: self.$asked.clone(), ..Asked::default() }
            }

            fn outcomes(answer: &Self::Response) -> Outcomes {
                answer.$answered.iter().map(|one| whole(one.error_code)).collect()
            }
        }
    )*};
}

of_several_groups! {
    describe_groups, DescribeGroupsRequest: groups, groups;
    delete_groups, DeleteGroupsRequest: groups_names, results;
}

/// APIs whose answers are a list of outcomes of things that are no topics.
macro_rules! listed {
    ($($module:ident, $request:ident: $list:ident;)*) => {$(
        impl Told for m::$module::$request {
            fn outcomes(answer: &Self::Response) -> Outcomes {
                answer.$list.iter().map(|one| whole(one.error_code)).collect()
            }
        }
    )*};
}

listed! {
    create_acls, CreateAclsRequest: results;
    delete_acls, DeleteAclsRequest: filter_results;
    describe_configs, DescribeConfigsRequest: results;
    alter_configs, AlterConfigsRequest: responses;
    incremental_alter_configs, IncrementalAlterConfigsRequest: responses;
}

/// APIs whose answers are outcomes of partitions.
macro_rules! of_partitions {
    ($($module:ident, $request:ident: $topics:ident, $name:ident;)*) => {$(
        impl Told for m::$module::$request {
            fn outcomes(answer: &Self::Response) -> Outcomes {
                outcomes!(
                    answer.$topics,
                    $name,
                    partitions,
                    partition_index
                )
            }
        }
    )*};
}

of_partitions! {
    alter_replica_log_dirs, AlterReplicaLogDirsRequest: results, topic_name;
    describe_producers, DescribeProducersRequest: topics, name;
}

/// APIs with one error for the whole answer.
macro_rules! one_error {
    ($($module:ident, $request:ident;)*) => {$(
        impl Told for m::$module::$request {
            fn outcomes(answer: &Self::Response) -> Outcomes {
                vec![whole(answer.error_code)]
            }
        }
    )*};
}

one_error! {
    list_groups, ListGroupsRequest;
    sasl_handshake, SaslHandshakeRequest;
    sasl_authenticate, SaslAuthenticateRequest;
    api_versions, ApiVersionsRequest;
    init_producer_id, InitProducerIdRequest;
    describe_acls, DescribeAclsRequest;
    describe_log_dirs, DescribeLogDirsRequest;
    create_delegation_token, CreateDelegationTokenRequest;
    renew_delegation_token, RenewDelegationTokenRequest;
    expire_delegation_token, ExpireDelegationTokenRequest;
    describe_delegation_token, DescribeDelegationTokenRequest;
    elect_leaders, ElectLeadersRequest;
    list_partition_reassignments, ListPartitionReassignmentsRequest;
    describe_client_quotas, DescribeClientQuotasRequest;
    describe_user_scram_credentials, DescribeUserScramCredentialsRequest;
    describe_quorum, DescribeQuorumRequest;
    update_features, UpdateFeaturesRequest;
    describe_cluster, DescribeClusterRequest;
    unregister_broker, UnregisterBrokerRequest;
    list_config_resources, ListConfigResourcesRequest;
    add_raft_voter, AddRaftVoterRequest;
    remove_raft_voter, RemoveRaftVoterRequest;
    get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest;
    push_telemetry, PushTelemetryRequest;
}
