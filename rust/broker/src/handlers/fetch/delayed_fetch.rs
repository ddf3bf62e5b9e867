//! A fetch that found less than `min_bytes` and waits for more.
//!
//! It stops waiting when
//! - case A: its partitions have `min_bytes` that may be read
//! - case B: one of them has an error to report, or its reader's log diverged from ours
//! - case C: one of its offsets lies on an older segment: that one will not grow
//! - case D: it asks for nothing, or for no bytes
//! - case E: a replica nearer to its reader has one of its partitions (KIP-392)
//!
//! Within a session it looks at dirty partitions only, and waits at the session's notifier; those
//! that move meanwhile are looked at as well. A clean partition has nothing to be read, so leaving
//! it out miscounts nothing. Outside of a session it waits at each of its partitions.
//!
//! Whatever ended the wait, the answer is read then, once. A fetch that need not wait is one that
//! is satisfied at the first look.
//! Source: Kafka's `DelayedFetch`.

use crate::fetch_sessions::{FetchContext, Look, SharedSession};
use crate::partitions::{FetchReader, Fetched, Partition, ReplicaManager};
use crate::purgatory::{Asker, Caught, Completion, DelayedOperation, Purgatory, Wait, WaitsFor};
use crate::waiters::WatchList;
use kafkalite_log::FileSlice;
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Partitions that a waiting fetch names, at most.
const MOST_TOLD: usize = 100;
/// Looks at partitions that move meanwhile.
const TRIES: usize = 8;

/// One partition of a fetch, found or not.
#[derive(Clone)]
struct Wanted {
    look: Look,
    /// The partition, or why there is none.
    partition: Result<Arc<Partition>, ErrorCode>,
}

impl Wanted {
    /// Where fetches of the partition wait, if it was found.
    fn waiters(&self) -> Option<Arc<WatchList>> {
        self.partition.as_ref().ok().map(|partition| partition.fetch_waiters().clone())
    }
}

/// How much, how long, and for whom.
#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// The request.
    pub asker: Asker,
    /// Fewer bytes are worth waiting.
    pub min_bytes: u64,
    /// Most bytes of the whole answer; its first batch is whole even so.
    pub max_bytes: u64,
    /// Longest wait.
    pub max_wait_ms: u64,
    /// How far the reader may read.
    pub reader: FetchReader,
    /// The rack whose replicas it shall ask, if there is one.
    pub rack: Option<Arc<str>>,
}

type Answer = Box<dyn FnOnce(Arc<DelayedFetch>) + Send>;

/// The waiting request.
pub struct DelayedFetch {
    session: Option<SharedSession>,
    partitions: Arc<ReplicaManager>,
    /// Replaced as a whole, so that a look holds no lock.
    wanted: Mutex<Arc<Vec<Wanted>>>,
    asks_for_nothing: bool,
    limits: FetchLimits,
    missing: Missing,
    answer: Mutex<Option<Answer>>,
}

impl DelayedFetch {
    /// What a fetch of `looks` partitions takes while it waits, in bytes.
    #[must_use]
    pub const fn bytes_of(looks: usize) -> usize {
        looks * size_of::<Wanted>()
    }

    /// Answers a fetch of `looks` now or after a wait: `answer` gets it when it need wait no
    /// longer, and reads.
    pub fn start(
        context: &FetchContext,
        looks: Vec<Look>,
        partitions: Arc<ReplicaManager>,
        limits: FetchLimits,
        fetches: &Purgatory,
        answer: impl FnOnce(Arc<Self>) + Send + 'static,
    ) {
        let session = context.session().cloned();
        let asks_for_nothing =
            looks.is_empty() && session.as_ref().is_none_or(|session| session.lock().is_empty());
        let wanted = find(looks, &partitions, session.as_ref());
        let operation = Arc::new(Self {
            session,
            partitions,
            wanted: Mutex::new(Arc::new(wanted)),
            asks_for_nothing,
            limits,
            missing: Missing::default(),
            answer: Mutex::new(Some(Box::new(answer))),
        });
        let waits = Arc::clone(&operation);
        fetches.watch(operation, || waits.lists());
    }

    /// Where it waits: at its session, or at each of its partitions.
    fn lists(&self) -> Vec<Arc<WatchList>> {
        match &self.session {
            Some(session) => vec![session.lock().notifier().waiters().clone()],
            None => self.wanted().iter().filter_map(Wanted::waiters).collect(),
        }
    }

    /// Adds the partitions of the session that moved since it was last asked.
    fn add_moved(&self) {
        let Some(session) = &self.session else { return };
        let looks = session.lock().take_moved();
        if looks.is_empty() {
            return;
        }
        let moved = find(looks, &self.partitions, Some(session));
        let mut wanted = self.wanted.lock();
        merge(Arc::make_mut(&mut wanted), moved);
    }

    fn wanted(&self) -> Arc<Vec<Wanted>> {
        self.wanted.lock().clone()
    }

