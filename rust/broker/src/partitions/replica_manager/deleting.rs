//! What becomes of partitions that are deleted, or lose their replica on this broker: renamed at
//! once, removed after a delay.
//!
//! A directory belongs to the topic whose id stands in it, whatever it is called. A killed broker
//! may leave a directory that it could not rename. The next start finds it, because its topic is
//! not in the image or has no replica here. If the metadata log says that the topic was removed,
//! the directory is deleted then. Any other directory is put aside as a stray and never served,
//! because it may hold records that are still needed.
//! Source: Kafka's `LogManager.asyncDelete`, `deleteLogs` and `isStrayKraftReplica`.

use super::moving::FUTURE;
use super::opening::Unopened;
use super::{ReplicaManager, Slot, Topic};
use crate::metadata::{MetadataImage, TopicImage};
use crate::partitions::checkpoints::Checkpoint;
use crate::partitions::log_dirs::{DELETED, LogDirectory, is_partition_name};
use kafkalite_log::checkpoint::read_topic_id;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::Uuid;
use std::path::PathBuf;
use std::sync::Arc;

/// How long after a failed attempt a directory's files are removed again, in ms.
const RETRY_MS: u64 = 60_000;

/// The directory of a deleted partition.
pub(super) struct Deleted {
    /// When its files go, in ms of monotonic time.
    due_ms: u64,
    path: PathBuf,
    storage: Arc<dyn Storage>,
}

/// A partition that has no replica on this broker any more.
pub(super) struct Removed {
    /// The topic as it is now.
    pub topic: Arc<TopicImage>,
    pub index: i32,
    /// What there was of the replica.
    pub slot: Slot,
}

impl ReplicaManager {
    pub(super) fn delete(&self, topic: &Topic) {
        self.forget_unassigned(topic.image.id);
        for (index, slot) in (0..).zip(&topic.partitions) {
            if let Slot::Here(partition) = slot {
                partition.vanish();
            }
            self.delete_log(&topic.image, index, slot);
        }
    }

    /// Closes and deletes replicas that the image took away from this broker. Requests that name
    /// these partitions find none of them any more.
    pub(super) fn remove_replicas(&self, removed: &[Removed]) {
        if removed.is_empty() {
            return;
        }
        for Removed { topic, index, slot } in removed {
            tracing::info!(topic = %topic.name, partition = index, "replica is removed from here");
            if let (Some(image), Slot::Here(partition)) = (topic.partition(*index), slot) {
                partition.leave(image);
            }
        }
        // First: a checkpoint that names a partition without a directory says that it was lost.
        self.forget_deleted(&Checkpoint::OF_REPLICAS);
        for Removed { topic, index, slot } in removed {
            self.delete_log(topic, *index, slot);
        }
    }

    /// Deletes the log of a partition that serves no client any more.
    fn delete_log(&self, topic: &TopicImage, index: i32, slot: &Slot) {
        match slot {
            Slot::Here(partition) => {
                self.end_move(topic.id, index);
                let log_dir = partition.log().log_dir();
                let dir = self.dirs.directory(&log_dir);
                let name = dir.free_name(&format!("{}-{index}", topic.name), topic.id, DELETED);
                let delay_ms = partition.log_config().file_delete_delay_ms;
                self.dirs.count(&log_dir, false);
                match partition.log().rename_and_close(&name) {
                    Ok(path) => {
                        let delay_ms = u64::try_from(delay_ms).unwrap_or(0);
                        self.remove_later(path.to_path_buf(), log_dir.storage(), delay_ms);
                    }
                    Err(error) => tracing::error!(log = name, %error, "log is not deleted"),
                }
            }
            Slot::Unopened => self.delete_unopened(topic, index),
            Slot::Elsewhere => {}
        }
    }

    /// Deletes what there is of a partition whose log did not open.
    fn delete_unopened(&self, topic: &TopicImage, index: i32) {
        let id = topic.id;
        let _: Option<Unopened> = self.unopened.lock().remove(&(id, index));
        let name = format!("{}-{index}", topic.name);
        for dir in self.dirs.iter().filter(|dir| !dir.log_dir().is_offline()) {
            let path = dir.path().join(&name);
            let stored = || read_topic_id(dir.log_dir().storage().as_ref(), &path);
            // One that cannot be read would have been this partition's, had it opened.
            if path.is_dir() && stored().map_or(true, |stored| stored.is_none_or(|it| it == id)) {
                self.delete_directory(dir, &name, id);
            }
        }
    }

