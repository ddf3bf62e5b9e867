//! The accumulator: records become record batches, one open batch for each partition.
//!
//! A record is written straight into its partition's open batch under a short lock; nothing else is
//! allocated for it. The sender takes batches out when they are full, `linger.ms` old, or when a
//! caller flushes, closes, or waits for memory. `buffer.memory` counts the buffers of batches from
//! the first record until their fate is known. It has no thread and no timer of its own.
//! Source: the roles are those of Kafka's `RecordAccumulator`.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kafkalite_protocol::Uuid;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::config::PartitionerKind;
use crate::error::ClientError;
use crate::producer::partitioner::by_key;

mod batch;
mod delivery;
mod memory;
mod queue;
#[cfg(test)]
mod tests;
mod topic_queues;

pub use batch::{Batch, Record, Stamp};
pub use delivery::{Failure, Handle, Landed, RecordMetadata, Report, Sink, Token};
pub use memory::{Memory, Reservation, Ticket, Wake};
pub use queue::{News, NoRoom, PartitionQueue, Readiness, Refusal, Run};
pub(crate) use topic_queues::Retired;
pub use topic_queues::TopicQueues;

/// What of a producer's configuration concerns the accumulator.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `batch.size`, in bytes.
    pub batch_size: usize,
    /// `buffer.memory`, in bytes.
    pub buffer_memory: usize,
    /// `max.request.size`, in bytes: no record is larger.
    pub max_request_size: usize,
    /// `partitioner`.
    pub partitioner: PartitionerKind,
    /// `partitioner.ignore.keys`: keys do not decide about partitions.
    pub ignore_keys: bool,
}

/// What the sender wants to be woken for, as it sleeps.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Nothing: it does not sleep, or cannot send any more for now.
    Nothing = 0,
    /// A full batch; for others it has a timer.
    Filled = 1,
    /// Any record.
    Anything = 2,
}

/// A record that was appended.
pub struct Place<T> {
    /// Knows what becomes of it.
    pub handle: Arc<Handle<T>>,
    /// Its index there.
    pub index: u32,
}

struct Topics<T> {
    by_name: HashMap<Arc<str>, Arc<TopicQueues<T>>>,
    /// Whether queues take nothing any more.
    shut: bool,
}

/// All batches of a producer that wait to be sent.
pub struct Accumulator<T> {
    settings: Settings,
    limits: queue::Limits,
    topics: RwLock<Topics<T>>,
    queue_count: AtomicU32,
    /// Queues that have something since the sender looked last.
    roused: Mutex<Vec<Arc<PartitionQueue<T>>>>,
    /// What waited for partitions that are gone, since the sender looked last.
    retired: Mutex<Vec<Retired<T>>>,
    /// Handles of batches whose fate is not known, by serial: what a flush waits for.
    incomplete: Mutex<BTreeMap<u64, Arc<Handle<T>>>>,
    next_serial: AtomicU64,
    flushes: AtomicU32,
    closed: AtomicBool,
    failure: OnceLock<Failure>,
    wants: AtomicU8,
    /// Counts what the sender may have missed between looking and sleeping.
    events: AtomicU64,
    wake: Notify,
    seed: AtomicU64,
    /// Asked once for each batch.
    clock: Clock,
}

impl<T> Accumulator<T> {
    /// Empty; `seed` decides what is random.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Arc<Self> {
        Self::with_clock(settings, seed, Box::new(Instant::now))
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(settings: Settings, seed: u64, clock: Clock) -> Arc<Self> {
        let memory = Memory::new(settings.buffer_memory);
        Arc::new(Self {
            limits: queue::Limits { batch_size: settings.batch_size, memory },
            settings,
            topics: RwLock::new(Topics { by_name: HashMap::new(), shut: false }),
            queue_count: AtomicU32::new(0),
            roused: Mutex::default(),
            retired: Mutex::default(),
            incomplete: Mutex::default(),
            next_serial: AtomicU64::new(0),
            flushes: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            failure: OnceLock::new(),
            wants: AtomicU8::new(Wants::Nothing as u8),
            events: AtomicU64::new(0),
            wake: Notify::new(),
            seed: AtomicU64::new(seed),
            clock,
        })
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.limits.memory
    }

