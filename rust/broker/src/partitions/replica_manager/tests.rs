//! Replicas come, go, and are missed, as images and directories say.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::clock::ManualClock;
use crate::config::BrokerConfig;
use crate::faulty_storage::FaultyStorage;
use crate::metadata::controller::assign_replicas;
use crate::metadata::image::{Assignment, UNASSIGNED};
use crate::metadata::records::{
    CreateTopicRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, RecordsBatch,
};
use crate::metrics::Metrics;
use crate::partitions::{Checkpoints, CommitStatus};
use crate::purgatory::{RunExpired, Timer};
use kafkalite_log::LogError;
use kafkalite_log::validation::ValidatedBatch;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{LeaderEpoch, Offset};
use std::path::PathBuf;
use tempfile::TempDir;

/// 2026, in ms: records of long ago would be deleted.
const NOW_MS: i64 = 1_790_000_000_000;
/// `file.delete.delay.ms`
const DELAY_MS: u64 = 60_000;
const ME: i32 = 1;
const OTHER: i32 = 2;
const TOPIC_ID: Uuid = Uuid([7; 16]);
const DIRECTORY: Uuid = Uuid([5; 16]);

struct House {
    clock: Arc<ManualClock>,
    timer: Arc<Timer>,
    replicas: ReplicaManager,
    image: MetadataImage,
    directory: TempDir,
    storage: FaultyStorage,
}

impl Drop for House {
    fn drop(&mut self) {
        self.timer.stop();
    }
}

fn replica_manager(
    clock: &Arc<ManualClock>,
    timer: &Arc<Timer>,
    at: &TempDir,
    storage: &FaultyStorage,
) -> ReplicaManager {
    let (broker, metrics) = (BrokerConfig::default(), Metrics::new());
    let config = ReplicaManagerConfig {
        local_id: ME,
        clock: clock.clone(),
        settings: Box::new(move |topic| TopicSettings::new(&broker, &topic.configs)),
        fetches: Arc::new(Purgatory::new("Fetch", timer.clone(), &metrics)),
        produces: Arc::new(Purgatory::new("Produce", timer.clone(), &metrics)),
        recovery_threads: 1,
        max_threads: usize::MAX,
        max_lag_ms: 30_000,
        removed_topics: HashSet::new(),
    };
    let log_dir = LogDir::open(at.path(), Arc::new(storage.clone()), 1_000).unwrap();
    let checkpoints = Checkpoints::read(log_dir).unwrap();
    ReplicaManager::new(config, LogDirs::new(vec![(DIRECTORY, checkpoints)], vec![], false))
}

/// A partition with these replicas, the first of which leads.
fn record(replicas: &[i32], epoch: i32) -> PartitionRecord {
    PartitionRecord {
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader: replicas[0],
        leader_epoch: epoch,
        partition_epoch: epoch,
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        last_leader: -1,
        directories: vec![UNASSIGNED; replicas.len()],
    }
}

impl House {
    /// Topic `t` of one partition with these replicas. The log directory of the one here is noted.
    fn new(replicas: &[i32]) -> Self {
        let mut house = Self::without_notes(replicas);
        house.note();
        house
    }

    /// As [`Self::new`], before the note.
    fn without_notes(replicas: &[i32]) -> Self {
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let run: RunExpired = Arc::new(|task| task());
        let timer = Timer::start(clock.clone() as Arc<dyn Clock>, run).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        let replicas_here = replica_manager(&clock, &timer, &directory, &storage);
        let image = MetadataImage::default();
        let mut house = Self { clock, timer, replicas: replicas_here, image, directory, storage };
        house.replicas.follow_image(&MetadataImage::default(), &MetadataImage::default());
        let (name, partitions) = ("t".to_owned(), vec![record(replicas, 0)]);
        let topic = CreateTopicRecord { name, topic_id: TOPIC_ID, partitions, configs: vec![] };
        house.commit_alone(MetadataRecord::CreateTopic(topic));
        house
    }

    /// Commits a record, and what follows from it: the log directory of a replica that was made.
    fn commit(&mut self, change: MetadataRecord) {
        self.commit_alone(change);
        self.note();
    }

    /// Commits the log directories of the replicas that wait for it.
    fn note(&mut self) {
        for note in assign_replicas(&self.image, ME, &self.replicas.unassigned()) {
            self.commit_alone(note);
        }
    }

    fn commit_alone(&mut self, change: MetadataRecord) {
        let before = self.image.clone();
        self.commit_unseen(change);
        self.replicas.follow_image(&before, &self.image);
    }

