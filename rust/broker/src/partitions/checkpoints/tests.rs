#![allow(clippy::unwrap_used)]

use super::*;
use crate::faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::storage::RealStorage;
use tempfile::TempDir;

const FORMER: Uuid = Uuid([1; 16]);
const LATER: Uuid = Uuid([2; 16]);

fn open(temp: &TempDir) -> Checkpoints {
    let dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
    Checkpoints::read(dir).unwrap()
}

fn entry(topic_id: Uuid, offset: i64) -> Entry {
    Entry { topic: "t".into(), topic_id, index: 0, offset: Offset(offset) }
}

fn noted(checkpoints: &Checkpoints, which: Checkpoint) -> [Option<i64>; 2] {
    [FORMER, LATER].map(|id| checkpoints.noted(which, "t", id, 0).map(|offset| offset.0))
}

/// Entries were believed of any topic of their name.
#[test]
fn an_entry_is_believed_of_the_topic_that_it_was_noted_for() {
    let temp = tempfile::tempdir().unwrap();
    for which in Checkpoint::ALL {
        open(&temp).write(which, &[entry(FORMER, 7)]).unwrap();
        assert_eq!(noted(&open(&temp), which), [Some(7), None]);
        // The same offset, of another topic.
        open(&temp).write(which, &[entry(LATER, 7)]).unwrap();
        assert_eq!(noted(&open(&temp), which), [None, Some(7)]);
    }
}

/// Whatever a crash leaves, a topic gets no entry of one that had its name before, and nothing that
/// was answered for is forgotten.
#[test]
fn a_crash_between_two_files_gives_no_entry_to_a_later_topic() {
    for which in Checkpoint::ALL {
        let mut at = 0;
        loop {
            let temp = tempfile::tempdir().unwrap();
            let before = open(&temp);
            before.write(which, &[entry(FORMER, 7)]).unwrap();
            drop(before);
            let storage = FaultyStorage::default();
            let dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
            let checkpoints = Checkpoints::read(dir).unwrap();
            storage.plan(storage.changes() + at, Fault::Crash);
            let written = checkpoints.write(which, &[entry(LATER, 3)]);
            drop(checkpoints);
            let after = noted(&open(&temp), which);
            assert!(
                [[Some(7), None], [Some(3), None], [None, Some(3)], [None, None]].contains(&after),
                "{which:?} at {at}: {after:?}"
            );
            assert_eq!(after[1].unwrap_or(3), 3, "{which:?} at {at}");
            if written.is_ok() {
                assert_eq!(after, [None, Some(3)]);
                assert!(at > 6, "{which:?}: only {at} changes");
                break;
            }
            at += 1;
        }
    }
}

#[test]
fn what_an_earlier_release_noted_is_taken_over_of_topics_that_are_there() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(LOG_START_FILE);
    let old = [("t", 0, 5), ("t", 1, 6), ("gone", 0, 7)];
    let old = old.map(|(topic, index, offset)| ((topic.to_owned(), index), Offset(offset)));
    write_offsets(&RealStorage, &path, &old.into()).unwrap();
    let checkpoints = open(&temp);
    checkpoints.settle(|topic, index| (topic == "t" && index == 0).then_some(FORMER));
    let expected = |checkpoints: &Checkpoints| {
        let which = Checkpoint::LogStart;
        assert_eq!(noted(checkpoints, which), [Some(5), None]);
        assert_eq!(checkpoints.noted(which, "gone", FORMER, 0), None);
    };
    expected(&checkpoints);
    assert_eq!(checkpoints.noted(Checkpoint::LogStart, "t", FORMER, 1), None);
    drop(checkpoints);
    // And by the next start, before anything else is written.
    let checkpoints = open(&temp);
    checkpoints.settle(|_, _| Some(LATER));
    expected(&checkpoints);
}

#[test]
fn a_new_directory_has_no_file_of_topics_before_its_first_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let checkpoints = open(&temp);
    checkpoints.settle(|_, _| None);
    assert!(!temp.path().join(TOPIC_IDS_FILE).exists());
    checkpoints.write(Checkpoint::LogStart, &[]).unwrap();
    assert!(temp.path().join(TOPIC_IDS_FILE).exists());
}

/// A crash right after the very first checkpoint leaves it without the ids of its entries. These
/// entries are not from an earlier release, so no topic of their name gets them.
#[test]
fn a_crash_at_the_first_checkpoint_gives_no_entry_to_another_topic() {
    let mut at = 0;
    loop {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        let dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
        let checkpoints = Checkpoints::read(dir).unwrap();
        checkpoints.settle(|_, _| None);
        storage.plan(storage.changes() + at, Fault::Crash);
        let written = checkpoints.write(Checkpoint::LogStart, &[entry(FORMER, 7)]);
        drop(checkpoints);
        let after = open(&temp);
        after.settle(|_, _| Some(LATER));
        let noted = noted(&after, Checkpoint::LogStart);
        assert_eq!(noted[1], None, "at {at}");
        if written.is_ok() {
            assert_eq!(noted, [Some(7), None]);
            assert!(at > 10, "only {at} changes");
            break;
        }
        at += 1;
    }
}

#[test]
fn nothing_is_believed_if_it_cannot_be_read_whose_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let checkpoints = open(&temp);
    checkpoints.write(Checkpoint::LogStart, &[entry(FORMER, 5)]).unwrap();
    checkpoints.note_clean_stop(1).unwrap();
    drop(checkpoints);
    std::fs::write(temp.path().join(TOPIC_IDS_FILE), "0\n7\n").unwrap();
    let checkpoints = open(&temp);
    assert_eq!(checkpoints.clean_epoch(), None);
    assert_eq!(noted(&checkpoints, Checkpoint::LogStart), [None, None]);
}
