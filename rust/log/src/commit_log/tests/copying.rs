//! A copy shares the bytes of sealed segments, and neither side changes what the other reads.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::*;

const CLEAN: OpenState = OpenState {
    clean: true,
    recovery_point: Offset(0),
    log_start_offset: Offset(0),
    cleaned_to: Offset(0),
};

/// A log with three segments, the first two of them sealed, and a copy of it.
fn copied() -> (Fixture, CommitLog, Fixture, CommitLog) {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..20 {
        append(&log, 5);
    }
    let other = Fixture::new(small_segments());
    let found = log.copy_to(&other.temp.path().join("t-0"), NOW_MS).unwrap();
    assert_eq!(found.log_end_offset, Offset(100));
    let copy = other.open(CLEAN).0;
    (fixture, log, other, copy)
}

fn segments(log: &CommitLog) -> Vec<PathBuf> {
    let segments = log.segments.read();
    segments.iter().map(|segment| segment.path(crate::segment::LOG_SUFFIX)).collect()
}

fn names_of(path: &PathBuf) -> u64 {
    std::fs::metadata(path).unwrap().nlink()
}

#[test]
fn a_copy_has_every_record_and_no_byte_of_its_own() {
    let (_fixture, log, _other, copy) = copied();
    assert_eq!(copy.log_end_offset(), Offset(100));
    assert_eq!(read_all(&copy, 0), read_all(&log, 0));
    let paths = segments(&copy);
    let (active, sealed) = paths.split_last().unwrap();
    assert!(sealed.len() >= 2);
    assert!(sealed.iter().all(|path| names_of(path) == 2));
    assert_eq!(names_of(active), 1);
}

#[test]
fn each_side_appends_without_the_other() {
    let (_fixture, log, _other, copy) = copied();
    let before = read_all(&log, 0);
    append(&copy, 7);
    assert_eq!(read_all(&log, 0), before);
    append(&log, 3);
    assert_eq!((log.log_end_offset(), copy.log_end_offset()), (Offset(103), Offset(107)));
}

#[test]
fn a_truncation_of_one_side_leaves_the_bytes_of_the_other() {
    let (_fixture, log, _other, copy) = copied();
    let before = read_all(&log, 0);
    truncate(&copy, 12);
    append(&copy, 30);
    assert_eq!(read_all(&log, 0), before);
    assert_eq!(read_all(&copy, 0), [0, 5, 10]);
}

#[test]
fn a_truncation_of_the_original_leaves_the_bytes_of_the_copy() {
    let (_fixture, log, _other, copy) = copied();
    let before = read_all(&copy, 0);
    truncate(&log, 12);
    append(&log, 30);
    assert_eq!(read_all(&copy, 0), before);
}

#[test]
fn a_recovery_that_writes_indexes_again_leaves_those_of_the_copy() {
    let (fixture, log, _other, copy) = copied();
    let before = read_all(&copy, 40);
    log.close(false).unwrap();
    drop(log);
    let again = fixture.fresh();
    assert_eq!(read_all(&again, 40), before);
    assert_eq!(read_all(&copy, 40), before);
}

#[test]
fn deletion_on_one_side_leaves_the_files_of_the_other() {
    let (_fixture, log, _other, copy) = copied();
    let before = read_all(&copy, 0);
    let config = LogConfig { retention_ms: 1, ..small_segments() };
    log.set_config(Arc::new(config));
    log.retain(NOW_MS + 1_000_000, log.log_end_offset()).unwrap();
    log.remove_deleted(i64::MAX).unwrap();
    assert_eq!(log.log_start_offset(), Offset(100));
    assert_eq!(read_all(&copy, 0), before);
}

#[test]
fn a_log_without_records_is_copied_as_such() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let other = Fixture::new(small_segments());
    log.copy_to(&other.temp.path().join("t-0"), NOW_MS).unwrap();
    let copy = other.open(CLEAN).0;
    assert_eq!(copy.log_end_offset(), Offset(0));
    append(&copy, 1);
    assert_eq!((copy.log_end_offset(), log.log_end_offset()), (Offset(1), Offset(0)));
}

#[test]
fn a_copy_knows_the_producers_and_the_leader_epochs() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    append(&log, 5);
    let other = Fixture::new(small_segments());
    log.copy_to(&other.temp.path().join("t-0"), NOW_MS).unwrap();
    let copy = other.open(CLEAN).0;
    assert_eq!(copy.producers(), log.producers());
    assert_eq!(copy.epochs(), log.epochs());
}

#[test]
fn a_log_that_is_deleted_is_not_copied() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    log.rename_and_close("t-0.id-delete").unwrap();
    let other = tempfile::tempdir().unwrap();
    let copied = log.copy_to(&other.path().join("t-0"), NOW_MS);
    assert!(matches!(copied, Err(LogError::Closed { .. })));
}
