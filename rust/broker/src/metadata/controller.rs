//! The controller: takes a request for a change, decides what it means, and makes it so.
//!
//! Deciding is pure: functions of an image and a request, in the files beside this one; ids and
//! defaults are handed in. This file is the thin shell. It lets one change happen at a time, so
//! that what was decided from an image is committed on top of that image, and it tells the watchers
//! before the caller gets its answer: when CreateTopics answers, the partitions are there.
//! Source: the roles of Kafka's `QuorumController` and its `ReplicationControlManager`.

mod auto_creation;
mod configs;
mod names;
mod partitions;
mod placement;
mod rules;
mod topics;

use super::error::{ApiError, MetadataError};
use super::image::MetadataImage;
use super::metadata_log::MetadataLog;
use super::quorum::{MetadataQuorum, OnImage, QuorumOfOne};
use super::records::{
    ClusterRecord, ControllerEpochRecord, ListenerRecord, MetadataRecord, ProducerIdsRecord,
    RaiseLeaderEpochsRecord, RegisterBrokerRecord,
};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

pub use auto_creation::{OFFSETS_TOPIC, auto_topic};
pub use configs::{ConfigChange, ConfigOperation, ConfigRules, NoRules};
pub use names::invalid_topic_name;
pub use partitions::NewPartitions;
pub use placement::validate_assignment;
pub use rules::{TableRules, altered_config};
pub use topics::{
    CreatedTopic, MAX_PARTITIONS_PER_REQUEST, NewTopic, TopicDefaults, TopicName, excessive,
};

/// Producer ids of one block; as in Kafka.
pub const PRODUCER_ID_BLOCK_LEN: i64 = 1_000;

/// What the controller of a node needs to know of it.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// `broker.id`.
    pub node_id: i32,
    /// The data directory's cluster id, 22 characters.
    pub cluster_id: String,
    /// `DATA_DIR/__cluster_metadata-0`.
    pub dir: PathBuf,
    /// Where clients of each listener find this broker; one at least.
    pub listeners: Vec<ListenerRecord>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// The ids of the log directories that it has now.
    pub log_dirs: Vec<Uuid>,
    /// `min.insync.replicas`, for a cluster that has none yet.
    pub min_insync_replicas: i32,
}

/// Producer ids that are one broker's to give out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first of them.
    pub first: i64,
    /// How many there are.
    pub len: i64,
}

/// The active controller.
pub struct Controller {
    quorum: Box<dyn MetadataQuorum>,
    clock: Arc<dyn Clock>,
    /// Held while a change is decided, committed and told; guards those who are told.
    changing: Mutex<Vec<OnImage>>,
    removed_topics: HashSet<Uuid>,
}

