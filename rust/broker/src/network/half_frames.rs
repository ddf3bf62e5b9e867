//! Memory of large frames: those that are arriving, and those that are complete and wait to begin.
//!
//! Each kind of request has a part of its own. A complete frame keeps its memory until it may
//! begin. The time until then depends on its kind: fetches wait while other fetches hold too much,
//! for half a minute at worst. In one common room they would keep all others from arriving.
//!
//! Frames that arrive slowly may hold a whole room. While another connection waits for memory of
//! that kind, they have to hurry: see [`Connection::gives_up_memory_at`].
//!
//! [`Connection::gives_up_memory_at`]: super::connection::Connection::gives_up_memory_at

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::request_queue::{ApiPolicy, Lane, Room, RoomWaiters};
use crate::response_queue::Overlap;

/// The kinds of frames that share a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Produce.
    Produces,
    /// Fetch.
    Fetches,
    /// What only brokers ask. Large frames of clients that arrive slowly, for minutes, must not
    /// keep metadata from a broker.
    Brokers,
    /// All others.
    Others,
}

impl Share {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Produces, Self::Fetches, Self::Brokers, Self::Others];

    /// The kind of the requests of an API.
    #[must_use]
    pub fn of(policy: &ApiPolicy) -> Self {
        match (policy.lane, policy.overlap) {
            (Lane::Brokers, _) => Self::Brokers,
            (_, Overlap::Produce) => Self::Produces,
            (_, Overlap::Fetch) => Self::Fetches,
            (_, Overlap::Alone) => Self::Others,
        }
    }
}

/// The rooms of the kinds. Fetches get one eighth of the memory, and so do requests of clients
/// other than fetch and produce. Produces get the rest, because their frames are the largest. What
/// brokers ask gets one eighth on top.
pub struct HalfFrames {
    fetches: Arc<Room>,
    produces: Arc<Room>,
    brokers: Arc<Room>,
    others: Arc<Room>,
    waiters: Arc<RoomWaiters>,
    /// By [`Share`]: connections whose frame of that kind waits for memory.
    waiting: [AtomicUsize; Share::ALL.len()],
}

/// A connection waits for memory of a kind, as long as this lives.
pub struct WaitsForMemory {
    half_frames: Arc<HalfFrames>,
    kind: Share,
}

impl WaitsForMemory {
    /// The kind of its frame.
    #[must_use]
    pub fn kind(&self) -> Share {
        self.kind
    }
}

impl Drop for WaitsForMemory {
    fn drop(&mut self) {
        self.half_frames.waiting[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
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
        let (fetches, brokers, others) = (room(part), room(part), room(part));
        let produces = room(max_bytes - 2 * part);
        let waiting = [const { AtomicUsize::new(0) }; Share::ALL.len()];
        Arc::new(Self { fetches, produces, brokers, others, waiters, waiting })
    }

    /// Notes that one more connection waits for memory of this kind.
    #[must_use]
    pub fn wait(half_frames: &Arc<Self>, kind: Share) -> WaitsForMemory {
        half_frames.waiting[kind as usize].fetch_add(1, Ordering::Relaxed);
        WaitsForMemory { half_frames: Arc::clone(half_frames), kind }
    }

    /// How many connections wait for memory of this kind.
    #[must_use]
    pub fn waiting(&self, kind: Share) -> usize {
        self.waiting[kind as usize].load(Ordering::Relaxed)
    }

    /// The room for frames of this kind.
    #[must_use]
    pub fn of(&self, kind: Share) -> &Arc<Room> {
        match kind {
            Share::Fetches => &self.fetches,
            Share::Produces => &self.produces,
            Share::Brokers => &self.brokers,
            Share::Others => &self.others,
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
        let rooms = [&self.fetches, &self.produces, &self.brokers, &self.others];
        rooms.map(|room| room.bytes()).iter().sum()
    }
}
