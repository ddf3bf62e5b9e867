//! The immutable picture that the metadata log adds up to.
//!
//! The same records in the same order always give the same image. It may come from the log at a
//! start, from live batches, or from a snapshot and the log behind it. A copy shares everything
//! with the original (`SharedMap`, `Arc`), so each change makes a new image and readers keep the
//! one they took.
//! Source: the role of Kafka's `MetadataImage`.

mod assignment;
mod brokers;

pub use assignment::{Assignment, UNASSIGNED};
pub use brokers::{BrokerImage, Voting};

use super::error::MetadataError;
use super::records::{
    ConfigResource, ConfigResourceType, CreateTopicRecord, MetadataRecord, PartitionRecord,
    RecordsBatch, SetConfigRecord,
};
use super::shared_map::SharedMap;
use kafkalite_protocol::{LeaderEpoch, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Topics that belong to the broker; clients may read them and must not write them.
pub const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Kafka's name for the metadata log, which has the directory that a topic of this name would get:
/// no such topic may be created.
pub const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// A set of configs: key with dots -> value as it was set.
pub type Configs = BTreeMap<String, String>;

/// All metadata at one offset of the metadata log.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    /// 22 characters of URL-safe base64; empty only before the first record.
    pub cluster_id: Arc<str>,
    /// The last record in it; -1 before the first.
    pub offset: i64,
    /// The epoch of the controller that wrote that record.
    pub epoch: i32,
    /// The broker id of the active controller; -1 is none.
    pub controller_id: i32,
    /// By broker id.
    pub brokers: Arc<BTreeMap<i32, BrokerImage>>,
    /// All topics.
    pub topics: TopicsImage,
    /// Configs set at run time on brokers, the cluster default and groups. A topic's are in its
    /// [`TopicImage`].
    pub configs: Arc<BTreeMap<ConfigResource, Configs>>,
    /// The first producer id that is in no block.
    pub next_producer_id: i64,
    /// Finalized features and their levels.
    pub features: Arc<BTreeMap<String, i16>>,
}

/// All topics, found by name and by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicsImage {
    by_name: SharedMap<Arc<str>, Arc<TopicImage>>,
    /// Names, not topics: a topic that is held once is changed in place while a batch of records is
    /// applied.
    by_id: SharedMap<Uuid, Arc<str>>,
    /// Partitions of all topics together.
    partition_count: usize,
}

/// A topic before and after a change; `None` where there was none of that name.
pub type TopicChange<'a> = (Option<&'a Arc<TopicImage>>, Option<&'a Arc<TopicImage>>);

/// A topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicImage {
    /// 1 to 249 characters.
    pub name: Arc<str>,
    /// Never zero, never given twice.
    pub id: Uuid,
    /// Partition 0, 1, ...
    pub partitions: Vec<PartitionImage>,
    /// What was set; keys that are absent have their defaults.
    pub configs: Arc<Configs>,
    /// Whether it is one of [`INTERNAL_TOPICS`].
    pub internal: bool,
}

/// A partition: who leads it and who follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// The leader's broker id; -1 is none.
    pub leader: i32,
    /// The leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Raised at each change of the partition.
    pub partition_epoch: i32,
    /// Broker ids; the first is the preferred leader.
    pub replicas: Vec<i32>,
    /// The in-sync ones among them.
    pub isr: Vec<i32>,
    /// The log directory of each replica, in the order of `replicas`; see
    /// [`PartitionImage::assignment`].
    pub directories: Vec<Uuid>,
    /// Replicas outside the ISR that may still lead (KIP-966).
    pub elr: Vec<i32>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Vec<i32>,
    /// Replicas that a reassignment removes.
    pub removing_replicas: Vec<i32>,
    /// Who led last, while no broker leads; -1 is none.
    pub last_leader: i32,
}

impl Default for MetadataImage {
    /// The image before the first record.
    fn default() -> Self {
        Self {
            cluster_id: Arc::from(""),
            offset: -1,
            epoch: 0,
            controller_id: -1,
            brokers: Arc::default(),
            topics: TopicsImage::default(),
            configs: Arc::default(),
            next_producer_id: 0,
            features: Arc::default(),
        }
    }
}

impl PartitionImage {
    /// Whether it lacks an in-sync replica. One that a reassignment adds is not missed yet
    /// (KIP-352), but counts as soon as it is in sync.
    /// Source: Kafka's `Partition.isUnderReplicated` and `OngoingReassignmentState`.
    pub fn is_under_replicated(&self) -> bool {
        let is_wanted = |replica: &&i32| !self.adding_replicas.contains(replica);
        self.isr.len() < self.replicas.iter().filter(is_wanted).count()
    }
}

