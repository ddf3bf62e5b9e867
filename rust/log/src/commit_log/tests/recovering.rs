//! Closing and opening again, cleanly and not.

use kafkalite_protocol::record_batch::crc32c;
use proptest::prelude::*;

use super::*;

fn clean() -> OpenState {
    OpenState { clean: true, ..OpenState::default() }
}

fn filled(fixture: &Fixture) -> CommitLog {
    let log = fixture.fresh();
    let batch = |sequence| {
        produced(
            RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence),
            2,
            NOW_MS + i64::from(sequence),
        )
    };
    for i in 0..40 {
        append_in(&log, &batch(2 * i), EPOCH, NOW_MS).unwrap();
    }
    log
}

fn assert_is_filled(log: &CommitLog) {
    assert_eq!(log.log_end_offset(), Offset(80));
    assert_eq!(read_all(log, 0).len(), 40);
    assert_eq!(log.producers()[0].last_sequence, 79);
    assert_eq!(log.latest_epoch(), Some(EPOCH));
    let max = log.offset_of_max_timestamp().unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp_ms), (Offset(79), NOW_MS + 78));
    let again = produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, 78), 2, NOW_MS + 78);
    assert!(append_in(log, &again, EPOCH, NOW_MS).unwrap().duplicate);
}

#[test]
fn after_a_clean_close_nothing_is_scanned_and_nothing_missing() {
    let fixture = Fixture::new(small_segments());
    filled(&fixture).close(true).unwrap();
    let (log, report) = fixture.open(clean());
    let nothing = RecoveryReport { greatest_producer_id: Some(9), ..RecoveryReport::default() };
    assert_eq!(report, nothing);
    assert_eq!(log.durable_offset(), Offset(80));
    assert_is_filled(&log);
}

#[test]
fn after_a_kill_the_log_is_scanned_and_nothing_missing() {
    for recovery_point in [0, 31, 80] {
        let fixture = Fixture::new(small_segments());
        // Dropped without a close: what a kill -9 leaves.
        drop(filled(&fixture));
        let state = OpenState { recovery_point: Offset(recovery_point), ..OpenState::default() };
        let (log, report) = fixture.open(state);
        assert_eq!(report.truncated_bytes, 0);
        assert!(report.scanned_bytes > 0);
        assert_is_filled(&log);
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_to_the_last_whole_batch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 2);
    let whole = log.size_bytes();
    append(&log, 2);
    let full = log.size_bytes();
    let path = log.path().join("00000000000000000000.log");
    drop(log);
    let bytes = std::fs::read(&path).unwrap();
    for torn in whole..=full {
        std::fs::write(&path, &bytes[..torn as usize]).unwrap();
        let (log, report) = fixture.open(OpenState::default());
        let end = if torn == full { 4 } else { 2 };
        assert_eq!(log.log_end_offset(), Offset(end), "torn at {torn}");
        assert_eq!(report.truncated_bytes, if torn == full { 0 } else { torn - whole });
        assert_eq!(append(&log, 1).base_offset, Offset(end));
        assert_eq!(read_all(&log, 0).len(), if torn == full { 3 } else { 2 });
    }
}

#[test]
fn a_flipped_bit_cuts_the_log_there_and_drops_later_segments() {
    for (recovery_point, loud) in [(0, false), (80, true)] {
        let fixture = Fixture::new(small_segments());
        let log = filled(&fixture);
        let second = log.segments.read()[1].base_offset();
        let path = log.segments.read()[1].path(".log");
        let segments = log.segment_count();
        drop(log);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[70] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        // The recovery point decides where the scan starts; the newest segment is always read.
        let from = if loud { second } else { Offset(recovery_point) };
        let (log, report) =
            fixture.open(OpenState { recovery_point: from, ..OpenState::default() });
        assert_eq!(log.log_end_offset(), second);
        assert!(log.segment_count() < segments);
        assert!(!report.lost_below_recovery_point);
        assert_eq!(log.producers()[0].last_sequence, second.0 as i32 - 1);
    }
}

