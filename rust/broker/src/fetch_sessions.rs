//! Fetch sessions: what a client already knows, so that it need not be said again (KIP-227).
//!
//! A full fetch lists every partition and may open a session. An incremental fetch lists only
//! changes, and its answer holds only partitions with news. A session looks at its dirty partitions
//! alone (`session.rs`); a partition that moves notes it at the session's notifier. Time and ids
//! are handed in.
//!
//! | request's (id, epoch) | means |
//! |---|---|
//! | any, -1 | a full fetch, no session; the one named is closed |
//! | any, 0 | a full fetch that wants a new session; the one named is closed |
//! | id, n > 0 | incremental: the n-th request of session `id` |
//!
//! Source: Kafka's `FetchSession`, `FetchContext`, `FetchSessionCacheShard`.

use crate::metrics::{Counter, Metrics};
use crate::waiters::{SessionNotifier, WatchList};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::fetch::FetchRequest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

mod session;
mod target;

pub use session::{FetchSession, Look};
pub use target::{ANY_REPLICA_VERSION, FetchTarget, Reader, TopicRef};

/// In ms. A session that was not used for longer may lose its slot to any other. A session that is
/// older than this may lose its slot to a larger one.
const EVICTABLE_AFTER_MS: i64 = 120_000;
/// The epoch of a full fetch without a session.
const FINAL_EPOCH: i32 = -1;
/// The epoch of a full fetch that asks for a session.
const INITIAL_EPOCH: i32 = 0;
/// First version that names topics by id.
const TOPIC_ID_VERSION: i16 = 13;

/// A session and its lock.
pub type SharedSession = Arc<Mutex<FetchSession>>;

/// How the answer to a fetch is to be put together.
#[derive(Clone, Debug)]
pub enum FetchContext {
    /// Every partition is answered, no session.
    Sessionless,
    /// Every partition is answered, and remembered.
    Full(SharedSession),
    /// Only news is answered.
    Incremental(SharedSession),
}

impl FetchContext {
    /// The session, if there is one.
    #[must_use]
    pub fn session(&self) -> Option<&SharedSession> {
        match self {
            Self::Sessionless => None,
            Self::Full(session) | Self::Incremental(session) => Some(session),
        }
    }
}

/// What a new session is made with.
#[derive(Debug)]
pub struct Opening {
    /// The id it gets if no other has it; drawn at random.
    pub id: i32,
    /// Where its parked fetches wait.
    pub waiters: Arc<WatchList>,
}

#[derive(Debug)]
struct Slot {
    session: SharedSession,
    /// A follower's: it is not pushed out by a consumer's.
    privileged: bool,
    created_ms: i64,
    last_used_ms: i64,
    /// How many partitions it had when it was used last.
    size: usize,
}

type Slots = HashMap<i32, Slot>;

/// Most partitions of all consumers' sessions together, and of all followers' sessions. A client
/// may name as many partitions as fit into a request, existing or not, and each is remembered. Any
/// client may also claim to be a follower.
const MAX_PARTITIONS: usize = 1_000_000;

/// Whether one more session, or one that grew, of `size` partitions would be too much to remember
/// of its kind.
fn is_too_much(slots: &Slots, except: i32, privileged: bool, size: usize) -> bool {
    let is_of_kind = |slot: &Slot| slot.privileged == privileged;
    let others = slots.iter().filter(|(id, slot)| **id != except && is_of_kind(slot));
    others.map(|(_, slot)| slot.size).sum::<usize>() + size > MAX_PARTITIONS
}

/// All sessions, at most `max.incremental.fetch.session.cache.slots`.
#[derive(Debug)]
pub struct FetchSessions {
    max_slots: usize,
    slots: Arc<Mutex<Slots>>,
    evictions: Counter,
}

impl FetchSessions {
    /// No sessions yet, and never more than `max_slots`.
    #[must_use]
    pub fn new(max_slots: usize, metrics: &Metrics) -> Self {
        let slots: Arc<Mutex<Slots>> = Arc::default();
        let help = "Open fetch sessions.";
        metrics.computed("kafkalite_fetch_sessions", help, vec![], &slots, |slots| {
            i64::try_from(slots.lock().len()).unwrap_or(i64::MAX)
        });
        let help = "Partitions of all open fetch sessions.";
        metrics.computed("kafkalite_fetch_session_partitions", help, vec![], &slots, |slots| {
            let sizes = slots.lock().values().map(|slot| slot.size).sum::<usize>();
            i64::try_from(sizes).unwrap_or(i64::MAX)
        });
        let help = "Fetch sessions that lost their slot to another.";
        let evictions = metrics.counter("kafkalite_fetch_session_evictions", help, vec![]);
        Self { max_slots, slots, evictions }
    }

    /// How to answer `request`, and the partitions to look at, in order.
    ///
    /// `opening` is asked for only if the client wants a new session.
    ///
    /// # Errors
    /// `FetchSessionIdNotFound`, `InvalidFetchSessionEpoch` and `FetchSessionTopicIdError`, for the
    /// whole request.
    pub fn resolve(
        &self,
        request: &FetchRequest,
        version: i16,
        now_ms: i64,
        opening: impl FnOnce() -> Opening,
    ) -> Result<(FetchContext, Vec<Look>), ErrorCode> {
        match request.session_epoch {
            FINAL_EPOCH => {
                self.close(request.session_id);
                Ok((FetchContext::Sessionless, once(request, version)))
            }
            INITIAL_EPOCH => {
                self.close(request.session_id);
                Ok(self.open(request, version, now_ms, opening()))
            }
            _ => self.go_on(request, version, now_ms),
        }
    }

