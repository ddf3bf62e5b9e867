//! Fails, crashes and cuts the power at every single change that a truncation makes to the files of
//! a log. The log is as before or truncated, and an answered truncation stays.
#![allow(clippy::unwrap_used)]

#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;

use std::sync::Arc;

use faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::storage::{RealStorage, Storage};
use kafkalite_log::{CommitLog, LogConfig, LogDir, LogEnd, LogError, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use tempfile::TempDir;

const NOW_MS: i64 = 1_700_000_000_000;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// Batches of two records in the log before it is truncated, several segments of them.
const BATCHES: i32 = 14;
/// The epoch of the leader whose log is another.
const NEW: LeaderEpoch = LeaderEpoch(7);
/// What a power cut undoes: nothing, all, and some of the changes that were not synced.
const UNDONE: [u64; 4] = [0, u64::MAX, 0x3c5a_96e1, 0xc3a5_691e];

fn config() -> LogConfig {
    LogConfig { segment_bytes: 400, index_interval_bytes: 100, ..LogConfig::default() }
}

/// How a follower truncates.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Drops this offset and what follows.
    Cut(i64),
    /// Drops everything; the next record gets this offset.
    Restart(i64),
}

/// Cuts in the newest segment, in an older one, at a segment's start, at the log's start and below
/// it. Also cuts for a leader whose log starts above the follower's end, or inside the follower's
/// log.
const ACTS: [Act; 8] = [
    Act::Cut(27),
    Act::Cut(17),
    Act::Cut(12),
    Act::Cut(8),
    Act::Cut(4),
    Act::Cut(2),
    Act::Restart(60),
    Act::Restart(14),
];

/// Where the log starts before it is truncated.
const START: i64 = 4;

impl Act {
    fn run(self, log: &CommitLog) -> Result<LogEnd, LogError> {
        log.become_follower(NEW)?;
        match self {
            Self::Cut(offset) => log.truncate_as_follower(Offset(offset), NEW, NOW_MS),
            Self::Restart(offset) => log.restart_as_follower(Offset(offset), NEW, NOW_MS),
        }
    }

    /// Where the log ends then: batches have two records.
    fn end(self) -> i64 {
        match self {
            Self::Cut(offset) => offset / 2 * 2,
            Self::Restart(offset) => offset,
        }
    }

    /// The offsets of the batches that stay.
    fn kept(self) -> Vec<i64> {
        match self {
            Self::Cut(_) => (START..self.end()).step_by(2).collect(),
            Self::Restart(_) => Vec::new(),
        }
    }
}

/// In memory where there is such a place: thousands of logs are made, and no disk is asked for.
fn directory() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap()
}

fn open(temp: &TempDir, storage: Arc<dyn Storage>, state: OpenState) -> CommitLog {
    let log_dir = LogDir::open(temp.path(), storage, 10).unwrap();
    CommitLog::open(&log_dir, "t-0", Arc::new(config()), state, NOW_MS).unwrap().0
}

/// Appends a batch of producer 7, whose sequences are the offsets of a log from offset 0 on.
fn append(log: &CommitLog, sequence: i32, epoch: LeaderEpoch) -> Result<Offset, LogError> {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(7, 0, sequence);
    for _ in 0..2 {
        builder.append(NOW_MS, Some(b"k"), Some(format!("epoch {}", epoch.0).as_bytes()), &[]);
    }
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    let batch = validation::validate(&bytes, &config(), NOW_MS, 9).unwrap();
    log.become_leader(epoch)?;
    log.append_as_leader(&batch, epoch, NOW_MS).map(|appended| appended.base_offset)
}

/// Base offset and leader epoch of every batch in the log; each one is whole.
fn stored(log: &CommitLog) -> Vec<(i64, i32)> {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    if start == end {
        return Vec::new();
    }
    let read = log.read(start, u32::MAX, end, true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let of = |batch: &kafkalite_protocol::record_batch::RecordBatch<'_>| {
        batch.verify_crc().unwrap();
        (batch.base_offset().0, batch.header().leader_epoch.0)
    };
    Batches::new(&bytes).map(|batch| of(&batch.unwrap())).collect()
}

fn offsets(log: &CommitLog) -> Vec<i64> {
    stored(log).into_iter().map(|(offset, _)| offset).collect()
}

