//! The controller: takes a request for a change, decides what it means, and makes it so.
//!
//! Deciding is pure: functions of an image and a request, in the files beside this one; ids and
//! defaults are handed in. This file is the thin shell. Each call returns at once. Its answer comes
//! through `done`, when the local image has the change and all followers of the image ran with it.
//! So when CreateTopics answers, the partitions are there. `changes.rs` lets one change happen at a
//! time, so that what was decided from an image is committed on top of that image.
//! Source: the roles of Kafka's `QuorumController` and its `ReplicationControlManager`.

mod auto_creation;
mod balance;
mod blocking;
mod brokers;
mod changes;
mod cluster;
mod configs;
mod directories;
mod done;
mod elections;
mod features;
mod in_sync;
mod names;
mod partitions;
mod placement;
mod reassignments;
mod rules;
mod topics;

use super::error::{ApiError, MetadataError};
use super::features::RECORD_VERSION;
use super::image::MetadataImage;
use super::metadata_log::MetadataLog;
use super::publisher::{OnImage, Publisher};
use super::quorum::{MetadataQuorum, Outcome, Proposal, QuorumOfOne, QuorumSwitch};
use super::records::{MetadataRecord, ProducerIdsRecord};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use changes::{Change, Changes};
use kafkalite_log::storage::Storage;
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak, mpsc};

pub use auto_creation::{OFFSETS_TOPIC, auto_topic};
pub use balance::Growth;
pub use blocking::Blocking;
pub use brokers::{Joined, Joining, Registration, fence, register};
pub(in crate::metadata) use changes::fitting;
pub use cluster::unclean_elections;
pub use configs::{ConfigChange, ConfigOperation, ConfigRules, NoRules};
pub use directories::{ReplicaDirectories, assign_replicas};
pub use done::{Bounds, Done};
pub use elections::{ElectionKind, Elections, Leaving, elect_leaders};
pub use features::{FeatureUpdate, UpgradeType};
pub use in_sync::{IsrChange, IsrMember, alter_partitions};
pub use names::invalid_topic_name;
pub use partitions::NewPartitions;
pub use reassignments::{Reassignment, reassign};
pub use rules::{TableRules, altered_config};
pub use topics::{
    CreatedTopic, MAX_PARTITIONS_PER_REQUEST, NewTopic, TopicDefaults, TopicName, delete_topics,
    excessive,
};

/// Producer ids of one block; as in Kafka.
pub const PRODUCER_ID_BLOCK_LEN: i64 = 1_000;

/// What the controller of a node needs to know of it.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The data directory's cluster id, 22 characters.
    pub cluster_id: String,
    /// `DATA_DIR/__cluster_metadata-0`.
    pub dir: PathBuf,
    /// This broker, as it registers.
    pub broker: Registration,
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

/// Gets the answers to a request, one for each of its items, in their order.
pub type OnAnswers<T> = Done<Vec<Result<T, ApiError>>>;

/// Gets the answer to a request of one item.
pub type OnAnswer<T> = Done<Result<T, ApiError>>;

/// The active controller.
pub struct Controller {
    quorum: Arc<QuorumSwitch>,
    publisher: Arc<Publisher>,
    changes: Arc<Changes>,
    draw_id: DrawId,
    /// `None` when they were taken: they are asked for once.
    removed_topics: Arc<Mutex<Option<HashSet<Uuid>>>>,
}

/// Draws the id of a new topic, which no other topic has or had.
pub type DrawId = Box<dyn Fn() -> Result<Uuid, ApiError> + Send + Sync>;

/// The records to commit, and an answer to each item of the request.
pub type Decision<T> = (Vec<MetadataRecord>, Vec<Result<T, ApiError>>);

