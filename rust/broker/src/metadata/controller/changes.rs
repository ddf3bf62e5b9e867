//! Changes, one after the other: decided, proposed, published, answered.
//!
//! A change is decided on the image that the one before it made, so the next one is begun when the
//! one before is published or refused. No thread waits for that: whoever ends one begins the next.

use crate::clock::Clock;
use crate::error::panics;
use crate::metadata::error::{ApiError, MetadataError};
use crate::metadata::image::MetadataImage;
use crate::metadata::publisher::Publisher;
use crate::metadata::quorum::{MetadataQuorum, Outcome, Proposal};
use crate::metadata::records::{MetadataRecord, RecordsBatch};
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that may wait; each holds its request in memory.
const MAX_WAITING: usize = 2_000;

/// What a change comes to.
pub struct Decided {
    /// To be committed; if there are none, nothing is.
    pub records: Vec<MetadataRecord>,
    /// Called once they are published, or with the reason why they are not.
    pub answer: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
}

/// Decides what a change comes to, or hears that it is not even begun.
pub type Decide = Box<dyn FnOnce(Result<&MetadataImage, ApiError>) -> Decided + Send>;

/// The queue of changes.
pub struct Changes {
    clock: Arc<dyn Clock>,
    quorum: Arc<dyn MetadataQuorum>,
    publisher: Arc<Publisher>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Decide>,
    /// Whether some thread decides, or a proposal is under way.
    busy: bool,
    stopped: bool,
}

impl Changes {
    /// An empty queue.
    pub fn new(
        clock: Arc<dyn Clock>,
        quorum: Arc<dyn MetadataQuorum>,
        publisher: Arc<Publisher>,
    ) -> Arc<Self> {
        Arc::new(Self { clock, quorum, publisher, queue: Mutex::default() })
    }

    /// Adds a change. It is decided on this thread if none is under way, else on the thread that
    /// ends the one before.
    pub fn submit(self: &Arc<Self>, decide: Decide) {
        {
            let mut queue = self.queue.lock();
            if queue.stopped {
                // Not under the lock: what a change holds may come back here when it is dropped.
                drop(queue);
                return drop(decide);
            }
            if queue.waiting.len() >= MAX_WAITING {
                drop(queue);
                let message = format!("{MAX_WAITING} changes of metadata wait already.");
                let full = ApiError::new(ErrorCode::ThrottlingQuotaExceeded, message);
                let refused = decide(Err(full.clone()));
                return (refused.answer)(Err(full));
            }
            queue.waiting.push_back(decide);
            if std::mem::replace(&mut queue.busy, true) {
                return;
            }
        }
        self.run();
    }

    /// Drops what waits, and whatever is submitted from now on.
    pub fn stop(&self) {
        let left = {
            let mut queue = self.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.waiting)
        };
        drop(left);
    }

    /// Begins changes until one has to wait.
    fn run(self: &Arc<Self>) {
        loop {
            let decide = {
                let mut queue = self.queue.lock();
                match queue.waiting.pop_front() {
                    Some(decide) => decide,
                    None => return queue.busy = false,
                }
            };
            let begun = panics::contain("a change of metadata", || self.begin(decide));
            if begun == Some(true) {
                return;
            }
        }
    }

    /// Decides one change; whether a proposal of it is under way.
    fn begin(self: &Arc<Self>, decide: Decide) -> bool {
        let image = self.publisher.image();
        let Decided { records, answer } = decide(Ok(&image));
        if records.is_empty() {
            answer(Ok(()));
            return false;
        }
        let (expected, timestamp_ms) = (image.offset, self.clock.wall_ms());
        let records = match fitting(&image, records) {
            Ok(records) => records,
            Err(error) => {
                answer(Err(error.into()));
                return false;
            }
        };
        let this = Arc::clone(self);
        let ended = move |outcome| this.ended(outcome, answer);
        self.quorum.propose(Proposal { records, expected, timestamp_ms }, Box::new(ended));
        true
    }

    fn ended(
        self: Arc<Self>,
        outcome: Outcome,
        answer: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
    ) {
        let refused = match outcome {
            Outcome::Committed(offset) => {
                let publisher = Arc::clone(&self.publisher);
                let published = move |result: Result<(), String>| {
                    self.answer(answer, result.map_err(|reason| unknown(&reason)));
                };
                return publisher.when_published(offset, Box::new(published));
            }
            Outcome::Rejected(error) => error.into(),
            Outcome::Unknown(error) => unknown(&error.to_string()),
        };
        self.answer(answer, Err(refused));
    }

    fn answer(
        self: Arc<Self>,
        answer: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
        result: Result<(), ApiError>,
    ) {
        panics::contain("an answer to a change of metadata", || answer(result));
        self.run();
    }
}

/// The records, if the image can take them: one that does not fit must never reach a disk.
///
/// # Errors
/// The first record that does not fit.
pub fn fitting(
    image: &MetadataImage,
    records: Vec<MetadataRecord>,
) -> Result<Vec<MetadataRecord>, MetadataError> {
    let (base_offset, epoch) = (image.offset + 1, image.epoch);
    let batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
    image.with_batch(&batch)?;
    Ok(batch.records)
}

/// To a client that is a timeout: the change may have been made, and may come to light later.
fn unknown(reason: &str) -> ApiError {
    let message = format!("It is not known whether the change was made: {reason}");
    ApiError::new(ErrorCode::RequestTimedOut, message)
}

#[cfg(test)]
mod tests;
