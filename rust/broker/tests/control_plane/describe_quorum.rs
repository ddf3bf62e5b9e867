use super::*;
use kafkalite_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, PartitionData, TopicData,
};

fn ask(topic: &str, partition_index: i32) -> DescribeQuorumRequest {
    let partitions = vec![PartitionData { partition_index }];
    DescribeQuorumRequest { topics: vec![TopicData { topic_name: topic.to_owned(), partitions }] }
}

#[test]
fn the_one_voter_leads_and_has_everything() {
    let mut fixture = Fixture::new();
    let id = fixture.broker.rooms().config().node_id;
    for version in 0..=2 {
        let response = fixture.call(&ask("__cluster_metadata", 0), version);
        let quorum = &response.topics[0].partitions[0];
        assert_eq!((quorum.error_code, quorum.leader_id, quorum.leader_epoch), (0, id, 1));
        let voters: Vec<_> =
            quorum.current_voters.iter().map(|v| (v.replica_id, v.log_end_offset)).collect();
        assert_eq!(voters, [(id, quorum.high_watermark)], "v{version}");
        assert!(quorum.high_watermark > 0);
        assert_eq!(response.nodes.len(), usize::from(version == 2));
    }
}

#[test]
fn there_is_no_other_quorum() {
    let mut fixture = Fixture::new();
    for (topic, index) in [("foo", 0), ("__cluster_metadata", 7)] {
        let response = fixture.call(&ask(topic, index), 2);
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition.code(), "{topic}-{index}");
    }
}

/// Each was answered with all voters: a request of 4 MB was worth hundreds.
#[test]
fn a_request_that_names_several_partitions_gets_none() {
    let mut fixture = Fixture::new();
    let own = ask("__cluster_metadata", 0).topics.remove(0);
    let partitions = [own.partitions.clone(), own.partitions.clone()].concat();
    let twice = TopicData { partitions, ..own.clone() };
    for topics in [vec![own.clone(), own], vec![twice]] {
        let response = fixture.call(&DescribeQuorumRequest { topics }, 2);
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        let codes: Vec<_> = partitions.map(|one| one.error_code).collect();
        assert_eq!(codes, [ErrorCode::UnknownTopicOrPartition.code(); 2]);
        assert!(response.nodes.is_empty());
    }
}
