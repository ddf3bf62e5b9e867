//! The queues of one topic: as many as it has partitions, also after it was deleted and made again.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use kafkalite_protocol::Uuid;
use parking_lot::Mutex;

use super::{Batch, PartitionQueue};
use crate::producer::partitioner::Sticky;

/// The queues of one topic, and the partition that keyless records stick to.
pub struct TopicQueues<T> {
    name: Arc<str>,
    /// Those of the partitions that there are.
    partitions: ArcSwap<Vec<Arc<PartitionQueue<T>>>>,
    known: Mutex<Known<T>>,
    sticky: Sticky,
}

/// What was ever learned of the topic.
struct Known<T> {
    /// Zero while the brokers have not told one.
    id: Uuid,
    /// Of every partition that the name ever had: a queue keeps its place and its sequence.
    queues: Vec<Arc<PartitionQueue<T>>>,
}

/// A queue whose partition is gone, and the batches that waited in it.
pub(crate) type Retired<T> = (Arc<PartitionQueue<T>>, Vec<Batch<T>>);

impl<T> TopicQueues<T> {
    /// Without a partition; `seed` decides what is random.
    pub(super) fn new(name: Arc<str>, seed: u64) -> Arc<Self> {
        let known = Mutex::new(Known { id: Uuid::ZERO, queues: Vec::new() });
        let partitions = ArcSwap::from_pointee(Vec::new());
        Arc::new(Self { name, partitions, known, sticky: Sticky::new(seed) })
    }

    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How many partitions it has, as far as we know; at least one.
    #[must_use]
    pub fn partition_count(&self) -> u32 {
        self.partitions.load().len() as u32
    }

    /// The queues, by partition.
    #[must_use]
    pub fn queues(&self) -> Arc<Vec<Arc<PartitionQueue<T>>>> {
        self.partitions.load_full()
    }

    /// The same for a moment, and cheaper.
    pub(super) fn peek(&self) -> Guard<Arc<Vec<Arc<PartitionQueue<T>>>>> {
        self.partitions.load()
    }

    /// The queues of all partitions that the name ever had.
    pub(super) fn all_queues(&self) -> Vec<Arc<PartitionQueue<T>>> {
        self.known.lock().queues.clone()
    }

    /// The partition that keyless records stick to.
    #[must_use]
    pub fn sticky(&self) -> &Sticky {
        &self.sticky
    }

    /// Whether brokers gave the same id and count before.
    pub(super) fn is_like(&self, id: Uuid, count: u32) -> bool {
        self.known.lock().id == id && self.partition_count() == count
    }

    /// Follows the brokers' metadata of the topic; `make` makes the queue of a partition. Returns
    /// the records that waited for removed partitions.
    /// - case A: more partitions: new ones get records from now on
    /// - case B: fewer, and the same id: the broker lags behind, as a topic never loses a partition
    /// - case C: fewer, and another id: the topic was made again, and what waits for the others
    ///   waits for nothing
    /// - case D: fewer, and ids are not known, before Kafka 2.8: records go to the partitions that
    ///   there are. Records for the others wait for as long as they may
    pub(super) fn follow(
        &self,
        id: Uuid,
        count: u32,
        make: impl FnMut(u32) -> Arc<PartitionQueue<T>>,
    ) -> Vec<Retired<T>> {
        let mut known = self.known.lock();
        let (count, shown) = (count as usize, self.partitions.load().len());
        let is_other = !id.is_zero() && !known.id.is_zero() && known.id != id;
        if !id.is_zero() && known.id == id && count <= shown {
            return Vec::new();
        }
        if !id.is_zero() {
            known.id = id;
        }
        let first_new = known.queues.len() as u32;
        known.queues.extend((first_new..count as u32).map(make));
        known.queues[..count].iter().filter(|queue| queue.is_gone()).for_each(|q| q.revive());
        // First: who finds its queue retired chooses among these.
        self.partitions.store(Arc::new(known.queues[..count].to_vec()));
        let gone = known.queues[count..].iter().take(shown.saturating_sub(count));
        let gone = gone.filter(|_| is_other);
        gone.map(|queue| (Arc::clone(queue), queue.retire())).collect()
    }
}
