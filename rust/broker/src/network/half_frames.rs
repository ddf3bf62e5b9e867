//! Memory of large frames: those that are arriving, and those that are complete and wait to begin.
//!
//! Each kind of request has a part of its own. A complete frame keeps its memory until it may
//! begin. The time until then depends on its kind: fetches wait while other fetches hold too much,
//! for half a minute at worst. In one common room they would keep all others from arriving.

use std::sync::Arc;

use crate::request_queue::{Room, RoomWaiters};
use crate::response_queue::Overlap;

/// The rooms of the kinds. Fetches get one eighth of the memory, and so do requests other than
/// fetch and produce. Produces get the rest, because their frames are the largest.
pub struct HalfFrames {
    fetches: Arc<Room>,
    produces: Arc<Room>,
    others: Arc<Room>,
    waiters: Arc<RoomWaiters>,
}

impl HalfFrames {
    /// Nothing held yet, and never much more than `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Arc<Self> {
        // Waiters of its own: a thousand stalled large frames must not be looked at again whenever
        // some small request leaves its lane.
        let waiters = Arc::new(RoomWaiters::default());
        let room = |bytes| Room::new(usize::MAX, bytes, Arc::clone(&waiters));
        let part = max_bytes / 8;
        let (fetches, others) = (room(part), room(part));
        let produces = room(max_bytes - 2 * part);
        Arc::new(Self { fetches, produces, others, waiters })
    }

    /// The room for frames of this kind.
    #[must_use]
    pub fn of(&self, kind: Overlap) -> &Arc<Room> {
        match kind {
            Overlap::Fetch => &self.fetches,
            Overlap::Produce => &self.produces,
            Overlap::Alone => &self.others,
        }
    }

    /// The threads that are notified when memory of any kind becomes free.
    #[must_use]
    pub fn waiters(&self) -> &Arc<RoomWaiters> {
        &self.waiters
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.fetches.bytes() + self.produces.bytes() + self.others.bytes()
    }
}
