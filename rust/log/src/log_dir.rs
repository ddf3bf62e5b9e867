//! One entry of `log.dirs`: the directory that holds partitions, locked while a broker runs.
//!
//! Every log in it shares its fate: when the disk fails under one of them, all are offline, and
//! that is said once.
//! Source: Kafka's `LogManager`, `LogDirFailureChannel`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use parking_lot::{RwLock, RwLockReadGuard};

use crate::error::LogError;
use crate::segment_file::OpenFiles;
use crate::storage::{OpenMode, Storage, StorageFile};

/// A locked log directory.
#[derive(Debug)]
pub struct LogDir {
    path: Arc<Path>,
    storage: Arc<dyn Storage>,
    files: OpenFiles,
    offline: AtomicBool,
    on_offline: OnOffline,
    // The kernel lets go of the lock when the process ends, however it ends.
    lock: Box<dyn StorageFile>,
}

/// The callback for a directory that goes offline.
#[derive(Default)]
struct OnOffline(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for OnOffline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OnOffline").field(&self.0.get().is_some()).finish()
    }
}

const LOCK_FILE: &str = ".lock";

impl Drop for LogDir {
    /// Closing the file is not enough: a process forked off this one holds the lock as well.
    fn drop(&mut self) {
        self.unlock();
    }
}

