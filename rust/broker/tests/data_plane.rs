//! Produce and fetch through sockets, every room included.
#![allow(clippy::unwrap_used)]

mod client;

use client::{Client, batch, create_topic, produce_request, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::metadata::controller::TopicName;
use kafkalite_log::LogError;
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafkalite_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic,
};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafkalite_protocol::messages::produce::ProduceRequest;
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, Records};
use std::time::Instant;

fn fetch_request(topic: &str, offset: i64, min_bytes: i32, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition {
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    FetchRequest {
        replica_id: -1,
        max_wait_ms,
        min_bytes,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.into(),
            partitions: vec![partition],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

/// The values of partition 0, in order.
fn values(response: &FetchResponse) -> Vec<String> {
    let records = response.responses[0].partitions[0].records.clone().unwrap_or_default();
    let bytes = records.into_bytes();
    let mut rest = &bytes[..];
    let mut values = Vec::new();
    while !rest.is_empty() {
        let batch = RecordBatch::parse(rest).unwrap();
        batch.verify_crc().unwrap();
        for record in &batch.records(1 << 20).unwrap() {
            values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
        }
        rest = &rest[batch.header().size()..];
    }
    values
}

#[test]
fn what_was_produced_is_fetched() {
    for inline in ["auto", "never", "always"] {
        let directory = tempfile::tempdir().unwrap();
        let broker = start(directory.path(), &[("kafkalite.request.inline", inline)]);
        create_topic(&broker, "t", 1, &[]);
        let mut client = Client::connect(&broker);
        for (acks, text, offset) in [(1, "one", 0), (-1, "two", 1), (1, "three", 2)] {
            let answer = client.produce("t", batch(&[text], None), acks);
            assert_eq!((answer.error_code, answer.base_offset), (0, offset), "inline {inline}");
        }
        let response = client.call(&fetch_request("t", 0, 1, 1_000), 12);
        assert_eq!(values(&response), ["one", "two", "three"], "inline {inline}");
        assert_eq!(response.responses[0].partitions[0].high_watermark, 3);
        broker.stop();
    }
}

#[test]
fn acks_0_gets_no_answer_and_an_error_closes_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.send(&produce_request("t", batch(&["silent"], None), 0), 9);
    assert_eq!(client.produce("t", batch(&["loud"], None), 1).base_offset, 1);
    client.send(&produce_request("missing", batch(&["lost"], None), 0), 9);
    assert!(client.receive::<ProduceRequest>(9).is_none());
    broker.stop();
}

#[test]
fn a_fetch_waits_for_records() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut consumer = Client::connect(&broker);
    let mut producer = Client::connect(&broker);
    consumer.send(&fetch_request("t", 0, 1, 60_000), 12);
    producer.produce("t", batch(&["awaited"], None), 1);
    let (_, response) = consumer.receive::<FetchRequest>(12).unwrap();
    assert_eq!(values(&response), ["awaited"]);
    broker.stop();
}

#[test]
fn a_fetch_ends_at_its_longest_wait() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let begin = Instant::now();
    let response = client.call(&fetch_request("t", 0, 1, 50), 12);
    assert!(values(&response).is_empty());
    assert!(begin.elapsed().as_millis() >= 50);
    broker.stop();
}

#[test]
fn sequences_are_kept_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    assert_eq!(client.produce("t", batch(&["a", "b"], Some((7, 0, 0))), -1).base_offset, 0);
    broker.stop();
    let broker = start(directory.path(), &[]);
    let mut client = Client::connect(&broker);
    for (story, first, epoch, error, offset) in [
        ("the same again", 0, 0, ErrorCode::None, 0),
        ("the next", 2, 0, ErrorCode::None, 2),
        ("a gap", 9, 0, ErrorCode::OutOfOrderSequenceNumber, -1),
        ("a new epoch", 0, 1, ErrorCode::None, 4),
        ("an old epoch", 4, 0, ErrorCode::InvalidProducerEpoch, -1),
    ] {
        let answer = client.produce("t", batch(&["a", "b"], Some((7, epoch, first))), -1);
        assert_eq!((answer.error_code, answer.base_offset), (error.code(), offset), "{story}");
    }
    broker.stop();
}

