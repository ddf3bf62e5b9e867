//! All partitions with a replica on this broker, found by name or by id.
//!
//! The set follows the control plane's image. A partition opens when the image puts a replica on
//! this broker, and closes when the image takes the replica away. A new partition is open before
//! its creation is answered. A removed partition is taken out first and deleted afterwards, so that
//! no request finds half a partition.
//! Source: the role of Kafka's `ReplicaManager` and `LogManager`.

use super::checkpoints::Checkpoint;
use super::group_commit::GroupCommit;
use super::log_dirs::LogDirs;
use super::partition::{KnownBrokers, Partition, PartitionIdentity, Totals};
use super::producer_ids::ProducerIdsSeen;
use super::throttles::Throttles;
use super::topic_settings::TopicSettings;
use crate::clock::Clock;
use crate::fetch_sessions::TopicRef;
use crate::metadata::{MetadataImage, TopicImage};
use crate::purgatory::Purgatory;
use kafkalite_log::{CommitLog, LogDir};
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

mod assigning;
mod deleting;
mod flushing;
mod in_sync;
mod maps;
mod moving;
mod noting;
mod opening;
mod throttling;

use assigning::Unassigned;
use deleting::{Deleted, Removed};
use in_sync::IsrProposals;
pub use in_sync::PartitionProposal;
use maps::{Maps, Slot, Topic};
pub use moving::FutureReplica;
use moving::Moves;
use opening::{Opened, Unopened};
use throttling::configure;

/// What the set needs from above.
pub struct ReplicaManagerConfig {
    /// This broker's id.
    pub local_id: i32,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Turns a topic's overrides into the settings of its partitions.
    pub settings: Box<dyn Fn(&TopicImage) -> TopicSettings + Send + Sync>,
    /// Where fetches wait.
    pub fetches: Arc<Purgatory>,
    /// Where produces wait.
    pub produces: Arc<Purgatory>,
    /// `num.recovery.threads.per.data.dir`
    pub recovery_threads: usize,
    /// Most threads that open or close logs; one where the order of all steps counts.
    pub max_threads: usize,
    /// `replica.lag.time.max.ms`
    pub max_lag_ms: u64,
    /// Topics of which the metadata log tells that they were removed before this start.
    pub removed_topics: HashSet<Uuid>,
}

type OnIsrProposals = Box<dyn Fn(Vec<PartitionProposal>) + Send + Sync>;

/// The partitions of this broker.
pub struct ReplicaManager {
    config: ReplicaManagerConfig,
    dirs: LogDirs,
    committer: Arc<GroupCommit>,
    brokers: Arc<KnownBrokers>,
    throttles: Throttles,
    maps: RwLock<Maps>,
    next_key: AtomicU64,
    /// Held while the image is followed, or a log is opened again: one topic is not deleted while
    /// its log is opened.
    following: Mutex<()>,
    /// Directories of deleted partitions.
    deleted: Mutex<Vec<Deleted>>,
    /// Logs that did not open, by topic and partition.
    unopened: Mutex<BTreeMap<(Uuid, i32), Unopened>>,
    /// Replicas whose log directory the metadata do not name yet.
    unassigned: Mutex<Unassigned>,
    /// Has their directories noted; see [`ReplicaManager::on_unassigned`].
    on_unassigned: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Changes of in-sync replicas that the leaders here want.
    isr_proposals: Mutex<IsrProposals>,
    /// Proposes them; see [`ReplicaManager::on_isr_proposals`].
    on_isr_proposals: OnceLock<OnIsrProposals>,
    /// Some partition here has, or had, a replica on another broker.
    any_followers: AtomicBool,
    /// Called with deadlines; see [`ReplicaManager::on_deadline`].
    on_deadline: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called when logs opened late; see [`ReplicaManager::on_opened`].
    on_opened: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// One at a time replaces the checkpoints, with what holds then.
    checkpointing: Mutex<()>,
    /// What the logs hold, shared with the partitions.
    producer_ids: Arc<ProducerIdsSeen>,
    /// Logs that are opened, until their topics are followed.
    opened: Mutex<Opened>,
    /// One new log at a time is given its directory.
    placing: Mutex<()>,
    /// Replicas on their way into other log directories of this broker.
    moves: Moves,
    /// When the flushes that failed are tried again, by the keys of their partitions.
    unflushed: Mutex<HashMap<u64, u64>>,
}

