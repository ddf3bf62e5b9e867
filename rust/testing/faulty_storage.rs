//! A file system that fails, crashes or loses power on command, over real files.
//!
//! Every change (write, sync, truncate, create, rename, remove) counts; the plan says at which one
//! the fault strikes. After a crash nothing works any more, as for a process that is gone; the
//! files hold what they held. After a power cut they also lose what was not synced: new bytes and
//! new names. If the test asks for it, cuts, renames and removals are lost too. What is half done
//! after a fault: a write, and the removal of a directory.
//!
//! Test crates include this file with `#[path]`.

// No test crate uses all of it.
#![allow(dead_code)]

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalite_log::storage::{DirEntry, OpenMode, RealStorage, Storage, StorageFile, read_full};
use parking_lot::Mutex;

#[path = "faulty_storage/on_disk.rs"]
mod on_disk;

pub use on_disk::Tail;
use on_disk::{Id, OnDisk};

/// What happens at the chosen change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// That one change fails with this errno; half of a write's bytes are written, and half of a
    /// directory's files removed.
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

/// What a change asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Blocks, or a place for a name.
    Room,
    /// Nothing that a full disk lacks.
    NoRoom,
    Sync,
}

#[derive(Clone, Debug)]
struct Plan {
    at: u64,
    fault: Fault,
    /// It strikes below these directories from that change on; `None` strikes once, anywhere.
    below: Option<Vec<PathBuf>>,
}

impl Plan {
    /// Whether it strikes at the change `number` of the file at `path`.
    fn strikes(&self, number: u64, need: Need, path: &Path) -> bool {
        let comes = match &self.below {
            Some(below) => number >= self.at && below.iter().any(|one| path.starts_with(one)),
            None => number == self.at,
        };
        let lasts = self.below.is_some();
        comes
            && (self.fault != Fault::Full || need == Need::Room || (need == Need::NoRoom && !lasts))
    }
}

#[derive(Debug, Default)]
struct State {
    changes: u64,
    plans: Vec<Plan>,
    crashed: bool,
    /// Syncs of files do nothing, and say that they did.
    ignores_syncs: bool,
    /// What is done beside the next read.
    beside_read: Once,
    on_disk: OnDisk,
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
    id: Id,
    /// Where it was when it was opened: it tells which disk it is on.
    opened_at: PathBuf,
    storage: FaultyStorage,
}

fn crashed() -> io::Error {
    io::Error::other("the storage has crashed")
}

impl FaultyStorage {
    /// Lets `fault` strike at the change with number `at`, counted from 0.
    pub fn plan(&self, at: u64, fault: Fault) {
        self.state.lock().plans = vec![Plan { at, fault, below: None }];
    }

    /// As [`Self::plan`], beside what was planned before.
    pub fn plan_also(&self, at: u64, fault: Fault) {
        self.state.lock().plans.push(Plan { at, fault, below: None });
    }

    /// As [`Self::plan`], but from that change on, and only below the directories `below`: their
    /// disks are full or broken. A broken disk fails all reads, too. A full one syncs, removes and
    /// renames.
    pub fn plan_below(&self, at: u64, fault: Fault, below: &[&Path]) {
        let below = Some(below.iter().map(|path| path.to_path_buf()).collect());
        self.state.lock().plans = vec![Plan { at, fault, below }];
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
        let state = State { on_disk: std::mem::take(&mut state.on_disk), ..State::default() };
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
    pub fn cut_power_and_undo(&self, undoes: impl FnMut() -> bool) -> io::Result<()> {
        self.state.lock().on_disk.undo_changes(undoes)?;
        self.cut_power()
    }

    /// As [`Self::cut_power_and_undo`]. A file system may also keep new names, and what was written
    /// to the ends of files in part.
    ///
    /// # Errors
    /// If the real files cannot be changed.
    pub fn cut_power_leaving(
        &self,
        tail: Tail,
        mut undoes: impl FnMut() -> bool,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        state.crashed = true;
        state.on_disk.undo_changes(&mut undoes)?;
        state.on_disk.take_names(undoes)?;
        state.on_disk.take_tails(tail)
    }

    /// Takes away what was never synced: bytes at the end of files, and new names of files and
    /// directories.
    ///
    /// # Errors
    /// If the real files cannot be changed.
    pub fn cut_power(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.crashed = true;
        state.on_disk.take_names(|| true)?;
        state.on_disk.take_tails(Tail::Gone)
    }

    /// Before something at `path` is read.
    fn check(&self, path: &Path) -> io::Result<()> {
        let state = self.state.lock();
        if state.crashed {
            return Err(crashed());
        }
        let fails = |plan: &Plan| match plan {
            Plan { at, fault: Fault::Fail(errno), below: Some(below) }
                if *at <= state.changes && below.iter().any(|one| path.starts_with(one)) =>
            {
                Some(*errno)
            }
            _ => None,
        };
        let errno = state.plans.iter().find_map(fails);
        errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Counts a change; an error if the fault strikes here.
    fn change(&self, need: Need, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.crashed {
            return Err(crashed());
        }
        let number = state.changes;
        state.changes += 1;
        let plan = state.plans.iter().find(|plan| plan.strikes(number, need, path));
        match plan.map(|plan| plan.fault) {
            None => Ok(()),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Crash) => {
                state.crashed = true;
                Err(crashed())
            }
        }
    }
}

impl FaultyFile {
    fn change(&self, need: Need) -> io::Result<()> {
        self.storage.change(need, &self.opened_at)
    }

