//! What a consumer reads: what it asked for, what it was given, and where it stands in each
//! partition.
//!
//! Pure: no clock, no wire. The shells ask what is due (`…_due`), and tell what came of it.
//!
//! A partition goes through these states; a seek leads into `Reading` or `Reset` from anywhere:
//! ```text
//! Committed --> Reading <--> Validate        a committed offset, or a seek
//!     |            ^  |
//!     +--> Reset --+<-+                      none, or out of range: by time, earliest or latest
//! ```
//! Source: Kafka's `SubscriptionState`; KIP-320 for `Validate`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use kafkalite_protocol::Uuid;

use crate::consumer::cursor::{Cursor, NO_EPOCH, NO_TENURE, Position, next_tenure};
use crate::topic_partition::TopicPartition;

mod commits;
mod doubtful;
mod nearby;
mod partition_state;
mod past;
mod quiet;
#[cfg(test)]
mod tests;
mod wish;

use past::Past;

pub use commits::Made;
pub use partition_state::{FetchWish, LeaderAndEpoch, PartitionState, Status, Watermarks};
pub use wish::{TopicFilter, Wish};

/// "The first offset" and "the end", as ListOffsets spells them.
pub const EARLIEST: i64 = -2;
/// The end of the partition.
pub const LATEST: i64 = -1;

/// Partitions that need an answer from ListOffsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetWish {
    /// The partition.
    pub partition: TopicPartition,
    /// A timestamp, [`EARLIEST`] or [`LATEST`].
    pub timestamp: i64,
    /// No two wishes of a partition have the same. An answer to the one before may be older than
    /// records that this one passes over.
    pub number: u64,
}

/// Records that were handed out are no longer in the log (KIP-320).
#[derive(Clone, Debug)]
pub struct Truncation {
    /// The place whose record before is lost.
    pub cursor: Arc<Cursor>,
    /// Where that is.
    pub position: Position,
    /// Where the leader's log parts from what was read; `None` if it knows nothing of that epoch.
    pub parted: Option<Position>,
}

/// A consumer's partitions and wishes.
pub struct Subscription {
    wish: Wish,
    partitions: BTreeMap<TopicPartition, PartitionState>,
    past: Past,
}

impl Default for Subscription {
    fn default() -> Self {
        Self::new()
    }
}

impl Subscription {
    /// Nothing asked for, nothing assigned.
    #[must_use]
    pub fn new() -> Self {
        Self { wish: Wish::Nothing, partitions: BTreeMap::new(), past: Past::default() }
    }

    /// What was asked for.
    #[must_use]
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Asks for something else. What was assigned stays until [`Self::keep_only`] or the group, but
    /// topics that are not asked for any more are neither fetched nor handed out.
    pub fn set_wish(&mut self, wish: Wish) {
        for (partition, state) in &mut self.partitions {
            state.set_wanted(wish.may_be(&partition.topic));
        }
        self.past.set_wish(&wish);
        self.wish = wish;
    }

    /// The partitions that are assigned, in order.
    #[must_use]
    pub fn assigned(&self) -> Vec<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    /// Whether a topic is asked for by its name, or a partition of it is assigned.
    #[must_use]
    pub fn reads(&self, topic: &str) -> bool {
        let is_named = matches!(&self.wish, Wish::Topics(names) if names.contains(topic));
        is_named || self.partitions.keys().any(|one| &*one.topic == topic)
    }

    /// Whether anything is assigned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The state of an assigned partition.
    #[must_use]
    pub fn get(&self, partition: &TopicPartition) -> Option<&PartitionState> {
        self.partitions.get(partition)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, partition: &TopicPartition) -> Option<&mut PartitionState> {
        self.partitions.get_mut(partition)
    }