    /// The replica in the reader's rack that it shall ask instead.
    fn nearby(&self, look: &Look, partition: &Partition) -> Option<i32> {
        partition.nearby(&look.target, self.limits.rack.as_deref()?)
    }

    /// Whether a follower that is behind gets nothing of a partition for now.
    fn is_held_back(&self, partition: &Partition) -> bool {
        match self.limits.reader {
            FetchReader::Follower(id) => self.partitions.holds_back(partition, id),
            FetchReader::ReadUncommitted | FetchReader::ReadCommitted => false,
        }
    }

    /// Reads a partition, as far as a throttle lets its follower.
    fn read_of(&self, partition: &Partition, look: &Look, most: u64, is_first: bool) -> Fetched {
        let reader = self.limits.reader;
        if self.is_held_back(partition) {
            return partition.read(&look.target, 0, false, reader);
        }
        let read = partition.read(&look.target, most, is_first, reader);
        if matches!(reader, FetchReader::Follower(_)) {
            self.partitions.sent(partition, u64::from(read.bytes));
        }
        read
    }

    /// Bytes that can be read now; `None` if it is no use to wait for more.
    fn readable(&self) -> Option<u64> {
        self.add_moved();
        let (mut readable, mut limited) = (0, None);
        let wanted = self.wanted();
        for Wanted { look, partition } in wanted.iter() {
            let partition = partition.as_ref().ok()?;
            if self.nearby(look, partition).is_some() {
                return None;
            }
            let most = u64::try_from(look.target.max_bytes).unwrap_or(0);
            let plan = partition.plan(&look.target, self.limits.reader).ok()?;
            let is_held_back = self.is_held_back(partition);
            if plan.is_diverging() || (plan.will_not_grow() && !is_held_back) {
                return None;
            }
            let there = if is_held_back { 0 } else { plan.bytes() };
            if readable == 0 && limited.is_none() && there > most {
                limited = Some((plan, most));
            }
            readable += there.min(most);
        }
        // The answer begins with a whole batch, which may be larger than its partition's limit.
        if let Some((plan, most)) = limited.filter(|_| readable < self.limits.min_bytes) {
            readable += u64::from(plan.read(most, true).bytes).saturating_sub(most);
        }
        Some(readable)
    }

    /// Where the partitions of it are, the clean ones of its session among them.
    fn caught(&self) -> Vec<Caught> {
        let targets = match &self.session {
            Some(session) => session.lock().targets(MOST_TOLD),
            None => {
                let wanted = self.wanted();
                wanted.iter().take(MOST_TOLD).map(|one| one.look.target.clone()).collect()
            }
        };
        let here = targets.iter().filter_map(|target| {
            let partition = self.partitions.find(&target.topic, target.partition).ok()?;
            Some(Caught {
                topic: partition.topic_name(),
                partition: partition.index(),
                fetch_offset: target.fetch_offset,
                readable_end: partition.readable_end(self.limits.reader).0,
            })
        });
        here.collect()
    }

    /// The ranges of files that [`DelayedFetch::read`] reads to find the offsets.
    #[must_use]
    pub fn lookup_ranges(&self) -> Vec<FileSlice> {
        let lookup = |Wanted { look, partition }: &Wanted| {
            let plan = partition.as_ref().ok()?.plan(&look.target, self.limits.reader).ok()?;
            plan.lookup_range()
        };
        self.wanted().iter().filter_map(lookup).collect()
    }

    /// What there is of each partition, in the order of service.
    #[must_use]
    pub fn read(&self) -> FetchRead {
        let mut left = self.limits.max_bytes;
        let mut nothing_yet = true;
        let wanted = self.wanted();
        let mut outcomes = Vec::with_capacity(wanted.len());
        let mut fetched = Vec::new();
        for Wanted { look, partition } in wanted.iter() {
            let target = &look.target;
            let most = left.min(u64::try_from(target.max_bytes).unwrap_or(0));
            outcomes.push(partition.as_ref().map_err(|error| *error).map(|partition| {
                let read = match self.nearby(look, partition) {
                    Some(nearby) => partition.sends_to(nearby),
                    None => self.read_of(partition, look, most, nothing_yet),
                };
                left = left.saturating_sub(u64::from(read.bytes));
                nothing_yet &= read.bytes == 0;
                fetched.push(read);
                u32::try_from(fetched.len() - 1).unwrap_or(u32::MAX)
            }));
        }
        FetchRead { wanted, outcomes, fetched }
    }
}

/// What a fetch read. Partitions that were not found take a few bytes each: a request may name a
/// million of them.
pub struct FetchRead {
    wanted: Arc<Vec<Wanted>>,
    /// For each of `wanted` its place in `fetched`, or why there is none.
    outcomes: Vec<Result<u32, ErrorCode>>,
    fetched: Vec<Fetched>,
}

