//! What the checkpoint files of one directory say, and whose entries they are. Pure: the files are
//! read and written elsewhere.

use super::{Checkpoint, Entry};
use kafkalite_log::checkpoint::{CheckpointTopics, PartitionOffsets};
use kafkalite_protocol::{Offset, Uuid};
use std::collections::HashMap;

/// The contents of all checkpoint files of a directory.
#[derive(Clone, Debug)]
pub struct Noted {
    pub(super) offsets: HashMap<Checkpoint, PartitionOffsets>,
    /// `None` if they were written by a release that did not note them.
    pub(super) topics: Option<CheckpointTopics>,
}

impl Default for Noted {
    /// The files of a new directory.
    fn default() -> Self {
        Self { offsets: HashMap::new(), topics: Some(CheckpointTopics::new()) }
    }
}

/// The name of the owner of a topic's entries in one of the files.
pub(super) fn guard(which: Checkpoint, topic: &str) -> (String, String) {
    (which.file().to_owned(), topic.to_owned())
}

/// One of the files, and whose its entries are.
pub(super) fn contents(
    which: Checkpoint,
    entries: &[Entry],
) -> (PartitionOffsets, CheckpointTopics) {
    let key = |entry: &Entry| (entry.topic.to_string(), entry.index);
    let offsets = entries.iter().map(|entry| (key(entry), entry.offset)).collect();
    let topics = entries.iter().map(|entry| (guard(which, &entry.topic), entry.topic_id));
    (offsets, topics.collect())
}

/// `before` with other owners of the entries of one file.
pub(super) fn with_those_of(
    which: Checkpoint,
    before: &CheckpointTopics,
    topics: CheckpointTopics,
) -> CheckpointTopics {
    let others = before.iter().filter(|((file, _), _)| file != which.file());
    others.map(|(name, id)| (name.clone(), *id)).chain(topics).collect()
}

impl Noted {
    /// What is noted of a partition of the topic with this name and id.
    #[must_use]
    pub fn noted(
        &self,
        which: Checkpoint,
        topic: &str,
        topic_id: Uuid,
        index: i32,
    ) -> Option<Offset> {
        let owner = self.topics.as_ref()?.get(&guard(which, topic))?;
        let offset = *self.offsets.get(&which)?.get(&(topic.to_owned(), index))?;
        (*owner == topic_id).then_some(offset)
    }

    /// Puts one entry into one of the files. Those of another topic of the name go: they count for
    /// nothing.
    pub(super) fn note(&mut self, which: Checkpoint, entry: &Entry) {
        let topics = self.topics.get_or_insert_default();
        let owner = topics.insert(guard(which, &entry.topic), entry.topic_id);
        let offsets = self.offsets.entry(which).or_default();
        if owner != Some(entry.topic_id) {
            offsets.retain(|(topic, _), _| **topic != *entry.topic);
        }
        offsets.insert((entry.topic.to_string(), entry.index), entry.offset);
    }

    /// Replaces one of the files, with the topics that its entries belong to.
    pub fn write(&mut self, which: Checkpoint, entries: &[Entry]) {
        let (offsets, topics) = contents(which, entries);
        self.offsets.insert(which, offsets);
        let before = self.topics.take().unwrap_or_default();
        self.topics = Some(with_those_of(which, &before, topics));
    }
}
