//! The batches of one partition that wait to be sent: closed ones, and an open one at the end.
//!
//! Two locks. An append holds the lock of the open batch while it copies, which may be a megabyte.
//! The closed batches are shared with the sender under a short lock. So the sender waits for no
//! copy, and a caller that appends without a pause does not starve it. Both are taken in that
//! order. The sender keeps the batches that it took: batches to be sent again never come back here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
    /// Whether a batch is full now.
    pub filled: bool,
}

/// Why records were not appended.
pub struct NoRoom<T> {
    /// Bytes that are needed at least.
    pub needed: usize,
    /// The token of the record.
    pub token: Option<T>,
    /// What to do about it.
    pub why: Refusal,
}

/// Why a queue takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no memory now; there may be later.
    Memory,
    /// The partition is gone, as its topic was made again with fewer of them: choose another.
    Gone,
    /// The producer is closed.
    Closed,
}

/// Of those who append.
struct Tail<T> {
    open: Option<OpenBatch<T>>,
    /// Size of the last batch, for the next one's first buffer.
    last_size: usize,
    /// Why nothing is appended any more, if so.
    refuses: Option<Refusal>,
}

/// What the sender looks at.
struct Queue<T> {
    closed: VecDeque<Batch<T>>,
    /// When the open batch was begun.
    open_since: Option<Instant>,
    /// Whether the sender knows that there is something here; true while a batch is open.
    awake: bool,
}

impl<T> Queue<T> {
    /// Whether the open batch goes although it is not full.
    fn is_due(&self, now: Instant, linger: Duration, at_once: bool) -> bool {
        self.open_since.is_some_and(|since| at_once || since + linger <= now)
    }
}

/// The queue of one partition.
pub struct PartitionQueue<T> {
    topic: Arc<str>,
    partition: i32,
    /// The producer's own number of this queue, from 0 without gaps.
    index: u32,
    tail: Mutex<Tail<T>>,
    queue: Mutex<Queue<T>>,
    /// Batches in the queue and with the sender.
    load: AtomicU32,
    /// Whether the topic has no such partition any more. Changes under the tail's lock.
    gone: AtomicBool,
}

impl<T> PartitionQueue<T> {
    pub(super) fn new(topic: Arc<str>, partition: i32, index: u32, shut: bool) -> Arc<Self> {
        let refuses = shut.then_some(Refusal::Closed);
        let tail = Mutex::new(Tail { open: None, last_size: 0, refuses });
        let queue = Queue { closed: VecDeque::new(), open_since: None, awake: false };
        let (queue, load) = (Mutex::new(queue), AtomicU32::new(0));
        let gone = AtomicBool::new(false);
        Arc::new(Self { topic, partition, index, tail, queue, load, gone })
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
        let mut tail = self.tail.lock();
        let tail = &mut *tail;
        let mut news = News::default();
        let bound = records.peek().map_or(0, Record::size_bound);
        let no_room = |token, why| NoRoom { needed: HEADER_LENGTH + bound, token, why };
        if let Some(why) = tail.refuses {
            return Err((no_room(token, why), news));
        }
        if let Some(batch) = &mut tail.open
            && !make_room(batch, bound, limits, ticket)
        {
            self.close(tail);
            news.filled = true;
        }
        if tail.open.is_none() {
            tail.open = self.open(tail.last_size, bound, limits, ticket, open);
            news.awoke = tail.open.as_ref().is_some_and(|batch| self.rouse(batch.created));
        }
        let Some(batch) = &mut tail.open else {
            return Err((no_room(token, Refusal::Memory), news));
        };
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
        let mut run = Run {
            handle: Arc::clone(&batch.handle),
            first: index,
            count: batch.count - index,
            bytes: batch.buffer.len() - before,
            filled: news.filled,
        };
        if let (Some(value), Some(record)) = (token, records.peek()) {
            batch.tokens.push(Token { index, timestamp_ms: record.timestamp_ms, value });
            records.next();
        }
        // A batch without room for one more like the last goes now, not when the next one comes.
        if batch.buffer.len() + last_bound > limits.batch_size {
            self.close(tail);
            news.filled = true;
            run.filled = true;
        }
        Ok((run, news))
    }

    /// Notes that a batch was begun; returns whether the sender must be woken.
    fn rouse(&self, since: Instant) -> bool {
        let mut queue = self.queue.lock();
        queue.open_since = Some(since);
        !std::mem::replace(&mut queue.awake, true)
    }

