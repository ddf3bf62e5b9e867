//! The committed offsets of one group. Pure.
//!
//! An offset shows up when its record is committed, not before. While it is on its way the
//! partition counts as pending, and nothing that was decided without knowing it removes it.
//! Source: Kafka's `OffsetMetadataManager` and `OffsetExpirationConditionImpl`.

use std::collections::{BTreeMap, HashMap};

use kafkalite_protocol::messages::group_records::OffsetCommitValue;

use super::group_state::{GroupState, State};

/// A partition of a topic, by name.
pub type TopicPartition = (String, i32);

/// Offsets by topic and partition.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    topics: BTreeMap<String, BTreeMap<i32, OffsetCommitValue>>,
    /// How many commits of a partition are on their way.
    pending: HashMap<TopicPartition, usize>,
}

impl GroupOffsets {
    /// Whether nothing is committed, nor on its way.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.pending.is_empty()
    }

    /// The committed offset of a partition.
    pub fn get(&self, topic: &str, partition: i32) -> Option<&OffsetCommitValue> {
        self.topics.get(topic)?.get(&partition)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = (&String, &BTreeMap<i32, OffsetCommitValue>)> {
        self.topics.iter()
    }

    /// A commit is on its way.
    pub fn begin(&mut self, topic: &str, partition: i32) {
        *self.pending.entry((topic.to_owned(), partition)).or_default() += 1;
    }

    /// That commit is stored (`value`), or could not be.
    pub fn end(&mut self, topic: &str, partition: i32, value: Option<OffsetCommitValue>) {
        let key = (topic.to_owned(), partition);
        if let Some(count) = self.pending.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(&key);
            }
        }
        if let Some(value) = value {
            self.insert(topic, partition, value);
        }
    }

    /// A stored commit.
    pub fn insert(&mut self, topic: &str, partition: i32, value: OffsetCommitValue) {
        self.topics.entry(topic.to_owned()).or_default().insert(partition, value);
    }

    /// A stored tombstone.
    pub fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.topics.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.topics.remove(topic);
            }
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
            for (partition, value) in partitions {
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