/// A log of several segments and epochs, on the disk up to `durable`.
struct Before {
    temp: TempDir,
    storage: FaultyStorage,
    log: CommitLog,
    state: OpenState,
}

fn before(flushed: bool) -> Before {
    let temp = directory();
    let storage = FaultyStorage::default();
    let log = open(&temp, Arc::new(storage.clone()), OpenState::default());
    for number in 0..BATCHES {
        append(&log, number * 2, LeaderEpoch(number / 5)).unwrap();
        if number == 3 {
            log.flush().unwrap();
        }
    }
    log.delete_records(Offset(START), NOW_MS).unwrap();
    if flushed {
        log.flush().unwrap();
    }
    let recovery_point = log.durable_offset();
    let log_start_offset = log.log_start_offset();
    let state = OpenState { recovery_point, log_start_offset, ..OpenState::default() };
    Before { temp, storage, log, state }
}

/// Checks a log that was opened after a fault. It is as before or truncated, its epochs and
/// producers fit, and it goes on at its end.
fn check(log: &CommitLog, act: Act, must_be_cut: bool, what: &str) {
    let there = offsets(log);
    let old: Vec<i64> = (START..i64::from(BATCHES) * 2).step_by(2).collect();
    // A power cut before the truncation may take what was not flushed.
    let is_before = !must_be_cut && !there.is_empty() && old.starts_with(&there);
    let is_cut = there == act.kept() && log.log_end_offset() == Offset(act.end());
    assert!(is_cut || is_before, "{what}: {there:?}, end {}", log.log_end_offset().0);
    let end = log.log_end_offset();
    for epoch in log.epochs() {
        assert!(epoch.start_offset < end, "{what}: {epoch:?}");
    }
    for (offset, epoch) in stored(log) {
        assert_eq!(log.epoch_at(Offset(offset)), Some(LeaderEpoch(epoch)), "{what}");
    }
    let last = log.producers().first().map(|producer| i64::from(producer.last_sequence));
    let expected = (!there.is_empty()).then_some(end.0 - 1);
    let all_deleted = there.is_empty() && matches!(act, Act::Cut(_));
    assert!(last == expected || all_deleted, "{what}: {last:?}, end {}", end.0);
    goes_on(log, what);
}

/// Fills a log in a new epoch beyond where any test log ended before.
fn goes_on(log: &CommitLog, what: &str) {
    let end = log.log_end_offset();
    let from = i32::try_from(end.0).unwrap();
    for number in 0..BATCHES + 2 {
        let appended = append(log, from + number * 2, LeaderEpoch(9)).unwrap();
        assert_eq!(appended, Offset(end.0 + i64::from(number) * 2), "{what}");
    }
    let there = offsets(log);
    let first = log.log_start_offset().0.min(end.0);
    let all: Vec<i64> = (first..log.log_end_offset().0).step_by(2).collect();
    assert_eq!(there, all, "{what}");
}

/// Runs each truncation once for every change it makes, with `fault` at that change.
fn at_every_change(fault: Fault, check: impl Fn(Before, Act, Result<LogEnd, LogError>, &str)) {
    for (act, flushed) in ACTS.into_iter().zip([true, false, true, true].into_iter().cycle()) {
        for at in 0.. {
            let before = before(flushed);
            let struck_at = before.storage.changes() + at;
            before.storage.plan(struck_at, fault);
            let outcome = act.run(&before.log);
            let struck = before.storage.changes() > struck_at;
            before.storage.plan(u64::MAX, fault);
            let what = format!("{act:?}, flushed: {flushed}, {fault:?} at change {at}");
            let ended = outcome.is_ok() && !struck;
            check(before, act, outcome, &what);
            if ended {
                assert!(at > 8, "{act:?}: only {at} changes");
                break;
            }
        }
    }
}

#[test]
fn a_crash_at_any_change_leaves_the_log_as_before_or_truncated() {
    at_every_change(Fault::Crash, |before, act, outcome, what| {
        let Before { temp, log, state, .. } = before;
        drop(log);
        let log = open(&temp, Arc::new(RealStorage), state);
        check(&log, act, outcome.is_ok(), what);
    });
}

