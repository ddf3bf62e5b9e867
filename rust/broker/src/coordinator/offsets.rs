//! The committed offsets of one group. Pure.
//!
//! An offset shows up when its record is committed, not before. While it is on its way the
//! partition counts as pending, and nothing that was decided without knowing it removes it.
//!
//! Offsets stand under a topic's name, as in Kafka's records, and a name may be given again. What
//! was committed for another topic of the name is not there for who asks, and goes.
//! Source: Kafka's `OffsetMetadataManager` and `OffsetExpirationConditionImpl`.

use std::collections::{BTreeMap, HashMap};

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::{Offset, Uuid};

use super::group_state::{GroupState, State};

/// A partition of a topic, by name.
pub type TopicPartition = (String, i32);

/// A committed offset, and where its record lies: a later record counts more, in whatever order
/// the log's answers come in.
#[derive(Debug)]
struct Stored {
    value: OffsetCommitValue,
    at: Offset,
}

/// Commits of one partition that are on their way.
#[derive(Debug, Default)]
struct Pending {
    count: usize,
    /// Where a tombstone was stored meanwhile.
    removed_at: Option<Offset>,
}

/// Whether an offset was committed for the topic that has its name now, whose id is `id`. Records
/// in Kafka's older versions do not say for which.
pub fn is_current(value: &OffsetCommitValue, id: Option<Uuid>) -> bool {
    value.topic_id.is_zero() || Some(value.topic_id) == id
}

/// Offsets by topic and partition.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    topics: BTreeMap<String, BTreeMap<i32, Stored>>,
    pending: HashMap<TopicPartition, Pending>,
}

impl GroupOffsets {
    /// Whether nothing is committed, nor on its way.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.pending.is_empty()
    }

    /// The committed offset of a partition.
    pub fn get(&self, topic: &str, partition: i32) -> Option<&OffsetCommitValue> {
        self.topics.get(topic)?.get(&partition).map(|stored| &stored.value)
    }

    /// All committed offsets, topic by topic.
    pub fn topics(
        &self,
    ) -> impl Iterator<Item = (&String, impl Iterator<Item = (i32, &OffsetCommitValue)>)> {
        self.topics.iter().map(|(topic, partitions)| {
            (topic, partitions.iter().map(|(index, stored)| (*index, &stored.value)))
        })
    }

    /// A commit is on its way.
    pub fn begin(&mut self, topic: &str, partition: i32) {
        self.pending.entry((topic.to_owned(), partition)).or_default().count += 1;
    }

    /// That commit is stored, or could not be.
    pub fn end(
        &mut self,
        topic: &str,
        partition: i32,
        stored: Option<(Offset, OffsetCommitValue)>,
    ) {
        let key = (topic.to_owned(), partition);
        let mut removed_at = None;
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.count -= 1;
            removed_at = pending.removed_at;
            if pending.count == 0 {
                self.pending.remove(&key);
            }
        }
        if let Some((at, value)) = stored
            && removed_at.is_none_or(|removed_at| at > removed_at)
        {
            self.insert(topic, partition, at, value);
        }
    }

    /// A commit stored at `at`.
    pub fn insert(&mut self, topic: &str, partition: i32, at: Offset, value: OffsetCommitValue) {
        let partitions = self.topics.entry(topic.to_owned()).or_default();
        if partitions.get(&partition).is_none_or(|there| there.at <= at) {
            partitions.insert(partition, Stored { value, at });
        }
    }

    /// A tombstone stored at `at`.
    pub fn remove(&mut self, topic: &str, partition: i32, at: Offset) {
        if let Some(pending) = self.pending.get_mut(&(topic.to_owned(), partition)) {
            pending.removed_at = pending.removed_at.max(Some(at));
        }
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        if partitions.get(&partition).is_some_and(|there| there.at <= at) {
            partitions.remove(&partition);
        }
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// Everything that is committed or on its way, for who deletes the group.
    pub fn all(&self) -> Vec<TopicPartition> {
        let committed = self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.keys().map(move |partition| (topic.clone(), *partition))
        });
        let mut all: Vec<TopicPartition> = committed.chain(self.pending.keys().cloned()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// What is committed or on its way for topics of which `is_gone` holds.
    pub fn of_topics(&self, is_gone: impl Fn(&str) -> bool) -> Vec<TopicPartition> {
        self.all().into_iter().filter(|(topic, _)| is_gone(topic)).collect()
    }

    /// The offsets that were committed for a topic that its name is no longer given to; `id_of`
    /// says which topic has a name now. Not those of partitions with a commit on its way, which a
    /// tombstone would remove as well.
    pub fn former(&self, id_of: impl Fn(&str) -> Option<Uuid>) -> Vec<TopicPartition> {
        let mut former = Vec::new();
        for (topic, partitions) in &self.topics {
            let id = id_of(topic);
            let gone = partitions.iter().filter(|(_, stored)| !is_current(&stored.value, id));
            let gone = gone.map(|(partition, _)| (topic.clone(), *partition));
            former.extend(gone.filter(|key| !self.pending.contains_key(key)));
        }
        former
    }

    /// The offsets whose time is over, and whether none would be left.
    ///
    /// - a group that only stores offsets: since each commit
    /// - an empty group: since it became empty (old records do not say when: since the commit)
    /// - a stable group of consumers: since the commit, for topics that nobody reads any more
    /// - any other group: nothing expires
    pub fn expired(
        &self,
        group: &GroupState,
        now_wall_ms: i64,
        retention_ms: i64,
    ) -> (Vec<TopicPartition>, bool) {
        let empty_since_ms = match (group.protocol_type(), group.state()) {
            (None, _) => None,
            (Some(_), State::Empty) => group.state_timestamp_ms(),
            (Some(_), State::Stable)
                if group.is_consumer_group() && group.subscribed_topics().is_some() =>
            {
                None
            }
            _ => return (Vec::new(), self.is_empty()),
        };
        let mut expired = Vec::new();
        let mut all = self.pending.is_empty();
        for (topic, partitions) in &self.topics {
            if group.is_subscribed_to(topic) {
                all = false;
                continue;
            }
            for (partition, Stored { value, .. }) in partitions {
                let since_ms = empty_since_ms.unwrap_or(value.commit_timestamp);
                let is_over = match value.expire_timestamp {
                    -1 => now_wall_ms.saturating_sub(since_ms) >= retention_ms,
                    expire_ms => now_wall_ms >= expire_ms,
                };
                let key = (topic.clone(), *partition);
                if is_over && !self.pending.contains_key(&key) {
                    expired.push(key);
                } else {
                    all = false;
                }
            }
        }
        (expired, all)
    }
}

#[cfg(test)]
mod tests;
