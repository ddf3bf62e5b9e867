//! An internal topic in memory: epochs, commits and failures as a test wants them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;

use crate::coordinator::runtime::{
    Appended, CoordinatorLog, CoordinatorTimer, LedPartition, OnSettled, TopicFacts,
};
use crate::partitions::CommitStatus;
use crate::purgatory::TimerTask;

/// One batch.
pub struct Stored {
    pub base: i64,
    pub end: i64,
    pub epoch: i32,
    pub bytes: Bytes,
}

/// One partition.
#[derive(Default)]
pub struct Memory {
    pub batches: Vec<Stored>,
    pub epoch: i32,
    /// How often the log was opened again in this epoch.
    pub opening: u64,
    /// Another broker leads.
    pub is_away: bool,
    /// The high watermark.
    pub committed: i64,
    watches: Vec<(Offset, LeaderEpoch, OnSettled)>,
}

impl Memory {
    pub fn end(&self) -> i64 {
        self.batches.last().map_or(0, |last| last.end)
    }

    fn status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        if self.is_away || epoch.0 != self.epoch {
            CommitStatus::Lost(ErrorCode::NotLeaderOrFollower)
        } else if self.committed >= end.0 {
            CommitStatus::Committed
        } else {
            CommitStatus::Pending
        }
    }

    fn settled(&mut self) -> Vec<OnSettled> {
        let watches = std::mem::take(&mut self.watches);
        let (pending, settled) = watches
            .into_iter()
            .partition(|(end, epoch, _)| self.status(*end, *epoch) == CommitStatus::Pending);
        self.watches = pending;
        settled.into_iter().map(|(.., settled)| settled).collect()
    }
}

/// The topic.
#[derive(Default)]
pub struct Inner {
    /// `None` while there is no such topic.
    pub id: Option<Uuid>,
    pub partitions: Vec<Memory>,
    /// Appends are not committed before [`MemoryTopic::commit`].
    pub holds: bool,
    pub fails: Option<ErrorCode>,
    /// The largest batch; 0 is any.
    pub max_batch_bytes: usize,
    /// What the next reads answer.
    pub read_fails: Option<ErrorCode>,
    /// Called by the next append, before it appends.
    pub on_append: Option<Box<dyn FnOnce() + Send>>,
    /// How often anything was read.
    pub reads: usize,
    /// Ids of the topics that groups read, by name.
    pub ids: BTreeMap<String, Uuid>,
}

#[derive(Default)]
pub struct MemoryTopic {
    pub inner: Mutex<Inner>,
}

impl MemoryTopic {
    /// A topic with so many partitions; none with 0.
    pub fn of(count: usize) -> Arc<Self> {
        let topic = Arc::new(Self::default());
        if count > 0 {
            topic.make(Uuid([7; 16]), count);
        }
        topic
    }

    /// Creates the topic, or replaces it by a new one.
    pub fn make(&self, id: Uuid, count: usize) {
        let mut inner = self.inner.lock();
        inner.id = Some(id);
        inner.partitions = (0..count).map(|_| Memory::default()).collect();
    }

    /// Changes a partition, and tells those who wait there.
    pub fn change(&self, index: usize, change: impl FnOnce(&mut Memory)) {
        let settled = {
            let mut inner = self.inner.lock();
            let partition = &mut inner.partitions[index];
            change(partition);
            partition.settled()
        };
        settled.into_iter().for_each(|settled| settled());
    }

    /// Commits all that is there.
    pub fn commit(&self) {
        let count = self.inner.lock().partitions.len();
        (0..count).for_each(|index| self.change(index, |one| one.committed = one.end()));
    }

    /// Another broker leads all partitions, and what was not committed is lost.
    pub fn depose(&self) {
        let count = self.inner.lock().partitions.len();
        (0..count).for_each(|index| self.change(index, |one| one.is_away = true));
    }

    pub fn batches(&self) -> usize {
        self.inner.lock().partitions.iter().map(|one| one.batches.len()).sum()
    }

    /// Appends as another broker would: committed, in the epoch of now.
    pub fn append(self: &Arc<Self>, index: usize, batch: Bytes) {
        let (epoch, opening) = {
            let partition = &self.inner.lock().partitions[index];
            (LeaderEpoch(partition.epoch), partition.opening)
        };
        MemoryLog { topic: Arc::clone(self), index, epoch, opening }.append(batch).unwrap();
        self.change(index, |one| one.committed = one.end());
    }

