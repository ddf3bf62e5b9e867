//! One partition as the sender sees it: what is on its way, and what must be sent again first.
//!
//! Batches leave in the order in which they were begun. A failed batch goes to the front, and no
//! new batch leaves while it waits. With idempotence it also waits for all batches that were begun
//! before it. So a broker never sees a sequence before the one it follows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

use super::Settings;
use super::dispatch::Leader;
use crate::producer::accumulator::{Batch, PartitionQueue, Readiness};
use crate::producer::idempotence::{Identity, Sequences};

/// A batch that was sent, and the request it was sent in.
pub(super) struct InFlightBatch<T> {
    pub(super) request: u64,
    pub(super) batch: Batch<T>,
}

/// Batches of a producer that a broker remembers for each partition. A batch that is sent again
/// after so many others looks like a gap to the broker.
/// Source: `NUM_BATCHES_TO_RETAIN` of Kafka's `ProducerStateEntry`.
const REMEMBERED: usize = 5;

/// One partition.
pub(super) struct Track<T> {
    pub(super) queue: Arc<PartitionQueue<T>>,
    retries: VecDeque<Batch<T>>,
    pub(super) in_flight: Vec<InFlightBatch<T>>,
    /// Order of what was numbered, from the first that is out on; ascending.
    numbered: Vec<(u64, u32)>,
    pub(super) sequences: Sequences,
    /// The topic that it sends to now; a topic that was made again has another id.
    pub(super) topic_id: Uuid,
    /// Nothing leaves before; lifted when the leader changes.
    not_before: Option<Instant>,
    /// Epoch of the leader that the last failure came from.
    failed_epoch: i32,
    /// Failures since the last success.
    pub(super) failures: u32,
    /// Whether the dispatch has it on its list.
    pub(super) active: bool,
}

/// What a track could do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Something can leave.
    Ready,
    /// Something can leave at that time, after a failure.
    At(Instant),
    /// Something can leave at that time, if no more comes; earlier than anything appended later.
    Lingers(Instant),
    /// It waits for answers.
    Answers,
    /// It has nothing.
    Idle,
}

impl<T> Track<T> {
    pub(super) fn new(queue: Arc<PartitionQueue<T>>) -> Self {
        Self {
            queue,
            retries: VecDeque::new(),
            in_flight: Vec::new(),
            numbered: Vec::new(),
            sequences: Sequences::default(),
            topic_id: Uuid::ZERO,
            not_before: None,
            failed_epoch: -1,
            failures: 0,
            active: false,
        }
    }

    /// Whether nothing of it is with the sender.
    pub(super) fn is_still(&self) -> bool {
        self.in_flight.is_empty() && self.retries.is_empty()
    }

    /// What it could do now, as far as order and time are concerned.
    pub(super) fn next(
        &self,
        now: Instant,
        at_once: bool,
        settings: &Settings,
        identity: Option<Identity>,
    ) -> Next {
        if !self.in_flight.is_empty() && self.in_flight.len() >= settings.max_in_flight {
            return Next::Answers;
        }
        if let Some(first) = self.retries.front() {
            let waits = settings.idempotent
                && self.in_flight.iter().any(|in_flight| in_flight.batch.order() < first.order());
            return match self.not_before {
                _ if waits => Next::Answers,
                Some(time) if time > now => Next::At(time),
                _ => Next::Ready,
            };
        }
        if settings.idempotent && !self.may_number(identity) {
            return Next::Answers;
        }
        match self.queue.readiness(now, settings.linger, at_once) {
            Readiness::Ready => match self.not_before {
                Some(time) if time > now => Next::At(time),
                _ => Next::Ready,
            },
            Readiness::At(time) => match self.not_before {
                Some(later) if later > time => Next::At(later),
                _ => Next::Lingers(time),
            },
            Readiness::Empty if self.in_flight.is_empty() => Next::Idle,
            Readiness::Empty => Next::Answers,
        }
    }

    /// Whether a new batch may get a sequence. Not while a batch that was given up is unresolved.
    /// Not while the first batch is out, or batches of an older epoch or with two numbers. Not if
    /// brokers would forget a batch that is out and may have to be sent again.
    fn may_number(&self, identity: Option<Identity>) -> bool {
        if self.sequences.is_unresolved() {
            return false;
        }
        let Some(first) = self.in_flight.iter().map(|in_flight| in_flight.batch.order()).min()
        else {
            return true;
        };
        let is_current = self.sequences.identity() == identity && self.sequences.is_begun();
        let since = self.numbered.iter().filter(|order| **order >= first).count();
        is_current
            && since < REMEMBERED
            && self.in_flight.iter().all(|in_flight| !in_flight.batch.stamp_replaced())
    }

    /// Takes the batch that leaves next; only after [`Self::next`] said `Ready`.
    pub(super) fn take(
        &mut self,
        now: Instant,
        at_once: bool,
        settings: &Settings,
        identity: Option<Identity>,
    ) -> Option<Batch<T>> {
        self.not_before = None;
        if let Some(batch) = self.retries.pop_front() {
            return Some(batch);
        }
        let mut batch = self.queue.take(now, settings.linger, at_once)?;
        let first = self.in_flight.iter().map(|in_flight| in_flight.batch.order()).min();
        self.numbered.retain(|order| first.is_some_and(|first| *order >= first));
        self.numbered.push(batch.order());
        if let Some(identity) = identity {
            if self.sequences.identity() != Some(identity) {
                self.sequences.restart(identity);
            }
            if let Some(stamp) = self.sequences.stamp(batch.count()) {
                batch.set_stamp(stamp);
            }
        }
        Some(batch)
    }

