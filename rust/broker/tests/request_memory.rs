//! How much memory one request may cost: less than 200 MiB beyond its own frame's buffer, whatever
//! it names and however often.
//!
//! The allocator counts, so nothing here depends on the machine. One test in a process of its own.
#![allow(clippy::unwrap_used)]

mod client;
#[path = "../../testing/counting.rs"]
mod counting;

use bytes::Bytes;
use client::{create_topic, start};
use counting::peak_of;
use kafkalite_broker::broker::Broker;
use kafkalite_protocol::Writer;
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages as m;
use kafkalite_protocol::messages::Request;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Elements of the large array of each request: one topic or group is named beside it.
const MANY: usize = 900_000;
/// Partitions that topic `t` has.
const PARTITIONS: usize = 100;
/// What one request may cost, in bytes.
const MOST: usize = 200 << 20;

struct Case {
    name: &'static str,
    frame: Bytes,
}

fn case<R: Request>(name: &'static str, request: &R, version: i16) -> Case {
    let mut writer = Writer::new();
    writer.i32(0);
    let header = RequestHeader {
        api_key: R::API_KEY as i16,
        api_version: version,
        correlation_id: 1,
        client_id: None,
    };
    header.encode(&mut writer);
    request.encode(&mut writer, version);
    writer.patch_size();
    Case { name, frame: writer.into_bytes() }
}

