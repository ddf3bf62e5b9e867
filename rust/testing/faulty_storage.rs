//! A file system that fails, crashes or loses power on command, over real files.
//!
//! Every change (write, sync, truncate, create, rename, remove) counts; the plan says at which one
//! the fault strikes. After a crash nothing works any more, as for a process that is gone; the
//! files hold what they held. After a power cut they also lose what was not synced: new bytes and
//! new names. If the test asks for it, cuts, renames and removals are lost too.
//!
//! Test crates include this file with `#[path]`.

// No test crate uses all of it.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalite_log::storage::{DirEntry, OpenMode, RealStorage, Storage, StorageFile, read_full};
use parking_lot::Mutex;

/// What happens at the chosen change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// That one change fails with this errno; half of a write's bytes are written.
    Fail(i32),
    /// That one change finds the disk full, unless it is a sync; half of a write's bytes are
    /// written.
    Full,
    /// From this change on every call fails; half of a write's bytes are written.
    Crash,
}

/// Called once.
#[derive(Default)]
struct Once(Option<Box<dyn FnOnce() + Send>>);

impl std::fmt::Debug for Once {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Once").field(&self.0.is_some()).finish()
    }
}

#[derive(Debug, Default)]
struct State {
    changes: u64,
    plan: Option<(u64, Fault)>,
    crashed: bool,
    /// Syncs of files do nothing, and say that they did.
    ignores_syncs: bool,
    /// Bytes of each file that a power cut leaves.
    synced: BTreeMap<PathBuf, u64>,
    /// What is done beside the next read.
    beside_read: Once,
    /// Names that a power cut takes away.
    unsynced_names: BTreeSet<PathBuf>,
    /// What a power cut may undo, in the order in which it was done.
    unsynced_changes: Vec<UnsyncedChange>,
}

/// A change that no sync followed, and what undoes it.
#[derive(Debug)]
enum UnsyncedChange {
    /// The file lost these bytes, from this position on.
    Cut(PathBuf, u64, Vec<u8>),
    /// A file with these bytes was removed.
    Removed(PathBuf, Vec<u8>),
    /// The first became the second, in the place of a file with these bytes.
    Renamed(PathBuf, PathBuf, Option<Vec<u8>>),
}

impl UnsyncedChange {
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Cut(path, ..) | Self::Removed(path, _) => vec![path.clone()],
            Self::Renamed(from, to, _) => vec![from.clone(), to.clone()],
        }
    }

    /// Whether a sync of the directory `path` makes it last.
    fn is_name_in(&self, path: &Path) -> bool {
        match self {
            Self::Cut(..) => false,
            Self::Removed(name, _) | Self::Renamed(name, ..) => name.parent() == Some(path),
        }
    }
}

impl State {
    fn undo(&mut self, change: UnsyncedChange) -> io::Result<()> {
        match change {
            UnsyncedChange::Cut(path, from, bytes) => {
                let file = RealStorage.open(&path, OpenMode::Write)?;
                file.write_all_at(&mut [IoSlice::new(&bytes)], from)?;
                self.synced.insert(path, from + bytes.len() as u64);
            }
            UnsyncedChange::Removed(path, bytes) => {
                std::fs::write(&path, &bytes)?;
                self.unsynced_names.remove(&path);
                self.synced.insert(path, bytes.len() as u64);
            }
            UnsyncedChange::Renamed(from, to, replaced) => {
                std::fs::rename(&to, &from)?;
                // What was made under the old name since then is lost with it.
                self.unsynced_names.remove(&from);
                if let Some(length) = self.synced.remove(&to) {
                    self.synced.insert(from, length);
                }
                if let Some(bytes) = replaced {
                    self.undo(UnsyncedChange::Removed(to, bytes))?;
                }
            }
        }
        Ok(())
    }