    /// Commits a record while this broker is down.
    fn commit_unseen(&mut self, change: MetadataRecord) {
        let (base_offset, records) = (self.image.offset + 1, vec![change]);
        let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: NOW_MS, records };
        self.image = self.image.with_batch(&batch).unwrap();
    }

    /// The change that gives the partition other replicas.
    fn reassignment(&self, replicas: &[i32]) -> MetadataRecord {
        let now = self.image.partition("t", 0).unwrap();
        let (topic_id, mut partition) = (TOPIC_ID, record(replicas, now.leader_epoch.0 + 1));
        partition.partition_epoch = now.partition_epoch + 1;
        for (replica, directory) in replicas.iter().zip(&mut partition.directories) {
            if let Assignment::Directory(noted) = now.assignment(*replica) {
                *directory = noted;
            }
        }
        let change = PartitionChangeRecord { topic_id, partition_index: 0, partition };
        MetadataRecord::PartitionChange(change)
    }

    fn reassign(&mut self, replicas: &[i32]) {
        self.commit(self.reassignment(replicas));
    }

    /// Starts again, with what is on the disk. What was noted before was put there.
    fn restart(&mut self) {
        for which in Checkpoint::OF_REPLICAS {
            self.replicas.checkpoint(which).unwrap();
        }
        self.start_again();
    }

    /// Starts again after a power cut, which undid what was not synced.
    fn cut_power(&mut self) {
        self.storage.cut_power_and_undo(|| true).unwrap();
        self.storage = FaultyStorage::default();
        self.start_again();
    }

    fn start_again(&mut self) {
        self.replicas.dirs.unlock();
        self.replicas = replica_manager(&self.clock, &self.timer, &self.directory, &self.storage);
        self.replicas.follow_image(&MetadataImage::default(), &self.image);
    }

    fn find(&self) -> Result<Arc<Partition>, ErrorCode> {
        self.replicas.find_by_name("t", 0)
    }

    fn error(&self) -> Option<ErrorCode> {
        self.find().err()
    }

    /// The first and the last offset of the partition, and its high watermark.
    fn offsets(&self) -> [i64; 3] {
        let found = self.find().unwrap();
        [found.log_start_offset(), found.log_end_offset(), found.high_watermark()].map(|at| at.0)
    }

    fn append(&self) {
        append(&self.find().unwrap()).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("t-0")
    }

    /// How many directories there are whose names end so.
    fn directories(&self, suffix: &str) -> usize {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("t-0") && name.ends_with(suffix)).count()
    }
}