    /// Bytes of the batch that leaves next, at most.
    pub(super) fn next_size(&self) -> usize {
        self.retries.front().map_or_else(|| self.queue.next_size(), Batch::size)
    }

    /// Whether all outstanding batches got new numbers since they were sent.
    pub(super) fn all_replaced(&self) -> bool {
        let in_flight = self.in_flight.iter().map(|in_flight| &in_flight.batch);
        in_flight.chain(self.retries.iter()).all(|batch| batch.stamp_replaced())
    }

    /// Whether nothing that was begun before `batch`, which landed, is with the sender.
    pub(super) fn is_first(&self, batch: &Batch<T>) -> bool {
        let in_flight = self.in_flight.iter().map(|in_flight| &in_flight.batch);
        in_flight.chain(&self.retries).all(|other| other.order() > batch.order())
    }

    /// Takes a batch that was sent in `request`.
    pub(super) fn land(&mut self, request: u64, order: (u64, u32)) -> Option<Batch<T>> {
        let is_it = |in_flight: &InFlightBatch<T>| {
            in_flight.request == request && in_flight.batch.order() == order
        };
        let at = self.in_flight.iter().position(is_it)?;
        Some(self.in_flight.remove(at).batch)
    }

    /// A batch must be sent again, in its place among the others.
    pub(super) fn push_retry(&mut self, batch: Batch<T>) {
        let at = self.retries.partition_point(|other| other.order() < batch.order());
        // The second half of one that was too large is new.
        if let Err(at) = self.numbered.binary_search(&batch.order()) {
            self.numbered.insert(at, batch.order());
        }
        self.retries.insert(at, batch);
    }

    /// Waits for `backoff`, unless another leader is known by then.
    pub(super) fn back_off(&mut self, now: Instant, backoff: Duration, leader_epoch: i32) {
        self.failures = self.failures.saturating_add(1);
        self.failed_epoch = leader_epoch;
        self.not_before = Some(now + backoff);
    }

    /// A leader is known; one with a later epoch than the one that refused is asked at once. That
    /// of a topic that was made again knows no sequence.
    pub(super) fn leader_is(&mut self, leader: Leader) {
        if leader.epoch > self.failed_epoch && self.failed_epoch >= 0 {
            self.not_before = None;
        }
        if leader.topic_id != self.topic_id {
            self.topic_id = leader.topic_id;
            self.sequences.begin_elsewhere();
        }
    }

    /// Gives all outstanding batches new numbers, from 0.
    pub(super) fn renumber(&mut self, identity: Identity) {
        self.sequences.restart(identity);
        let mut outstanding: Vec<&mut Batch<T>> =
            self.in_flight.iter_mut().map(|in_flight| &mut in_flight.batch).collect();
        outstanding.extend(self.retries.iter_mut());
        outstanding.sort_by_key(|batch| batch.order());
        for batch in outstanding {
            if let Some(stamp) = self.sequences.stamp(batch.count()) {
                batch.set_stamp(stamp);
            }
        }
    }

    /// The stamps of everything outstanding, in order.
    #[cfg(test)]
    pub(super) fn stamps(&self) -> Vec<Option<crate::producer::accumulator::Stamp>> {
        let in_flight = self.in_flight.iter().map(|in_flight| &in_flight.batch);
        let mut all: Vec<_> = in_flight.chain(self.retries.iter()).collect();
        all.sort_by_key(|batch| batch.order());
        all.into_iter().map(Batch::stamp).collect()
    }

    /// When its oldest batch was begun, wherever it is.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let in_flight = self.in_flight.iter().map(|in_flight| in_flight.batch.created());
        let retries = self.retries.iter().map(Batch::created);
        in_flight.chain(retries).chain(self.queue.oldest()).min()
    }

    /// Takes all batches that were begun at or before `until`, in order.
    pub(super) fn take_older(&mut self, until: Instant) -> Vec<Batch<T>> {
        let in_flight = std::mem::take(&mut self.in_flight).into_iter();
        let (old, young): (Vec<_>, _) =
            in_flight.partition(|in_flight| in_flight.batch.created() <= until);
        self.in_flight = young;
        let retries = std::mem::take(&mut self.retries).into_iter();
        let (failed, young): (Vec<_>, _) = retries.partition(|batch| batch.created() <= until);
        self.retries = young.into();
        let flown = old.into_iter().map(|in_flight| in_flight.batch);
        let mut all: Vec<_> = flown.chain(failed).collect();
        all.extend(self.queue.take_older(until));
        all.sort_by_key(Batch::order);
        all
    }

    /// Takes what would be sent again.
    pub(super) fn take_retries(&mut self) -> Vec<Batch<T>> {
        std::mem::take(&mut self.retries).into()
    }

    /// Takes everything that is with the sender.
    pub(super) fn take_all(&mut self) -> Vec<Batch<T>> {
        let flown =
            std::mem::take(&mut self.in_flight).into_iter().map(|in_flight| in_flight.batch);
        let mut all: Vec<_> = flown.chain(std::mem::take(&mut self.retries)).collect();
        all.sort_by_key(Batch::order);
        all
    }
}
