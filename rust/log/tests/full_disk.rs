//! A disk that is full at any single change of a compaction or a deletion.
#![allow(clippy::unwrap_used)]

#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use tempfile::TempDir;

const NOW_MS: i64 = 1_700_000_000_000;

/// The offset and the number of the last record of each key.
type LastValues = BTreeMap<u8, (Offset, u8)>;

struct Fixture {
    temp: TempDir,
    storage: FaultyStorage,
    log: CommitLog,
}

/// 40 batches in four segments, of four keys and four leader epochs, all on the disk.
fn filled(config: &LogConfig) -> Fixture {
    filled_with(config, |number| number % 4)
}

/// As [`filled`], where `key_of` gives each batch its key.
fn filled_with(config: &LogConfig, key_of: impl Fn(u8) -> u8) -> Fixture {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    // Few open files, so that names matter.
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 1).unwrap();
    let (state, shared) = (OpenState::default(), Arc::new(config.clone()));
    let (log, _) = CommitLog::open(&log_dir, "t-0", shared, state, NOW_MS).unwrap();
    for number in 0..40_u8 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        builder.append(NOW_MS, Some(&[key_of(number)]), Some(&[number]), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validation::validate(&bytes, config, NOW_MS, 9).unwrap();
        let epoch = LeaderEpoch(i32::from(number / 10));
        log.become_leader(epoch).unwrap();
        log.append_as_leader(&batch, epoch, NOW_MS).unwrap();
    }
    log.flush().unwrap();
    Fixture { temp, storage, log }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 700, index_interval_bytes: 100, ..LogConfig::default() }
}

impl Fixture {
    /// The records that fetches of one batch each find, one after another. `None` if they do not
    /// come to the end: a read that never finds its segment would search without end.
    fn last_values(&self) -> LastValues {
        let read_all = || {
            let mut found = LastValues::new();
            let end = self.log.log_end_offset();
            let mut from = self.log.log_start_offset();
            while from < end {
                let read = self.log.read(from, 1, end, true).ok()?;
                let bytes = read.slices.first()?.read().ok()?;
                let batch = Batches::new(&bytes).next()?.ok()?;
                for record in &batch.records(1 << 20).ok()? {
                    let record = record.ok()?;
                    found.insert(record.key?[0], (record.offset, record.value?[0]));
                }
                from = batch.header().next_offset();
            }
            Some(found)
        };
        let (sent, received) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sent.send(read_all()));
            let found = received.recv_timeout(std::time::Duration::from_secs(30));
            // Ends a read that does not end by itself.
            found.unwrap_or_else(|_| {
                self.storage.crash();
                self.log.close(false).unwrap();
                None
            })
        })
        .unwrap_or_default()
    }

    fn names(&self, suffix: &str) -> usize {
        let names = std::fs::read_dir(self.temp.path().join("t-0")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(suffix)).count()
    }
}

/// If a rename found the disk full, the old files were still removed when their time came. Their
/// records were gone until a restart, and fetches of them never got an answer.
#[test]
fn a_compaction_that_finds_the_disk_full_hides_no_record() {
    let config = LogConfig { cleanup_compact: true, cleanup_delete: false, ..config() };
    for at in 0.. {
        let fixture = filled(&config);
        let (before, end) = (fixture.last_values(), fixture.log.log_end_offset());
        assert_eq!(before.len(), 4);
        let changes = fixture.storage.changes();
        fixture.storage.plan(changes + at, Fault::Full);
        let outcome = fixture.log.compact(end, NOW_MS, 100);
        let struck = fixture.storage.changes() > changes + at;
        fixture.storage.plan(u64::MAX, Fault::Full);
        for when in ["once", "again"] {
            let what = format!("full at change {at}, {when}: {outcome:?}");
            assert_eq!(fixture.last_values(), before, "{what}");
            fixture.log.remove_deleted(NOW_MS + config.file_delete_delay_ms).unwrap();
            assert_eq!(fixture.last_values(), before, "{what}, removed");
            fixture.log.compact(end, NOW_MS, 100).unwrap();
        }
        if !struck {
            assert!(at > 60, "a compaction makes {at} changes");
            return;
        }
    }
}