fn append(partition: &Partition) -> Result<Offset, ErrorCode> {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, None, Some(b"value"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    let batch = ValidatedBatch::trusted(&bytes).unwrap();
    let appended = partition.append(&batch, false, NOW_MS).map_err(|refusal| refusal.code)?;
    partition.flush().unwrap();
    Ok(appended.base_offset)
}

mod assigning;
mod copying;
mod in_sync;
mod moving;
mod returning;
mod truncating;

#[test]
fn a_partition_elsewhere_has_another_error_than_one_that_does_not_exist() {
    let house = House::new(&[OTHER]);
    let error = |index| house.replicas.find_by_name("t", index).err();
    assert_eq!(error(0), Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!(error(1), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(error(-1), Some(ErrorCode::UnknownTopicOrPartition));
    let error = |id| house.replicas.find_by_id(id, 0).err();
    assert_eq!(error(TOPIC_ID), Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!(error(Uuid([8; 16])), Some(ErrorCode::UnknownTopicId));
    assert_eq!(house.directories(""), 0);
}

#[test]
fn a_replica_that_the_image_adds_to_a_partition_opens() {
    let mut house = House::new(&[OTHER]);
    house.reassign(&[OTHER, ME]);
    let partition = house.find().unwrap();
    assert_eq!(append(&partition), Err(ErrorCode::NotLeaderOrFollower));
    house.reassign(&[ME, OTHER]);
    assert_eq!(append(&partition), Ok(Offset(0)));
    assert!(Arc::ptr_eq(&partition, &house.replicas.by_key(partition.key()).unwrap()));
    assert_eq!(house.replicas.all().len(), 1);
}

#[test]
fn a_replica_that_the_image_removes_is_deleted_after_the_delay() {
    let mut house = House::new(&[ME]);
    let partition = house.find().unwrap();
    append(&partition).unwrap();
    house.reassign(&[OTHER]);
    assert_eq!(house.error(), Some(ErrorCode::NotLeaderOrFollower));
    assert!(house.replicas.by_key(partition.key()).is_none() && house.replicas.all().is_empty());
    assert_eq!((house.directories("-0"), house.directories("-delete")), (0, 1));
    house.clock.advance_ms(DELAY_MS - 1);
    house.replicas.remove_deleted();
    assert_eq!(house.directories("-delete"), 1);
    house.clock.advance_ms(1);
    house.replicas.remove_deleted();
    assert_eq!(house.directories(""), 0);
}

/// A request that found the partition before it was removed.
#[test]
fn a_holder_of_a_removed_replica_learns_that_it_leads_no_longer() {
    let mut house = House::new(&[ME]);
    let partition = house.find().unwrap();
    append(&partition).unwrap();
    house.reassign(&[OTHER]);
    assert_eq!(append(&partition), Err(ErrorCode::NotLeaderOrFollower));
    let unknown = LeaderEpoch::UNKNOWN;
    assert_eq!(partition.check_leader(unknown), Err(ErrorCode::NotLeaderOrFollower));
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.commit_status(Offset(1), LeaderEpoch(0)), lost);
}

#[test]
fn a_replica_that_comes_back_starts_empty_each_time() {
    let mut house = House::new(&[ME]);
    for times in 1..=3 {
        house.append();
        house.reassign(&[OTHER]);
        assert_eq!((house.directories("-0"), house.directories("-delete")), (0, times));
        house.reassign(&[ME]);
        assert_eq!(house.offsets(), [0, 0, 0]);
    }
    house.clock.advance_ms(DELAY_MS);
    house.replicas.remove_deleted();
    assert_eq!((house.directories("-0"), house.directories("-delete")), (1, 0));
}

/// The checkpoints of the last run name the log that is put aside.
#[test]
fn a_replica_that_is_removed_while_the_broker_is_down_is_a_stray() {
    let mut house = House::new(&[ME]);
    house.append();
    house.append();
    house.find().unwrap().delete_records(Offset(1), NOW_MS).unwrap();
    house.commit_unseen(house.reassignment(&[OTHER]));
    house.restart();
    assert_eq!(house.error(), Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!((house.directories("-0"), house.directories("-stray")), (0, 1));
    house.reassign(&[ME]);
    assert_eq!(house.offsets(), [0, 0, 0]);
}

/// It opened as an empty log, and its records were gone without a word.
#[test]
fn a_partition_whose_directory_is_missing_does_not_open_until_it_is_back() {
    let mut house = House::new(&[ME]);
    house.append();
    let (path, away) = (house.path(), house.directory.path().join("away"));
    for _ in 0..2 {
        house.replicas.checkpoint(Checkpoint::HighWatermark).unwrap();
        if path.exists() {
            std::fs::rename(&path, &away).unwrap();
        }
        house.restart();
        assert_eq!(house.error(), Some(ErrorCode::KafkaStorageError));
        assert!(!path.exists());
    }
    std::fs::rename(&away, &path).unwrap();
    house.clock.advance_ms(DELAY_MS);
    house.replicas.retry_unopened();
    assert_eq!(house.offsets(), [0, 1, 1]);
}

#[test]
fn who_makes_the_missing_directory_begins_again_without_its_records() {
    let mut house = House::new(&[ME]);
    house.append();
    house.replicas.checkpoint(Checkpoint::HighWatermark).unwrap();
    std::fs::rename(house.path(), house.directory.path().join("away")).unwrap();
    house.restart();
    assert_eq!(house.error(), Some(ErrorCode::KafkaStorageError));
    std::fs::create_dir(house.path()).unwrap();
    house.clock.advance_ms(DELAY_MS);
    house.replicas.retry_unopened();
    assert_eq!(house.offsets(), [0, 0, 0]);
}

/// A broker that was killed between the record of a topic and its logs.
#[test]
fn a_partition_that_was_never_noted_is_made_at_the_next_start() {
    let mut house = House::without_notes(&[ME]);
    std::fs::remove_dir_all(house.path()).unwrap();
    house.restart();
    assert_eq!(house.offsets(), [0, 0, 0]);
}

#[test]
fn a_replica_that_did_not_open_can_be_removed() {
    let mut house = House::new(&[ME]);
    house.append();
    std::fs::rename(house.path(), house.directory.path().join("away")).unwrap();
    house.restart();
    assert_eq!(house.error(), Some(ErrorCode::KafkaStorageError));
    house.reassign(&[OTHER]);
    assert_eq!(house.error(), Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!(house.replicas.next_retry_ms(), None);
    house.reassign(&[ME]);
    assert_eq!(house.offsets(), [0, 0, 0]);
}
