//! Room for frames: a bound in number and bytes, and who waits for some to become free.
//!
//! Whatever is held has a [`Place`]; dropping it gives the room back. A frame is always let in when
//! nothing else is held, or one larger than the bound would never get in. A large frame that others
//! passed often takes a [`Claim`]: no other is let in before it. A place may grow as more of its
//! frame arrives ([`Place::grow`]). Beyond the bound one place at a time may grow, so that many
//! half-sent frames that fill the room do not block each other. That frame may take long to arrive,
//! so it leaves its share of the room to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

use super::parked::ParkedBytes;
use crate::response_queue::ResponseQueue;

/// A frame of more than this part of the bound may take a claim.
const LARGE_PART: usize = 4;
/// Frames that pass a large one before it takes a claim: large ones alone must not stop the others.
const PASSED: usize = 16;

/// A bound shared by everything of one kind.
pub struct Room {
    max_count: usize,
    max_bytes: usize,
    held: Mutex<Held>,
    waiters: Arc<RoomWaiters>,
}

#[derive(Default)]
struct Held {
    count: usize,
    bytes: usize,
    /// Bytes of the one place that has grown beyond the bound; `bytes` is without them.
    overdrawn: Option<usize>,
    /// A large frame has a claim.
    claimed: bool,
    /// Frames let in since the last one that had a claim.
    passed: usize,
}

impl Held {
    /// Takes `more` bytes for a place of `own`, beyond `max_bytes` only for the one that overdraws.
    fn grow(&mut self, own: usize, more: usize, max_bytes: usize, overdraws: &mut bool) -> bool {
        if !*overdraws && self.bytes.saturating_add(more) <= max_bytes {
            self.bytes += more;
            return true;
        }
        if !*overdraws {
            if self.overdrawn.is_some() {
                return false;
            }
            *overdraws = true;
            self.bytes -= own;
        }
        self.overdrawn = Some(own + more);
        true
    }
}

impl Room {
    /// Nothing held yet.
    #[must_use]
    pub fn new(max_count: usize, max_bytes: usize, waiters: Arc<RoomWaiters>) -> Arc<Self> {
        Arc::new(Self { max_count, max_bytes, held: Mutex::default(), waiters })
    }

    /// A place for `bytes`, or `None` while there is no room. `claim` is what the caller got when
    /// it asked before; the caller keeps it until it asks again, and drops it if it does not.
    #[must_use]
    pub fn enter(room: &Arc<Self>, bytes: usize, claim: &mut Option<Claim>) -> Option<Place> {
        let has_claim = claim.as_ref().is_some_and(|claim| Arc::ptr_eq(&claim.room, room));
        let mut held = room.held.lock();
        if held.claimed && !has_claim {
            return None;
        }
        let fits =
            held.count < room.max_count && held.bytes.saturating_add(bytes) <= room.max_bytes;
        if held.count > 0 && !fits {
            let is_large = bytes > room.max_bytes / LARGE_PART;
            if is_large && !has_claim && held.passed >= PASSED {
                held.claimed = true;
                drop(held);
                *claim = Some(Claim { room: Arc::clone(room) });
            }
            return None;
        }
        held.count += 1;
        held.bytes += bytes;
        held.passed = if has_claim { 0 } else { held.passed.saturating_add(1) };
        drop(held);
        // Who was kept out by it tries again.
        drop(claim.take());
        Some(Place { room: Arc::clone(room), bytes, overdraws: false, held: None })
    }

    /// A place for the first `bytes` of something that arrives bit by bit, under the rule of
    /// [`Place::grow`]. `None` while there is no room; nothing was held then, so no thread is
    /// woken.
    #[must_use]
    pub fn begin(room: &Arc<Self>, bytes: usize) -> Option<Place> {
        let mut overdraws = false;
        {
            let mut held = room.held.lock();
            if !held.grow(0, bytes, room.max_bytes, &mut overdraws) {
                return None;
            }
            held.count += 1;
        }
        Some(Place { room: Arc::clone(room), bytes, overdraws, held: None })
    }

    /// Places held.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.lock().count
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = self.held.lock();
        held.bytes + held.overdrawn.unwrap_or(0)
    }
}

/// A share of a [`Room`], until it is dropped.
pub struct Place {
    room: Arc<Room>,
    bytes: usize,
    overdraws: bool,
    /// Given back with the place: what the request may take once it waits.
    held: Option<Box<ParkedBytes>>,
}

impl Place {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps `held` as long as the place.
    pub fn hold(&mut self, held: Option<ParkedBytes>) {
        self.held = held.map(Box::new);
    }

    /// Takes room for `more` bytes. `false` while there is none and another place is overdrawn.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let (max_bytes, before) = (self.room.max_bytes, self.overdraws);
        let mut held = self.room.held.lock();
        let grown = held.grow(self.bytes, more, max_bytes, &mut self.overdraws);
        drop(held);
        if self.overdraws && !before {
            // Others may have its share.
            self.room.waiters.wake();
        }
        self.bytes += if grown { more } else { 0 };
        grown
    }
}

/// The right of a large frame to be let in before all others, until it is dropped.
pub struct Claim {
    room: Arc<Room>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.room.held.lock().claimed = false;
        self.room.waiters.wake();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut held = self.room.held.lock();
            held.count -= 1;
            match self.overdraws {
                true => held.overdrawn = None,
                false => held.bytes -= self.bytes,
            }
        }
        self.room.waiters.wake();
    }
}

/// Network threads with connections that found no room.
#[derive(Default)]
pub struct RoomWaiters {
    waiting: AtomicUsize,
    threads: Mutex<Vec<(Arc<ResponseQueue>, Arc<AtomicBool>)>>,
}

impl RoomWaiters {
    /// Registers a network thread. Setting the flag it gets back through [`RoomWaiters::wait`] asks
    /// for one poke when room becomes free.
    #[must_use]
    pub fn register(&self, queue: Arc<ResponseQueue>) -> Arc<AtomicBool> {
        let waits = Arc::new(AtomicBool::new(false));
        self.threads.lock().push((queue, Arc::clone(&waits)));
        waits
    }

    /// The thread of `waits` wants to know of free room. `true`: the thread has to look once more,
    /// because room that became free before this call woke no thread. `false`: it was waiting
    /// already.
    #[must_use]
    pub fn wait(&self, waits: &AtomicBool) -> bool {
        let newly = !waits.swap(true, Ordering::SeqCst);
        if newly {
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        newly
    }

    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        for (queue, waits) in self.threads.lock().iter() {
            if waits.swap(false, Ordering::SeqCst) {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                queue.poke();
            }
        }
    }
}