impl LogDir {
    /// Creates `path` if it is missing, so that no power cut takes it away, and locks it. At most
    /// `max_open_files` segment files of its logs stay open.
    ///
    /// # Errors
    /// `Locked` while another process has it; `Io` if it cannot be made or written.
    pub fn open(
        path: impl Into<PathBuf>,
        storage: Arc<dyn Storage>,
        max_open_files: usize,
    ) -> Result<Arc<Self>, LogError> {
        let path: Arc<Path> = path.into().into();
        let is_new = |path: &&Path| !path.exists();
        let new: Vec<&Path> = path.ancestors().take_while(is_new).collect();
        storage.create_dir(&path).map_err(|error| LogError::io(&*path, error))?;
        // The name of a directory is in its parent, and so safe when the parent is.
        for parent in new.iter().filter_map(|new| new.parent()).filter(|path| path.is_dir()) {
            storage.sync_dir(parent).map_err(|error| LogError::io(parent, error))?;
        }
        let lock_path = path.join(LOCK_FILE);
        let lock = storage
            .open(&lock_path, OpenMode::Create)
            .map_err(|error| LogError::io(&*lock_path, error))?;
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(lock.as_fd(), operation) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LogError::Locked { path }),
            Err(error) => return Err(LogError::io(lock_path, error.into())),
        }
        let files = OpenFiles::new(max_open_files);
        let offline = AtomicBool::new(false);
        let on_offline = OnOffline::default();
        Ok(Arc::new(Self { path, storage, files, offline, on_offline, lock }))
    }

    /// Lets another broker have the directory: every log in it is closed.
    pub fn unlock(&self) {
        if let Err(error) = rustix::fs::flock(self.lock.as_fd(), rustix::fs::FlockOperation::Unlock)
        {
            tracing::warn!(log_dir = %self.path.display(), %error, "lock is not released");
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The files behind it.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn files(&self) -> &OpenFiles {
        &self.files
    }

    /// Whether its disk failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Fails if its disk failed before.
    pub(crate) fn check_online(&self) -> Result<(), LogError> {
        if self.is_offline() {
            return Err(LogError::Offline { path: self.path.clone() });
        }
        Ok(())
    }

    /// Turns a failure of the kernel into an error; anything but a full disk takes this offline.
    pub(crate) fn failed(&self, path: impl Into<PathBuf>, source: io::Error) -> LogError {
        self.judge(LogError::io(path, source))
    }

    /// Takes this offline if `error`, which something in it met, is a failure of its disk.
    pub fn judge(&self, error: LogError) -> LogError {
        if error.is_disk_failure() {
            self.take_offline(&error);
        }
        error
    }

    /// Takes the directory offline; the first call says why.
    pub fn take_offline(&self, why: &LogError) {
        if !self.offline.swap(true, Ordering::AcqRel) {
            tracing::error!(log_dir = %self.path.display(), "log directory is offline: {why}");
            if let Some(told) = self.on_offline.0.get() {
                told();
            }
        }
    }

    /// Calls `told` when the directory goes offline. The call runs under the locks of the log that
    /// failed, so `told` may only hand the work to another thread. Only the first callback is kept,
    /// and it runs once.
    pub fn on_offline(&self, told: impl Fn() + Send + Sync + 'static) {
        let is_first = self.on_offline.0.set(Box::new(told)).is_ok();
        if let Some(told) = self.on_offline.0.get().filter(|_| is_first && self.is_offline()) {
            told();
        }
    }
}

/// Where one partition's files are; the path changes when the partition is on its way out.
#[derive(Debug)]
pub(crate) struct PartitionDir {
    path: RwLock<Arc<Path>>,
    /// Set before the directory gets its last name.
    leaving: AtomicBool,
    /// How many numbers [`Self::next_deleted`] gave out. A start leaves no file with one.
    deleted: AtomicU64,
    pub(crate) log_dir: Arc<LogDir>,
}

impl PartitionDir {
    pub(crate) fn new(log_dir: Arc<LogDir>, path: impl Into<PathBuf>) -> Arc<Self> {
        let leaving = AtomicBool::new(false);
        let deleted = AtomicU64::new(0);
        Arc::new(Self { path: RwLock::new(path.into().into()), leaving, deleted, log_dir })
    }

    /// The number of one more segment on its way out, from 1.
    pub(crate) fn next_deleted(&self) -> u64 {
        self.deleted.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn path(&self) -> Arc<Path> {
        self.path.read().clone()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.read().join(name)
    }

    /// Keeps the directory where it is while a file in it is made or renamed. Without it, a topic
    /// that is made again under the old name could get the files of the one that goes. Who holds it
    /// must not ask for the name again: a rename that waits is served first.
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, Arc<Path>> {
        self.path.read()
    }

    /// Calls `act` with the path of the file `name`, held as [`Self::hold`] does.
    pub(crate) fn at<T>(&self, name: &str, act: impl FnOnce(&Path) -> T) -> T {
        act(&self.hold().join(name))
    }

    /// Whether the partition is on its way out: its files go with the directory.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn is_held(&self) -> bool {
        self.path.try_write().is_none()
    }

    /// Turns a failure of the kernel into an error, as [`Self::judge`] sees it.
    pub(crate) fn failed(&self, path: impl Into<PathBuf>, source: io::Error) -> LogError {
        self.judge(LogError::io(path, source))
    }

    /// Takes the log directory offline if `error` is a failure of its disk. Who finds nothing at a
    /// place that the partition has left met none: the log is being deleted.
    pub(crate) fn judge(&self, error: LogError) -> LogError {
        match &error {
            LogError::Io { source, .. }
                if source.kind() == io::ErrorKind::NotFound && self.is_leaving() =>
            {
                LogError::Closed { path: self.path() }
            }
            LogError::Io { .. } => {
                self.log_dir.take_offline(&error);
                error
            }
            _ => error,
        }
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        self.log_dir.storage.as_ref()
    }

    /// Gives the directory another name in the same log directory, under which it stays.
    pub(crate) fn take_name(&self, name: &str) -> Result<(), LogError> {
        let mut path = self.path.write();
        let to = self.log_dir.path.join(name);
        self.storage().rename(&path, &to).map_err(|error| self.log_dir.failed(&**path, error))?;
        *path = to.into();
        let parent = &self.log_dir.path;
        self.storage().sync_dir(parent).map_err(|error| self.log_dir.failed(&**parent, error))
    }

    /// Moves the directory to another name in the same log directory.
    pub(crate) fn rename(&self, name: &str) -> Result<(), LogError> {
        self.leaving.store(true, Ordering::Release);
        self.take_name(name)
    }
}