impl Controller {
    /// Opens the metadata log and begins a new epoch in it. The broker is registered, and every
    /// partition that it leads gets a new leader epoch, before any client is served.
    ///
    /// # Errors
    /// The log cannot be read or written, is damaged, or belongs to another cluster.
    pub fn open(
        options: ControllerOptions,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, MetadataError> {
        let (log, image) = MetadataLog::open(storage, &options.dir)?;
        if image.offset >= 0 && *image.cluster_id != *options.cluster_id {
            let (expected, found) = (options.cluster_id, image.cluster_id.to_string());
            return Err(MetadataError::ClusterId { expected, found });
        }
        let removed_topics = log.removed_topics().clone();
        let (dir, node_id) = (options.dir.clone(), options.broker.broker_id);
        // A new log has the newest records from the first one on.
        let level = match image.offset {
            ..0 => options.broker.supported.levels(RECORD_VERSION).max,
            _ => image.record_version(),
        };
        let records = fitting(&image, brokers::first_records(&image, options))?;
        // The quorum hands batches to the publisher and gets images from it. One reference of this
        // circle is weak.
        let heard: Arc<OnceLock<Weak<QuorumOfOne>>> = Arc::default();
        let told = Arc::clone(&heard);
        let swapped = move |image: &Arc<MetadataImage>| {
            if let Some(quorum) = told.get().and_then(Weak::upgrade) {
                quorum.published(image);
            }
        };
        let publisher = Publisher::start(image.clone(), swapped).map_err(no_thread(&dir))?;
        let publisher = Arc::new(publisher);
        let quorum = Arc::new(QuorumOfOne::new(node_id, log, &image, Arc::clone(&publisher)));
        heard.get_or_init(|| Arc::downgrade(&quorum));
        let (expected, timestamp_ms) = (image.offset, clock.wall_ms());
        let controller = Self::over(quorum, publisher, clock, Box::new(random_id));
        *controller.removed_topics.lock() = Some(removed_topics);
        let proposal = Proposal { records, expected, level, timestamp_ms, term: None };
        controller.commit(proposal)?;
        Ok(controller)
    }

    /// A controller over a quorum that it leads, and the publisher of what is committed there.
    pub fn over(
        quorum: Arc<dyn MetadataQuorum>,
        publisher: Arc<Publisher>,
        clock: Arc<dyn Clock>,
        draw_id: DrawId,
    ) -> Self {
        let quorum = QuorumSwitch::new(quorum);
        let proposes_to: Arc<dyn MetadataQuorum> = quorum.clone();
        let changes = Changes::new(clock, proposes_to, Arc::clone(&publisher));
        Self { quorum, publisher, changes, draw_id, removed_topics: Arc::default() }
    }

    /// Waits until a proposal is published. For a start, when there are no other proposals.
    fn commit(&self, proposal: Proposal) -> Result<(), MetadataError> {
        let stopped = |_| MetadataError::Offline { reason: "its thread has ended".to_owned() };
        let (ended, outcome) = mpsc::sync_channel(1);
        let done = move |outcome| _ = ended.send(outcome);
        self.quorum.propose(proposal, Box::new(done));
        let offset = match outcome.recv().map_err(stopped)? {
            Outcome::Committed(offset) => offset,
            Outcome::Rejected(error) | Outcome::Unknown(error) => return Err(error),
        };
        let (told, published) = mpsc::sync_channel(1);
        self.publisher.when_published(offset, Box::new(move |result| _ = told.send(result)));
        let result = published.recv().map_err(stopped)?;
        result.map_err(|reason| MetadataError::Replay { offset, reason })
    }

    /// Ends the threads of the control plane. Changes that are under way are not answered.
    pub fn stop(&self) {
        self.changes.stop();
        self.quorum.stop();
        self.publisher.stop();
    }

    /// For threads that may wait: a start, a loader, a test.
    pub const fn blocking(&self) -> Blocking<'_> {
        Blocking(self)
    }

    /// Topics that are known to have been removed before this start, or while this broker was away;
    /// told once. The set is incomplete, because a snapshot of the metadata log has no removed
    /// topics. Files that these topics left on the disk may be deleted.
    pub fn take_removed_topics(&self) -> HashSet<Uuid> {
        self.removed_topics.lock().take().unwrap_or_default()
    }

    /// Tells `watcher` of every change from now on, beginning with one from the empty image to this
    /// one; that call has returned when this does. Not for a follower of the image: it would wait
    /// for itself.
    pub fn watch(&self, watcher: OnImage) {
        let (told, heard) = mpsc::sync_channel(1);
        self.publisher.follow(watcher, Box::new(move || _ = told.send(())));
        // A publisher without a thread has this one.
        while self.publisher.turn() {}
        // An error says that the publisher has stopped: there will be no more images.
        let _ = heard.recv();
    }

