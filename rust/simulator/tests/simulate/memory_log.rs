//! The log in memory keeps what Kafka's keeps, and forgets what a disk forgets.

use bytes::Bytes;
use kafkalite_log::{LogConfig, Role};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{BatchHeader, RecordBatchBuilder};
use kafkalite_protocol::{LeaderEpoch, Offset};
use kafkalite_simulator::log::{MemoryLog, values};

fn batch(sequence: i32, value: u64) -> (Bytes, BatchHeader) {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(7, 0, sequence);
    builder.append(0, None, Some(&value.to_be_bytes()), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch::UNKNOWN).unwrap();
    let header = BatchHeader::parse(&bytes).unwrap();
    (bytes, header)
}

fn lead(log: &mut MemoryLog, epoch: i32, sequences: std::ops::Range<i32>) {
    log.take_role(Role::Leader(LeaderEpoch(epoch)));
    for sequence in sequences {
        let (bytes, header) = batch(sequence, u64::try_from(sequence).unwrap());
        log.append_as_leader(&bytes, header, LeaderEpoch(epoch)).unwrap();
    }
}

#[test]
fn a_batch_that_is_sent_again_keeps_its_offset() {
    let mut log = MemoryLog::default();
    lead(&mut log, 1, 0..3);
    let (bytes, header) = batch(1, 1);
    let again = log.append_as_leader(&bytes, header, LeaderEpoch(1)).unwrap();
    assert_eq!((again.base, again.log_end), (Offset(1), None));
    assert_eq!(log.end(), Offset(3));
    let read = values(&log.read(Offset(1), Offset(3), 9));
    assert_eq!(read, [(Offset(1), 1), (Offset(2), 2)]);
}

#[test]
fn a_power_cut_takes_what_was_not_flushed_and_its_producers_sequence() {
    let mut log = MemoryLog::default();
    lead(&mut log, 1, 0..2);
    log.flush();
    lead(&mut log, 2, 2..4);
    log.lose_power();
    assert_eq!((log.end(), log.latest_epoch()), (Offset(2), LeaderEpoch(1)));
    lead(&mut log, 3, 2..3);
    assert_eq!(log.end(), Offset(3));
}

#[test]
fn a_kill_takes_nothing() {
    let mut log = MemoryLog::default();
    lead(&mut log, 1, 0..2);
    let before = log.end();
    assert_eq!(log.reopen().offset, before);
    assert_eq!(log.latest_epoch(), LeaderEpoch(1));
}

#[test]
fn an_epoch_ends_where_the_next_one_begins() {
    let mut log = MemoryLog::default();
    lead(&mut log, 1, 0..2);
    lead(&mut log, 3, 2..5);
    let end =
        |epoch: i32| log.end_of_epoch(LeaderEpoch(epoch)).map(|end| (end.epoch, end.end_offset));
    assert_eq!(end(1), Some((LeaderEpoch(1), Offset(2))));
    assert_eq!(end(2), Some((LeaderEpoch(1), Offset(2))));
    assert_eq!(end(3), Some((LeaderEpoch(3), Offset(5))));
    assert_eq!(end(4), None);
}

#[test]
fn every_end_has_a_newer_version() {
    let mut log = MemoryLog::default();
    let first = log.take_role(Role::Leader(LeaderEpoch(1))).version;
    let second = log.flush().version;
    let third = log.truncate_to(Offset(0)).version;
    assert!(first < second && second < third);
}

#[test]
fn retention_takes_whole_segments_below_the_high_watermark() {
    let mut log = MemoryLog::default();
    lead(&mut log, 1, 0..4);
    lead(&mut log, 2, 4..8);
    let config = LogConfig { retention_ms: 100, retention_bytes: -1, ..LogConfig::default() };
    assert!(log.retain(&config, 100, Offset(8)).is_empty(), "nothing is older than 100 ms");
    assert_eq!(log.retain(&config, 101, Offset(5)).len(), 3, "segments have three batches");
    assert_eq!((log.start(), log.end()), (Offset(3), Offset(8)));
    assert_eq!(log.retain(&config, 101, Offset(8)).len(), 5, "the active segment goes too");
    assert_eq!((log.start(), log.end(), log.has_unflushed()), (Offset(8), Offset(8), false));
    assert_eq!(log.latest_epoch(), LeaderEpoch(2));
    lead(&mut log, 3, 8..9);
    assert_eq!(log.end(), Offset(9));
    log.restart(Offset(20));
    assert_eq!((log.start(), log.end(), log.batches().len()), (Offset(20), Offset(20), 0));
}
