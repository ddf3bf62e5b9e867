#![allow(clippy::unwrap_used)]

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::Uuid;

use super::*;
use crate::checkpoint::{PartitionOffsets, write_offsets};
use crate::commit_log::tests::{Fixture, append_in, produced, small_segments};

const NOW_MS: i64 = 1_700_000_000_000;

/// A partition of another broker: idempotent producer 9, leader epoch 30, several segments.
fn foreign() -> (Fixture, CommitLog) {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for i in 0..30 {
        let builder = RecordBatchBuilder::new(Codec::ALL[i % 5]).producer(9, 0, i as i32 * 2);
        append_in(&log, &produced(builder, 2, NOW_MS), LeaderEpoch(30), NOW_MS).unwrap();
    }
    (fixture, log)
}

fn records(log: &CommitLog) -> Vec<(i64, i64, Vec<u8>)> {
    let read = log.read(log.log_start_offset(), u32::MAX, log.log_end_offset(), true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let mut all = Vec::new();
    for batch in Batches::new(&bytes) {
        for record in &batch.unwrap().records(1 << 20).unwrap() {
            let record = record.unwrap();
            all.push((record.offset.0, record.timestamp_ms, record.value.unwrap().to_vec()));
        }
    }
    all
}

#[test]
fn an_adopted_partition_reads_equal_and_takes_appends() {
    let (source, foreign) = foreign();
    let starts = PartitionOffsets::from([(("t".to_string(), 0), Offset(7))]);
    let storage = source.log_dir.storage().as_ref();
    write_offsets(storage, &source.temp.path().join(LOG_START_FILE), &starts).unwrap();
    foreign.delete_records(Offset(7), NOW_MS).unwrap();
    let before = records(&foreign);
    let ours = Fixture::new(small_segments());
    drop(ours.fresh());
    let id = Uuid([3; 16]);
    write_topic_id(ours.log_dir.storage().as_ref(), &ours.temp.path().join("t-0"), id).unwrap();
    let adopted = adopt(&ours.log_dir, &foreign.path(), "t-0", &ours.config, NOW_MS).unwrap();
    assert_eq!((adopted.log_start_offset, adopted.log_end_offset), (Offset(7), Offset(60)));
    let state = OpenState { clean: true, log_start_offset: Offset(7), ..OpenState::default() };
    let (log, _) = ours.open(state);
    assert_eq!(records(&log), before);
    let stored = read_topic_id(ours.log_dir.storage().as_ref(), &log.path()).unwrap();
    assert_eq!(stored, Some(id));
    // A new producer that got the old one's id, under a lower epoch than the log had.
    let builder = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0);
    let appended = append_in(&log, &produced(builder, 2, NOW_MS), LeaderEpoch(1), NOW_MS).unwrap();
    assert_eq!((appended.base_offset, appended.duplicate), (Offset(60), false));
}

#[test]
fn a_partition_with_records_is_not_written_over() {
    let (_source, foreign) = foreign();
    let (ours, log) = self::foreign();
    let before = records(&log);
    let outcome = adopt(&ours.log_dir, &foreign.path(), "t-0", &ours.config, NOW_MS);
    assert!(matches!(outcome, Err(LogError::BadFile { .. })));
    assert_eq!(records(&log), before);
}

#[test]
fn damage_and_transactions_are_refused_and_leave_nothing() {
    for (what, flip) in [("a flipped bit", true), ("a transaction", false)] {
        let (_source, foreign) = foreign();
        let path = foreign.segments.read()[0].path(LOG_SUFFIX);
        if flip {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[100] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        } else {
            let mut builder =
                RecordBatchBuilder::new(Codec::None).producer(9, 0, 60).transactional();
            builder.append(NOW_MS, None, None, &[]);
            let bytes = builder.build(Offset(0), LeaderEpoch(0)).unwrap();
            let batch = crate::ValidatedBatch::trusted(&bytes).unwrap();
            append_in(&foreign, &batch, LeaderEpoch(30), NOW_MS).unwrap();
        }
        let ours = Fixture::new(small_segments());
        let outcome = adopt(&ours.log_dir, &foreign.path(), "t-0", &ours.config, NOW_MS);
        assert!(matches!(outcome, Err(LogError::BadFile { .. })), "{what}");
        let left: Vec<_> = std::fs::read_dir(ours.temp.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{what}: only the lock file");
    }
}

#[test]
fn zeros_at_the_end_of_a_preallocated_segment_are_left_behind() {
    let (_source, foreign) = foreign();
    let path = foreign.segments.read().last().unwrap().path(LOG_SUFFIX);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.resize(bytes.len() + 100_000, 0);
    std::fs::write(&path, bytes).unwrap();
    let ours = Fixture::new(small_segments());
    let adopted = adopt(&ours.log_dir, &foreign.path(), "t-0", &ours.config, NOW_MS).unwrap();
    assert_eq!((adopted.log_end_offset, adopted.records), (Offset(60), 60));
}

/// Compaction in the other cluster had left a gap before a segment. A start that did not know how
/// far the log was on the disk took it for a lost end, and dropped what follows.
#[test]
fn what_follows_a_gap_stays_whatever_a_start_knows_of_the_disk() {
    let (_source, foreign) = foreign();
    let segments = foreign.segments.read().clone();
    std::fs::remove_file(segments[1].path(LOG_SUFFIX)).unwrap();
    let ours = Fixture::new(small_segments());
    let adopted = adopt(&ours.log_dir, &foreign.path(), "t-0", &ours.config, NOW_MS).unwrap();
    assert!((1..60).contains(&adopted.records));
    let (log, report) = ours.open(OpenState::default());
    assert_eq!((report.truncated_bytes, log.log_end_offset()), (0, Offset(60)));
    let (mut from, mut read) = (Offset(0), 0);
    while from < Offset(60) {
        let found = log.read(from, 1, Offset(60), true).unwrap();
        let bytes = found.slices[0].read().unwrap();
        let header = *Batches::new(&bytes).next().unwrap().unwrap().header();
        (from, read) = (header.next_offset(), read + header.record_count as u64);
    }
    assert_eq!(read, adopted.records);
}
