//! Log directories of replicas: noted once they are there, missed once they were noted.

use super::*;
use crate::faulty_storage::Fault;
use crate::metadata::records::{AssignReplicasRecord, AssignedTopic};
use kafkalite_log::checkpoint::write_topic_id;
use kafkalite_log::storage::RealStorage;
use parking_lot::Mutex;
use std::path::Path;

pub(super) const TWO: Uuid = Uuid([6; 16]);
/// No more descriptors.
const EMFILE: i32 = 24;
const STORAGE_ERROR: Option<ErrorCode> = Some(ErrorCode::KafkaStorageError);

impl House {
    /// Starts again with these directories: path and id. With `incomplete` one is away that was
    /// known once.
    pub(super) fn start_with(&mut self, dirs: &[(&Path, Uuid)], incomplete: bool) {
        self.replicas.dirs.unlock();
        let (clock, timer) = (&self.clock, &self.timer);
        let mut replicas = replica_manager(clock, timer, &self.directory, &self.storage);
        replicas.dirs.unlock();
        let open = |(path, id): &(&Path, Uuid)| {
            let log_dir = LogDir::open(path, Arc::new(self.storage.clone()), 1_000).unwrap();
            (*id, Checkpoints::read(log_dir).unwrap())
        };
        replicas.dirs = LogDirs::new(dirs.iter().map(open).collect(), vec![], incomplete);
        self.replicas = replicas;
        self.replicas.follow_image(&MetadataImage::default(), &self.image);
    }

    pub(super) fn assignment(&self) -> Assignment {
        self.image.partition("t", 0).unwrap().assignment(ME)
    }
}

/// Puts the partition's directory, which was closed, into another log directory.
fn carry(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::rename(from.join("t-0"), to.join("t-0")).unwrap();
}

#[test]
fn the_directory_is_on_the_disk_before_it_is_proposed() {
    let mut house = House::new(&[OTHER]);
    let (told, storage) = (Arc::<Mutex<Vec<bool>>>::default(), house.storage.clone());
    let (heard, path) = (told.clone(), house.path());
    house.replicas.on_unassigned(move || {
        // What a power cut would leave.
        storage.cut_power_and_undo(|| true).unwrap();
        heard.lock().push(path.join("partition.metadata").exists());
    });
    house.commit_alone(house.reassignment(&[ME]));
    assert_eq!(*told.lock(), [true]);
    assert_eq!(house.replicas.unassigned()[&TOPIC_ID][&0], DIRECTORY);
    house.note();
    assert!(house.replicas.unassigned().is_empty());
    assert_eq!(told.lock().len(), 1);
}

#[test]
fn nothing_is_acknowledged_before_the_note() {
    let mut house = House::without_notes(&[ME]);
    house.append();
    assert_eq!(house.offsets(), [0, 1, 0]);
    house.note();
    assert_eq!(house.offsets(), [0, 1, 1]);
}

/// Checkpoints that are seconds old did not know of it: it opened as an empty log.
#[test]
fn a_noted_partition_that_is_missing_does_not_open_whatever_checkpoints_say() {
    let mut house = House::new(&[ME]);
    house.append();
    std::fs::rename(house.path(), house.directory.path().join("away")).unwrap();
    house.start_again();
    assert_eq!(house.error(), STORAGE_ERROR);
    assert!(!house.path().exists());
    std::fs::rename(house.directory.path().join("away"), house.path()).unwrap();
    house.clock.advance_ms(DELAY_MS);
    house.replicas.retry_unopened();
    assert_eq!(house.offsets()[..2], [0, 1]);
}

#[test]
fn a_note_that_is_refused_is_proposed_again_after_a_while() {
    let mut house = House::new(&[OTHER]);
    let (told, heard) = (Arc::<Mutex<u32>>::default(), Arc::<Mutex<u32>>::default());
    let count = told.clone();
    house.replicas.on_unassigned(move || *count.lock() += 1);
    house.replicas.on_deadline(move || *heard.lock() += 1);
    house.commit_alone(house.reassignment(&[ME]));
    assert_eq!((*told.lock(), house.replicas.next_assignment_ms()), (1, None));
    let now_ms = house.clock.monotonic_ms();
    house.replicas.assigned(Err(ErrorCode::KafkaStorageError.into()));
    assert_eq!(house.replicas.next_assignment_ms(), Some(now_ms + 1_000));
    house.clock.advance_ms(999);
    house.replicas.retry_assignments();
    assert_eq!(*told.lock(), 1);
    house.clock.advance_ms(1);
    house.replicas.retry_assignments();
    assert_eq!((*told.lock(), house.replicas.next_assignment_ms()), (2, None));
    house.replicas.assigned(Err(ErrorCode::KafkaStorageError.into()));
    let next = house.clock.monotonic_ms() + 2_000;
    assert_eq!(house.replicas.next_assignment_ms(), Some(next));
}