#[test]
fn a_power_cut_at_any_change_leaves_the_log_as_before_or_truncated() {
    for undone in UNDONE {
        at_every_change(Fault::Crash, |before, act, outcome, what| {
            let Before { temp, storage, log, state } = before;
            drop(log);
            let mut number = 0_u32;
            let undoes = || {
                number += 1;
                undone >> (number % 64) & 1 == 1
            };
            storage.cut_power_and_undo(undoes).unwrap();
            let log = open(&temp, Arc::new(RealStorage), state);
            // Of what was not flushed, a power cut may take the end.
            let is_cut = outcome.is_ok() && state.recovery_point >= Offset(act.end());
            assert!(outcome.is_err() || log.log_end_offset() <= Offset(act.end()), "{what}");
            check(&log, act, is_cut, &format!("{what}, undone: {undone:x}"));
        });
    }
}

#[test]
fn a_full_disk_at_any_change_leaves_a_truncation_that_a_second_one_completes() {
    for fault in [Fault::Full, Fault::Fail(ENOSPC)] {
        at_every_change(fault, |before, act, outcome, what| {
            let Before { temp, log, state, storage } = before;
            match &outcome {
                Ok(end) => assert_eq!(end.offset, Offset(act.end()), "{what}"),
                // A sync failed.
                Err(LogError::Io { .. }) => {
                    assert!(log.log_dir().is_offline(), "{what}");
                    drop(log);
                    storage.cut_power_and_undo(|| false).unwrap();
                    check(&open(&temp, Arc::new(RealStorage), state), act, false, what);
                    return;
                }
                Err(error) => {
                    assert!(matches!(error, LogError::DiskFull { .. }), "{what}: {error}")
                }
            }
            // All that the broker gets from the log, and what readers see.
            let end = log.log_end().offset;
            let is_before = end == Offset(i64::from(BATCHES) * 2);
            assert!(is_before || end == Offset(act.end()), "{what}: {end:?}");
            assert_eq!(offsets(&log).last().map_or(end.0, |last| last + 2), end.0, "{what}");
            let again = act.run(&log).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(again.offset, Offset(act.end()), "{what}");
            check(&log, act, true, what);
            let filled = stored(&log);
            let recovery_point = log.flush().unwrap().offset;
            drop(log);
            storage.cut_power_and_undo(|| true).unwrap();
            let state =
                OpenState { recovery_point: state.recovery_point.max(recovery_point), ..state };
            assert_eq!(stored(&open(&temp, Arc::new(RealStorage), state)), filled, "{what}");
        });
    }
}

/// The log is not written between the failure and the append: the append completes the truncation.
#[test]
fn a_full_disk_at_any_change_leaves_a_log_that_appends_where_it_ends() {
    at_every_change(Fault::Fail(ENOSPC), |before, act, _, what| {
        let Before { temp, log, state, .. } = before;
        if log.log_dir().is_offline() {
            return;
        }
        let is_cut = log.log_end_offset() == Offset(act.end());
        check(&log, act, is_cut, what);
        let filled = stored(&log);
        drop(log);
        // Killed: what a checkpoint of before says is above what is on the disk.
        assert_eq!(stored(&open(&temp, Arc::new(RealStorage), state)), filled, "{what}");
    });
}

#[test]
fn a_failing_disk_takes_the_directory_offline_and_leaves_the_log_as_before_or_truncated() {
    at_every_change(Fault::Fail(EIO), |before, act, outcome, what| {
        let Before { temp, log, state, .. } = before;
        assert_eq!(outcome.is_err(), log.log_dir().is_offline(), "{what}");
        drop(log);
        let log = open(&temp, Arc::new(RealStorage), state);
        check(&log, act, outcome.is_ok(), what);
    });
}

