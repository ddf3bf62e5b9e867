//! The batches of one partition that wait to be sent: closed ones, and an open one at the end.
//!
//! Those who append and the sender share it under a short lock. What the sender took out, it keeps:
//! batches to be sent again never come back here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kafkalite_protocol::record_batch::HEADER_LENGTH;
use parking_lot::Mutex;

use super::batch::{Batch, OpenBatch, Record};
use super::delivery::{Handle, Token};
use super::memory::{Memory, Ticket};

/// What an appending thread needs to know of the producer.
pub(super) struct Limits {
    pub(super) batch_size: usize,
    pub(super) memory: Arc<Memory>,
}

/// The first buffer of a partition's first batch; later ones are as large as the batch before.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// What happened while appending that the sender may want to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The queue had nothing before.
    pub awoke: bool,
    /// A batch is full.
    pub filled: bool,
}

/// A run of records that was appended to one batch.
pub struct Run<T> {
    /// Knows what becomes of them.
    pub handle: Arc<Handle<T>>,
    /// Index of the first.
    pub first: u32,
    /// How many; fewer than asked for where the batch ended or memory did.
    pub count: u32,
    /// Their bytes.
    pub bytes: usize,
}

/// Why records were not appended.
pub struct NoRoom<T> {
    /// Bytes that are needed at least.
    pub needed: usize,
    /// The token of the record.
    pub token: Option<T>,
    /// Whether the producer is closed; else they can be appended once there is memory.
    pub closed: bool,
}

struct Queue<T> {
    closed: VecDeque<Batch<T>>,
    open: Option<OpenBatch<T>>,
    /// Size of the last batch, for the next one's first buffer.
    last_size: usize,
    /// Whether the sender knows that there is something here.
    awake: bool,
    /// The sender is gone: nothing is appended any more.
    shut: bool,
}

/// The queue of one partition.
pub struct PartitionQueue<T> {
    topic: Arc<str>,
    partition: i32,
    /// The producer's own number of this queue, from 0 without gaps.
    index: u32,
    queue: Mutex<Queue<T>>,
    /// Batches in the queue and with the sender.
    load: AtomicU32,
}