    /// The topic's queues, if it was sent to before.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<Arc<TopicQueues<T>>> {
        self.topics.read().by_name.get(name).cloned()
    }

    /// All topics that were sent to.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<TopicQueues<T>>> {
        self.topics.read().by_name.values().cloned().collect()
    }

    /// Learns that the topic of this name has this id and `partition_count` partitions. Batches
    /// that wait for partitions of an earlier topic of the name are left to the sender to fail.
    pub fn follow(&self, name: &str, id: Uuid, partition_count: u32) -> Arc<TopicQueues<T>> {
        if let Some(topic) = self.topic(name).filter(|topic| topic.is_like(id, partition_count)) {
            return topic;
        }
        let mut topics = self.topics.write();
        let topic = match topics.by_name.get(name) {
            Some(topic) => Arc::clone(topic),
            None => {
                let name: Arc<str> = Arc::from(name);
                let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                let topic = TopicQueues::new(Arc::clone(&name), seed);
                topics.by_name.insert(name, Arc::clone(&topic));
                topic
            }
        };
        let retired = topic.follow(id, partition_count, |partition| {
            let index = self.queue_count.fetch_add(1, Ordering::Relaxed);
            let name = Arc::clone(topic.name());
            PartitionQueue::new(name, partition as i32, index, topics.shut)
        });
        drop(topics);
        if !retired.is_empty() {
            self.retired.lock().extend(retired);
            self.nudge();
        }
        topic
    }

    /// The partition that a record with this key goes to, unless it names one itself.
    #[must_use]
    pub fn partition(&self, topic: &TopicQueues<T>, key: Option<&[u8]>) -> u32 {
        let count = topic.partition_count();
        if self.settings.partitioner == PartitionerKind::RoundRobin {
            return topic.sticky().next_in_turn(count);
        }
        self.key_partition(key, count).unwrap_or_else(|| topic.sticky().current(count))
    }

    /// The partition of a key, where keys decide.
    #[must_use]
    pub fn key_partition(&self, key: Option<&[u8]>, partition_count: u32) -> Option<u32> {
        let key = key.filter(|_| !self.settings.ignore_keys);
        by_key(self.settings.partitioner, key, partition_count)
    }

    /// Refuses a record that no request can carry.
    ///
    /// # Errors
    /// `MessageTooLarge` with the key that limits it.
    #[inline]
    pub fn check_size(&self, record: &Record<'_>) -> Result<(), ClientError> {
        let size = record.size_bound();
        let (limit, limit_key) = (self.settings.max_request_size, "max.request.size");
        if size > limit {
            return Err(ClientError::MessageTooLarge { size, limit, limit_key });
        }
        let (limit, limit_key) = (self.settings.buffer_memory, "buffer.memory");
        if size + kafkalite_protocol::record_batch::HEADER_LENGTH > limit {
            return Err(ClientError::MessageTooLarge { size, limit, limit_key });
        }
        Ok(())
    }

    /// Appends one record; with a `token`, the sink gets its outcome.
    ///
    /// # Errors
    /// If there is no memory now, or other callers wait for it already and `ticket` is not the
    /// first. If the topic has no such partition any more.
    pub fn append(
        &self,
        topic: &TopicQueues<T>,
        partition: u32,
        record: Record<'_>,
        token: Option<T>,
        ticket: Option<Ticket>,
    ) -> Result<Place<T>, NoRoom<T>> {
        let mut one = std::iter::once(record).peekable();
        let run = self.append_run(topic, partition, &mut one, token, ticket)?;
        if run.filled {
            self.tell_filled();
        }
        Ok(Place { handle: run.handle, index: run.first })
    }

    /// Appends records for as long as they go into one batch of `partition`; call again for more.
    ///
    /// Where a batch is full now, the caller calls [`Self::tell_filled`].
    ///
    /// # Errors
    /// If there is no memory for the first of them, or no such partition any more.
    pub fn append_run<'a, I>(
        &self,
        topic: &TopicQueues<T>,
        partition: u32,
        records: &mut std::iter::Peekable<I>,
        token: Option<T>,
        ticket: Option<Ticket>,
    ) -> Result<Run<T>, NoRoom<T>>
    where
        I: Iterator<Item = Record<'a>>,
    {
        let partitions = topic.peek();
        let Some(queue) = partitions.get(partition as usize) else {
            return Err(NoRoom { needed: 0, token, why: Refusal::Gone });
        };
        let open = |handle: &Arc<Handle<T>>| {
            let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
            // Before others can add to the batch: one of them may flush or close next.
            self.incomplete.lock().insert(serial, Arc::clone(handle));
            ((self.clock)(), serial)
        };
        let appended = queue.append(records, token, &self.limits, ticket, open);
        let (result, news) = match appended {
            Ok((run, news)) => {
                let (batch_size, count) = (self.settings.batch_size as u32, partitions.len());
                if self.settings.partitioner != PartitionerKind::RoundRobin {
                    topic.sticky().sent(
                        partition,
                        run.bytes,
                        news.filled,
                        batch_size,
                        count as u32,
                    );
                }
                (Ok(run), news)
            }
            Err((refused, news)) => {
                if news.filled {
                    self.tell_filled();
                }
                (Err(refused), news)
            }
        };
        if news.awoke {
            self.roused.lock().push(Arc::clone(queue));
            self.tell(false);
        }
        result
    }

    /// Tells the sender of a full batch.
    pub fn tell_filled(&self) {
        self.tell(true);
    }

    #[cold]
    fn tell(&self, filled: bool) {
        self.events.fetch_add(1, Ordering::SeqCst);
        let wants = self.wants.load(Ordering::SeqCst);
        let wanted = (wants == Wants::Anything as u8) || (wants == Wants::Filled as u8 && filled);
        if wanted {
            self.wants.store(Wants::Nothing as u8, Ordering::SeqCst);
            self.wake.notify_one();
        }
    }

    /// Wakes the sender, whatever it wants.
    pub fn nudge(&self) {
        self.events.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Where events stand; see [`Self::sleep`].
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::SeqCst)
    }

    /// Waits for something that the sender wants, unless something happened since `events`.
    pub async fn sleep(&self, wants: Wants, events: u64) {
        self.wants.store(wants as u8, Ordering::SeqCst);
        if wants == Wants::Nothing || self.events.load(Ordering::SeqCst) == events {
            self.wake.notified().await;
        }
    }

    /// The sender is awake: callers need not wake it.
    pub fn awake(&self) {
        self.wants.store(Wants::Nothing as u8, Ordering::SeqCst);
    }

    /// The queues that got something since this was asked last.
    pub fn take_roused(&self) -> Vec<Arc<PartitionQueue<T>>> {
        std::mem::take(&mut *self.roused.lock())
    }

    /// What waited for partitions that are gone since this was asked last.
    pub(crate) fn take_retired(&self) -> Vec<Retired<T>> {
        std::mem::take(&mut *self.retired.lock())
    }

    /// Whether open batches must go at once, whatever their age.
    #[must_use]
    pub fn at_once(&self) -> bool {
        self.flushes.load(Ordering::SeqCst) > 0 || self.is_closed() || self.memory().exhausted()
    }

    /// The fate of the batch's records is known; `all` of its handle's.
    pub fn completed(&self, serial: u64, all: bool) {
        if all {
            self.incomplete.lock().remove(&serial);
        }
    }

    /// Whether something is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.incomplete.lock().is_empty()
    }

    /// Begins a flush: until it is dropped, nothing lingers.
    #[must_use]
    pub fn flush(self: &Arc<Self>) -> Flush<T> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let waiting = self.incomplete.lock().values().cloned().collect();
        self.nudge();
        Flush { accumulator: Arc::clone(self), waiting, done: 0 }
    }

    /// What ended the producer, if it ended by itself.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }

    /// The producer ends by itself, because of `failure`.
    pub(crate) fn fail(&self, failure: &Failure) {
        let _ = self.failure.set(Arc::clone(failure));
    }

    /// Takes no more records.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.memory().close();
        self.nudge();
    }

    /// The sender ends: nothing is appended from here on. Gives what was left in the queues.
    pub(crate) fn shut(&self) -> Vec<(Arc<PartitionQueue<T>>, Batch<T>)> {
        self.close();
        let mut topics = self.topics.write();
        topics.shut = true;
        let queues = topics.by_name.values().flat_map(|topic| topic.all_queues());
        let left = queues.flat_map(|queue| {
            let batches = queue.shut();
            batches.into_iter().map(move |batch| (Arc::clone(&queue), batch))
        });
        let retired = self.take_retired().into_iter().flat_map(|(queue, batches)| {
            batches.into_iter().map(move |batch| (Arc::clone(&queue), batch))
        });
        left.chain(retired).collect()
    }

    /// Whether it takes no more records.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// A wait for everything that was appended before it began.
pub struct Flush<T> {
    accumulator: Arc<Accumulator<T>>,
    waiting: Vec<Arc<Handle<T>>>,
    done: usize,
}

impl<T> Flush<T> {
    /// Waits until `until`; whether everything is delivered or failed. Call again to go on waiting.
    pub fn wait(&mut self, until: Instant) -> bool {
        while let Some(handle) = self.waiting.get(self.done) {
            if !handle.wait_all(until) {
                return false;
            }
            self.done += 1;
        }
        true
    }
}

impl<T> Drop for Flush<T> {
    fn drop(&mut self) {
        self.accumulator.flushes.fetch_sub(1, Ordering::SeqCst);
    }
}
