//! Cutting a log from its end or its start, and taking it away, also beside a flush.

use super::*;
use crate::awaited;

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

/// DeleteRecords wrote the leader epochs while a flush did; the one renamed the other's temporary
/// file, "No such file" took the log directory offline, and no topic could be created any more.
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
