//! Fetch sessions: what a client already knows, so that it need not be said again (KIP-227).
//!
//! A full fetch lists every partition and may open a session; an incremental one lists only what
//! changed, and its answer holds only partitions with news. Pure but for one lock: time and ids are
//! handed in.
//!
//! | request's (id, epoch) | means |
//! |---|---|
//! | any, -1 | a full fetch, no session; the one named is closed |
//! | any, 0 | a full fetch that wants a new session; the one named is closed |
//! | id, n > 0 | incremental: the n-th request of session `id` |
//!
//! Source: Kafka's `FetchSession`, `FetchContext`, `FetchSessionCacheShard`.

use kafkalite_protocol::messages::fetch::{FetchRequest, PartitionData};
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A session that nobody used for this long may lose its slot to a new one, in ms.
const EVICTABLE_AFTER_MS: i64 = 120_000;
/// The epoch of a full fetch without a session.
const FINAL_EPOCH: i32 = -1;
/// The epoch of a full fetch that asks for a session.
pub const INITIAL_EPOCH: i32 = 0;
/// First version that names topics by id.
const TOPIC_ID_VERSION: i16 = 13;

/// A topic as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef {
    /// Before Fetch v13 and Produce v13.
    Name(Arc<str>),
    /// From then on.
    Id(Uuid),
}

/// One partition that a fetch asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchTarget {
    /// Its topic.
    pub topic: TopicRef,
    /// Its index in the topic.
    pub partition: i32,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// Most bytes of this partition.
    pub max_bytes: i32,
    /// The leader epoch the client believes in; -1 if it does not know.
    pub current_leader_epoch: i32,
    /// The epoch of the last batch the client has; -1 if it does not say.
    pub last_fetched_epoch: i32,
    /// A follower's log start offset; -1 from a consumer.
    pub log_start_offset: i64,
}

/// How the answer to a fetch is to be put together.
#[derive(Debug)]
pub enum FetchContext {
    /// Every partition is answered, no session.
    Sessionless,
    /// Every partition is answered, and remembered.
    Full(Arc<Mutex<FetchSession>>),
    /// Only news is answered.
    Incremental(Arc<Mutex<FetchSession>>),
}

/// What one client knows.
#[derive(Debug)]
pub struct FetchSession {
    id: i32,
    next_epoch: i32,
    uses_topic_ids: bool,
    partitions: HashMap<(TopicRef, i32), Known>,
    /// Order of service; a partition that was served goes to the end.
    order: Vec<(TopicRef, i32)>,
}

#[derive(Debug)]
struct Known {
    target: FetchTarget,
    /// As last told, -1 if never: then the next answer has the partition in it.
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
struct Slot {
    session: Arc<Mutex<FetchSession>>,
    last_used_ms: i64,
}

/// All sessions, at most `max.incremental.fetch.session.cache.slots`.
#[derive(Debug)]
pub struct FetchSessions {
    max_slots: usize,
    slots: Mutex<HashMap<i32, Slot>>,
}

impl FetchSessions {
    /// No sessions yet, and never more than `max_slots`.
    #[must_use]
    pub fn new(max_slots: usize) -> Self {
        Self { max_slots, slots: Mutex::new(HashMap::new()) }
    }

    /// How many sessions are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.lock().len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How to answer `request`, and the partitions to look at, in order.
    ///
    /// `new_id` is drawn by the caller at random, in case a session is to be opened.
    ///
    /// # Errors
    /// `FetchSessionIdNotFound`, `InvalidFetchSessionEpoch` and `FetchSessionTopicIdError`, for the
    /// whole request.
    pub fn resolve(
        &self,
        request: &FetchRequest,
        version: i16,
        now_ms: i64,
        new_id: i32,
    ) -> Result<(FetchContext, Vec<FetchTarget>), ErrorCode> {
        let by_id = version >= TOPIC_ID_VERSION;
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            let targets = targets(request, by_id);
            let mut slots = self.slots.lock();
            slots.remove(&id);
            if epoch == FINAL_EPOCH || !make_room(&mut slots, self.max_slots, now_ms) {
                return Ok((FetchContext::Sessionless, targets));
            }
            let id = free_id(&slots, new_id);
            let session = Arc::new(Mutex::new(FetchSession::new(id, by_id, &targets)));
            slots.insert(id, Slot { session: session.clone(), last_used_ms: now_ms });
            return Ok((FetchContext::Full(session), targets));
        }
        let session = {
            let mut slots = self.slots.lock();
            let slot = slots.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
            slot.last_used_ms = now_ms;
            slot.session.clone()
        };
        let targets = {
            let mut session = session.lock();
            if session.uses_topic_ids != by_id {
                return Err(ErrorCode::FetchSessionTopicIdError);
            }
            if session.next_epoch != epoch {
                return Err(ErrorCode::InvalidFetchSessionEpoch);
            }
            session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
            session.update(request, by_id);
            session.targets()
        };
        Ok((FetchContext::Incremental(session), targets))
    }
}

