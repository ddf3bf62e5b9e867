//! The note of a truncation: what makes the truncation of several files one step.
//!
//! `truncation-checkpoint` stands in the partition's directory. One line after the version:
//! ```text
//! STATE NEXT LOWEST START
//! keep | restart | done | offset of the next record | recovery point and high watermark, at most
//!                                                   | log start, at most; -1: no bound
//! ```
//! `keep` and `restart` are on the disk before anything else changes: the next start completes the
//! truncation. `done` is on the disk before the truncation is answered. `done` stays until the
//! checkpoints of the log directory are written again: older ones may name records that were cut.
//! The file is ours; Kafka has none.

use std::io;
use std::path::Path;

use kafkalite_protocol::types::Offset;

use crate::error::LogError;
use crate::storage::{Durability, Storage, read_file, replace_file};

/// In a partition's directory.
pub(crate) const TRUNCATION_FILE: &str = "truncation-checkpoint";

const VERSION: &str = "0";

/// Where a log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The offset that the next record gets: the base offset of a segment that begins there.
    pub(crate) next: Offset,
    /// Whether the records below `next` stay. If not, the log is empty afterwards.
    pub(crate) keeps: bool,
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TruncationNote {
    /// The last truncation.
    pub(crate) cut: Cut,
    /// Whether the files show the truncation already.
    pub(crate) is_done: bool,
    /// The lowest of the ends that the log was cut to since the checkpoints were written.
    pub(crate) lowest: Offset,
    /// The log start, if a truncation lowered it since the checkpoints were written.
    pub(crate) start: Option<Offset>,
}

impl TruncationNote {
    /// The note in the file; `None` if there is no file.
    ///
    /// # Errors
    /// `BadFile` if it does not read: the contents of the log are unknown then.
    pub(crate) fn read(storage: &dyn Storage, path: &Path) -> Result<Option<Self>, LogError> {
        let bytes = match read_file(storage, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| LogError::io(path, error))?,
        };
        let note = str::from_utf8(&bytes).ok().and_then(Self::parse);
        note.map(Some).ok_or_else(|| LogError::bad_file(path, "it is no note of a truncation"))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.strip_prefix(VERSION)?.strip_prefix('\n')?.strip_suffix('\n')?;
        let mut fields = line.split(' ');
        let (is_done, keeps) = match fields.next()? {
            "keep" => (false, true),
            "restart" => (false, false),
            "done" => (true, true),
            _ => return None,
        };
        let mut offset = || fields.next()?.parse().ok().map(Offset);
        let (next, lowest, start) = (offset()?, offset()?, offset()?);
        if fields.next().is_some() || next < Offset::ZERO || lowest < Offset::ZERO {
            return None;
        }
        let start = Some(start).filter(|start| *start >= Offset::ZERO);
        Some(Self { cut: Cut { next, keeps }, is_done, lowest, start })
    }

    /// Replaces the file. Its bytes are on the disk afterwards, its name when the caller has synced
    /// the directory.
    pub(crate) fn write(&self, storage: &dyn Storage, path: &Path) -> Result<(), LogError> {
        let state = match (self.is_done, self.cut.keeps) {
            (true, _) => "done",
            (false, true) => "keep",
            (false, false) => "restart",
        };
        let start = self.start.map_or(-1, |start| start.0);
        let text = format!("{VERSION}\n{state} {} {} {start}\n", self.cut.next.0, self.lowest.0);
        let written = replace_file(storage, path, text.as_bytes(), Durability::DiskWithDirectory);
        written.map_err(|error| LogError::io(path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_as_it_was_written_and_nothing_else_reads() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join(TRUNCATION_FILE);
        let storage = crate::storage::RealStorage;
        assert_eq!(TruncationNote::read(&storage, &path).expect("no file"), None);
        for (is_done, keeps, start) in
            [(false, true, None), (false, false, Some(Offset(3))), (true, true, None)]
        {
            let cut = Cut { next: Offset(7), keeps };
            let note = TruncationNote { cut, is_done, lowest: Offset(5), start };
            note.write(&storage, &path).expect("a write");
            assert_eq!(TruncationNote::read(&storage, &path).expect("a note"), Some(note));
        }
        for text in ["", "0\n", "1\ndone 1 1 -1\n", "0\ndone 1 1 -1", "0\nkeep -1 1 -1\n"] {
            std::fs::write(&path, text).expect("a write");
            let read = TruncationNote::read(&storage, &path);
            assert!(matches!(read, Err(LogError::BadFile { .. })), "{text:?}");
        }
    }
}
