//! From a record to its partition, as Kafka's own producer picks it.
//!
//! - a record that names its partition goes there
//! - a record with a key goes to `(murmur2(key) & 0x7fffffff) % partition count`. So one key is in
//!   one partition for every client with this rule. With `partitioner=consistent_random` it goes to
//!   librdkafka's default, `crc32(key) % partition count`
//! - other records stick to one partition for 16 KiB, or `batch.size` if that is less. Then they
//!   move on, more often to partitions with shorter queues. So batches are full, and slow brokers
//!   get less
//!
//! Source: Kafka's `Utils.murmur2` and `BuiltInPartitioner`, KIP-480, KIP-794.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use crate::config::PartitionerKind;

#[cfg(test)]
mod tests;

/// Kafka's hash of keys: MurmurHash2 of 32 bits with the seed that Kafka chose.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of `key` in a topic of `partition_count` partitions (at least one).
#[must_use]
pub fn partition_of_key(key: &[u8], partition_count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partition_count.max(1)
}

/// The partition of a record where its key decides about it.
#[must_use]
pub fn by_key(kind: PartitionerKind, key: Option<&[u8]>, partition_count: u32) -> Option<u32> {
    match kind {
        PartitionerKind::Murmur2 => key.map(|key| partition_of_key(key, partition_count)),
        // To librdkafka an empty key is none.
        PartitionerKind::ConsistentRandom => key
            .filter(|key| !key.is_empty())
            .map(|key| crc32fast::hash(key) % partition_count.max(1)),
        PartitionerKind::RoundRobin => None,
    }
}

/// How long each partition's queue is, turned into chances: cumulative, the last is the sum.
#[derive(Debug, PartialEq, Eq)]
pub struct Loads {
    partitions: Vec<u32>,
    cumulative: Vec<u64>,
}

impl Loads {
    /// Chances from `(partition, queued batches)` of the partitions that can be written to.
    ///
    /// `None` where all are alike and none of the topic's `partition_count` is missing: then no
    /// table is needed. A queue of the longest length has one chance, an empty one `longest + 1`.
    #[must_use]
    pub fn from_queues(queues: &[(u32, u32)], partition_count: u32) -> Option<Self> {
        let longest = queues.iter().map(|(_, queued)| *queued).max()?;
        let alike = queues.iter().all(|(_, queued)| *queued == longest);
        if alike && queues.len() == partition_count as usize {
            return None;
        }
        let mut sum = 0;
        let cumulative = queues.iter().map(|(_, queued)| {
            sum += u64::from(longest - queued) + 1;
            sum
        });
        let cumulative = cumulative.collect();
        Some(Self {
            partitions: queues.iter().map(|(partition, _)| *partition).collect(),
            cumulative,
        })
    }

    /// The partition for a `random` number.
    fn pick(&self, random: u32) -> Option<u32> {
        let sum = *self.cumulative.last()?;
        let at = u64::from(random) % sum;
        let index = self.cumulative.partition_point(|end| *end <= at);
        self.partitions.get(index).copied()
    }
}

/// The partition that keyless records of one topic stick to.
///
/// Threads that send at once may both find that it is time to move on; one of them moves.
#[derive(Debug)]
pub struct Sticky {
    /// Upper half: 1 + the partition, 0 for none yet. Lower half: bytes sent there.
    state: AtomicU64,
    /// State of the generator of random numbers (xorshift64*).
    random: AtomicU64,
    loads: ArcSwapOption<Loads>,
}

/// Kafka's `batch.size`. With larger batches a slow producer would stay at one partition for
/// minutes. A fast producer fills the batches of several partitions at once.
const STICKY_BYTES: u32 = 16_384;
const PARTITION_SHIFT: u32 = 32;
const BYTES_MASK: u64 = 0xffff_ffff;

impl Sticky {
    /// Stuck to nothing yet; `seed` decides what is random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(0),
            random: AtomicU64::new(seed | 1),
            loads: ArcSwapOption::empty(),
        }
    }

    /// Replaces the chances of each partition; `None` makes all alike.
    pub fn set_loads(&self, loads: Option<Loads>) {
        if loads.is_some() || self.loads.load().is_some() {
            self.loads.store(loads.map(Arc::new));
        }
    }

    /// The partition to send to now, of `partition_count` (at least one).
    #[must_use]
    pub fn current(&self, partition_count: u32) -> u32 {
        let state = self.state.load(Ordering::Relaxed);
        let partition = (state >> PARTITION_SHIFT) as u32;
        if partition == 0 || partition > partition_count {
            return self.move_on(state, partition_count);
        }
        partition - 1
    }

    /// Notes that `bytes` were sent to `partition`. Moves on after `batch_size` bytes, or
    /// [`STICKY_BYTES`] if that is less, if the batch `ended` there, after twice as many in any
    /// case: moving in mid-batch leaves small batches.
    pub fn sent(&self, partition: u32, bytes: usize, ended: bool, batch_size: u32, count: u32) {
        let state = self.state.load(Ordering::Relaxed);
        if (state >> PARTITION_SHIFT) as u32 != partition + 1 {
            return;
        }
        let sent = (state & BYTES_MASK) + bytes as u64;
        let limit = u64::from(batch_size.min(STICKY_BYTES));
        if sent >= 2 * limit || (sent >= limit && ended) {
            self.move_on(state, count);
        } else {
            // Two threads at once may lose bytes of one of them: it sticks a little longer.
            let next = (state & !BYTES_MASK) | sent.min(BYTES_MASK);
            let _ = self.state.compare_exchange(state, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn move_on(&self, from: u64, partition_count: u32) -> u32 {
        let random = self.next_random();
        let picked = self.loads.load().as_ref().and_then(|loads| loads.pick(random));
        let count = partition_count.max(1);
        let partition = picked.filter(|partition| *partition < count).unwrap_or(random % count);
        let next = u64::from(partition + 1) << PARTITION_SHIFT;
        match self.state.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => partition,
            Err(moved) => {
                let theirs = (moved >> PARTITION_SHIFT) as u32;
                if theirs == 0 || theirs > count { partition } else { theirs - 1 }
            }
        }
    }

    /// The partitions one after the other, whatever sticks.
    #[must_use]
    pub fn next_in_turn(&self, partition_count: u32) -> u32 {
        let turn = self.state.fetch_add(1, Ordering::Relaxed);
        (turn % u64::from(partition_count.max(1))) as u32
    }

    fn next_random(&self) -> u32 {
        let mut x = self.random.load(Ordering::Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.store(x, Ordering::Relaxed);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}
