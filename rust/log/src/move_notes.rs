//! Two notes in the directories of a partition that tell which of them counts, while it is moved
//! from one log directory into another.
//!
//! The copy that replaces the log has an `arrival-checkpoint` with the id of the move. The log that
//! it replaces has a `leaving-checkpoint` with the same id. A copy counts only where both say so:
//! the log takes its note back if the copy does not get its name, and goes on.
//!
//! A note is an empty file, `leaving-checkpoint.ID`: it needs no room, and replicas leave full
//! disks. The files are ours; Kafka has none.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kafkalite_protocol::types::Uuid;

use crate::error::LogError;
use crate::storage::{OpenMode, Storage};

/// Which of the two notes is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveNote {
    /// A copy elsewhere may have taken the place of this directory.
    Leaving,
    /// This directory is such a copy.
    Arrival,
}

impl MoveNote {
    /// What the names of its files begin with; the id of the move follows.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Leaving => "leaving-checkpoint.",
            Self::Arrival => "arrival-checkpoint.",
        }
    }

    /// Where the note is in the directory of a partition, and what follows the prefix in its name.
    fn find(
        self,
        storage: &dyn Storage,
        partition: &Path,
    ) -> Result<Vec<(PathBuf, String)>, LogError> {
        let entries = match storage.list(partition) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(LogError::io(partition, error)),
        };
        let id = |name: &str| Some(name.strip_prefix(self.prefix())?.to_owned());
        let notes = entries.into_iter();
        Ok(notes.filter_map(|one| Some((partition.join(&one.name), id(&one.name)?))).collect())
    }

    /// The id of the move in the directory of a partition; `None` if there is no note.
    ///
    /// # Errors
    /// - `BadFile`: it has no id, or there are two: it is unknown which directory counts
    /// - the disk fails
    pub fn read(self, storage: &dyn Storage, partition: &Path) -> Result<Option<Uuid>, LogError> {
        let notes = self.find(storage, partition)?;
        let [(path, id)] = &notes[..] else {
            let Some((path, _)) = notes.first() else { return Ok(None) };
            return Err(LogError::bad_file(path, "there is another note of a move"));
        };
        let id = Uuid::parse(id);
        id.map(Some).ok_or_else(|| LogError::bad_file(path, "it is no note of a move"))
    }

    /// Writes the note in the place of any other; it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk fails, or has no room for a name.
    pub fn write(self, storage: &dyn Storage, partition: &Path, id: Uuid) -> Result<(), LogError> {
        let path = partition.join(format!("{}{id}", self.prefix()));
        if self.find(storage, partition)?.iter().any(|(other, _)| *other != path) {
            // On the disk before the next is made: a power cut must not leave two.
            self.remove(storage, partition)?;
        }
        let made = storage.open(&path, OpenMode::Create).and_then(|file| file.sync_data());
        made.map_err(|error| LogError::io(path, error))?;
        // The name says it all. A crash of the system must not take one of two notes.
        storage.sync_dir(partition).map_err(|error| LogError::io(partition, error))
    }

    /// Removes the note, if there is one; no power cut brings it back.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self, storage: &dyn Storage, partition: &Path) -> Result<(), LogError> {
        let notes = self.find(storage, partition)?;
        if notes.is_empty() {
            return Ok(());
        }
        for (path, _) in notes {
            match storage.remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(|error| LogError::io(path, error))?,
            }
        }
        storage.sync_dir(partition).map_err(|error| LogError::io(partition, error))
    }
}