impl ReplicaManager {
    /// No partitions yet: the first image brings them.
    #[must_use]
    pub fn new(config: ReplicaManagerConfig, dirs: LogDirs) -> Self {
        Self {
            config,
            dirs,
            committer: GroupCommit::new(),
            brokers: Arc::default(),
            throttles: Throttles::default(),
            maps: RwLock::default(),
            next_key: AtomicU64::new(1),
            following: Mutex::default(),
            deleted: Mutex::default(),
            unopened: Mutex::default(),
            unassigned: Mutex::default(),
            on_unassigned: OnceLock::new(),
            isr_proposals: Mutex::default(),
            on_isr_proposals: OnceLock::new(),
            any_followers: AtomicBool::new(false),
            on_deadline: OnceLock::new(),
            on_opened: OnceLock::new(),
            checkpointing: Mutex::default(),
            producer_ids: Arc::default(),
            opened: Mutex::default(),
            placing: Mutex::default(),
            moves: Moves::default(),
            unflushed: Mutex::default(),
        }
    }

    /// The producer ids that the logs here hold. A log whose files were copied here holds ids that
    /// this cluster never gave out.
    #[must_use]
    pub fn producer_ids(&self) -> &ProducerIdsSeen {
        &self.producer_ids
    }

    /// Who puts logs on the disk.
    #[must_use]
    pub fn committer(&self) -> &Arc<GroupCommit> {
        &self.committer
    }

    /// The partition with this key.
    #[must_use]
    pub fn by_key(&self, key: u64) -> Option<Arc<Partition>> {
        self.maps.read().by_key.get(&key).cloned()
    }

    /// The partition that a request names.
    ///
    /// # Errors
    /// - `UnknownTopicOrPartition`, or `UnknownTopicId` where topics go by id: there is none
    /// - `NotLeaderOrFollower`: this broker has no replica of it
    /// - `KafkaStorageError`: its log does not open
    pub fn find(&self, topic: &TopicRef, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        match topic {
            TopicRef::Id(id) => self.find_by_id(*id, index),
            TopicRef::Name(name) => self.find_by_name(name, index),
        }
    }

    /// The partition of the topic with this id.
    ///
    /// # Errors
    /// As [`ReplicaManager::find`].
    pub fn find_by_id(&self, id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.maps.read().by_id(id, index)
    }

    /// The partition of the topic of this name.
    ///
    /// # Errors
    /// As [`ReplicaManager::find`].
    pub fn find_by_name(&self, name: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.maps.read().by_name(name, index)
    }