    fn check(&self) -> io::Result<()> {
        self.storage.check(&self.opened_at)
    }
}

impl StorageFile for FaultyFile {
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        // What is gone writes nothing, not even by half: its successor has the file by now.
        self.check()?;
        if let Err(error) = self.change(Need::Room) {
            let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            let half = &bytes[..bytes.len() / 2];
            self.inner.write_all_at(&mut [IoSlice::new(half)], position)?;
            return Err(error);
        }
        self.inner.write_all_at(buffers, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.check()?;
        // Not under the lock: it may read.
        let act = self.storage.state.lock().beside_read.0.take();
        act.into_iter().for_each(|act| act());
        self.inner.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Need::Sync)?;
        let length = self.inner.length()?;
        let mut state = self.storage.state.lock();
        if !state.ignores_syncs {
            state.on_disk.file_synced(self.id, length);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Need::NoRoom)?;
        let cut = self.inner.length()?.saturating_sub(length);
        let mut bytes = vec![0; usize::try_from(cut).map_err(io::Error::other)?];
        let read = read_full(self.inner.as_ref(), &mut bytes, length)?;
        bytes.truncate(read);
        self.storage.state.lock().on_disk.file_cut(self.id, length, bytes);
        self.inner.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.change(Need::NoRoom)?;
        self.inner.set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.check()?;
        self.inner.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.change(Need::Room)?;
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
            self.change(Need::Room, path)?;
        } else {
            self.check(path)?;
        }
        let inner = self.inner.open(path, mode)?;
        let length = (mode != OpenMode::Read).then(|| inner.length()).transpose()?;
        let on_disk = &mut self.state.lock().on_disk;
        let id =
            if creates { on_disk.file_created(path) } else { on_disk.file_opened(path, length) };
        let (opened_at, storage) = (path.to_path_buf(), self.clone());
        Ok(Box::new(FaultyFile { inner, id, opened_at, storage }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(Need::NoRoom, from)?;
        let replaced = if from.is_file() { std::fs::read(to).ok() } else { None };
        self.inner.rename(from, to)?;
        self.state.lock().on_disk.renamed(from, to, replaced);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(Need::NoRoom, path)?;
        let bytes = std::fs::read(path)?;
        self.inner.remove_file(path)?;
        self.state.lock().on_disk.file_removed(path, bytes);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change(Need::Room, path)?;
        let creates = !path.exists();
        self.inner.create_dir(path)?;
        if creates {
            self.state.lock().on_disk.directory_created(path);
        }
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        if let Err(error) = self.change(Need::NoRoom, path) {
            let files = self.inner.list(path)?;
            for file in files.iter().take(files.len() / 2).filter(|file| !file.is_dir) {
                std::fs::remove_file(path.join(&file.name))?;
            }
            return Err(error);
        }
        self.inner.remove_dir_all(path)?;
        self.state.lock().on_disk.directory_removed(path);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change(Need::NoRoom, path)?;
        self.state.lock().on_disk.directory_synced(path);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(path)?;
        self.inner.list(path)
    }
}
