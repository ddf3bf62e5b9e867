//! A log goes on in another log directory, also if it is cut or appended to while it is copied.

use super::*;
use crate::awaited;
use crate::compaction::Compacted;
use crate::faulty_storage::{Fault, FaultyStorage, Tail};
use crate::move_notes::MoveNote;
use crate::storage::Storage;
use kafkalite_protocol::types::Uuid;
use std::sync::atomic::AtomicBool;

const MOVE: Uuid = Uuid([3; 16]);

/// A second log directory.
struct Other {
    temp: TempDir,
    log_dir: Arc<LogDir>,
}

impl Other {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 100).unwrap();
        Self { temp, log_dir }
    }

    fn begin(&self, log: &CommitLog) -> FutureLog {
        FutureLog::begin(log, &self.log_dir, "t-0.1-future", NOW_MS).unwrap()
    }

    /// Opens what is here under the partition's name, as after a crash.
    fn open(&self, config: &Arc<LogConfig>, state: OpenState) -> CommitLog {
        CommitLog::open(&self.log_dir, "t-0", config.clone(), state, NOW_MS).unwrap().0
    }
}

fn copy_all(copy: &FutureLog, log: &CommitLog) {
    while copy.copy(log, 300, NOW_MS).unwrap() > 0 {}
}

/// Has the log go on in the copy; nothing of it is missing and nothing is there twice.
fn take_over(log: &CommitLog, copy: &FutureLog) -> LeftLog {
    let (before, epochs, producers) = (all_bytes(log), log.epochs(), log.producers());
    let (start, end, role) = (log.log_start_offset(), log.log_end_offset(), log.role());
    let left = log.take_over(copy, "t-0", MOVE, NOW_MS).unwrap().unwrap();
    assert_eq!(all_bytes(log), before);
    assert_eq!((log.epochs(), log.producers()), (epochs, producers));
    assert_eq!((log.log_start_offset(), log.log_end_offset(), log.role()), (start, end, role));
    assert_eq!(log.durable_offset(), end);
    left
}

#[test]
fn a_log_goes_on_in_the_files_of_its_copy() {
    let (fixture, other) = (Fixture::new(small_segments()), Other::new());
    let log = fixture.fresh();
    for producer in 0..30 {
        let builder = RecordBatchBuilder::new(Codec::None).producer(producer, 0, 0);
        append_in(&log, &produced(builder, 3, NOW_MS), EPOCH, NOW_MS).unwrap();
    }
    let copy = other.begin(&log);
    copy_all(&copy, &log);
    append(&log, 2);
    assert_eq!(copy.lag(&log), 2);
    // What a reader found before is read after.
    let found = log.read(Offset(0), u32::MAX, log.log_end_offset(), true).unwrap();
    let bytes = bytes_of(&found);
    let left = take_over(&log, &copy);
    assert_eq!(bytes_of(&found), bytes);
    assert_eq!(log.path().parent(), Some(other.temp.path()));
    let ids = [(MoveNote::Leaving, fixture.temp.path()), (MoveNote::Arrival, other.temp.path())];
    for (note, at) in ids {
        assert_eq!(note.read(&RealStorage, &at.join("t-0")).unwrap(), Some(MOVE));
    }
    append(&log, 1);
    left.rename_and_close("t-0.2-delete").unwrap();
    RealStorage.remove_dir_all(&fixture.temp.path().join("t-0.2-delete")).unwrap();
    append(&log, 1);
    let (all, producers) = (all_bytes(&log), log.producers());
    drop(log);
    let log = other.open(&fixture.config, OpenState::default());
    assert_eq!(all_bytes(&log), all);
    assert_eq!(log.producers(), producers);
    assert_eq!(log.log_end_offset(), Offset(94));
}

/// What producers sent before the records that are left is not in any batch that is copied.
#[test]
fn producers_without_records_move_along() {
    let (fixture, other) = (Fixture::new(small_segments()), Other::new());
    let log = fixture.fresh();
    for producer in 0..30 {
        let builder = RecordBatchBuilder::new(Codec::None).producer(producer, 0, 0);
        append_in(&log, &produced(builder, 3, NOW_MS), EPOCH, NOW_MS).unwrap();
    }
    log.delete_records(Offset(80), NOW_MS).unwrap();
    let copy = other.begin(&log);
    copy_all(&copy, &log);
    take_over(&log, &copy);
    let (producers, end) = (log.producers(), log.log_end_offset());
    assert_eq!(producers.len(), 30);
    drop(log);
    let state =
        OpenState { recovery_point: end, log_start_offset: Offset(80), ..OpenState::default() };
    let log = other.open(&fixture.config, state);
    assert_eq!(log.producers(), producers);
}

