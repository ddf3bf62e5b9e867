//! Files behind a trait, so that a test can make any of them fail or crash on command.
//!
//! [`RealStorage`] is the disk; the `FaultyStorage` of tests (`rust/testing`) wraps it and fails or
//! "crashes" at the n-th change. Only what the log needs is here: positional writes and reads, and
//! the few directory operations whose order recovery depends on.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

mod real;
mod unsynced;

pub use real::RealStorage;
pub use unsynced::UnsyncedStorage;

/// One open file. Positions are explicit: no shared cursor, so readers and the writer never meet.
pub trait StorageFile: Send + Sync + Debug {
    /// Writes every byte of `buffers` at `position`, one after the other.
    ///
    /// After an error any part of them may have been written.
    fn write_all_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes from `position`; 0 only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Returns when the file's data is on the disk. Never to be retried after an error: the kernel
    /// has forgotten the pages that it failed to write.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Sets the time of its last change, ms since 1970.
    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()>;
    /// Bytes in the file.
    fn length(&self) -> io::Result<u64>;
    /// Reserves blocks up to `length` without changing the file's length.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// The descriptor, for sendfile, cachestat and mmap. It lives as long as this file.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist; only read.
    Read,
    /// It must exist; read and written.
    Write,
    /// Read and written; created if it is missing.
    Create,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The last component of its path.
    pub name: String,
    /// Bytes, for a file.
    pub length: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Last change, ms since 1970.
    pub modified_ms: i64,
}

/// A file system.
pub trait Storage: Send + Sync + Debug {
    /// Opens a regular file; anything else, a FIFO or a device for instance, is refused.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>>;
    /// Moves a file or directory within its file system, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory and its parents; no error if it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Returns when the names in a directory are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// What a directory holds, sorted by name; names that are not UTF-8 are left out.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Gives a file a second name. Where the file system cannot, between two of them for instance,
    /// the bytes are copied.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop))
    }
}

/// More than any file has that is read as a whole: a checkpoint of a million partitions is
/// smaller. A sparse file may claim any length.
const MOST_WHOLE_BYTES: u64 = 1 << 28;

/// A whole small file.
///
/// # Errors
/// `NotFound` if there is none; `FileTooLarge` above 256 MiB.
pub fn read_file(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let file = storage.open(path, OpenMode::Read)?;
    let length = file.length()?;
    if length > MOST_WHOLE_BYTES {
        let text = format!("{length} bytes, more than the {MOST_WHOLE_BYTES} such a file may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let read = read_full(file.as_ref(), &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads until `buffer` is full or the file ends; how many bytes there were.
pub fn read_full(file: &dyn StorageFile, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], position + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Whether a file has another name: a snapshot or a fork of a broker has the same bytes.
pub(crate) fn is_shared(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::fstat(file)?.st_nlink > 1)
}

/// Whether what is replaced must be safe from a power cut when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// fsync of the new file before and of its directory after the rename.
    Disk,
    /// fsync of the new file before the rename; the caller syncs the directory, once for several.
    DiskWithDirectory,
    /// Only the order that a kill of the process respects.
    PageCache,
}

/// Replaces a small file as a whole: a reader sees the old bytes or the new ones.
///
/// # Errors
/// Whatever the disk says; the old file stands then.
pub fn replace_file(
    storage: &dyn Storage,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let file = storage.open(&temporary, OpenMode::Create)?;
    file.set_len(0)?;
    file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    if durability != Durability::PageCache {
        file.sync_data()?;
    }
    storage.rename(&temporary, path)?;
    match path.parent() {
        Some(parent) if durability == Durability::Disk => storage.sync_dir(parent),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