impl<T> PartitionQueue<T> {
    pub(super) fn new(topic: Arc<str>, partition: i32, index: u32, shut: bool) -> Arc<Self> {
        let closed = VecDeque::new();
        let queue = Queue { closed, open: None, last_size: 0, awake: false, shut };
        let load = AtomicU32::new(0);
        Arc::new(Self { topic, partition, index, queue: Mutex::new(queue), load })
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Counted from 0.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The producer's own number of this queue, from 0 without gaps.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Batches that wait or are with the sender: what the adaptive partitioner looks at.
    #[must_use]
    pub fn load(&self) -> u32 {
        self.load.load(Ordering::Relaxed)
    }

    /// One batch less is with the sender, as it is delivered or failed.
    pub(crate) fn batch_done(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// Appends records from the iterator for as long as they go into one batch.
    ///
    /// Stops in front of a record for which there is no memory: then `Err` with the bytes it needs,
    /// if it was the first. A full batch ends the run; call again for the rest.
    pub(super) fn append<'a, I>(
        &self,
        records: &mut std::iter::Peekable<I>,
        token: Option<T>,
        limits: &Limits,
        ticket: Option<Ticket>,
        open: impl FnOnce(&Arc<Handle<T>>) -> (Instant, u64),
    ) -> Result<(Run<T>, News), (NoRoom<T>, News)>
    where
        I: Iterator<Item = Record<'a>>,
    {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        let mut news = News::default();
        let bound = records.peek().map_or(0, Record::size_bound);
        let no_room = |token, closed| NoRoom { needed: HEADER_LENGTH + bound, token, closed };
        if queue.shut {
            return Err((no_room(token, true), news));
        }
        if let Some(batch) = &mut queue.open
            && !make_room(batch, bound, limits, ticket)
        {
            self.close(queue);
            news.filled = true;
        }
        if queue.open.is_none() {
            match self.open(queue, bound, limits, ticket, open) {
                Some(batch) => queue.open = Some(batch),
                None => {
                    news.awoke = self.rouse(queue);
                    return Err((no_room(token, false), news));
                }
            }
        }
        news.awoke = self.rouse(queue);
        let Some(batch) = &mut queue.open else { return Err((no_room(token, false), news)) };
        let (index, before) = (batch.count, batch.buffer.len());
        let mut last_bound = bound;
        while let Some(record) = records.peek() {
            let bound = record.size_bound();
            if batch.free() < bound && !make_room(batch, bound, limits, ticket) {
                break;
            }
            batch.push(record);
            last_bound = bound;
            if token.is_some() {
                break;
            }
            records.next();
        }
        let run = Run {
            handle: Arc::clone(&batch.handle),
            first: index,
            count: batch.count - index,
            bytes: batch.buffer.len() - before,
        };
        if let (Some(value), Some(record)) = (token, records.peek()) {
            batch.tokens.push(Token { index, timestamp_ms: record.timestamp_ms, value });
            records.next();
        }
        // A batch without room for one more like the last goes now, not when the next one comes.
        if batch.buffer.len() + last_bound > limits.batch_size {
            self.close(queue);
            news.filled = true;
        }
        Ok((run, news))
    }

    fn rouse(&self, queue: &mut Queue<T>) -> bool {
        let has_something = queue.open.is_some() || !queue.closed.is_empty();
        has_something && !std::mem::replace(&mut queue.awake, true)
    }

    fn open(
        &self,
        queue: &mut Queue<T>,
        bound: usize,
        limits: &Limits,
        ticket: Option<Ticket>,
        open: impl FnOnce(&Arc<Handle<T>>) -> (Instant, u64),
    ) -> Option<OpenBatch<T>> {
        let needed = HEADER_LENGTH + bound;
        let expected = queue.last_size.max(FIRST_BUFFER_BYTES).min(limits.batch_size).max(needed);
        let buffer = limits.memory.buffer(expected);
        let (mut buffer, memory) = match limits.memory.try_reserve(buffer.capacity(), ticket) {
            Some(memory) => (buffer, memory),
            None => (Vec::with_capacity(needed), limits.memory.try_reserve(needed, ticket)?),
        };
        buffer.resize(HEADER_LENGTH, 0);
        let handle = Handle::new(Arc::clone(&self.topic), self.partition);
        let (created, serial) = open(&handle);
        self.load.fetch_add(1, Ordering::Relaxed);
        Some(OpenBatch {
            buffer,
            count: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            created,
            handle,
            tokens: Vec::new(),
            memory,
            serial,
        })
    }

    fn close(&self, queue: &mut Queue<T>) {
        if let Some(batch) = queue.open.take() {
            queue.last_size = batch.buffer.len();
            queue.closed.push_back(batch.close());
        }
    }

    /// Takes the next batch to send; an open one only if `now` is `linger` after its first record,
    /// or if it must go at once.
    pub(crate) fn take(&self, now: Instant, linger: Duration, at_once: bool) -> Option<Batch<T>> {
        let mut queue = self.queue.lock();
        if queue.closed.is_empty()
            && queue.open.as_ref().is_some_and(|open| at_once || open.created + linger <= now)
        {
            self.close(&mut queue);
        }
        queue.closed.pop_front()
    }

    /// When there will be something to take: `Ready` now, `At` a time, or never. Where there is
    /// nothing, the next one who appends rouses the sender.
    pub(crate) fn readiness(&self, now: Instant, linger: Duration, at_once: bool) -> Readiness {
        let mut queue = self.queue.lock();
        if !queue.closed.is_empty() {
            return Readiness::Ready;
        }
        match &queue.open {
            Some(open) if at_once || open.created + linger <= now => Readiness::Ready,
            Some(open) => Readiness::At(open.created + linger),
            None => {
                queue.awake = false;
                Readiness::Empty
            }
        }
    }

    /// Bytes of the batch that [`Self::take`] would take, before compression.
    pub(crate) fn next_size(&self) -> usize {
        let queue = self.queue.lock();
        let closed = queue.closed.front().map(Batch::size);
        closed.or_else(|| queue.open.as_ref().map(|open| open.buffer.len())).unwrap_or(0)
    }

    /// A batch became two.
    pub(crate) fn batch_split(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    /// When its oldest batch was begun.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let queue = self.queue.lock();
        let closed = queue.closed.front().map(Batch::created);
        closed.or_else(|| queue.open.as_ref().map(|open| open.created))
    }

    /// Takes batches that were begun at or before `until`: they wait for too long.
    pub(crate) fn take_older(&self, until: Instant) -> Vec<Batch<T>> {
        let mut queue = self.queue.lock();
        if queue.open.as_ref().is_some_and(|open| open.created <= until) {
            self.close(&mut queue);
        }
        let old = queue.closed.iter().take_while(|batch| batch.created() <= until).count();
        queue.closed.drain(..old).collect()
    }

    /// Takes everything, as the producer closes, and appends nothing any more.
    pub(crate) fn shut(&self) -> Vec<Batch<T>> {
        let mut queue = self.queue.lock();
        queue.shut = true;
        self.close(&mut queue);
        queue.closed.drain(..).collect()
    }
}

/// Whether a partition has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Now.
    Ready,
    /// Then, if nothing else happens.
    At(Instant),
    /// No.
    Empty,
}

/// Whether `bound` more bytes go into the batch; grows its buffer if it may and there is memory.
fn make_room<T>(
    batch: &mut OpenBatch<T>,
    bound: usize,
    limits: &Limits,
    ticket: Option<Ticket>,
) -> bool {
    let needed = batch.buffer.len() + bound;
    // A record that is larger than a batch has one for itself.
    if (needed > limits.batch_size && batch.count > 0) || batch.count == i32::MAX as u32 {
        return false;
    }
    if needed <= batch.buffer.capacity() {
        return true;
    }
    let wanted = (2 * batch.buffer.capacity()).min(limits.batch_size).max(needed);
    let missing = wanted.saturating_sub(batch.memory.bytes());
    let Some(more) = limits.memory.try_reserve(missing, ticket) else { return false };
    batch.memory.merge(more);
    batch.buffer.reserve_exact(wanted - batch.buffer.len());
    true
}