impl MetadataImage {
    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.by_name(name)
    }

    /// The topic with this id.
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<TopicImage>> {
        self.topics.by_id(id)
    }

    /// A partition of a topic, if both exist.
    pub fn partition(&self, topic: &str, index: i32) -> Option<&PartitionImage> {
        self.topic(topic)?.partition(index)
    }

    /// The configs set on a resource.
    pub fn configs_of(&self, resource: &ConfigResource) -> Option<&Configs> {
        self.configs.get(resource)
    }

    /// Gives a resource these configs in place of all that it has; nothing happens to a topic that
    /// is not there.
    pub fn replace_configs(&mut self, resource: &ConfigResource, configs: Configs) {
        if resource.resource_type == ConfigResourceType::Topic {
            self.topics.replace_configs(&resource.name, configs);
        } else {
            let all = Arc::make_mut(&mut self.configs);
            all.remove(resource);
            if !configs.is_empty() {
                all.insert(resource.clone(), configs);
            }
        }
    }

    /// The image after `batch`.
    ///
    /// # Errors
    /// A record that does not fit the image, as a log that was written by the controller never
    /// holds.
    pub fn with_batch(&self, batch: &RecordsBatch) -> Result<Self, MetadataError> {
        let mut next = self.clone();
        for (offset, record) in (batch.base_offset..).zip(&batch.records) {
            next.apply(offset, record)
                .map_err(|reason| MetadataError::Replay { offset, reason })?;
            next.offset = offset;
        }
        next.epoch = batch.epoch;
        Ok(next)
    }

    fn apply(&mut self, offset: i64, record: &MetadataRecord) -> Result<(), String> {
        match record {
            MetadataRecord::Cluster(record) => {
                self.cluster_id = Arc::from(record.cluster_id.as_str());
            }
            MetadataRecord::ControllerEpoch(record) => {
                self.controller_id = record.controller_id;
                self.epoch = record.epoch;
            }
            MetadataRecord::RegisterBroker(record) => self.register(offset, record)?,
            MetadataRecord::UnregisterBroker(record) => {
                self.unregister(record.broker_id, record.epoch)?;
            }
            MetadataRecord::FenceBroker(record) => {
                self.fence(record.broker_id, record.epoch, true)?;
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.fence(record.broker_id, record.epoch, false)?;
            }
            MetadataRecord::SetVoting(record) => self.set_voting(record)?,
            MetadataRecord::RaiseLeaderEpochs(record) => {
                self.topics.raise_leader_epochs(record.broker_id)?;
            }
            MetadataRecord::CreateTopic(record) => self.topics.create(record)?,
            MetadataRecord::CreatePartitions(record) => {
                self.topics.create_partitions(record.topic_id, &record.partitions)?;
            }
            MetadataRecord::PartitionChange(record) => {
                let (id, index) = (record.topic_id, record.partition_index);
                self.topics.change(id, index, &record.partition)?;
            }
            MetadataRecord::AssignReplicas(record) => self.topics.assign(record)?,
            MetadataRecord::RemoveTopic(record) => self.topics.remove(record.topic_id)?,
            MetadataRecord::SetConfig(record) => self.set_config(record)?,
            MetadataRecord::ProducerIds(record) => {
                self.next_producer_id = record.next_producer_id;
            }
            MetadataRecord::FeatureLevel(record) => {
                let features = Arc::make_mut(&mut self.features);
                if record.level == 0 {
                    features.remove(&record.name);
                } else {
                    features.insert(record.name.clone(), record.level);
                }
            }
        }
        Ok(())
    }

    fn set_config(&mut self, record: &SetConfigRecord) -> Result<(), String> {
        let SetConfigRecord { resource_type, resource_name, name, value } = record;
        let value = value.as_deref();
        let resource_type = ConfigResourceType::from_code(*resource_type)
            .ok_or_else(|| format!("no kind of resource has the number {resource_type}"))?;
        if resource_type == ConfigResourceType::Topic {
            return self.topics.set_config(resource_name, name, value);
        }
        let resource = ConfigResource { resource_type, name: resource_name.clone() };
        let all = Arc::make_mut(&mut self.configs);
        let configs = all.entry(resource.clone()).or_default();
        set(configs, name, value);
        if configs.is_empty() {
            all.remove(&resource);
        }
        Ok(())
    }
}

fn set(configs: &mut Configs, name: &str, value: Option<&str>) {
    match value {
        Some(value) => configs.insert(name.to_owned(), value.to_owned()),
        None => configs.remove(name),
    };
}

