//! Cutting a log from its end or its start, and taking it away, also beside a flush.

use super::*;
use crate::awaited;
use crate::faulty_storage::{Fault, FaultyStorage};

#[test]
fn truncation_drops_the_offset_and_what_follows() {
    let fixture = Fixture::new(small_segments());
    for at in [1, 2, 30, 31, 59, 60, 61, 99] {
        let name = format!("t-{at}");
        let config = fixture.config.clone();
        let (log, _) =
            CommitLog::open(&fixture.log_dir, &name, config, OpenState::default(), NOW_MS).unwrap();
        for _ in 0..50 {
            append(&log, 2);
        }
        read_all(&log, 0);
        truncate(&log, at);
        let end = at / 2 * 2;
        assert_eq!(log.log_end_offset(), Offset(end), "truncated to {at}");
        assert_eq!(read_all(&log, 0).len() as i64, end / 2);
        assert_eq!(append(&log, 2).base_offset, Offset(end));
        assert_eq!(*read_all(&log, 0).last().unwrap(), end);
    }
}

#[test]
fn truncation_takes_the_producers_back() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let batch = |sequence| {
        produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence), 2, NOW_MS)
    };
    for i in 0..30 {
        append_in(&log, &batch(2 * i), EPOCH, NOW_MS).unwrap();
    }
    truncate(&log, 20);
    assert_eq!(log.producers()[0].last_sequence, 19);
    assert_eq!(
        append_in(&log, &batch(20), LeaderEpoch(EPOCH.0 + 2), NOW_MS).unwrap().base_offset,
        Offset(20)
    );
}

#[test]
fn deleted_records_cannot_be_read_and_their_segments_go_later() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..50 {
        append(&log, 2);
    }
    let before = log.segment_count();
    let held = log.read(Offset(0), 100, Offset(100), true).unwrap();
    assert_eq!(log.delete_records(Offset(51), NOW_MS).unwrap(), Offset(51));
    assert!(log.segment_count() < before);
    assert!(matches!(
        log.read(Offset(50), 1, Offset(100), true),
        Err(LogError::OffsetOutOfRange { .. })
    ));
    assert_eq!(read_all(&log, 51)[0], 50);
    let deleted = |suffix| {
        let names = std::fs::read_dir(log.path()).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(suffix)).count()
    };
    assert!(deleted(".deleted") > 0);
    let delay_ms = fixture.config.file_delete_delay_ms;
    assert_eq!(log.remove_deleted(NOW_MS + delay_ms - 1).unwrap(), 0);
    assert!(log.remove_deleted(NOW_MS + delay_ms).unwrap() > 0);
    assert_eq!(deleted(".deleted"), 0);
    // A slice that is still being sent keeps its bytes.
    assert_eq!(held.slices[0].read().unwrap().len() as u32, held.bytes);
    let beyond = log.delete_records(Offset(101), NOW_MS);
    assert!(matches!(beyond, Err(LogError::OffsetOutOfRange { .. })));
}

/// Files of deleted segments stayed until the clock came to their time again.
#[test]
fn a_clock_that_is_set_back_keeps_no_deleted_files() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..50 {
        append(&log, 2);
    }
    log.delete_records(Offset(51), NOW_MS).unwrap();
    assert_eq!(log.remove_deleted(NOW_MS).unwrap(), 0);
    assert!(log.remove_deleted(NOW_MS - 1_000_000_000).unwrap() > 0);
}

#[test]
fn a_closed_log_takes_and_gives_nothing() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 1);
    let path = log.rename_and_close("t-0.0123-delete").unwrap();
    assert!(path.ends_with("t-0.0123-delete") && path.exists());
    assert!(matches!(log.read(Offset(0), 1, Offset(1), true), Err(LogError::Closed { .. })));
    let refused = append_in(&log, &batch_at(1, NOW_MS), EPOCH, NOW_MS);
    assert!(matches!(refused, Err(LogError::Closed { .. })));
}

