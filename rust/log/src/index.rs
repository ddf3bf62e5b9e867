//! A segment's sparse indexes, and the way both keep their entries.
//!
//! Entries have a fixed length and the same form as on disk. Entries of the segment that is written
//! are in memory and reach the file in chunks (no mapped writes, no preallocated 10 MiB). Entries
//! of a sealed segment are mapped, if they take more than a page. An index has no checksum, so it
//! is only a hint. Its targets are checked against the log, and a damaged index is rebuilt from the
//! log.

use std::io::{self, IoSlice};
use std::path::Path;

use crate::storage::{OpenMode, Storage, is_shared, read_full};

mod mapped;
pub(crate) mod offset_index;
pub(crate) mod time_index;

use mapped::Mapped;

/// Indexes up to this size are read, not mapped: one page. A process has 65,530 mappings by
/// default, and a broker may have as many small segments.
const MOST_READ_BYTES: usize = 4_096;

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    Mapped(Mapped),
}

/// The entries of one index; `LENGTH` bytes each.
#[derive(Debug)]
pub(crate) struct Entries<const LENGTH: usize> {
    bytes: Bytes,
    /// Bytes at the front that the file holds already.
    written: usize,
    /// The file goes on after those with bytes that are no entries of ours.
    cut: bool,
}

impl<const LENGTH: usize> Default for Entries<LENGTH> {
    fn default() -> Self {
        Self { bytes: Bytes::Memory(Vec::new()), written: 0, cut: false }
    }
}

impl<const LENGTH: usize> Entries<LENGTH> {
    /// Maps the file; what is appended later is kept in memory with a copy of it. A small file is
    /// read, and so is one that the kernel does not map.
    pub(crate) fn map(storage: &dyn Storage, path: &Path) -> io::Result<Self> {
        let file = storage.open(path, OpenMode::Read)?;
        let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
        let whole = length - length % LENGTH;
        if whole == 0 {
            return Ok(Self { cut: length > 0, ..Self::default() });
        }
        let mapped =
            if whole > MOST_READ_BYTES { Mapped::new(file.as_fd(), whole).ok() } else { None };
        let bytes = match mapped {
            Some(mapped) => Bytes::Mapped(mapped),
            None => {
                let mut bytes = vec![0; whole];
                if read_full(file.as_ref(), &mut bytes, 0)? < whole {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Bytes::Memory(bytes)
            }
        };
        Ok(Self { bytes, written: whole, cut: whole < length })
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes,
            Bytes::Mapped(mapped) => mapped,
        }
    }

    pub(crate) fn all(&self) -> &[[u8; LENGTH]] {
        self.as_bytes().as_chunks().0
    }

    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len() / LENGTH
    }

    pub(crate) fn last(&self) -> Option<&[u8; LENGTH]> {
        self.all().last()
    }

    fn memory(&mut self) -> &mut Vec<u8> {
        if let Bytes::Mapped(mapped) = &self.bytes {
            self.bytes = Bytes::Memory(mapped.to_vec());
        }
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes,
            // Just replaced.
            Bytes::Mapped(_) => unreachable!("a mapped index was taken into memory above"),
        }
    }

    pub(crate) fn push(&mut self, entry: [u8; LENGTH]) {
        self.memory().extend_from_slice(&entry);
    }

    /// Keeps the first `count` entries.
    pub(crate) fn truncate(&mut self, count: usize) {
        if count >= self.len() {
            return;
        }
        self.memory().truncate(count * LENGTH);
        if self.written > count * LENGTH {
            self.written = count * LENGTH;
            self.cut = true;
        }
    }

    /// Bytes that the file does not hold yet.
    pub(crate) fn unwritten(&self) -> usize {
        self.as_bytes().len() - self.written
    }

    /// Makes the next write replace whatever the file holds.
    pub(crate) fn distrust_file(&mut self) {
        self.written = 0;
        self.cut = true;
    }

    /// Writes to the file what it lacks, and cuts what it has too much.
    pub(crate) fn write(
        &mut self,
        storage: &dyn Storage,
        path: &Path,
        sync: bool,
    ) -> io::Result<()> {
        let length = self.as_bytes().len();
        // An index without entries still gets its file: a missing one means "rebuild me".
        if self.written == length && !self.cut && !sync && length > 0 {
            return Ok(());
        }
        let mut file = storage.open(path, OpenMode::Create)?;
        if self.cut && is_shared(file.as_fd())? {
            // A fork of the broker may have mapped these bytes.
            storage.remove_file(path)?;
            self.written = 0;
            file = storage.open(path, OpenMode::Create)?;
        }
        if self.cut {
            file.set_len(self.written as u64)?;
            self.cut = false;
        }
        if self.written < length {
            let unwritten = &self.as_bytes()[self.written..];
            file.write_all_at(&mut [IoSlice::new(unwritten)], self.written as u64)?;
            self.written = length;
        }
        if sync { file.sync_data() } else { Ok(()) }
    }
}

/// How many of the leading `entries` satisfy `keep`, which holds for a prefix of them only.
fn prefix<const LENGTH: usize>(
    entries: &[[u8; LENGTH]],
    keep: impl Fn(&[u8; LENGTH]) -> bool,
) -> usize {
    entries.partition_point(keep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::RealStorage;

    #[test]
    fn an_index_of_a_page_takes_no_mapping() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("index");
        for (entries, is_mapped) in [(1, false), (512, false), (513, true)] {
            std::fs::write(&path, vec![7; 8 * entries]).expect("a write");
            let read = Entries::<8>::map(&RealStorage, &path).expect("an index");
            assert_eq!(read.len(), entries);
            assert_eq!(matches!(read.bytes, Bytes::Mapped(_)), is_mapped, "{entries} entries");
        }
    }
}
