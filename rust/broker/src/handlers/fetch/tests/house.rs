//! The rooms of a fetch, without a socket: logs on the disk, the image by hand, time that stands.

use super::super::answers::Answers;
use super::super::delayed_fetch::{DelayedFetch, FetchLimits};
use super::super::followers;
use crate::clock::{Clock, ManualClock};
use crate::config::BrokerConfig;
use crate::fetch_sessions::{FetchSessions, Opening, Reader};
use crate::metadata::MetadataImage;
use crate::metadata::controller::assign_replicas;
use crate::metadata::image::UNASSIGNED;
use crate::metadata::records::{
    CreatePartitionsRecord, CreateTopicRecord, MetadataRecord, PartitionChangeRecord,
    PartitionRecord, RecordsBatch, RemoveTopicRecord,
};
use crate::metrics::{Counter, Metrics};
use crate::partitions::{
    Checkpoints, LogDirs, Partition, ReplicaManager, ReplicaManagerConfig, TopicSettings,
};
use crate::purgatory::{Purgatory, RunExpired, Timer};
use bytes::Bytes;
use kafkalite_log::storage::RealStorage;
use kafkalite_log::validation::ValidatedBatch;
use kafkalite_log::{FileSlice, LogDir, LogError};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::fetch::{FetchRequest, FetchResponse};
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use tempfile::TempDir;

/// 2026, in ms: records of long ago would be deleted.
const NOW_MS: i64 = 1_790_000_000_000;
/// This broker.
pub const ME: i32 = 1;
/// Another one, which leads or follows as the image says; it is never there.
pub const OTHER: i32 = 2;

/// The log directory.
const DIRECTORY: Uuid = Uuid([5; 16]);

/// An answer and the ranges that it refers to.
pub type Answer = (FetchResponse, Vec<Vec<FileSlice>>);

pub struct House {
    pub clock: Arc<ManualClock>,
    pub timer: Arc<Timer>,
    pub fetches: Arc<Purgatory>,
    pub sessions: FetchSessions,
    pub partitions: Arc<ReplicaManager>,
    pub looked_at: Counter,
    /// Of a batch of one record.
    pub batch_bytes: u64,
    image: Mutex<Arc<MetadataImage>>,
    next_session: AtomicI32,
    _directory: TempDir,
}

impl Drop for House {
    fn drop(&mut self) {
        self.timer.stop();
    }
}

