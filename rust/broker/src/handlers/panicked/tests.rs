#![allow(clippy::unwrap_used)]

use super::*;
use crate::handlers::SERVED;
use crate::handlers::on_panic;
use kafkalite_protocol::ApiKey;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic,
};
use kafkalite_protocol::messages::heartbeat::HeartbeatResponse;
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};
use kafkalite_protocol::{Writer, header};

fn slot(api: ApiKey, api_version: i16) -> Slot {
    Slot { api_key: api as i16, api_version, correlation_id: 77, received_ns: 0 }
}

fn body<R: Request>(request: &R, version: i16) -> Bytes {
    let mut writer = Writer::new();
    request.encode(&mut writer, version);
    writer.into_bytes()
}

/// The body of the answer to a request whose handler panicked.
fn answered<W: Wire>(api: ApiKey, version: i16, body: Option<Bytes>) -> Option<W> {
    let Response::Pieces(pieces) = on_panic(&slot(api, version), body)? else { return None };
    let Some(crate::response_queue::Piece::Mem(bytes)) = pieces.first() else { return None };
    let head = if header::response_header_is_flexible(api, version) { 9 } else { 8 };
    assert_eq!(bytes[4..8], 77_i32.to_be_bytes(), "the correlation id");
    let mut reader = Reader::new(bytes.slice(head..));
    Some(W::decode(&mut reader, version).unwrap())
}

#[test]
fn every_served_api_says_so_in_its_highest_version_or_closes() {
    let closed: Vec<_> = SERVED
        .iter()
        .filter(|api| on_panic(&slot(**api, api.versions().max), None).is_none())
        .collect();
    // These have no error for all; they need the request to name what failed.
    use ApiKey::*;
    let expected = [
        &Produce,
        &ListOffsets,
        &OffsetCommit,
        &OffsetFetch,
        &FindCoordinator,
        &DescribeGroups,
        &CreateTopics,
        &DeleteTopics,
        &DeleteRecords,
        &OffsetForLeaderEpoch,
        &CreateAcls,
        &DeleteAcls,
        &DescribeConfigs,
        &AlterConfigs,
        &AlterReplicaLogDirs,
        &CreatePartitions,
        &DeleteGroups,
        &IncrementalAlterConfigs,
        &DescribeProducers,
        &DescribeTopicPartitions,
    ];
    assert_eq!(closed, expected);
}

#[test]
fn a_response_with_an_error_for_all_carries_it_without_the_request() {
    let response: HeartbeatResponse = answered(ApiKey::Heartbeat, 4, None).unwrap();
    assert_eq!(response.error_code, ERROR);
}

#[test]
fn an_old_fetch_echoes_its_partitions_and_a_new_one_its_error() {
    let partitions = vec![FetchPartition { partition: 3, ..FetchPartition::default() }];
    let topics = vec![FetchTopic { topic: "t".into(), partitions, ..FetchTopic::default() }];
    let request = FetchRequest { topics, ..FetchRequest::default() };
    let old: FetchResponse = answered(ApiKey::Fetch, 4, Some(body(&request, 4))).unwrap();
    let partition = &old.responses[0].partitions[0];
    assert_eq!((partition.partition_index, partition.error_code), (3, ERROR));
    let new: FetchResponse = answered(ApiKey::Fetch, 11, Some(body(&request, 11))).unwrap();
    assert_eq!((new.error_code, new.responses.len()), (ERROR, 0));
}

#[test]
fn a_produce_echoes_its_partitions_unless_nobody_waits_for_them() {
    for (acks, answers) in [(-1, true), (1, true), (0, false)] {
        let partition_data = vec![PartitionProduceData { index: 2, records: None }];
        let data = TopicProduceData { name: "t".into(), partition_data, ..Default::default() };
        let request = ProduceRequest { acks, topic_data: vec![data], ..Default::default() };
        let response: Option<ProduceResponse> =
            answered(ApiKey::Produce, 9, Some(body(&request, 9)));
        let code = response.map(|one| one.responses[0].partition_responses[0].error_code);
        assert_eq!(code, answers.then_some(ERROR), "acks {acks}");
    }
}

#[test]
fn a_body_that_does_not_parse_closes_where_the_request_is_needed() {
    assert!(on_panic(&slot(ApiKey::Produce, 9), Some(Bytes::from_static(b"\xff"))).is_none());
}
