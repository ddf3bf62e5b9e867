//! Two notes in the directories of a partition that tell which of them counts, while it is moved
//! from one log directory into another.
//!
//! The copy that replaces the log has an `arrival-checkpoint` with the id of the move. The log that
//! it replaces has a `leaving-checkpoint` with the same id. A copy counts only where both say so:
//! the log takes its note back if the copy does not get its name, and goes on. One line after the
//! version: the id. The files are ours; Kafka has none.

use std::io::ErrorKind;
use std::path::Path;

use kafkalite_protocol::types::Uuid;

use crate::error::LogError;
use crate::storage::{Durability, Storage, read_file, replace_file};

const VERSION: &str = "0";

/// Which of the two notes is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveNote {
    /// A copy elsewhere may have taken the place of this directory.
    Leaving,
    /// This directory is such a copy.
    Arrival,
}

impl MoveNote {
    const fn file(self) -> &'static str {
        match self {
            Self::Leaving => "leaving-checkpoint",
            Self::Arrival => "arrival-checkpoint",
        }
    }

    /// The id of the move in the directory of a partition; `None` if there is no note.
    ///
    /// # Errors
    /// - `BadFile`: it does not read, and it is unknown which of two directories counts
    /// - the disk fails
    pub fn read(self, storage: &dyn Storage, partition: &Path) -> Result<Option<Uuid>, LogError> {
        let path = partition.join(self.file());
        let bytes = match read_file(storage, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io(path, error)),
        };
        let text = std::str::from_utf8(&bytes).ok();
        let id = text.and_then(|text| text.strip_prefix(VERSION)?.strip_prefix('\n'));
        let id = id.and_then(|id| Uuid::parse(id.strip_suffix('\n')?));
        id.map(Some).ok_or_else(|| LogError::bad_file(&path, "it is no note of a move"))
    }

    /// Writes the note; it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(self, storage: &dyn Storage, partition: &Path, id: Uuid) -> Result<(), LogError> {
        let path = partition.join(self.file());
        let text = format!("{VERSION}\n{id}\n");
        replace_file(storage, &path, text.as_bytes(), Durability::DiskWithDirectory)
            .map_err(|error| LogError::io(path, error))
    }

    /// Removes the note, if there is one; no power cut brings it back.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self, storage: &dyn Storage, partition: &Path) -> Result<(), LogError> {
        let path = partition.join(self.file());
        match storage.remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(|error| LogError::io(path, error))?,
        }
        storage.sync_dir(partition).map_err(|error| LogError::io(partition, error))
    }
}
