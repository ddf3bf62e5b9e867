//! What the log knows of its idempotent producers: the last five batches of each.
//!
//! A batch that is sent again gets the offset it has; a gap or an old epoch is refused. The state
//! lives as long as the producer is active, not as long as its records: retention and DeleteRecords
//! do not touch it. Pure: no file, no clock.
//! Source: Kafka's `ProducerStateManager`, `ProducerAppendInfo`; KIP-98.

use std::collections::{HashMap, VecDeque};

use kafkalite_protocol::record_batch::{
    BatchHeader, NO_PRODUCER_EPOCH, NO_SEQUENCE, advance_sequence,
};
use kafkalite_protocol::types::Offset;

use crate::error::LogError;

pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

/// How many batches of a producer may be sent again: clients keep at most five in flight.
const BATCHES_KEPT: usize = 5;

/// No cluster gives out so many ids. A client may write any number as its id, and one that wrote
/// the greatest of all must not use up the ids of everyone.
pub const FIRST_INVENTED_ID: i64 = 1 << 62;

/// One batch of a producer that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchMetadata {
    last_sequence: i32,
    last_offset: Offset,
    offset_delta: i32,
    timestamp_ms: i64,
}

impl BatchMetadata {
    fn first_sequence(&self) -> i32 {
        let first = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        // Sequences wrap at 2^31-1.
        if first < 0 { (first + i64::from(i32::MAX) + 1) as i32 } else { first as i32 }
    }
}

/// One producer's state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProducerEntry {
    epoch: i16,
    coordinator_epoch: i32,
    last_timestamp_ms: i64,
    current_txn_first_offset: Option<Offset>,
    batches: VecDeque<BatchMetadata>,
}

impl ProducerEntry {
    fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }
}

/// A producer as DescribeProducers shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    /// The producer's id.
    pub producer_id: i64,
    /// Its newest epoch.
    pub producer_epoch: i16,
    /// Sequence of its last record; -1 if unknown.
    pub last_sequence: i32,
    /// Its last timestamp, ms.
    pub last_timestamp_ms: i64,
    /// Epoch of the transaction coordinator that wrote its last marker; -1 if none did.
    pub coordinator_epoch: i32,
    /// Where its open transaction starts.
    pub current_txn_start_offset: Option<Offset>,
}

/// Where a batch that was sent again stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp, ms.
    pub timestamp_ms: i64,
}

/// A change that can be taken back: the producer, and what was known of it before.
#[derive(Debug)]
pub struct Undo {
    producer_id: i64,
    before: Option<ProducerEntry>,
}

/// All producers of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerState {
    producers: HashMap<i64, ProducerEntry>,
}

impl ProducerState {
    /// Looks at a batch that a client wants to append.
    ///
    /// `Ok(Some(_))` if it is one of the last five already, `Ok(None)` if it may be appended.
    ///
    /// # Errors
    /// `InvalidProducerEpoch`, or `OutOfOrderSequence` where it does not follow the last one.
    pub fn check(&self, header: &BatchHeader) -> Result<Option<Duplicate>, LogError> {
        if !header.has_producer_id() {
            return Ok(None);
        }
        let producer_id = header.producer_id;
        // Nothing is known of it: its records may have been deleted, so it may start anywhere.
        let Some(entry) = self.producers.get(&producer_id) else { return Ok(None) };
        if header.producer_epoch < entry.epoch {
            return Err(LogError::InvalidProducerEpoch {
                producer_id,
                epoch: header.producer_epoch,
                current_epoch: entry.epoch,
            });
        }
        let sequence = header.base_sequence;
        let out_of_order = |last_sequence| {
            Err(LogError::OutOfOrderSequence { producer_id, sequence, last_sequence })
        };
        if header.producer_epoch > entry.epoch {
            return if sequence == 0 { Ok(None) } else { out_of_order(NO_SEQUENCE) };
        }
        let last_sequence = header.last_sequence();
        let duplicate = entry.batches.iter().find(|batch| {
            batch.first_sequence() == sequence && batch.last_sequence == last_sequence
        });
        if let Some(batch) = duplicate {
            let base_offset = Offset(batch.last_offset.0 - i64::from(batch.offset_delta));
            let (last_offset, timestamp_ms) = (batch.last_offset, batch.timestamp_ms);
            return Ok(Some(Duplicate { base_offset, last_offset, timestamp_ms }));
        }
        let last = entry.last_sequence();
        if last == NO_SEQUENCE || sequence == advance_sequence(last, 1) {
            Ok(None)
        } else {
            out_of_order(last)
        }
    }

