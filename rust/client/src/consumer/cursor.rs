//! Where a consumer stands in one partition.
//!
//! A cursor is shared by the subscription, by fetches under way, and by records that wait to be
//! handed out. It never moves to another place: a seek, a reset or a new assignment retires it and
//! makes another. So records that still come in for the old place are known to be stale.
//!
//! A call takes records before it hands them out, and may fail between the two. The position is
//! behind what was taken; commits count what was handed out.
//!
//! Where the client itself goes back (a rewind, a log that was cut) the new cursor shares the
//! places of the old one. Only the newest of them hands records out: it asks for that and moves the
//! position under one lock. Records that go back to the partition move the position of them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::topic_partition::TopicPartition;

/// A leader epoch that is not known.
pub const NO_EPOCH: i32 = -1;

/// No tenure: it is unknown since when a partition was held.
pub const NO_TENURE: u64 = 0;

/// A tenure that begins now: no two in a process have the same number.
pub(crate) fn next_tenure() -> u64 {
    static TENURES: AtomicU64 = AtomicU64::new(NO_TENURE + 1);
    TENURES.fetch_add(1, Ordering::Relaxed)
}

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

#[derive(Debug)]
struct Places {
    /// The record after the last one that was taken.
    position: Position,
    /// Where records begin that were taken and are not handed out yet, one for each [`Taken`].
    under_way: Vec<Position>,
    /// What earlier calls handed out ends here: the place that may be committed by itself.
    done: Position,
    /// Commits from here leave nothing to be committed by itself up to this offset.
    settled: Option<i64>,
    /// How often the log was cut, or the place went back before what was done.
    setbacks: u64,
    /// The number of the cursor that hands records out now.
    newest: u64,
}

impl Places {
    /// Takes the records before `next`, and returns where they begin.
    fn take(&mut self, next: Position) -> Position {
        let from = std::mem::replace(&mut self.position, next);
        self.under_way.push(from);
        from
    }

    /// The end of what was handed out. Records behind it may have been handed out as well, by a
    /// call within a call. The earlier ones may still go back, so a commit ends before them.
    fn handed_out(&self) -> Position {
        self.under_way.iter().fold(self.position, |first, from| first.min(*from))
    }

    fn go_back(&mut self, to: Position) {
        if to.offset < self.position.offset {
            self.position = to;
        }
        if to.offset < self.done.offset {
            self.done = to;
            self.setbacks += 1;
            self.settled = None;
        }
    }
}

/// A consumer's place in one partition, from one seek to the next.
#[derive(Debug)]
pub struct Cursor {
    partition: TopicPartition,
    /// Shared with the cursors that went on at the same place.
    places: Arc<Mutex<Places>>,
    /// Its number among those.
    number: u64,
    /// See [`Cursor::tenure`].
    tenure: u64,
    retired: AtomicBool,
    paused: AtomicBool,
    buffered_bytes: AtomicUsize,
}

impl Cursor {
    /// A cursor that begins at `start`.
    #[must_use]
    pub fn new(partition: TopicPartition, start: Position) -> Self {
        Self::held(partition, start, NO_TENURE)
    }

    /// The same in a tenure, see [`Cursor::tenure`].
    #[must_use]
    pub fn held(partition: TopicPartition, start: Position, tenure: u64) -> Self {
        let places = Places {
            position: start,
            under_way: Vec::new(),
            done: start,
            settled: None,
            setbacks: 0,
            newest: 0,
        };
        Self::at(partition, Arc::new(Mutex::new(places)), 0, tenure)
    }

    /// Another cursor at the same place, for what is to be fetched again: what this one handed out
    /// is done for both. This one is retired.
    #[must_use]
    pub fn again(&self) -> Self {
        self.successor(&mut self.places.lock())
    }

    /// The same where the log was cut at `end`, before the position: both go back there.
    #[must_use]
    pub fn again_from(&self, end: Position) -> Self {
        let mut places = self.places.lock();
        places.go_back(end);
        // A commit behind the cut is of records that are no more.
        places.setbacks += 1;
        places.settled = places.settled.filter(|settled| *settled <= end.offset);
        self.successor(&mut places)
    }

    fn successor(&self, places: &mut Places) -> Self {
        places.newest += 1;
        self.retired.store(true, Ordering::Release);
        Self::at(self.partition.clone(), Arc::clone(&self.places), places.newest, self.tenure)
    }

    fn at(partition: TopicPartition, places: Arc<Mutex<Places>>, number: u64, tenure: u64) -> Self {
        Self {
            partition,
            places,
            number,
            tenure,
            retired: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            buffered_bytes: AtomicUsize::new(0),
        }
    }

