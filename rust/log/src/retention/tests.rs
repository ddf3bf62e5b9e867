#![allow(clippy::unwrap_used)]

use super::*;
use crate::commit_log::OpenState;
use crate::commit_log::tests::{Fixture, append, append_in, batch_at, read_all, small_segments};
use kafkalite_protocol::types::LeaderEpoch;

const DAY_MS: i64 = 86_400_000;

/// Ten batches of two records, a day apart, the first at day 1; two or three fit into a segment.
fn ten_days(log: &CommitLog) {
    for day in 1..=10 {
        append_in(log, &batch_at(2, day * DAY_MS), LeaderEpoch(0), day * DAY_MS).unwrap();
    }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 250, retention_ms: 3 * DAY_MS, ..small_segments() }
}

#[test]
fn segments_go_when_their_newest_record_is_too_old() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    ten_days(&log);
    let before = log.segment_count();
    // On day 8 the records of day 5 are exactly as old as they may get.
    let retained = log.retain(8 * DAY_MS, log.log_end_offset()).unwrap();
    assert_eq!(log.segment_count(), before - retained.deleted_segments);
    assert_eq!(retained.log_start_offset, Offset(8));
    assert_eq!(read_all(&log, 8)[0], 8);
}

#[test]
fn an_expired_active_segment_is_rolled_first() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    ten_days(&log);
    log.retain(20 * DAY_MS, log.log_end_offset()).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(20), Offset(20)));
    assert_eq!(log.segment_count(), 1);
    assert_eq!(append(&log, 1).base_offset, Offset(20));
}

#[test]
fn nothing_at_or_above_the_high_watermark_goes() {
    for (high_watermark, start) in [(0, 0), (3, 0), (4, 4), (11, 8), (12, 12)] {
        let fixture = Fixture::new(config());
        let log = fixture.fresh();
        ten_days(&log);
        log.retain(20 * DAY_MS, Offset(high_watermark)).unwrap();
        assert_eq!(log.log_start_offset(), Offset(start), "high watermark {high_watermark}");
    }
}

#[test]
fn segments_go_while_the_log_is_larger_than_retention_bytes() {
    let unlimited = LogConfig { retention_ms: -1, ..config() };
    let fixture = Fixture::new(unlimited.clone());
    let log = fixture.fresh();
    ten_days(&log);
    let (total, one) = (log.size_bytes() as i64, log.size_bytes() as i64 / 5);
    for (retention_bytes, start) in
        [(-1, 0), (total, 0), (total - one + 1, 0), (total - one, 4), (0, 20)]
    {
        log.set_config(Arc::new(LogConfig { retention_bytes, ..unlimited.clone() }));
        log.retain(20 * DAY_MS, log.log_end_offset()).unwrap();
        assert_eq!(log.log_start_offset(), Offset(start), "retention.bytes {retention_bytes}");
    }
}

#[test]
fn a_timestamp_in_the_future_does_not_keep_a_segment() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    append_in(&log, &batch_at(2, 900 * DAY_MS), LeaderEpoch(0), DAY_MS).unwrap();
    log.retain(4 * DAY_MS, Offset(2)).unwrap();
    assert_eq!(log.log_start_offset(), Offset(0));
    log.retain(4 * DAY_MS + 1, Offset(2)).unwrap();
    assert_eq!(log.log_start_offset(), Offset(2));
}

fn snapshots(log: &CommitLog) -> usize {
    let names = std::fs::read_dir(log.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".snapshot")).count()
}

/// Snapshots of producers were never deleted if only DeleteRecords deletes, and each clean stop
/// left one more.
#[test]
fn snapshots_go_with_their_segments() {
    let fixture = Fixture::new(LogConfig { retention_ms: -1, ..config() });
    let mut log = fixture.fresh();
    ten_days(&log);
    assert_eq!((log.segment_count(), snapshots(&log)), (5, 4));
    log.delete_records(Offset(17), DAY_MS).unwrap();
    assert_eq!((log.segment_count(), snapshots(&log)), (1, 1));
    for _ in 0..4 {
        log.close(true).unwrap();
        let clean = OpenState { clean: true, log_start_offset: Offset(17), ..OpenState::default() };
        log = fixture.open(clean).0;
        let limit = log.segment_count() + 1;
        assert!(snapshots(&log) <= limit, "{} of {limit}", snapshots(&log));
        append(&log, 1);
    }
}

#[test]
fn a_log_that_is_only_compacted_keeps_all_above_its_start() {
    let fixture =
        Fixture::new(LogConfig { cleanup_delete: false, cleanup_compact: true, ..config() });
    let log = fixture.fresh();
    ten_days(&log);
    log.retain(900 * DAY_MS, log.log_end_offset()).unwrap();
    assert_eq!(log.log_start_offset(), Offset(0));
    log.delete_records(Offset(7), DAY_MS).unwrap();
    log.retain(900 * DAY_MS, log.log_end_offset()).unwrap();
    assert_eq!(log.log_start_offset(), Offset(7));
}

/// DeleteRecords up to the log's end leaves the active segment. Retention never removed that
/// segment if nothing was appended any more.
#[test]
fn what_was_deleted_up_to_the_end_goes_when_it_is_old() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    ten_days(&log);
    log.delete_records(Offset(20), 10 * DAY_MS).unwrap();
    log.retain(13 * DAY_MS, Offset(20)).unwrap();
    assert!(log.size_bytes() > 0, "its last record is not too old yet");
    log.retain(14 * DAY_MS, Offset(20)).unwrap();
    assert_eq!((log.size_bytes(), log.segment_count()), (0, 1));
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(20), Offset(20)));
}
