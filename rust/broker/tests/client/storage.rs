//! Real files whose use a test can see, refuse or delay.
#![allow(dead_code)]

use kafkalite_log::storage::{DirEntry, OpenMode, RealStorage, Storage, StorageFile};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is about to happen to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Open,
    Read,
    Change,
    List,
}

type Ask = dyn Fn(Use, &Path) -> io::Result<()> + Send + Sync;

/// Asks a closure before everything that it does.
#[derive(Clone)]
pub struct Asking(Arc<Ask>);

impl Asking {
    pub fn new(ask: impl Fn(Use, &Path) -> io::Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self(Arc::new(ask)))
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

#[derive(Debug)]
struct AskingFile {
    inner: Box<dyn StorageFile>,
    path: PathBuf,
    asking: Asking,
}

impl AskingFile {
    fn ask(&self, what: Use) -> io::Result<()> {
        (self.asking.0)(what, &self.path)
    }
}

impl StorageFile for AskingFile {
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.ask(Use::Change)?;
        self.inner.write_all_at(buffers, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.ask(Use::Read)?;
        self.inner.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.ask(Use::Change)?;
        self.inner.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.ask(Use::Change)?;
        self.inner.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.ask(Use::Change)?;
        self.inner.set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.ask(Use::Change)?;
        self.inner.allocate(length)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Storage for Asking {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        (self.0)(Use::Open, path)?;
        let inner = RealStorage.open(path, mode)?;
        Ok(Box::new(AskingFile { inner, path: path.to_owned(), asking: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.0)(Use::Change, from)?;
        RealStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        (self.0)(Use::Change, path)?;
        RealStorage.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        (self.0)(Use::Change, path)?;
        RealStorage.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        (self.0)(Use::Change, path)?;
        RealStorage.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        (self.0)(Use::Change, path)?;
        RealStorage.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        (self.0)(Use::List, path)?;
        RealStorage.list(path)
    }
}
