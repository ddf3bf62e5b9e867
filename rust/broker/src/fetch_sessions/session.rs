//! One fetch session: what its client knows of each partition, and which are dirty.
//!
//! A partition is dirty until the client has everything of it. Then its fetch offset is the end of
//! what it may read. The last answer had the present high watermark, log start and last stable
//! offset, and no error or diverging epoch. It becomes dirty again when it moves or when a request
//! names it. A fetch looks at dirty partitions only. A follower's partition stays dirty as well
//! until a look of a fetch was noted at the partition. Its leader has to know where it is.
//!
//! Order of service: a partition that becomes dirty, or was served, takes the last turn, so that a
//! small `max.bytes` starves no partition.

use super::target::{FetchTarget, Reader, TopicRef, targets, topic_ref};
use crate::waiters::{PartitionSubscription, SessionNotifier};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::fetch::{FetchRequest, PartitionData};
use slab::Slab;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A partition that a fetch looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What is asked for.
    pub target: FetchTarget,
    /// Its place in the session; 0 outside of one.
    slot: u32,
    /// How often it had become dirty when this look began.
    moves: u32,
    /// The leader's replica took note of where its follower is.
    is_noted: bool,
}

/// The last values of a partition that the client got; -1 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
}

const NOTHING: Told = Told { high_watermark: -1, last_stable_offset: -1, log_start_offset: -1 };

#[derive(Debug)]
struct Known {
    target: FetchTarget,
    told: Told,
    /// Its place in the order of service; `None` while it is clean.
    turn: Option<u64>,
    /// How often it became dirty, or might have: an older look may not call it clean. Wraps; no
    /// look is four billion moves old.
    moves: u32,
    subscription: Option<Arc<PartitionSubscription>>,
}

/// What one client knows.
#[derive(Debug)]
pub struct FetchSession {
    pub(super) id: i32,
    pub(super) next_epoch: i32,
    pub(super) uses_topic_ids: bool,
    reader: Reader,
    notifier: Arc<SessionNotifier>,
    slots: Slab<Known>,
    by_name: HashMap<(Arc<TopicRef>, i32), usize>,
    /// The slots of dirty partitions by their turns.
    dirty: BTreeMap<u64, usize>,
    next_turn: u64,
}

impl Look {
    /// A look outside of a session.
    #[must_use]
    pub fn once(target: FetchTarget) -> Self {
        Self { target, slot: 0, moves: 0, is_noted: false }
    }

    /// The leader's replica took note of where its follower is.
    pub fn set_noted(&mut self) {
        self.is_noted = true;
    }

    /// Its place in the session.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot as usize
    }

    /// Leaves one look at each partition: in the first one's place, the last one's wishes.
    ///
    /// So does Kafka, which puts the partitions of a request into a map. Sorted in place of a map:
    /// a request may name a million.
    pub(super) fn name_each_once(looks: &mut Vec<Self>) {
        fn key(look: &Look) -> (&TopicRef, i32) {
            (&look.target.topic, look.target.partition)
        }
        if looks.is_sorted_by(|one, next| key(one) < key(next)) {
            return;
        }
        let mut order: Vec<u32> = (0..u32::try_from(looks.len()).unwrap_or(u32::MAX)).collect();
        let at = |place: &u32| key(&looks[*place as usize]);
        order.sort_unstable_by(|one, other| at(one).cmp(&at(other)).then(one.cmp(other)));
        let mut again = vec![false; looks.len()];
        let mut newest = Vec::new();
        for run in order.chunk_by(|one, other| at(one) == at(other)) {
            if let [first, .., last] = run {
                newest.push((*first as usize, *last as usize));
                run[1..].iter().for_each(|place| again[*place as usize] = true);
            }
        }
        for (first, last) in newest {
            looks[first] = looks[last].clone();
        }
        let mut again = again.into_iter();
        looks.retain(|_| !again.next().unwrap_or(false));
    }
}

impl FetchSession {
    pub(super) fn new(
        uses_topic_ids: bool,
        reader: Reader,
        notifier: Arc<SessionNotifier>,
    ) -> Self {
        Self {
            id: 0,
            next_epoch: 1,
            uses_topic_ids,
            reader,
            notifier,
            slots: Slab::new(),
            by_name: HashMap::new(),
            dirty: BTreeMap::new(),
            next_turn: 0,
        }
    }

