//! What the leader knows of its follower: a fetch session, seen from the follower (KIP-227).
//!
//! The first fetch of a session lists every partition; later ones list those whose position
//! changed, and those to forget. When it is not known whether the leader got a request, a new
//! session begins: the leader closes the one before.
//! Source: Kafka's `FetchSessionHandler`.

use super::{Asked, FetcherConfig, ReplicaKey};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState,
};
use std::collections::{BTreeMap, BTreeSet};

/// The epoch of a fetch that begins a session.
const INITIAL_EPOCH: i32 = 0;

/// One session after the other.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// 0: none is open.
    id: i32,
    /// Of the next request; 0 begins a session.
    epoch: i32,
    /// What every next fetch asks for.
    wishes: BTreeMap<ReplicaKey, Asked>,
    /// Partitions of `wishes` that the leader does not know as they are.
    unsent: BTreeSet<ReplicaKey>,
    /// Partitions that the leader knows, and that are not wished for any more.
    unneeded: BTreeSet<ReplicaKey>,
}

impl Session {
    /// Whether the last request was one of a session.
    pub fn is_open(&self) -> bool {
        self.id != 0
    }

    /// What the last fetch asked of a partition.
    pub fn asked(&self, key: ReplicaKey) -> Option<Asked> {
        self.wishes.get(&key).copied()
    }

    /// What the next fetch shall ask of a partition. Nothing is under way.
    pub fn wish(&mut self, key: ReplicaKey, wish: Option<Asked>) {
        match wish {
            Some(wish) => {
                if self.wishes.insert(key, wish) != Some(wish) {
                    self.unsent.insert(key);
                }
                self.unneeded.remove(&key);
            }
            None => {
                if self.wishes.remove(&key).is_some() {
                    self.unsent.remove(&key);
                    self.unneeded.insert(key);
                }
            }
        }
    }

    /// The next fetch; `None` if there is nothing to fetch.
    pub fn request(&mut self, config: &FetcherConfig) -> Option<FetchRequest> {
        if self.wishes.is_empty() {
            return None;
        }
        let is_full = self.epoch == INITIAL_EPOCH;
        let unsent = std::mem::take(&mut self.unsent);
        let unneeded = std::mem::take(&mut self.unneeded);
        let listed = |key: &&ReplicaKey| is_full || unsent.contains(key);
        let mut topics: Vec<FetchTopic> = Vec::new();
        for key in self.wishes.keys().filter(listed) {
            let partition = partition(*key, &self.wishes[key], config);
            match topics.last_mut().filter(|last| last.topic_id == key.topic_id) {
                Some(last) => last.partitions.push(partition),
                None => topics.push(FetchTopic {
                    topic_id: key.topic_id,
                    partitions: vec![partition],
                    ..FetchTopic::default()
                }),
            }
        }
        let forgotten = unneeded.into_iter().filter(|_| !is_full);
        Some(FetchRequest {
            replica_id: config.replica_id,
            replica_state: ReplicaState {
                replica_id: config.replica_id,
                replica_epoch: config.broker_epoch,
            },
            max_wait_ms: config.max_wait_ms,
            min_bytes: config.min_bytes,
            max_bytes: config.max_bytes,
            session_id: self.id,
            session_epoch: self.epoch,
            topics,
            forgotten_topics_data: forgotten_topics(forgotten),
            ..FetchRequest::default()
        })
    }

    /// The leader answered the last request, and keeps session `id`; 0 if it keeps none.
    pub fn answered(&mut self, id: i32) {
        if id == 0 {
            (self.id, self.epoch) = (0, INITIAL_EPOCH);
            return;
        }
        self.id = id;
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }

    /// Begins a new session: the leader may know something else than this follower thinks.
    pub fn lose(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }
}

fn partition(key: ReplicaKey, asked: &Asked, config: &FetcherConfig) -> FetchPartition {
    FetchPartition {
        partition: key.partition,
        current_leader_epoch: asked.epoch.0,
        fetch_offset: asked.position.end.0,
        last_fetched_epoch: asked.position.latest_epoch.0,
        log_start_offset: asked.position.start.0,
        partition_max_bytes: config.partition_max_bytes,
        ..FetchPartition::default()
    }
}

fn forgotten_topics(keys: impl Iterator<Item = ReplicaKey>) -> Vec<ForgottenTopic> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    keys.for_each(|key| topics.entry(key.topic_id).or_default().push(key.partition));
    let topics = topics.into_iter();
    let forgotten = topics.map(|(topic_id, partitions)| ForgottenTopic {
        topic_id,
        partitions,
        ..ForgottenTopic::default()
    });
    forgotten.collect()
}