    /// Files in a directory that was renamed are found in it under its new name.
    fn move_inside(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| Some(to.join(path.strip_prefix(from).ok()?));
        let synced = std::mem::take(&mut self.synced).into_iter();
        let synced = synced.map(|(path, length)| (moved(&path).unwrap_or(path), length));
        self.synced = synced.collect();
        let names = std::mem::take(&mut self.unsynced_names).into_iter();
        self.unsynced_names = names.map(|path| moved(&path).unwrap_or(path)).collect();
    }

    /// What is gone with a directory has no names that a power cut could take.
    fn forget_inside(&mut self, directory: &Path) {
        self.synced.retain(|path, _| !path.starts_with(directory));
        self.unsynced_names.retain(|path| !path.starts_with(directory));
    }
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct FaultyStorage {
    inner: RealStorage,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn StorageFile>,
    path: PathBuf,
    storage: FaultyStorage,
}

fn crashed() -> io::Error {
    io::Error::other("the storage has crashed")
}

impl FaultyStorage {
    /// Lets `fault` strike at the change with number `at`, counted from 0.
    pub fn plan(&self, at: u64, fault: Fault) {
        self.state.lock().plan = Some((at, fault));
    }

    /// Changes made or tried so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Has `act` called while the next read of a file goes on: what another thread may do then.
    pub fn beside_next_read(&self, act: impl FnOnce() + Send + 'static) {
        self.state.lock().beside_read = Once(Some(Box::new(act)));
    }

    /// Lets syncs of files do nothing from now on, as a disk that lies does.
    pub fn ignore_syncs(&self, ignores: bool) {
        self.state.lock().ignores_syncs = ignores;
    }