    /// The id that goes into the response.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.id
    }

    /// How many partitions it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The partitions that it has.
    pub(super) fn partitions(&self) -> Vec<(Arc<TopicRef>, i32)> {
        self.by_name.keys().cloned().collect()
    }

    /// What its client asks of each partition, at most `most` of them.
    #[must_use]
    pub fn targets(&self, most: usize) -> Vec<FetchTarget> {
        self.slots.iter().take(most).map(|(_, known)| known.target.clone()).collect()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Where its parked fetches wait, and what wakes them.
    #[must_use]
    pub fn notifier(&self) -> &Arc<SessionNotifier> {
        &self.notifier
    }

    /// Takes over what a request changes.
    pub(super) fn update(&mut self, request: &FetchRequest, version: i16, now_ms: i64) {
        self.notifier.fetched(now_ms);
        for target in targets(request, version) {
            self.put(target);
        }
        for topic in &request.forgotten_topics_data {
            let name = topic_ref(self.uses_topic_ids, &topic.topic, topic.topic_id);
            for partition in &topic.partitions {
                self.forget(&(name.clone(), *partition));
            }
        }
        let reader = Reader::of(request, version);
        if self.reader != reader {
            // Another end of what may be read, everywhere.
            self.reader = reader;
            let slots: Vec<usize> = self.slots.iter().map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| self.make_dirty(slot));
        }
    }

    pub(super) fn put(&mut self, target: FetchTarget) {
        let key = (target.topic.clone(), target.partition);
        let slot = match self.by_name.get(&key) {
            Some(slot) => {
                self.slots[*slot].target = target;
                *slot
            }
            None => {
                let known =
                    Known { target, told: NOTHING, turn: None, moves: 0, subscription: None };
                let slot = self.slots.insert(known);
                self.by_name.insert(key, slot);
                slot
            }
        };
        self.make_dirty(slot);
    }

    fn forget(&mut self, key: &(Arc<TopicRef>, i32)) {
        let Some(slot) = self.by_name.remove(key) else { return };
        let known = self.slots.remove(slot);
        if let Some(turn) = known.turn {
            self.dirty.remove(&turn);
        }
    }

    fn make_dirty(&mut self, slot: usize) {
        let known = &mut self.slots[slot];
        known.moves = known.moves.wrapping_add(1);
        if known.turn.is_none() {
            self.take_last_turn(slot);
        }
    }

    fn take_last_turn(&mut self, slot: usize) {
        let known = &mut self.slots[slot];
        if let Some(subscription) = &known.subscription {
            subscription.set_clean(false);
        }
        if let Some(turn) = known.turn.replace(self.next_turn) {
            self.dirty.remove(&turn);
        }
        self.dirty.insert(self.next_turn, slot);
        self.next_turn += 1;
    }

    fn look(&self, slot: usize) -> Look {
        let known = &self.slots[slot];
        let place = u32::try_from(slot).unwrap_or(u32::MAX);
        let target = known.target.clone();
        Look { target, slot: place, moves: known.moves, is_noted: false }
    }

    /// Every dirty partition, in the order of service.
    pub(super) fn dirty(&mut self) -> Vec<Look> {
        self.take_moved();
        self.dirty.values().map(|slot| self.look(*slot)).collect()
    }

    /// The partitions that moved since the last time; all are dirty now.
    ///
    /// To be called before they are looked at: a later move is noted again.
    pub fn take_moved(&mut self) -> Vec<Look> {
        let mut moved = self.notifier.take_moved();
        // A partition may have been forgotten meanwhile, and its place be another's: dirty, too.
        moved.retain(|slot| self.slots.contains(*slot));
        // A place that two partitions had one after the other may have been noted for both.
        moved.sort_unstable();
        moved.dedup();
        for slot in &moved {
            if let Some(subscription) = &self.slots[*slot].subscription {
                subscription.rearm();
            }
            self.make_dirty(*slot);
        }
        moved.into_iter().map(|slot| self.look(slot)).collect()
    }

    /// The subscription for the replica with this key, if that replica does not hold it yet. The
    /// replica has to hold it before it is looked at.
    pub fn subscription(
        &mut self,
        look: &Look,
        partition_key: u64,
    ) -> Option<Arc<PartitionSubscription>> {
        let known = self.known(look)?;
        let held = known
            .subscription
            .as_ref()
            .filter(|subscription| subscription.is_for(partition_key))
            .cloned();
        let subscription = held.unwrap_or_else(|| {
            // A topic that was made again is another partition; its old subscription goes.
            let subscription =
                PartitionSubscription::new(self.notifier.clone(), look.slot(), partition_key);
            self.slots[look.slot()].subscription = Some(subscription.clone());
            subscription
        });
        (!subscription.is_held_at(partition_key)).then_some(subscription)
    }

    /// What is in the place of a look, unless it was forgotten since.
    fn known(&self, look: &Look) -> Option<&Known> {
        let target = &look.target;
        self.slots.get(look.slot()).filter(|known| {
            known.target.partition == target.partition && known.target.topic == target.topic
        })
    }

    /// Whether `answer` has news for the client; remembers it as sent.
    ///
    /// `readable_end` is the end of what the client could read at the time of the look. The
    /// partition is clean if nothing is left before this end and nothing is wrong. An error is
    /// always news, and after it everything is. A look that no leader noted leaves a follower's
    /// partition dirty. A fetch may be read long after it came, by a leader that began meanwhile.
    pub fn note(&mut self, look: &Look, answer: &PartitionData, readable_end: i64) -> bool {
        let Some(known) = self.known(look) else { return true };
        let now_told = Told {
            high_watermark: answer.high_watermark,
            last_stable_offset: answer.last_stable_offset,
            log_start_offset: answer.log_start_offset,
        };
        let failed = answer.error_code != ErrorCode::None.code();
        let diverged = answer.diverging_epoch.end_offset >= 0;
        let is_sent_away = answer.preferred_read_replica >= 0;
        let has_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        let moved = known.told != now_told;
        let has_all = known.target.fetch_offset == readable_end;
        let is_noted = look.is_noted || !self.reader.is_follower();
        let is_current =
            has_all && is_noted && !failed && !diverged && !is_sent_away && !has_records;
        let unmoved = known.moves == look.moves;
        let is_dirty = known.turn.is_some();
        self.slots[look.slot()].told = if failed { NOTHING } else { now_told };
        if has_records || (!is_current && !is_dirty) {
            self.take_last_turn(look.slot());
        }
        if is_current && unmoved {
            self.make_clean(look.slot());
        }
        has_records || moved || failed || diverged || is_sent_away
    }

    fn make_clean(&mut self, slot: usize) {
        let known = &mut self.slots[slot];
        if let Some(turn) = known.turn.take() {
            self.dirty.remove(&turn);
        }
        if let Some(subscription) = &known.subscription {
            subscription.set_clean(true);
        }
    }
}
