//! The disk without waiting for it: for data that is thrown away with the process that made it.
//!
//! A kill of the process loses nothing, as ever: the page cache is the kernel's. A power cut may
//! lose everything.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::{DirEntry, OpenMode, RealStorage, Storage, StorageFile};

/// [`RealStorage`] whose syncs do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsyncedStorage;

#[derive(Debug)]
struct Unsynced(Box<dyn StorageFile>);

impl StorageFile for Unsynced {
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.0.write_all_at(buffers, position)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.0.set_modified_ms(modified_ms)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Storage for UnsyncedStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(Unsynced(RealStorage.open(path, mode)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealStorage.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealStorage.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealStorage.create_dir(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        RealStorage.remove_dir_all(path)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        RealStorage.list(path)
    }
}