    /// The newest image.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.publisher.image()
    }

    /// The quorum that keeps the metadata log.
    pub fn quorum(&self) -> &dyn MetadataQuorum {
        &*self.quorum
    }

    /// Makes topics; each is answered for itself. With `validate_only` nothing is made.
    pub fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        defaults: TopicDefaults,
        rules: Arc<dyn ConfigRules>,
        validate_only: bool,
        done: OnAnswers<CreatedTopic>,
    ) {
        let ids: Vec<Uuid> = match topics.iter().map(|_| (self.draw_id)()).collect() {
            Ok(ids) => ids,
            Err(error) => return done.tell(vec![Err(error); topics.len()]),
        };
        let count = topics.len();
        let decide = move |image: &MetadataImage| {
            topics::create_topics(image, &topics, &ids, defaults, &*rules)
        };
        self.change(validate_only, count, decide, done);
    }

    /// Makes the topics of these names as Kafka does when a client asks for one that is not there;
    /// each is answered for itself. That one of them is there already is no error to the caller,
    /// who wanted it to be.
    pub fn create_automatically(
        &self,
        names: &[&str],
        config: &Arc<BrokerConfig>,
        done: OnAnswers<()>,
    ) {
        let image = self.image();
        let rules = TableRules::new(Arc::clone(config));
        let asked: Vec<_> =
            names.iter().map(|name| auto_topic(name, rules.broker(), &image)).collect();
        // In one change: a stranger may ask for many, and each change waits for the disk.
        let topics: Vec<NewTopic> = asked.iter().flatten().cloned().collect();
        let defaults = TopicDefaults::of(rules.broker());
        let answered = move |done: OnAnswers<()>, created: Vec<Result<CreatedTopic, ApiError>>| {
            let mut created = created.into_iter();
            let answer = |asked: Option<NewTopic>| match asked.and_then(|_| created.next()) {
                None => Err(ErrorCode::UnknownTopicOrPartition.into()),
                Some(Err(error)) if error.code != ErrorCode::TopicAlreadyExists => Err(error),
                Some(_) => Ok(()),
            };
            done.tell(asked.into_iter().map(answer).collect());
        };
        let answered = done.through(answered);
        self.create_topics(topics, defaults, Arc::new(rules), false, answered);
    }

    /// Deletes topics by name or id; each is answered for itself.
    pub fn delete_topics(&self, topics: Vec<TopicName>, done: OnAnswers<(String, Uuid)>) {
        let count = topics.len();
        let decide = move |image: &MetadataImage| topics::delete_topics(image, &topics);
        self.change(false, count, decide, done);
    }

    /// Adds partitions to topics; each is answered for itself.
    pub fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        validate_only: bool,
        done: OnAnswers<()>,
    ) {
        let count = topics.len();
        let decide = move |image: &MetadataImage| partitions::create_partitions(image, &topics);
        self.change(validate_only, count, decide, done);
    }

    /// Changes configs; each resource is answered for itself, and changed as a whole or not at all.
    pub fn alter_configs(
        &self,
        changes: Vec<ConfigChange>,
        rules: Arc<dyn ConfigRules>,
        validate_only: bool,
        done: OnAnswers<()>,
    ) {
        let count = changes.len();
        let decide = move |image: &MetadataImage| configs::alter_configs(image, &changes, &*rules);
        self.change(validate_only, count, decide, done);
    }

    /// Notes the log directories of a broker's replicas. `directories` is asked when the change is
    /// decided, for all that is to be noted by then.
    pub fn assign_replicas(
        &self,
        broker_id: i32,
        directories: impl Fn() -> ReplicaDirectories + Send + 'static,
        done: OnAnswer<()>,
    ) {
        let decide = move |image: &MetadataImage| {
            let records = directories::assign_replicas(image, broker_id, &directories());
            (records, vec![Ok(())])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Changes in-sync replicas as their leader asks: `broker_id` in its life `broker_epoch`. Each
    /// partition is answered for itself.
    pub fn alter_partitions(
        &self,
        broker_id: i32,
        broker_epoch: i64,
        changes: Vec<IsrChange>,
        done: OnAnswers<()>,
    ) {
        let count = changes.len();
        let decide = move |image: &MetadataImage| {
            let is_alive = |id| image.is_alive(id);
            let elections = Elections { image, is_alive: &is_alive };
            alter_partitions(&elections, broker_id, broker_epoch, &changes)
        };
        self.change(false, count, decide, done);
    }

    /// Elects leaders of partitions, by topic and index, each named once; each is answered for
    /// itself.
    pub fn elect_leaders(
        &self,
        kind: ElectionKind,
        partitions: Vec<(Arc<str>, i32)>,
        done: OnAnswers<()>,
    ) {
        let count = partitions.len();
        let decide = move |image: &MetadataImage| elect_leaders(image, kind, &partitions);
        self.change(false, count, decide, done);
    }

    /// Gives `broker_id` a block of producer ids that are all greater than `above`, the greatest id
    /// in its logs. The block is on the disk before `done` is called. An error says that there are
    /// none left, or that the metadata log cannot be written.
    pub fn allocate_producer_ids(
        &self,
        broker_id: i32,
        above: i64,
        done: OnAnswer<ProducerIdBlock>,
    ) {
        let decide = move |image: &MetadataImage| {
            let first = image.next_producer_id.max(above.saturating_add(1));
            let Some(next_producer_id) = first.checked_add(PRODUCER_ID_BLOCK_LEN) else {
                let message = "Exhausted all producerIds as the next block's end producerId has \
                               exceeded the int64 type limit";
                return (vec![], vec![Err(ApiError::new(ErrorCode::UnknownServerError, message))]);
            };
            let block = ProducerIdBlock { first, len: PRODUCER_ID_BLOCK_LEN };
            let record = ProducerIdsRecord { broker_id, next_producer_id };
            (vec![MetadataRecord::ProducerIds(record)], vec![Ok(block)])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Decides on a request as a whole, with one answer to all of it. So it finds out what is there
    /// on the image that the change is made on.
    pub fn change_whole<T: Send + 'static>(
        &self,
        decide: impl Fn(&MetadataImage) -> (Vec<MetadataRecord>, T) + Send + 'static,
        done: OnAnswer<T>,
    ) {
        let decide = move |image: &MetadataImage| {
            let (records, answer) = decide(image);
            (records, vec![Ok(answer)])
        };
        self.change(false, 1, decide, only(done));
    }

    /// Decides, commits, publishes, and answers. A change that is not committed is refused to all
    /// `count` of them. `decide` is called again if another change was committed first.
    pub fn change<T: Send + 'static>(
        &self,
        validate_only: bool,
        count: usize,
        decide: impl Fn(&MetadataImage) -> Decision<T> + Send + 'static,
        done: OnAnswers<T>,
    ) {
        let answers = Vec::new();
        self.changes.submit(Box::new(Requested { decide, validate_only, count, answers, done }));
    }
}

/// Takes the answer to a change of one item.
fn only<T: 'static>(done: OnAnswer<T>) -> OnAnswers<T> {
    done.through(|done, mut answers: Vec<Result<T, ApiError>>| {
        done.tell(answers.pop().unwrap_or_else(|| Err(ErrorCode::UnknownServerError.into())));
    })
}

