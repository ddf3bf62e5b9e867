//! What a restart finds.

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::record_batch::RecordBatchBuilder;

use super::groups::{heartbeat, stable};
use super::*;
use crate::coordinator::group_record::{OffsetKey, stored};

#[test]
fn groups_and_offsets_are_there_again() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    for offset in 0..10 {
        broker.commit("simple", "t", offset);
    }
    let again = broker.restarted();
    assert_eq!(again.committed("simple", "t"), Some(9));
    assert_eq!(heartbeat(&again, "g", &member, 1), 0);
    assert_eq!(again.groups.describe("g", 6), broker.groups.describe("g", 6));
}

#[test]
fn sessions_start_again_after_a_restart() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    let again = broker.restarted();
    again.pass(9_500);
    assert_eq!(heartbeat(&again, "g", &member, 1), 0);
    again.pass(10_000);
    assert_eq!(heartbeat(&again, "g", &member, 1), ErrorCode::UnknownMemberId as i16);
}

#[test]
fn while_loading_requests_are_put_off_and_heartbeats_are_not() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    let loading = Broker::unloaded(Arc::clone(&broker.topic), 0, Codec::None);
    let error = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(heartbeat(&loading, "g", &member, 1), 0);
    assert_eq!(taken(&loading.commit("g", "t", 1)), [error]);
    assert_eq!(loading.groups.fetch("g", None), Err(error));
    assert_eq!(loading.groups.describe("g", 6).error_code, error as i16);
    assert_eq!(loading.groups.list(&[], &[]).0, error);
    assert!(loading.groups.coordinates("g"));
    loading.load();
    assert_eq!(loading.groups.describe("g", 6).group_state, "Stable");
}

#[test]
fn offsets_of_a_transaction_count_if_it_was_committed() {
    for (marker, expected) in [(1, Some(7)), (0, None)] {
        let topic = MemoryTopic::of(5);
        let partition = usize::try_from(partition_of("g", 5)).unwrap();
        let value = OffsetCommitValue { offset: 7, ..OffsetCommitValue::default() };
        let key = OffsetKey { group: "g".into(), topic: "t".into(), partition: 0 };
        let record = stored(&GroupRecord::Offset(key, Some(value)));
        let mut open = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0).transactional();
        open.append(0, Some(&record.key), record.value.as_deref(), &[]);
        let mut end = RecordBatchBuilder::new(Codec::None).producer(9, 0, -1);
        end = end.transactional().control();
        end.append(0, Some(&[0, 0, 0, marker]), Some(&[0; 6]), &[]);
        for batch in [open, end] {
            let batch = batch.build(Offset(0), LeaderEpoch(0)).unwrap();
            topic.append(partition, batch);
        }
        let broker = Broker::over(topic, 0);
        assert_eq!(broker.committed("g", "t"), expected, "marker {marker}");
    }
}

/// A broker whose second of three commits has this bit of its batch flipped.
fn damaged_at(byte: usize, bit: u8) -> Broker {
    let broker = Broker::with(MemoryTopic::of(1), 0, Codec::None);
    for offset in [1, 2, 3] {
        broker.commit("g", "t", offset);
    }
    let mut inner = broker.topic.inner.lock();
    let batch = &mut inner.partitions[0].batches[1].bytes;
    let mut bytes = batch.to_vec();
    bytes[byte] ^= bit;
    *batch = Bytes::from(bytes);
    drop(inner);
    broker
}

/// A batch with a damaged header was taken for the end of the log. A group that had committed 3 got
/// the answer 1, as if the later commits did not exist.
#[test]
fn groups_behind_a_batch_whose_end_is_unknown_are_not_loaded() {
    // Its base offset, its length, its magic.
    for (byte, bit) in [(7, 1), (8, 0x40), (16, 0x40)] {
        let again = damaged_at(byte, bit).restarted();
        assert_eq!(again.groups.fetch("g", None), Err(ErrorCode::NotCoordinator), "byte {byte}");
        assert!(!again.groups.coordinates("g"));
        // It is not read again and again.
        let reads = again.topic.inner.lock().reads;
        again.pass(120_000);
        again.load();
        assert_eq!(again.topic.inner.lock().reads, reads);
        assert_eq!(again.groups.list(&[], &[]), (ErrorCode::None, Vec::new()));
    }
}

#[test]
fn a_batch_whose_records_are_damaged_is_left_out_and_what_follows_counts() {
    for byte in [17, HEADER_LENGTH + 12] {
        assert_eq!(damaged_at(byte, 0x40).restarted().committed("g", "t"), Some(3), "byte {byte}");
    }
}

#[test]
fn records_of_other_protocols_and_garbage_are_stepped_over() {
    let topic = MemoryTopic::of(5);
    let mut batch = RecordBatchBuilder::new(Codec::None);
    for key in [&b"\0\x03\0\x01g"[..], b"", b"\0\x01\0\x09", b"\0\x02\xff"] {
        batch.append(0, Some(key), Some(b"?"), &[]);
    }
    batch.append(0, None, None, &[]);
    let batch = batch.build(Offset(0), LeaderEpoch(0)).unwrap();
    topic.append(0, batch);
    let broker = Broker::over(topic, 0);
    assert_eq!(broker.groups.list(&[], &[]), (ErrorCode::None, Vec::new()));
    stable(&broker, "g");
    assert!(broker.topic.batches() > 1);
}

#[test]
fn a_compressed_topic_is_read_back() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let broker = Broker::with(MemoryTopic::of(1), 1_000_000, codec);
        broker.commit("g", "t", 5);
        let batch = broker.topic.inner.lock().partitions[0].batches[0].bytes.clone();
        assert_eq!(BatchHeader::parse(&batch).unwrap().codec().unwrap(), codec);
        assert_eq!(broker.restarted().committed("g", "t"), Some(5));
    }
}