#[test]
fn a_cut_below_the_recovery_point_is_reported() {
    let fixture = Fixture::new(LogConfig::default());
    let log = filled(&fixture);
    let path = log.path().join("00000000000000000000.log");
    drop(log);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let state = OpenState { recovery_point: Offset(80), ..OpenState::default() };
    assert!(fixture.open(state).1.lost_below_recovery_point);
}

/// After a loss, new records below the checkpoint's offset counted as compacted. Compaction removed
/// a tombstone there in time, and the value that the tombstone deletes stayed.
#[test]
fn nothing_beyond_the_end_is_compacted() {
    let fixture = Fixture::new(small_segments());
    drop(filled(&fixture));
    for clean in [true, false] {
        let state = OpenState { clean, cleaned_to: Offset(500), ..OpenState::default() };
        assert_eq!(fixture.open(state).0.cleaned_to(), Offset(80));
    }
}

/// Retention writes the epochs, then removes segments. After a crash in between, the epochs of the
/// records that stayed were unknown.
#[test]
fn epochs_of_records_that_stayed_are_read_from_the_log() {
    for clean in [true, false] {
        let fixture = Fixture::new(small_segments());
        let log = fixture.fresh();
        for i in 0..40 {
            let epoch = LeaderEpoch(3 + i / 10);
            append_in(&log, &batch_at(1, NOW_MS), epoch, NOW_MS).unwrap();
        }
        log.close(true).unwrap();
        let expected = log.epochs();
        let path = log.path().join(LEADER_EPOCH_FILE);
        drop(log);
        for known in ["0\n1\n6 35\n", "0\n1\n7 40\n", "0\n0\n"] {
            std::fs::write(&path, known).unwrap();
            let state = OpenState { clean, recovery_point: Offset(40), ..OpenState::default() };
            let (log, _) = fixture.open(state);
            assert_eq!(log.epochs(), expected, "clean: {clean}, {known}");
            drop(log);
        }
    }
}

#[test]
fn indexes_that_are_gone_or_damaged_cost_nothing_but_time() {
    for clean in [true, false] {
        for damage in ["removed", "zeros", "garbage", "odd"] {
            let fixture = Fixture::new(small_segments());
            let log = filled(&fixture);
            let dir = log.path();
            log.close(true).unwrap();
            drop(log);
            for entry in std::fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if !path.to_str().unwrap().ends_with("index") {
                    continue;
                }
                match damage {
                    "removed" => std::fs::remove_file(path).unwrap(),
                    "zeros" => std::fs::write(path, [0; 240]).unwrap(),
                    "garbage" => std::fs::write(path, [0x33; 240]).unwrap(),
                    _ => {
                        let mut bytes = std::fs::read(&path).unwrap();
                        bytes.extend_from_slice(&[0; 5]);
                        std::fs::write(&path, bytes).unwrap();
                    }
                }
            }
            let (log, _) = fixture.open(OpenState { clean, ..OpenState::default() });
            for from in 0..80 {
                assert_eq!(read_all(&log, from)[0], from / 2 * 2, "{damage}, offset {from}");
            }
            assert_is_filled(&log);
        }
    }
}

#[test]
fn the_log_start_survives() {
    let fixture = Fixture::new(small_segments());
    let log = filled(&fixture);
    log.delete_records(Offset(33), NOW_MS).unwrap();
    log.close(true).unwrap();
    drop(log);
    let (log, _) = fixture.open(OpenState { log_start_offset: Offset(33), ..clean() });
    assert_eq!(log.log_start_offset(), Offset(33));
    assert_eq!(log.end_offset_for_epoch(EPOCH).unwrap().end_offset, Offset(80));
    assert_eq!(log.epochs()[0].start_offset, Offset(33));
}