    /// The storage of the next process on the same machine: it works, and a power cut takes what no
    /// process synced. The storage of the former process never works again.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut state = self.state.lock();
        state.crashed = true;
        let state = State {
            synced: std::mem::take(&mut state.synced),
            unsynced_names: std::mem::take(&mut state.unsynced_names),
            unsynced_changes: std::mem::take(&mut state.unsynced_changes),
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(state)), ..Self::default() }
    }

    /// Whether everything ended.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// Ends everything now.
    pub fn crash(&self) {
        self.state.lock().crashed = true;
    }

    /// As [`Self::cut_power`]. Before that it undoes cuts of files, renames and removals that were
    /// never synced, newest first, if `undoes` answers true. A file system may keep any of them. A
    /// change stays if a later one of the same file stays.
    ///
    /// # Errors
    /// If the real files cannot be changed.
    pub fn cut_power_and_undo(&self, mut undoes: impl FnMut() -> bool) -> io::Result<()> {
        let mut state = self.state.lock();
        state.crashed = true;
        let mut kept = BTreeSet::new();
        while let Some(change) = state.unsynced_changes.pop() {
            let paths = change.paths();
            if undoes() && !paths.iter().any(|path| kept.contains(path)) {
                state.undo(change)?;
            } else {
                kept.extend(paths);
            }
        }
        drop(state);
        self.cut_power()
    }

    /// Takes away what was never synced: bytes at the end of files, and new names of files and
    /// directories.
    ///
    /// # Errors
    /// If the real files cannot be changed.
    pub fn cut_power(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.crashed = true;
        for name in std::mem::take(&mut state.unsynced_names) {
            state.synced.remove(&name);
            if name.is_file() {
                std::fs::remove_file(&name)?;
            } else if name.is_dir() {
                std::fs::remove_dir_all(&name)?;
            }
        }
        for (path, length) in std::mem::take(&mut state.synced) {
            match std::fs::OpenOptions::new().write(true).open(&path) {
                Ok(file) if file.metadata()?.len() > length => file.set_len(length)?,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        if self.state.lock().crashed { Err(crashed()) } else { Ok(()) }
    }

    /// Counts a change; an error if the fault strikes here.
    fn change(&self) -> io::Result<()> {
        self.change_by(false)
    }

    fn change_by(&self, is_sync: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.crashed {
            return Err(crashed());
        }
        let number = state.changes;
        state.changes += 1;
        match state.plan {
            Some((at, fault)) if at == number => match fault {
                Fault::Full if is_sync => Ok(()),
                Fault::Full => Err(io::ErrorKind::StorageFull.into()),
                Fault::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
                Fault::Crash => {
                    state.crashed = true;
                    Err(crashed())
                }
            },
            _ => Ok(()),
        }
    }
}

impl StorageFile for FaultyFile {
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        // What is gone writes nothing, not even by half: its successor has the file by now.
        self.storage.check()?;
        if let Err(error) = self.storage.change() {
            let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            let half = &bytes[..bytes.len() / 2];
            self.inner.write_all_at(&mut [IoSlice::new(half)], position)?;
            return Err(error);
        }
        self.inner.write_all_at(buffers, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.storage.check()?;
        // Not under the lock: it may read.
        let act = self.storage.state.lock().beside_read.0.take();
        act.into_iter().for_each(|act| act());
        self.inner.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.storage.change_by(true)?;
        let length = self.inner.length()?;
        let mut state = self.storage.state.lock();
        if state.ignores_syncs {
            return Ok(());
        }
        state.synced.insert(self.path.clone(), length);
        state.unsynced_changes.retain(|change| match change {
            UnsyncedChange::Cut(path, ..) => *path != self.path,
            _ => true,
        });
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.storage.change()?;
        let cut = self.inner.length()?.saturating_sub(length);
        let mut bytes = vec![0; usize::try_from(cut).map_err(io::Error::other)?];
        let read = read_full(self.inner.as_ref(), &mut bytes, length)?;
        bytes.truncate(read);
        let mut state = self.storage.state.lock();
        // Bytes that were not safe before do not come back.
        let safe = state.synced.get(&self.path).copied().unwrap_or(u64::MAX);
        bytes.truncate(usize::try_from(safe.saturating_sub(length)).unwrap_or(usize::MAX));
        if !bytes.is_empty() {
            state.unsynced_changes.push(UnsyncedChange::Cut(self.path.clone(), length, bytes));
        }
        if let Some(synced) = state.synced.get_mut(&self.path) {
            *synced = length.min(*synced);
        }
        drop(state);
        self.inner.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.storage.change()?;
        self.inner.set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.storage.check()?;
        self.inner.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.storage.change()?;
        self.inner.allocate(length)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let creates = mode == OpenMode::Create && !path.exists();
        if creates {
            self.change()?;
            let mut state = self.state.lock();
            state.unsynced_names.insert(path.to_path_buf());
            state.synced.insert(path.to_path_buf(), 0);
        } else {
            self.check()?;
        }
        let inner = self.inner.open(path, mode)?;
        Ok(Box::new(FaultyFile { inner, path: path.to_path_buf(), storage: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        let is_file = from.is_file();
        let replaced = if is_file { std::fs::read(to).ok() } else { None };
        self.inner.rename(from, to)?;
        let mut state = self.state.lock();
        if is_file {
            let change = UnsyncedChange::Renamed(from.into(), to.into(), replaced);
            state.unsynced_changes.push(change);
        }
        // What stands at the new name is as safe as it was at the old one.
        if let Some(length) = state.synced.remove(from) {
            state.synced.insert(to.to_path_buf(), length);
        }
        if state.unsynced_names.remove(from) && !state.synced.contains_key(to) {
            state.unsynced_names.insert(to.to_path_buf());
        }
        state.move_inside(from, to);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        let bytes = std::fs::read(path)?;
        self.inner.remove_file(path)?;
        let mut state = self.state.lock();
        if !state.unsynced_names.contains(path) {
            state.unsynced_changes.push(UnsyncedChange::Removed(path.into(), bytes));
        }
        state.synced.remove(path);
        state.unsynced_names.remove(path);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        if !path.exists() {
            self.state.lock().unsynced_names.insert(path.to_path_buf());
        }
        self.inner.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        self.inner.remove_dir_all(path)?;
        self.state.lock().forget_inside(path);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        let mut state = self.state.lock();
        state.unsynced_names.retain(|name| name.parent() != Some(path));
        state.unsynced_changes.retain(|change| !change.is_name_in(path));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.check()?;
        self.inner.list(path)
    }
}