fn delete_records(client: &mut Client, topic: &str, offset: i64) {
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
    let topics = vec![DeleteRecordsTopic { name: topic.into(), partitions }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 5_000 };
    assert_eq!(client.call(&request, 2).topics[0].partitions[0].low_watermark, offset);
}

/// Both were deleted below, and Kafka would have kept what the last one spares.
#[test]
fn of_a_partition_that_a_delete_names_twice_the_last_offset_counts() {
    let broker = start(tempfile::tempdir().unwrap().path(), &[]);
    let mut client = Client::connect(&broker);
    let of = |offset| DeleteRecordsPartition { partition_index: 0, offset };
    let named = |name: &str, offsets: &[i64]| DeleteRecordsTopic {
        name: name.into(),
        partitions: offsets.iter().copied().map(of).collect(),
    };
    for (name, topics) in [
        ("a", vec![named("a", &[3, 1])]),
        ("b", vec![named("b", &[3]), named("gone", &[1]), named("b", &[1])]),
    ] {
        create_topic(&broker, name, 1, &[]);
        client.produce(name, batch(&["a", "b", "c"], None), -1);
        let answer = client.call(&DeleteRecordsRequest { topics, timeout_ms: 5_000 }, 2);
        let told: Vec<_> = answer.topics[0].partitions.iter().map(|p| p.low_watermark).collect();
        assert_eq!(told, [1], "{answer:?}");
        assert_eq!(values(&client.call(&fetch_request(name, 1, 1, 0), 11)), ["a", "b", "c"]);
    }
    broker.stop();
}

fn make_again(broker: &Broker, topic: &str) {
    let gone = [TopicName::Name(topic.into())];
    broker.rooms().controller.blocking().delete_topics(&gone).pop().unwrap().unwrap();
    create_topic(broker, topic, 1, &[]);
}

/// The checkpoints tell by topic and partition where a log starts. A topic that was deleted and
/// made again under its name began where the old one had started: its first record got offset 3.
#[test]
fn a_topic_that_is_made_again_after_a_restart_begins_at_0() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.produce("t", batch(&["a", "b", "c"], None), -1);
    delete_records(&mut client, "t", 3);
    broker.stop();
    let broker = start(directory.path(), &[]);
    make_again(&broker, "t");
    let mut client = Client::connect(&broker);
    assert_eq!(client.produce("t", batch(&["new"], None), -1).base_offset, 0);
    broker.stop();
}

/// They stayed on the disk until their next turn, too. After a crash the new topic started where
/// the old one had, and its records below that were hidden.
#[test]
fn a_topic_that_is_made_again_keeps_its_records_through_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.produce("t", batch(&["a", "b", "c"], None), -1);
    delete_records(&mut client, "t", 3);
    make_again(&broker, "t");
    assert_eq!(client.produce("t", batch(&["new"], None), -1).base_offset, 0);
    broker.kill();
    let broker = start(directory.path(), &[]);
    let mut client = Client::connect(&broker);
    assert_eq!(values(&client.call(&fetch_request("t", 0, 1, 1_000), 12)), ["new"]);
    broker.stop();
}

#[test]
fn each_partition_is_refused_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let mut corrupt = batch(&["x"], None).to_vec();
    *corrupt.last_mut().unwrap() ^= 1;
    for (story, topic, bytes, acks, error) in [
        ("unknown topic", "nope", batch(&["x"], None), 1, ErrorCode::UnknownTopicOrPartition),
        ("bad CRC", "t", corrupt.into(), 1, ErrorCode::CorruptMessage),
        ("bad acks", "t", batch(&["x"], None), 2, ErrorCode::InvalidRequiredAcks),
    ] {
        let answer = client.produce(topic, bytes, acks);
        assert_eq!((answer.error_code, answer.base_offset), (error.code(), -1), "{story}");
    }
    assert_eq!(client.produce("t", batch(&["x"], None), 1).base_offset, 0);
    broker.stop();
}