/// Records that were deleted, and not yet on the disk, were lost in a power cut: their offsets were
/// given out again, to other records.
#[test]
fn a_log_never_begins_before_the_start_that_was_answered() {
    let fixture = Fixture::new(small_segments());
    drop(filled(&fixture));
    let state = OpenState { log_start_offset: Offset(90), ..OpenState::default() };
    let (log, _) = fixture.open(state);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(90), Offset(90)));
    assert_eq!(append(&log, 2).base_offset, Offset(90));
    assert_eq!(read_all(&log, 90), [90]);
    log.close(true).unwrap();
    let (log, _) = fixture.open(OpenState { clean: true, ..state });
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(90), Offset(92)));
    assert_eq!(read_all(&log, 90), [90]);
}

#[test]
fn sequences_hold_after_all_records_are_deleted_and_a_restart() {
    for clean in [true, false] {
        let fixture = Fixture::new(small_segments());
        let log = filled(&fixture);
        log.roll(NOW_MS).unwrap();
        log.delete_records(Offset(80), NOW_MS).unwrap();
        log.close(clean).unwrap();
        drop(log);
        let state = OpenState { clean, log_start_offset: Offset(80), ..OpenState::default() };
        let (log, _) = fixture.open(state);
        assert_eq!(log.log_end_offset(), Offset(80));
        let batch = |sequence| {
            produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence), 2, NOW_MS)
        };
        assert!(append_in(&log, &batch(78), EPOCH, NOW_MS).unwrap().duplicate);
        let gap = append_in(&log, &batch(90), EPOCH, NOW_MS);
        assert!(matches!(gap, Err(LogError::OutOfOrderSequence { .. })), "clean: {clean}");
        assert_eq!(append_in(&log, &batch(80), EPOCH, NOW_MS).unwrap().base_offset, Offset(80));
    }
}

/// A restart forgot an epoch without records. A client that knew the epoch got the answer that
/// there is no such epoch, and took that for a truncation.
#[test]
fn an_epoch_without_records_has_an_end_after_a_restart() {
    let epoch = |offset| LeaderEpoch(EPOCH.0 + offset);
    for clean_stop in [true, false] {
        let fixture = Fixture::new(small_segments());
        let log = filled(&fixture);
        log.become_leader(epoch(1)).unwrap();
        let end = |epoch, end_offset| Some(EpochEnd { epoch, end_offset: Offset(end_offset) });
        assert_eq!(log.end_offset_for_epoch(epoch(1)), end(epoch(1), 80));
        log.close(clean_stop).unwrap();
        drop(log);
        let (log, _) = fixture.open(OpenState { clean: clean_stop, ..OpenState::default() });
        log.become_leader(epoch(2)).unwrap();
        assert_eq!(log.end_offset_for_epoch(epoch(1)), end(EPOCH, 80));
        assert_eq!(log.end_offset_for_epoch(epoch(2)), end(epoch(2), 80));
        // Its first record has it written, and what was appended before it ends where it begins.
        append_in(&log, &batch_at(2, NOW_MS), epoch(2), NOW_MS).unwrap();
        assert_eq!(log.end_offset_for_epoch(epoch(1)), end(EPOCH, 80));
        assert_eq!(log.end_offset_for_epoch(epoch(2)), end(epoch(2), 82));
        drop(log);
        let (log, _) = fixture.open(clean());
        assert_eq!(log.epochs().last().map(|e| (e.epoch, e.start_offset.0)), Some((epoch(2), 80)));
    }
}