/// Frees a slot if need be; false if every session is in use.
fn make_room(slots: &mut HashMap<i32, Slot>, max_slots: usize, now_ms: i64) -> bool {
    if slots.len() < max_slots {
        return true;
    }
    let oldest = slots.iter().min_by_key(|(_, slot)| slot.last_used_ms);
    let Some((&id, slot)) = oldest else { return false };
    if now_ms - slot.last_used_ms < EVICTABLE_AFTER_MS {
        return false;
    }
    slots.remove(&id);
    true
}

/// A positive id that no session has, `wanted` if possible.
fn free_id(slots: &HashMap<i32, Slot>, wanted: i32) -> i32 {
    let mut id = (wanted & i32::MAX).max(1);
    while slots.contains_key(&id) {
        id = if id == i32::MAX { 1 } else { id + 1 };
    }
    id
}

fn topic_ref(by_id: bool, name: &str, id: Uuid) -> TopicRef {
    if by_id { TopicRef::Id(id) } else { TopicRef::Name(name.into()) }
}

fn targets(request: &FetchRequest, by_id: bool) -> Vec<FetchTarget> {
    let mut targets = Vec::new();
    for topic in &request.topics {
        let name = topic_ref(by_id, &topic.topic, topic.topic_id);
        targets.extend(topic.partitions.iter().map(|partition| FetchTarget {
            topic: name.clone(),
            partition: partition.partition,
            fetch_offset: partition.fetch_offset,
            max_bytes: partition.partition_max_bytes,
            current_leader_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
            log_start_offset: partition.log_start_offset,
        }));
    }
    targets
}

impl FetchSession {
    fn new(id: i32, uses_topic_ids: bool, targets: &[FetchTarget]) -> Self {
        let mut session = Self {
            id,
            next_epoch: 1,
            uses_topic_ids,
            partitions: HashMap::with_capacity(targets.len()),
            order: Vec::with_capacity(targets.len()),
        };
        for target in targets {
            session.put(target.clone());
        }
        session
    }

    /// The id that goes into the response.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.id
    }

    fn put(&mut self, target: FetchTarget) {
        let key = (target.topic.clone(), target.partition);
        match self.partitions.get_mut(&key) {
            Some(known) => known.target = target,
            None => {
                let known = Known { target, high_watermark: -1, log_start_offset: -1 };
                self.partitions.insert(key.clone(), known);
                self.order.push(key);
            }
        }
    }

    fn update(&mut self, request: &FetchRequest, by_id: bool) {
        for target in targets(request, by_id) {
            self.put(target);
        }
        for topic in &request.forgotten_topics_data {
            let name = topic_ref(by_id, &topic.topic, topic.topic_id);
            for partition in &topic.partitions {
                self.partitions.remove(&(name.clone(), *partition));
            }
        }
        if self.order.len() != self.partitions.len() {
            let partitions = &self.partitions;
            self.order.retain(|key| partitions.contains_key(key));
        }
    }

    fn targets(&self) -> Vec<FetchTarget> {
        self.order
            .iter()
            .filter_map(|key| self.partitions.get(key))
            .map(|known| known.target.clone())
            .collect()
    }

    /// Whether `answer` tells the client anything new; remembers that it was told.
    ///
    /// An error is always news, and after it everything is.
    pub fn note(&mut self, topic: &TopicRef, answer: &PartitionData) -> bool {
        let key = (topic.clone(), answer.partition_index);
        let Some(known) = self.partitions.get_mut(&key) else { return true };
        let has_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        let moved = known.high_watermark != answer.high_watermark
            || known.log_start_offset != answer.log_start_offset;
        known.high_watermark = answer.high_watermark;
        known.log_start_offset = answer.log_start_offset;
        let failed = answer.error_code != ErrorCode::None.code();
        if failed {
            known.high_watermark = -1;
        }
        if has_records && let Some(place) = self.order.iter().position(|other| *other == key) {
            // Whoever was served goes to the end, so that a small max.bytes starves nobody.
            self.order.remove(place);
            self.order.push(key);
        }
        has_records || moved || failed || answer.diverging_epoch.end_offset >= 0
    }
}

#[cfg(test)]
mod tests;
