//! What a broker knows of our fetches, so that each says only what is new (KIP-227). Pure.
//!
//! The first fetch of a session lists every partition. The next ones list the partitions whose
//! place changed, and those that are not wanted any more. A broker that keeps no session gets every
//! partition in each fetch, each time in another order. So partitions that do not fit into one
//! answer come in another. Topics go by id from Fetch version 13 on, for a whole session or not at
//! all.
//! A broker tells the same news once. A partition may be new to us and not to the broker: it was
//! assigned again, or its first answer came too late. Then another session takes this one's place.
//! Source: Kafka's `FetchSessionHandler`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

use crate::consumer::cursor::{Cursor, Position};
use crate::topic_partition::TopicPartition;

/// Where a session begins.
const FIRST_EPOCH: i32 = 0;

/// A partition as it is to be fetched.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The consumer's place in it.
    pub cursor: Arc<Cursor>,
    /// Its topic's id; zero if the cluster has none.
    pub topic_id: Uuid,
    /// Where to go on.
    pub from: Position,
    /// The epoch of the leader, as far as is known.
    pub leader_epoch: i32,
    /// Whether the leader is asked, and not another replica.
    pub at_leader: bool,
    /// Whether the leader may name another replica.
    pub may_be_sent_away: bool,
    /// Whether no fetch has told the state of its log yet.
    pub is_new: bool,
}

/// What a fetch says of partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRequest {
    /// The session's id; 0 if there is none.
    pub session_id: i32,
    /// Counts the fetches of a session. The first one closes the named one, and asks for another.
    pub session_epoch: i32,
    /// Whether topics go by id.
    pub by_id: bool,
    /// What is new.
    pub topics: Vec<FetchTopic>,
    /// What is not wanted any more.
    pub forgotten: Vec<ForgottenTopic>,
}

/// The session with one broker.
#[derive(Debug, Default)]
pub struct FetchSession {
    id: i32,
    epoch: i32,
    by_id: bool,
    /// How often a broker kept no session.
    turns: usize,
    /// What the broker got last, by partition.
    told: BTreeMap<TopicPartition, Wanted>,
    /// The names of the topics that it got by id.
    names: HashMap<Uuid, Arc<str>>,
}

impl FetchSession {
    /// Says what the next fetch carries so that the broker reads just `wanted`.
    pub fn next(
        &mut self,
        wanted: Vec<Wanted>,
        ids_allowed: bool,
        partition_max_bytes: i32,
    ) -> SessionRequest {
        let wanted: BTreeMap<TopicPartition, Wanted> =
            wanted.into_iter().map(|one| (one.cursor.partition().clone(), one)).collect();
        let by_id = ids_allowed && wanted.values().all(|one| !one.topic_id.is_zero());
        if by_id != self.by_id {
            // Names and ids do not mix: the broker is asked for a new session.
            self.restart();
            self.by_id = by_id;
        }
        if wanted.iter().any(|(partition, one)| self.has_told_before(partition, one)) {
            self.epoch = FIRST_EPOCH;
        }
        let full = self.epoch == FIRST_EPOCH;
        let mut topics = Vec::new();
        let mut forgotten = Vec::new();
        let first = if full { self.turns % wanted.len().max(1) } else { 0 };
        for (partition, one) in wanted.iter().skip(first).chain(wanted.iter().take(first)) {
            let known = self.told.get(partition).filter(|_| !full);
            if let Some(known) = known.filter(|known| known.topic_id != one.topic_id) {
                forget(&mut forgotten, partition, known.topic_id);
            }
            if known.is_none_or(|known| differs(known, one)) {
                add(&mut topics, partition, one, partition_max_bytes);
            }
        }
        if !full {
            for (partition, known) in &self.told {
                if !wanted.contains_key(partition) {
                    forget(&mut forgotten, partition, known.topic_id);
                }
            }
        }
        self.names.clear();
        for (partition, one) in wanted.iter().filter(|_| by_id) {
            self.names.entry(one.topic_id).or_insert_with(|| Arc::clone(&partition.topic));
        }
        self.told = wanted;
        SessionRequest { session_id: self.id, session_epoch: self.epoch, by_id, topics, forgotten }
    }

    /// Whether the broker may have told the state of a log already, to another place of ours. As
    /// long as nothing changes there it does not tell it again.
    fn has_told_before(&self, partition: &TopicPartition, one: &Wanted) -> bool {
        let known = self.told.get(partition).filter(|_| one.is_new);
        known.is_some_and(|known| !Arc::ptr_eq(&known.cursor, &one.cursor))
    }

    /// What the broker got last of a partition: an answer may be about any of them.
    #[must_use]
    pub fn told(&self, topic: &str, topic_id: Uuid, partition: i32) -> Option<&Wanted> {
        let topic =
            if self.by_id { Arc::clone(self.names.get(&topic_id)?) } else { Arc::from(topic) };
        self.told.get(&TopicPartition { topic, partition })
    }

    /// The broker answered with this session id; 0 says that it keeps no session.
    pub fn answered(&mut self, session_id: i32) {
        self.id = session_id;
        self.epoch = match (session_id, self.epoch) {
            (0, _) | (_, i32::MAX) => FIRST_EPOCH,
            (_, epoch) => epoch + 1,
        };
        if self.epoch == FIRST_EPOCH {
            self.id = 0;
            self.turns = self.turns.wrapping_add(1);
        }
    }

    /// Starts again: the broker forgot the session, or the connection ended.
    pub fn restart(&mut self) {
        self.id = 0;
        self.epoch = FIRST_EPOCH;
        self.told.clear();
    }
}

fn differs(known: &Wanted, one: &Wanted) -> bool {
    known.from.offset != one.from.offset
        || known.leader_epoch != one.leader_epoch
        || known.topic_id != one.topic_id
}

fn add(topics: &mut Vec<FetchTopic>, partition: &TopicPartition, one: &Wanted, max_bytes: i32) {
    let told = FetchPartition {
        partition: partition.partition,
        current_leader_epoch: one.leader_epoch,
        fetch_offset: one.from.offset,
        partition_max_bytes: max_bytes,
        ..FetchPartition::default()
    };
    // Partitions come in order, so those of one topic follow each other, but where it began.
    match topics.last_mut().filter(|last| *last.topic == *partition.topic) {
        Some(last) => last.partitions.push(told),
        None => topics.push(FetchTopic {
            topic: partition.topic.to_string(),
            topic_id: one.topic_id,
            partitions: vec![told],
        }),
    }
}

fn forget(forgotten: &mut Vec<ForgottenTopic>, partition: &TopicPartition, topic_id: Uuid) {
    let same =
        |last: &&mut ForgottenTopic| *last.topic == *partition.topic && last.topic_id == topic_id;
    match forgotten.last_mut().filter(same) {
        Some(last) => last.partitions.push(partition.partition),
        None => forgotten.push(ForgottenTopic {
            topic: partition.topic.to_string(),
            topic_id,
            partitions: vec![partition.partition],
        }),
    }
}

#[cfg(test)]
mod tests;