/// The name of the directory could not be synced: a power cut would take the directory and leave
/// the note.
#[test]
fn a_directory_that_is_not_on_the_disk_is_not_proposed_until_it_is() {
    let mut house = House::new(&[OTHER]);
    let told = Arc::<Mutex<u32>>::default();
    let count = told.clone();
    house.replicas.on_unassigned(move || *count.lock() += 1);
    for change in 0.. {
        *told.lock() = 0;
        house.storage.plan(house.storage.changes() + change, Fault::Fail(EMFILE));
        house.commit_alone(house.reassignment(&[ME]));
        house.storage.plan(u64::MAX, Fault::Crash);
        if house.replicas.next_assignment_ms().is_some() {
            break;
        }
        assert!(change < 50, "no change is the sync of the name");
        house.commit(house.reassignment(&[OTHER]));
    }
    assert_eq!(*told.lock(), 0);
    assert!(house.replicas.unassigned().is_empty());
    house.append();
    assert_eq!(house.offsets(), [0, 1, 0]);
    house.clock.advance_ms(1_000);
    house.replicas.retry_assignments();
    assert_eq!((*told.lock(), house.replicas.next_assignment_ms()), (1, None));
    house.note();
    assert_eq!(house.offsets(), [0, 1, 1]);
}

/// A disk failed between the making of a log there and its note.
#[test]
fn a_replica_in_a_directory_that_failed_is_not_noted() {
    let mut house = House::without_notes(&[ME]);
    let why = LogError::io(house.path(), std::io::Error::other("the test says so"));
    house.replicas.dirs.iter().for_each(|dir| dir.log_dir().take_offline(&why));
    assert_eq!(assign_replicas(&house.image, ME, &house.replicas.unassigned()), []);
    house.note();
    assert_eq!(house.assignment(), Assignment::Unassigned);
}

/// Nothing was relied upon before the note.
#[test]
fn a_replica_that_was_never_noted_is_made_on_another_disk() {
    let mut house = House::without_notes(&[ME]);
    house.append();
    let other = tempfile::tempdir().unwrap();
    house.start_with(&[(other.path(), TWO)], true);
    house.note();
    assert_eq!(house.offsets(), [0, 0, 0]);
    assert_eq!(house.assignment(), Assignment::Directory(TWO));
    // The first directory is back, with records that were not acknowledged.
    let first = house.directory.path().to_owned();
    (0..2).for_each(|_| house.append());
    house.start_with(&[(&first, DIRECTORY), (other.path(), TWO)], false);
    assert_eq!(house.offsets()[..2], [0, 2]);
    assert!(!first.join("t-0").exists(), "it is put aside");
}

#[test]
fn a_replica_whose_directory_is_away_is_offline_until_it_is_back() {
    let mut house = House::new(&[ME]);
    house.append();
    let other = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        house.start_with(&[(other.path(), TWO)], true);
        assert_eq!(house.error(), STORAGE_ERROR);
        assert!(!other.path().join("t-0").exists());
    }
    let first = house.directory.path().to_owned();
    house.start_with(&[(other.path(), TWO), (&first, DIRECTORY)], false);
    assert_eq!(house.offsets()[..2], [0, 1]);
}

/// An operator carried it there while the broker was stopped.
#[test]
fn a_partition_that_was_carried_to_another_directory_is_noted_there() {
    let mut house = House::new(&[ME]);
    let first = house.directory.path().to_owned();
    let other = tempfile::tempdir().unwrap();
    for records in [0, 1] {
        if records > 0 {
            house.append();
        }
        house.replicas.close(1).unwrap();
        let (from, to) = (house.directory.path(), other.path());
        if records == 0 {
            carry(from, to)
        } else {
            carry(to, from)
        }
        house.start_with(&[(&first, DIRECTORY), (other.path(), TWO)], false);
        house.note();
        assert_eq!(house.offsets()[1], records);
        let expected = if records == 0 { TWO } else { DIRECTORY };
        assert_eq!(house.assignment(), Assignment::Directory(expected));
    }
}

/// A disk failed while the log was made there; it was made and noted on the other one, which is
/// away now.
#[test]
fn what_was_begun_elsewhere_is_not_taken_for_a_noted_partition() {
    let mut house = House::new(&[ME]);
    house.append();
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("t-0")).unwrap();
    write_topic_id(&RealStorage, &other.path().join("t-0"), TOPIC_ID).unwrap();
    house.start_with(&[(other.path(), TWO)], true);
    assert_eq!(house.error(), STORAGE_ERROR);
    // With both here the one that was begun gives way.
    let first = house.directory.path().to_owned();
    house.start_with(&[(other.path(), TWO), (&first, DIRECTORY)], false);
    assert_eq!(house.offsets()[..2], [0, 1]);
    assert!(!other.path().join("t-0").exists());
}

