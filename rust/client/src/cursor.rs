//! Where a consumer stands in one partition.
//!
//! A cursor is shared by the subscription, by fetches under way, and by records that wait to be
//! handed out. It is never moved to another place: a seek, a reset or a new assignment retires it
//! and makes another, so that whatever still comes in for the old place is known to be stale.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::topic_partition::TopicPartition;

/// A leader epoch that is not known.
pub const NO_EPOCH: i32 = -1;

/// A place in a partition: the next offset to read, and what is known of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The offset of the next record.
    pub offset: i64,
    /// The leader epoch of the record before it; -1 if that is not known.
    pub leader_epoch: i32,
}

impl Position {
    /// An offset of which no leader epoch is known.
    #[must_use]
    pub const fn at(offset: i64) -> Self {
        Self { offset, leader_epoch: NO_EPOCH }
    }
}

#[derive(Clone, Copy, Debug)]
struct Places {
    /// The record after the last one that was handed out.
    position: Position,
    /// What earlier calls handed out ends here: the place that may be committed by itself.
    done: Position,
}

/// A consumer's place in one partition, from one seek to the next.
#[derive(Debug)]
pub struct Cursor {
    partition: TopicPartition,
    /// Shared with the cursor that goes on at the same place.
    places: Arc<Mutex<Places>>,
    retired: AtomicBool,
    paused: AtomicBool,
    buffered_bytes: AtomicUsize,
}

impl Cursor {
    /// A cursor that begins at `start`.
    #[must_use]
    pub fn new(partition: TopicPartition, start: Position) -> Self {
        Self::at(partition, Arc::new(Mutex::new(Places { position: start, done: start })))
    }

    /// Another cursor at the same place, for what is to be fetched anew: what this one handed out
    /// is done for both.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::at(self.partition.clone(), Arc::clone(&self.places))
    }

    fn at(partition: TopicPartition, places: Arc<Mutex<Places>>) -> Self {
        Self {
            partition,
            places,
            retired: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            buffered_bytes: AtomicUsize::new(0),
        }
    }

    /// The partition it stands in.
    #[must_use]
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The next record to be handed out.
    #[must_use]
    pub fn position(&self) -> Position {
        self.places.lock().position
    }

    /// Where that ends what earlier calls handed out.
    #[must_use]
    pub fn done(&self) -> Position {
        self.places.lock().done
    }

    /// Everything before `position` was handed out.
    pub fn advance(&self, position: Position) {
        self.places.lock().position = position;
    }

    /// The same when the caller comes back for more: what it had until now is done.
    pub fn finish_and_advance(&self, position: Position) {
        let mut places = self.places.lock();
        places.done = places.position;
        places.position = position;
    }

    /// Nothing before `position` was worth handing out: it is done as soon as what was is.
    pub fn pass(&self, position: Position) {
        let mut places = self.places.lock();
        if places.done == places.position {
            places.done = position;
        }
        places.position = position;
    }

    /// The caller came back: all that was handed out is done.
    pub fn finish(&self) {
        let mut places = self.places.lock();
        places.done = places.position;
    }

    /// Marks it as stale, for ever.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Whether it is stale.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Holds records back, or lets them go again.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// Whether records are held back.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Whether its records may be handed out now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_retired() && !self.is_paused()
    }

    /// Bytes that were fetched for it and not decoded yet.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes.load(Ordering::Acquire)
    }

    /// Bytes were fetched.
    pub fn add_buffered(&self, bytes: usize) {
        self.buffered_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Bytes were decoded or dropped.
    pub fn remove_buffered(&self, bytes: usize) {
        self.buffered_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}
