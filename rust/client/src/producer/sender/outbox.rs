//! What the sender shares with threads that fill batches: the dispatch, and connections.
//!
//! Whoever holds the lock drains: the sender all there is, a thread that filled a batch only that
//! batch's queue. Requests are queued on their connection under the lock, so they leave in the
//! order in which the dispatch numbered their batches, whoever writes them. The sender waits for
//! the lock; other threads do not: what they find taken, the sender sends. Where answers come
//! quickly, as from a broker on this machine, such a thread also waits for a place in flight, and
//! the sender leaves the queue to it meanwhile (ADR 0137).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_connection::{Cluster, Connection, ConnectionError, NodeId};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::produce::{ProduceRequest, ProduceResponse};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::dispatch::{Dispatch, Leader, Outgoing, PATIENCE, Plan, Room};
use super::request::Manifest;
use super::{Event, Metrics, Settings};
use crate::config::{Acks, ProducerConfig};
use crate::error::ClientError;
use crate::producer::accumulator::{Accumulator, PartitionQueue, Sink};

/// Answers that take longer are not waited for: with five requests in flight a place is free every
/// fifth of it.
const QUICK: Duration = Duration::from_millis(10);

/// See the module.
pub(crate) struct Outbox<T> {
    cluster: Cluster,
    acks: Acks,
    request_timeout: Duration,
    /// Whether other threads than the sender send.
    is_shared: bool,
    /// Batches of at least so many bytes: of smaller ones a request holds several.
    large_bytes: usize,
    sink: Arc<dyn Sink<T>>,
    metrics: Arc<Metrics>,
    tell: mpsc::UnboundedSender<Event>,
    state: Mutex<State<T>>,
    /// Requests ended.
    room: Condvar,
    /// Whether the last answer was quick.
    is_quick: Arc<AtomicBool>,
    /// How long a thread waits for a place in flight.
    patience: Duration,
    /// Answers that take longer are not waited for.
    quick: Duration,
    /// Told, under the lock, of every thread that begins to wait for a place in flight.
    #[cfg(test)]
    waiting: Option<std::sync::mpsc::Sender<()>>,
}

/// What the lock is for.
pub(super) struct State<T> {
    pub(super) dispatch: Dispatch<T>,
    connections: HashMap<NodeId, Arc<Connection>>,
    throttled: HashMap<NodeId, Instant>,
}

impl<T> State<T> {
    /// A broker asked to be left alone until `until`.
    pub(super) fn throttle(&mut self, node: NodeId, until: Instant) {
        self.throttled.insert(node, until);
    }

    /// There is a connection to a broker.
    pub(super) fn connected(&mut self, node: NodeId, connection: Arc<Connection>) {
        self.connections.insert(node, connection);
    }

    /// The connection to a broker that may be sent to now.
    fn free(&self, node: NodeId, now: Instant) -> Option<&Arc<Connection>> {
        let is_free = self.throttled.get(&node).is_none_or(|until| *until <= now);
        self.connections.get(&node).filter(|open| is_free && !open.is_closed())
    }
}

impl<T> Outbox<T> {
    /// Tells the sink what became known.
    pub(super) fn report(&self) {
        let reports = self.state.lock().dispatch.take_reports();
        if !reports.is_empty() {
            self.sink.reports(reports);
        }
    }

    /// Fails what is left, on any thread; nothing is taken any more. A second time does nothing.
    pub(crate) fn end(&self) {
        let closed = ClientError::Closed { what: "the producer".to_owned() };
        self.state.lock().dispatch.end(closed);
        self.report();
    }
}