    /// The number of the time in which the partition has been held without a break, with the same
    /// topic. The holder is the group's member, or the caller that assigned it by hand. Numbers are
    /// unique in this process, and they grow. [`NO_TENURE`] if unknown.
    #[must_use]
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// The partition it stands in.
    #[must_use]
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The next record to be taken.
    #[must_use]
    pub fn position(&self) -> Position {
        self.places.lock().position
    }

    /// The end of what was handed out: before the records that a call has taken and not yet kept.
    #[must_use]
    pub fn handed_out(&self) -> Position {
        self.places.lock().handed_out()
    }

    /// Where that ends what earlier calls handed out.
    #[must_use]
    pub fn done(&self) -> Position {
        self.places.lock().done
    }

    /// The same, unless a commit from this place settled it.
    #[must_use]
    pub fn unsettled(&self) -> Option<Position> {
        let places = self.places.lock();
        let is_settled = places.settled.is_some_and(|settled| places.done.offset <= settled);
        (!is_settled).then_some(places.done)
    }

    /// Whether a commit from this place settled `offset`.
    #[must_use]
    pub fn is_settled(&self, offset: i64) -> bool {
        self.places.lock().settled.is_some_and(|settled| offset <= settled)
    }

    /// How often the log was cut here, or records before what was done were given back.
    #[must_use]
    pub fn setbacks(&self) -> u64 {
        self.places.lock().setbacks
    }

    /// A commit that was made here after so many setbacks leaves nothing to be committed by itself
    /// up to `offset`. After one more setback it says nothing. The last commit counts.
    pub fn settle(&self, offset: i64, setbacks: u64) {
        let mut places = self.places.lock();
        places.settled = Some(offset).filter(|_| places.setbacks == setbacks);
    }

    /// A commit from elsewhere went through after those from this place.
    pub fn unsettle(&self) {
        self.places.lock().settled = None;
    }

    /// Takes everything before `position`; `None`, and nothing happens, if the cursor is retired:
    /// then the records are fetched again, or are not wanted any more.
    #[must_use]
    pub fn advance(self: &Arc<Self>, position: Position) -> Option<Taken> {
        let from = self.move_on(|places| places.take(position))?;
        Some(Taken { cursor: Arc::clone(self), from })
    }

    /// The same when the caller comes back for more: what it had until now is done.
    #[must_use]
    pub fn finish_and_advance(self: &Arc<Self>, position: Position) -> Option<Taken> {
        let from = self.move_on(|places| {
            places.done = places.handed_out();
            places.take(position)
        })?;
        Some(Taken { cursor: Arc::clone(self), from })
    }

    /// Nothing before `position` was worth handing out: it is done as soon as what was is. Nothing
    /// happens if the cursor is retired.
    pub fn pass(&self, position: Position) {
        self.move_on(|places| {
            if places.done == places.position && places.under_way.is_empty() {
                places.done = position;
            }
            places.position = position;
        });
    }

    /// Moves the places under one lock with the look at whether it may.
    fn move_on<T>(&self, change: impl FnOnce(&mut Places) -> T) -> Option<T> {
        let mut places = self.places.lock();
        (places.newest == self.number).then(|| change(&mut places))
    }

    /// What was taken from `from` on is not handed out: the position goes back there, unless it is
    /// before that already.
    pub fn give_back(&self, from: Position) {
        self.places.lock().go_back(from);
    }

    /// Whether both stand at one place: the client went from one to the other by itself.
    #[must_use]
    pub fn is_of_one_place_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.places, &other.places)
    }

    /// The caller came back: all that was handed out is done. Whether that is all that was taken.
    pub fn finish(&self) -> bool {
        let mut places = self.places.lock();
        places.done = places.handed_out();
        places.under_way.is_empty()
    }

    /// Marks it as stale, which is final. A record is handed out before this, or not at all.
    pub fn retire(&self) {
        self.move_on(|places| places.newest += 1);
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

/// Records that a call took of a cursor. They are handed out when this is dropped, unless they went
/// back before: see [`Cursor::give_back`].
#[derive(Debug)]
#[must_use]
pub struct Taken {
    cursor: Arc<Cursor>,
    from: Position,
}

impl Taken {
    /// Where they were taken.
    #[must_use]
    pub fn cursor(&self) -> &Arc<Cursor> {
        &self.cursor
    }

    /// The place before them.
    #[must_use]
    pub fn from(&self) -> Position {
        self.from
    }

    /// Puts the position back before them, if nothing moved since it became `next`. Whether it did.
    pub(super) fn put_back(&self, next: Position) -> bool {
        let put_back = self.cursor.move_on(|places| {
            let is_last = places.position == next;
            if is_last {
                places.position = self.from;
            }
            is_last
        });
        put_back.unwrap_or(false)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let under_way = &mut self.cursor.places.lock().under_way;
        if let Some(at) = under_way.iter().position(|from| *from == self.from) {
            under_way.swap_remove(at);
        }
    }
}