#[test]
fn damaged_epochs_are_read_from_the_log() {
    let fixture = Fixture::new(small_segments());
    let log = filled(&fixture);
    append_in(&log, &batch_at(2, NOW_MS), LeaderEpoch(9), NOW_MS).unwrap();
    let epochs = log.epochs();
    let path = log.path().join(LEADER_EPOCH_FILE);
    log.close(true).unwrap();
    drop(log);
    std::fs::write(path, "0\n5\nnonsense\n").unwrap();
    assert_eq!(fixture.open(clean()).0.epochs(), epochs);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_bytes_in_any_file_never_panic(
        log_bytes in prop::collection::vec(any::<u8>(), 0..400),
        index in prop::collection::vec(any::<u8>(), 0..100),
        times in prop::collection::vec(any::<u8>(), 0..100),
        snapshot in prop::collection::vec(any::<u8>(), 0..100),
        keep in 0_usize..400, clean in any::<bool>(),
    ) {
        let fixture = Fixture::new(small_segments());
        let log = fixture.fresh();
        append(&log, 2);
        append(&log, 2);
        let dir = log.path();
        drop(log);
        let file = |suffix: &str| dir.join(format!("00000000000000000000{suffix}"));
        let mut bytes = std::fs::read(file(".log")).expect("written above");
        bytes.truncate(keep);
        bytes.extend_from_slice(&log_bytes);
        std::fs::write(file(".log"), bytes).expect("writes");
        std::fs::write(file(".index"), index).expect("writes");
        std::fs::write(file(".timeindex"), times).expect("writes");
        std::fs::write(file(".snapshot"), snapshot).expect("writes");
        let state = OpenState { clean, ..OpenState::default() };
        let config = fixture.config.clone();
        let opened = CommitLog::open(&fixture.log_dir, "t-0", config, state, NOW_MS);
        if let Ok((log, _)) = opened {
            let end = log.log_end_offset();
            let _ = log.read(log.log_start_offset(), u32::MAX, end, true);
            let _ = append_in(&log, &batch_at(1, NOW_MS), EPOCH, NOW_MS);
            let _ = log.offset_for_timestamp(5);
        }
    }
}

#[test]
fn a_clean_start_forgets_a_producer_that_was_silent_for_too_long() {
    let silent_ms = LogConfig::default().producer_id_expiration_ms;
    for (since_ms, kept) in [(silent_ms - 1, 1), (silent_ms, 0)] {
        let fixture = Fixture::new(LogConfig::default());
        let log = fixture.fresh();
        let builder = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0);
        append_in(&log, &produced(builder, 2, NOW_MS - since_ms), EPOCH, NOW_MS).unwrap();
        log.close(true).unwrap();
        assert_eq!(fixture.open(clean()).0.producers().len(), kept, "silent for {since_ms} ms");
    }
}

/// A flush opened the index of every sealed segment to sync it. A missing index took the whole log
/// directory offline, although each user of an index rebuilds it.
#[test]
fn a_flush_does_without_the_index_of_a_sealed_segment() {
    let fixture = Fixture::new(small_segments());
    filled(&fixture).close(true).unwrap();
    std::fs::remove_file(fixture.temp.path().join("t-0/00000000000000000000.index")).unwrap();
    let state = OpenState { recovery_point: Offset(80), ..OpenState::default() };
    let log = fixture.open(state).0;
    log.flush().unwrap();
    assert!(!fixture.log_dir.is_offline());
    assert_is_filled(&log);
}

/// Kafka's snapshots have an entry for each producer, ours one for each of its last batches. One of
/// more than 256 MiB took the log directory offline at every start.
#[test]
fn the_state_of_very_many_producers_is_read_at_a_start() {
    let config = LogConfig { producer_id_expiration_ms: i64::MAX, ..LogConfig::default() };
    let fixture = Fixture::new(config);
    let log = fixture.fresh();
    append(&log, 3);
    log.close(true).unwrap();
    // Zeros: entries of producer 0.
    let count = (1 << 28) / 46 + 1;
    let mut bytes = vec![0; 10 + 46 * count];
    bytes[6..10].copy_from_slice(&i32::try_from(count).unwrap().to_be_bytes());
    let crc = crc32c(&bytes[6..]);
    bytes[..2].copy_from_slice(&1_i16.to_be_bytes());
    bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    std::fs::write(log.path().join(recovery::snapshot_name(Offset(3))), &bytes).unwrap();
    drop(bytes);
    let log = fixture.open(OpenState { clean: true, ..OpenState::default() }).0;
    assert_eq!(log.producers().len(), 1);
}