    /// Every partition, in the order in which they opened.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Partition>> {
        let maps = self.maps.read();
        maps.by_key.values().cloned().collect()
    }

    /// What was counted of a topic here, with what replicas counted that left since.
    #[must_use]
    pub fn traffic_of(&self, topic: Uuid) -> Totals {
        self.maps.read().traffic_of(topic)
    }

    /// The same of all topics, with those that were deleted since.
    #[must_use]
    pub fn traffic(&self) -> Totals {
        self.maps.read().traffic()
    }

    /// The directories that hold them.
    #[must_use]
    pub fn dirs(&self) -> &LogDirs {
        &self.dirs
    }

    /// Checks again all requests that wait at partitions of a directory whose disk failed.
    pub fn tell_everyone_in(&self, log_dir: &Arc<LogDir>) {
        let is_there = |one: &Arc<Partition>| Arc::ptr_eq(&one.log().log_dir(), log_dir);
        self.all().into_iter().filter(is_there).for_each(|partition| partition.tell_everyone());
        // Replicas that just moved there go back.
        self.look_at_moves();
    }

    /// Follows the image from `before`, which was followed last, to `after`: looks at what changed
    /// between them. One call at a time; the controller's commits are serial.
    pub fn follow_image(&self, before: &MetadataImage, after: &MetadataImage) {
        let others_serve = self.brokers.follow_image(after);
        if self.follow_changes(before, after) {
            self.propose_assignments();
        }
        if others_serve && self.any_followers.load(Ordering::Relaxed) {
            // One that is fenced now is waited for no more, and one that serves may join.
            self.look_at_followers();
        }
    }

    /// Whether replicas that were looked at wait to be assigned to their log directories.
    fn follow_changes(&self, before: &MetadataImage, after: &MetadataImage) -> bool {
        let _following = self.following.lock();
        let is_first = before.offset < 0;
        if is_first {
            self.open_existing(after);
        }
        let mut any_deleted = false;
        for gone in before.topics.deleted_in(&after.topics) {
            let topic = self.maps.write().remove(gone.id);
            topic.iter().for_each(|topic| self.delete(topic));
            any_deleted = true;
        }
        if any_deleted {
            self.forget_deleted(&[Checkpoint::RecoveryPoint, Checkpoint::LogStart]);
        }
        let changed = before.topics.changes(&after.topics);
        let changed: Vec<_> = changed.into_iter().filter_map(|(_, topic)| topic).collect();
        self.open_new(&changed);
        // New defaults count before the in-sync replicas that came with them.
        let any_default = before.configs != after.configs;
        let removed = changed.iter().flat_map(|topic| self.follow_topic(topic, any_default));
        let removed: Vec<_> = removed.collect();
        self.remove_replicas(&removed);
        if is_first {
            self.resume_moves();
        }
        self.look_at_moves();
        self.follow_unassigned(changed.iter().map(|topic| topic.id))
    }

    /// Works out every topic's settings again, because the broker's defaults changed.
    pub fn renew_settings(&self) {
        let _following = self.following.lock();
        let topics: Vec<(Arc<TopicImage>, Vec<Arc<Partition>>)> = {
            let maps = self.maps.read();
            let topics = maps.by_id.values();
            topics.map(|topic| (topic.image.clone(), topic.here().cloned().collect())).collect()
        };
        // Not under the lock of the maps: new settings wake requests, which look partitions up.
        for (image, here) in topics {
            let settings = (self.config.settings)(&image);
            for partition in here {
                configure(&partition, &settings);
            }
        }
    }

    /// Opens and follows the partitions of a topic. Returns those that lost their replica here, for
    /// [`Self::remove_replicas`]; no request finds them any more.
    fn follow_topic(&self, image: &Arc<TopicImage>, any_default: bool) -> Vec<Removed> {
        let (before, mut partitions) = {
            let maps = self.maps.read();
            match maps.by_id.get(&image.id) {
                Some(topic) => (Some(topic.image.clone()), topic.partitions.clone()),
                None => (None, Vec::new()),
            }
        };
        let settings = (self.config.settings)(image);
        if before.is_some_and(|before| any_default || before.configs != image.configs) {
            for partition in partitions.iter().filter_map(Slot::partition) {
                configure(partition, &settings);
            }
        }
        partitions.resize(image.partitions.len(), Slot::Elsewhere);
        let mut removed = Vec::new();
        for ((index, partition_image), slot) in (0..).zip(&image.partitions).zip(&mut partitions) {
            let is_here = partition_image.replicas.contains(&self.config.local_id);
            match (&slot, is_here) {
                (Slot::Elsewhere, true) => *slot = self.open(image, index, &settings),
                (Slot::Here(_) | Slot::Unopened, false) => {
                    let slot = std::mem::replace(slot, Slot::Elsewhere);
                    removed.push(Removed { topic: image.clone(), index, slot });
                }
                _ => {}
            }
            if let Some(partition) = slot.partition() {
                partition.follow_image(partition_image);
            }
            if is_here && partition_image.replicas.len() > 1 {
                self.notice_followers();
            }
        }
        self.maps.write().insert(Topic::new(image.clone(), partitions));
        removed
    }

    /// Partitions here have other replicas: from now on the log manager looks at which keep up.
    fn notice_followers(&self) {
        if !self.any_followers.swap(true, Ordering::Relaxed) {
            self.look_at_deadlines();
        }
    }

    fn partition(
        &self,
        topic: &TopicImage,
        index: i32,
        settings: &TopicSettings,
        log: Arc<CommitLog>,
    ) -> Partition {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let dir = self.dirs.directory(&log.log_dir());
        let identity = PartitionIdentity {
            key,
            topic: topic.name.clone(),
            topic_id: topic.id,
            index,
            directory: dir.id(),
            internal: topic.internal,
            fetch_waiters: self.config.fetches.new_list(),
            produce_waiters: self.config.produces.new_list(),
            committer: self.committer.clone(),
            brokers: Arc::clone(&self.brokers),
            max_lag_ms: self.config.max_lag_ms,
            producer_ids: Arc::clone(&self.producer_ids),
        };
        let noted =
            dir.checkpoints().noted(Checkpoint::HighWatermark, &topic.name, topic.id, index);
        let high_watermark = noted.unwrap_or_default();
        let partition = Partition::new(identity, self.config.local_id, log, high_watermark);
        configure(&partition, settings);
        partition
    }
}

#[cfg(test)]
mod tests;
