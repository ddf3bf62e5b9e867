//! What to send now, and what an answer means: the sender without its sockets and its clock.
//!
//! A request carries at most one batch of a partition, as the protocol wants it. Batches whose fate
//! is known are handed out as [`Report`]s; all other waiting callers have their outcome already.
//! Source: Kafka's `Sender` and `RecordAccumulator.drain`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kafkalite_connection::{NodeId, Silence};
use kafkalite_protocol::record_batch::advance_sequence;
use kafkalite_protocol::{ErrorCode, Uuid};

use super::track::{InFlightBatch, Next, Track};
use super::{Metrics, Settings};
use crate::error::ClientError;
use crate::producer::accumulator::{Accumulator, Batch, Failure, Landed, Report};
use crate::producer::idempotence::{Identity, Refused, Verdict, judge};
use crate::producer::partitioner::Loads;

mod answers;
mod silence;
#[cfg(test)]
mod tests;

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The broker.
    pub node: NodeId,
    /// Its leader epoch; -1 if not known.
    pub epoch: i32,
    /// The topic that the partition is one of; zero if brokers tell no ids.
    pub topic_id: Uuid,
}

/// Whether a broker can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It can.
    Free,
    /// It asked to be left alone until then.
    Later(Instant),
    /// There is no connection.
    Absent,
}

/// One batch of a request.
pub struct ProduceBatch {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Counted from 0.
    pub partition: i32,
    /// The batch as it is sent.
    pub bytes: Bytes,
    /// To whom, and to which topic.
    pub leader: Leader,
    track: usize,
    order: (u64, u32),
}

/// A request to be sent, with at most one batch of each partition.
pub struct Outgoing {
    /// Its number, for the answer.
    pub id: u64,
    /// Whom it goes to.
    pub node: NodeId,
    /// What it carries.
    pub batches: Vec<ProduceBatch>,
}

/// What to do now, and when to look again.
#[derive(Default)]
pub struct Plan {
    /// To be sent in this order.
    pub requests: Vec<Outgoing>,
    /// Brokers that have no connection, and something to be sent.
    pub absent: Vec<NodeId>,
    /// Topics with records for a partition without a leader.
    pub leaderless: Vec<Arc<str>>,
    /// Whether a broker that has as many requests as allowed could get more.
    pub saturated: bool,
    /// Brokers that have not answered a request for long: they may be cut off.
    pub silent: Vec<NodeId>,
    /// Silent brokers that do not lead any more what was sent to them.
    pub replaced: Vec<NodeId>,
    /// When the first batch that lingers leaves.
    pub linger_at: Option<Instant>,
    /// Whether batches wait for a producer id.
    pub wants_identity: bool,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<Instant>,
}

/// What a broker answered for one partition.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The code, 0 for success.
    pub code: ErrorCode,
    /// The broker's own words.
    pub message: Option<String>,
    /// Of the first record; -1 where unknown.
    pub base_offset: i64,
    /// -1 unless the topic's timestamps are those of appends.
    pub log_append_time_ms: i64,
    /// Records that the broker holds invalid, by index, with its words.
    pub record_errors: Vec<(i32, Option<String>)>,
}

/// A request in flight: track, order among its batches and leader of each batch.
struct Request {
    node: NodeId,
    sent: Vec<(usize, (u64, u32), Leader)>,
    silence: Silence,
}

/// The sender's state. See the module.
pub struct Dispatch<T> {
    settings: Settings,
    accumulator: Arc<Accumulator<T>>,
    metrics: Arc<Metrics>,
    /// By [`PartitionQueue::index`].
    tracks: Vec<Track<T>>,
    /// Indices of tracks that have something; rotated, so that none is always last.
    active: Vec<usize>,
    requests: HashMap<u64, Request>,
    /// Requests on their way, by broker.
    in_flight: BTreeMap<NodeId, usize>,
    next_request: u64,
    identity: Option<Identity>,
    /// Tracks whose batches get new numbers with the next epoch.
    to_renumber: Vec<usize>,
    fatal: Option<Failure>,
    next_expiry: Option<Instant>,
    reports: Vec<Report<T>>,
    refresh: bool,
}