    /// Notes a batch that is in the log, or is about to be. `None` if nothing changed.
    pub fn note(&mut self, header: &BatchHeader) -> Option<Undo> {
        if !header.has_producer_id() {
            return None;
        }
        let producer_id = header.producer_id;
        let before = self.producers.get(&producer_id).cloned();
        let entry = self.producers.entry(producer_id).or_insert_with(|| ProducerEntry {
            epoch: NO_PRODUCER_EPOCH,
            coordinator_epoch: -1,
            last_timestamp_ms: -1,
            current_txn_first_offset: None,
            batches: VecDeque::new(),
        });
        entry.last_timestamp_ms = header.max_timestamp;
        if entry.epoch != header.producer_epoch {
            entry.epoch = header.producer_epoch;
            entry.batches.clear();
        }
        // A marker carries no sequence.
        if !header.is_control() && header.base_sequence != NO_SEQUENCE {
            if entry.batches.len() == BATCHES_KEPT {
                entry.batches.pop_front();
            }
            entry.batches.push_back(BatchMetadata {
                last_sequence: header.last_sequence(),
                last_offset: header.last_offset(),
                offset_delta: header.last_offset_delta,
                timestamp_ms: header.max_timestamp,
            });
        }
        Some(Undo { producer_id, before })
    }

    /// Takes over from `noted` each producer of which it knows more: a newer batch, or as many up
    /// to the same one. Compaction removes batches that a producer may still send again; then what
    /// was read in the log has older ones in their place.
    pub(crate) fn recall(&mut self, noted: Self) {
        let known = |entry: &ProducerEntry| {
            (entry.batches.back().map(|newest| newest.last_offset), entry.batches.len())
        };
        for (id, noted) in noted.producers {
            if self.producers.get(&id).is_none_or(|entry| known(entry) <= known(&noted)) {
                self.producers.insert(id, noted);
            }
        }
    }

    /// Takes one change back; the newest first.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo.before {
            Some(entry) => self.producers.insert(undo.producer_id, entry),
            None => self.producers.remove(&undo.producer_id),
        };
    }

    /// Forgets producers that were last active `expiration_ms` before `now_ms`.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        let alive = |entry: &mut ProducerEntry| {
            entry.current_txn_first_offset.is_some()
                || now_ms.saturating_sub(entry.last_timestamp_ms) < expiration_ms
        };
        self.producers.retain(|_, entry| alive(entry));
        if self.producers.is_empty() {
            self.producers = HashMap::new();
        }
    }

    /// Whether no producer is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Whether a batch is the newest of its producer: compaction keeps its header for the sequence.
    pub(crate) fn is_last_batch(&self, header: &BatchHeader) -> bool {
        let entry = self.producers.get(&header.producer_id);
        let newest = entry.and_then(|entry| entry.batches.back());
        newest.is_some_and(|newest| newest.last_offset == header.last_offset())
    }

    /// The greatest id here that a cluster may have given out.
    pub(crate) fn greatest_id(&self) -> Option<i64> {
        self.producers.keys().copied().filter(|id| *id < FIRST_INVENTED_ID).max()
    }

    /// Every producer, by id.
    pub(crate) fn active(&self) -> Vec<ActiveProducer> {
        let mut all: Vec<_> = self
            .producers
            .iter()
            .map(|(id, entry)| ActiveProducer {
                producer_id: *id,
                producer_epoch: entry.epoch,
                last_sequence: entry.last_sequence(),
                last_timestamp_ms: entry.last_timestamp_ms,
                coordinator_epoch: entry.coordinator_epoch,
                current_txn_start_offset: entry.current_txn_first_offset,
            })
            .collect();
        all.sort_by_key(|producer| producer.producer_id);
        all
    }
}