#[test]
fn a_crash_while_a_start_completes_a_truncation_is_completed_by_the_next() {
    for act in [Act::Cut(12), Act::Cut(17), Act::Restart(14)] {
        for at in 0.. {
            let Before { temp, storage, log, state } = before(true);
            // The note is on the disk after five changes and the sync of its name.
            storage.plan(storage.changes() + 6, Fault::Crash);
            act.run(&log).unwrap_err();
            drop(log);
            storage.cut_power_and_undo(|| true).unwrap();
            let second = FaultyStorage::default();
            let log_dir = LogDir::open(temp.path(), Arc::new(second.clone()), 10).unwrap();
            second.plan(second.changes() + at, Fault::Crash);
            let opened = CommitLog::open(&log_dir, "t-0", Arc::new(config()), state, NOW_MS);
            let struck = opened.is_err();
            drop((opened, log_dir));
            second.cut_power_and_undo(|| at % 2 == 0).unwrap();
            let log = open(&temp, Arc::new(RealStorage), state);
            check(&log, act, true, &format!("{act:?}, crash at change {at} of a start"));
            if !struck {
                assert!(at > 8, "a start that completes a truncation makes {at} changes");
                break;
            }
        }
    }
}

/// The recovery point of the checkpoint file was above the cut. What was appended in the place of
/// the records there was taken for safe, and not looked at after a power cut.
#[test]
fn what_was_appended_after_a_truncation_is_checked_though_the_checkpoint_is_older() {
    let Before { temp, log, state, .. } = before(true);
    let act = Act::Cut(8);
    act.run(&log).unwrap();
    goes_on(&log, "after the truncation");
    assert!(log.log_end_offset() > state.recovery_point);
    drop(log);
    // One of the pages that the power cut left unwritten.
    let segment = temp.path().join("t-0/00000000000000000008.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let log = open(&temp, Arc::new(RealStorage), state);
    assert_eq!(offsets(&log), act.kept());
}

#[test]
fn a_note_lasts_until_the_checkpoints_of_after_the_truncation_are_written() {
    let Before { temp, log, state, .. } = before(true);
    Act::Cut(17).run(&log).unwrap();
    let first = log.noted_truncation().unwrap();
    assert_eq!(first.lowest, Offset(16));
    Act::Cut(12).run(&log).unwrap();
    // The checkpoints were written between the two.
    log.forget_truncation(first).unwrap();
    let second = log.noted_truncation().unwrap();
    assert_eq!(second.lowest, Offset(12));
    drop(log);
    let log = open(&temp, Arc::new(RealStorage), state);
    let reopened = log.noted_truncation().unwrap();
    assert_eq!(reopened.lowest, second.lowest);
    log.forget_truncation(reopened).unwrap();
    drop(log);
    assert_eq!(open(&temp, Arc::new(RealStorage), state).noted_truncation(), None);
}

/// The follower's log began at 4, its leader's at 2. After a restart the log began at 4 again.
#[test]
fn a_log_that_was_truncated_below_its_start_keeps_its_new_start() {
    let Before { temp, log, state, .. } = before(true);
    Act::Cut(2).run(&log).unwrap();
    goes_on(&log, "below the start");
    assert_eq!(log.log_start_offset(), Offset(2));
    let filled = stored(&log);
    drop(log);
    let log = open(&temp, Arc::new(RealStorage), state);
    assert_eq!((log.log_start_offset(), stored(&log)), (Offset(2), filled));
}

/// A slice is sent after the log was truncated and filled again. Its bytes were those of other
/// records: the file had grown again.
#[test]
fn a_slice_from_before_a_truncation_never_has_bytes_of_later_records() {
    for act in ACTS {
        let Before { temp: _temp, log, .. } = before(false);
        let read = log.read(Offset(START), u32::MAX, log.log_end_offset(), true).unwrap();
        let old: Vec<Vec<u8>> = read.slices.iter().map(|slice| slice.read().unwrap()).collect();
        act.run(&log).unwrap();
        goes_on(&log, "filled again");
        for (slice, old) in read.slices.iter().zip(&old) {
            let now = slice.read().unwrap();
            assert!(old.starts_with(&now), "{act:?}: {} of {} bytes", now.len(), old.len());
        }
    }
}

/// Compaction had read the records that a truncation cut then. Its segments came back with them:
/// at once, or with the next start after a crash.
#[test]
fn a_compaction_beside_a_truncation_brings_nothing_back() {
    for at in 0.. {
        let temp = directory();
        let storage = FaultyStorage::default();
        let config = Arc::new(LogConfig { cleanup_compact: true, ..config() });
        let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
        let (log, _) =
            CommitLog::open(&log_dir, "t-0", config.clone(), OpenState::default(), NOW_MS).unwrap();
        let log = Arc::new(log);
        for number in 0..BATCHES {
            append(&log, number * 2, LeaderEpoch(0)).unwrap();
        }
        log.roll(NOW_MS).unwrap();
        let end = log.flush().unwrap().offset;
        // The last value of the key lies above the cut, in a segment that stays in part.
        let (truncated, cut_storage) = (log.clone(), storage.clone());
        storage.beside_next_read(move || {
            Act::Cut(13).run(&truncated).unwrap();
            cut_storage.plan(cut_storage.changes() + at, Fault::Crash);
        });
        let compacted = log.compact(end, NOW_MS, 100);
        let struck = compacted.is_err();
        let kept: Vec<i64> = (0..12).step_by(2).collect();
        if !struck {
            assert_eq!(offsets(&log), kept, "compacted: {compacted:?}");
        }
        drop((log, log_dir));
        let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
        let state = OpenState { recovery_point: end, ..OpenState::default() };
        let (log, _) = CommitLog::open(&log_dir, "t-0", config, state, NOW_MS).unwrap();
        assert_eq!(offsets(&log), kept, "crash at change {at} after the truncation");
        if !struck {
            assert!(at > 3, "a compaction makes more than {at} changes");
            return;
        }
    }
}

/// A truncation had lowered the log's start, and its note held the start down at the broker's next
/// start. Records that were deleted since, with an answer, came back.
#[test]
fn an_answered_deletion_of_records_stays_after_a_truncation_that_lowered_the_start() {
    for forgets in [false, true] {
        for at in 0.. {
            let Before { temp, storage, log, state } = before(true);
            Act::Restart(2).run(&log).unwrap();
            goes_on(&log, "below the start");
            log.flush().unwrap();
            let noted = log.noted_truncation().unwrap();
            storage.plan(storage.changes() + at, Fault::Crash);
            // The checkpoints were written before the note is forgotten.
            let forgotten = !forgets || log.forget_truncation(noted).is_ok();
            let deleted = log.delete_records(Offset(9), NOW_MS);
            let struck = storage.has_crashed();
            drop(log);
            storage.cut_power_and_undo(|| true).unwrap();
            let what = format!("forgets: {forgets}, crash at change {at}");
            let answered = forgotten && deleted.is_ok();
            // The checkpoint that the broker writes before it answers, or an older one.
            let noted = match (answered, forgets) {
                (true, _) => Offset(9),
                (false, true) => Offset(2),
                (false, false) => state.log_start_offset,
            };
            let state = OpenState { log_start_offset: noted, ..state };
            let log = open(&temp, Arc::new(RealStorage), state);
            let start = log.log_start_offset();
            if answered {
                assert_eq!(start, Offset(9), "{what}");
            }
            assert!(start <= Offset(9), "{what}: {start:?}");
            assert_eq!(log.log_end_offset(), Offset(34), "{what}");
            if !struck {
                assert!(at > 3, "only {at} changes");
                break;
            }
        }
    }
}

/// A log whose compacted part is cut away, with the offset that a checkpoint has of it.
fn compacted_and_cut(temp: &TempDir, config: &Arc<LogConfig>) -> (CommitLog, Offset) {
    let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
    let (log, _) =
        CommitLog::open(&log_dir, "t-0", config.clone(), OpenState::default(), NOW_MS).unwrap();
    put(&log, 1, "a", Some("old"));
    for _ in 0..9 {
        put(&log, 1, "b", Some("v"));
    }
    log.roll(NOW_MS).unwrap();
    let cleaned_to = log.compact(Offset(10), NOW_MS, 100).unwrap().cleaned_to;
    assert_eq!((cleaned_to, log.cleaned_to()), (Offset(10), Offset(10)));
    log.become_follower(LeaderEpoch(2)).unwrap();
    log.truncate_as_follower(Offset(1), LeaderEpoch(2), NOW_MS).unwrap();
    (log, cleaned_to)
}

fn put(log: &CommitLog, epoch: i32, key: &str, value: Option<&str>) {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    let batch = validation::validate(&bytes, &LogConfig::default(), NOW_MS, 9).unwrap();
    log.become_leader(LeaderEpoch(epoch)).unwrap();
    log.append_as_leader(&batch, LeaderEpoch(epoch), NOW_MS).unwrap();
}

/// Offset and value of every record of this key.
fn values(log: &CommitLog, of: &str) -> Vec<(i64, Option<String>)> {
    let read = log.read(log.log_start_offset(), u32::MAX, log.log_end_offset(), true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    for batch in Batches::new(&bytes) {
        for record in &batch.unwrap().records(1 << 20).unwrap() {
            let record = record.unwrap();
            if record.key == Some(of.as_bytes()) {
                found.push((record.offset.0, record.value.map(text)));
            }
        }
    }
    found
}

/// The tombstone stood below the offset up to which the log had been compacted before. Compaction
/// later removed the tombstone, and never the value that it deletes.
#[test]
fn a_key_that_is_deleted_after_a_truncation_never_comes_back() {
    let config = LogConfig { cleanup_compact: true, delete_retention_ms: 1, ..Default::default() };
    let config = Arc::new(config);
    for (restarts, forgets) in [(false, false), (true, false), (true, true)] {
        let temp = directory();
        let (mut log, cleaned_to) = compacted_and_cut(&temp, &config);
        if restarts {
            let mut state = OpenState { cleaned_to, ..OpenState::default() };
            if forgets {
                // The checkpoint of after the truncation was written.
                state.cleaned_to = log.cleaned_to();
                log.forget_truncation(log.noted_truncation().unwrap()).unwrap();
            }
            drop(log);
            let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
            log = CommitLog::open(&log_dir, "t-0", config.clone(), state, NOW_MS).unwrap().0;
        }
        assert_eq!(log.cleaned_to(), Offset(1), "restarts: {restarts}");
        put(&log, 3, "a", None);
        for _ in 0..20 {
            put(&log, 3, "c", Some("v"));
        }
        for round in 1..5 {
            log.roll(NOW_MS).unwrap();
            log.compact(log.log_end_offset(), NOW_MS + 1_000 * round, 100).unwrap();
            put(&log, 3, "c", Some("v"));
        }
        assert_eq!(values(&log, "a"), [], "restarts: {restarts}");
    }
}

/// A full disk left a compacted segment as `.swap`. A truncation came, and the next start put the
/// segment into its place, with records that the truncation had cut.
#[test]
fn a_compaction_that_a_full_disk_stopped_brings_nothing_back_after_a_truncation() {
    for fault in [Fault::Full, Fault::Fail(ENOSPC)] {
        for at in 0.. {
            let temp = directory();
            let storage = FaultyStorage::default();
            let config = Arc::new(LogConfig { cleanup_compact: true, ..config() });
            let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
            let (log, _) =
                CommitLog::open(&log_dir, "t-0", config.clone(), OpenState::default(), NOW_MS)
                    .unwrap();
            for number in 0..BATCHES {
                append(&log, number * 2, LeaderEpoch(0)).unwrap();
            }
            log.roll(NOW_MS).unwrap();
            let end = log.flush().unwrap().offset;
            let struck_at = storage.changes() + at;
            storage.plan(struck_at, fault);
            let compacted = log.compact(end, NOW_MS, 100);
            let struck = storage.changes() > struck_at;
            storage.plan(u64::MAX, fault);
            let what = format!("{fault:?} at change {at}: {compacted:?}");
            if log.log_dir().is_offline() {
                continue;
            }
            // All records of the log have one key: what is below the cut may be compacted away.
            Act::Cut(12).run(&log).unwrap();
            assert_eq!(log.log_end_offset(), Offset(12), "{what}");
            let there = offsets(&log);
            assert!(there.iter().all(|offset| *offset < 12), "{what}: {there:?}");
            let state = OpenState { recovery_point: end, ..OpenState::default() };
            drop((log, log_dir));
            storage.cut_power_and_undo(|| at % 2 == 0).unwrap();
            let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
            let (log, _) = CommitLog::open(&log_dir, "t-0", config, state, NOW_MS).unwrap();
            assert_eq!(log.log_end_offset(), Offset(12), "{what}");
            assert_eq!(offsets(&log), there, "{what}");
            if !struck {
                assert!(at > 12, "a compaction makes more than {at} changes");
                break;
            }
        }
    }
}
