//! The quorum of the simulated controller: a log that takes its time, and does not always answer.
//!
//! Production's controller proposes; whether a proposal is committed, rejected or of unknown
//! outcome, and whether an unknown one comes to light later, the seed decides. A proposal that
//! others overtook is never committed. What is in the log is durable at once.

use kafkalite_broker::metadata::quorum::{OnOutcome, Outcome, Proposal, QuorumStatus};
use kafkalite_broker::metadata::records::{MetadataRecord, RecordsBatch};
use kafkalite_broker::metadata::{MetadataError, MetadataImage, MetadataQuorum};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// What becomes of a proposal, if nothing overtakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is committed, and the proposer learns so.
    Committed,
    /// It is rejected.
    Rejected,
    /// It is committed, and its outcome stays unknown.
    CommittedUnheard,
    /// Its outcome is unknown, and it is committed later unless others were by then.
    Late,
    /// Its outcome is unknown, and it is lost.
    Lost,
}

impl Fate {
    /// All but the first.
    pub const MISFORTUNES: [Self; 4] =
        [Self::Rejected, Self::CommittedUnheard, Self::Late, Self::Lost];
}

/// A proposal, and the callback for its outcome, if there is one.
pub type Proposed = (Proposal, Option<OnOutcome>);

struct Log {
    batches: Vec<Arc<RecordsBatch>>,
    /// The image at the end of each batch; the first is that before all of them.
    images: Vec<Arc<MetadataImage>>,
    epoch: i32,
    proposed: VecDeque<Proposed>,
}

/// The log, and what was proposed.
pub struct Quorum(Mutex<Log>);

impl Default for Quorum {
    fn default() -> Self {
        let images = vec![Arc::default()];
        let log = Log { batches: Vec::new(), images, epoch: 1, proposed: VecDeque::new() };
        Self(Mutex::new(log))
    }
}

impl Log {
    fn image(&self) -> &Arc<MetadataImage> {
        &self.images[self.images.len() - 1]
    }
}

impl Quorum {
    /// The image of all that is committed.
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(self.0.lock().image())
    }

    /// The image at an offset at which a batch ends, if that is committed.
    pub fn image_at(&self, offset: i64) -> Option<Arc<MetadataImage>> {
        let log = self.0.lock();
        let at = log.images.binary_search_by_key(&offset, |image| image.offset);
        at.ok().map(|at| Arc::clone(&log.images[at]))
    }

    /// The committed batches behind `offset`.
    pub fn after(&self, offset: i64) -> Vec<Arc<RecordsBatch>> {
        let log = self.0.lock();
        let from = log.batches.partition_point(|batch| batch.base_offset <= offset);
        log.batches[from..].to_vec()
    }

    /// What was proposed since the last call.
    pub fn take_proposed(&self) -> VecDeque<Proposed> {
        std::mem::take(&mut self.0.lock().proposed)
    }

    /// Commits records behind all others.
    ///
    /// # Errors
    /// A record does not fit.
    pub fn append(&self, records: Vec<MetadataRecord>) -> Result<Arc<RecordsBatch>, MetadataError> {
        let mut log = self.0.lock();
        let (base_offset, epoch) = (log.image().offset + 1, log.epoch);
        let batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
        let image = Arc::new(log.image().with_batch(&batch)?);
        let batch = Arc::new(batch);
        log.images.push(image);
        log.batches.push(Arc::clone(&batch));
        Ok(batch)
    }

    /// Commits a proposal, unless others came before it.
    ///
    /// # Errors
    /// Others did, or a record does not fit.
    pub fn commit(
        &self,
        proposal: &Proposal,
        is_unfenced: bool,
    ) -> Result<Arc<RecordsBatch>, MetadataError> {
        let (expected, found) = (proposal.expected, self.image().offset);
        if expected != found && !is_unfenced {
            return Err(MetadataError::Overtaken { expected, found });
        }
        self.append(proposal.records.clone())
    }

    /// Reads the bytes of the log again, in another epoch: the image that it adds up to.
    ///
    /// # Errors
    /// What is wrong with the log.
    pub fn reread(&self) -> Result<MetadataImage, String> {
        let mut log = self.0.lock();
        log.epoch += 1;
        let mut image = MetadataImage::default();
        for batch in &log.batches {
            let read = RecordsBatch::decode(batch.encode(image.record_version()))
                .map_err(|error| format!("{error:?}"))?;
            image = image.with_batch(&read).map_err(|error| error.to_string())?;
        }
        match image == **log.image() {
            true => Ok(image),
            false => Err("the log adds up to another image".to_owned()),
        }
    }

    /// The last batch is gone.
    pub fn forget_last(&self) {
        let mut log = self.0.lock();
        log.batches.pop();
        log.images.pop();
    }
}

impl MetadataQuorum for Quorum {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        self.0.lock().proposed.push_back((proposal, Some(done)));
    }

    fn published(&self, _: &Arc<MetadataImage>) {}

    fn status(&self) -> QuorumStatus {
        let high_watermark = self.image().offset + 1;
        let (voters, observers) = (Vec::new(), Vec::new());
        QuorumStatus { leader_id: 0, leader_epoch: 1, high_watermark, voters, observers }
    }

    fn stop(&self) {
        drop(self.take_proposed());
    }
}

/// The error of every misfortune.
#[must_use]
pub fn offline() -> MetadataError {
    MetadataError::Offline { reason: "as the seed wants it".to_owned() }
}

/// The outcome for the proposer.
#[must_use]
pub fn told(committed: &Result<Arc<RecordsBatch>, MetadataError>) -> Outcome {
    match committed {
        Ok(batch) => Outcome::Committed(batch.last_offset()),
        Err(MetadataError::Overtaken { expected, found }) => {
            Outcome::Rejected(MetadataError::Overtaken { expected: *expected, found: *found })
        }
        Err(_) => Outcome::Rejected(offline()),
    }
}
