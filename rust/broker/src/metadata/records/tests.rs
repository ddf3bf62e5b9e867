#![allow(clippy::unwrap_used)]
use super::*;

fn batch(records: Vec<MetadataRecord>) -> RecordsBatch {
    RecordsBatch { base_offset: 7, epoch: 3, timestamp_ms: 5, records }
}

fn ids() -> MetadataRecord {
    MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: 1, next_producer_id: 1_000 })
}

/// A batch whose second record is these bytes.
fn with_second(record: Bytes) -> Bytes {
    let batch = MetadataBatch {
        base_offset: 7,
        epoch: 3,
        timestamp_ms: 5,
        records: vec![ids().encode(0), record],
    };
    let mut writer = Writer::new();
    batch.encode(&mut writer, 0);
    writer.into_bytes()
}

#[test]
fn a_batch_comes_back_as_it_was_written() {
    let set = MetadataRecord::set_config(&ConfigResource::topic("t"), "k", None);
    let gone = MetadataRecord::RemoveTopic(RemoveTopicRecord::default());
    for written in [batch(vec![]), batch(vec![ids()]), batch(vec![set, gone, ids()])] {
        assert_eq!(RecordsBatch::decode(written.encode(1)).unwrap(), written);
    }
}

#[test]
fn a_record_of_an_unknown_type_is_named_with_its_offset() {
    let record = Bytes::from_static(&[0, 99, 0, 0, 0]);
    let refused = RecordsBatch::decode(with_second(record)).unwrap_err();
    assert_eq!(refused, (8, RecordError::UnknownType(99)));
}

#[test]
fn a_record_of_a_newer_version_is_named_with_its_offset() {
    let mut record = ids().encode(0).to_vec();
    record[3] = 1;
    let refused = RecordsBatch::decode(with_second(record.into())).unwrap_err();
    let unknown = RecordError::UnknownVersion { record_type: 10, version: 1, supported: 0 };
    assert_eq!(refused, (8, unknown));
}

#[test]
fn an_unknown_tagged_field_is_overlooked() {
    let mut record = ids().encode(0).to_vec();
    // One tag in the place of none: number 77, one byte long.
    record.splice(record.len() - 1.., [1, 77, 1, 0]);
    let read = RecordsBatch::decode(with_second(record.into())).unwrap();
    assert_eq!(read, batch(vec![ids(), ids()]));
}

#[test]
fn bytes_behind_a_record_or_a_batch_are_an_error() {
    let behind_record = with_second([&ids().encode(0)[..], &[0]].concat().into());
    let behind_batch = [&batch(vec![ids()]).encode(1)[..], &[0]].concat().into();
    for bytes in [behind_record, behind_batch] {
        let refused = RecordsBatch::decode(bytes);
        assert!(matches!(refused, Err((_, RecordError::Unreadable(_)))));
    }
}

/// Partitions come 10,000 at a time, and a snapshot has all of a topic in one record. It was
/// refused as too large for a request: the broker did not start again.
#[test]
fn a_topic_of_very_many_partitions_comes_back_from_a_snapshot() {
    let partition = PartitionRecord {
        replicas: vec![1],
        isr: vec![1],
        directories: vec![kafkalite_protocol::Uuid([1; 16])],
        leader: 1,
        ..PartitionRecord::default()
    };
    let partitions = vec![partition; 400_000];
    let topic = CreateTopicRecord { name: "t".into(), partitions, ..CreateTopicRecord::default() };
    let written = batch(vec![MetadataRecord::CreateTopic(topic)]);
    assert!(RecordsBatch::decode(written.encode(1)) == Ok(written));
}

#[test]
fn a_record_is_written_in_the_version_of_its_level() {
    let register = MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        features: vec![FeatureRange { name: "f".to_owned(), min_level: 1, max_level: 2 }],
        ..RegisterBrokerRecord::default()
    });
    assert_eq!(
        [0, 1, 2, 3].map(|level| register.version_at(level)),
        [None, Some(0), Some(1), Some(1)]
    );
    let written = batch(vec![register, ids()]);
    let [first, second] = [1, 2].map(|level| written.encode(level));
    assert_ne!(first, second);
    for bytes in [first, second] {
        assert_eq!(RecordsBatch::decode(bytes).unwrap(), written);
    }
}