/// Sends the frame and throws the answer away. Returns the most memory that this took, in bytes,
/// and the length of the answer, 0 if the connection was closed.
fn cost(broker: &Broker, frame: &[u8]) -> (usize, usize) {
    let mut stream = TcpStream::connect(broker.listeners()[0].1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    peak_of(|| {
        // A connection that is closed before all was sent refuses the rest.
        let _ = stream.write_all(frame);
        let mut size = [0; 4];
        let mut left = match stream.read_exact(&mut size) {
            Ok(()) => u32::from_be_bytes(size) as usize,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer"),
            Err(_) => 0,
        };
        let length = left;
        let mut sink = [0; 1 << 14];
        while left > 0 {
            let most = left.min(sink.len());
            left -= stream.read(&mut sink[..most]).unwrap();
        }
        length
    })
}

fn number(i: usize) -> String {
    format!("{i:06x}")
}

fn indexes() -> Vec<i32> {
    (0..MANY as i32).collect()
}

/// Every API that names things one after the other, each with as many as a request may name.
type MakeCase = fn() -> Case;

/// What clients send to read, to write and to commit.
const DATA: &[MakeCase] = &[
    || fetch("Fetch v11", 11),
    || fetch("Fetch v18", 18),
    || {
        let name = |i| m::metadata::MetadataRequestTopic {
            name: Some(number(i)),
            ..m::metadata::MetadataRequestTopic::default()
        };
        let request = m::metadata::MetadataRequest {
            topics: Some((0..MANY).map(name).collect()),
            ..m::metadata::MetadataRequest::default()
        };
        case("Metadata", &request, 12)
    },
    || {
        let partition = |partition_index| m::list_offsets::ListOffsetsPartition {
            partition_index,
            ..m::list_offsets::ListOffsetsPartition::default()
        };
        let topic = m::list_offsets::ListOffsetsTopic {
            name: "t".into(),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request = m::list_offsets::ListOffsetsRequest {
            topics: vec![topic],
            ..m::list_offsets::ListOffsetsRequest::default()
        };
        case("ListOffsets", &request, 7)
    },
    || commit("OffsetCommit", 1),
    || commit("OffsetCommit of real partitions", PARTITIONS),
    || {
        let topic = m::offset_fetch::OffsetFetchRequestTopics {
            name: "t".into(),
            partition_indexes: indexes(),
            ..m::offset_fetch::OffsetFetchRequestTopics::default()
        };
        let group = m::offset_fetch::OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics: Some(vec![topic]),
            ..m::offset_fetch::OffsetFetchRequestGroup::default()
        };
        let request = m::offset_fetch::OffsetFetchRequest {
            groups: vec![group],
            ..m::offset_fetch::OffsetFetchRequest::default()
        };
        case("OffsetFetch", &request, 9)
    },
    || {
        let partition = |partition| m::offset_for_leader_epoch::OffsetForLeaderPartition {
            partition,
            ..m::offset_for_leader_epoch::OffsetForLeaderPartition::default()
        };
        let topic = m::offset_for_leader_epoch::OffsetForLeaderTopic {
            topic: "t".into(),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request = m::offset_for_leader_epoch::OffsetForLeaderEpochRequest {
            topics: vec![topic],
            ..m::offset_for_leader_epoch::OffsetForLeaderEpochRequest::default()
        };
        case("OffsetForLeaderEpoch", &request, 4)
    },
    || {
        let partition = |index| m::produce::PartitionProduceData { index, records: None };
        let topic = m::produce::TopicProduceData {
            name: "t".into(),
            partition_data: indexes().into_iter().map(partition).collect(),
            ..m::produce::TopicProduceData::default()
        };
        let request = m::produce::ProduceRequest {
            acks: -1,
            topic_data: vec![topic],
            ..m::produce::ProduceRequest::default()
        };
        case("Produce", &request, 9)
    },
    || {
        // Each answer has a message, where the partition is there.
        let partition = |_| m::produce::PartitionProduceData { index: 0, records: None };
        let topic = m::produce::TopicProduceData {
            name: "t".into(),
            partition_data: indexes().into_iter().map(partition).collect(),
            ..m::produce::TopicProduceData::default()
        };
        let request = m::produce::ProduceRequest {
            acks: -1,
            topic_data: vec![topic],
            ..m::produce::ProduceRequest::default()
        };
        case("Produce of one partition many times", &request, 9)
    },
    || {
        let keys = (0..MANY).map(number).collect();
        let request = m::find_coordinator::FindCoordinatorRequest {
            coordinator_keys: keys,
            ..m::find_coordinator::FindCoordinatorRequest::default()
        };
        case("FindCoordinator", &request, 6)
    },
];

fn fetch(name: &'static str, version: i16) -> Case {
    let partition = |partition| m::fetch::FetchPartition {
        partition,
        partition_max_bytes: 1,
        ..m::fetch::FetchPartition::default()
    };
    let topic = m::fetch::FetchTopic {
        topic: "t".into(),
        partitions: indexes().into_iter().map(partition).collect(),
        ..m::fetch::FetchTopic::default()
    };
    let request = m::fetch::FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        topics: vec![topic],
        ..m::fetch::FetchRequest::default()
    };
    case(name, &request, version)
}

/// Commits of partitions that are there, or not.
fn commit(name: &'static str, partitions: usize) -> Case {
    let partition = |i| m::offset_commit::OffsetCommitRequestPartition {
        partition_index: if partitions > 1 {
            (i % partitions) as i32
        } else {
            (PARTITIONS + i) as i32
        },
        committed_metadata: None,
        ..m::offset_commit::OffsetCommitRequestPartition::default()
    };
    let topic = m::offset_commit::OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: (0..MANY).map(partition).collect(),
        ..m::offset_commit::OffsetCommitRequestTopic::default()
    };
    let request = m::offset_commit::OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..m::offset_commit::OffsetCommitRequest::default()
    };
    case(name, &request, 8)
}

