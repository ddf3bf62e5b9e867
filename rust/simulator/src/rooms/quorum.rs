//! The metadata log that the brokers of level 2 share: a plain model.
//!
//! What it commits is durable at once. The seed decides when a proposal is committed, and whether
//! its broker learns the outcome.

use crate::moves;
use kafkalite_broker::metadata::quorum::{OnOutcome, Outcome, Proposal, QuorumStatus};
use kafkalite_broker::metadata::records::{MetadataRecord, RecordsBatch};
use kafkalite_broker::metadata::{MetadataError, MetadataImage, MetadataQuorum, Publisher};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A proposal of a broker.
pub struct Proposed {
    /// The broker.
    pub broker: i32,
    /// Its process.
    pub life: u32,
    /// What it proposes.
    pub proposal: Proposal,
    /// Takes the outcome.
    pub done: OnOutcome,
}

#[derive(Default)]
struct State {
    image: Arc<MetadataImage>,
    publishers: BTreeMap<i32, Arc<Publisher>>,
    proposed: Vec<Proposed>,
    /// Decisions of the controller that did not fit.
    refused: Vec<String>,
    /// Moves of partitions that ended.
    moves: u64,
}

/// The log.
#[derive(Default)]
pub struct Quorum(Mutex<State>);

impl Quorum {
    /// The image of all that is committed.
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.0.lock().image)
    }

    /// A publisher for a broker that starts; it gets all batches from now on.
    pub fn join(&self, broker: i32) -> Arc<Publisher> {
        let mut state = self.0.lock();
        let image = (*state.image).clone();
        let publisher = Arc::new(Publisher::without_thread(image, |_| {}));
        state.publishers.insert(broker, Arc::clone(&publisher));
        publisher
    }

    /// The broker gets no batches any more.
    pub fn leave(&self, broker: i32) {
        self.0.lock().publishers.remove(&broker);
    }

    /// What was proposed since the last call.
    pub fn take_proposed(&self) -> Vec<Proposed> {
        std::mem::take(&mut self.0.lock().proposed)
    }

    /// Commits a proposal, unless others came before it.
    pub fn commit(&self, proposal: Proposal) -> Outcome {
        let mut state = self.0.lock();
        let found = state.image.offset;
        let Proposal { records, expected, timestamp_ms, .. } = proposal;
        if found != expected {
            return Outcome::Rejected(MetadataError::Overtaken { expected, found });
        }
        if records.is_empty() {
            return Outcome::Committed(found);
        }
        let batch = RecordsBatch { base_offset: found + 1, epoch: 1, timestamp_ms, records };
        match state.image.with_batch(&batch) {
            Ok(image) => {
                state.moves += moves::ended(&state.image, &image);
                state.image = Arc::new(image);
            }
            Err(error) => return Outcome::Rejected(error),
        }
        // Under the lock: every broker gets the batches in the order of the log.
        state.publishers.values().for_each(|publisher| publisher.committed(batch.clone()));
        Outcome::Committed(batch.last_offset())
    }

    /// Commits what follows from the image of now.
    pub fn decide(&self, decide: impl FnOnce(&MetadataImage) -> Vec<MetadataRecord>) {
        let image = self.image();
        let records = decide(&image);
        let (expected, level) = (image.offset, image.record_version());
        let proposal = Proposal { records, expected, level, timestamp_ms: 0, term: None };
        let decided = self.commit(proposal);
        if let Outcome::Rejected(error) | Outcome::Unknown(error) = decided {
            self.0.lock().refused.push(error.to_string());
        }
    }

    /// How many moves of partitions ended.
    pub fn moves(&self) -> u64 {
        self.0.lock().moves
    }

    /// Decisions that did not fit, since the last call.
    pub fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().refused)
    }
}

/// The log as the controller of one process has it.
pub struct Voter {
    /// The log.
    pub quorum: Arc<Quorum>,
    /// The broker.
    pub broker: i32,
    /// Its process.
    pub life: u32,
}

impl MetadataQuorum for Voter {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        let Self { quorum, broker, life } = self;
        let proposed = Proposed { broker: *broker, life: *life, proposal, done };
        quorum.0.lock().proposed.push(proposed);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn published(&self, _: &Arc<MetadataImage>) {}

    fn status(&self) -> QuorumStatus {
        let high_watermark = self.quorum.image().offset + 1;
        let (voters, observers) = (Vec::new(), Vec::new());
        QuorumStatus { leader_id: 1, leader_epoch: 1, high_watermark, voters, observers }
    }

    fn stop(&self) {}
}