/// Segments whose names stayed were forgotten, and so were files that could not be removed: a full
/// disk stayed full.
#[test]
fn a_deletion_that_finds_the_disk_full_goes_on_at_the_next_turn() {
    let config = LogConfig { retention_bytes: 700, ..config() };
    for at in 0.. {
        let fixture = filled(&config);
        let (log, changes) = (&fixture.log, fixture.storage.changes());
        fixture.storage.plan(changes + at, Fault::Full);
        let turn = || {
            let retained = log.retain(NOW_MS, log.log_end_offset()).map(|_| 0);
            retained.and(log.remove_deleted(NOW_MS + config.file_delete_delay_ms))
        };
        let first = turn();
        let struck = fixture.storage.changes() > changes + at;
        turn().unwrap();
        let left = (fixture.names(".log"), fixture.names(".index"), fixture.names(".deleted"));
        assert_eq!(left, (1, 0, 0), "full at change {at}: {first:?}");
        assert_eq!(log.active_base_offset(), log.log_start_offset(), "full at change {at}");
        if !struck {
            assert!(at > 20, "a deletion makes {at} changes");
            return;
        }
    }
}

impl Fixture {
    /// The same directory after a stop, clean or not.
    fn reopened(self, config: &LogConfig, clean: bool, log_start_offset: Offset) -> Self {
        let Self { temp, storage, log } = self;
        log.close(clean).unwrap();
        let recovery_point = if clean { log.durable_offset() } else { Offset(0) };
        let state = OpenState { clean, recovery_point, log_start_offset, ..OpenState::default() };
        let log_dir = log.log_dir().clone();
        drop(log);
        let shared = Arc::new(config.clone());
        let (log, _) = CommitLog::open(&log_dir, "t-0", shared, state, NOW_MS).unwrap();
        Self { temp, storage, log }
    }

    /// Calls `act` with a disk that is full at the change `at`, counted from now; whether there was
    /// such a change, and the outcome.
    fn full_at<T>(&self, at: u64, act: impl FnOnce(&CommitLog) -> T) -> (bool, T) {
        let first = self.storage.changes();
        self.storage.plan(first + at, Fault::Full);
        let outcome = act(&self.log);
        self.storage.plan(u64::MAX, Fault::Full);
        (self.storage.changes() > first + at, outcome)
    }