impl FetchRead {
    /// How many partitions were looked at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// The look at partition `place`, and the number of what was read there, or why nothing was.
    pub fn look(&self, place: usize) -> (&Look, Result<u32, ErrorCode>) {
        (&self.wanted[place].look, self.outcomes[place])
    }

    /// What was read, by the number that [`FetchRead::look`] gives it.
    #[must_use]
    pub fn fetched(&self, number: u32) -> &Fetched {
        &self.fetched[number as usize]
    }

    /// The ranges of files of everything read, by number. They are no longer in `fetched` then.
    #[must_use]
    pub fn take_slices(&mut self) -> Vec<Vec<FileSlice>> {
        self.fetched.iter_mut().map(|fetched| std::mem::take(&mut fetched.slices)).collect()
    }
}

/// The partitions behind `looks`. The session subscribes to those that it did not yet, before they
/// are looked at.
fn find(
    looks: Vec<Look>,
    partitions: &ReplicaManager,
    session: Option<&SharedSession>,
) -> Vec<Wanted> {
    let found = looks.into_iter().map(|look| {
        let partition = partitions.find(&look.target.topic, look.target.partition);
        Wanted { look, partition }
    });
    let found: Vec<Wanted> = found.collect();
    if let Some(session) = session {
        let here =
            || found.iter().filter_map(|wanted| Some((wanted, wanted.partition.as_ref().ok()?)));
        let keys: Vec<u64> = here().map(|(_, partition)| partition.key()).collect();
        let subscriptions: Vec<_> = {
            let mut session = session.lock();
            let missing =
                |((wanted, _), key): ((&Wanted, _), u64)| session.subscription(&wanted.look, key);
            here().zip(keys).map(missing).collect()
        };
        for ((_, partition), subscription) in here().zip(subscriptions) {
            subscription.iter().for_each(|subscription| partition.subscribe(subscription));
        }
    }
    found
}

/// Puts newer looks in the place of older ones at the same partitions, and the rest at the end.
fn merge(wanted: &mut Vec<Wanted>, newer: Vec<Wanted>) {
    let slots = newer.iter().enumerate().map(|(index, wanted)| (wanted.look.slot(), index));
    let places: HashMap<usize, usize> = slots.collect();
    let mut newer: Vec<Option<Wanted>> = newer.into_iter().map(Some).collect();
    for old in wanted.iter_mut() {
        let place = places.get(&old.look.slot());
        if let Some(new) = place.and_then(|place| newer[*place].take()) {
            *old = new;
        }
    }
    wanted.extend(newer.into_iter().flatten());
}

/// Bytes that a fetch found missing at its last look. Who adds some counts them down, and asks the
/// fetch to look again when none is missing.
#[derive(Default)]
struct Missing(AtomicU64);

impl Missing {
    /// `bytes` more can be read. Returns whether that may be all that was missing.
    fn count(&self, bytes: u64) -> bool {
        let missing = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |missing| {
            Some(missing.saturating_sub(bytes))
        });
        missing.is_ok_and(|missing| missing <= bytes)
    }

    /// Whether `look` finds `min_bytes`, or `None`.
    fn are_there(&self, min_bytes: u64, mut look: impl FnMut() -> Option<u64>) -> bool {
        loop {
            // Before the look, not after it: bytes that another thread adds meanwhile must count,
            // and counting them twice only makes for a look too many.
            self.0.store(min_bytes, Ordering::Relaxed);
            let Some(found) = look() else { return true };
            if found >= min_bytes {
                return true;
            }
            if !self.count(found) {
                return false;
            }
            // What was found and what was added behind the look are enough together. The thread
            // that added bytes did not know what would be found, so it completed nothing.
        }
    }
}

impl DelayedOperation for DelayedFetch {
    fn is_satisfied(&self) -> bool {
        if self.asks_for_nothing || self.limits.min_bytes == 0 {
            return true;
        }
        self.missing.are_there(self.limits.min_bytes, || self.readable())
    }

    fn complete(self: Arc<Self>, _how: Completion) {
        let answer = self.answer.lock().take();
        if let Some(answer) = answer {
            self.add_moved();
            answer(self);
        }
    }

    fn timeout_ms(&self) -> u64 {
        self.limits.max_wait_ms
    }

    fn add_bytes(&self, bytes: u64) -> bool {
        self.missing.count(bytes)
    }

    /// Bytes and ends of partitions that belong together: records that arrive between the two looks
    /// make for another try.
    fn waits(&self) -> Option<Wait> {
        let mut partitions = self.caught();
        let mut bytes = self.readable();
        for _ in 0..TRIES {
            let again = self.caught();
            if again == partitions {
                break;
            }
            (partitions, bytes) = (again, self.readable());
        }
        let waits_for = WaitsFor::Bytes { min_bytes: self.limits.min_bytes, bytes, partitions };
        let (asker, timeout_ms) = (self.limits.asker, self.limits.max_wait_ms);
        Some(Wait { asker, timeout_ms, waits_for })
    }
}

#[cfg(test)]
mod tests;