/// A change that one request asks for.
struct Requested<T, D> {
    decide: D,
    validate_only: bool,
    /// Items of the request.
    count: usize,
    /// What the last decision says to each of them.
    answers: Vec<Result<T, ApiError>>,
    done: OnAnswers<T>,
}

impl<T, D> Change for Requested<T, D>
where
    T: Send + 'static,
    D: Fn(&MetadataImage) -> Decision<T> + Send,
{
    fn decide(&mut self, image: &MetadataImage) -> Vec<MetadataRecord> {
        let (records, answers) = (self.decide)(image);
        self.answers = answers;
        if self.validate_only { Vec::new() } else { records }
    }

    fn bounds(&self) -> Bounds {
        self.done.bounds()
    }

    fn answer(self: Box<Self>, result: Result<(), ApiError>) {
        let Self { decide, count, answers, done, .. } = *self;
        // What was asked takes no memory while the answer to it is built.
        drop(decide);
        done.tell(match result {
            Ok(()) => answers,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        });
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.stop();
    }
}

fn no_thread(dir: &Path) -> impl FnOnce(std::io::Error) -> MetadataError + '_ {
    let (action, path) = ("start the threads of", dir.to_owned());
    move |source| MetadataError::Io { action, path, source }
}

/// Draws a topic id at random. Kafka draws again for ids that begin with a dash, which a shell
/// would take for a flag.
fn random_id() -> Result<Uuid, ApiError> {
    loop {
        let mut bytes = [0_u8; 16];
        if getrandom::fill(&mut bytes).is_err() {
            return Err(ApiError::new(ErrorCode::UnknownServerError, "no randomness"));
        }
        let id = Uuid::from_random(bytes);
        if !id.to_string().starts_with('-') {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests;