/// DeleteRecords wrote the leader epochs while a flush did, and one renamed the other's temporary
/// file. "No such file" took the log directory offline, and no topic could be created any more.
#[test]
fn deleting_records_beside_a_flush_keeps_the_directory_online() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    for epoch in 0..300 {
        append_in(&log, &batch_at(1, NOW_MS), LeaderEpoch(epoch), NOW_MS).unwrap();
    }
    let _ends = awaited::within("flushes and deletions end");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                log.flush_all().unwrap();
            }
        });
        for offset in 1..300 {
            log.delete_records(Offset(offset), NOW_MS).unwrap();
        }
    });
    assert!(!fixture.log_dir.is_offline());
    assert_eq!(log.epochs().first().map(|first| first.start_offset), Some(Offset(299)));
}

#[test]
fn a_log_that_is_deleted_beside_a_flush_takes_nothing_offline() {
    let fixture = Fixture::new(small_segments());
    for round in 0..50 {
        let log = fixture.fresh();
        let _ends = awaited::within("flushes of a deleted log end");
        std::thread::scope(|scope| {
            let flushes = scope.spawn(|| {
                loop {
                    match log.flush() {
                        Ok(_) => {}
                        Err(LogError::Closed { .. }) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            for _ in 0..20 {
                append(&log, 10);
            }
            let gone = log.rename_and_close(&format!("t-0.{round}-delete")).unwrap();
            std::fs::remove_dir_all(&*gone).unwrap();
            flushes.join().unwrap();
        });
        assert!(!log.log_dir().is_offline(), "round {round}");
    }
}

/// Compaction had removed the records of the offsets before the cut. The log ended before them
/// after a truncation, and other records got their offsets.
#[test]
fn offsets_that_compaction_emptied_are_not_given_again_after_a_truncation() {
    let config = LogConfig { cleanup_compact: true, ..small_segments() };
    for (clean, offset) in [(false, 5), (true, 5), (false, 9), (true, 9)] {
        let fixture = Fixture::new(config.clone());
        let log = fixture.fresh();
        for _ in 0..10 {
            append(&log, 1);
        }
        log.roll(NOW_MS).unwrap();
        log.compact(Offset(10), NOW_MS, 100).unwrap();
        assert_eq!(read_all(&log, 0), [9], "all records have one key");
        append(&log, 1);
        assert_eq!(truncate(&log, offset).offset, Offset(offset));
        assert_eq!(log.log_start_offset(), Offset(0));
        assert_eq!(log.end_offset_for_epoch(EPOCH).unwrap().end_offset, Offset(offset));
        log.close(clean).unwrap();
        drop(log);
        let (log, _) = fixture.open(OpenState { clean, ..OpenState::default() });
        assert_eq!(log.log_end_offset(), Offset(offset), "clean: {clean}");
        assert_eq!(append(&log, 1).base_offset, Offset(offset));
        assert_eq!(read_all(&log, 0), [offset]);
        assert_eq!(read_all(&log, offset), [offset]);
    }
}

/// A follower's log whose start lies inside the batch that begins at offset 3: it is cut there.
fn cut_inside_the_first_batch(fixture: &Fixture) -> CommitLog {
    let log = fixture.fresh();
    append(&log, 3);
    append(&log, 3);
    log.delete_records(Offset(4), NOW_MS).unwrap();
    truncate(&log, 5);
    log
}

/// The log began at 3 after a truncation: a record that was deleted came back, or another one got
/// its offset.
#[test]
fn a_truncation_inside_a_batch_does_not_move_the_start_back() {
    let fixture = Fixture::new(small_segments());
    let log = cut_inside_the_first_batch(&fixture);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(4), Offset(4)));
    drop(log);
    let (log, _) = fixture.open(OpenState { log_start_offset: Offset(4), ..OpenState::default() });
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(4), Offset(4)));
    assert_eq!(append(&log, 1).base_offset, Offset(4));
}

