//! Purgatory: where operations wait until a partition (or a group) moved far enough, or too long.
//!
//! An operation is watched in lists (`waiters`). The owner of a list checks it after each move; the
//! operation is asked again and, if satisfied, completed exactly once, on the checking thread. At
//! its timeout it completes as [`Completion::Expired`]. Completing unlinks it from every list and
//! from the timing wheel, so nothing stays behind to be purged.
//!
//! `check` without waiting operations costs a fence and one atomic load: appends call it every
//! time. No lock of this room is held while an operation is asked or completed, and callers hold
//! none of theirs. So an operation may append, watch and check.
//!
//! Source: Kafka's `DelayedOperationPurgatory`; each partition keeps its list, in place of 512
//! shards by key.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::metrics::{Counter, Metrics};
use crate::waiters::{Waiting, WatchList};

pub mod timer;
pub mod timing_wheel;
mod wait;

#[cfg(test)]
mod tests;

pub use timer::{RunExpired, Timer, TimerTask};
pub use timing_wheel::TimerId;
pub use wait::{Asker, Caught, Unsafe, Wait, WaitsFor};

/// How an operation came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// `is_satisfied` said so.
    Satisfied,
    /// Its timeout passed first.
    Expired,
    /// The broker stops: answer without inventing an acknowledgement.
    Stopped,
}

/// Something that may have to wait: a produce for replicas, a fetch for records.
pub trait DelayedOperation: Send + Sync {
    /// Whether it need not wait any longer. May be called by several threads at once, with no lock
    /// of purgatory held; once true it stays true or the caller does not mind.
    fn is_satisfied(&self) -> bool;

    /// Sends the answer. Called exactly once, whatever happens.
    fn complete(self: Arc<Self>, how: Completion);

    /// How long it may wait, in milliseconds from `watch`.
    fn timeout_ms(&self) -> u64;

    /// What it waits for, for people who test their clients; `None`: it does not say.
    fn waits(&self) -> Option<Wait> {
        None
    }

    /// `bytes` more became readable in one of its lists: is it worth asking `is_satisfied` now?
    /// A fetch adds them up and says no until `min_bytes` are reached.
    fn add_bytes(&self, bytes: u64) -> bool {
        let _ = bytes;
        true
    }
}

/// Where a waiter is linked: lists, and its place in each.
type Places = SmallVec<[(Arc<WatchList>, usize); 2]>;

/// One watched operation and everywhere it is linked.
struct Waiter {
    operation: Arc<dyn DelayedOperation>,
    completed: AtomicBool,
    places: Mutex<Places>,
    timer_id: Mutex<Option<TimerId>>,
    timer: Arc<Timer>,
    totals: Arc<Totals>,
}

impl Waiting for Waiter {
    fn add_bytes(&self, bytes: u64) -> bool {
        self.operation.add_bytes(bytes)
    }

    fn complete_if_satisfied(&self) -> bool {
        !self.completed.load(Ordering::Acquire)
            && self.operation.is_satisfied()
            && self.complete(Completion::Satisfied)
    }

    fn stop(&self) {
        self.complete(Completion::Stopped);
    }
}

impl Waiter {
    /// Completes the operation, unless another thread did: then `false`.
    fn complete(&self, how: Completion) -> bool {
        if self.completed.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.unlink();
        self.totals.waiting.fetch_sub(1, Ordering::Relaxed);
        if how == Completion::Expired {
            self.totals.expired.add(1);
        }
        Arc::clone(&self.operation).complete(how);
        true
    }

    fn unlink(&self) {
        let timer_id = self.timer_id.lock().take();
        if let Some(id) = timer_id {
            self.timer.cancel(id);
        }
        let places = std::mem::take(&mut *self.places.lock());
        for (list, place) in places {
            list.remove(place);
        }
    }
}

#[derive(Default)]
struct Totals {
    waiting: AtomicUsize,
    expired: Counter,
}

/// Links the waiter in every list, once in each however often it is given. Its places stay locked
/// meanwhile, so a thread that completes it at once waits and then unlinks all of them.
fn link(waiter: &Arc<Waiter>, lists: impl IntoIterator<Item = Arc<WatchList>>) {
    let mut lists: SmallVec<[Arc<WatchList>; 2]> = lists.into_iter().collect();
    lists.sort_unstable_by_key(Arc::as_ptr);
    lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let mut places = waiter.places.lock();
    for list in lists {
        let place = list.add(Arc::clone(waiter) as Arc<dyn Waiting>);
        places.push((list, place));
    }
}

