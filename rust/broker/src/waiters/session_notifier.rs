//! How a session learns which of its partitions moved, without looking at any of them.
//!
//! A session has one [`SessionNotifier`], and a [`PartitionSubscription`] at each of its
//! partitions. A move of a partition marks its subscriptions dirty: the notifier notes the
//! partition's slot, once until the session takes what was noted. A session that is closed, or
//! forgets a partition, drops its subscriptions; the partition holds them weakly.
//!
//! Nothing is missed: a subscription is marked after its partition moved, and what was noted is
//! taken before the partition is looked at. So a look either sees the move, or the mark is noted
//! again. See `docs/adr/0031`.

use super::WatchList;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// What the subscriptions of one session lead to.
#[derive(Debug)]
pub struct SessionNotifier {
    /// Slots of partitions that moved.
    moved: Mutex<Vec<usize>>,
    /// When the client fetched last, in ms of monotonic time.
    fetched_ms: AtomicI64,
    /// The follower that fetches; -1 is a consumer.
    replica_id: i32,
    waiters: Arc<WatchList>,
}

impl SessionNotifier {
    /// The notifier of a session that begins now; parked fetches of the session wait in `waiters`.
    #[must_use]
    pub fn new(replica_id: i32, now_ms: i64, waiters: Arc<WatchList>) -> Arc<Self> {
        let fetched_ms = AtomicI64::new(now_ms);
        Arc::new(Self { moved: Mutex::default(), fetched_ms, replica_id, waiters })
    }

    /// Where the session's parked fetches wait.
    #[must_use]
    pub fn waiters(&self) -> &Arc<WatchList> {
        &self.waiters
    }

    /// The follower that fetches in this session; -1 is a consumer.
    #[must_use]
    pub fn replica_id(&self) -> i32 {
        self.replica_id
    }

    /// Notes the time of a fetch.
    pub fn fetched(&self, now_ms: i64) {
        self.fetched_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Takes the slots that were noted since the last time.
    #[must_use]
    pub fn take_moved(&self) -> Vec<usize> {
        std::mem::take(&mut *self.moved.lock())
    }
}

/// What one partition holds for one session.
#[derive(Debug)]
pub struct PartitionSubscription {
    notifier: Arc<SessionNotifier>,
    slot: usize,
    /// The partition that it is for: the key of that replica.
    partition_key: u64,
    /// The partition holds it by now.
    is_held: AtomicBool,
    /// The partition moved, and the session has not taken note.
    moved: AtomicBool,
    /// The session knows everything of the partition, unless the partition moved since.
    clean: AtomicBool,
}

impl PartitionSubscription {
    /// A subscription of a session to the partition in its `slot`.
    #[must_use]
    pub fn new(notifier: Arc<SessionNotifier>, slot: usize, partition_key: u64) -> Arc<Self> {
        let flag = || AtomicBool::new(false);
        let (is_held, moved, clean) = (flag(), flag(), flag());
        Arc::new(Self { notifier, slot, partition_key, is_held, moved, clean })
    }

    /// The notifier of its session.
    #[must_use]
    pub fn notifier(&self) -> &SessionNotifier {
        &self.notifier
    }

    /// Notes that the partition moved. The caller then checks the notifier's waiters.
    pub fn mark_moved(&self) {
        if !self.moved.swap(true, Ordering::AcqRel) {
            self.notifier.moved.lock().push(self.slot);
        }
    }

    /// Notes that the partition holds it.
    pub fn set_held(&self) {
        self.is_held.store(true, Ordering::Release);
    }

    /// When a follower was last known to have everything of this partition. That is the time of its
    /// last fetch, if the partition was clean then and did not move since. In ms of monotonic time.
    ///
    /// A fetch does not look at a clean partition, so its follower would seem to lag more and more.
    /// So the check of the in-sync replicas asks here too.
    #[must_use]
    pub fn caught_up_ms(&self) -> Option<i64> {
        let quiet = self.clean.load(Ordering::Acquire) && !self.moved.load(Ordering::Acquire);
        quiet.then(|| self.notifier.fetched_ms.load(Ordering::Relaxed))
    }

    /// Whether the partition with this key holds it.
    #[must_use]
    pub fn is_held_at(&self, partition_key: u64) -> bool {
        self.is_for(partition_key) && self.is_held.load(Ordering::Acquire)
    }

    /// Whether it is for the partition with this key.
    #[must_use]
    pub fn is_for(&self, partition_key: u64) -> bool {
        self.partition_key == partition_key
    }

    /// From here on a move is noted again.
    pub fn rearm(&self) {
        self.moved.swap(false, Ordering::AcqRel);
    }

    /// Notes whether the session knows everything of the partition.
    pub fn set_clean(&self, clean: bool) {
        self.clean.store(clean, Ordering::Release);
    }
}
