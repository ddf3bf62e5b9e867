//! A replica moves into another log directory, through crashes and failing disks.

use super::super::moving::RETRY_MS;
use super::assigning::TWO;
use super::*;
use crate::faulty_storage::Fault;
use std::path::Path;

const EIO: i32 = 5;
/// Where the log starts before it is moved.
const START: i64 = 2;

/// A house with a second log directory.
struct Moving {
    house: House,
    two: TempDir,
    /// Everything below was acknowledged.
    acknowledged: i64,
}

impl Moving {
    fn new() -> Self {
        let mut house = House::new(&[ME]);
        let two = tempfile::tempdir().unwrap();
        let one = house.directory.path().to_owned();
        house.start_with(&[(&one, DIRECTORY), (two.path(), TWO)], false);
        let mut moving = Self { house, two, acknowledged: 0 };
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
            self.acknowledged = self.acknowledged.max(partition.high_watermark().0);
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
        let offsets: Vec<i64> = batches.map(|batch| batch.unwrap().base_offset().0).collect();
        assert_eq!(offsets, (START..end.0).collect::<Vec<_>>(), "{what}");
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

/// A crash of the process strikes at every change of a file, before each kind of start. No
/// acknowledged record is missed, and none that was deleted comes back.
#[test]
fn no_crash_at_any_step_of_a_move_loses_an_acknowledged_record() {
    for at in 0.. {
        if !survives(at) {
            assert!(at > 60, "a move of {at} changes");
            return;
        }
    }
}

/// Whether the crash came.
fn survives(at: u64) -> bool {
    let what = format!("crash at {at}");
    let mut moving = Moving::new();
    let storage = moving.house.storage.clone();
    storage.plan(storage.changes() + at, Fault::Crash);
    let begun = storage.changes();
    let _refused_by_the_fault = moving.ask(1);
    for _ in 0..6 {
        moving.turn();
    }
    let came = storage.changes() > begun + at;
    moving.house.storage = storage.successor();
    // One of the disks is away at first. What is served without it is all there is.
    let away = (at % 3) as usize;
    if away < 2 {
        moving.start_with(&[1 - away]);
        if moving.house.find().is_ok() {
            moving.check(&format!("{what}, {away} away"));
            moving.append();
        }
        moving.house.storage = moving.house.storage.successor();
    }
    moving.start_with(&[0, 1]);
    let what = format!("{what} of {}, {:?}", storage.changes() - begun, moving.names());
    moving.check(&what);
    let before = moving.end();
    moving.append();
    moving.turn_to_end();
    assert!(moving.acknowledged > before, "{what}");
    moving.check(&what);
    moving.house.clock.advance_ms(DELAY_MS);
    moving.house.replicas.remove_deleted();
    let mut names = moving.names();
    // A copy that lacks what the log got while the copy was away.
    names.retain(|(_, name)| !name.ends_with("-stray"));
    assert_eq!(names, [(moving.place(), "t-0".to_owned())], "{what}");
    came
}
