//! `__consumer_offsets` on this broker's own partitions: the coordinator's log, over replication
//! and the controller.
//!
//! A batch is answered for when the high watermark has passed it, as an acks=all produce would be.
//! Source: Kafka's `CoordinatorPartitionWriter` and `CoordinatorLoaderImpl`.

use super::offsets_topic::OffsetsTopic;
use super::runtime::{Appended, CoordinatorLog, LedPartition, OnSettled, TopicFacts};
use crate::clock::Clock;
use crate::error::log_error_code;
use crate::metadata::controller::OFFSETS_TOPIC;
use crate::metadata::{Controller, PartitionImage, TopicImage};
use crate::partitions::{CommitStatus, Partition, ReplicaManager};
use crate::purgatory::{Completion, DelayedOperation, Purgatory};
use bytes::{Bytes, BytesMut};
use kafkalite_log::ValidatedBatch;
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;

/// How long one wait for the high watermark may last, ms; then the next one begins.
const WATCH_MS: u64 = 3_600_000;

/// The coordinator's topic over this broker's partitions.
pub struct OffsetsPartitions {
    /// This broker's id.
    pub local_id: i32,
    /// The replicas here.
    pub partitions: Arc<ReplicaManager>,
    /// Whose image says who leads.
    pub controller: Arc<Controller>,
    /// Where appends wait for the high watermark.
    pub produces: Arc<Purgatory>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// `offsets.load.buffer.size`
    pub load_buffer_bytes: u32,
}

impl OffsetsPartitions {
    /// The partition, if this broker leads it in the epoch of `image`, and its log is open.
    fn led(&self, topic: &TopicImage, index: i32, image: &PartitionImage) -> Option<LedPartition> {
        if image.leader != self.local_id {
            return None;
        }
        let partition = self.partitions.find_by_id(topic.id, index).ok()?;
        let (epoch, opening) = (image.leader_epoch, partition.key());
        partition.check_leader(epoch).ok()?;
        let log = OffsetsPartition {
            partition,
            epoch,
            produces: Arc::clone(&self.produces),
            clock: Arc::clone(&self.clock),
            load_buffer_bytes: self.load_buffer_bytes,
        };
        Some(LedPartition { epoch, opening, log: Arc::new(log) })
    }
}

impl OffsetsTopic for OffsetsPartitions {
    fn facts(&self) -> Option<TopicFacts> {
        let image = self.controller.image();
        let topic = image.topic(OFFSETS_TOPIC)?;
        let partitions = (0..).zip(&topic.partitions);
        let partitions = partitions.map(|(index, image)| self.led(topic, index, image)).collect();
        Some(TopicFacts { id: topic.id, partitions })
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.controller.image().topic(topic).map(|topic| topic.id)
    }
}

/// One partition in the leader epoch in which its coordinator was loaded.
struct OffsetsPartition {
    partition: Arc<Partition>,
    epoch: LeaderEpoch,
    produces: Arc<Purgatory>,
    clock: Arc<dyn Clock>,
    load_buffer_bytes: u32,
}

impl CoordinatorLog for OffsetsPartition {
    fn bounds(&self) -> (Offset, Offset) {
        (self.partition.log_start_offset(), self.partition.log_end_offset())
    }

    fn read(&self, from: Option<Offset>, to: Offset) -> Result<Bytes, ErrorCode> {
        let from = from.unwrap_or_else(|| self.partition.log_start_offset());
        let log = self.partition.log();
        let read = log.read(from, self.load_buffer_bytes, to, true);
        let read = read.map_err(|error| log_error_code(&error))?;
        let mut bytes = BytesMut::with_capacity(read.bytes as usize);
        for slice in &read.slices {
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

    fn max_batch_bytes(&self) -> usize {
        self.partition.log_config().max_message_bytes as usize
    }

    fn append(&self, batch: Bytes) -> Result<Appended, ErrorCode> {
        let batch = ValidatedBatch::trusted(&batch).map_err(|_| ErrorCode::UnknownServerError)?;
        let now_ms = self.clock.wall_ms();
        let appended = self.partition.append_as_leader(&batch, self.epoch, now_ms);
        let appended = appended.map_err(|refusal| refusal.code)?;
        let (base, end) = (appended.base_offset, appended.end_offset);
        Ok(Appended { base, end, status: appended.status })
    }

    fn commit_status(&self, end: Offset) -> CommitStatus {
        self.partition.commit_status(end, self.epoch)
    }

    fn watch(&self, end: Offset, settled: OnSettled) {
        let waiters = self.partition.produce_waiters().clone();
        let (partition, epoch) = (Arc::clone(&self.partition), self.epoch);
        let settled = Mutex::new(Some(settled));
        let delayed = DelayedCommit { partition, epoch, end, settled };
        self.produces.watch(Arc::new(delayed), || [waiters]);
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

/// A wait for the high watermark, or for the end of the leader epoch.
struct DelayedCommit {
    partition: Arc<Partition>,
    epoch: LeaderEpoch,
    end: Offset,
    settled: Mutex<Option<OnSettled>>,
}

impl DelayedOperation for DelayedCommit {
    fn is_satisfied(&self) -> bool {
        self.partition.commit_status(self.end, self.epoch) != CommitStatus::Pending
    }

    fn complete(self: Arc<Self>, how: Completion) {
        let settled = self.settled.lock().take();
        // A broker that stops tells its coordinators so itself.
        if let Some(settled) = settled.filter(|_| how != Completion::Stopped) {
            settled();
        }
    }

    fn timeout_ms(&self) -> u64 {
        WATCH_MS
    }
}
