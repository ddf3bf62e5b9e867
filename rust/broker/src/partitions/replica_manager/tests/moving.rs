//! A replica moves into another log directory, through crashes and failing disks.

use super::super::moving::RETRY_MS;
use super::assigning::TWO;
use super::*;
use crate::faulty_storage::Fault;
use crate::partitions::FetchReader;
use kafkalite_log::move_notes::MoveNote;
use kafkalite_log::storage::RealStorage;
use std::path::Path;

mod faults;

const EIO: i32 = 5;
/// Where the log starts before it is moved.
const START: i64 = 2;

/// A house with a second log directory.
struct Moving {
    house: House,
    two: TempDir,
    /// Everything below was acknowledged.
    acknowledged: i64,
    /// And so much of it was on the disk: the rest is lost in a power cut, as in Kafka.
    durable: i64,
}

impl Moving {
    fn new() -> Self {
        let mut house = House::new(&[ME]);
        let two = tempfile::tempdir().unwrap();
        let one = house.directory.path().to_owned();
        house.start_with(&[(&one, DIRECTORY), (two.path(), TWO)], false);
        let mut moving = Self { house, two, acknowledged: 0, durable: 0 };
        for _ in 0..8 {
            moving.append();
        }
        let now_ms = moving.house.clock.wall_ms();
        moving.house.find().unwrap().log().delete_records(Offset(START), now_ms).unwrap();
        moving.house.replicas.checkpoint(Checkpoint::LogStart).unwrap();
        moving
    }

    fn paths(&self) -> [&Path; 2] {
        [self.house.directory.path(), self.two.path()]
    }

    /// Appends a record, if that works, and notes what is acknowledged.
    fn append(&mut self) {
        let Ok(partition) = self.house.find() else { return };
        let mut builder = RecordBatchBuilder::new(Codec::None).producer(7, 0, self.end() as i32);
        builder.append(NOW_MS, None, Some(b"value"), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = ValidatedBatch::trusted(&bytes).unwrap();
        if partition.append(&batch, false, NOW_MS).is_ok() {
            // Refused by a disk that fails: then it is not acknowledged either.
            let _ = partition.flush();
        }
        self.look();
    }

    fn end(&self) -> i64 {
        self.house.find().unwrap().log_end_offset().0
    }

    fn look(&mut self) {
        if let Ok(partition) = self.house.find() {
            let end = partition.high_watermark();
            self.acknowledged = self.acknowledged.max(end.0);
            self.durable = self.durable.max(end.min(partition.log().durable_offset()).0);
        }
    }

    fn ask(&self, place: usize) -> Result<(), ErrorCode> {
        let to = self.house.replicas.dirs().iter().nth(place).unwrap();
        self.house.replicas.move_replica("t", 0, to)
    }

    /// One turn of the thread that moves, with appends and the note of the directory.
    fn turn(&mut self) {
        self.house.replicas.move_some();
        self.append();
        self.house.note();
        self.append();
        self.house.clock.advance_ms(RETRY_MS);
    }

    fn moves(&self) -> bool {
        self.house.replicas.is_moving()
    }

    /// Turns until no move runs.
    fn turn_to_end(&mut self) {
        let mut turns = 0;
        while self.moves() {
            self.turn();
            turns += 1;
            assert!(turns < 100, "a move does not end");
        }
    }

    /// In which directory the partition's log is.
    fn place(&self) -> usize {
        let log_dir = self.house.find().unwrap().log().log_dir();
        self.house.replicas.dirs().position(&log_dir)
    }

    /// What the directories of the partition are called, with the places that they are in.
    fn names(&self) -> Vec<(usize, String)> {
        let mut names = Vec::new();
        for (place, path) in self.paths().into_iter().enumerate() {
            for entry in std::fs::read_dir(path).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.starts_with("t-0") {
                    names.push((place, name));
                }
            }
        }
        names
    }

    /// Starts again with these of the two directories.
    fn start_with(&mut self, places: &[usize]) {
        let paths = self.paths().map(Path::to_owned);
        let dirs = [(&*paths[0], DIRECTORY), (&*paths[1], TWO)];
        let dirs: Vec<_> = places.iter().map(|place| dirs[*place]).collect();
        self.house.start_with(&dirs, places.len() < 2);
        self.house.note();
    }

