//! Idempotence: which sequence a batch has, and what a broker's refusal says about it.
//!
//! A producer id and epoch, and for each partition a sequence that counts records. A broker takes a
//! batch only if its sequence follows the last one, and answers a repeated batch with its old
//! offset. So a batch can be sent again without harm, as long as it keeps its sequence. If a batch
//! is finally lost, later ones no longer follow: the epoch is raised, and outstanding batches get
//! new numbers from 0. No request is needed for that.
//! Source: KIP-98, KIP-360 (for producers without transactions), Kafka's `TransactionManager`.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::record_batch::advance_sequence;

use crate::producer::accumulator::Stamp;

#[cfg(test)]
mod tests;

/// Who the producer is to brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Assigned by a broker.
    pub producer_id: i64,
    /// Raised by the producer itself.
    pub epoch: i16,
}

impl Identity {
    /// The next epoch; `None` after the last one: a new producer id is needed.
    #[must_use]
    pub fn bumped(self) -> Option<Self> {
        self.epoch.checked_add(1).map(|epoch| Self { epoch, ..self })
    }
}

/// The sequence of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    identity: Option<Identity>,
    next: i32,
    last_acked: Option<i32>,
    last_acked_offset: Option<i64>,
    /// A broker is known to know the sequence.
    is_begun: bool,
    /// A batch was given up while it was unknown whether it was written.
    is_unresolved: bool,
}

impl Sequences {
    /// Whom the sequence belongs to.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Starts again at 0.
    pub fn restart(&mut self, identity: Identity) {
        *self = Self {
            identity: Some(identity),
            last_acked_offset: self.last_acked_offset,
            ..Self::default()
        };
    }

    /// The stamp of the next batch, of `count` records; `None` before the first restart.
    pub fn stamp(&mut self, count: u32) -> Option<Stamp> {
        let Identity { producer_id, epoch } = self.identity?;
        let base_sequence = self.next;
        self.next = advance_sequence(base_sequence, count as i32);
        Some(Stamp { producer_id, epoch, base_sequence })
    }

    /// A batch with these sequences was written; its last record at `last_offset`, if known.
    pub fn acked(&mut self, last_sequence: i32, last_offset: Option<i64>) {
        // Answers to repeated batches may come late.
        if self.last_acked.is_none_or(|acked| is_after(last_sequence, acked)) {
            self.last_acked = Some(last_sequence);
        }
        self.last_acked_offset = self.last_acked_offset.max(last_offset);
    }

    /// Whether a broker is known to know the sequence. Until then it takes any: what comes second
    /// must not leave before what comes first has arrived.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// The partition that is sent to now took something.
    pub fn begin(&mut self) {
        self.is_begun = true;
    }

    /// From now on it is sent to another partition of the same name, which took nothing yet.
    pub fn begin_elsewhere(&mut self) {
        self.is_begun = false;
    }

    /// Whether a batch that begins with `sequence` follows what is written for sure.
    #[must_use]
    pub fn is_next(&self, sequence: i32) -> bool {
        sequence == self.last_acked.map_or(0, |acked| advance_sequence(acked, 1))
    }

    /// A numbered batch was given up, and whether it was written is not known.
    pub fn give_up(&mut self) {
        self.is_unresolved = true;
    }

    /// Whether a batch was given up, and nothing since told whether it was written.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.is_unresolved
    }

    /// Nothing is outstanding: was all that was numbered also written? If not, a restart is due.
    pub fn resolve(&mut self) -> bool {
        if self.is_next(self.next) {
            self.is_unresolved = false;
        }
        !self.is_unresolved
    }
}

/// Whether `a` comes after `b`, where sequences wrap.
fn is_after(a: i32, b: i32) -> bool {
    let ahead = (i64::from(a) - i64::from(b)).rem_euclid(1 << 31);
    ahead != 0 && ahead < 1 << 30
}

/// What to do with a batch that a broker refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was written before; where is not known any more.
    Written,
    /// Send it again as it is.
    Retry,
    /// Raise the epoch, give outstanding batches new numbers, and send them again.
    RetryRenumbered,
    /// Give it up: see [`Sequences::give_up`].
    Lost,
}

/// What is known of a refused batch.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The broker's code.
    pub code: ErrorCode,
    /// Whether the batch had another stamp when it was sent: the refusal is of that one.
    pub stamp_replaced: bool,
    /// Whether nothing that was begun before it is outstanding: its predecessor was written, or was
    /// given up.
    pub is_first: bool,
    /// Whether it is a half of a batch that may be written, see
    /// [`crate::producer::accumulator::Batch::half_of_unanswered`].
    pub half_of_unanswered: bool,
    /// Whether it may be sent again at all: neither too often nor for too long.
    pub may_retry: bool,
}

/// What a refusal means for an idempotent batch.
///
/// - case A: `DUPLICATE_SEQUENCE_NUMBER`: it was written, and the broker forgot where
/// - case B: `UNKNOWN_PRODUCER_ID`: the broker forgot the producer, as its records were deleted;
///   nothing can repeat, so a new epoch starts over
/// - case C: `OUT_OF_ORDER_SEQUENCE_NUMBER` of a batch whose predecessors are still out: they come
///   first. Some of them may be written: with a new epoch they would be written again
/// - case D: the same of the first that is out: what was before it is gone; a new epoch
/// - case E: the same of a half of a batch that may be written. The half does not follow its own
///   records, and a new epoch would write them again. It is lost
/// - case F: anything retriable: again, under the same sequence
/// - case G: anything else, or it was tried for long enough: it is lost. What follows keeps its
///   sequence for now, as some of it may be written; a broker that misses it says so (case D)
#[must_use]
pub fn judge(refused: &Refused) -> Verdict {
    let Refused { code, stamp_replaced, is_first, half_of_unanswered, may_retry } = *refused;
    if code == ErrorCode::DuplicateSequenceNumber {
        return Verdict::Written;
    }
    if !may_retry {
        return Verdict::Lost;
    }
    match code {
        ErrorCode::UnknownProducerId if stamp_replaced => Verdict::Retry,
        ErrorCode::UnknownProducerId => Verdict::RetryRenumbered,
        ErrorCode::OutOfOrderSequenceNumber if is_first && !stamp_replaced => {
            if half_of_unanswered { Verdict::Lost } else { Verdict::RetryRenumbered }
        }
        ErrorCode::OutOfOrderSequenceNumber => Verdict::Retry,
        code if code.is_retriable() => Verdict::Retry,
        _ => Verdict::Lost,
    }
}