    /// The partitions that a session has.
    #[must_use]
    pub fn partitions_of(&self, id: i32) -> Vec<(Arc<TopicRef>, i32)> {
        let session = self.slots.lock().get(&id).map(|slot| slot.session.clone());
        session.map(|session| session.lock().partitions()).unwrap_or_default()
    }

    fn close(&self, id: i32) {
        let closed = self.slots.lock().remove(&id);
        // Not under the lock: it may have many partitions.
        drop(closed);
    }

    fn open(
        &self,
        request: &FetchRequest,
        version: i16,
        now_ms: i64,
        opening: Opening,
    ) -> (FetchContext, Vec<Look>) {
        let by_id = version >= TOPIC_ID_VERSION;
        let reader = Reader::of(request, version);
        let notifier = SessionNotifier::new(reader.replica_id, now_ms, opening.waiters);
        let mut session = FetchSession::new(by_id, reader, notifier);
        target::targets(request, version).for_each(|target| session.put(target));
        let size = session.len();
        let (session, evicted) = {
            let mut slots = self.slots.lock();
            if is_too_much(&slots, 0, reader.is_follower(), size) {
                return (FetchContext::Sessionless, once(request, version));
            }
            let evicted = if slots.len() < self.max_slots {
                None
            } else {
                match evictable(&slots, reader.is_follower(), size, now_ms) {
                    Some(id) => slots.remove(&id),
                    None => return (FetchContext::Sessionless, once(request, version)),
                }
            };
            let id = free_id(&slots, opening.id);
            session.id = id;
            let session = Arc::new(Mutex::new(session));
            let slot = Slot {
                session: session.clone(),
                privileged: reader.is_follower(),
                created_ms: now_ms,
                last_used_ms: now_ms,
                size,
            };
            slots.insert(id, slot);
            (session, evicted)
        };
        self.evictions.add(u64::from(evicted.is_some()));
        drop(evicted);
        let looks = session.lock().dirty();
        (FetchContext::Full(session), looks)
    }

    fn go_on(
        &self,
        request: &FetchRequest,
        version: i16,
        now_ms: i64,
    ) -> Result<(FetchContext, Vec<Look>), ErrorCode> {
        let id = request.session_id;
        let shared = {
            let slots = self.slots.lock();
            let slot = slots.get(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
            slot.session.clone()
        };
        let (looks, size) = {
            let mut session = shared.lock();
            let epoch = request.session_epoch;
            if session.next_epoch != epoch {
                return Err(ErrorCode::InvalidFetchSessionEpoch);
            }
            if session.uses_topic_ids != (version >= TOPIC_ID_VERSION) {
                return Err(ErrorCode::FetchSessionTopicIdError);
            }
            session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
            session.update(request, version, now_ms);
            (session.dirty(), session.len())
        };
        if size == 0 {
            // Nothing is left to be remembered.
            self.close(id);
            return Ok((FetchContext::Sessionless, once(request, version)));
        }
        let mut slots = self.slots.lock();
        let grew = slots.get(&id).filter(|slot| size > slot.size);
        let too_much = grew.is_some_and(|slot| is_too_much(&slots, id, slot.privileged, size));
        match slots.get_mut(&id) {
            // The client starts again, without a session.
            Some(_) if too_much => {
                let closed = slots.remove(&id);
                drop(slots);
                drop(closed);
                return Err(ErrorCode::FetchSessionIdNotFound);
            }
            Some(slot) => {
                slot.last_used_ms = now_ms;
                slot.size = size;
            }
            None => {}
        }
        drop(slots);
        Ok((FetchContext::Incremental(shared), looks))
    }
}

/// The partitions that a request lists, each to be looked at once however often it is named.
fn once(request: &FetchRequest, version: i16) -> Vec<Look> {
    let named = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut looks = Vec::with_capacity(named);
    looks.extend(target::targets(request, version).map(Look::once));
    Look::name_each_once(&mut looks);
    looks
}

/// The session that has to make room for one of `size` partitions:
/// - case A: the one unused for longest, if it is stale
/// - case B: the least of the old sessions and, for a follower's request, of the consumers'
///   sessions. It has to be worth less than the new one. Followers are worth more than consumers,
///   then more partitions are worth more.
fn evictable(slots: &Slots, follows: bool, size: usize, now_ms: i64) -> Option<i32> {
    let (&stalest, slot) = slots.iter().min_by_key(|(_, slot)| slot.last_used_ms)?;
    if now_ms - slot.last_used_ms > EVICTABLE_AFTER_MS {
        return Some(stalest);
    }
    let worth = |(id, slot): &(&i32, &Slot)| (slot.privileged, slot.size, **id);
    let least = slots.iter().filter(|(_, slot)| {
        let is_old = slot.last_used_ms - slot.created_ms > EVICTABLE_AFTER_MS;
        is_old || (follows && !slot.privileged)
    });
    let least = least.map(|found| worth(&found)).min()?;
    ((follows, size, 0) >= least).then_some(least.2)
}

/// A positive id that no session has, `wanted` if possible.
fn free_id(slots: &Slots, wanted: i32) -> i32 {
    let mut id = (wanted & i32::MAX).max(1);
    while slots.contains_key(&id) {
        id = if id == i32::MAX { 1 } else { id + 1 };
    }
    id
}

#[cfg(test)]
mod tests;
