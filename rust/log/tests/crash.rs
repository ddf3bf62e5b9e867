//! Fails, crashes and cuts the power at every single change that a log makes to its files.
#![allow(clippy::unwrap_used)]

#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::storage::{RealStorage, Storage};
use kafkalite_log::{
    Appended, CommitLog, LogConfig, LogDir, LogError, OpenState, ValidatedBatch, validation,
};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use tempfile::TempDir;

const NOW_MS: i64 = 1_700_000_000_000;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const BATCHES: i32 = 24;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 700, index_interval_bytes: 100, ..LogConfig::default() }
}

/// Batch `number` of producer 7: two records.
fn batch(number: i32) -> ValidatedBatch {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(7, 0, number * 2);
    for _ in 0..2 {
        builder.append(NOW_MS, Some(b"k"), Some(format!("value {number}").as_bytes()), &[]);
    }
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validation::validate(&bytes, &config(), NOW_MS, 9).unwrap()
}

fn open(
    temp: &TempDir,
    storage: Arc<dyn Storage>,
    state: OpenState,
) -> Result<CommitLog, LogError> {
    let log_dir = LogDir::open(temp.path(), storage, 10)?;
    let (log, _) = CommitLog::open(&log_dir, "t-0", Arc::new(config()), state, NOW_MS)?;
    log.become_leader(log.latest_epoch().unwrap_or(LeaderEpoch(0)))?;
    Ok(log)
}

/// What a client and the checkpoints know when the broker is gone.
#[derive(Default)]
struct Known {
    acknowledged: BTreeMap<i32, Offset>,
    durable: Offset,
    log_start: Offset,
}

