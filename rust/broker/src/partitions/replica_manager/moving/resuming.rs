//! Moves that did not come to their end: what they left is removed, and the next start begins them
//! again.

use super::ReplicaManager;
use crate::partitions::log_dirs::{DELETED, LogDirectory};
use kafkalite_log::checkpoint::read_topic_id;

impl ReplicaManager {
    /// A copy that an earlier run began: it goes, and is made again.
    pub(in super::super) fn clear_future(&self, dir: &LogDirectory, name: &str) {
        let storage = dir.log_dir().storage();
        let topic = read_topic_id(storage.as_ref(), &dir.path().join(name)).ok().flatten();
        // TOPIC-PARTITION.ID-future
        let of = name.rsplit_once('.').and_then(|(before, _)| before.rsplit_once('-'));
        let index = of.and_then(|(_, index)| index.parse::<i32>().ok());
        if let (Some(topic), Some(index)) = (topic, index) {
            self.moves.interrupted.lock().push(((topic, index), dir.id()));
        }
        match dir.rename(name, "copy", DELETED) {
            Ok(path) => self.remove_later(path, storage, 0),
            Err(error) => tracing::error!(log = name, %error, "the copy of a log is not deleted"),
        }
    }

    /// Begins the moves again that the last stop interrupted.
    pub(in super::super) fn resume_moves(&self) {
        self.remove_left();
        let interrupted = std::mem::take(&mut *self.moves.interrupted.lock());
        let _altering = self.moves.altering.lock();
        for ((topic, index), directory) in interrupted {
            let to = self.dirs.iter().position(|dir| dir.id() == directory);
            let (Ok(partition), Some(to)) = (self.find_by_id(topic, index), to) else { continue };
            if let Err(code) = self.move_partition(&partition, to) {
                let topic = partition.topic();
                tracing::error!(code = code.name(), topic, index, "a move is not resumed");
            }
        }
    }

    /// Has the directories removed that were found to be left behind.
    pub(in super::super) fn remove_left(&self) {
        for (path, log_dir) in self.dirs.take_left() {
            self.remove_later(path, log_dir.storage(), 0);
        }
    }

    /// A move could not begin: the next start must not go on with it.
    pub(super) fn clear_begun(&self, dir: &LogDirectory, name: &str) {
        let path = dir.path().join(name);
        if !path.is_dir() {
            return;
        }
        let cleared = dir.rename(name, "copy", DELETED).unwrap_or_else(|error| {
            tracing::warn!(log = name, %error, "a copy that was begun keeps its name");
            path
        });
        self.remove_later(cleared, dir.log_dir().storage(), 0);
    }
}
