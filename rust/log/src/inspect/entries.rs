//! What a segment's indexes hold, as they lie on the disk.

use std::path::{Path, PathBuf};

use kafkalite_protocol::types::{Offset, Position};

use crate::error::LogError;
use crate::index::offset_index::OffsetIndex;
use crate::index::time_index::TimeIndex;
use crate::recovery::offset_in_name;
use crate::segment::{INDEX_SUFFIX, TIME_INDEX_SUFFIX};
use crate::storage::{OpenMode, RealStorage, Storage, StorageFile, read_full};

/// Bytes read at once, whole entries of either index.
const PIECE_BYTES: usize = 24 * 2_048;

/// Some entries of one index file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexEntries {
    /// The last offset of a batch, and where that batch starts in the `.log`.
    Offsets(Vec<(Offset, Position)>),
    /// A time in ms, and the offset up to which nothing is later.
    Times(Vec<(i64, Offset)>),
}

/// Reads up to `most` entries of an `.index` or a `.timeindex`, after the first `first` entries.
/// Offsets are those of the log, not of the segment. Fewer come only at the end.
///
/// # Errors
/// The file cannot be read, or its name is that of no index.
pub fn index_entries(path: &Path, first: u64, most: usize) -> Result<IndexEntries, LogError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let absolute = |base: Offset, relative: u32| Offset(base.0.saturating_add(relative.into()));
    if let Some(base) = offset_in_name(name, INDEX_SUFFIX) {
        let mut found = Entries::open(path, first, OffsetIndex::decode)?;
        let entry = |(relative, position)| (absolute(base, relative), position);
        let entries = found.by_ref().take(most).map(entry).collect();
        return found.finish().map(|()| IndexEntries::Offsets(entries));
    }
    if let Some(base) = offset_in_name(name, TIME_INDEX_SUFFIX) {
        let mut found = Entries::open(path, first, TimeIndex::decode)?;
        let entry = |(time_ms, relative)| (time_ms, absolute(base, relative));
        let entries = found.by_ref().take(most).map(entry).collect();
        return found.finish().map(|()| IndexEntries::Times(entries));
    }
    let why = format!("neither {INDEX_SUFFIX} nor {TIME_INDEX_SUFFIX}");
    Err(LogError::bad_file(path, why))
}

/// An index's entries up to the first that is all zeros: what is preallocated is none. The file is
/// read in pieces: a sparse one may claim any length.
pub(super) struct Entries<const LENGTH: usize, T> {
    path: PathBuf,
    /// `None` at the end, or after a failure.
    file: Option<Box<dyn StorageFile>>,
    position: u64,
    piece: Vec<u8>,
    taken: usize,
    decode: fn(&[u8; LENGTH]) -> T,
    failure: Option<LogError>,
}

impl<const LENGTH: usize, T> Entries<LENGTH, T> {
    /// Those after the `first` of the file.
    pub(super) fn open(
        path: &Path,
        first: u64,
        decode: fn(&[u8; LENGTH]) -> T,
    ) -> Result<Self, LogError> {
        let file = RealStorage.open(path, OpenMode::Read);
        let file = file.map_err(|error| LogError::io(path, error))?;
        let position = first.saturating_mul(LENGTH as u64);
        Ok(Self { file: Some(file), position, ..Self::none(path, decode) })
    }

    /// No entries.
    pub(super) fn none(path: &Path, decode: fn(&[u8; LENGTH]) -> T) -> Self {
        let (path, piece) = (path.to_owned(), Vec::new());
        Self { path, file: None, position: 0, piece, taken: 0, decode, failure: None }
    }

    /// Whether everything could be read.
    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Reads the next piece, if there is one.
    fn fill(&mut self) {
        let Some(file) = &self.file else { return };
        self.piece.resize(PIECE_BYTES, 0);
        self.taken = 0;
        match read_full(file.as_ref(), &mut self.piece, self.position) {
            Ok(read) => {
                self.piece.truncate(read);
                self.position += read as u64;
            }
            Err(error) => {
                self.piece.clear();
                self.failure = Some(LogError::io(&self.path, error));
            }
        }
    }
}

impl<const LENGTH: usize, T> Iterator for Entries<LENGTH, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.taken + LENGTH > self.piece.len() {
            self.fill();
        }
        let entry = self.piece.get(self.taken..)?.first_chunk::<LENGTH>();
        let Some(entry) = entry.filter(|entry| entry.iter().any(|byte| *byte != 0)) else {
            self.file = None;
            self.piece.clear();
            return None;
        };
        self.taken += LENGTH;
        Some((self.decode)(entry))
    }
}
