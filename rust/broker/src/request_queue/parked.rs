//! Memory of requests that wait for something to move, and the bound above which no more begin.
//!
//! The memory of a waiting request is known only when it is decoded, and then it cannot be sent
//! back. So it is always counted. While too much is held, the network threads leave further
//! requests of its kind in their connections' buffers ([`Parked::admits`]). A small request, such
//! as a fetch with a session, takes no more than its connection. So it goes on until twice as much
//! is held. So a client that lists thousands of partitions in each fetch delays only itself and
//! similar clients.
//!
//! A change of metadata travels with all other requests of its lane, which must not wait for it:
//! while changes hold too much, a further large one is refused ([`Parked::hold_change`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::room::RoomWaiters;
use crate::metrics::Metrics;
use crate::response_queue::Overlap;

/// Up to here, in bytes, what waits costs no more than its connection.
const SMALL_BYTES: usize = 4 << 10;
/// A frame below this many bytes is small as well: a partition takes 16 bytes of it at least, and
/// 64 while it waits.
const SMALL_FRAME_BYTES: usize = SMALL_BYTES / 4;

/// What fetches, produces and changes of metadata hold while they wait.
pub struct Parked {
    fetches: Arc<AtomicUsize>,
    produces: Arc<AtomicUsize>,
    changes: Arc<AtomicUsize>,
    max_bytes: AtomicUsize,
    waiters: Arc<RoomWaiters>,
}

/// What one request holds, until it is dropped.
pub struct ParkedBytes {
    bytes: usize,
    total: Arc<AtomicUsize>,
    waiters: Arc<RoomWaiters>,
}

/// Too much waits already.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Parked {
    /// Nothing waits yet, and without a bound. `waiters` are woken when memory is given back.
    pub(super) fn new(waiters: &Arc<RoomWaiters>, metrics: &Metrics) -> Arc<Self> {
        let total = |operation: &str| {
            let total = Arc::new(AtomicUsize::new(0));
            let help = "Memory of large requests that wait in purgatory.";
            let labels = vec![("operation", operation.to_owned())];
            metrics.computed("kafkalite_purgatory_bytes", help, labels, &total, |total| {
                i64::try_from(total.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
            });
            total
        };
        Arc::new(Self {
            fetches: total("Fetch"),
            produces: total("Produce"),
            changes: total("Metadata"),
            max_bytes: AtomicUsize::new(usize::MAX),
            waiters: Arc::clone(waiters),
        })
    }

    /// From `max_bytes` held by one kind on, no more of it begin.
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// Whether what waits with this many bytes is counted at all.
    #[must_use]
    pub const fn is_large(bytes: usize) -> bool {
        bytes > SMALL_BYTES
    }

    /// Counts a fetch that takes `bytes` while it waits, until what is returned is dropped.
    #[must_use]
    pub fn hold_fetch(&self, bytes: usize) -> Option<ParkedBytes> {
        self.hold(&self.fetches, bytes)
    }

    /// Counts a produce that takes `bytes` while it waits, until what is returned is dropped.
    #[must_use]
    pub fn hold_produce(&self, bytes: usize) -> Option<ParkedBytes> {
        self.hold(&self.produces, bytes)
    }

    /// Counts a change of metadata that takes `bytes` while it waits, until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// Others hold so much that there is no room for it; a change that is alone always has room.
    pub fn hold_change(&self, bytes: usize) -> Result<Option<ParkedBytes>, NoRoom> {
        if !Self::is_large(bytes) {
            return Ok(None);
        }
        let most = self.max_bytes.load(Ordering::Relaxed);
        let with_it = |held: usize| {
            let after = held.saturating_add(bytes);
            (held == 0 || after <= most).then_some(after)
        };
        let held = self.changes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, with_it);
        held.map_err(|_| NoRoom)?;
        Ok(Some(self.held(&self.changes, bytes)))
    }

    /// Counts a large fetch, a frame of `frame_bytes`, for what it may take while it waits. The
    /// count lasts from its admission until its handler knows the real size. Otherwise a burst of
    /// them would begin before the first is counted. `None` for all other requests.
    #[must_use]
    pub fn expect(&self, kind: Overlap, frame_bytes: usize) -> Option<ParkedBytes> {
        let is_fetch = kind == Overlap::Fetch && frame_bytes >= SMALL_FRAME_BYTES;
        let most = frame_bytes.saturating_mul(SMALL_BYTES / SMALL_FRAME_BYTES);
        if is_fetch { self.hold(&self.fetches, most) } else { None }
    }

    fn hold(&self, total: &Arc<AtomicUsize>, bytes: usize) -> Option<ParkedBytes> {
        Self::is_large(bytes).then(|| {
            total.fetch_add(bytes, Ordering::SeqCst);
            self.held(total, bytes)
        })
    }

    /// Bytes that are in `total`, and leave it when what is returned is dropped.
    fn held(&self, total: &Arc<AtomicUsize>, bytes: usize) -> ParkedBytes {
        ParkedBytes { bytes, total: Arc::clone(total), waiters: Arc::clone(&self.waiters) }
    }

    /// Whether a request of this kind, a frame of `frame_bytes`, may begin.
    #[must_use]
    pub fn admits(&self, kind: Overlap, frame_bytes: usize) -> bool {
        let held = match kind {
            Overlap::Fetch => self.fetches.load(Ordering::SeqCst),
            Overlap::Produce => self.produces.load(Ordering::SeqCst),
            Overlap::Alone => return true,
        };
        let most = self.max_bytes.load(Ordering::Relaxed);
        let small = frame_bytes < SMALL_FRAME_BYTES;
        held < if small { most.saturating_mul(2) } else { most }
    }
}

impl Drop for ParkedBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::SeqCst);
        self.waiters.wake();
    }
}
