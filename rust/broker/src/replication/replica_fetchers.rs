//! Which leaders are followed, as the image says.
//!
//! A thread for each leader starts with the first partition that follows it and ends with the last
//! one. Source: Kafka's `ReplicaFetcherManager`.

use super::fetcher::{FetcherConfig, ReplicaKey};
use super::healer::{FollowedLog, Healer};
use super::leader_thread::{self, Change, Inbox};
use super::local_logs::LocalLogs;
use crate::clock::Clock;
use crate::metadata::{MetadataImage, TopicImage};
use crate::partitions::ReplicaManager;
use kafkalite_connection::{CutLinks, HostPort};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What the fetchers of a broker need to know of it.
#[derive(Clone, Debug)]
pub struct ReplicaFetchersConfig {
    /// This broker's id.
    pub local_id: i32,
    /// `inter.broker.listener.name`: the listener of a leader to ask at. Without it, or where a
    /// leader has none of this name, the leader's first.
    pub listener: Option<String>,
    /// Which leaders cannot be reached, if a test says so.
    pub links: Option<Arc<CutLinks>>,
    /// What leaders are asked for. The ids in it do not count.
    pub asks: FetcherConfig,
    /// `replica.socket.timeout.ms`
    pub socket_timeout: Duration,
    /// `kafkalite.replica.check.bytes.per.second`; 0 checks nothing.
    pub check_bytes_per_second: u64,
}

/// The fetchers of a broker.
pub struct ReplicaFetchers {
    config: ReplicaFetchersConfig,
    logs: LocalLogs,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whom each partition follows.
    following: HashMap<ReplicaKey, i32>,
    leaders: HashMap<i32, Leader>,
    /// This broker's epoch, which fetches carry.
    broker_epoch: i64,
    /// Reads what is followed; there from the first followed partition on.
    healer: Option<Healer>,
    /// Threads that are ending.
    ended: Vec<JoinHandle<()>>,
    is_stopped: bool,
}

struct Leader {
    inbox: Arc<Inbox>,
    thread: JoinHandle<()>,
    partitions: usize,
}

impl ReplicaFetchers {
    /// Follows no leader yet.
    #[must_use]
    pub fn new(
        config: ReplicaFetchersConfig,
        partitions: Arc<ReplicaManager>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let logs = LocalLogs::new(partitions, Arc::clone(&clock));
        Self { config, logs, clock, state: Arc::default() }
    }

    /// Follows the image from `before`, which was followed last, to `after`. The replicas of this
    /// broker have followed it already: their logs are in their roles.
    pub fn follow_image(&self, before: &MetadataImage, after: &MetadataImage) {
        let mut state = self.state.lock();
        if state.is_stopped {
            return;
        }
        let local = after.brokers.get(&self.config.local_id);
        let broker_epoch = local.map_or(-1, |broker| broker.epoch);
        let nothing = MetadataImage::default();
        let mut before = before;
        if broker_epoch != state.broker_epoch {
            // Fetches carry it: every leader gets a new fetcher.
            state.broker_epoch = broker_epoch;
            state.following.clear();
            state.end_leaders(|_| true);
            before = &nothing;
        }
        for (old, new) in before.topics.changes(&after.topics) {
            if let Some(old) = old.filter(|old| new.is_none_or(|new| new.id != old.id)) {
                (0..old.partition_count()).for_each(|index| state.unfollow(key(old, index)));
            }
            new.iter().for_each(|topic| self.follow_topic(&mut state, topic, after));
        }
        if before.brokers != after.brokers {
            for (id, leader) in &state.leaders {
                leader.inbox.set_place(self.place(after, *id));
            }
        }
        state.end_leaders(|leader| leader.partitions == 0);
        if state.healer.is_none() && !state.following.is_empty() {
            state.healer = self.healer();
        }
    }

    /// Begins to read what is followed, unless that is switched off.
    fn healer(&self) -> Option<Healer> {
        let bytes_per_second = self.config.check_bytes_per_second;
        if bytes_per_second == 0 {
            return None;
        }
        let state = Arc::downgrade(&self.state);
        let followed = move || state.upgrade().map(|it| it.lock().followed()).unwrap_or_default();
        let pool = leader_thread::pool(&self.config);
        let partitions = Arc::clone(self.logs.partitions());
        let started = Healer::start(followed, partitions, pool, bytes_per_second);
        let failed = |error: &std::io::Error| {
            tracing::error!(%error, "cannot start the thread that checks followed logs");
        };
        started.inspect_err(failed).ok()
    }

