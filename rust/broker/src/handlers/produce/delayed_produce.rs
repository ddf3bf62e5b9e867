//! A produce that waits: its batches are in our log, not yet as safe as its acks ask for.
//!
//! A partition stops waiting when
//! - case A: its high watermark (acks=1 with `flush.messages`: its durable offset) reached the
//!   batch's end: `NONE`
//! - case B: this broker leads it no longer, or in another epoch, or it was deleted:
//!   `NOT_LEADER_OR_FOLLOWER`
//! - case C: its high watermark passed the batch, and too few replicas are in sync by now:
//!   `NOT_ENOUGH_REPLICAS_AFTER_APPEND`
//! - case D: its log directory went offline: `KAFKA_STORAGE_ERROR`
//!
//! At the deadline those that still wait answer `REQUEST_TIMED_OUT`; their records stay in the log.
//! Source: Kafka's `DelayedProduce`.

use crate::partitions::{CommitStatus, Partition};
use crate::purgatory::{Asker, Completion, DelayedOperation, Wait, WaitsFor};
use kafkalite_protocol::messages::produce::{PartitionProduceResponse, ProduceResponse};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Batches that a waiting produce names, at most.
const MOST_TOLD: usize = 100;

/// One partition that is waited for.
pub struct Pending {
    /// Which answer of the response is its own: topic and partition, by place.
    pub place: (usize, usize),
    end_offset: Offset,
    acks: i16,
    leader_epoch: LeaderEpoch,
    partition: Arc<Partition>,
    /// The outcome, once it was found: what is answered is what ended the wait, whatever happens
    /// to the partition between the two.
    found: OnceLock<ErrorCode>,
}

impl Pending {
    /// Waits for a batch that `partition` appended in `leader_epoch`, and that ends at
    /// `end_offset`, to be as safe as `acks`, 1 or -1, asks for.
    #[must_use]
    pub fn new(
        partition: Arc<Partition>,
        end_offset: Offset,
        leader_epoch: LeaderEpoch,
        acks: i16,
    ) -> Self {
        let (place, found) = ((0, 0), OnceLock::new());
        Self { place, end_offset, acks, leader_epoch, partition, found }
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The outcome, once there is one.
    fn outcome(&self) -> Option<ErrorCode> {
        let known = || self.found.get().copied();
        known().or_else(|| self.look().map(|found| *self.found.get_or_init(|| found)))
    }

    fn look(&self) -> Option<ErrorCode> {
        let (end, epoch) = (self.end_offset, self.leader_epoch);
        let status = match self.acks {
            -1 => self.partition.produce_status(end, epoch),
            _ => self.partition.local_status(end, epoch),
        };
        match status {
            CommitStatus::Pending => None,
            CommitStatus::Committed => Some(ErrorCode::None),
            CommitStatus::Lost(error) => Some(error),
        }
    }
}

/// What happens with the finished response.
type Answer = Box<dyn FnOnce(&ProduceResponse) + Send>;

/// The waiting request.
pub struct DelayedProduce {
    asker: Asker,
    pending: Vec<Pending>,
    /// How many of `pending`, from the first on, have an outcome. They are not asked again.
    /// Otherwise a produce to very many partitions would ask each of them whenever one moves.
    settled: AtomicUsize,
    timeout_ms: u64,
    unsent: Mutex<Option<(ProduceResponse, Answer)>>,
}

impl DelayedProduce {
    /// What a produce takes while it waits for `pending` of `named` partitions, in bytes.
    #[must_use]
    pub const fn bytes_of(pending: usize, named: usize) -> usize {
        pending * size_of::<Pending>() + named * size_of::<PartitionProduceResponse>()
    }

    /// Holds `response` back until every partition of `pending` has an outcome; `answer` then sends
    /// it.
    pub fn new(
        asker: Asker,
        pending: Vec<Pending>,
        timeout_ms: u64,
        response: ProduceResponse,
        answer: impl FnOnce(&ProduceResponse) + Send + 'static,
    ) -> Self {
        let unsent = Mutex::new(Some((response, Box::new(answer) as Answer)));
        Self { asker, pending, settled: AtomicUsize::new(0), timeout_ms, unsent }
    }
}

impl DelayedOperation for DelayedProduce {
    fn is_satisfied(&self) -> bool {
        let before = self.settled.load(Ordering::Relaxed);
        let more = self.pending[before..].iter().take_while(|pending| pending.outcome().is_some());
        let settled = before + more.count();
        self.settled.fetch_max(settled, Ordering::Relaxed);
        settled == self.pending.len()
    }

    fn complete(self: Arc<Self>, how: Completion) {
        let Some((mut response, answer)) = self.unsent.lock().take() else { return };
        if how == Completion::Stopped {
            // No acknowledgement is invented: dropping the answer closes the connection.
            return;
        }
        for pending in &self.pending {
            let outcome = pending.outcome().unwrap_or(ErrorCode::RequestTimedOut);
            let (topic, partition) = pending.place;
            let answers = response.responses.get_mut(topic);
            if let Some(slot) =
                answers.and_then(|topic| topic.partition_responses.get_mut(partition))
            {
                slot.error_code = outcome.code();
                if !outcome.is_none() {
                    slot.base_offset = -1;
                }
            }
        }
        answer(&response);
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    fn waits(&self) -> Option<Wait> {
        let open = self.pending.iter().filter(|pending| pending.outcome().is_none());
        let batches = open.take(MOST_TOLD).map(|one| one.partition.lacking(one.end_offset));
        let waits_for = WaitsFor::Replicas { batches: batches.collect() };
        Some(Wait { asker: self.asker, timeout_ms: self.timeout_ms, waits_for })
    }
}