    /// Every assigned partition with its state.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionState)> {
        self.partitions.iter()
    }

    /// Takes partitions in that no group assigned; what is new among them begins with `start`.
    pub fn add(&mut self, partitions: impl IntoIterator<Item = TopicPartition>, start: Status) {
        self.add_held(partitions.into_iter().map(|partition| (partition, next_tenure())), start);
    }

    /// The same of partitions that a group assigned, each with its tenure.
    pub fn add_held(
        &mut self,
        partitions: impl IntoIterator<Item = (TopicPartition, u64)>,
        start: Status,
    ) {
        for (partition, tenure) in partitions {
            if !self.partitions.contains_key(&partition) {
                let by_group = self.wish.is_by_group();
                let state = self.past.begin(&partition, tenure, start, by_group);
                self.partitions.insert(partition.clone(), state);
            }
            self.past.forget(&partition);
        }
    }

    /// The tenure of a partition's records where the group's is `tenure`: another one since its
    /// topic was made again.
    #[must_use]
    pub fn own_tenure(&self, partition: &TopicPartition, tenure: u64) -> u64 {
        self.past.own_tenure(partition, tenure)
    }

    /// Whether a member of a group may commit for `partition` what it read in `tenure`, if that is
    /// known: it still holds the partition. Of one that it never held the coordinator decides.
    #[must_use]
    pub fn may_commit(&self, partition: &TopicPartition, tenure: u64) -> bool {
        match self.partitions.get(partition) {
            Some(state) => tenure == NO_TENURE || tenure == state.cursor().tenure(),
            None => tenure == NO_TENURE && !self.past.has(partition),
        }
    }

    /// Whether what was read in `tenure`, if that is known, is of an earlier topic of the name.
    #[must_use]
    pub fn is_of_former_topic(&self, partition: &TopicPartition, tenure: u64) -> bool {
        tenure != NO_TENURE && self.past.renewed_in(partition).is_some_and(|since| tenure < since)
    }

    /// Gives partitions up: what is under way for them is stale from now on.
    pub fn remove<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>) {
        for partition in partitions {
            if let Some(state) = self.partitions.remove(partition) {
                state.cursor().retire();
                self.past.give_up(partition.clone(), &state);
            }
        }
    }

    /// Gives up everything else than `partitions`, as brokers know no such topics. A broker that
    /// lags behind says so as well: what is still wanted is set aside for [`Self::take_back`].
    pub fn set_aside(&mut self, partitions: &BTreeSet<TopicPartition>, now: Instant) {
        self.past.forget_old(now);
        let gone = |one: &&TopicPartition| !partitions.contains(one);
        for partition in self.partitions.keys().filter(gone).cloned().collect::<Vec<_>>() {
            let Some(state) = self.partitions.remove(&partition) else { continue };
            state.cursor().retire();
            if self.wish.may_be(&partition.topic) {
                self.past.set_aside(partition, state, now);
            }
        }
    }

    /// Goes on with what was set aside of the topic with this name and id, where it stood.
    pub fn take_back(&mut self, topic: &str, id: Uuid) {
        for (partition, mut state) in self.past.take_back(topic, id) {
            state.rewind();
            self.partitions.entry(partition).or_insert(state);
        }
    }

    /// Records from `from` on were handed out of `cursor` and not kept: they are handed out again,
    /// unless the partition is read elsewhere by now.
    pub fn give_back(&mut self, cursor: &Cursor, from: Position) {
        let partition = cursor.partition();
        let aside = self.past.aside(partition).map(PartitionState::cursor);
        if let Some(state) = self.partitions.get_mut(partition) {
            if state.cursor().is_of_one_place_with(cursor) {
                cursor.give_back(from);
                state.rewind();
            }
        } else if aside.is_some_and(|place| place.is_of_one_place_with(cursor)) {
            cursor.give_back(from);
        }
    }

    /// Whether its partition is read from where `cursor` stood, though that was retired.
    #[must_use]
    pub fn goes_on_from(&self, cursor: &Cursor) -> bool {
        let state = self.partitions.get(cursor.partition());
        state.is_some_and(|state| {
            state.position().is_some() && state.cursor().is_of_one_place_with(cursor)
        })
    }

    /// Gives up everything else than `partitions`, and takes in what is new among them.
    pub fn keep_only(&mut self, partitions: &BTreeSet<TopicPartition>, start: Status) {
        let gone: Vec<_> =
            self.partitions.keys().filter(|one| !partitions.contains(one)).cloned().collect();
        self.remove(&gone);
        self.add(partitions.iter().cloned(), start);
    }

    /// Neither fetches nor hands out partitions that are about to be given up.
    pub fn hold<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>) {
        for partition in partitions {
            if let Some(state) = self.partitions.get_mut(partition) {
                state.hold();
            }
        }
    }

    /// Stops or goes on fetching and handing out `partition`; `false` if it is not assigned.
    pub fn set_paused(&mut self, partition: &TopicPartition, paused: bool) -> bool {
        let Some(state) = self.partitions.get_mut(partition) else { return false };
        state.set_paused(paused);
        true
    }

    /// Drops what was fetched for partitions that are held back: they are fetched again when they
    /// go on. Whether there was something.
    pub fn rewind_paused(&mut self) -> bool {
        let mut rewound = false;
        for state in self.partitions.values_mut() {
            if state.cursor().is_paused() && state.cursor().buffered_bytes() > 0 {
                state.rewind();
                rewound = true;
            }
        }
        rewound
    }

    /// The partitions that are paused.
    #[must_use]
    pub fn paused(&self) -> Vec<TopicPartition> {
        let paused = self.partitions.iter().filter(|(_, state)| state.is_paused());
        paused.map(|(partition, _)| partition.clone()).collect()
    }

    /// Goes to `position`; `false` if the partition is not assigned.
    pub fn seek(&mut self, partition: &TopicPartition, position: Position) -> bool {
        let Some(state) = self.partitions.get_mut(partition) else { return false };
        state.seek(position);
        true
    }

    /// Goes to where a timestamp, [`EARLIEST`] or [`LATEST`] leads; `false` if not assigned.
    pub fn seek_to(&mut self, partition: &TopicPartition, timestamp: i64) -> bool {
        let Some(state) = self.partitions.get_mut(partition) else { return false };
        state.reset_to(timestamp);
        true
    }

    /// The partitions whose committed offsets are not known yet.
    #[must_use]
    pub fn committed_due(&self, now: Instant) -> Vec<TopicPartition> {
        self.due(now, |status| matches!(status, Status::Committed)).cloned().collect()
    }

    /// The partitions that wait for ListOffsets.
    #[must_use]
    pub fn resets_due(&self, now: Instant) -> Vec<ResetWish> {
        let due = self.partitions.iter().filter(|(_, state)| state.is_due(now));
        due.filter_map(|(partition, state)| match state.status() {
            Status::Reset { timestamp } => {
                let number = state.reset_number();
                Some(ResetWish { partition: partition.clone(), timestamp, number })
            }
            _ => None,
        })
        .collect()
    }

    /// The partitions whose place is to be compared with their leader's log.
    #[must_use]
    pub fn validations_due(&self, now: Instant) -> Vec<(TopicPartition, Position)> {
        let due = self.partitions.iter().filter(|(_, state)| state.is_due(now));
        due.filter(|(_, state)| matches!(state.status(), Status::Validate) && !state.is_stalled())
            .filter(|(_, state)| !state.has_old_leader(now))
            .map(|(partition, state)| (partition.clone(), state.next_fetch()))
            .collect()
    }

    /// The partitions that have no position, no committed offset, and no policy to find one.
    #[must_use]
    pub fn without_position(&self) -> Vec<TopicPartition> {
        let lost = |(_, state): &(&TopicPartition, &PartitionState)| {
            matches!(state.status(), Status::NoPosition)
        };
        self.partitions.iter().filter(lost).map(|(partition, _)| partition.clone()).collect()
    }

    fn due(
        &self,
        now: Instant,
        matches: impl Fn(Status) -> bool,
    ) -> impl Iterator<Item = &TopicPartition> {
        self.partitions
            .iter()
            .filter(move |(_, state)| state.is_due(now) && matches(state.status()))
            .map(|(partition, _)| partition)
    }

    /// When the first partition that waits is due again.
    #[must_use]
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        self.partitions.values().flat_map(PartitionState::next_due).filter(|at| *at > now).min()
    }

    /// Compares each partition's topic with the cluster's present one. If the topic was created
    /// again under the same name, nothing is known of it, and its partitions begin with `start`.
    pub fn see_topics(&mut self, id_of: impl Fn(&str) -> Option<Uuid>, start: Status) {
        for (partition, state) in &mut self.partitions {
            let Some(id) = id_of(&partition.topic) else { continue };
            let before = state.cursor().tenure();
            state.see_topic(id, start);
            let own = state.cursor().tenure();
            if own != before {
                self.past.renew(partition, before, own);
            }
        }
    }

    /// Compares each partition's leader with what the cluster says now. A new epoch means that the
    /// log may have been cut: positions are looked at again before more is fetched (KIP-320).
    pub fn see_leaders(&mut self, leader_of: impl Fn(&TopicPartition) -> Option<LeaderAndEpoch>) {
        for (partition, state) in &mut self.partitions {
            if let Some(leader) = leader_of(partition) {
                state.see_leader(leader);
            }
        }
    }

    /// What to fetch: partitions with a position and a leader, that nothing holds back. A node is
    /// left out while `partition_bytes` of one of them wait to be decoded. A fetch of the others
    /// could wait for records, and the full one is handed out meanwhile.
    #[must_use]
    pub fn fetchable(&self, now: Instant, partition_bytes: usize) -> Vec<FetchWish> {
        let mut wishes: Vec<_> =
            self.partitions.values().filter_map(|state| state.fetchable(now)).collect();
        let has_enough = |wish: &&FetchWish| wish.cursor.buffered_bytes() >= partition_bytes;
        let full: BTreeSet<_> = wishes.iter().filter(has_enough).map(|wish| wish.node).collect();
        wishes.retain(|wish| !full.contains(&wish.node));
        wishes
    }

    /// Replica `node` is not reached: partitions that were read from it, though another broker
    /// leads them, go back to their leaders.
    pub fn avoid_nearby(&mut self, node: i32, now: Instant) {
        self.partitions.values_mut().for_each(|state| state.nearby().avoid(node, now));
    }

    /// The answer of OffsetFetch: the committed position, or none.
    /// Without one the partition is reset to `policy`, or stays without a position.
    pub fn start_at_committed(
        &mut self,
        partition: &TopicPartition,
        committed: Option<Position>,
        policy: Option<i64>,
    ) {
        let Some(state) = self.partitions.get_mut(partition) else { return };
        if !matches!(state.status(), Status::Committed) {
            return;
        }
        match (committed, policy) {
            (Some(position), _) => {
                state.seek(position);
                state.set_committed(position);
            }
            (None, Some(timestamp)) => state.reset_to(timestamp),
            (None, None) => state.lose_position(),
        }
    }

    /// The answer of ListOffsets to a [`ResetWish`]; nothing happens if the wish changed since.
    pub fn reset_done(&mut self, wish: &ResetWish, offset: i64, leader_epoch: i32) {
        let Some(state) = self.partitions.get_mut(&wish.partition) else { return };
        let waits = state.status() == Status::Reset { timestamp: wish.timestamp };
        if waits && state.reset_number() == wish.number {
            // The leader gave the offset just now: there is nothing to validate.
            state.seek(Position { offset, leader_epoch });
            state.mark_validated();
        }
    }

    /// The answer of OffsetForLeaderEpoch for `position`: the log of its epoch ends at `end`,
    /// offset and epoch. A -1 in either says that the leader does not know that epoch.
    ///
    /// Returns what was lost if records that were handed out are no longer there. Those that were
    /// only fetched are dropped, and the question is asked again of what was handed out.
    pub fn validation_done(
        &mut self,
        partition: &TopicPartition,
        position: Position,
        end: Position,
    ) -> Option<Truncation> {
        let state = self.validating(partition, position)?;
        let known = end.offset >= 0 && end.leader_epoch != NO_EPOCH;
        if known && end.offset >= position.offset {
            state.mark_validated();
            return None;
        }
        if state.position() != Some(position) {
            state.rewind();
            return None;
        }
        let parted = known.then_some(end);
        Some(Truncation { cursor: Arc::clone(state.cursor()), position, parted })
    }

    /// It is unknown whether the log was cut before `position`, so the position is taken as it is.
    pub fn validation_skipped(&mut self, partition: &TopicPartition, position: Position) {
        if let Some(state) = self.validating(partition, position) {
            state.mark_validated();
        }
    }

    /// Goes on where the logs part, which the leader told just now.
    pub fn go_back_to(&mut self, partition: &TopicPartition, parted: Position) {
        if let Some(state) = self.partitions.get_mut(partition) {
            state.go_back_to(parted);
        }
    }

    fn validating(
        &mut self,
        partition: &TopicPartition,
        position: Position,
    ) -> Option<&mut PartitionState> {
        let state = self.partitions.get_mut(partition)?;
        let asked = matches!(state.status(), Status::Validate) && state.next_fetch() == position;
        asked.then_some(state)
    }

    /// Something failed that may go better at `at`.
    pub fn retry_later(&mut self, partition: &TopicPartition, at: Instant) {
        if let Some(state) = self.partitions.get_mut(partition) {
            state.retry_later(at);
        }
    }
}