/// Operations that wait, each in the watch lists of what it waits for.
pub struct Purgatory {
    timer: Arc<Timer>,
    totals: Arc<Totals>,
    /// Every list that was given out and is still kept, for the stop to find.
    lists: Mutex<Vec<Weak<WatchList>>>,
    stopped: AtomicBool,
}

impl Purgatory {
    /// An empty purgatory; `name` (`Produce`, `Fetch`, ...) labels its size and its expirations.
    #[must_use]
    pub fn new(name: &str, timer: Arc<Timer>, metrics: &Metrics) -> Self {
        let labels = || vec![("operation", name.to_owned())];
        let help = "Operations that waited in purgatory until their timeout.";
        let expired = metrics.counter("kafkalite_purgatory_expired", help, labels());
        let totals = Arc::new(Totals { waiting: AtomicUsize::new(0), expired });
        let help = "Operations waiting in purgatory.";
        metrics.computed("kafkalite_purgatory_size", help, labels(), &totals, |totals| {
            i64::try_from(totals.waiting.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
        });
        Self { timer, totals, lists: Mutex::default(), stopped: AtomicBool::new(false) }
    }

    /// Completes `operation` now if it need not wait; else holds it in each of `lists`, once in one
    /// that is given many times. The lists are asked for only if it has to wait.
    pub fn watch<L>(&self, operation: Arc<dyn DelayedOperation>, lists: impl FnOnce() -> L)
    where
        L: IntoIterator<Item = Arc<WatchList>>,
    {
        if operation.is_satisfied() {
            return operation.complete(Completion::Satisfied);
        }
        let timeout_ms = operation.timeout_ms();
        if timeout_ms == 0 {
            self.totals.expired.add(1);
            return operation.complete(Completion::Expired);
        }
        let waiter = Arc::new(Waiter {
            operation,
            completed: AtomicBool::new(false),
            places: Mutex::new(SmallVec::new()),
            timer_id: Mutex::new(None),
            timer: Arc::clone(&self.timer),
            totals: Arc::clone(&self.totals),
        });
        self.totals.waiting.fetch_add(1, Ordering::Relaxed);
        link(&waiter, lists());
        self.arm(&waiter, timeout_ms);
        // Look again: a move of a partition after the first look and before `add` woke no
        // operation.
        fence(Ordering::SeqCst);
        if !waiter.complete_if_satisfied() && self.stopped.load(Ordering::SeqCst) {
            // It came too late for `stop` to find it.
            waiter.complete(Completion::Stopped);
        }
    }

    /// A new list. Its owner keeps it, and checks it whenever what it stands for moved.
    #[must_use]
    pub fn new_list(&self) -> Arc<WatchList> {
        let list = Arc::new(WatchList::default());
        let mut lists = self.lists.lock();
        if lists.len() == lists.capacity() {
            // Before the vector grows, lists without an owner make room.
            lists.retain(|list| list.strong_count() > 0);
        }
        lists.push(Arc::downgrade(&list));
        list
    }

    /// What every operation that waits now waits for, if it says so.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let lists: Vec<_> = self.lists.lock().iter().filter_map(Weak::upgrade).collect();
        let mut waiting: Vec<Arc<Waiter>> = Vec::new();
        for waiter in lists.iter().flat_map(|list| list.waiters()) {
            let waiter: Arc<dyn Any + Send + Sync> = waiter;
            waiting.extend(waiter.downcast::<Waiter>());
        }
        // One that waits for many partitions is in the list of each.
        waiting.sort_unstable_by_key(Arc::as_ptr);
        waiting.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let open = waiting.iter().filter(|waiter| !waiter.completed.load(Ordering::Acquire));
        open.filter_map(|waiter| waiter.operation.waits()).collect()
    }

    /// How many operations wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.totals.waiting.load(Ordering::Relaxed)
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Completes everything that waits, now or later, as [`Completion::Stopped`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let lists: Vec<_> = self.lists.lock().iter().filter_map(Weak::upgrade).collect();
        for list in lists {
            list.stop();
        }
    }

    fn arm(&self, waiter: &Arc<Waiter>, timeout_ms: u64) {
        let expiring = Arc::clone(waiter);
        let task: TimerTask = Box::new(move || {
            expiring.complete(Completion::Expired);
        });
        let id = self.timer.schedule(timeout_ms, task);
        *waiter.timer_id.lock() = Some(id);
        // Completed before the id was there to be cancelled: cancel it here.
        if waiter.completed.load(Ordering::SeqCst) {
            waiter.unlink();
        }
    }
}