#[test]
fn what_is_cut_while_it_is_copied_is_cut_in_the_copy() {
    // Cut below what was copied, above it, at the start, and to the start of another leader.
    for (copied, cut) in [(25, 17), (10, 30), (25, 0), (25, 90)] {
        let (fixture, other) = (Fixture::new(small_segments()), Other::new());
        let log = fixture.fresh();
        for _ in 0..20 {
            append(&log, 2);
        }
        let copy = other.begin(&log);
        while copy.log.log_end_offset().0 < copied {
            copy.copy(&log, 1, NOW_MS).unwrap();
        }
        if cut < 40 {
            truncate(&log, cut);
        } else {
            let epoch = LeaderEpoch(9);
            log.become_follower(epoch).unwrap();
            log.restart_as_follower(Offset(cut), epoch, NOW_MS).unwrap();
        }
        for _ in 0..9 {
            append(&log, 3);
        }
        copy_all(&copy, &log);
        assert_eq!(copy.lag(&log), 0, "{copied} {cut}");
        take_over(&log, &copy);
        append(&log, 1);
        let all = all_bytes(&log);
        drop(log);
        let state = OpenState { log_start_offset: Offset(cut % 30), ..OpenState::default() };
        let state = if cut == 90 { state } else { OpenState::default() };
        assert_eq!(all_bytes(&other.open(&fixture.config, state)), all, "{copied} {cut}");
    }
}

/// Of two notes a power cut takes none, or both directories look like the log. A full disk has room
/// for the name of a file.
#[test]
fn a_note_survives_a_power_cut_and_takes_no_room() {
    for note in [MoveNote::Leaving, MoveNote::Arrival] {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        note.write(&storage, temp.path(), Uuid([1; 16])).unwrap();
        note.write(&storage, temp.path(), MOVE).unwrap();
        storage.cut_power_and_undo(|| true).unwrap();
        let left = RealStorage.list(temp.path()).unwrap();
        assert_eq!(left.iter().map(|one| one.length).collect::<Vec<_>>(), [0]);
        assert_eq!(note.read(&RealStorage, temp.path()).unwrap(), Some(MOVE));
        let storage = storage.successor();
        note.remove(&storage, temp.path()).unwrap();
        storage.cut_power_and_undo(|| true).unwrap();
        assert_eq!(note.read(&RealStorage, temp.path()).unwrap(), None);
    }
}

/// After a power cut there were two, and it was not known which directory counts.
#[test]
fn a_power_cut_never_leaves_two_notes() {
    let first = Uuid([1; 16]);
    for undone in [[false, true], [true, false], [true, true], [false, false]] {
        for at in 0.. {
            let temp = tempfile::tempdir().unwrap();
            let storage = FaultyStorage::default();
            MoveNote::Leaving.write(&storage, temp.path(), first).unwrap();
            storage.plan(storage.changes() + at, Fault::Crash);
            let written = MoveNote::Leaving.write(&storage, temp.path(), MOVE);
            let mut undone = undone.into_iter().cycle();
            storage.cut_power_leaving(Tail::Gone, || undone.next().unwrap()).unwrap();
            let left = MoveNote::Leaving.read(&RealStorage, temp.path()).unwrap();
            if written.is_ok() {
                assert_eq!((left, at > 2), (Some(MOVE), true));
                break;
            }
            assert!([None, Some(first), Some(MOVE)].contains(&left), "{left:?} at {at}");
        }
    }
}

/// The new disk fails when the copy got its name, and the old one does not let the note go. The
/// next start took the copy, which lacks what was appended meanwhile.
#[test]
fn nothing_is_appended_behind_a_note_that_cannot_be_removed() {
    for at in 0.. {
        let storage = FaultyStorage::default();
        let temps = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let log_dir =
            |temp: &TempDir| LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
        let [from, to] = [log_dir(&temps[0]), log_dir(&temps[1])];
        let (config, state) = (Arc::new(small_segments()), OpenState::default());
        let log = CommitLog::open(&from, "t-0", config, state, NOW_MS).unwrap().0;
        log.become_leader(EPOCH).unwrap();
        append(&log, 1);
        let copy = FutureLog::begin(&log, &to, "t-0.1-future", NOW_MS).unwrap();
        copy_all(&copy, &log);
        storage.plan(storage.changes() + at, Fault::Fail(libc::EIO));
        storage.plan_also(storage.changes() + at + 1, Fault::Full);
        if log.take_over(&copy, "t-0", MOVE, NOW_MS).is_ok() {
            assert!(at > 10, "a log takes over with {at} changes");
            return;
        }
        let appended = append_in(&log, &batch_at(1, NOW_MS), EPOCH, NOW_MS).is_ok();
        let notes = [(MoveNote::Leaving, &temps[0]), (MoveNote::Arrival, &temps[1])];
        let counts = notes.into_iter().all(|(note, temp)| {
            note.read(&RealStorage, &temp.path().join("t-0")).unwrap() == Some(MOVE)
        });
        assert!(!(counts && appended), "the copy counts, and lacks a record: {at}");
    }
}

