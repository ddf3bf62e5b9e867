//! Index entries are hints: a wrong one costs time, never an answer.

use super::*;
use crate::faulty_storage::FaultyStorage;
use crate::segment::{INDEX_SUFFIX, TIME_INDEX_SUFFIX};

const CLEAN: OpenState = OpenState {
    clean: true,
    recovery_point: Offset(0),
    log_start_offset: Offset(0),
    cleaned_to: Offset(0),
};
const RECORDS: i64 = 240;

/// Two segments, closed: batch i holds the offsets 2i and 2i+1, and the timestamp of both is 10i.
fn closed(fixture: &Fixture) {
    let log = fixture.fresh();
    for i in 0..RECORDS / 2 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        for _ in 0..2 {
            builder.append(10 * i, Some(b"key"), Some(b"0123456789"), &[]);
        }
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validate(&bytes, &LogConfig::default(), NOW_MS, 9).unwrap();
        append_in(&log, &batch, EPOCH, NOW_MS).unwrap();
    }
    assert_eq!(log.segment_count(), 2);
    log.close(true).unwrap();
}

fn two_segments() -> LogConfig {
    LogConfig { segment_bytes: 8_000, ..small_segments() }
}

/// Changes the entries of every index file with this suffix.
fn damage<const LENGTH: usize>(
    fixture: &Fixture,
    suffix: &str,
    change: impl Fn(&mut Vec<[u8; LENGTH]>),
) {
    for entry in std::fs::read_dir(fixture.temp.path().join("t-0")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(suffix) {
            let mut entries = std::fs::read(&path).unwrap().as_chunks().0.to_vec();
            assert!(entries.len() > 8, "{} has {} entries", path.display(), entries.len());
            change(&mut entries);
            std::fs::write(&path, entries.as_flattened()).unwrap();
        }
    }
}

fn assert_finds_everything(log: &CommitLog, what: &str) {
    for from in 0..RECORDS {
        assert_eq!(read_all(log, from)[0], from / 2 * 2, "{what}: offset {from}");
    }
    assert_finds_every_time(log, what);
}

fn assert_finds_every_time(log: &CommitLog, what: &str) {
    for i in 0..RECORDS / 2 {
        for timestamp_ms in [10 * i - 5, 10 * i] {
            let found = log.offset_for_timestamp(timestamp_ms).unwrap().map(|found| found.offset);
            assert_eq!(found, Some(Offset(2 * i)), "{what}: timestamp {timestamp_ms}");
        }
    }
    let newest = log.offset_of_max_timestamp().unwrap().map(|found| found.offset);
    assert_eq!(newest, Some(Offset(RECORDS - 2)), "{what}");
}

/// An entry whose position was that of a later batch was believed: a fetch at 50 returned 65.
#[test]
fn an_offset_entry_that_names_another_batch_is_found_out() {
    let fixture = Fixture::new(two_segments());
    closed(&fixture);
    damage::<8>(&fixture, ".index", |entries| {
        for i in 0..entries.len() - 2 {
            let later: [u8; 4] = entries[i + 1][4..].try_into().unwrap();
            entries[i][4..].copy_from_slice(&later);
        }
    });
    assert_finds_everything(&fixture.open(CLEAN).0, "positions of the next entry");
}

/// ListOffsets by time answered CORRUPT_MESSAGE until a fetch had the index rebuilt.
#[test]
fn a_look_up_by_time_rebuilds_a_damaged_offset_index() {
    let fixture = Fixture::new(two_segments());
    closed(&fixture);
    damage::<8>(&fixture, ".index", |entries| {
        let count = entries.len() - 1;
        entries[..count].iter_mut().for_each(|entry| entry[7] ^= 1);
    });
    assert_finds_every_time(&fixture.open(CLEAN).0, "positions inside of batches");
}

/// Time entries were believed whatever they named: records before were passed over.
#[test]
fn a_time_entry_that_names_another_batch_is_found_out() {
    for what in ["later offset", "smaller timestamp", "lost entries"] {
        let fixture = Fixture::new(two_segments());
        closed(&fixture);
        damage::<12>(&fixture, TIME_INDEX_SUFFIX, |entries| {
            let count = entries.len() - 3;
            match what {
                "later offset" => (0..count).for_each(|i| {
                    let later: [u8; 4] = entries[i + 2][8..].try_into().unwrap();
                    entries[i][8..].copy_from_slice(&later);
                }),
                "smaller timestamp" => {
                    entries[1..count].iter_mut().for_each(|entry| entry[7] -= 1);
                }
                _ => entries.truncate(count),
            }
        });
        assert_finds_everything(&fixture.open(CLEAN).0, what);
    }
}

/// While an index was rebuilt, readers saw the largest timestamp of the part that was read so far.
/// Retention went by that as well, and took segments that were not old.
#[test]
fn a_rebuild_hides_no_timestamp_while_it_goes_on() {
    let storage = FaultyStorage::default();
    let temp = tempfile::tempdir().unwrap();
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
    let fixture = Fixture { temp, log_dir, config: Arc::new(two_segments()) };
    closed(&fixture);
    damage::<8>(&fixture, INDEX_SUFFIX, |entries| {
        let count = entries.len() - 1;
        entries[..count].iter_mut().for_each(|entry| entry[7] ^= 1);
    });
    let log = Arc::new(fixture.open(CLEAN).0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    fn watch(storage: &FaultyStorage, log: &Arc<CommitLog>, seen: &Arc<Mutex<Vec<i64>>>) {
        let (again, log, seen) = (storage.clone(), log.clone(), seen.clone());
        storage.beside_next_read(move || {
            let active = log.writer.lock().active.clone();
            seen.lock().push(active.newest().unwrap().timestamp_ms);
            watch(&again, &log, &seen);
        });
    }
    watch(&storage, &log, &seen);
    read_all(&log, RECORDS - 20);
    storage.beside_next_read(|| ());
    let seen = seen.lock();
    assert!(seen.len() > 2, "the rebuild read {} times", seen.len());
    assert!(seen.iter().all(|newest| *newest == 5 * RECORDS - 10), "{seen:?}");
}

/// The largest timestamp was published before the bytes of its batch: ListOffsets for it answered
/// that there is no record, in a full partition.
#[test]
fn a_timestamp_is_not_told_before_its_batch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 1);
    let active = log.writer.lock().active.clone();
    let mut header = batch_at(1, NOW_MS + 5).header;
    header.base_offset = log.log_end_offset();
    // What an append does between its write and the moment at which it is published.
    let mut indexes = active.indexes().unwrap();
    active.note_batch(&mut indexes, &header, Position(active.size()), 100);
    drop(indexes);
    let newest = log.offset_of_max_timestamp().unwrap().expect("there is a record");
    assert_eq!((newest.offset, newest.timestamp_ms), (Offset(0), NOW_MS));
}

/// The flush after a roll syncs the indexes of the segment before as well. One that was missing
/// took the whole directory offline.
#[test]
fn a_missing_index_is_no_failure_of_the_disk() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 2);
    log.roll(NOW_MS).unwrap();
    log.close(true).unwrap();
    for suffix in [INDEX_SUFFIX, TIME_INDEX_SUFFIX] {
        std::fs::remove_file(log.path().join(format!("00000000000000000000{suffix}"))).unwrap();
    }
    let (log, _) = fixture.open(CLEAN);
    append(&log, 2);
    log.roll(NOW_MS).unwrap();
    assert_eq!(log.flush().unwrap().offset, Offset(4));
    assert!(!fixture.log_dir.is_offline());
    assert_eq!(read_all(&log, 0), [0, 2]);
}
