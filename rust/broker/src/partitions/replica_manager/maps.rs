//! The partitions by id, name and key, and what was counted of each topic.

use crate::metadata::TopicImage;
use crate::partitions::partition::{Partition, Totals};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One partition of a topic.
#[derive(Clone)]
pub(super) enum Slot {
    Here(Arc<Partition>),
    /// Its replica is here, and its log does not open for now.
    Unopened,
    /// This broker has no replica of it.
    Elsewhere,
}

impl Slot {
    pub(super) fn partition(&self) -> Option<&Arc<Partition>> {
        match self {
            Self::Here(partition) => Some(partition),
            Self::Unopened | Self::Elsewhere => None,
        }
    }
}

/// A topic that the image has.
pub(super) struct Topic {
    pub image: Arc<TopicImage>,
    pub partitions: Vec<Slot>,
    /// What partitions counted that are closed by now: a counter never goes back.
    closed: Totals,
}

impl Topic {
    pub(super) fn new(image: Arc<TopicImage>, partitions: Vec<Slot>) -> Self {
        Self { image, partitions, closed: Totals::default() }
    }

    fn at(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let place = usize::try_from(index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
        match self.partitions.get(place) {
            Some(Slot::Here(partition)) => Ok(partition.clone()),
            Some(Slot::Unopened) => Err(ErrorCode::KafkaStorageError),
            Some(Slot::Elsewhere) => Err(ErrorCode::NotLeaderOrFollower),
            None => Err(ErrorCode::UnknownTopicOrPartition),
        }
    }

    pub(super) fn here(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.iter().filter_map(Slot::partition)
    }

    fn traffic(&self) -> Totals {
        self.here().fold(self.closed, |sum, partition| sum + partition.traffic().totals())
    }
}

#[derive(Default)]
pub(super) struct Maps {
    pub by_id: HashMap<Uuid, Topic>,
    pub by_key: BTreeMap<u64, Arc<Partition>>,
    ids: HashMap<Arc<str>, Uuid>,
    /// What topics counted that are deleted by now.
    deleted: Totals,
}

impl Maps {
    /// The partition of the topic with this id; errors as those of `ReplicaManager::find`.
    pub(super) fn by_id(&self, id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.by_id.get(&id).ok_or(ErrorCode::UnknownTopicId)?.at(index)
    }

    /// The partition of the topic of this name.
    pub(super) fn by_name(&self, name: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topic = self.ids.get(name).and_then(|id| self.by_id.get(id));
        topic.ok_or(ErrorCode::UnknownTopicOrPartition)?.at(index)
    }

    /// Puts a topic in the place of what was known of it.
    pub(super) fn insert(&mut self, mut topic: Topic) {
        if let Some(before) = self.take(topic.image.id) {
            let places = before.partitions.iter().zip(&topic.partitions);
            let closed = places.filter(|(_, after)| after.partition().is_none());
            let closed = closed.filter_map(|(before, _)| before.partition());
            topic.closed = closed.fold(before.closed, |sum, one| sum + one.traffic().totals());
        }
        self.ids.insert(topic.image.name.clone(), topic.image.id);
        self.by_key.extend(topic.here().map(|partition| (partition.key(), partition.clone())));
        self.by_id.insert(topic.image.id, topic);
    }

    /// Takes out a topic that is deleted.
    pub(super) fn remove(&mut self, id: Uuid) -> Option<Topic> {
        let topic = self.take(id)?;
        self.deleted = self.deleted + topic.traffic();
        Some(topic)
    }

    fn take(&mut self, id: Uuid) -> Option<Topic> {
        let topic = self.by_id.remove(&id)?;
        self.ids.remove(&topic.image.name);
        for partition in topic.here() {
            self.by_key.remove(&partition.key());
        }
        Some(topic)
    }

    /// Takes a partition out whose log is about to be opened again.
    pub(super) fn take_out(&mut self, id: Uuid, index: i32) {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(topic) = self.by_id.get_mut(&id) else { return };
        let Some(slot) = topic.partitions.get_mut(place) else { return };
        if let Slot::Here(partition) = std::mem::replace(slot, Slot::Unopened) {
            topic.closed = topic.closed + partition.traffic().totals();
            self.by_key.remove(&partition.key());
        }
    }

    /// Puts a partition in its place, if its topic is still there.
    pub(super) fn put(&mut self, id: Uuid, place: usize, slot: Slot) {
        let Some(topic) = self.by_id.get_mut(&id) else { return };
        let Some(there) = topic.partitions.get_mut(place) else { return };
        self.by_key.extend(slot.partition().map(|made| (made.key(), made.clone())));
        *there = slot;
    }

    /// What was counted of a topic here.
    pub(super) fn traffic_of(&self, topic: Uuid) -> Totals {
        self.by_id.get(&topic).map(Topic::traffic).unwrap_or_default()
    }

    /// What was counted of all topics, also of those that are gone.
    pub(super) fn traffic(&self) -> Totals {
        self.by_id.values().fold(self.deleted, |sum, topic| sum + topic.traffic())
    }
}