#[test]
fn of_two_empty_logs_the_one_that_was_noted_counts() {
    let mut house = House::new(&[ME]);
    let first = house.directory.path().to_owned();
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("t-0")).unwrap();
    write_topic_id(&RealStorage, &other.path().join("t-0"), TOPIC_ID).unwrap();
    for dirs in
        [[(&*first, DIRECTORY), (other.path(), TWO)], [(other.path(), TWO), (&first, DIRECTORY)]]
    {
        house.start_with(&dirs, false);
        assert!(first.join("t-0").exists() && !other.path().join("t-0").exists());
        std::fs::create_dir(other.path().join("t-0")).unwrap();
    }
}

/// A disk was away for one start. Its replica was copied from the leader to the other disk. When
/// the first disk was back, the log did not open: the same partition was in both.
#[test]
fn of_two_written_logs_the_one_that_was_noted_counts_and_the_other_is_put_aside() {
    for comes_first in [true, false] {
        let mut house = House::new(&[ME]);
        let (first, away) = (house.directory.path().to_owned(), tempfile::tempdir().unwrap());
        house.append();
        house.replicas.close(1).unwrap();
        carry(&first, away.path());
        let partition = PartitionRecord {
            directories: vec![UNASSIGNED],
            partition_epoch: house.image.partition("t", 0).unwrap().partition_epoch + 1,
            ..record(&[ME], 0)
        };
        let change = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
        house.commit_unseen(MetadataRecord::PartitionChange(change));
        house.start_with(&[(&first, DIRECTORY)], true);
        house.note();
        house.append();
        house.append();
        house.replicas.close(1).unwrap();
        let dirs = match comes_first {
            true => [(away.path(), TWO), (&*first, DIRECTORY)],
            false => [(&*first, DIRECTORY), (away.path(), TWO)],
        };
        house.start_with(&dirs, false);
        assert_eq!(house.offsets()[1], 2, "what was served last");
        assert_eq!(house.assignment(), Assignment::Directory(DIRECTORY));
        assert!(!away.path().join("t-0").exists());
        let aside = away.path().join("t-0.unused-stray");
        let kept = std::fs::metadata(aside.join("00000000000000000000.log")).unwrap();
        assert!(kept.len() > 0, "no copy is deleted");
    }
}

/// Nothing says which of the two has what was acknowledged.
#[test]
fn of_two_written_logs_of_which_none_was_noted_neither_opens() {
    let mut house = House::new(&[ME]);
    let (first, other) = (house.directory.path().to_owned(), tempfile::tempdir().unwrap());
    let third = tempfile::tempdir().unwrap();
    house.append();
    house.replicas.close(1).unwrap();
    std::fs::create_dir(other.path().join("t-0")).unwrap();
    for file in std::fs::read_dir(first.join("t-0")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other.path().join("t-0").join(file.file_name())).unwrap();
    }
    let three = Uuid([7; 16]);
    house.start_with(&[(&first, three), (other.path(), TWO), (third.path(), DIRECTORY)], false);
    assert_eq!(house.error(), STORAGE_ERROR);
    assert!(first.join("t-0").exists() && other.path().join("t-0").exists());
}

/// Partitions of a release that noted no directories.
mod unknown {
    use super::*;

    /// As an earlier release left it: nothing is noted of any directory.
    fn house() -> House {
        let mut house = House::without_notes(&[ME]);
        let partition =
            PartitionRecord { directories: Vec::new(), partition_epoch: 1, ..record(&[ME], 0) };
        let change = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
        house.commit_alone(MetadataRecord::PartitionChange(change));
        assert_eq!(house.assignment(), Assignment::Unknown);
        house
    }

    #[test]
    fn where_it_is_found_it_is_noted() {
        let mut house = house();
        house.append();
        house.restart();
        house.note();
        assert_eq!(house.assignment(), Assignment::Directory(DIRECTORY));
        assert_eq!(house.offsets(), [0, 1, 1]);
    }

    #[test]
    fn it_is_not_made_again_while_a_directory_is_away() {
        let mut house = house();
        let other = tempfile::tempdir().unwrap();
        house.start_with(&[(other.path(), TWO)], true);
        house.note();
        assert_eq!(house.error(), STORAGE_ERROR);
        assert_eq!(house.assignment(), Assignment::Unknown);
        house.start_with(&[(other.path(), TWO)], false);
        house.note();
        assert_eq!(house.assignment(), Assignment::Directory(TWO));
    }
}

/// A note of another directory, as for a replica that moved, is not this one's.
#[test]
fn a_note_of_another_directory_does_not_count() {
    let mut house = House::without_notes(&[ME]);
    house.append();
    let topics = vec![AssignedTopic { topic_id: TOPIC_ID, partitions: vec![0] }];
    let note = AssignReplicasRecord { broker_id: ME, directory_id: TWO, topics };
    house.commit_alone(MetadataRecord::AssignReplicas(note));
    assert_eq!(house.offsets(), [0, 1, 0]);
    house.note();
    assert_eq!(house.offsets(), [0, 1, 1]);
}
