//! `__consumer_offsets` on this broker's own partitions: the coordinator's log, over replication
//! and the controller.
//!
//! A batch is answered for when the high watermark has passed it, as an acks=all produce would be.
//! One that is late is still waited for: it is in the log, and its group has to take it in when it
//! is committed, or it would come to life at the next start only.
//! Source: Kafka's `CoordinatorPartitionWriter` and `CoordinatorLoaderImpl`.

use super::offsets_topic::{AppendDone, AppendLate, OffsetsTopic};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::fetch_sessions::{FetchTarget, TopicRef};
use crate::metadata::Controller;
use crate::metadata::controller::{OFFSETS_TOPIC, TableRules, TopicDefaults, auto_topic};
use crate::partitions::{CommitStatus, FetchReader, Partition, ReplicaManager};
use crate::purgatory::{Completion, DelayedOperation, Purgatory};
use bytes::{Bytes, BytesMut};
use kafkalite_log::ValidatedBatch;
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;

/// The coordinator's topic over this broker's partitions.
pub struct OffsetsPartitions {
    /// The replicas here.
    pub partitions: Arc<ReplicaManager>,
    /// Who makes the topic.
    pub controller: Arc<Controller>,
    /// Where appends wait for the high watermark.
    pub produces: Arc<Purgatory>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// `offsets.topic.*`, `offsets.commit.timeout.ms`, `offsets.load.buffer.size`.
    pub config: BrokerConfig,
}

impl OffsetsPartitions {
    fn partition(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let found = self.partitions.find(&TopicRef::Name(OFFSETS_TOPIC.into()), index);
        found.map_err(|_| ErrorCode::NotCoordinator)
    }

    fn try_append(&self, index: i32, batch: &Bytes) -> Result<Appended, ErrorCode> {
        let partition = self.partition(index)?;
        let batch = ValidatedBatch::trusted(batch).map_err(|_| ErrorCode::UnknownServerError)?;
        let appended = partition.append(&batch, true, self.clock.wall_ms());
        let appended = appended.map_err(|refusal| refusal.code)?;
        let (base, end, epoch) = (appended.base_offset, appended.end_offset, appended.leader_epoch);
        Ok(Appended { partition, base, end, epoch })
    }
}

impl OffsetsTopic for OffsetsPartitions {
    fn partition_count(&self) -> i32 {
        let image = self.controller.image();
        image.topic(OFFSETS_TOPIC).map_or(0, |topic| topic.partitions.len() as i32)
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.controller.image().topic(topic).map(|topic| topic.id)
    }

    fn create(&self) -> Result<(), ErrorCode> {
        // On as many brokers as there are: with Kafka's default of three one alone would wait for
        // ever.
        let image = self.controller.image();
        let Some(topic) = auto_topic(OFFSETS_TOPIC, &self.config, &image) else { return Ok(()) };
        let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
        let rules = TableRules::new(Arc::new(self.config.clone()));
        let controller = self.controller.blocking();
        let created = controller.create_topics(&[topic], defaults, &rules, false).pop();
        match created {
            Some(Err(refusal)) if refusal.code != ErrorCode::TopicAlreadyExists => {
                Err(refusal.code)
            }
            _ => Ok(()),
        }
    }

    fn append(&self, partition: i32, batch: Bytes, done: AppendDone, late: AppendLate) {
        match self.try_append(partition, &batch) {
            Err(error) => done(Err(error)),
            Ok(appended) if appended.status() == CommitStatus::Committed => done(Ok(appended.base)),
            Ok(appended) => {
                let timeout_ms = u64::try_from(self.config.offsets_commit_timeout_ms).unwrap_or(0);
                let waiting = Waiting { appended, done, late: Some(late) };
                // At least 1: with 0 it would be late at once, again and again.
                waiting.watch(&self.produces, timeout_ms.max(1));
            }
        }
    }

    fn read(&self, partition: i32, from: Option<Offset>) -> Result<Bytes, ErrorCode> {
        let partition = self.partition(partition)?;
        let from = from.unwrap_or_else(|| partition.log_start_offset());
        let target = FetchTarget {
            topic: Arc::new(TopicRef::Id(partition.topic_id())),
            partition: partition.index(),
            fetch_offset: from.0,
            max_bytes: i32::MAX,
            current_leader_epoch: LeaderEpoch::UNKNOWN.0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
        };
        let most_bytes = self.config.offsets_load_buffer_bytes as u64;
        let fetched = partition.read(&target, most_bytes, true, FetchReader::ReadUncommitted);
        if !fetched.error.is_none() {
            return Err(fetched.error);
        }
        let mut bytes = BytesMut::with_capacity(fetched.bytes as usize);
        for slice in &fetched.slices {
            let read = slice.read().map_err(|_| ErrorCode::KafkaStorageError)?;
            bytes.extend_from_slice(&read);
        }
        let whole = whole_batches(&bytes);
        if whole == 0 && !bytes.is_empty() {
            // A read gives the first batch whole, so the log is damaged here.
            tracing::error!(offset = from.0, "no batch where one should be");
            return Err(ErrorCode::CorruptMessage);
        }
        Ok(bytes.freeze().slice(..whole))
    }
}

/// The length of the batches that are not cut off at the end.
fn whole_batches(bytes: &[u8]) -> usize {
    let mut whole = 0;
    while let Ok(batch) = RecordBatch::parse(&bytes[whole..]) {
        whole += batch.header().size();
    }
    whole
}

/// A batch that is in the log.
#[derive(Clone)]
struct Appended {
    partition: Arc<Partition>,
    base: Offset,
    end: Offset,
    epoch: LeaderEpoch,
}

impl Appended {
    fn status(&self) -> CommitStatus {
        self.partition.commit_status(self.end, self.epoch)
    }
}

/// A batch of the coordinator's that waits for the high watermark, and who wants to know.
struct Waiting {
    appended: Appended,
    done: AppendDone,
    /// Until it was called.
    late: Option<AppendLate>,
}

impl Waiting {
    fn watch(self, produces: &Arc<Purgatory>, timeout_ms: u64) {
        let appended = self.appended.clone();
        let waiters = appended.partition.produce_waiters().clone();
        let (waiting, purgatory) = (Mutex::new(Some(self)), produces.clone());
        let delayed = DelayedAppend { appended, timeout_ms, waiting, purgatory };
        produces.watch(Arc::new(delayed), || [waiters]);
    }
}

/// One wait for the high watermark; the next one follows at its timeout.
struct DelayedAppend {
    appended: Appended,
    timeout_ms: u64,
    waiting: Mutex<Option<Waiting>>,
    /// Where it waits on. What waits is let go when the broker stops.
    purgatory: Arc<Purgatory>,
}

impl DelayedOperation for DelayedAppend {
    fn is_satisfied(&self) -> bool {
        self.appended.status() != CommitStatus::Pending
    }

    fn complete(self: Arc<Self>, how: Completion) {
        let Some(mut waiting) = self.waiting.lock().take() else { return };
        match self.appended.status() {
            CommitStatus::Committed => (waiting.done)(Ok(self.appended.base)),
            CommitStatus::Pending if how == Completion::Expired => {
                if let Some(late) = waiting.late.take() {
                    late();
                }
                waiting.watch(&self.purgatory, self.timeout_ms);
            }
            CommitStatus::Pending | CommitStatus::Lost(_) => {
                (waiting.done)(Err(ErrorCode::NotCoordinator));
            }
        }
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }
}