/// What administrators send.
const ADMIN: &[MakeCase] = &[
    || {
        let request = m::delete_topics::DeleteTopicsRequest {
            topic_names: (0..MANY).map(number).collect(),
            timeout_ms: 1_000,
            ..m::delete_topics::DeleteTopicsRequest::default()
        };
        case("DeleteTopics v5", &request, 5)
    },
    || {
        let topic = |i| m::delete_topics::DeleteTopicState {
            name: Some(number(i)),
            ..m::delete_topics::DeleteTopicState::default()
        };
        let request = m::delete_topics::DeleteTopicsRequest {
            topics: (0..MANY).map(topic).collect(),
            timeout_ms: 1_000,
            ..m::delete_topics::DeleteTopicsRequest::default()
        };
        case("DeleteTopics v6", &request, 6)
    },
    || {
        let topic = |i| m::create_topics::CreatableTopic {
            name: number(i),
            num_partitions: -1,
            replication_factor: -1,
            ..m::create_topics::CreatableTopic::default()
        };
        let request = m::create_topics::CreateTopicsRequest {
            topics: (0..MANY / 2).map(topic).collect(),
            timeout_ms: 1_000,
            ..m::create_topics::CreateTopicsRequest::default()
        };
        case("CreateTopics", &request, 5)
    },
    || {
        let topic = |i| m::create_partitions::CreatePartitionsTopic {
            name: number(i),
            count: 2,
            ..m::create_partitions::CreatePartitionsTopic::default()
        };
        let request = m::create_partitions::CreatePartitionsRequest {
            topics: (0..MANY).map(topic).collect(),
            timeout_ms: 1_000,
            validate_only: false,
        };
        case("CreatePartitions", &request, 3)
    },
    || {
        let partition = |partition_index| m::delete_records::DeleteRecordsPartition {
            partition_index,
            offset: 0,
        };
        let topic = m::delete_records::DeleteRecordsTopic {
            name: "t".into(),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request =
            m::delete_records::DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000 };
        case("DeleteRecords", &request, 2)
    },
    || {
        let topic =
            m::elect_leaders::TopicPartitions { topic: "n".repeat(32_000), partitions: indexes() };
        let request = m::elect_leaders::ElectLeadersRequest {
            topic_partitions: Some(vec![topic]),
            timeout_ms: 1_000,
            ..m::elect_leaders::ElectLeadersRequest::default()
        };
        case("ElectLeaders", &request, 2)
    },
    || {
        let partition = |partition_index| m::alter_partition_reassignments::ReassignablePartition {
            partition_index,
            replicas: None,
        };
        let topic = m::alter_partition_reassignments::ReassignableTopic {
            name: "n".repeat(32_000),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request = m::alter_partition_reassignments::AlterPartitionReassignmentsRequest {
            topics: vec![topic],
            timeout_ms: 1_000,
            ..m::alter_partition_reassignments::AlterPartitionReassignmentsRequest::default()
        };
        case("AlterPartitionReassignments", &request, 0)
    },
    || {
        let resource = |i| m::describe_configs::DescribeConfigsResource {
            resource_type: 2,
            resource_name: number(i),
            ..m::describe_configs::DescribeConfigsResource::default()
        };
        let request = m::describe_configs::DescribeConfigsRequest {
            resources: (0..MANY).map(resource).collect(),
            ..m::describe_configs::DescribeConfigsRequest::default()
        };
        case("DescribeConfigs", &request, 4)
    },
    || {
        let resource = |i| m::alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: number(i),
            ..m::alter_configs::AlterConfigsResource::default()
        };
        let request = m::alter_configs::AlterConfigsRequest {
            resources: (0..MANY).map(resource).collect(),
            validate_only: false,
        };
        case("AlterConfigs", &request, 2)
    },
    || {
        let resource = |i| m::incremental_alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: number(i),
            ..m::incremental_alter_configs::AlterConfigsResource::default()
        };
        let request = m::incremental_alter_configs::IncrementalAlterConfigsRequest {
            resources: (0..MANY).map(resource).collect(),
            validate_only: false,
        };
        case("IncrementalAlterConfigs", &request, 1)
    },
];

