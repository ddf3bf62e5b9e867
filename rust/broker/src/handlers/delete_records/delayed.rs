//! A deletion of records that waits for the other replicas.
//!
//! A follower hears where its leader's log starts, deletes up to there, and says so with its next
//! fetch. One that is not alive is not waited for: it hears it when it comes back.
//! Source: Kafka's `DelayedDeleteRecords`.

use crate::metadata::Controller;
use crate::partitions::Partition;
use crate::purgatory::{Completion, DelayedOperation};
use crate::waiters::WatchList;
use kafkalite_protocol::messages::delete_records::DeleteRecordsResponse;
use kafkalite_protocol::{ErrorCode, Offset};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// One partition that is waited for.
pub struct Pending {
    /// Which answer of the response is its own: topic and partition, by place.
    place: (usize, usize),
    partition: Arc<Partition>,
    to: Offset,
    /// What ended the wait: where all logs start, or an error.
    found: OnceLock<Result<Offset, ErrorCode>>,
}

impl Pending {
    /// Waits until no replica of `partition` has records before `to`.
    pub fn new(place: (usize, usize), partition: Arc<Partition>, to: Offset) -> Self {
        Self { place, partition, to, found: OnceLock::new() }
    }

    /// The list that is checked when a replica moves.
    pub fn waiters(&self) -> Arc<WatchList> {
        Arc::clone(self.partition.produce_waiters())
    }

    fn outcome(&self, controller: &Controller) -> Option<Result<Offset, ErrorCode>> {
        if let Some(found) = self.found.get() {
            return Some(*found);
        }
        match self.low_watermark(controller) {
            Ok(low) if low < self.to => None,
            found => Some(*self.found.get_or_init(|| found)),
        }
    }

    fn low_watermark(&self, controller: &Controller) -> Result<Offset, ErrorCode> {
        let image = controller.image();
        self.partition.low_watermark(|id| image.is_alive(id))
    }
}

type Answer = Box<dyn FnOnce(&DeleteRecordsResponse) + Send>;

/// The waiting request.
pub struct DelayedDeletion {
    controller: Arc<Controller>,
    pending: Vec<Pending>,
    timeout_ms: u64,
    unsent: Mutex<Option<(DeleteRecordsResponse, Answer)>>,
}

impl DelayedDeletion {
    /// Holds `response` back until every partition of `pending` has an outcome; `answer` then sends
    /// it.
    pub fn new(
        controller: Arc<Controller>,
        pending: Vec<Pending>,
        timeout_ms: u64,
        response: DeleteRecordsResponse,
        answer: impl FnOnce(&DeleteRecordsResponse) + Send + 'static,
    ) -> Self {
        let unsent = Mutex::new(Some((response, Box::new(answer) as Answer)));
        Self { controller, pending, timeout_ms, unsent }
    }
}

impl DelayedOperation for DelayedDeletion {
    fn is_satisfied(&self) -> bool {
        self.pending.iter().all(|pending| pending.outcome(&self.controller).is_some())
    }

    fn complete(self: Arc<Self>, how: Completion) {
        let Some((mut response, answer)) = self.unsent.lock().take() else { return };
        if how == Completion::Stopped {
            // Nothing is said of replicas that did not answer: the connection closes.
            return;
        }
        for pending in &self.pending {
            let (topic, partition) = pending.place;
            let answers = response.topics.get_mut(topic);
            let slot = answers.and_then(|topic| topic.partitions.get_mut(partition));
            let Some(slot) = slot else { continue };
            let (found, error) = match pending.outcome(&self.controller) {
                Some(found) => (found, ErrorCode::None),
                None => (pending.low_watermark(&self.controller), ErrorCode::RequestTimedOut),
            };
            (slot.low_watermark, slot.error_code) = match found {
                Ok(low) => (low.0, error.code()),
                Err(error) => (-1, error.code()),
            };
        }
        answer(&response);
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }
}