impl<T> Dispatch<T> {
    /// Sends what `accumulator` collects.
    #[must_use]
    pub fn new(
        settings: Settings,
        accumulator: Arc<Accumulator<T>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            settings,
            accumulator,
            metrics,
            tracks: Vec::new(),
            active: Vec::new(),
            requests: HashMap::new(),
            in_flight: BTreeMap::new(),
            next_request: 0,
            identity: None,
            to_renumber: Vec::new(),
            fatal: None,
            next_expiry: None,
            reports: Vec::new(),
            refresh: false,
        }
    }

    /// What became known since this was asked last.
    pub fn take_reports(&mut self) -> Vec<Report<T>> {
        std::mem::take(&mut self.reports)
    }

    /// Whether the metadata should be asked for again; asking forgets it.
    pub fn take_refresh(&mut self) -> bool {
        std::mem::take(&mut self.refresh)
    }

    /// Requests on their way to `node`.
    #[must_use]
    pub fn in_flight(&self, node: NodeId) -> usize {
        self.in_flight.get(&node).copied().unwrap_or(0)
    }

    /// Brokers that have as many requests as allowed.
    #[must_use]
    pub fn full_nodes(&self) -> usize {
        self.in_flight.values().filter(|count| **count >= self.settings.max_in_flight).count()
    }

    /// Takes notice of queues that got something.
    fn absorb(&mut self) {
        for queue in self.accumulator.take_roused() {
            let index = queue.index();
            while self.tracks.len() <= index {
                // Filled below, or when its own queue is roused: indices have no gaps for long.
                self.tracks.push(Track::new(Arc::clone(&queue)));
            }
            let track = &mut self.tracks[index];
            if track.queue.index() != index {
                *track = Track::new(queue);
            }
            if !std::mem::replace(&mut track.active, true) {
                self.active.push(index);
            }
        }
    }

    /// Decides what to send at `now`.
    ///
    /// `leader` tells who leads a partition, `room` whether a broker can be sent to.
    pub fn plan(
        &mut self,
        now: Instant,
        leader: impl Fn(&str, i32) -> Option<Leader>,
        room: impl Fn(NodeId) -> Room,
    ) -> Plan {
        let mut plan = Plan::default();
        self.absorb();
        self.fail_retired();
        self.expire(now);
        if let Some(fatal) = self.fatal.clone() {
            self.accumulator.fail(&fatal);
            self.fail_all(&fatal);
            return plan;
        }
        self.resolve();
        self.look_for_silence(now, &leader, &mut plan);
        if self.settings.idempotent && self.identity.is_none() {
            plan.wants_identity = !self.active.is_empty();
            plan.wake_at = earlier(plan.wake_at, self.next_expiry);
            return plan;
        }
        let at_once = self.accumulator.at_once();
        for (node, tracks) in self.ready(now, at_once, leader, &mut plan) {
            match room(node) {
                Room::Free => self.fill(now, at_once, node, &tracks, &mut plan),
                Room::Later(time) => plan.wake_at = earlier(plan.wake_at, Some(time)),
                Room::Absent => plan.absent.push(node),
            }
        }
        plan.wake_at = earlier(plan.wake_at, plan.linger_at);
        plan.wake_at = earlier(plan.wake_at, self.next_expiry);
        plan
    }

    /// The tracks that can send something now, by the leader of their partition.
    fn ready(
        &mut self,
        now: Instant,
        at_once: bool,
        leader: impl Fn(&str, i32) -> Option<Leader>,
        plan: &mut Plan,
    ) -> BTreeMap<NodeId, Vec<(usize, Leader)>> {
        let mut ready: BTreeMap<NodeId, Vec<(usize, Leader)>> = BTreeMap::new();
        if self.active.len() > 1 {
            self.active.rotate_left(1);
        }
        let (tracks, settings, identity) = (&mut self.tracks, &self.settings, self.identity);
        self.active.retain(|index| {
            let track = &mut tracks[*index];
            let known = leader(track.queue.topic(), track.queue.partition());
            if let Some(leader) = known {
                track.leader_is(leader);
            }
            match track.next(now, at_once, settings, identity) {
                Next::Ready => match known {
                    Some(leader) => ready.entry(leader.node).or_default().push((*index, leader)),
                    None => plan.leaderless.push(Arc::clone(track.queue.topic())),
                },
                Next::Lingers(time) => plan.linger_at = earlier(plan.linger_at, Some(time)),
                Next::At(time) => plan.wake_at = earlier(plan.wake_at, Some(time)),
                Next::Answers => {}
                Next::Idle => {
                    track.active = false;
                    return false;
                }
            }
            true
        });
        ready
    }

    /// Fills requests to `node` for as long as there is something to send and room for a request.
    fn fill(
        &mut self,
        now: Instant,
        at_once: bool,
        node: NodeId,
        tracks: &[(usize, Leader)],
        plan: &mut Plan,
    ) {
        let mut first = true;
        loop {
            if self.in_flight(node) >= self.settings.max_in_flight {
                plan.saturated = true;
                return;
            }
            let mut batches = Vec::new();
            let mut size = 0;
            for (index, leader) in tracks {
                let track = &self.tracks[*index];
                let is_ready =
                    first || track.next(now, at_once, &self.settings, self.identity) == Next::Ready;
                let fits = size == 0 || size + track.next_size() <= self.settings.max_request_size;
                if !is_ready || !fits {
                    continue;
                }
                if let Some(batch) = self.pack(now, at_once, *index, *leader) {
                    size += batch.bytes.len();
                    batches.push(batch);
                }
            }
            first = false;
            if batches.is_empty() {
                return;
            }
            let sent = batches.iter().map(|p| (p.track, p.order, p.leader)).collect();
            let id = self.next_request;
            self.next_request += 1;
            let silence = Silence::since(now);
            plan.wake_at = earlier(plan.wake_at, Some(silence.next()));
            self.requests.insert(id, Request { node, sent, silence });
            *self.in_flight.entry(node).or_default() += 1;
            plan.requests.push(Outgoing { id, node, batches });
        }
    }

    /// Takes the next batch of a track and puts it on its way.
    fn pack(
        &mut self,
        now: Instant,
        at_once: bool,
        index: usize,
        leader: Leader,
    ) -> Option<ProduceBatch> {
        let request = self.next_request;
        let track = &mut self.tracks[index];
        let mut batch = track.take(now, at_once, &self.settings, self.identity)?;
        let (codec, level) = (self.settings.codec, self.settings.level);
        let batch_size = self.accumulator.settings().batch_size;
        let (before, attempts) = (batch.size(), batch.attempts);
        match batch.to_send(codec, level, self.accumulator.memory(), batch_size) {
            Ok(bytes) => {
                if attempts == 0 {
                    self.metrics.batch_sent(bytes.len(), before);
                }
                let (topic, partition) = (Arc::clone(track.queue.topic()), track.queue.partition());
                let order = batch.order();
                track.in_flight.push(InFlightBatch { request, batch });
                Some(ProduceBatch { topic, partition, bytes, leader, track: index, order })
            }
            Err(error) => {
                self.give_up(index, batch, &Arc::new(error));
                None
            }
        }
    }

    /// Updates the chance of each partition of the topics that were sent to, from the lengths of
    /// queues. `writable` says whether a partition's leader can be sent to.
    pub fn update_loads(&self, writable: impl Fn(&str, i32) -> bool) {
        for topic in self.accumulator.topics() {
            let queues = topic.queues();
            if queues.len() < 2 {
                continue;
            }
            let loads: Vec<_> = queues
                .iter()
                .filter(|queue| writable(topic.name(), queue.partition()))
                .map(|queue| (queue.partition() as u32, queue.load()))
                .collect();
            topic.sticky().set_loads(Loads::from_queues(&loads, queues.len() as u32));
        }
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