    /// Renames a directory and has its files removed, soon.
    fn delete_directory(&self, dir: &LogDirectory, name: &str, id: Uuid) {
        match dir.rename(name, id, DELETED) {
            Ok(path) => self.remove_later(path, dir.log_dir().storage(), 0),
            Err(error) => tracing::error!(log = name, %error, "log is not deleted"),
        }
    }

    pub(super) fn remove_later(&self, path: PathBuf, storage: &Arc<dyn Storage>, delay_ms: u64) {
        let due_ms = self.config.clock.monotonic_ms().saturating_add(delay_ms);
        let storage = storage.clone();
        self.deleted.lock().push(Deleted { due_ms, path, storage });
        self.look_at_deadlines();
    }

    /// Takes deleted partitions out of checkpoints, as Kafka does: other programs read them.
    pub(super) fn forget_deleted(&self, checkpoints: &[Checkpoint]) {
        for which in checkpoints {
            if let Err(error) = self.checkpoint(*which) {
                tracing::error!(%error, "checkpoints still name deleted partitions");
            }
        }
    }

    /// When files of a deleted partition are to be removed next, in ms of monotonic time.
    pub fn next_removal_ms(&self) -> Option<u64> {
        self.deleted.lock().iter().map(|deleted| deleted.due_ms).min()
    }

    /// Removes the files of partitions that were deleted long enough ago.
    pub fn remove_deleted(&self) {
        let now_ms = self.config.clock.monotonic_ms();
        let due: Vec<Deleted> = {
            let mut deleted = self.deleted.lock();
            let (due, later) = deleted.drain(..).partition(|one| one.due_ms <= now_ms);
            *deleted = later;
            due
        };
        for Deleted { path, storage, .. } in due {
            match storage.remove_dir_all(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "deleted log is not removed");
                    self.remove_later(path, &storage, RETRY_MS);
                }
            }
        }
    }

    /// Goes on with the deletions of an earlier run. Puts directories aside that have the name of a
    /// partition and belong to no topic of the image.
    pub(super) fn clear_away(&self, dir: &LogDirectory, image: &MetadataImage) {
        let storage = dir.log_dir().storage();
        let Ok(entries) = storage.list(dir.path()) else { return };
        for name in entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name) {
            if name.ends_with(DELETED) {
                self.remove_later(dir.path().join(&name), storage, 0);
                continue;
            }
            if name.ends_with(FUTURE) {
                self.clear_future(dir, &name);
                continue;
            }
            if !is_partition_name(&name) {
                continue;
            }
            let path = dir.path().join(&name);
            let stored = match read_topic_id(storage.as_ref(), &path) {
                Ok(Some(stored)) => stored,
                // It has no topic id: it is left alone until a partition needs its name.
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(log = name, %error, "cannot read the topic id of the log");
                    continue;
                }
            };
            let topic = image.topic_by_id(stored);
            if topic.is_some_and(|topic| self.has_replica(topic, &name)) {
                continue;
            }
            if self.config.removed_topics.contains(&stored) {
                tracing::info!(log = name, topic_id = %stored, "topic was deleted, so is its log");
                self.delete_directory(dir, &name, stored);
            } else if let Err(error) = dir.put_aside(&name, &stored.to_string()) {
                tracing::error!(log = name, %error, "a stray log stays where it is");
            }
        }
    }

    /// Has who looks after the deadlines here look again: there may be a nearer one.
    pub(super) fn look_at_deadlines(&self) {
        if let Some(look) = self.on_deadline.get() {
            look();
        }
    }

    /// Has `look` called whenever [`Self::next_removal_ms`], [`Self::next_retry_ms`],
    /// [`Self::next_assignment_ms`] or [`Self::next_move_ms`] may have become earlier. Only the
    /// first `look` counts.
    pub fn on_deadline(&self, look: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_deadline.set(Box::new(look));
    }
}

impl ReplicaManager {
    /// Whether `name` is what a partition of this topic is called that has a replica here.
    fn has_replica(&self, topic: &TopicImage, name: &str) -> bool {
        let index = name.rsplit_once('-').filter(|(before, _)| **before == *topic.name);
        let index = index.and_then(|(_, index)| index.parse().ok());
        let partition = index.and_then(|index| topic.partition(index));
        partition.is_some_and(|partition| partition.replicas.contains(&self.config.local_id))
    }
}