impl Controller {
    /// Opens the metadata log and begins a new epoch in it: the broker is registered, and every
    /// partition that it leads gets a new leader epoch, before anybody is served.
    ///
    /// # Errors
    /// The log cannot be read or written, is damaged, or belongs to another cluster.
    pub fn open(
        options: ControllerOptions,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, MetadataError> {
        let (log, image) = MetadataLog::open(storage, &options.dir)?;
        let broker_id = options.node_id;
        let mut records = Vec::new();
        if image.offset < 0 {
            let record = ClusterRecord { cluster_id: options.cluster_id };
            records.push(MetadataRecord::Cluster(record));
        } else if *image.cluster_id != *options.cluster_id {
            let (expected, found) = (options.cluster_id, image.cluster_id.to_string());
            return Err(MetadataError::ClusterId { expected, found });
        }
        let epoch = image.epoch + 1;
        let record = ControllerEpochRecord { controller_id: broker_id, epoch };
        records.push(MetadataRecord::ControllerEpoch(record));
        // A directory is never forgotten: one that is away may hold partitions.
        let mut log_dirs = options.log_dirs;
        let known = image.brokers.get(&broker_id).map(|broker| broker.log_dirs.clone());
        log_dirs.extend(known.unwrap_or_default());
        log_dirs.sort();
        log_dirs.dedup();
        records.push(MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            epoch: -1,
            rack: options.rack,
            listeners: options.listeners,
            log_dirs,
        }));
        records.push(MetadataRecord::RaiseLeaderEpochs(RaiseLeaderEpochsRecord { broker_id }));
        let removed_topics = log.removed_topics().clone();
        records.extend(configs::safety_records(&image, broker_id, options.min_insync_replicas));
        let quorum = QuorumOfOne::new(broker_id, log, image);
        quorum.propose(records, clock.wall_ms())?;
        Ok(Self { removed_topics, ..Self::over(Box::new(quorum), clock) })
    }

    /// A controller over a quorum that it leads.
    pub fn over(quorum: Box<dyn MetadataQuorum>, clock: Arc<dyn Clock>) -> Self {
        let (changing, removed_topics) = (Mutex::new(Vec::new()), HashSet::new());
        Self { quorum, clock, changing, removed_topics }
    }

    /// Topics of which is known that they were removed before this start: not all of them, as a
    /// snapshot of the metadata log knows nothing of topics that are gone. What is left of these on
    /// the disk may be deleted.
    pub fn removed_topics(&self) -> &HashSet<Uuid> {
        &self.removed_topics
    }

    /// Tells `watcher` of every change from now on, beginning with one from the empty image to this
    /// one.
    pub fn watch(&self, watcher: OnImage) {
        let mut watchers = self.changing.lock();
        watcher(&Arc::default(), &self.quorum.image());
        watchers.push(watcher);
    }

    /// The newest image.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.quorum.image()
    }

    /// The quorum that keeps the metadata log.
    pub fn quorum(&self) -> &dyn MetadataQuorum {
        &*self.quorum
    }

    /// Makes topics; each is answered for itself. With `validate_only` nothing is made.
    pub fn create_topics(
        &self,
        topics: &[NewTopic],
        defaults: TopicDefaults,
        rules: &dyn ConfigRules,
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, ApiError>> {
        let ids = match random_ids(topics.len()) {
            Ok(ids) => ids,
            Err(error) => return vec![Err(error); topics.len()],
        };
        self.change(validate_only, topics.len(), |image| {
            topics::create_topics(image, topics, &ids, defaults, rules)
        })
    }

    /// Makes the topics of these names as Kafka does when a client asks for one that is not there;
    /// each is answered for itself. That one of them is there already is no error to the caller,
    /// who wanted it to be.
    pub fn create_automatically(
        &self,
        names: &[&str],
        config: &Arc<BrokerConfig>,
    ) -> Vec<Result<(), ApiError>> {
        let image = self.image();
        let rules = TableRules::new(Arc::clone(config));
        let asked: Vec<_> =
            names.iter().map(|name| auto_topic(name, rules.broker(), &image)).collect();
        // In one change: a stranger may ask for many, and each change waits for the disk.
        let topics: Vec<NewTopic> = asked.iter().flatten().cloned().collect();
        let defaults = TopicDefaults::of(rules.broker());
        let mut created = self.create_topics(&topics, defaults, &rules, false).into_iter();
        let answer = |asked: Option<NewTopic>| match asked.and_then(|_| created.next()) {
            None => Err(ErrorCode::UnknownTopicOrPartition.into()),
            Some(Err(error)) if error.code != ErrorCode::TopicAlreadyExists => Err(error),
            Some(_) => Ok(()),
        };
        asked.into_iter().map(answer).collect()
    }

    /// Deletes topics by name or id; each is answered for itself.
    pub fn delete_topics(&self, topics: &[TopicName]) -> Vec<Result<(String, Uuid), ApiError>> {
        self.change(false, topics.len(), |image| topics::delete_topics(image, topics))
    }

    /// Adds partitions to topics; each is answered for itself.
    pub fn create_partitions(
        &self,
        topics: &[NewPartitions],
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        self.change(validate_only, topics.len(), |image| {
            partitions::create_partitions(image, topics)
        })
    }

    /// Changes configs; each resource is answered for itself, and changed as a whole or not at all.
    pub fn alter_configs(
        &self,
        changes: &[ConfigChange],
        rules: &dyn ConfigRules,
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        self.change(validate_only, changes.len(), |image| {
            configs::alter_configs(image, changes, rules)
        })
    }

    /// Gives `broker_id` a block of producer ids that are all greater than `above`, which its logs
    /// hold; it is on the disk before this returns.
    ///
    /// # Errors
    /// There are none left, or the metadata log cannot be written.
    pub fn allocate_producer_ids(
        &self,
        broker_id: i32,
        above: i64,
    ) -> Result<ProducerIdBlock, ApiError> {
        let mut answers = self.change(false, 1, |image| {
            let first = image.next_producer_id.max(above.saturating_add(1));
            let Some(next_producer_id) = first.checked_add(PRODUCER_ID_BLOCK_LEN) else {
                let message = "Exhausted all producerIds as the next block's end producerId has \
                               exceeded the int64 type limit";
                return (vec![], vec![Err(ApiError::new(ErrorCode::UnknownServerError, message))]);
            };
            let block = ProducerIdBlock { first, len: PRODUCER_ID_BLOCK_LEN };
            let record = ProducerIdsRecord { broker_id, next_producer_id };
            (vec![MetadataRecord::ProducerIds(record)], vec![Ok(block)])
        });
        answers.pop().unwrap_or_else(|| Err(ErrorCode::UnknownServerError.into()))
    }

    /// Decides, commits, tells, and answers. A change that cannot be committed is refused to all
    /// `count` of them.
    fn change<T>(
        &self,
        validate_only: bool,
        count: usize,
        decide: impl FnOnce(&MetadataImage) -> Decision<T>,
    ) -> Vec<Result<T, ApiError>> {
        let watchers = self.changing.lock();
        let before = self.quorum.image();
        let (records, answers) = decide(&before);
        if records.is_empty() || validate_only {
            return answers;
        }
        if let Err(error) = self.quorum.propose(records, self.clock.wall_ms()) {
            let error = ApiError::from(error);
            return (0..count).map(|_| Err(error.clone())).collect();
        }
        let after = self.quorum.image();
        for watcher in watchers.iter() {
            watcher(&before, &after);
        }
        answers
    }
}

/// The records to commit, and an answer to each item of the request.
type Decision<T> = (Vec<MetadataRecord>, Vec<Result<T, ApiError>>);

/// Draws topic ids. Kafka draws again for ids that begin with a dash, which a shell would take for
/// a flag.
fn random_ids(count: usize) -> Result<Vec<Uuid>, ApiError> {
    let draw = || loop {
        let mut bytes = [0_u8; 16];
        if getrandom::fill(&mut bytes).is_err() {
            return Err(ApiError::new(ErrorCode::UnknownServerError, "no randomness"));
        }
        let id = Uuid::from_random(bytes);
        if !id.to_string().starts_with('-') {
            return Ok(id);
        }
    };
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests;