    /// Appends a batch of one record as a new leader; whether it was in the log already.
    fn append(&self, producer: Option<i64>, key: u8, value: u8) -> bool {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        if let Some(id) = producer {
            builder = builder.producer(id, 0, 0);
        }
        builder.append(NOW_MS, Some(&[key]), Some(&[value]), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validation::validate(&bytes, &config(), NOW_MS, 9).unwrap();
        let epoch = LeaderEpoch(9);
        self.log.become_leader(epoch).unwrap();
        self.log.append_as_leader(&batch, epoch, NOW_MS).unwrap().duplicate
    }
}

/// The file of the new segment stayed where a roll failed. The next start took it for the end of
/// the log, or for damage: what was appended after the failure was gone.
#[test]
fn what_is_appended_after_a_roll_that_found_the_disk_full_is_there_after_a_restart() {
    let config = LogConfig { segment_bytes: 1 << 20, ..config() };
    for at in 0.. {
        let mut struck = false;
        for clean in [true, false] {
            let fixture = filled(&config);
            struck = fixture.full_at(at, |log| log.roll(NOW_MS)).0;
            fixture.append(None, 7, 7);
            let (before, end) = (fixture.last_values(), fixture.log.log_end_offset());
            let fixture = fixture.reopened(&config, clean, Offset(0));
            assert_eq!(fixture.log.log_end_offset(), end, "full at {at}, clean: {clean}");
            assert_eq!(fixture.last_values(), before, "full at {at}, clean: {clean}");
        }
        if !struck {
            assert!(at > 3, "a roll makes {at} changes");
            return;
        }
    }
}

/// A roll went on without its snapshot. When the records below were deleted, nothing told a restart
/// of their producers: a batch that was sent again was stored twice.
#[test]
fn producers_of_deleted_records_are_known_where_a_roll_found_the_disk_full() {
    let config = LogConfig { segment_bytes: 1 << 20, ..config() };
    for at in 0.. {
        let fixture = filled(&config);
        assert!(!fixture.append(Some(5), 7, 7));
        let (struck, rolled) = fixture.full_at(at, |log| log.roll(NOW_MS));
        if rolled.is_err() {
            fixture.log.roll(NOW_MS).unwrap();
        }
        fixture.append(None, 8, 8);
        let start = Offset(41);
        fixture.log.delete_records(start, NOW_MS).unwrap();
        let fixture = fixture.reopened(&config, false, start);
        assert!(fixture.append(Some(5), 7, 7), "full at {at}: stored twice");
        if !struck {
            return;
        }
    }
}

/// Where all records are too old, the newest segment is rolled first. Without room for that,
/// nothing was deleted at all, and the disk stayed full.
#[test]
fn sealed_segments_are_deleted_where_there_is_no_room_to_roll_the_newest() {
    let config = LogConfig { retention_ms: 1, ..config() };
    let fixture = filled(&config);
    let now_ms = NOW_MS + 10_000;
    let sealed = fixture.names(".log") - 1;
    let end = fixture.log.log_end_offset();
    let (_, retained) = fixture.full_at(0, |log| log.retain(now_ms, end));
    assert_eq!(retained.unwrap().deleted_segments, sealed);
    assert_eq!(fixture.log.retain(now_ms, end).unwrap().log_start_offset, end);
}

/// A compacted segment found no room for its new name, and a deletion took one of the segments that
/// it was made of. It was thrown away as void, although the other one of them had the names of
/// files that a start removes.
#[test]
fn a_deletion_after_a_compaction_that_found_the_disk_full_loses_no_record() {
    let config = LogConfig { cleanup_compact: true, ..config() };
    // Two of these segments go into one, not three.
    let joining = LogConfig { segment_bytes: 1_500, ..config.clone() };
    for at in 0.. {
        let fixture = filled_with(&config, |number| if number % 5 == 0 { 200 } else { number });
        let log = &fixture.log;
        log.set_config(Arc::new(joining.clone()));
        let end = log.log_end_offset();
        let (struck, _) = fixture.full_at(at, |log| log.compact(end, NOW_MS, 100));
        let start = Offset(12);
        log.delete_records(start, NOW_MS).unwrap();
        let before = fixture.last_values();
        assert_eq!(before.len(), 24, "full at {at}");
        // The next compaction does not come far either.
        drop(fixture.full_at(3, |log| log.compact(end, NOW_MS, 100)));
        let fixture = fixture.reopened(&joining, false, start);
        assert_eq!(fixture.last_values(), before, "full at {at}");
        if !struck {
            assert!(at > 30, "a compaction makes {at} changes");
            return;
        }
    }
}

/// The files of a segment had the names of an earlier replaced segment, and were removed when that
/// segment's time came. Fetches of their records never got an answer.
#[test]
fn files_that_a_full_disk_keeps_in_use_are_not_removed_with_those_of_an_earlier_compaction() {
    let config = LogConfig { cleanup_compact: true, cleanup_delete: false, ..config() };
    for at in 0.. {
        let fixture = filled_with(&config, |number| if number % 5 == 0 { 200 } else { number });
        let log = &fixture.log;
        log.compact(log.log_end_offset(), NOW_MS, 100).unwrap();
        fixture.append(None, 3, 3);
        fixture.append(None, 13, 13);
        log.roll(NOW_MS).unwrap();
        let (before, end) = (fixture.last_values(), log.log_end_offset());
        let (struck, _) = fixture.full_at(at, |log| log.compact(end, NOW_MS + 1, 100));
        log.remove_deleted(NOW_MS + config.file_delete_delay_ms).unwrap();
        assert_eq!(fixture.last_values(), before, "full at {at}");
        if !struck {
            assert!(at > 20, "a compaction makes {at} changes");
            return;
        }
    }
}