#[test]
fn only_a_refusal_by_the_log_tells_where_the_log_starts() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.produce("t", batch(&["a"], Some((7, 0, 0))), 1);
    let mut transactional = batch(&["x"], Some((7, 0, 1))).to_vec();
    transactional[22] |= 0x10;
    for (story, topic, bytes, error, start) in [
        ("a gap", "t", batch(&["x"], Some((7, 0, 5))), ErrorCode::OutOfOrderSequenceNumber, 0),
        ("nothing", "t", Vec::new().into(), ErrorCode::InvalidRecord, -1),
        ("unknown topic", "no", batch(&["x"], None), ErrorCode::UnknownTopicOrPartition, -1),
        (
            "transactional",
            "t",
            transactional.into(),
            ErrorCode::TransactionalIdAuthorizationFailed,
            -1,
        ),
    ] {
        let answer = client.produce(topic, bytes, 1);
        assert_eq!((answer.error_code, answer.log_start_offset), (error.code(), start), "{story}");
    }
    broker.stop();
}

#[test]
fn a_fetch_names_its_reader_and_the_leader_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.produce("t", batch(&["a"], None), 1);
    for (story, replica_id, current_epoch, last_epoch, error) in [
        ("a consumer", -1, -1, -1, ErrorCode::None),
        ("a negative epoch is none", -1, -5, -1, ErrorCode::None),
        ("a broker that is no replica", 5, -1, -1, ErrorCode::NotLeaderOrFollower),
        ("a future leader epoch", -1, -1, 99, ErrorCode::OffsetOutOfRange),
        ("a leader to come", -1, 99, -1, ErrorCode::UnknownLeaderEpoch),
    ] {
        let mut request = fetch_request("t", 0, 0, 0);
        request.replica_id = replica_id;
        let partition = &mut request.topics[0].partitions[0];
        partition.current_leader_epoch = current_epoch;
        partition.last_fetched_epoch = last_epoch;
        let response = client.call(&request, 12);
        assert_eq!(response.responses[0].partitions[0].error_code, error.code(), "{story}");
    }
    broker.stop();
}

#[test]
fn an_empty_log_starts_in_the_epoch_of_its_leader() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let asked = ListOffsetsPartition { timestamp: -2, ..ListOffsetsPartition::default() };
    let ask = |client: &mut Client, partitions| {
        let topics = vec![ListOffsetsTopic { name: "t".into(), partitions }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
        client.call(&request, 10).topics.remove(0).partitions
    };
    let answer = ask(&mut client, vec![asked.clone()]);
    assert_eq!((answer[0].error_code, answer[0].offset, answer[0].leader_epoch), (0, 0, 0));
    let twice = ask(&mut client, vec![asked.clone(), asked]);
    let codes: Vec<_> = twice.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [ErrorCode::InvalidRequest.code()], "told once");
    broker.stop();
}

/// After a restart OffsetForLeaderEpoch answered (-1, -1) for an epoch that ListOffsets had named,
/// if no record was written in it. Clients take that for a truncation.
#[test]
fn an_epoch_without_records_is_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let answer = Client::connect(&broker).produce("t", batch(&["one"], None), 1);
    assert_eq!(answer.error_code, 0);
    broker.stop();
    let mut named = Vec::new();
    for _ in 0..3 {
        let broker = start(directory.path(), &[]);
        let mut client = Client::connect(&broker);
        for epoch in &named {
            let ended = end_of_epoch(&mut client, *epoch);
            assert_eq!((ended.error_code, ended.leader_epoch, ended.end_offset), (0, 0, 1));
        }
        let latest = list_offsets(&mut client, -1);
        assert_eq!((latest.error_code, latest.offset), (0, 1));
        let ended = end_of_epoch(&mut client, latest.leader_epoch);
        assert_eq!((ended.leader_epoch, ended.end_offset), (latest.leader_epoch, 1));
        named.push(latest.leader_epoch);
        broker.stop();
    }
}