    fn follow_topic(&self, state: &mut State, topic: &TopicImage, image: &MetadataImage) {
        let local_id = self.config.local_id;
        for (index, partition) in (0..).zip(&topic.partitions) {
            let leader = partition.leader;
            let is_led_elsewhere = leader >= 0 && leader != local_id;
            let key = key(topic, index);
            if !is_led_elsewhere || !partition.replicas.contains(&local_id) {
                state.unfollow(key);
                continue;
            }
            if state.following.get(&key).is_some_and(|followed| *followed != leader) {
                state.unfollow(key);
            }
            let Some(inbox) = self.inbox(state, leader, image) else { continue };
            inbox.push(Change::Follow(key, Arc::clone(&topic.name), partition.leader_epoch));
            if state.following.insert(key, leader).is_none()
                && let Some(leader) = state.leaders.get_mut(&leader)
            {
                leader.partitions += 1;
            }
        }
    }

    /// The inbox of the thread that follows `leader`, which is started if there is none.
    fn inbox(&self, state: &mut State, leader: i32, image: &MetadataImage) -> Option<Arc<Inbox>> {
        if let Some(known) = state.leaders.get(&leader) {
            return Some(Arc::clone(&known.inbox));
        }
        let config = FetcherConfig {
            replica_id: self.config.local_id,
            broker_epoch: state.broker_epoch,
            ..self.config.asks
        };
        let place = self.place(image, leader);
        let clock = Arc::clone(&self.clock);
        let pool = leader_thread::pool(&self.config);
        let started = leader_thread::start((leader, place, pool), config, self.logs.clone(), clock);
        let failed = |error: &std::io::Error| {
            tracing::error!(leader, %error, "cannot start a thread that follows a leader");
        };
        let (inbox, thread) = started.inspect_err(failed).ok()?;
        let known = Leader { inbox: Arc::clone(&inbox), thread, partitions: 0 };
        state.leaders.insert(leader, known);
        Some(inbox)
    }

    fn place(&self, image: &MetadataImage, leader: i32) -> Option<HostPort> {
        let broker = image.brokers.get(&leader)?;
        let (host, port) = broker.endpoint(self.config.listener.as_deref().unwrap_or_default());
        HostPort::from_wire(host, i32::from(port))
    }

    /// Ends the threads, and waits for them.
    pub fn stop(&self) {
        let ended = {
            let mut state = self.state.lock();
            state.is_stopped = true;
            state.following.clear();
            state.end_leaders(|_| true);
            let healer = state.healer.take().map(Healer::end);
            state.ended.extend(healer);
            std::mem::take(&mut state.ended)
        };
        for thread in ended {
            if thread.join().is_err() {
                tracing::error!("a thread that follows a leader panicked");
            }
        }
    }
}

impl Drop for ReplicaFetchers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    fn followed(&self) -> Vec<FollowedLog> {
        let followed = self.following.iter().filter_map(|(key, leader)| {
            let place = self.leaders.get(leader)?.inbox.place();
            Some(FollowedLog { key: *key, leader: *leader, place })
        });
        followed.collect()
    }

    fn unfollow(&mut self, key: ReplicaKey) {
        let Some(leader) = self.following.remove(&key) else { return };
        if let Some(leader) = self.leaders.get_mut(&leader) {
            leader.inbox.push(Change::Unfollow(key));
            leader.partitions -= 1;
        }
    }

    /// Ends the threads that are not needed any more, without waiting for them.
    fn end_leaders(&mut self, is_unneeded: impl Fn(&Leader) -> bool) {
        self.ended.retain(|thread| !thread.is_finished());
        let ended = self.leaders.extract_if(|_, leader| is_unneeded(leader));
        for (_, leader) in ended {
            leader.inbox.end();
            self.ended.push(leader.thread);
        }
    }
}

fn key(topic: &TopicImage, partition: i32) -> ReplicaKey {
    ReplicaKey { topic_id: topic.id, partition }
}
