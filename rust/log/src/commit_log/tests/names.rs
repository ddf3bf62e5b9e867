//! The directory of a partition gets another name when its topic is deleted, and a new topic may
//! get the old one at once. A thread that uses a name in it keeps the directory in place, or holds
//! a lock that the deletion takes as well.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::*;
use crate::segment_file::SegmentFile;
use crate::storage::{DirEntry, OpenMode, Storage, StorageFile};

/// Real files; notes who uses a name that could be another partition's by then.
#[derive(Clone, Debug, Default)]
struct Watched {
    log: Arc<OnceLock<Arc<CommitLog>>>,
    careless: Arc<Mutex<Vec<String>>>,
    /// A segment that is read before each rename, and the bytes that it has.
    held: Arc<OnceLock<(Arc<Segment>, Vec<u8>)>>,
}

impl Watched {
    fn note(&self, what: &str, path: &Path) {
        let Some(log) = self.log.get() else { return };
        let locked =
            log.writer.is_locked() || log.flushing.is_locked() || log.writing_epochs.is_locked();
        if path.starts_with(log.dir().log_dir.path().join("t-0")) && !locked && !log.dir().is_held()
        {
            self.careless.lock().push(format!("{what} {}", path.display()));
        }
    }

    /// Reads the held segment as who comes to its name now: its own bytes, or that it is gone.
    /// Whether it is there.
    fn read_held(&self) -> bool {
        let Some((segment, expected)) = self.held.get() else { return false };
        segment.close_file();
        match segment.file() {
            Err(LogError::Closed { .. }) => false,
            file => {
                assert!(file_bytes(&file.unwrap()) == *expected, "bytes of another file");
                true
            }
        }
    }
}

fn file_bytes(file: &SegmentFile) -> Vec<u8> {
    let mut bytes = vec![0; file.storage().length().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

impl Storage for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        self.note("open", path);
        RealStorage.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("rename", from);
        self.read_held();
        RealStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.note("remove", path);
        RealStorage.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealStorage.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        RealStorage.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.note("sync", path);
        RealStorage.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.note("list", path);
        RealStorage.list(path)
    }
}

#[test]
fn no_name_in_a_partition_is_used_that_could_be_anothers() {
    let temp = tempfile::tempdir().unwrap();
    let watched = Watched::default();
    // One open file at a time: each look at a segment opens it by its name.
    let log_dir = LogDir::open(temp.path(), Arc::new(watched.clone()), 1).unwrap();
    let config = LogConfig { cleanup_compact: true, ..small_segments() };
    let state = OpenState::default();
    let (log, _) = CommitLog::open(&log_dir, "t-0", Arc::new(config), state, NOW_MS).unwrap();
    let log = watched.log.get_or_init(|| Arc::new(log));
    for round in 1..4 {
        for _ in 0..60 {
            append(log, 1);
        }
        log.roll(NOW_MS).unwrap();
        let end = log.log_end_offset();
        assert!(log.compact(end, NOW_MS, 100).unwrap().records_removed > 50);
        log.flush().unwrap();
        log.read(log.log_start_offset(), u32::MAX, end, true).unwrap();
        log.offset_for_timestamp(NOW_MS).unwrap();
        log.offset_of_max_timestamp().unwrap();
        log.delete_records(Offset(round * 10), NOW_MS).unwrap();
        log.retain(NOW_MS + round, end).unwrap();
        log.remove_deleted(i64::MAX).unwrap();
    }
    truncate(log, 150);
    log.close(true).unwrap();
    assert_eq!(*watched.careless.lock(), Vec::<String>::new());
}

/// The file of a segment that was compacted twice was found under the name of the file before it. A
/// reader beside the second compaction, or one that held the segment across it, got other bytes.
#[test]
fn a_segment_that_goes_is_not_read_from_the_file_of_another() {
    let temp = tempfile::tempdir().unwrap();
    let watched = Watched::default();
    let log_dir = LogDir::open(temp.path(), Arc::new(watched.clone()), 1).unwrap();
    let config = LogConfig { cleanup_compact: true, ..small_segments() };
    let state = OpenState::default();
    let (log, _) = CommitLog::open(&log_dir, "t-0", Arc::new(config), state, NOW_MS).unwrap();
    let compact = || {
        for _ in 0..20 {
            append(&log, 1);
        }
        log.roll(NOW_MS).unwrap();
        assert!(log.compact(log.log_end_offset(), NOW_MS, 100).unwrap().records_removed > 0);
    };
    compact();
    let (segment, _) = log.segment_at(Offset(0)).unwrap();
    let bytes = file_bytes(&segment.file().unwrap());
    watched.held.get_or_init(|| (segment, bytes));
    compact();
    compact();
    assert!(watched.read_held(), "its file is there until its time has come");
    log.remove_deleted(i64::MAX).unwrap();
    assert!(!watched.read_held());
    assert!(!log_dir.is_offline());
}

/// A flush looked for the index of a segment that compaction or retention had just renamed, found
/// none, and took the whole log directory offline.
#[test]
fn a_segment_that_goes_while_it_is_flushed_is_no_failing_disk() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    append(&log, 1);
    log.roll(NOW_MS).unwrap();
    let (segment, _) = log.segment_at(Offset(0)).unwrap();
    segment.file().unwrap();
    for path in segment.mark_deleted().unwrap() {
        std::fs::remove_file(path).unwrap();
    }
    assert!(matches!(segment.flush(), Err(LogError::Closed { .. })));
    log.flush().unwrap();
    assert!(!fixture.log_dir.is_offline());
    assert_eq!(log.durable_offset(), log.log_end_offset());
}
