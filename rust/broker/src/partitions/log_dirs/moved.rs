//! Which directory of a replica counts that was being moved to another one when the broker stopped.
//!
//! ```text
//! leaving in A | arrival in B | the replica is
//! id           | the same id  | in B: A is removed
//! other, none  | id           | in A: B lacks what A got later, and nothing was acknowledged in B
//! ```
//! In the last case B is removed if the metadata note A. If they note B, the new disk failed before
//! its note came, and the replica went back to A. Then B is put aside.
//!
//! A may be away while the replica moves on from B to C, where no note names A. When A is back,
//! the metadata note C, which has no note of a move. A is put aside.
//!
//! What is served has no note that it is leaving: records that come from then on are nowhere else.
//! Where one of the two is away, the other may be the older one. One with a note of
//! a move counts if the metadata name it, or if the directory that they name is here and empty.

use super::{DELETED, LogDirectory, LogDirs, Place};
use crate::metadata::image::Assignment;
use kafkalite_log::move_notes::MoveNote;
use kafkalite_log::{LogDir, LogError};
use kafkalite_protocol::Uuid;
use std::path::PathBuf;
use std::sync::Arc;

impl LogDirs {
    /// Of several places of one partition those that a move did not leave behind.
    pub(super) fn without_moved<'a>(
        &self,
        found: Vec<Place<'a>>,
        name: &str,
        topic_id: Uuid,
        assigned: Assignment,
    ) -> Result<Vec<Place<'a>>, LogError> {
        let notes = |note: MoveNote| {
            let ids = found.iter().map(|place| place.directory.move_note(name, note));
            ids.collect::<Result<Vec<Option<Uuid>>, LogError>>()
        };
        let (leaving, arrival) = (notes(MoveNote::Leaving)?, notes(MoveNote::Arrival)?);
        let is_assigned = |place: &Place<'_>| assigned == Assignment::Directory(place.directory.id);
        let any_assigned = found.iter().any(is_assigned);
        let (mut served, mut any_stays, mut settled) = (false, false, false);
        for (place, (left, came)) in found.iter().zip(leaving.iter().zip(&arrival)) {
            let was_written = place.directory.was_written(name)?;
            let stays = left.is_none() && came.is_none() && was_written;
            served |= is_assigned(place) && was_written;
            any_stays |= stays;
            settled |= is_assigned(place) && stays;
        }
        let mut kept = Vec::new();
        for (place, (left, came)) in found.into_iter().zip(leaving.iter().zip(&arrival)) {
            let is_left = left.is_some() && arrival.contains(left);
            let is_void = came.is_some() && !leaving.contains(came);
            let is_other = any_assigned && !is_assigned(&place);
            let is_passed = left.is_some() && is_other && settled;
            if is_left || (is_void && is_other && served) {
                let path = place.directory.rename(name, topic_id, DELETED)?;
                self.left.lock().push((path, place.directory.log_dir().clone()));
            } else if is_passed || (is_void && (is_other || any_stays)) {
                place.directory.put_aside(name, "unused")?;
            } else {
                kept.push(place);
            }
        }
        Ok(kept)
    }

    /// Whether what is found in `directory` is the newest that there is of a replica that the
    /// metadata note elsewhere.
    pub(super) fn is_newest(
        &self,
        directory: &LogDirectory,
        name: &str,
        assigned: Assignment,
    ) -> Result<bool, LogError> {
        let is_noted = |one: &&LogDirectory| assigned == Assignment::Directory(one.id);
        let noted = self.here.iter().find(is_noted);
        if noted.is_some_and(|noted| !noted.log_dir().is_offline()) {
            return Ok(true);
        }
        let notes = [MoveNote::Leaving, MoveNote::Arrival];
        let notes = notes.map(|note| directory.move_note(name, note));
        Ok(notes.into_iter().collect::<Result<Vec<_>, LogError>>()?.iter().all(Option::is_none))
    }

    /// The partition is served from `directory` from here on.
    pub(super) fn settle_move(&self, directory: &LogDirectory, name: &str) -> Result<(), LogError> {
        let all_online = self.here.iter().all(|one| !one.log_dir().is_offline());
        let all_here = all_online && self.lost.is_empty() && !self.incomplete;
        let (storage, path) = (directory.log_dir().storage().as_ref(), directory.path().join(name));
        let notes = [(MoveNote::Leaving, true), (MoveNote::Arrival, all_here)];
        for (note, _) in notes.into_iter().filter(|(_, is_over)| *is_over) {
            let removed = note.remove(storage, &path);
            removed.map_err(|error| directory.log_dir().judge(error))?;
        }
        Ok(())
    }

    /// The directories that replicas left, once; their files are to be removed.
    pub(in crate::partitions) fn take_left(&self) -> Vec<(PathBuf, Arc<LogDir>)> {
        std::mem::take(&mut self.left.lock())
    }
}

impl LogDirectory {
    /// The id of the move in the directory `name` of a partition.
    fn move_note(&self, name: &str, note: MoveNote) -> Result<Option<Uuid>, LogError> {
        let read = note.read(self.log_dir().storage().as_ref(), &self.path().join(name));
        read.map_err(|error| self.log_dir().judge(error))
    }
}