fn list_offsets(client: &mut Client, timestamp: i64) -> ListOffsetsPartitionResponse {
    let asked = ListOffsetsPartition {
        timestamp,
        current_leader_epoch: -1,
        ..ListOffsetsPartition::default()
    };
    let topics = vec![ListOffsetsTopic { name: "t".into(), partitions: vec![asked] }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    client.call(&request, 10).topics.remove(0).partitions.remove(0)
}

fn end_of_epoch(client: &mut Client, leader_epoch: i32) -> EpochEndOffset {
    let asked = OffsetForLeaderPartition { partition: 0, current_leader_epoch: -1, leader_epoch };
    let topic = OffsetForLeaderTopic { topic: "t".into(), partitions: vec![asked] };
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: vec![topic] };
    client.call(&request, 4).topics.remove(0).partitions.remove(0)
}

#[test]
fn with_flush_messages_nothing_is_readable_before_it_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[("flush.messages", "1")]);
    let mut client = Client::connect(&broker);
    for (acks, offset) in [(1, 0), (-1, 1)] {
        let answer = client.produce("t", batch(&["safe"], None), acks);
        assert_eq!((answer.error_code, answer.base_offset), (0, offset));
    }
    let partition = broker.rooms().partitions.all().pop().unwrap();
    assert_eq!(partition.log().durable_offset(), partition.high_watermark());
    assert_eq!(values(&client.call(&fetch_request("t", 0, 1, 1_000), 12)), ["safe", "safe"]);
    broker.stop();
}

#[test]
fn offsets_are_listed_by_symbol_and_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    client.produce("t", batch(&["a", "b"], None), 1);
    for (timestamp, offset, found_ms) in
        [(-1, 2, -1), (-2, 0, -1), (-3, 0, 1_000), (0, 0, 1_000), (1_001, -1, -1), (-5, -1, -1)]
    {
        let asked = ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() };
        let topics = vec![ListOffsetsTopic { name: "t".into(), partitions: vec![asked] }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
        let response = client.call(&request, 10);
        let answer = &response.topics[0].partitions[0];
        assert_eq!((answer.error_code, answer.offset), (0, offset), "{timestamp}");
        assert_eq!(answer.timestamp, found_ms, "{timestamp}");
    }
    broker.stop();
}

#[test]
fn a_crowd_of_requests_in_flight_is_answered_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let sent: Vec<i32> = (0..200)
        .map(|n| client.send(&produce_request("t", batch(&[&n.to_string()], None), -1), 9))
        .collect();
    for (offset, id) in (0..).zip(sent) {
        let (received, response) = client.receive::<ProduceRequest>(9).unwrap();
        assert_eq!(received, id);
        assert_eq!(response.responses[0].partition_responses[0].base_offset, offset);
    }
    broker.stop();
}

#[test]
fn records_come_as_the_bytes_that_were_sent() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let sent = batch(&["x".repeat(100_000).as_str()], None);
    client.produce("t", sent.clone(), 1);
    let response = client.call(&fetch_request("t", 0, 1, 1_000), 12);
    let Some(Records::Bytes(got)) = response.responses[0].partitions[0].records.clone() else {
        panic!("no records")
    };
    // Base offset and leader epoch are the broker's; all the rest is the producer's.
    assert_eq!(got[16..], sent[16..]);
    broker.stop();
}

#[test]
fn a_waiting_fetch_gets_an_error_when_the_disk_fails() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let mut request = fetch_request("t", 0, 1, 60_000);
    request.session_epoch = 0;
    client.send(&request, 12);
    let why = LogError::io(directory.path(), std::io::Error::other("the test says so"));
    let dirs = broker.rooms().partitions.dirs();
    dirs.iter().for_each(|dir| dir.log_dir().take_offline(&why));
    let (_, response) = client.receive::<FetchRequest>(12).unwrap();
    let code = response.responses[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::KafkaStorageError.code());
    broker.stop();
}