/// The batches of a leader's log, as a fetch brings them.
fn followed(base_offset: i64, epoch: i32) -> bytes::Bytes {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    for _ in 0..3 {
        builder.append(NOW_MS, Some(b"key"), Some(b"value"), &[]);
    }
    builder.build(Offset(base_offset), LeaderEpoch(epoch)).unwrap()
}

/// DeleteRecords may move the start of the leader's log into a batch, and that batch is what a
/// follower gets that begins there. The follower always refused it.
#[test]
fn a_follower_that_begins_inside_a_batch_takes_the_whole_batch() {
    for at in 0.. {
        let (temp, storage) = (tempfile::tempdir().unwrap(), FaultyStorage::default());
        let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
        let fixture = Fixture { temp, log_dir, config: Arc::new(small_segments()) };
        let log = cut_inside_the_first_batch(&fixture);
        let epoch = log.role().epoch();
        let struck_at = storage.changes() + at;
        storage.plan(struck_at, Fault::Crash);
        let appended = log.append_as_follower(&followed(3, epoch.0), epoch, Offset(0), NOW_MS);
        let whole = |log: &CommitLog| {
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(4), Offset(6)));
            assert_eq!(read_all(log, 4), [3]);
            assert!(matches!(
                log.read(Offset(3), 1, Offset(6), true),
                Err(LogError::OffsetOutOfRange { .. })
            ));
        };
        if appended.is_ok() {
            whole(&log);
        }
        drop(log);
        fixture.log_dir.unlock();
        let log_dir = LogDir::open(fixture.temp.path(), Arc::new(RealStorage), 100).unwrap();
        let state = OpenState { log_start_offset: Offset(4), ..OpenState::default() };
        let config = fixture.config.clone();
        let (log, _) = CommitLog::open(&log_dir, "t-0", config, state, NOW_MS).unwrap();
        if log.log_end_offset() == Offset(4) {
            log.become_follower(epoch).unwrap();
            log.append_as_follower(&followed(3, epoch.0), epoch, Offset(0), NOW_MS).unwrap();
        }
        whole(&log);
        if storage.changes() <= struck_at {
            return;
        }
    }
}

#[test]
fn a_batch_before_the_start_is_refused_by_a_log_that_has_records() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    append(&log, 3);
    let epoch = LeaderEpoch(log.role().epoch().0 + 1);
    log.become_follower(epoch).unwrap();
    for base_offset in [0, 1, 2] {
        let refused =
            log.append_as_follower(&followed(base_offset, epoch.0), epoch, Offset(0), NOW_MS);
        assert!(matches!(refused, Err(LogError::NotContiguous { .. })));
    }
    log.restart_as_follower(Offset(5), epoch, NOW_MS).unwrap();
    for base_offset in [1, 2] {
        let refused =
            log.append_as_follower(&followed(base_offset, epoch.0), epoch, Offset(0), NOW_MS);
        assert!(matches!(refused, Err(LogError::NotContiguous { .. })), "ends before the start");
    }
    log.append_as_follower(&followed(3, epoch.0), epoch, Offset(0), NOW_MS).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(5), Offset(6)));
}

/// A look-up of an offset in a gap found the batch before the gap. A reader got the same batch
/// again and again, and no new records.
#[test]
fn a_read_in_a_gap_of_a_followers_log_begins_behind_the_gap() {
    let fixture = Fixture::new(LogConfig { cleanup_compact: true, ..small_segments() });
    let log = fixture.fresh();
    let epoch = LeaderEpoch(1);
    log.become_follower(epoch).unwrap();
    log.append_as_follower(&followed(0, 1), epoch, Offset(0), NOW_MS).unwrap();
    // From here on the newest batches are looked up without the file.
    read_all(&log, 0);
    log.append_as_follower(&followed(3, 1), epoch, Offset(0), NOW_MS).unwrap();
    log.append_as_follower(&followed(10, 1), epoch, Offset(0), NOW_MS).unwrap();
    for from in [6, 7, 10] {
        assert_eq!(read_all(&log, from), [10], "from {from}");
    }
}
