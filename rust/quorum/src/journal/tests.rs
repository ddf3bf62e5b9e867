#![allow(clippy::unwrap_used)]
use super::*;
use crate::codec::log_id;
use crate::faulty_storage::{Fault, FaultyStorage};
use crate::types::{Entry, Payload, Proposal, Vote, VoterId};
use kafkalite_log::storage::RealStorage;
use std::fs;

const ROLL_BYTES: u64 = 250;

fn open(dir: &Path) -> Result<(Journal, LogState), QuorumError> {
    Journal::open(Arc::new(RealStorage), dir, ROLL_BYTES)
}

fn entry(term: u64, index: u64) -> Entry {
    let payload = format!("{term}/{index}").into_bytes().into();
    let proposal = Proposal { expected: index as i64, records: 1, payload };
    Entry { log_id: log_id(term, index), payload: Payload::Normal(proposal) }
}

fn entries(term: u64, indexes: std::ops::Range<u64>) -> Change {
    Change::Append(indexes.map(|index| entry(term, index)).collect())
}

/// A life of a voter: it votes, follows, loses entries to another leader, and takes snapshots.
fn script() -> Vec<Change> {
    let vote = |term| Change::Vote(Vote::new(term, VoterId { node_id: 1, ..VoterId::default() }));
    let mut script = vec![vote(1)];
    for round in 0..4_u64 {
        let (term, from) = (round + 1, round * 6);
        script.extend([
            entries(term, from..from + 8),
            Change::Committed(Some(log_id(term, from + 3))),
            vote(term + 1),
            Change::TruncateAfter(Some(log_id(term, from + 4))),
            entries(term + 1, from + 5..from + 6),
            Change::Purge(log_id(term, from + 2)),
        ]);
    }
    script
}

/// What must be on the disk: notes may be older.
fn kept(state: &LogState) -> (Option<Vote>, Option<crate::types::LogId>, Vec<Entry>) {
    (state.vote, state.purged, state.read(..))
}

fn after(changes: &[Change]) -> LogState {
    let mut state = LogState::default();
    changes.iter().for_each(|change| state.apply(change).unwrap());
    state
}

#[test]
fn a_journal_adds_up_to_what_was_written_across_new_files() {
    let temp = tempfile::tempdir().unwrap();
    let script = script();
    for (done, change) in script.iter().enumerate() {
        let (mut journal, state) = open(temp.path()).unwrap();
        assert_eq!(kept(&state), kept(&after(&script[..done])), "before change {done}");
        journal.write(change).unwrap();
        journal.close();
    }
    let (journal, state) = open(temp.path()).unwrap();
    assert_eq!(state.committed, after(&script).committed);
    assert!(journal.number > 2, "file {} only", journal.number);
}

/// Runs the script on a disk that fails at change `at`. Returns whether it struck.
fn breaks(at: u64, fault: Fault, power: bool) -> bool {
    let what = format!("{fault:?} at change {at}, power {power}");
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    storage.plan(at, fault);
    let (script, mut done, mut open_change) = (script(), Vec::new(), None);
    let open_again = || Journal::open(Arc::new(storage.clone()), temp.path(), ROLL_BYTES);
    if let Ok((mut journal, _)) = open_again() {
        for change in &script {
            let mut written = journal.write(change);
            if written.is_err() && fault == Fault::Full {
                // What is behind the change must not be there without it.
                let is_note = matches!(change, Change::Committed(_));
                assert!(is_note || journal.write(&Change::Committed(None)).is_err(), "{what}");
                journal = open_again().unwrap().0;
                written = journal.write(change);
            }
            if written.is_err() {
                open_change = Some(change.clone());
                break;
            }
            done.push(change.clone());
        }
    }
    let struck = storage.changes() > at;
    if power {
        storage.cut_power_and_undo(|| !at.is_multiple_of(3)).unwrap();
    }
    let (mut journal, state) = open(temp.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let without = kept(&after(&done));
    done.extend(open_change);
    let with = kept(&after(&done));
    assert!(kept(&state) == without || kept(&state) == with, "{what}: {state:?}");
    // It goes on from there, and what goes on is there as well.
    let next = crate::types::next_index(state.last_log_id().as_ref());
    journal.write(&entries(9, next..next + 1)).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(journal);
    let (_, again) = open(temp.path()).unwrap();
    assert_eq!(again.last_log_id(), Some(log_id(9, next)), "{what}");
    struck
}

#[test]
fn a_fault_at_any_change_of_the_disk_leaves_what_was_acknowledged() {
    for (fault, power) in [
        (Fault::Fail(5), false),
        (Fault::Fail(5), true),
        (Fault::Full, false),
        (Fault::Full, true),
        (Fault::Crash, false),
        (Fault::Crash, true),
    ] {
        let changes = (0..).take_while(|at| breaks(*at, fault, power)).count();
        assert!(changes > 60, "{fault:?}: {changes} changes of the disk only");
    }
}

#[test]
fn a_tail_that_was_torn_at_any_byte_is_cut_to_the_last_whole_change() {
    let temp = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(temp.path()).unwrap();
    let first = entries(1, 0..3);
    journal.write(&first).unwrap();
    let path = journal.file.path().to_owned();
    let head = fs::read(&path).unwrap();
    journal.write(&entries(1, 3..5)).unwrap();
    let whole = fs::read(&path).unwrap();
    // As it is when the header does not know of the second change yet.
    let torn = [&head[..48], &whole[48..]].concat();
    for cut in head.len()..torn.len() {
        fs::write(&path, &torn[..cut]).unwrap();
        let opened = Journal::open(Arc::new(RealStorage), temp.path(), ROLL_BYTES);
        let (journal, state) = opened.unwrap();
        assert_eq!(state.read(..).len(), 3, "cut at {cut}");
        drop(journal);
        for file in list(&RealStorage, temp.path()).unwrap() {
            fs::remove_file(file).unwrap();
        }
    }
}

/// A vote or an entry that was answered for must not vanish as if it had been torn.
#[test]
fn a_flipped_bit_below_the_committed_end_stops_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(temp.path()).unwrap();
    journal.write(&entries(1, 0..2)).unwrap();
    let path = journal.file.path().to_owned();
    let bytes = fs::read(&path).unwrap();
    for bit in 48 * 8..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        let opened = open(temp.path());
        let found = opened.err().map(|error| error.to_string());
        assert!(found.is_some_and(|text| text.contains("damaged")), "bit {bit}");
    }
}

#[test]
fn a_change_of_a_later_release_stops_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(temp.path()).unwrap();
    let mut change = encode_change(&Change::Purge(log_id(1, 1))).to_vec();
    change[3] = 1;
    journal.file.append(&change).unwrap();
    drop(journal);
    assert!(
        matches!(open(temp.path()), Err(QuorumError::Malformed(text)) if text.contains("version 1"))
    );
}
