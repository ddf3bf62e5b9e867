//! The disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::{DirEntry, OpenMode, Storage, StorageFile};

/// The kernel's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealStorage;

#[derive(Debug)]
struct RealFile(File);

/// Means nothing for a regular file; the bits fit.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

impl StorageFile for RealFile {
    fn write_all_at(&self, mut buffers: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
        // The kernel takes at most 1,024 buffers a call (IOV_MAX).
        const MAX_BUFFERS: usize = 1_024;
        IoSlice::advance_slices(&mut buffers, 0);
        while !buffers.is_empty() {
            let some = &buffers[..buffers.len().min(MAX_BUFFERS)];
            match rustix::io::pwritev(&self.0, some, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    position += written as u64;
                    IoSlice::advance_slices(&mut buffers, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        let age = Duration::from_millis(modified_ms.try_into().unwrap_or(0));
        self.0.set_modified(UNIX_EPOCH + age)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.0, flags, 0, length) {
            // Some file systems cannot reserve; they lose the speed and nothing else.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Storage for RealStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(mode != OpenMode::Read)
            .create(mode == OpenMode::Create)
            .truncate(false)
            // A FIFO under the name of a log must not hold the caller until a writer comes.
            .custom_flags(NONBLOCK)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let modified_ms = metadata
                .modified()?
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
            let (length, is_dir) = (metadata.len(), metadata.is_dir());
            entries.push(DirEntry { name, length, is_dir, modified_ms });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}
