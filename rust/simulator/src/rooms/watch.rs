//! What the replicas on the disks must never show, looked at after every step.
//!
//! - `mark-went-back`: a high watermark, a log start or a leader's log end fell in a leader epoch
//! - `mark-beyond-end`: a high watermark is above its own log's end
//! - `ahead-of-replica`: a leader's high watermark is above the log end of a replica in sync
//! - `replicas-differ`: a batch below one replica's high watermark has other bytes elsewhere
//! - `committed-lost`: a broker began to lead without a record that was committed
//! - `bad-crc`, `offset-gap`, `unreadable`: the bytes of a log are not sound

use crate::checker::Violation;
use crate::trace::Hash;
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_broker::partitions::Partition;
use kafkalite_log::Role;
use kafkalite_protocol::record_batch::Batches;
use kafkalite_protocol::{LeaderEpoch, Offset, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// A partition: its topic's id, and its index.
pub type Key = (u128, i32);

/// The key of a partition.
#[must_use]
pub fn key(id: Uuid, index: i32) -> Key {
    (u128::from_be_bytes(id.0), index)
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    life: u32,
    role: Role,
    high_watermark: i64,
    start: i64,
    end: i64,
    /// Up to where batches were compared.
    verified: i64,
}

/// A batch that was committed.
#[derive(Clone, Copy, Debug)]
struct Committed {
    end: i64,
    digest: u64,
    /// The epoch of the replica that showed it first.
    epoch: LeaderEpoch,
}

/// What was seen of all replicas.
#[derive(Debug, Default)]
pub struct Watch {
    /// Everything found.
    pub found: Vec<Violation>,
    committed: BTreeMap<Key, BTreeMap<i64, Committed>>,
    /// High watermarks of steps in which a disk failed: nothing can be read there.
    unread: BTreeMap<Key, i64>,
    marks: BTreeMap<(i32, Key), Marks>,
    /// Where logs began that dropped all records, or never had any: they know no producer of them.
    restarts: BTreeMap<Key, i64>,
    /// Logs that a planted fault or a disk damaged: reported once.
    told: BTreeSet<(i32, Key, &'static str)>,
}

impl Watch {
    fn report(&mut self, kind: &'static str, broker: i32, partition: &Partition, told: &str) {
        let (topic, index) = (partition.topic(), partition.index());
        if self.told.insert((broker, key(partition.topic_id(), index), kind)) {
            let (role, end) = (partition.log().role(), partition.log_end_offset().0);
            let mark = partition.high_watermark().0;
            let detail = format!(
                "broker {broker}, {topic}-{index}, {role}, high watermark {mark}, end {end}: {told}"
            );
            self.found.push(Violation::new(kind, detail));
        }
    }

    /// Whether the record at `offset` was below the high watermark of some replica.
    #[must_use]
    pub fn is_committed(&self, key: Key, offset: i64) -> bool {
        let batches = self.committed.get(&key);
        let before = batches.and_then(|batches| batches.range(..=offset).next_back());
        let unread = self.unread.get(&key).is_some_and(|end| offset < *end);
        unread || before.is_some_and(|(_, batch)| offset < batch.end)
    }

    /// The end of what was committed.
    #[must_use]
    pub fn committed_end(&self, key: Key) -> i64 {
        let last = self.committed.get(&key).and_then(|batches| batches.last_key_value());
        let unread = self.unread.get(&key).copied();
        last.map(|(_, batch)| batch.end).max(unread).unwrap_or(0)
    }

    /// Below this some replica does not know which producer wrote what.
    #[must_use]
    pub fn restarted_to(&self, key: Key) -> i64 {
        self.restarts.get(&key).copied().unwrap_or(0)
    }

    /// Looks at one replica after a step of its broker; words for the history.
    pub fn observe(&mut self, broker: i32, life: u32, partition: &Partition) -> Option<[u64; 4]> {
        let key = key(partition.topic_id(), partition.index());
        let (log, role) = (partition.log(), partition.log().role());
        let high_watermark = partition.high_watermark().0;
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        let old = self.marks.get(&(broker, key)).copied();
        let same_life = old.filter(|old| old.life == life);
        if let Some(old) = same_life.filter(|old| old.role == role) {
            if (old.high_watermark, old.start, old.end) == (high_watermark, start, end) {
                return None;
            }
            let leads = matches!(role, Role::Leader(_));
            for (what, was, is, counts) in [
                ("high watermark", old.high_watermark, high_watermark, true),
                ("log start", old.start, start, leads),
                ("log end", old.end, end, leads),
            ] {
                if counts && is < was {
                    let told = format!("the {what} was {was} and is {is}");
                    self.report("mark-went-back", broker, partition, &told);
                }
            }
        }
        if start == end && old.is_none_or(|old| old.end < start) {
            let restarts = self.restarts.entry(key).or_default();
            *restarts = start.max(*restarts);
        }
        if high_watermark > end {
            self.report("mark-beyond-end", broker, partition, "above the log end");
        }
        if matches!(role, Role::Leader(_)) && old.is_none_or(|old| old.role != role) {
            self.check_new_leader(broker, partition, key);
        }
        let verified = same_life.map_or(start, |old| old.verified.min(end).max(start));
        let verified = self.verify(broker, partition, (key, verified, high_watermark));
        let marks = Marks { life, role, high_watermark, start, end, verified };
        self.marks.insert((broker, key), marks);
        let index = u64::from(partition.index().unsigned_abs());
        Some([index, high_watermark as u64, start as u64, end as u64])
    }

    fn check_new_leader(&mut self, broker: i32, partition: &Partition, key: Key) {
        let epoch = partition.log().role().epoch();
        let committed = self.committed.get(&key);
        let earlier = committed.and_then(|all| all.values().rfind(|one| one.epoch < epoch));
        let Some(owed) = earlier.map(|one| one.end) else { return };
        if partition.log_end_offset().0 < owed {
            let told = format!("it leads without all committed records, which end at {owed}");
            self.report("committed-lost", broker, partition, &told);
        }
    }

    /// Reads what was committed since the last look; up to where it is compared now.
    fn verify(
        &mut self,
        broker: i32,
        partition: &Partition,
        (key, mut from, to): (Key, i64, i64),
    ) -> i64 {
        let log = partition.log();
        while from < to {
            let read = log.read(Offset(from), u32::MAX, Offset(to), true);
            let slices = match read {
                Ok(read) => read.slices,
                Err(_) if partition.is_offline() => {
                    let unread = self.unread.entry(key).or_insert(to);
                    *unread = to.max(*unread);
                    return from;
                }
                Err(error) => {
                    self.report("unreadable", broker, partition, &error.to_string());
                    return to;
                }
            };
            let bytes: Vec<u8> =
                slices.iter().flat_map(|slice| slice.read().unwrap_or_default()).collect();
            let before = from;
            for batch in Batches::new(&bytes).map_while(Result::ok) {
                let header = batch.header();
                let (base, end) = (header.base_offset.0, header.next_offset().0);
                if base > from {
                    let told = format!("a batch at {base} follows {from}");
                    self.report("offset-gap", broker, partition, &told);
                }
                if batch.verify_crc().is_err() {
                    let told = format!("the batch at {base} is damaged");
                    self.report("bad-crc", broker, partition, &told);
                }
                self.compare(broker, partition, key, (base, end), batch.bytes());
                from = end;
            }
            if from == before && spans(partition, from, to) {
                return from;
            }
            if from == before {
                let told = format!("nothing can be read at {from}, below the high watermark");
                self.report("unreadable", broker, partition, &told);
                return to;
            }
        }
        from
    }

    fn compare(
        &mut self,
        broker: i32,
        partition: &Partition,
        key: Key,
        (base, end): (i64, i64),
        bytes: &[u8],
    ) {
        let mut hash = Hash::default();
        hash.add_bytes(bytes);
        let epoch = partition.log().role().epoch();
        let batches = self.committed.entry(key).or_default();
        let before = batches.range(..end).next_back().map(|(base, batch)| (*base, *batch));
        match before.filter(|(_, batch)| batch.end > base) {
            None => _ = batches.insert(base, Committed { end, digest: hash.0, epoch }),
            Some((known, batch)) if (known, batch.end, batch.digest) == (base, end, hash.0) => {}
            Some((known, batch)) => {
                let told = format!("{base}..{end} was {known}..{} elsewhere", batch.end);
                self.report("replicas-differ", broker, partition, &told);
            }
        }
    }

    /// Compares a leader with the replicas that are in sync with it: those whose processes run.
    pub fn compare_in_sync(
        &mut self,
        broker: i32,
        partition: &Partition,
        image: &MetadataImage,
        end_of: impl Fn(i32) -> Option<i64>,
    ) {
        let Some(now) = image.partition(partition.topic(), partition.index()) else { return };
        if partition.log().role() != Role::Leader(now.leader_epoch) || now.leader != broker {
            return;
        }
        let high_watermark = partition.high_watermark().0;
        for replica in now.isr.iter().filter(|replica| **replica != broker) {
            if let Some(end) = end_of(*replica).filter(|end| *end < high_watermark) {
                let told = format!("replica {replica} is in sync and ends at {end}");
                self.report("ahead-of-replica", broker, partition, &told);
            }
        }
    }
}

/// Whether the batch that holds `from` ends above `to`. A crash may come after a checkpoint of high
/// watermarks and before one of log starts. If records were deleted up to the middle of a batch,
/// the high watermark is there until the leader tells another.
fn spans(partition: &Partition, from: i64, to: i64) -> bool {
    let log = partition.log();
    let Ok(read) = log.read(Offset(from), 1, log.log_end_offset(), true) else { return false };
    let bytes: Vec<u8> =
        read.slices.iter().flat_map(|slice| slice.read().unwrap_or_default()).collect();
    let first = Batches::new(&bytes).next().and_then(Result::ok);
    first.is_some_and(|batch| {
        batch.header().base_offset.0 <= from && batch.header().next_offset().0 > to
    })
}
