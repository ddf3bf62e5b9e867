//! The directory of a partition gets another name when its topic is deleted, and a new topic may
//! get the old one at once. A thread that uses a name in it keeps the directory in place, or holds
//! a lock that the deletion takes as well.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::*;
use crate::storage::{DirEntry, OpenMode, Storage, StorageFile};

/// Real files; notes who uses a name that could be another partition's by then.
#[derive(Clone, Debug, Default)]
struct Watched {
    log: Arc<OnceLock<Arc<CommitLog>>>,
    careless: Arc<Mutex<Vec<String>>>,
}

impl Watched {
    fn note(&self, what: &str, path: &Path) {
        let Some(log) = self.log.get() else { return };
        let locked =
            log.writer.is_locked() || log.flushing.is_locked() || log.writing_epochs.is_locked();
        if path.starts_with(log.dir.log_dir.path().join("t-0")) && !locked && !log.dir.is_held() {
            self.careless.lock().push(format!("{what} {}", path.display()));
        }
    }
}

impl Storage for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        self.note("open", path);
        RealStorage.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("rename", from);
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