impl TopicsImage {
    /// How many topics there are.
    pub const fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Partitions of all topics together.
    pub const fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_name.get(name)
    }

    /// The topic with this id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<TopicImage>> {
        self.by_name.get(self.by_id.get(&id)?)
    }

    /// Every topic, by rising name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.values()
    }

    /// Every topic whose name is `name` or greater, by rising name.
    pub fn iter_from(&self, name: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.iter_from(name).map(|(_, topic)| topic)
    }

    /// Every topic that is another in `after`, by rising name: as it is here and as it is there. A
    /// name whose topic was deleted and made again between the two comes once, with two ids.
    pub fn changes<'a>(&'a self, after: &'a Self) -> Vec<TopicChange<'a>> {
        self.by_name.differences(&after.by_name, Arc::ptr_eq)
    }

    /// The topics that are here and not in `after`; one of the same name may be.
    pub fn deleted_in<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = &'a Arc<TopicImage>> {
        let before = self.changes(after).into_iter().filter_map(|(before, _)| before);
        before.filter(|topic| after.by_id.get(&topic.id).is_none())
    }

    fn create(&mut self, record: &CreateTopicRecord) -> Result<(), String> {
        let CreateTopicRecord { name, topic_id: id, partitions, configs } = record;
        if self.by_name.get(name.as_str()).is_some() || self.by_id.get(id).is_some() {
            return Err(format!("topic {name} ({id}) exists already"));
        }
        let internal = INTERNAL_TOPICS.contains(&name.as_str());
        let name: Arc<str> = Arc::from(name.as_str());
        let configs = configs.iter().map(|one| (one.name.clone(), one.value.clone()));
        let topic = TopicImage {
            name: Arc::clone(&name),
            id: *id,
            partitions: images(partitions)?,
            configs: Arc::new(configs.collect()),
            internal,
        };
        self.partition_count += topic.partitions.len();
        self.by_id.insert(*id, Arc::clone(&name));
        self.by_name.insert(name, Arc::new(topic));
        Ok(())
    }

    fn create_partitions(&mut self, id: Uuid, more: &[PartitionRecord]) -> Result<(), String> {
        let topic = self.by_id_mut(id)?;
        topic.partitions.extend(images(more)?);
        self.partition_count += more.len();
        Ok(())
    }

    fn change(&mut self, id: Uuid, index: i32, to: &PartitionRecord) -> Result<(), String> {
        let topic = self.by_id_mut(id)?;
        let partition = usize::try_from(index).ok().and_then(|at| topic.partitions.get_mut(at));
        let partition = partition.ok_or_else(|| format!("topic {id} has no partition {index}"))?;
        *partition = to.try_into()?;
        Ok(())
    }

    fn remove(&mut self, id: Uuid) -> Result<(), String> {
        let name = self.by_id.remove(&id).ok_or_else(|| format!("no topic has id {id}"))?;
        let topic = self.by_name.remove(&name);
        self.partition_count -= topic.map_or(0, |topic| topic.partitions.len());
        Ok(())
    }

    fn set_config(&mut self, topic: &str, name: &str, value: Option<&str>) -> Result<(), String> {
        let topic =
            self.by_name.get_mut(topic).ok_or_else(|| format!("no topic is named {topic}"))?;
        set(Arc::make_mut(&mut Arc::make_mut(topic).configs), name, value);
        Ok(())
    }

    fn replace_configs(&mut self, name: &str, configs: Configs) {
        if let Some(topic) = self.by_name.get_mut(name) {
            Arc::make_mut(topic).configs = Arc::new(configs);
        }
    }

    fn raise_leader_epochs(&mut self, broker_id: i32) -> Result<(), String> {
        let leads =
            |topic: &Arc<TopicImage>| topic.partitions.iter().any(|p| p.leader == broker_id);
        let ids: Vec<Uuid> = self.iter().filter(|topic| leads(topic)).map(|t| t.id).collect();
        for id in ids {
            for partition in &mut self.by_id_mut(id)?.partitions {
                if partition.leader == broker_id {
                    partition.leader_epoch.0 += 1;
                    partition.partition_epoch += 1;
                }
            }
        }
        Ok(())
    }

    fn by_id_mut(&mut self, id: Uuid) -> Result<&mut TopicImage, String> {
        let topic = self.by_id.get(&id).and_then(|name| self.by_name.get_mut(name));
        topic.map(Arc::make_mut).ok_or_else(|| format!("no topic has id {id}"))
    }
}

impl TopicImage {
    /// The partition of this number, if there is one.
    pub fn partition(&self, index: i32) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// How many partitions it has.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }
}

fn images(records: &[PartitionRecord]) -> Result<Vec<PartitionImage>, String> {
    records.iter().map(PartitionImage::try_from).collect()
}

impl TryFrom<&PartitionRecord> for PartitionImage {
    type Error = String;

    fn try_from(record: &PartitionRecord) -> Result<Self, String> {
        let (replicas, directories) = (record.replicas.len(), record.directories.len());
        if directories != 0 && directories != replicas {
            return Err(format!("{replicas} replicas in {directories} directories"));
        }
        Ok(Self {
            leader: record.leader,
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: record.partition_epoch,
            replicas: record.replicas.clone(),
            isr: record.isr.clone(),
            directories: record.directories.clone(),
            elr: record.elr.clone(),
            adding_replicas: record.adding_replicas.clone(),
            removing_replicas: record.removing_replicas.clone(),
            last_leader: record.last_leader,
        })
    }
}

impl From<&PartitionImage> for PartitionRecord {
    fn from(image: &PartitionImage) -> Self {
        Self {
            replicas: image.replicas.clone(),
            isr: image.isr.clone(),
            directories: image.directories.clone(),
            leader: image.leader,
            leader_epoch: image.leader_epoch.0,
            partition_epoch: image.partition_epoch,
            elr: image.elr.clone(),
            adding_replicas: image.adding_replicas.clone(),
            removing_replicas: image.removing_replicas.clone(),
            last_leader: image.last_leader,
        }
    }
}

#[cfg(test)]
mod tests;
