//! Changes, one after the other: decided, proposed, published, answered.
//!
//! A change is decided on the image that the previous change made. So a change begins when the
//! previous one is published or refused. No thread waits for that: the thread that ends one change
//! begins the next.
//!
//! A change that was overtaken, by a controller on another broker, was not made and never will be:
//! it is decided again when the image has what overtook it. Its client hears nothing of that.
//! Where several brokers decide, a change without records is proposed as well. So no refusal is
//! decided on an image that is behind.
//!
//! A change of unknown outcome may come out of the log later, as long as nothing else follows the
//! image that it was decided on. Until then a refusal says nothing of it: a leader that repeats a
//! change of in-sync replicas, and is refused, would take both for refused. So the next change
//! without records commits a record that changes nothing. The older change comes before it, and
//! the next one is decided again, or never.
//!
//! A change may wait for very long, where no leader is reached. It is made within its [`Bounds`]
//! only: a client that gave up may have made a topic of the same name again.

use super::Bounds;
use crate::clock::Clock;
use crate::error::panics;
use crate::metadata::error::{ApiError, MetadataError};
use crate::metadata::features::allowed;
use crate::metadata::image::MetadataImage;
use crate::metadata::publisher::Publisher;
use crate::metadata::quorum::{MetadataQuorum, Outcome, Proposal};
use crate::metadata::records::{MetadataRecord, ProducerIdsRecord, RecordsBatch};
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that may wait; each holds its request in memory.
const MAX_WAITING: usize = 2_000;

/// A change on its way. It is dropped unanswered when the broker stops.
pub trait Change: Send {
    /// The records to commit on top of `image`; without any, nothing is committed. Called again
    /// with a newer image if another change was committed first.
    fn decide(&mut self, image: &MetadataImage) -> Vec<MetadataRecord>;

    /// Until when it may be made.
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }

    /// Called once: the records of the last decision are published, or the reason why they are
    /// not.
    fn answer(self: Box<Self>, result: Result<(), ApiError>);
}

/// The queue of changes.
pub struct Changes {
    clock: Arc<dyn Clock>,
    quorum: Arc<dyn MetadataQuorum>,
    publisher: Arc<Publisher>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn Change>>,
    /// Whether some thread decides, or a proposal is under way.
    busy: bool,
    stopped: bool,
    /// The offset of the image that the last change of unknown outcome was decided on.
    doubtful: Option<i64>,
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
    pub fn submit(self: &Arc<Self>, change: Box<dyn Change>) {
        {
            let mut queue = self.queue.lock();
            if queue.stopped {
                // Not under the lock: what a change holds may come back here when it is dropped.
                drop(queue);
                return drop(change);
            }
            if queue.waiting.len() >= MAX_WAITING {
                drop(queue);
                let message = format!("{MAX_WAITING} changes of metadata wait already.");
                return change
                    .answer(Err(ApiError::new(ErrorCode::ThrottlingQuotaExceeded, message)));
            }
            queue.waiting.push_back(change);
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
            let change = {
                let mut queue = self.queue.lock();
                match queue.waiting.pop_front() {
                    Some(change) => change,
                    None => return queue.busy = false,
                }
            };
            if self.begin(change) {
                return;
            }
        }
    }

    /// Decides one change; whether a proposal of it is under way.
    fn begin(self: &Arc<Self>, mut change: Box<dyn Change>) -> bool {
        let Bounds { deadline_ns, term } = change.bounds();
        if self.clock.monotonic_ns() > deadline_ns {
            // As Kafka's controller: what waited for too long is not made any more.
            answer(change, Err(ErrorCode::RequestTimedOut.into()));
            return false;
        }
        // Before the decision: one of them puts another quorum in force, and was made alone.
        let is_shared = self.quorum.is_shared();
        let image = self.publisher.image();
        let decided = panics::contain("a change of metadata", || {
            let records = change.decide(&image);
            fitting(&image, records).map_err(ApiError::from)
        });
        let decided = decided.unwrap_or_else(|| Err(ErrorCode::UnknownServerError.into()));
        let records = match decided {
            Ok(records) if records.is_empty() && self.is_in_doubt(&image) => vec![settling(&image)],
            Ok(records) if !records.is_empty() || is_shared => records,
            other => {
                answer(change, other.map(drop));
                return false;
            }
        };
        let (expected, level, timestamp_ms) =
            (image.offset, image.record_version(), self.clock.wall_ms());
        let this = Arc::clone(self);
        let ended = move |outcome| {
            if let Outcome::Unknown(_) = outcome {
                this.queue.lock().doubtful = Some(expected);
            }
            this.ended(outcome, change);
        };
        let proposal = Proposal { records, expected, level, timestamp_ms, term };
        self.quorum.propose(proposal, Box::new(ended));
        true
    }

    /// Whether a change of unknown outcome may yet follow `image`.
    fn is_in_doubt(&self, image: &MetadataImage) -> bool {
        self.queue.lock().doubtful == Some(image.offset)
    }

    fn ended(self: Arc<Self>, outcome: Outcome, change: Box<dyn Change>) {
        let refused = match outcome {
            Outcome::Committed(offset) => {
                let publisher = Arc::clone(&self.publisher);
                let published = move |result: Result<(), String>| {
                    answer(change, result.map_err(|reason| unknown(&reason)));
                    self.run();
                };
                return publisher.when_published(offset, Box::new(published));
            }
            // Each time the log has grown: a change cannot be decided again without end while
            // nothing moves.
            Outcome::Rejected(MetadataError::Overtaken { expected, found }) if found > expected => {
                return self.decide_again(expected, found, change);
            }
            Outcome::Rejected(error) => error.into(),
            Outcome::Unknown(error) => unknown(&error.to_string()),
        };
        answer(change, Err(refused));
        self.run();
    }

    /// Begins a change once more when the record at `found` is in the image.
    fn decide_again(self: Arc<Self>, expected: i64, found: i64, change: Box<dyn Change>) {
        let publisher = Arc::clone(&self.publisher);
        let published = move |result: Result<(), String>| {
            let begun = match result {
                Ok(()) => self.begin(change),
                // The image ends here: what overtook the change is never in it.
                Err(_) => {
                    answer(change, Err(MetadataError::Overtaken { expected, found }.into()));
                    false
                }
            };
            if !begun {
                self.run();
            }
        };
        publisher.when_published(found, Box::new(published));
    }
}

/// A panic of one answer is a bug of its own: the changes behind it go on.
fn answer(change: Box<dyn Change>, result: Result<(), ApiError>) {
    panics::contain("an answer to a change of metadata", || change.answer(result));
}

/// The records, if the image can take them: one that does not fit must never reach a disk. Every
/// broker that is to read them supports them.
///
/// # Errors
/// The first record that does not fit.
pub fn fitting(
    image: &MetadataImage,
    records: Vec<MetadataRecord>,
) -> Result<Vec<MetadataRecord>, MetadataError> {
    let (base_offset, epoch) = (image.offset + 1, image.epoch);
    let batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
    let after = image.with_batch(&batch)?;
    allowed(image, &batch.records, &after)?;
    Ok(batch.records)
}

/// A record that says what `image` says already: behind it, no change that was decided on `image`
/// counts any more.
fn settling(image: &MetadataImage) -> MetadataRecord {
    let next_producer_id = image.next_producer_id;
    MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: -1, next_producer_id })
}

/// To a client that is a timeout: the change may have been made, and may come to light later.
fn unknown(reason: &str) -> ApiError {
    let message = format!("It is not known whether the change was made: {reason}");
    ApiError::new(ErrorCode::RequestTimedOut, message)
}

#[cfg(test)]
mod tests;
