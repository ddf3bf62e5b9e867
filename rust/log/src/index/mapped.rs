//! A file mapped for reading: the one place of this crate's indexes that needs `unsafe`.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};

use memmap2::{Mmap, MmapOptions};

/// The first bytes of a file, mapped read-only.
#[derive(Debug)]
pub(crate) struct Mapped(Mmap);

impl Mapped {
    /// Maps the first `length` bytes, which the file must have.
    #[allow(unsafe_code)]
    pub(crate) fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: only indexes of sealed segments are mapped, in a directory that this process
        // holds locked. Nothing writes or shortens such a file while it is mapped. Truncation and
        // compaction first take the entries into memory, or replace the file by a new one.
        let map = unsafe { MmapOptions::new().len(length).map(file.as_raw_fd())? };
        Ok(Self(map))
    }
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
