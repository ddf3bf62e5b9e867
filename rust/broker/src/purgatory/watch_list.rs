//! Everything that waits for one thing to move: for a partition, a group, a fetch session.
//!
//! Two kinds hang here. A waiter is an operation: it is asked whenever the thing moves, and goes
//! when it is completed. A rope is a fetch session's: it stays, and each move makes the partition
//! dirty for that session and asks the session's own waiters. So whoever checks a partition's list
//! has told the sessions as well.

use super::{DelayedOperation, Waiter};
use crate::fetch_sessions;
use parking_lot::Mutex;
use slab::Slab;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};

/// What hangs at a partition for a fetch session.
pub type Rope = fetch_sessions::Rope<Arc<WatchList>>;

/// Everything that waits under one key. A partition may keep it and spare the look-up by key.
#[derive(Default)]
pub struct WatchList {
    /// Of both kinds; ropes of sessions that are gone count until somebody looks.
    count: AtomicUsize,
    linked: Mutex<Linked>,
}

#[derive(Default)]
struct Linked {
    waiters: Slab<Arc<Waiter>>,
    ropes: Vec<Weak<Rope>>,
}

impl WatchList {
    /// Asks every waiter again, and completes those that are satisfied. Returns how many were.
    pub fn check(&self) -> usize {
        self.tell(None)
    }

    /// As `check`, when all that happened is that `bytes` more can be read.
    pub fn check_bytes(&self, bytes: u64) -> usize {
        self.tell(Some(bytes))
    }

    fn tell(&self, more_bytes: Option<u64>) -> usize {
        // Pairs with the fences in `watch` and `hang`: either we see who waits, or its own look
        // sees what the caller changed before this call.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let worth_asking = |operation: &dyn DelayedOperation| {
            more_bytes.is_none_or(|bytes| operation.add_bytes(bytes))
        };
        let (waiters, ropes) = {
            let mut linked = self.linked.lock();
            let asked = linked.waiters.iter().map(|(_, waiter)| waiter);
            let asked = asked.filter(|waiter| worth_asking(&*waiter.operation)).cloned();
            (asked.collect::<SmallVec<[Arc<Waiter>; 8]>>(), self.ropes(&mut linked))
        };
        let satisfied = waiters.iter().filter(|waiter| waiter.complete_if_satisfied()).count();
        let through_bells = ropes.iter().map(|rope| {
            rope.pull();
            rope.bell().waiters().tell(more_bytes)
        });
        satisfied + through_bells.sum::<usize>()
    }

    /// The ropes of sessions that still are; the others are taken off.
    fn ropes(&self, linked: &mut Linked) -> SmallVec<[Arc<Rope>; 8]> {
        let mut alive = SmallVec::new();
        let before = linked.ropes.len();
        linked.ropes.retain(|rope| {
            let rope = rope.upgrade();
            alive.extend(rope.clone());
            rope.is_some()
        });
        self.count.fetch_sub(before - linked.ropes.len(), Ordering::Relaxed);
        alive
    }

    /// Hangs a rope here until its session drops it. The caller looks at the partition after this:
    /// what moved before pulled nothing.
    pub fn hang(&self, rope: &Arc<Rope>) {
        {
            let mut linked = self.linked.lock();
            if linked.ropes.len() == linked.ropes.capacity() {
                // Before it grows, those of sessions that are gone make room.
                drop(self.ropes(&mut linked));
            }
            linked.ropes.push(Arc::downgrade(rope));
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        rope.set_hanging();
        fence(Ordering::SeqCst);
    }

    /// When follower `replica_id` was last known to have everything, as its fetch sessions say: in
    /// ms of wall time. `None` if none of them does.
    #[must_use]
    pub fn caught_up_ms(&self, replica_id: i32) -> Option<i64> {
        let ropes = self.ropes(&mut self.linked.lock());
        let its = ropes.iter().filter(|rope| rope.bell().replica_id() == replica_id);
        its.filter_map(|rope| rope.caught_up_ms()).max()
    }

    pub(super) fn add(&self, waiter: &Arc<Waiter>) -> usize {
        let mut linked = self.linked.lock();
        self.count.fetch_add(1, Ordering::Relaxed);
        linked.waiters.insert(Arc::clone(waiter))
    }

    pub(super) fn remove(&self, place: usize) {
        let removed = {
            let mut linked = self.linked.lock();
            self.count.fetch_sub(1, Ordering::Relaxed);
            linked.waiters.try_remove(place)
        };
        drop(removed);
    }

    /// Completes everything that waits as stopped.
    pub(super) fn stop(&self) {
        let waiters: Vec<_> = {
            let linked = self.linked.lock();
            linked.waiters.iter().map(|(_, waiter)| Arc::clone(waiter)).collect()
        };
        for waiter in waiters {
            waiter.complete(super::Completion::Stopped);
        }
    }
}

#[cfg(test)]
mod tests;