/// What administrators ask of groups, producers and directories.
const DESCRIBING: &[MakeCase] = &[
    || {
        let request = m::describe_groups::DescribeGroupsRequest {
            groups: (0..MANY).map(number).collect(),
            ..m::describe_groups::DescribeGroupsRequest::default()
        };
        case("DescribeGroups", &request, 6)
    },
    || {
        let groups_names = (0..MANY).map(number).collect();
        case("DeleteGroups", &m::delete_groups::DeleteGroupsRequest { groups_names }, 2)
    },
    || {
        let member = |i| m::leave_group::MemberIdentity {
            member_id: number(i),
            ..m::leave_group::MemberIdentity::default()
        };
        let request = m::leave_group::LeaveGroupRequest {
            group_id: "g".into(),
            members: (0..MANY).map(member).collect(),
            ..m::leave_group::LeaveGroupRequest::default()
        };
        case("LeaveGroup", &request, 5)
    },
    || {
        let partition =
            |partition_index| m::offset_delete::OffsetDeleteRequestPartition { partition_index };
        let topic = m::offset_delete::OffsetDeleteRequestTopic {
            name: "t".into(),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request =
            m::offset_delete::OffsetDeleteRequest { group_id: "g".into(), topics: vec![topic] };
        case("OffsetDelete", &request, 0)
    },
    || {
        let topic = |i| m::describe_topic_partitions::TopicRequest { name: number(i) };
        let request = m::describe_topic_partitions::DescribeTopicPartitionsRequest {
            topics: (0..MANY).map(topic).collect(),
            ..m::describe_topic_partitions::DescribeTopicPartitionsRequest::default()
        };
        case("DescribeTopicPartitions", &request, 0)
    },
    || {
        let topic =
            m::describe_producers::TopicRequest { name: "t".into(), partition_indexes: indexes() };
        let request = m::describe_producers::DescribeProducersRequest { topics: vec![topic] };
        case("DescribeProducers", &request, 0)
    },
    || {
        let partition = |i| m::describe_quorum::PartitionData { partition_index: i };
        let topic = m::describe_quorum::TopicData {
            topic_name: "t".into(),
            partitions: indexes().into_iter().map(partition).collect(),
        };
        let request = m::describe_quorum::DescribeQuorumRequest { topics: vec![topic] };
        case("DescribeQuorum of others", &request, 2)
    },
    || {
        let partition = m::describe_quorum::PartitionData { partition_index: 0 };
        let topic = m::describe_quorum::TopicData {
            topic_name: "__cluster_metadata".into(),
            partitions: vec![partition; MANY],
        };
        let request = m::describe_quorum::DescribeQuorumRequest { topics: vec![topic] };
        case("DescribeQuorum", &request, 2)
    },
    || {
        let topic = m::describe_log_dirs::DescribableLogDirTopic {
            topic: "t".into(),
            partitions: indexes(),
        };
        let request = m::describe_log_dirs::DescribeLogDirsRequest { topics: Some(vec![topic]) };
        case("DescribeLogDirs", &request, 4)
    },
    || {
        let topic = m::alter_replica_log_dirs::AlterReplicaLogDirTopic {
            name: "t".into(),
            partitions: indexes(),
        };
        let dir = m::alter_replica_log_dirs::AlterReplicaLogDir {
            path: "/nowhere".into(),
            topics: vec![topic],
        };
        let request = m::alter_replica_log_dirs::AlterReplicaLogDirsRequest { dirs: vec![dir] };
        case("AlterReplicaLogDirs", &request, 2)
    },
    || {
        let creation = |i| m::create_acls::AclCreation {
            resource_name: number(i),
            ..m::create_acls::AclCreation::default()
        };
        let request =
            m::create_acls::CreateAclsRequest { creations: (0..MANY / 2).map(creation).collect() };
        case("CreateAcls", &request, 3)
    },
    || {
        let filter = |_| m::delete_acls::DeleteAclsFilter::default();
        let request =
            m::delete_acls::DeleteAclsRequest { filters: (0..MANY).map(filter).collect() };
        case("DeleteAcls", &request, 3)
    },
];

/// A Fetch of 900,000 partitions (25 MB) took 524 MiB, DeleteTopics of 900,000 names (6 MB) 494.
#[test]
fn no_request_takes_two_hundred_mebibytes() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("offsets.topic.num.partitions", "1"), ("kafkalite.disk.sync", "false")];
    let broker = start(directory.path(), &settings);
    create_topic(&broker, "t", PARTITIONS as i32, &[]);
    let mut too_much = Vec::new();
    for make in [DATA, ADMIN, DESCRIBING].concat() {
        let Case { name, frame } = make();
        let (peak, answered) = cost(&broker, &frame);
        if peak >= MOST {
            too_much.push(format!(
                "{name}: {} KiB asked, {} KiB answered, {} MiB at most",
                frame.len() >> 10,
                answered >> 10,
                peak >> 20
            ));
        }
    }
    broker.stop();
    assert!(too_much.is_empty(), "{too_much:#?}");
}