impl<T: Send + 'static> Outbox<T> {
    pub(super) fn new(
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Arc<Accumulator<T>>,
        sink: Arc<dyn Sink<T>>,
        metrics: Arc<Metrics>,
        tell: mpsc::UnboundedSender<Event>,
    ) -> Arc<Self> {
        let settings = Settings::of(&config);
        let state = State {
            dispatch: Dispatch::new(settings, accumulator, Arc::clone(&metrics)),
            connections: HashMap::new(),
            throttled: HashMap::new(),
        };
        Arc::new(Self {
            cluster,
            acks: config.acks,
            request_timeout: config.client.connection.request_timeout,
            // A codec takes longer than a copy: two threads do both at once.
            is_shared: settings.codec == Codec::None && config.acks != Acks::None,
            large_bytes: settings.max_request_size / 2,
            sink,
            metrics,
            tell,
            state: Mutex::new(state),
            room: Condvar::new(),
            is_quick: Arc::default(),
            patience: PATIENCE,
            quick: QUICK,
            #[cfg(test)]
            waiting: None,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// Sends all that can be sent; for the sender, who acts on the rest of the plan.
    pub(super) fn send_all(&self, state: &mut State<T>, now: Instant) -> Plan {
        let image = self.cluster.image();
        let leader = |topic: &str, partition: i32| {
            let (node, epoch) = image.leader(topic, partition)?;
            Some(Leader { node, epoch: epoch.0 })
        };
        state.connections.retain(|_, connection| !connection.is_closed());
        state.throttled.retain(|_, until| *until > now);
        let (connections, throttled) = (&state.connections, &state.throttled);
        let room = |node: NodeId| match throttled.get(&node) {
            Some(until) => Room::Later(*until),
            None if connections.contains_key(&node) => Room::Free,
            None => Room::Absent,
        };
        let mut plan = state.dispatch.plan(now, leader, room);
        for outgoing in plan.requests.drain(..) {
            let node = outgoing.node;
            let connection = connections.get(&node);
            self.queue(outgoing, connection);
            if let Some(connection) = connection {
                connection.write_soon();
            }
        }
        plan
    }

    /// There may be a place in flight again.
    pub(super) fn made_room(&self) {
        self.room.notify_all();
    }

    /// Sends what `queue` has, on this thread, where its leader takes it now or soon and nobody
    /// else is at it. `false`: the sender must be told of it.
    pub(crate) fn send_filled(&self, queue: &PartitionQueue<T>) -> bool {
        if !self.is_shared || queue.closed_size().is_none_or(|size| size < self.large_bytes) {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else { return false };
        let until = Instant::now() + self.patience;
        while let Some((connection, has_queued)) = self.queue_filled(&mut state, queue) {
            if has_queued {
                // Without the lock: it copies a megabyte.
                MutexGuard::unlocked(&mut state, || connection.write_here());
            }
            let is_empty = queue.closed_size().is_none();
            if is_empty || !self.is_quick.load(Ordering::Relaxed) {
                return is_empty;
            }
            if !has_queued && !self.wait(&mut state, queue, until) {
                return false;
            }
        }
        false
    }

    /// Waits for a place in flight; `false` if there is none at `until`.
    fn wait(
        &self,
        state: &mut MutexGuard<'_, State<T>>,
        queue: &PartitionQueue<T>,
        until: Instant,
    ) -> bool {
        state.dispatch.claim(queue.index());
        #[cfg(test)]
        self.waiting.iter().for_each(|told| told.send(()).expect("the test listens"));
        let waited = self.room.wait_until(state, until);
        state.dispatch.unclaim(queue.index());
        !waited.timed_out()
    }

    /// Queues requests with what `queue` has, on the connection to its leader, and whether there
    /// were any; `None` if it cannot be sent to now. They are to be written.
    fn queue_filled(
        &self,
        state: &mut State<T>,
        queue: &PartitionQueue<T>,
    ) -> Option<(Arc<Connection>, bool)> {
        let now = Instant::now();
        let (node, epoch) = self.cluster.image().leader(queue.topic(), queue.partition())?;
        let connection = state.free(node, now).cloned()?;
        let leader = Leader { node, epoch: epoch.0 };
        let requests = state.dispatch.plan_one(now, queue.index(), leader);
        let has_queued = !requests.is_empty();
        for outgoing in requests {
            self.queue(outgoing, Some(&connection));
        }
        Some((connection, has_queued))
    }

    /// Queues a request on its connection; its answer comes as an event.
    fn queue(&self, outgoing: Outgoing, connection: Option<&Arc<Connection>>) {
        let (id, node) = (outgoing.id, outgoing.node);
        let tell = self.tell.clone();
        let Some(connection) = connection else {
            let why = "it ended before the request was sent".to_owned();
            let address = format!("broker {node}");
            let _ = tell.send(Event::Failed(id, ClientError::Disconnected { address, why }));
            return;
        };
        let manifest = Manifest::new(&outgoing, &self.cluster.image());
        let acks = self.acks;
        let timeout_ms = i32::try_from(self.request_timeout.as_millis()).unwrap_or(i32::MAX);
        let newest = manifest.newest_version();
        self.metrics.request_began();
        if acks == Acks::None {
            let build = |_version| manifest.request(outgoing, acks.code(), timeout_ms);
            let sent = connection.send_unanswered::<ProduceRequest>(newest, build);
            tokio::spawn(async move {
                let _ = tell.send(match sent.await {
                    Ok(_) => Event::Left(id),
                    Err(error) => Event::Failed(id, error.into()),
                });
            });
            return;
        }
        let began = Instant::now();
        let (cluster, metrics) = (self.cluster.clone(), Arc::clone(&self.metrics));
        let manifest = Arc::new(manifest);
        let of_request = Arc::clone(&manifest);
        let build = move |_version| of_request.request(outgoing, acks.code(), timeout_ms);
        let (is_quick, quick) = (Arc::clone(&self.is_quick), self.quick);
        let done = move |result: Result<(i16, ProduceResponse), ConnectionError>| {
            let took = began.elapsed();
            is_quick.store(took < quick, Ordering::Relaxed);
            metrics.request_ended(took);
            let event = match result {
                Ok((version, mut response)) => {
                    manifest.learn_leaders(version, &response, &cluster);
                    if let Ok(ms @ 1..) = u64::try_from(response.throttle_time_ms) {
                        let _ = tell.send(Event::Throttled(node, Duration::from_millis(ms)));
                    }
                    Event::Answered(id, manifest.answers(version, &mut response))
                }
                Err(error) => Event::Failed(id, error.into()),
            };
            let _ = tell.send(event);
        };
        connection.send_then::<ProduceRequest>(newest, self.request_timeout, build, done);
    }
}

#[cfg(test)]
mod tests;
