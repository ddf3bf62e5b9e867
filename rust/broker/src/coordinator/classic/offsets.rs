//! The offsets of one group. Pure.
//!
//! An offset has two versions until its record is committed: reads get the committed version,
//! decisions use the newest. So a tombstone is never decided from an offset that a later commit
//! replaces.
//!
//! Offsets stand under a topic's name, as in Kafka's records, and a name may be given again. What
//! was committed for another topic of the name is not there for who asks, and goes.
//! Source: Kafka's `OffsetMetadataManager` and `OffsetExpirationConditionImpl`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::{Offset, Uuid};

use super::group_state::{GroupState, State};

/// A partition of a topic, by name.
pub type TopicPartition = (String, i32);

/// A committed offset, and where its record lies: a record of a transaction counts by its own
/// place, not by that of the marker.
#[derive(Debug)]
struct Stored {
    value: OffsetCommitValue,
    at: Offset,
}

/// Records of one partition that are not committed yet, oldest first; `None` is a tombstone.
type Uncommitted = VecDeque<(Offset, Option<OffsetCommitValue>)>;

/// Whether an offset was committed for the topic that has its name now, whose id is `id`. Records
/// in Kafka's older versions do not say for which.
pub fn is_current(value: &OffsetCommitValue, id: Option<Uuid>) -> bool {
    value.topic_id.is_zero() || Some(value.topic_id) == id
}

/// Offsets by topic and partition.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    topics: BTreeMap<String, BTreeMap<i32, Stored>>,
    uncommitted: HashMap<TopicPartition, Uncommitted>,
}

impl GroupOffsets {
    /// Whether nothing is committed, nor on its way.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.uncommitted.is_empty()
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

    /// A committed record at `at`: an offset, or a tombstone.
    pub fn store(
        &mut self,
        topic: &str,
        partition: i32,
        at: Offset,
        value: Option<OffsetCommitValue>,
    ) {
        let there = self.topics.get(topic).and_then(|partitions| partitions.get(&partition));
        if there.is_some_and(|there| there.at > at) {
            return;
        }
        if let Some(value) = value {
            let partitions = self.topics.entry(topic.to_owned()).or_default();
            partitions.insert(partition, Stored { value, at });
        } else if let Some(partitions) = self.topics.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// A record at `at` that is in the log and not committed yet.
    pub fn add_uncommitted(
        &mut self,
        topic: &str,
        partition: i32,
        at: Offset,
        value: Option<OffsetCommitValue>,
    ) {
        let records = self.uncommitted.entry((topic.to_owned(), partition)).or_default();
        records.push_back((at, value));
    }

    /// The records of a partition up to the one at `at` are committed.
    pub fn commit(&mut self, topic: &str, partition: i32, at: Offset) {
        let key = (topic.to_owned(), partition);
        let Some(mut records) = self.uncommitted.remove(&key) else { return };
        while records.front().is_some_and(|(place, _)| *place <= at) {
            if let Some((place, value)) = records.pop_front() {
                self.store(topic, partition, place, value);
            }
        }
        if !records.is_empty() {
            self.uncommitted.insert(key, records);
        }
    }

    /// The newest offset of a partition, committed or not; `None` if that is a tombstone.
    pub fn newest_of(&self, topic: &str, partition: i32) -> Option<&OffsetCommitValue> {
        match self.uncommitted.get(&(topic.to_owned(), partition)).and_then(VecDeque::back) {
            Some((_, newest)) => newest.as_ref(),
            None => self.get(topic, partition),
        }
    }

    /// The newest offset of each partition, committed or not. One whose tombstone is on its way is
    /// not there.
    fn newest(&self) -> impl Iterator<Item = (&str, i32, &OffsetCommitValue)> {
        let committed = self.topics.iter().flat_map(|(topic, partitions)| {
            let all = partitions.iter();
            all.map(move |(index, stored)| (topic.as_str(), *index, &stored.value))
        });
        let committed = committed.filter(|(topic, index, _)| {
            // Nearly always nothing is on its way: then no key is built.
            let uncommitted = &self.uncommitted;
            uncommitted.is_empty() || !uncommitted.contains_key(&((*topic).to_owned(), *index))
        });
        let uncommitted = self.uncommitted.iter().filter_map(|((topic, index), records)| {
            let (_, newest) = records.back()?;
            Some((topic.as_str(), *index, newest.as_ref()?))
        });
        committed.chain(uncommitted)
    }

    /// The partitions for which `is_meant` holds, in the order of topics and numbers. It gets the
    /// topic, the number and the newest offset.
    pub fn of(
        &self,
        is_meant: impl Fn(&str, i32, &OffsetCommitValue) -> bool,
    ) -> Vec<TopicPartition> {
        let meant = self.newest().filter(|(topic, index, value)| is_meant(topic, *index, value));
        let mut meant: Vec<TopicPartition> =
            meant.map(|(topic, index, _)| (topic.to_owned(), index)).collect();
        meant.sort();
        meant
    }

    /// As [`Self::of`], below these topics only: a topic is looked up, whatever else there is.
    pub fn of_topics<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a str>,
        is_meant: impl Fn(&str, &OffsetCommitValue) -> bool,
    ) -> Vec<TopicPartition> {
        let mut meant = Vec::new();
        for topic in topics {
            let committed = self.topics.get(topic).into_iter().flat_map(BTreeMap::keys);
            let uncommitted = self.uncommitted.keys().filter(|(name, _)| name == topic);
            let all = committed.chain(uncommitted.map(|(_, index)| index));
            let all: BTreeSet<i32> = all.copied().collect();
            let is_meant = |index: &i32| {
                self.newest_of(topic, *index).is_some_and(|value| is_meant(topic, value))
            };
            let all = all.into_iter().filter(is_meant);
            meant.extend(all.map(|index| (topic.to_owned(), index)));
        }
        meant
    }

    /// The offsets that were committed for a topic that its name is no longer given to; `id_of`
    /// says which topic has a name now.
    pub fn former(&self, id_of: impl Fn(&str) -> Option<Uuid>) -> Vec<TopicPartition> {
        self.of(|topic, _, value| !is_current(value, id_of(topic)))
    }

    /// The offsets whose time is over, and whether none would be left.
    ///
    /// - a group that only stores offsets: since each commit
    /// - an empty group: since it became empty (old records do not say when: since the commit)
    /// - a stable group of consumers: since the commit, for topics that no member reads any more
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
        let mut all = self.uncommitted.is_empty();
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
                if is_over && !self.uncommitted.contains_key(&key) {
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