/// The log loses records, and gets others of a later epoch, between a look at its truncations and
/// the read. The copy must not take the new ones behind the old ones.
#[test]
fn what_is_cut_just_before_a_read_is_not_hidden_in_the_copy() {
    let (fixture, other) = (Fixture::new(small_segments()), Other::new());
    let log = fixture.fresh();
    for _ in 0..10 {
        append(&log, 2);
    }
    let copy = other.begin(&log);
    copy_all(&copy, &log);
    truncate(&log, 10);
    let epoch = LeaderEpoch(EPOCH.0 + 4);
    log.become_leader(epoch).unwrap();
    for value in 0..10 {
        append_in(&log, &batch_at(2, NOW_MS + value), epoch, NOW_MS).unwrap();
    }
    copy.copy_next(&log, 300, NOW_MS).unwrap();
    copy_all(&copy, &log);
    take_over(&log, &copy);
}

#[test]
fn what_is_deleted_while_it_is_copied_is_deleted_in_the_copy() {
    // Below the end of the copy, inside of a batch, above its end, and all.
    for start in [6, 7, 29, 40] {
        let (fixture, other) = (Fixture::new(small_segments()), Other::new());
        let log = fixture.fresh();
        for _ in 0..20 {
            append(&log, 2);
        }
        let copy = other.begin(&log);
        copy.copy(&log, 900, NOW_MS).unwrap();
        log.delete_records(Offset(start), NOW_MS).unwrap();
        copy_all(&copy, &log);
        take_over(&log, &copy);
        assert_eq!(log.log_start_offset(), Offset(start));
        append(&log, 2);
        assert_eq!(read_all(&log, start.max(30)).last(), Some(&40));
    }
}

/// A value that is copied before its tombstone would come back.
#[test]
fn a_log_is_not_compacted_while_it_is_copied() {
    let config =
        LogConfig { cleanup_compact: true, min_cleanable_dirty_ratio: 0.0, ..small_segments() };
    let (fixture, other) = (Fixture::new(config), Other::new());
    let log = fixture.fresh();
    let compact = || -> Compacted { log.compact(log.log_end_offset(), NOW_MS, 1_000).unwrap() };
    for _ in 0..60 {
        append(&log, 2);
    }
    assert!(compact().records_removed > 0);
    for _ in 0..60 {
        append(&log, 2);
    }
    let copy = other.begin(&log);
    let cleaned_to = log.cleaned_to();
    assert!(!log.compactable(log.log_end_offset(), NOW_MS).unwrap().is_due);
    assert_eq!(compact(), Compacted { cleaned_to, ..Compacted::default() });
    copy_all(&copy, &log);
    take_over(&log, &copy);
    assert_eq!(log.cleaned_to(), cleaned_to);
    assert!(log.compactable(log.log_end_offset(), NOW_MS).unwrap().is_due);
    assert!(compact().records_removed > 0);
    assert!(log.path().starts_with(other.temp.path()));

    let again = FutureLog::begin(&log, &fixture.log_dir, "t-0.2-future", NOW_MS).unwrap();
    again.abandon(&log, "t-0.3-delete").unwrap();
    assert!(!log.compaction_rests());
}

#[test]
fn a_copy_that_is_too_far_behind_does_not_take_over() {
    let (fixture, other) = (Fixture::new(LogConfig::default()), Other::new());
    let log = fixture.fresh();
    let big = batch_at(20_000, NOW_MS);
    for _ in 0..4 {
        append_in(&log, &big, EPOCH, NOW_MS).unwrap();
    }
    let copy = other.begin(&log);
    assert!(log.take_over(&copy, "t-0", MOVE, NOW_MS).unwrap().is_none());
    assert!(log.path().starts_with(fixture.temp.path()));
    copy_all(&copy, &log);
    take_over(&log, &copy);
}

/// Positions in one file must not be taken for positions in another.
#[test]
fn readers_find_the_same_records_while_the_log_moves() {
    let dirs = [Other::new(), Other::new()];
    let config = Arc::new(small_segments());
    let log = dirs[0].open(&config, OpenState::default());
    append(&log, 1);
    let done = AtomicBool::new(false);
    let _limit = awaited::within("the writer and both readers");
    std::thread::scope(|scope| {
        let read = || {
            while !done.load(Ordering::Acquire) {
                let end = log.log_end_offset();
                for from in [end.0 - 1, end.0 - 3, end.0 / 2] {
                    let from = from.max(0);
                    let found = bases(&log.read(Offset(from), 500, end, true).unwrap());
                    let expected: Vec<i64> = (from..).take(found.len()).collect();
                    assert!(!found.is_empty());
                    assert_eq!(found, expected);
                    assert!(found.last() < Some(&end.0));
                }
                std::thread::yield_now();
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for round in 1..20 {
            for _ in 0..7 {
                append(&log, 1);
            }
            let name = format!("t-0.{round}-future");
            let copy = FutureLog::begin(&log, &dirs[round % 2].log_dir, &name, NOW_MS).unwrap();
            copy_all(&copy, &log);
            append(&log, 1);
            let left = log.take_over(&copy, "t-0", MOVE, NOW_MS).unwrap().unwrap();
            append(&log, 1);
            append(&log, 1);
            left.rename_and_close(&format!("t-0.{round}-delete")).unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(log.log_end_offset(), Offset(1 + 19 * 10));
}