/// Appends all batches, with flushes and deletions now and then. Stops at the first error that is
/// not a full disk. Sends a batch again if it found the disk full.
fn run(log: &CommitLog, known: &mut Known) -> Result<(), LogError> {
    for number in 0..BATCHES {
        let attempt = || -> Result<Appended, LogError> {
            let epoch = LeaderEpoch(number / 10);
            log.become_leader(epoch)?;
            log.append_as_leader(&batch(number), epoch, NOW_MS)
        };
        let appended = match attempt() {
            Err(LogError::DiskFull { .. }) => attempt()?,
            outcome => outcome?,
        };
        known.acknowledged.insert(number, appended.base_offset);
        if number % 5 == 4 {
            match log.flush() {
                Ok(durable) => known.durable = durable.offset,
                Err(LogError::DiskFull { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if number == 15 {
            match log.delete_records(Offset(9), NOW_MS) {
                Ok(_) | Err(LogError::DiskFull { .. }) => known.log_start = Offset(9),
                Err(error) => return Err(error),
            }
        }
    }
    log.close(true)
}

/// Every batch in the log by its base offset, as the number in its first value.
fn stored(log: &CommitLog) -> BTreeMap<i32, Offset> {
    let mut found = BTreeMap::new();
    let end = log.log_end_offset();
    if log.log_start_offset() == end {
        return found;
    }
    let read = log.read(log.log_start_offset(), u32::MAX, end, true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        let records = batch.records(1 << 20).unwrap();
        let first = records.iter().next().unwrap().unwrap();
        let value = std::str::from_utf8(first.value.unwrap()).unwrap();
        let number = value.strip_prefix("value ").unwrap().parse().unwrap();
        let before = found.insert(number, batch.base_offset());
        assert_eq!(before, None, "batch {number} stands twice");
    }
    found
}

/// Opens what is left, checks it, and sends everything again as an idempotent producer would.
fn check_after(temp: &TempDir, known: &Known, promised: impl Fn(Offset) -> bool, what: &str) {
    let state = OpenState {
        recovery_point: known.durable,
        log_start_offset: known.log_start,
        ..OpenState::default()
    };
    let log = open(temp, Arc::new(RealStorage), state).unwrap();
    let there = stored(&log);
    for (number, offset) in &known.acknowledged {
        if promised(*offset) && *offset >= known.log_start {
            assert_eq!(there.get(number), Some(offset), "{what}: batch {number}");
        }
    }
    let epoch = log.role().epoch();
    let next = there.keys().last().map_or(0, |last| last + 1);
    let first = if log.producers().is_empty() { 0 } else { next };
    for number in (first - 1).max(0)..BATCHES {
        let appended = log.append_as_leader(&batch(number), epoch, NOW_MS).unwrap();
        assert_eq!(appended.base_offset, Offset(i64::from(number) * 2), "{what}: batch {number}");
    }
    assert_eq!(log.log_end_offset(), Offset(i64::from(BATCHES) * 2), "{what}");
    assert_eq!(stored(&log).keys().last(), Some(&(BATCHES - 1)), "{what}");
}

/// Runs the work once for every change it makes, with `fault` at that change.
fn at_every_change(
    fault: Fault,
    check: impl Fn(&TempDir, &FaultyStorage, &Known, u64, Result<(), LogError>),
) {
    let mut at = 0;
    loop {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        storage.plan(at, fault);
        let mut known = Known::default();
        let outcome = open(&temp, Arc::new(storage.clone()), OpenState::default())
            .and_then(|log| run(&log, &mut known));
        let struck = storage.changes() > at;
        check(&temp, &storage, &known, at, outcome);
        if !struck {
            assert!(at > 60, "only {at} changes: the work does too little");
            return;
        }
        at += 1;
    }
}

#[test]
fn a_crash_at_any_change_loses_nothing_that_was_acknowledged() {
    at_every_change(Fault::Crash, |temp, _, known, at, _| {
        check_after(temp, known, |_| true, &format!("crash at change {at}"));
    });
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_that_was_durable() {
    at_every_change(Fault::Crash, |temp, storage, known, at, _| {
        storage.cut_power().unwrap();
        let durable = known.durable;
        check_after(temp, known, |offset| offset < durable, &format!("power cut at change {at}"));
    });
}

#[test]
fn a_disk_that_is_full_for_a_moment_stops_nothing() {
    at_every_change(Fault::Full, |temp, _, known, at, outcome| {
        // Opening and closing may be refused; what was acknowledged stays.
        if known.acknowledged.len() as i32 != BATCHES {
            assert!(known.acknowledged.is_empty(), "change {at}: {outcome:?}");
        }
        check_after(temp, known, |_| true, &format!("full disk at change {at}"));
    });
}

/// Batches that are appended together reach the disk in several writes. Batches after a failed
/// write were still appended, and their sequences had no predecessor.
#[test]
fn no_batch_is_appended_behind_one_whose_write_failed() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log = open(&temp, Arc::new(storage.clone()), OpenState::default()).unwrap();
    log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap();
    // More than a segment holds.
    let batches: Vec<_> = (1..BATCHES).map(batch).collect();
    storage.plan(storage.changes(), Fault::Fail(ENOSPC));
    let results = log.append_all(&batches, LeaderEpoch(0), NOW_MS);
    assert!(matches!(results[0], Err(LogError::DiskFull { .. })), "{:?}", results[0]);
    assert!(results.iter().all(Result::is_err), "{results:?}");
    assert_eq!(log.log_end_offset(), Offset(2));
    let again = log.append_all(&batches, LeaderEpoch(0), NOW_MS);
    assert!(again.iter().all(Result::is_ok), "{again:?}");
}

#[test]
fn a_failing_disk_takes_the_directory_offline_and_loses_nothing() {
    at_every_change(Fault::Fail(EIO), |temp, _, known, at, outcome| {
        let failed = known.acknowledged.len() as i32 != BATCHES;
        if failed {
            let error = outcome.unwrap_err();
            let told = matches!(error, LogError::Io { .. } | LogError::Offline { .. });
            assert!(told, "change {at}: {error}");
        }
        check_after(temp, known, |_| true, &format!("failing disk at change {at}"));
    });
}

#[test]
fn a_clean_stop_writes_what_changed_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let closed = |state: OpenState, appends: i32| {
        let log = open(&temp, Arc::new(storage.clone()), state).unwrap();
        for number in 0..appends {
            log.append_as_leader(&batch(number), LeaderEpoch(0), NOW_MS).unwrap();
        }
        let before = storage.changes();
        log.close(true).unwrap();
        storage.changes() - before
    };
    let clean = OpenState { clean: true, ..OpenState::default() };
    assert_eq!(closed(OpenState::default(), 0), 0, "it never had a record");
    assert!(closed(clean, 3) > 5);
    assert_eq!(closed(clean, 0), 0, "it is as it was left");
    // After a crash it is not: what recovery found may be in the page cache only.
    assert!(closed(OpenState::default(), 0) > 5);
    storage.cut_power().unwrap();
    let log = open(&temp, Arc::new(RealStorage), clean).unwrap();
    assert_eq!(stored(&log).len(), 3);
}

/// The producer state that a roll writes was never synced. Once deletion had taken the records, a
/// power cut took all that was known of their producers, and a batch sent again stood twice.
#[test]
fn producers_survive_a_power_cut_after_their_records_were_deleted() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log = open(&temp, Arc::new(storage.clone()), OpenState::default()).unwrap();
    log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap();
    log.roll(NOW_MS).unwrap();
    let durable = log.flush().unwrap().offset;
    log.delete_records(Offset(2), NOW_MS).unwrap();
    drop(log);
    storage.cut_power().unwrap();
    let (recovery_point, log_start_offset) = (durable, Offset(2));
    let state = OpenState { recovery_point, log_start_offset, ..OpenState::default() };
    let log = open(&temp, Arc::new(RealStorage), state).unwrap();
    assert!(log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap().duplicate);
}

/// A sync that found the disk full was tried again, and the records whose pages the first one had
/// lost were taken for durable.
#[test]
fn a_flush_that_failed_is_never_tried_again() {
    for errno in [EIO, ENOSPC] {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        let log = open(&temp, Arc::new(storage.clone()), OpenState::default()).unwrap();
        log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap();
        storage.plan(storage.changes(), Fault::Fail(errno));
        assert!(matches!(log.flush(), Err(LogError::Io { .. })));
        let changes = storage.changes();
        for _ in 0..2 {
            assert!(matches!(log.flush(), Err(LogError::Offline { .. })));
            let appended = log.append_as_leader(&batch(1), LeaderEpoch(0), NOW_MS);
            assert!(matches!(appended, Err(LogError::Offline { .. })));
        }
        assert_eq!((storage.changes(), log.durable_offset()), (changes, Offset(0)));
    }
}

/// A flush that found the disk full at a directory's sync was forgotten. The next flush left the
/// directory out, and a power cut took records that counted as durable.
#[test]
fn what_a_flush_could_not_do_is_left_to_the_next_one() {
    for at in 1.. {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        let log = open(&temp, Arc::new(storage.clone()), OpenState::default()).unwrap();
        log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap();
        // The sync of the records comes first: after that one fails nothing is tried again.
        storage.plan(storage.changes() + at, Fault::Fail(ENOSPC));
        let first = log.flush();
        assert!(matches!(first, Ok(_) | Err(LogError::DiskFull { .. })), "change {at}: {first:?}");
        assert_eq!(log.flush().unwrap().offset, Offset(2));
        drop(log);
        storage.cut_power().unwrap();
        let state = OpenState { recovery_point: Offset(2), ..OpenState::default() };
        let log = open(&temp, Arc::new(RealStorage), state).unwrap();
        assert_eq!(stored(&log).len(), 1, "change {at}");
        if first.is_ok() {
            assert!(at > 2, "a flush makes {at} changes");
            return;
        }
    }
}

/// The last value of each key and its offset, as a consumer from the start sees them.
fn last_values(log: &CommitLog) -> BTreeMap<Vec<u8>, (Offset, Option<Vec<u8>>)> {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let read = log.read(start, u32::MAX, end, true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let mut found = BTreeMap::new();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        for record in &batch.records(1 << 20).unwrap() {
            let record = record.unwrap();
            let value = (record.offset, record.value.map(<[u8]>::to_vec));
            let before = found.insert(record.key.unwrap().to_vec(), value);
            assert!(before.is_none_or(|(offset, _)| offset < record.offset));
        }
    }
    found
}

/// A log that was compacted until the change with number `at`, where everything ended.
struct Interrupted {
    temp: TempDir,
    storage: FaultyStorage,
    config: Arc<LogConfig>,
    before: BTreeMap<Vec<u8>, (Offset, Option<Vec<u8>>)>,
    end: Offset,
    struck: bool,
}

fn compacted_until(at: u64) -> Interrupted {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let config = Arc::new(LogConfig { cleanup_compact: true, ..config() });
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
    let state = OpenState::default();
    let (log, _) = CommitLog::open(&log_dir, "t-0", config.clone(), state, NOW_MS).unwrap();
    log.become_leader(LeaderEpoch(0)).unwrap();
    for number in 0..30_u8 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        let key = [b'a' + number % 4];
        let value = (number % 5 != 0).then_some([number]);
        builder.append(NOW_MS, Some(&key), value.as_ref().map(<[u8; 1]>::as_slice), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validation::validate(&bytes, &config, NOW_MS, 9).unwrap();
        log.append_as_leader(&batch, LeaderEpoch(0), NOW_MS).unwrap();
    }
    let before = last_values(&log);
    let end = log.flush().unwrap().offset;
    storage.plan(storage.changes() + at, Fault::Crash);
    let struck = log.compact(end, NOW_MS, 100).is_err();
    Interrupted { temp, storage, config, before, end, struck }
}

impl Interrupted {
    fn open(
        &self,
        dir: &std::path::Path,
        storage: Arc<dyn Storage>,
    ) -> Result<CommitLog, LogError> {
        let log_dir = LogDir::open(dir, storage, 10)?;
        // All of it was flushed before the compaction began.
        let state = OpenState { recovery_point: self.end, ..OpenState::default() };
        let opened = CommitLog::open(&log_dir, "t-0", self.config.clone(), state, NOW_MS);
        opened.map(|(log, report)| {
            assert!(!report.lost_below_recovery_point);
            log
        })
    }

    fn check(&self, log: &CommitLog, what: &str) {
        assert_eq!(last_values(log), self.before, "{what}");
        assert_eq!(log.log_end_offset(), self.end, "{what}");
    }
}

/// Once for every change that a compaction makes, and once for a whole one.
fn at_every_change_of_a_compaction(check: impl Fn(&Interrupted, u64)) {
    for at in 0.. {
        let interrupted = compacted_until(at);
        check(&interrupted, at);
        if !interrupted.struck {
            assert!(at > 30, "a compaction makes more than {at} changes");
            return;
        }
    }
}

#[test]
fn a_crash_at_any_change_of_a_compaction_loses_no_last_value() {
    at_every_change_of_a_compaction(|interrupted, at| {
        let log = interrupted.open(interrupted.temp.path(), Arc::new(RealStorage)).unwrap();
        interrupted.check(&log, &format!("crash at change {at}"));
    });
}

#[test]
fn a_power_cut_at_any_change_of_a_compaction_loses_no_last_value() {
    at_every_change_of_a_compaction(|interrupted, at| {
        interrupted.storage.cut_power().unwrap();
        let log = interrupted.open(interrupted.temp.path(), Arc::new(RealStorage)).unwrap();
        interrupted.check(&log, &format!("power cut at change {at}"));
    });
}

#[test]
fn a_crash_while_a_compaction_is_brought_to_its_end_loses_no_last_value() {
    at_every_change_of_a_compaction(|interrupted, at| {
        for again in 0.. {
            let copy = tempfile::tempdir().unwrap();
            std::fs::create_dir(copy.path().join("t-0")).unwrap();
            for entry in std::fs::read_dir(interrupted.temp.path().join("t-0")).unwrap() {
                let from = entry.unwrap().path();
                std::fs::copy(&from, copy.path().join("t-0").join(from.file_name().unwrap()))
                    .unwrap();
            }
            let storage = FaultyStorage::default();
            // Making and locking the log directory are the first two changes.
            storage.plan(2 + again, Fault::Crash);
            let struck = interrupted.open(copy.path(), Arc::new(storage)).is_err();
            let log = interrupted.open(copy.path(), Arc::new(RealStorage)).unwrap();
            interrupted.check(&log, &format!("crash at change {at}, then at {again}"));
            if !struck {
                break;
            }
        }
    });
}

/// One record under a key of its own, or that of others.
fn keyed(key: &str, value: &str) -> ValidatedBatch {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validation::validate(&bytes, &config(), NOW_MS, 9).unwrap()
}

/// The values of `key` in the log.
fn values_of(log: &CommitLog, key: &str) -> Vec<String> {
    let read = log.read(log.log_start_offset(), u32::MAX, log.log_end_offset(), true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let mut values = Vec::new();
    for batch in Batches::new(&bytes) {
        for record in &batch.unwrap().records(1 << 20).unwrap() {
            let record = record.unwrap();
            if record.key == Some(key.as_bytes()) {
                values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
    }
    values
}

/// Compaction removed a durable value in favour of a later one that was not durable yet. A power
/// cut took the later one, and the key had no value.
#[test]
fn a_power_cut_after_a_compaction_leaves_each_key_a_value() {
    let config = LogConfig { cleanup_compact: true, cleanup_delete: false, ..config() };
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
    let shared = Arc::new(config);
    let state = OpenState::default();
    let (log, _) = CommitLog::open(&log_dir, "t-0", shared.clone(), state, NOW_MS).unwrap();
    log.become_leader(LeaderEpoch(0)).unwrap();
    let append = |key: &str, value| {
        log.append_as_leader(&keyed(key, value), LeaderEpoch(0), NOW_MS).unwrap();
    };
    for (round, value) in ["old", "new"].into_iter().enumerate() {
        append("k", value);
        // As many as keep two rounds from fitting into one segment.
        (0..5).for_each(|other| append(&format!("{round} {other}"), "v"));
        log.roll(NOW_MS).unwrap();
        if round == 0 {
            log.flush().unwrap();
        }
    }
    let removed = log.compact(log.log_end_offset(), NOW_MS, 100).unwrap();
    assert_eq!(removed.records_removed, 1);
    storage.cut_power().unwrap();
    drop((log, log_dir));
    let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
    let (log, _) = CommitLog::open(&log_dir, "t-0", shared, state, NOW_MS).unwrap();
    assert_eq!(values_of(&log, "k").len(), 1);
}

/// A power cut undid one rename of a deletion. What is missing behind that segment was taken for
/// damage, and everything after it was removed.
#[test]
fn a_deleted_segment_that_comes_back_costs_no_record() {
    let temp = tempfile::tempdir().unwrap();
    let log = open(&temp, Arc::new(RealStorage), OpenState::default()).unwrap();
    for number in 0..BATCHES {
        log.append_as_leader(&batch(number), LeaderEpoch(0), NOW_MS).unwrap();
    }
    log.delete_records(Offset(i64::from(BATCHES) * 2 - 2), NOW_MS).unwrap();
    let known = stored(&log);
    let log_start_offset = log.log_start_offset();
    log.close(false).unwrap();
    drop(log);
    let first = temp.path().join("t-0/00000000000000000000.log");
    std::fs::rename(first.with_extension("log.1.deleted"), &first).unwrap();
    let state = OpenState { log_start_offset, ..OpenState::default() };
    let log = open(&temp, Arc::new(RealStorage), state).unwrap();
    assert_eq!(stored(&log), known);
}

/// The snapshot of a roll did not outlive a power cut. When the records below were deleted, a later
/// start knew nothing of their producers: a batch that was sent again was stored twice.
#[test]
fn a_snapshot_that_a_power_cut_took_is_written_again() {
    let temp = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let log = open(&temp, storage.clone(), OpenState::default()).unwrap();
    log.append_as_leader(&batch(0), LeaderEpoch(0), NOW_MS).unwrap();
    log.roll(NOW_MS).unwrap();
    log.append_as_leader(&keyed("k", "v"), LeaderEpoch(0), NOW_MS).unwrap();
    log.close(false).unwrap();
    drop(log);
    std::fs::write(temp.path().join("t-0/00000000000000000002.snapshot"), b"").unwrap();
    let log = open(&temp, storage.clone(), OpenState::default()).unwrap();
    log.delete_records(Offset(2), NOW_MS).unwrap();
    log.close(false).unwrap();
    drop(log);
    let state = OpenState { log_start_offset: Offset(2), ..OpenState::default() };
    let log = open(&temp, storage, state).unwrap();
    assert!(log.append_as_leader(&batch(0), log.role().epoch(), NOW_MS).unwrap().duplicate);
}

/// Nothing synced the name of a log directory that the first start had made. A power cut took the
/// whole directory away, with records that were acknowledged under `flush.messages=1`.
#[test]
fn a_new_log_directory_is_there_after_a_power_cut() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let path = temp.path().join("new");
    drop(LogDir::open(path.clone(), Arc::new(storage.clone()), 10).unwrap());
    storage.cut_power().unwrap();
    assert!(path.is_dir());
}
