//! Everything that waits for one thing.

use super::{PartitionSubscription, Waiting};
use parking_lot::Mutex;
use slab::Slab;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};

/// Everything that waits for one thing; its owner keeps it, and checks it after each move.
#[derive(Default)]
pub struct WatchList {
    /// Of both kinds; subscriptions of sessions that are gone count until the next look.
    count: AtomicUsize,
    /// `None` until the first comes: most partitions have none.
    linked: Mutex<Option<Box<Linked>>>,
}

#[derive(Default)]
struct Linked {
    waiters: Slab<Arc<dyn Waiting>>,
    subscriptions: Vec<Weak<PartitionSubscription>>,
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
        // Pairs with the fences in `Purgatory::watch` and `subscribe`. Either this thread sees the
        // waiter, or the waiter's own look sees what the caller changed before this call.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let worth_asking =
            |waiter: &dyn Waiting| more_bytes.is_none_or(|bytes| waiter.add_bytes(bytes));
        let (waiters, subscriptions) = {
            let mut linked = self.linked.lock();
            let Some(linked) = linked.as_deref_mut() else { return 0 };
            let asked = linked.waiters.iter().map(|(_, waiter)| waiter);
            let asked = asked.filter(|waiter| worth_asking(&***waiter)).cloned();
            (asked.collect::<SmallVec<[Arc<dyn Waiting>; 8]>>(), self.subscriptions(linked))
        };
        let satisfied = waiters.iter().filter(|waiter| waiter.complete_if_satisfied()).count();
        let in_sessions = subscriptions.iter().map(|subscription| {
            subscription.mark_moved();
            subscription.notifier().waiters().tell(more_bytes)
        });
        satisfied + in_sessions.sum::<usize>()
    }

    /// The subscriptions of sessions that are still there; the others are taken off.
    fn subscriptions(&self, linked: &mut Linked) -> SmallVec<[Arc<PartitionSubscription>; 8]> {
        let mut alive = SmallVec::new();
        let before = linked.subscriptions.len();
        linked.subscriptions.retain(|subscription| {
            let subscription = subscription.upgrade();
            alive.extend(subscription.clone());
            subscription.is_some()
        });
        self.count.fetch_sub(before - linked.subscriptions.len(), Ordering::Relaxed);
        alive
    }

    /// Holds a subscription until its session drops it. The caller looks at the partition after
    /// this: a move before it marked nothing.
    pub fn subscribe(&self, subscription: &Arc<PartitionSubscription>) {
        {
            let mut linked = self.linked.lock();
            let linked = linked.get_or_insert_default();
            if linked.subscriptions.len() == linked.subscriptions.capacity() {
                // Before the list grows, subscriptions of sessions that are gone make room.
                drop(self.subscriptions(linked));
            }
            linked.subscriptions.push(Arc::downgrade(subscription));
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        subscription.set_held();
        fence(Ordering::SeqCst);
    }

    /// When follower `replica_id` was last known to have everything, as its fetch sessions say: in
    /// ms of monotonic time. `None` if none of them does.
    #[must_use]
    pub fn caught_up_ms(&self, replica_id: i32) -> Option<i64> {
        let all = self.subscriptions(self.linked.lock().as_deref_mut()?);
        let its = all.iter().filter(|one| one.notifier().replica_id() == replica_id);
        its.filter_map(|one| one.caught_up_ms()).max()
    }

    /// Adds an operation. Returns its place, for `remove`.
    pub fn add(&self, waiter: Arc<dyn Waiting>) -> usize {
        let mut linked = self.linked.lock();
        self.count.fetch_add(1, Ordering::Relaxed);
        linked.get_or_insert_default().waiters.insert(waiter)
    }

    /// Takes the operation at `place` off.
    pub fn remove(&self, place: usize) {
        let removed = {
            let mut linked = self.linked.lock();
            self.count.fetch_sub(1, Ordering::Relaxed);
            linked.as_deref_mut().and_then(|linked| linked.waiters.try_remove(place))
        };
        drop(removed);
    }

    /// Stops every operation that waits here.
    pub fn stop(&self) {
        for waiter in self.waiters() {
            waiter.stop();
        }
    }

    /// The operations that wait here now.
    #[must_use]
    pub fn waiters(&self) -> Vec<Arc<dyn Waiting>> {
        let linked = self.linked.lock();
        let waiters = linked.iter().flat_map(|linked| &linked.waiters);
        waiters.map(|(_, waiter)| Arc::clone(waiter)).collect()
    }
}

impl std::fmt::Debug for WatchList {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WatchList").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
