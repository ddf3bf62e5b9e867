//! The quorum of one voter: what is on its disk is committed.
//!
//! It writes its log on the publisher's thread. No other node commits, so there is nothing to
//! publish while a proposal waits for its fsync. A thread of its own would only be one more to
//! wake.

use super::{MetadataQuorum, OnOutcome, Outcome, Proposal, QuorumMember, QuorumStatus};
use crate::metadata::error::MetadataError;
use crate::metadata::image::MetadataImage;
use crate::metadata::metadata_log::MetadataLog;
use crate::metadata::publisher::Publisher;
use crate::metadata::records::RecordsBatch;
use kafkalite_protocol::Uuid;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The quorum of one voter.
pub struct QuorumOfOne {
    node_id: i32,
    epoch: i32,
    publisher: Arc<Publisher>,
    /// The end of the log, exclusive.
    end: Arc<AtomicI64>,
    writer: Arc<Mutex<Writer>>,
}

/// What the publisher's thread needs; no other thread takes its lock.
struct Writer {
    epoch: i32,
    end: Arc<AtomicI64>,
    log: MetadataLog,
    /// When the last batch was decided upon.
    timestamp_ms: i64,
}

impl QuorumOfOne {
    /// Takes the log and the image that it adds up to, and leads from now on in the epoch after the
    /// image's. `publisher` gets every committed batch.
    pub fn new(
        node_id: i32,
        log: MetadataLog,
        image: &MetadataImage,
        publisher: Arc<Publisher>,
    ) -> Self {
        let (epoch, end) = (image.epoch + 1, Arc::new(AtomicI64::new(image.offset + 1)));
        let writer = Writer { epoch, end: Arc::clone(&end), log, timestamp_ms: 0 };
        Self { node_id, epoch, publisher, end, writer: Arc::new(Mutex::new(writer)) }
    }
}

impl Writer {
    fn append(&mut self, proposal: Proposal) -> Result<RecordsBatch, Outcome> {
        let Proposal { records, expected, level, timestamp_ms, .. } = proposal;
        let base_offset = self.end.load(Ordering::Relaxed);
        if expected + 1 != base_offset {
            let error = MetadataError::Overtaken { expected, found: base_offset - 1 };
            return Err(Outcome::Rejected(error));
        }
        let batch = RecordsBatch { base_offset, epoch: self.epoch, timestamp_ms, records };
        self.log.append(&batch, level).map_err(|failure| match failure.taken_back {
            true => Outcome::Rejected(failure.error),
            false => Outcome::Unknown(failure.error),
        })?;
        self.timestamp_ms = timestamp_ms;
        self.end.store(batch.last_offset() + 1, Ordering::Relaxed);
        Ok(batch)
    }

    fn published(&mut self, image: &MetadataImage) {
        // A snapshot takes the place of the log below it: it must hold all that the log does.
        if image.offset + 1 == self.end.load(Ordering::Relaxed) {
            self.log.snapshot_if_due(image, self.timestamp_ms);
        }
    }
}

impl MetadataQuorum for QuorumOfOne {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        let writer = Arc::clone(&self.writer);
        let append = move || {
            // The lock is free again when `done` begins the next change.
            let appended = writer.lock().append(proposal);
            match appended {
                Ok(batch) => {
                    done(Outcome::Committed(batch.last_offset()));
                    Some(batch)
                }
                Err(outcome) => {
                    done(outcome);
                    None
                }
            }
        };
        self.publisher.execute(Box::new(append));
    }

    fn published(&self, image: &Arc<MetadataImage>) {
        self.writer.lock().published(image);
    }

    fn status(&self) -> QuorumStatus {
        let end = self.end.load(Ordering::Relaxed);
        let me = QuorumMember {
            node_id: self.node_id,
            directory_id: Uuid::ZERO,
            end,
            answered_ms_ago: Some(0),
        };
        QuorumStatus {
            leader_id: self.node_id,
            leader_epoch: self.epoch,
            high_watermark: end,
            voters: vec![me],
            observers: Vec::new(),
        }
    }

    fn stop(&self) {}
}

#[cfg(test)]
mod tests;