impl House {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let run: RunExpired = Arc::new(|task| task());
        let timer = Timer::start(clock.clone() as Arc<dyn Clock>, run).expect("a thread");
        let metrics = Metrics::new();
        let fetches = Arc::new(Purgatory::new("Fetch", timer.clone(), &metrics));
        let config = BrokerConfig::default();
        let settings =
            move |topic: &crate::metadata::TopicImage| TopicSettings::new(&config, &topic.configs);
        let parts = ReplicaManagerConfig {
            local_id: ME,
            clock: clock.clone(),
            settings: Box::new(settings),
            fetches: fetches.clone(),
            produces: Arc::new(Purgatory::new("Produce", timer.clone(), &metrics)),
            recovery_threads: 1,
            max_threads: usize::MAX,
            max_lag_ms: 30_000,
            removed_topics: std::collections::HashSet::new(),
        };
        let log_dir = LogDir::open(directory.path(), Arc::new(RealStorage), 1_000);
        let log_dir = log_dir.expect("a directory of its own");
        let checkpoints = Checkpoints::read(log_dir.clone()).expect("nothing to be read");
        let dirs = LogDirs::new(vec![(DIRECTORY, checkpoints)], vec![], false);
        let partitions = Arc::new(ReplicaManager::new(parts, dirs));
        let (told, failed) = (Arc::downgrade(&partitions), Arc::downgrade(&log_dir));
        log_dir.on_offline(move || {
            if let (Some(partitions), Some(failed)) = (told.upgrade(), failed.upgrade()) {
                partitions.tell_everyone_in(&failed);
            }
        });
        Self {
            clock,
            timer,
            fetches,
            sessions: FetchSessions::new(1, &metrics),
            partitions,
            looked_at: Counter::default(),
            batch_bytes: batch(NOW_MS, 1).len() as u64,
            image: Mutex::default(),
            next_session: AtomicI32::new(1),
            _directory: directory,
        }
    }

    /// Commits records of metadata, and the directories of the replicas that they make. They are
    /// followed when this returns.
    pub fn commit(&self, records: Vec<MetadataRecord>) {
        self.commit_alone(records);
        let notes = assign_replicas(&self.image(), ME, &self.partitions.unassigned());
        if !notes.is_empty() {
            self.commit_alone(notes);
        }
    }

    fn commit_alone(&self, records: Vec<MetadataRecord>) {
        let mut image = self.image.lock();
        let batch = RecordsBatch {
            base_offset: image.offset + 1,
            epoch: 1,
            timestamp_ms: self.clock.wall_ms(),
            records,
        };
        let after = Arc::new(image.with_batch(&batch).expect("records that fit"));
        self.partitions.follow_image(&image, &after);
        *image = after;
    }

    pub fn image(&self) -> Arc<MetadataImage> {
        self.image.lock().clone()
    }

    pub fn create(&self, name: &str, partitions: usize) {
        let topic_id = self.image().offset.to_be_bytes();
        let topic_id = Uuid([[9; 8], topic_id].concat().try_into().expect("16 bytes"));
        let partitions = vec![led_by(ME, 0, &[ME]); partitions];
        let (name, configs) = (name.to_owned(), vec![]);
        let topic = CreateTopicRecord { name, topic_id, partitions, configs };
        self.commit(vec![MetadataRecord::CreateTopic(topic)]);
    }

    pub fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.image().topic(name).map(|topic| topic.id)
    }

    pub fn delete(&self, name: &str) {
        if let Some(id) = self.topic_id(name) {
            self.commit(vec![MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: id })]);
        }
    }

    pub fn add_partition(&self, name: &str) {
        if let Some(id) = self.topic_id(name) {
            let partitions = vec![led_by(ME, 0, &[ME])];
            let more = CreatePartitionsRecord { topic_id: id, partitions };
            self.commit(vec![MetadataRecord::CreatePartitions(more)]);
        }
    }

    /// Gives a partition a leader of a new epoch and an in-sync set. Nothing if it is not there.
    pub fn elect(&self, name: &str, partition: i32, leader: i32, isr: &[i32]) {
        let image = self.image();
        let Some(before) = image.partition(name, partition) else { return };
        let topic_id = image.topic(name).expect("it has a partition").id;
        let mut partition_record = led_by(leader, before.leader_epoch.0 + 1, isr);
        partition_record.directories.clone_from(&before.directories);
        self.commit(vec![MetadataRecord::PartitionChange(PartitionChangeRecord {
            topic_id,
            partition_index: partition,
            partition: partition_record,
        })]);
    }

    pub fn partition(&self, name: &str, index: i32) -> Option<Arc<Partition>> {
        self.partitions.find_by_name(name, index).ok()
    }

    /// Appends a batch of so many records; refusals are part of the game.
    pub fn append(&self, name: &str, index: i32, records: i32) {
        let Some(partition) = self.partition(name, index) else { return };
        let batch = batch(self.clock.wall_ms(), records);
        let batch = ValidatedBatch::trusted(&batch).expect("a whole batch");
        let _ = partition.append(&batch, false, self.clock.wall_ms());
    }

    pub fn fail_the_disk(&self) {
        let path = std::path::PathBuf::from("tests");
        let why = LogError::io(path, std::io::Error::other("the test says so"));
        self.partitions.dirs().iter().for_each(|dir| dir.log_dir().take_offline(&why));
    }

    /// Runs a fetch as the handler does; what it answers comes out of the other end.
    pub fn fetch(
        &self,
        request: &FetchRequest,
        version: i16,
    ) -> Result<mpsc::Receiver<Answer>, ErrorCode> {
        self.fetch_while(request, version, || ())
    }

    /// As [`Self::fetch`]; `meanwhile` runs between the note of a follower's fetch and the look at
    /// the partitions.
    pub fn fetch_while(
        &self,
        request: &FetchRequest,
        version: i16,
        meanwhile: impl FnOnce(),
    ) -> Result<mpsc::Receiver<Answer>, ErrorCode> {
        let opening = || Opening {
            id: self.next_session.fetch_add(1, Ordering::Relaxed),
            waiters: self.fetches.new_list(),
        };
        let now_ms = self.clock.wall_ms();
        let (context, mut looks) = self.sessions.resolve(request, version, now_ms, opening)?;
        let who = Reader::of(request, version);
        if who.is_follower() {
            let now_ms = self.clock.monotonic_ms();
            followers::note(&self.image(), &self.partitions, now_ms, who, &mut looks);
        }
        meanwhile();
        let reader = super::super::reader(who);
        let unsigned = |value: i32| u64::try_from(value).expect("tests ask for sane limits");
        let limits = FetchLimits {
            asker: crate::purgatory::Asker { connection_id: 1, correlation_id: 1 },
            min_bytes: unsigned(request.min_bytes),
            max_bytes: unsigned(request.max_bytes),
            max_wait_ms: unsigned(request.max_wait_ms),
            reader,
            rack: None,
        };
        let (answered, answer) = mpsc::channel();
        let (noted, looked_at) = (context.clone(), self.looked_at.clone());
        let (partitions, fetches) = (self.partitions.clone(), &self.fetches);
        DelayedFetch::start(&context, looks, partitions, limits, fetches, move |operation| {
            let read = operation.read();
            looked_at.add(read.len() as u64);
            // The test may have ended before a timer did.
            let (answers, files) = Answers::new(&noted, read, reader);
            let _ = answered.send((answers.whole(), files));
        });
        Ok(answer)
    }
}

fn led_by(leader: i32, leader_epoch: i32, isr: &[i32]) -> PartitionRecord {
    PartitionRecord {
        replicas: vec![ME, OTHER],
        isr: isr.to_vec(),
        leader,
        leader_epoch,
        partition_epoch: leader_epoch,
        directories: vec![UNASSIGNED; 2],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        last_leader: -1,
    }
}

fn batch(now_ms: i64, records: i32) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    for _ in 0..records {
        builder.append(now_ms, None, Some(b"twenty bytes of text"), &[]);
    }
    builder.build(Offset(0), LeaderEpoch(-1)).expect("a batch is built")
}
