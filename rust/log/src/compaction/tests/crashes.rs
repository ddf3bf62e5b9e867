//! What a log knows after a crash of batches that compaction took.

use super::*;
use crate::leader_epochs::EpochEnd;

/// A batch of one record with the key "a".
fn sent(producer: i64, sequence: i32) -> ValidatedBatch {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(producer, 0, sequence);
    builder.append(NOW_MS, Some(b"a"), Some(b"1"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validate(&bytes, &config(), NOW_MS, 9).unwrap()
}

/// Starts after a crash, twice. Batches that are sent again, with these sequences, are found at
/// these offsets.
fn check_known_after_a_crash(fixture: &Fixture, producer: i64, known: &[(i32, i64)]) {
    for _ in 0..2 {
        let (log, _) = fixture.open(OpenState::default());
        for (sequence, offset) in known {
            let batch = sent(producer, *sequence);
            let again = append_in(&log, &batch, LeaderEpoch(1), NOW_MS).unwrap();
            assert_eq!((again.base_offset.0, again.duplicate), (*offset, true));
        }
    }
}

/// After a crash the broker read compacted segments, and knew only the newest batch of a producer.
/// It refused the older batches, which were in the log, when the producer sent them again.
#[test]
fn a_crash_forgets_no_batch_that_compaction_took() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for sequence in 0..5 {
        append_in(&log, &sent(9, sequence), LeaderEpoch(0), NOW_MS).unwrap();
        log.roll(NOW_MS).unwrap();
    }
    compact(&log, 0, NOW_MS);
    assert_eq!(batches(&log), [4]);
    drop(log);
    check_known_after_a_crash(&fixture, 9, &[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
}

/// The newest batch of the producer is not compacted yet, so compaction took all others of it. The
/// snapshot behind them was not believed, as no batch before it was the producer's.
#[test]
fn a_crash_forgets_no_producer_whose_other_batches_compaction_took() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for (producer, sequence) in [(9, 0), (9, 1), (9, 2), (9, 3), (8, 0)] {
        append_in(&log, &sent(producer, sequence), LeaderEpoch(0), NOW_MS).unwrap();
    }
    log.roll(NOW_MS).unwrap();
    append_in(&log, &sent(9, 4), LeaderEpoch(0), NOW_MS).unwrap();
    compact(&log, 0, NOW_MS);
    assert_eq!(batches(&log), [4, 5]);
    drop(log);
    check_known_after_a_crash(&fixture, 9, &[(0, 0), (1, 1), (2, 2), (3, 3), (4, 5)]);
}

#[test]
fn a_batch_that_a_power_cut_took_is_not_known() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for sequence in 0..3 {
        append_in(&log, &sent(9, sequence), LeaderEpoch(0), NOW_MS).unwrap();
    }
    log.roll(NOW_MS).unwrap();
    append_in(&log, &sent(8, 0), LeaderEpoch(0), NOW_MS).unwrap();
    let first = log.path().join("00000000000000000000.log");
    drop(log);
    let file = std::fs::OpenOptions::new().write(true).open(first).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length / 3 * 2).unwrap();
    check_known_after_a_crash(&fixture, 9, &[(0, 0), (1, 1)]);
    let (log, _) = fixture.open(OpenState::default());
    assert_eq!(append_in(&log, &sent(9, 2), LeaderEpoch(2), NOW_MS).unwrap().base_offset.0, 4);
}

/// After a crash an epoch began with its first batch that compaction had left. A follower with
/// records of the epoch before kept them, where other records had stood here.
#[test]
fn a_crash_forgets_no_epoch_whose_first_batches_compaction_took() {
    for clean in [true, false] {
        let fixture = Fixture::new(config());
        let log = fixture.fresh();
        for (epoch, key) in [(0, "x"), (0, "y"), (1, "a"), (1, "a"), (2, "b"), (2, "a"), (2, "b")] {
            let batch = keyed(Codec::None, &[(key, Some("1"))]);
            append_in(&log, &batch, LeaderEpoch(epoch), NOW_MS).unwrap();
        }
        log.roll(NOW_MS).unwrap();
        append_in(&log, &sent(9, 0), LeaderEpoch(2), NOW_MS).unwrap();
        compact(&log, 0, NOW_MS);
        assert_eq!(batches(&log), [0, 1, 5, 6, 7]);
        let ends = |log: &CommitLog| [0, 1].map(|of| log.end_offset_for_epoch(LeaderEpoch(of)));
        let end = |of, at| Some(EpochEnd { epoch: LeaderEpoch(of), end_offset: Offset(at) });
        assert_eq!(ends(&log), [end(0, 2), end(1, 4)]);
        log.close(clean).unwrap();
        drop(log);
        let (log, _) = fixture.open(OpenState { clean, ..OpenState::default() });
        assert_eq!(ends(&log), [end(0, 2), end(1, 4)], "clean: {clean}");
    }
}
