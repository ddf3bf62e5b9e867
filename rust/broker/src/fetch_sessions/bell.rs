//! How a session learns which of its partitions moved, without looking at any of them.
//!
//! A session has one [`Bell`], and a [`Rope`] of it hangs at each of its partitions. Whoever moves
//! a partition pulls the ropes there: the partition's slot is noted at the bell, once, however
//! often the rope is pulled before the session takes what was noted. A session that is closed, or
//! forgets a partition, drops its ropes; the partition holds them weakly.
//!
//! Nothing is missed: a rope is pulled after its partition moved, and what was noted is taken
//! before the partition is looked at. So a look either sees the move, or the pull is noted again.
//! See `docs/adr/0031`.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// What the ropes of one session lead to. `W` is where its parked fetches wait: a list of
/// purgatory's, of which this room knows nothing.
#[derive(Debug)]
pub struct Bell<W> {
    /// Slots whose ropes were pulled.
    pulled: Mutex<Vec<usize>>,
    /// When the client fetched last, in ms of wall time.
    fetched_ms: AtomicI64,
    /// The follower that fetches; -1 is a consumer.
    replica_id: i32,
    waiters: W,
}

impl<W> Bell<W> {
    /// The bell of a session that begins now.
    pub(super) fn new(replica_id: i32, now_ms: i64, waiters: W) -> Arc<Self> {
        let fetched_ms = AtomicI64::new(now_ms);
        Arc::new(Self { pulled: Mutex::default(), fetched_ms, replica_id, waiters })
    }

    /// Where the session's parked fetches wait.
    pub fn waiters(&self) -> &W {
        &self.waiters
    }

    /// The follower that fetches in this session; -1 is a consumer.
    pub fn replica_id(&self) -> i32 {
        self.replica_id
    }

    pub(super) fn fetched(&self, now_ms: i64) {
        self.fetched_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Takes what was noted since the last time.
    pub(super) fn take_pulled(&self) -> Vec<usize> {
        std::mem::take(&mut *self.pulled.lock())
    }
}

/// What hangs at one partition for one session.
#[derive(Debug)]
pub struct Rope<W> {
    bell: Arc<Bell<W>>,
    slot: usize,
    /// Where it hangs: the purgatory key of that replica.
    partition_key: u64,
    /// It hangs there by now.
    hangs: AtomicBool,
    /// Pulled, and not yet taken note of.
    pulled: AtomicBool,
    /// The session knows everything of the partition, but for a pull.
    clean: AtomicBool,
}

impl<W> Rope<W> {
    pub(super) fn new(bell: Arc<Bell<W>>, slot: usize, partition_key: u64) -> Arc<Self> {
        let flag = || AtomicBool::new(false);
        let (hangs, pulled, clean) = (flag(), flag(), flag());
        Arc::new(Self { bell, slot, partition_key, hangs, pulled, clean })
    }

    /// The bell it leads to.
    pub fn bell(&self) -> &Bell<W> {
        &self.bell
    }

    /// Notes that the partition moved. The caller then checks the bell's waiters.
    pub fn pull(&self) {
        if !self.pulled.swap(true, Ordering::AcqRel) {
            self.bell.pulled.lock().push(self.slot);
        }
    }

    /// Says that it hangs at its partition.
    pub fn set_hanging(&self) {
        self.hangs.store(true, Ordering::Release);
    }

    /// When a follower was last known to have everything of this partition: at its last fetch, if
    /// the partition was clean then and did not move since. In ms of wall time.
    ///
    /// A clean partition is not looked at, so its follower would seem to lag more and more; whoever
    /// judges the in-sync replicas asks here as well.
    pub fn caught_up_ms(&self) -> Option<i64> {
        let quiet = self.clean.load(Ordering::Acquire) && !self.pulled.load(Ordering::Acquire);
        quiet.then(|| self.bell.fetched_ms.load(Ordering::Relaxed))
    }

    pub(super) fn hangs_at(&self, partition_key: u64) -> bool {
        self.partition_key == partition_key && self.hangs.load(Ordering::Acquire)
    }

    pub(super) fn is_for(&self, partition_key: u64) -> bool {
        self.partition_key == partition_key
    }

    /// From here on a pull is noted anew.
    pub(super) fn release(&self) {
        self.pulled.swap(false, Ordering::AcqRel);
    }

    pub(super) fn set_clean(&self, clean: bool) {
        self.clean.store(clean, Ordering::Release);
    }
}