    /// Every acknowledged record is there, and those that were deleted are not.
    fn check(&self, what: &str) {
        let partition = self.house.find().unwrap_or_else(|code| panic!("{what}: {code:?}"));
        let (start, end) = (partition.log_start_offset(), partition.log_end_offset());
        assert_eq!(start.0, START, "{what}");
        assert!(end.0 >= self.acknowledged, "{what}: {} of {}", end.0, self.acknowledged);
        let read = partition.log().read(start, u32::MAX, end, true).unwrap();
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
        let batches = kafkalite_protocol::record_batch::Batches::new(&bytes);
        let batches = batches.map(|batch| batch.unwrap());
        let places =
            batches.map(|one| (one.base_offset().0, i64::from(one.header().base_sequence)));
        let places: Vec<(i64, i64)> = places.collect();
        assert_eq!(places, (START..end.0).map(|at| (at, at)).collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn a_replica_moves_and_serves_meanwhile() {
    let mut moving = Moving::new();
    assert_eq!(moving.place(), 0);
    assert_eq!(moving.ask(0), Ok(()));
    assert!(!moving.moves());
    assert_eq!(moving.ask(1), Ok(()));
    assert_eq!(moving.ask(1), Ok(()));
    let futures = moving.house.replicas.future_replicas();
    let [future] = &futures[..] else { panic!("{} copies", futures.len()) };
    assert_eq!((future.size_bytes, future.offset_lag), (0, 6));
    assert!(Arc::ptr_eq(
        &future.log_dir,
        moving.house.replicas.dirs().iter().nth(1).unwrap().log_dir()
    ));

    moving.house.replicas.move_some();
    assert_eq!(moving.place(), 1);
    assert!(moving.house.replicas.future_replicas().is_empty());
    // Its directory is not noted: nothing is acknowledged, and the one before stays.
    let before = moving.acknowledged;
    moving.append();
    assert_eq!(moving.acknowledged, before);
    assert_eq!(moving.house.assignment(), Assignment::Directory(DIRECTORY));
    moving.house.replicas.move_some();
    let both = [(0, "t-0".to_owned()), (1, "t-0".to_owned())];
    assert_eq!(moving.names(), both);
    moving.house.note();
    moving.look();
    assert_eq!(moving.acknowledged, before + 1);
    assert_eq!(moving.house.assignment(), Assignment::Directory(TWO));
    moving.turn_to_end();
    moving.house.clock.advance_ms(DELAY_MS);
    moving.house.replicas.remove_deleted();
    assert_eq!(moving.names(), [(1, "t-0".to_owned())]);
    moving.check("after the move");

    // The way back, and a restart without a crash.
    moving.ask(0).unwrap();
    moving.turn_to_end();
    assert_eq!(moving.place(), 0);
    moving.house.replicas.close(1).unwrap();
    moving.start_with(&[0, 1]);
    assert_eq!(moving.place(), 0);
    moving.check("after a clean stop");
}

#[test]
fn another_directory_or_the_present_one_ends_a_move() {
    let mut moving = Moving::new();
    moving.ask(1).unwrap();
    moving.ask(0).unwrap();
    assert!(!moving.moves());
    moving.house.replicas.remove_deleted();
    assert_eq!(moving.names(), [(0, "t-0".to_owned())]);
    moving.ask(1).unwrap();
    moving.house.replicas.move_some();
    assert_eq!(moving.place(), 1);
    // Too late to end it: it goes back afterwards.
    moving.ask(0).unwrap();
    moving.turn_to_end();
    assert_eq!(moving.place(), 0);
    moving.check("after the way back");
}

#[test]
fn a_replica_that_goes_takes_its_copy_along() {
    for turns in [0, 1] {
        let mut moving = Moving::new();
        moving.ask(1).unwrap();
        for _ in 0..turns {
            moving.house.replicas.move_some();
        }
        moving.house.reassign(&[OTHER]);
        assert!(!moving.moves());
        moving.house.clock.advance_ms(DELAY_MS);
        moving.house.replicas.remove_deleted();
        assert_eq!(moving.names(), []);
        moving.house.reassign(&[ME]);
        assert_eq!(moving.house.offsets(), [0, 0, 0]);
    }
}

#[test]
fn a_move_is_throttled() {
    let mut moving = Moving::new();
    let limit = |bytes| BrokerConfig { log_dirs_throttle_bytes: bytes, ..BrokerConfig::default() };
    moving.house.replicas.limit_throttles(&limit(Some(100)));
    moving.ask(1).unwrap();
    let lag = |moving: &Moving| moving.house.replicas.future_replicas()[0].offset_lag;
    // A batch has 73 bytes.
    let mut lags = Vec::new();
    for _ in 0..8 {
        moving.house.replicas.move_some();
        lags.push(lag(&moving));
        moving.house.clock.advance_ms(250);
    }
    assert_eq!(lags[0], 5);
    assert!((1..=4).contains(&lags[7]), "{lags:?}");
    moving.house.replicas.limit_throttles(&limit(None));
    moving.turn_to_end();
    assert_eq!(moving.place(), 1);
}

#[test]
fn a_move_that_a_stop_interrupts_begins_again() {
    let mut moving = Moving::new();
    moving.ask(1).unwrap();
    moving.house.replicas.close(1).unwrap();
    moving.start_with(&[0, 1]);
    assert_eq!(moving.place(), 0);
    assert!(moving.moves());
    moving.turn_to_end();
    assert_eq!(moving.place(), 1);
    moving.check("after a move in two runs");
}

/// The disk of the new directory fails: the replica stays. That of the present one: it is offline.
#[test]
fn a_disk_that_fails_ends_a_move() {
    for place in [0, 1] {
        let mut moving = Moving::new();
        moving.ask(1).unwrap();
        let log_dir = moving.house.replicas.dirs().iter().nth(place).unwrap().log_dir().clone();
        let why = LogError::io(&**log_dir.path(), std::io::Error::from_raw_os_error(EIO));
        log_dir.take_offline(&why);
        moving.house.replicas.move_some();
        assert!(!moving.moves());
        let before = moving.acknowledged;
        moving.append();
        assert_eq!(moving.acknowledged, before + i64::from(place == 1));
    }
}

impl Moving {
    fn fail(&self, place: usize) {
        let log_dir = self.house.replicas.dirs().iter().nth(place).unwrap().log_dir().clone();
        log_dir
            .take_offline(&LogError::io(&**log_dir.path(), std::io::Error::from_raw_os_error(EIO)));
    }

    /// The log is in its new directory, which is not noted, with a record that is not
    /// acknowledged.
    fn moved_without_note() -> Self {
        let mut moving = Self::new();
        moving.ask(1).unwrap();
        moving.house.replicas.move_some();
        assert_eq!(moving.place(), 1);
        moving.append();
        moving
    }
}

/// It was offline until a restart, although its old disk had all that was acknowledged.
#[test]
fn a_replica_goes_back_when_its_new_disk_fails_before_the_note() {
    let mut moving = Moving::moved_without_note();
    let now_ms = moving.house.clock.wall_ms();
    // As a consumer's deletion between the two: no start may bring the records back.
    moving.house.find().unwrap().log().delete_records(Offset(START), now_ms).unwrap();
    let (acknowledged, before) = (moving.acknowledged, moving.house.find().unwrap());
    let looks = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = looks.clone();
    moving.house.replicas.on_deadline(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let opened = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = opened.clone();
    moving.house.replicas.on_opened(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    moving.fail(1);
    assert_eq!(moving.house.replicas.next_move_ms(), Some(0));
    moving.house.replicas.tell_everyone_in(&before.log().log_dir());
    assert!(looks.load(Ordering::Relaxed) > 0, "the thread that moves sleeps on");
    moving.house.replicas.move_some();
    assert!(!moving.moves());
    assert_eq!(moving.place(), 0);
    assert_eq!(opened.load(Ordering::Relaxed), 1, "coordinators keep the former log");
    assert!(moving.house.find().unwrap().key() > before.key());
    assert!(moving.house.replicas.by_key(before.key()).is_none());
    assert_eq!(moving.house.offsets(), [START, acknowledged, acknowledged]);
    moving.append();
    assert_eq!(moving.acknowledged, acknowledged + 1);
    moving.check("back in the old directory");
    // The new disk comes back with a copy that lacks a record.
    moving.house.replicas.close(1).unwrap();
    moving.start_with(&[0, 1]);
    moving.check("with both disks");
    moving.house.replicas.remove_deleted();
    assert_eq!(moving.names(), [(0, "t-0".to_owned())]);
}

/// The note was on its way when the new disk failed. The replica is noted back, and its disk with
/// all records counts at a start before that.
#[test]
fn a_note_that_comes_after_the_way_back_does_no_harm() {
    for starts in [false, true] {
        let mut moving = Moving::moved_without_note();
        let on_its_way =
            assign_replicas(&moving.house.image, ME, &moving.house.replicas.unassigned());
        moving.fail(1);
        moving.house.replicas.move_some();
        moving.append();
        let acknowledged = moving.acknowledged;
        for note in on_its_way {
            moving.house.commit_alone(note);
        }
        assert_eq!(moving.house.assignment(), Assignment::Directory(TWO));
        moving.append();
        assert_eq!(moving.acknowledged, acknowledged, "acknowledged where it is not noted");
        if starts {
            moving.house.storage = moving.house.storage.successor();
            moving.start_with(&[0, 1]);
        } else {
            moving.house.note();
        }
        assert_eq!(moving.place(), 0);
        assert_eq!(moving.house.assignment(), Assignment::Directory(DIRECTORY));
        moving.append();
        assert!(moving.acknowledged > acknowledged);
        moving.check("noted back");
    }
}

/// A follower that has a record which the leader loses would keep it, and its offset be given to
/// another record in the same epoch.
#[test]
fn followers_get_nothing_that_a_leader_on_its_way_may_lose() {
    let mut moving = Moving::new();
    moving.house.reassign(&[ME, OTHER]);
    let follower = FetchReader::Follower(OTHER);
    let end = moving.end();
    moving.ask(1).unwrap();
    moving.house.replicas.move_some();
    moving.append();
    let partition = moving.house.find().unwrap();
    assert_eq!(partition.log_end_offset().0, end + 1);
    assert_eq!(partition.readable_end(follower).0, end);
    moving.house.note();
    assert_eq!(partition.readable_end(follower).0, end + 1);
}

/// The disk that a replica left was away at its next move, whose notes do not know that one. The
/// partition did not open when the disk was back.
#[test]
fn a_directory_that_was_left_before_the_last_move_is_put_aside() {
    let mut moving = Moving::new();
    moving.ask(1).unwrap();
    moving.turn_to_end();
    moving.house.clock.advance_ms(DELAY_MS);
    moving.house.replicas.remove_deleted();
    // What an earlier move left.
    let [left, here] = moving.paths().map(|path| path.join("t-0"));
    std::fs::create_dir(&left).unwrap();
    for entry in std::fs::read_dir(&here).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), left.join(entry.file_name())).unwrap();
    }
    MoveNote::Leaving.write(&RealStorage, &left, Uuid([9; 16])).unwrap();
    moving.append();
    moving.house.storage = moving.house.storage.successor();
    moving.start_with(&[0, 1]);
    moving.check("with the directory that it left");
    let names = [(0, "t-0.unused-stray".to_owned()), (1, "t-0".to_owned())];
    assert_eq!(moving.names(), names);
    moving.append();
    moving.check("after the start");
}

/// The metadata log cannot be written: what is moved now would not be acknowledged.
#[test]
fn no_log_goes_on_in_its_copy_while_notes_fail() {
    let mut moving = Moving::new();
    let (name, partitions) = ("u".to_owned(), vec![record(&[ME], 0)]);
    let topic_id = Uuid([8; 16]);
    let other = CreateTopicRecord { name, topic_id, partitions, configs: vec![] };
    moving.house.commit_alone(MetadataRecord::CreateTopic(other));
    moving.house.replicas.assigned(Err(ErrorCode::KafkaStorageError.into()));
    moving.ask(1).unwrap();
    for _ in 0..5 {
        moving.house.replicas.move_some();
        moving.append();
        moving.house.clock.advance_ms(RETRY_MS);
    }
    assert_eq!((moving.place(), moving.moves()), (0, true));
    // The replica that waits is noted.
    moving.house.note();
    moving.turn_to_end();
    assert_eq!(moving.place(), 1);
}

/// The next start went on with it, although it had been refused.
#[test]
fn a_move_that_cannot_begin_leaves_nothing() {
    for at in 0.. {
        let mut moving = Moving::new();
        let storage = moving.house.storage.clone();
        storage.plan(storage.changes() + at, Fault::Full);
        if moving.ask(1).is_ok() {
            assert!(at > 3, "a move begins with {at} changes");
            return;
        }
        assert!(!moving.moves());
        moving.house.storage = storage.successor();
        moving.start_with(&[0, 1]);
        assert!(!moving.moves(), "at {at}");
        moving.house.replicas.remove_deleted();
        assert_eq!(moving.names(), [(0, "t-0".to_owned())], "at {at}");
    }
}

/// The replica that is found without the new disk was not closed there.
#[test]
fn a_clean_stop_between_swap_and_note_is_none_for_the_directory_before() {
    let mut moving = Moving::moved_without_note();
    moving.house.replicas.close(1).unwrap();
    let clean = |moving: &Moving| {
        let dirs = moving.house.replicas.dirs().iter();
        dirs.map(|dir| dir.checkpoints().clean_epoch()).collect::<Vec<_>>()
    };
    moving.start_with(&[0, 1]);
    assert_eq!(clean(&moving), [None, Some(1)]);
    moving.turn_to_end();
    moving.house.replicas.close(2).unwrap();
    moving.start_with(&[0, 1]);
    assert_eq!(clean(&moving), [Some(2), Some(2)]);
}