    fn open(
        &self,
        last_size: usize,
        bound: usize,
        limits: &Limits,
        ticket: Option<Ticket>,
        open: impl FnOnce(&Arc<Handle<T>>) -> (Instant, u64),
    ) -> Option<OpenBatch<T>> {
        let needed = HEADER_LENGTH + bound;
        let expected = last_size.max(FIRST_BUFFER_BYTES).min(limits.batch_size).max(needed);
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

    fn close(&self, tail: &mut Tail<T>) {
        if let Some(batch) = tail.open.take() {
            tail.last_size = batch.buffer.len();
            let mut queue = self.queue.lock();
            queue.open_since = None;
            queue.closed.push_back(batch.close());
        }
    }

    /// Closes the open batch if `goes` still says so once no caller writes into it.
    fn close_if(&self, goes: impl Fn(&Queue<T>) -> bool) {
        if goes(&self.queue.lock()) {
            let mut tail = self.tail.lock();
            // The caller that wrote into it may have closed it, and begun another.
            let still = goes(&self.queue.lock());
            if still {
                self.close(&mut tail);
            }
        }
    }

    /// Takes the next batch to send; an open one only if `now` is `linger` after its first record,
    /// or if it must go at once.
    pub(crate) fn take(&self, now: Instant, linger: Duration, at_once: bool) -> Option<Batch<T>> {
        self.close_if(|queue| queue.closed.is_empty() && queue.is_due(now, linger, at_once));
        self.queue.lock().closed.pop_front()
    }

    /// When there will be something to take: `Ready` now, `At` a time, or never. Where there is
    /// nothing, the next one who appends rouses the sender.
    pub(crate) fn readiness(&self, now: Instant, linger: Duration, at_once: bool) -> Readiness {
        let mut queue = self.queue.lock();
        if !queue.closed.is_empty() {
            return Readiness::Ready;
        }
        match queue.open_since {
            Some(_) if queue.is_due(now, linger, at_once) => Readiness::Ready,
            Some(since) => Readiness::At(since + linger),
            None => {
                queue.awake = false;
                Readiness::Empty
            }
        }
    }

    /// Bytes of the batch that [`Self::take`] would take, before compression.
    pub(crate) fn next_size(&self) -> usize {
        if let Some(size) = self.closed_size() {
            return size;
        }
        let tail = self.tail.lock();
        // The caller that wrote into the open batch may have closed it meanwhile.
        self.closed_size().or_else(|| tail.open.as_ref().map(|open| open.buffer.len())).unwrap_or(0)
    }

    /// Bytes of the first batch that takes no more records, before compression, if there is one.
    fn closed_size(&self) -> Option<usize> {
        self.queue.lock().closed.front().map(Batch::size)
    }

    /// A batch became two.
    pub(crate) fn batch_split(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    /// When its oldest batch was begun.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let queue = self.queue.lock();
        let closed = queue.closed.front().map(Batch::created);
        closed.or(queue.open_since)
    }

    /// Takes batches that were begun at or before `until`: they wait for too long.
    pub(crate) fn take_older(&self, until: Instant) -> Vec<Batch<T>> {
        self.close_if(|queue| queue.open_since.is_some_and(|since| since <= until));
        let mut queue = self.queue.lock();
        let old = queue.closed.iter().take_while(|batch| batch.created() <= until).count();
        queue.closed.drain(..old).collect()
    }

    /// Takes everything, as the producer closes, and appends nothing any more.
    pub(crate) fn shut(&self) -> Vec<Batch<T>> {
        self.refuse(Refusal::Closed)
    }

    /// Takes everything, as the topic has no such partition any more; see [`Self::revive`].
    pub(super) fn retire(&self) -> Vec<Batch<T>> {
        self.refuse(Refusal::Gone)
    }

    fn refuse(&self, why: Refusal) -> Vec<Batch<T>> {
        let mut tail = self.tail.lock();
        if why == Refusal::Gone {
            self.gone.store(true, Ordering::SeqCst);
        }
        if tail.refuses != Some(Refusal::Closed) {
            tail.refuses = Some(why);
        }
        self.close(&mut tail);
        self.queue.lock().closed.drain(..).collect()
    }

    /// The topic has such a partition again. Its sequence goes on. A broker without a last sequence
    /// takes any. A broker with one takes the next, for example if the partition was never gone.
    pub(super) fn revive(&self) {
        let mut tail = self.tail.lock();
        self.gone.store(false, Ordering::SeqCst);
        if tail.refuses == Some(Refusal::Gone) {
            tail.refuses = None;
        }
    }

    /// Whether the topic has no such partition any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
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