    /// The topic as a control plane and open logs would tell it.
    pub fn facts(self: &Arc<Self>) -> Option<TopicFacts> {
        let inner = self.inner.lock();
        let led = |(index, one): (usize, &Memory)| {
            let (epoch, opening) = (LeaderEpoch(one.epoch), one.opening);
            let log = MemoryLog { topic: Arc::clone(self), index, epoch, opening };
            (!one.is_away).then(|| LedPartition { epoch, opening, log: Arc::new(log) })
        };
        let partitions = inner.partitions.iter().enumerate().map(led).collect();
        inner.id.map(|id| TopicFacts { id, partitions })
    }
}

/// One partition in one epoch.
struct MemoryLog {
    topic: Arc<MemoryTopic>,
    index: usize,
    epoch: LeaderEpoch,
    opening: u64,
}

impl CoordinatorLog for MemoryLog {
    fn bounds(&self) -> (Offset, Offset) {
        let inner = self.topic.inner.lock();
        (Offset(0), Offset(inner.partitions[self.index].end()))
    }

    fn read(&self, from: Option<Offset>, to: Offset) -> Result<Bytes, ErrorCode> {
        let mut inner = self.topic.inner.lock();
        inner.reads += 1;
        if let Some(error) = inner.read_fails {
            return Err(error);
        }
        let from = from.map_or(0, |from| from.0);
        let batches = &inner.partitions[self.index].batches;
        // One batch at a time, so that the loader has to come back.
        let next = batches.iter().find(|one| one.end > from && one.base < to.0);
        Ok(next.map_or_else(Bytes::new, |one| one.bytes.clone()))
    }

    fn max_batch_bytes(&self) -> usize {
        match self.topic.inner.lock().max_batch_bytes {
            0 => usize::MAX,
            most => most,
        }
    }

    fn append(&self, batch: Bytes) -> Result<Appended, ErrorCode> {
        let on_append = self.topic.inner.lock().on_append.take();
        if let Some(on_append) = on_append {
            on_append();
        }
        let mut inner = self.topic.inner.lock();
        let (fails, holds) = (inner.fails, inner.holds);
        let partition = &mut inner.partitions[self.index];
        if partition.is_away || partition.epoch != self.epoch.0 {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if partition.opening != self.opening {
            return Err(ErrorCode::KafkaStorageError);
        }
        if let Some(error) = fails {
            return Err(error);
        }
        let base = partition.end();
        let mut header = BatchHeader::parse(&batch).unwrap();
        (header.base_offset, header.leader_epoch) = (Offset(base), self.epoch);
        let mut bytes = BytesMut::from(&batch[..]);
        bytes[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        let end = header.next_offset();
        let stored = Stored { base, end: end.0, epoch: self.epoch.0, bytes: bytes.freeze() };
        partition.batches.push(stored);
        if !holds {
            partition.committed = end.0;
        }
        Ok(Appended { base: Offset(base), end, status: partition.status(end, self.epoch) })
    }

    fn commit_status(&self, end: Offset) -> CommitStatus {
        self.topic.inner.lock().partitions[self.index].status(end, self.epoch)
    }

    fn watch(&self, end: Offset, settled: OnSettled) {
        self.topic.change(self.index, |one| one.watches.push((end, self.epoch, settled)));
    }
}

/// A timer that fires when the test says so.
#[derive(Default)]
pub struct TestTimer {
    tasks: Mutex<Vec<(u64, TimerTask)>>,
    now_ms: Mutex<u64>,
}

impl CoordinatorTimer for TestTimer {
    fn schedule(&self, delay_ms: u64, task: TimerTask) {
        let now_ms = *self.now_ms.lock();
        self.tasks.lock().push((now_ms + delay_ms, task));
    }
}

impl TestTimer {
    /// Time passes; what is due runs.
    pub fn pass(&self, ms: u64) {
        let due: Vec<TimerTask> = {
            let mut now_ms = self.now_ms.lock();
            *now_ms += ms;
            let mut tasks = self.tasks.lock();
            let (due, later) = tasks.drain(..).partition(|(at, _)| *at <= *now_ms);
            *tasks = later;
            due.into_iter().map(|(_, task): (u64, TimerTask)| task).collect()
        };
        due.into_iter().for_each(|task| task());
    }
}
