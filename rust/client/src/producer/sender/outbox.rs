//! The dispatch and its connections, behind a lock: the sender's task sends with them, and the
//! thread that ends a producer fails what is left.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_connection::{Cluster, Connection, ConnectionError, NodeId};
use kafkalite_protocol::messages::produce::{ProduceRequest, ProduceResponse};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::dispatch::{Dispatch, Leader, Outgoing, Plan, Room};
use super::request::{self, Manifest};
use super::{Event, Metrics, Settings};
use crate::config::{Acks, ProducerConfig};
use crate::error::ClientError;
use crate::producer::accumulator::{Accumulator, Sink};

/// See the module.
pub(crate) struct Outbox<T> {
    cluster: Cluster,
    acks: Acks,
    request_timeout: Duration,
    sink: Arc<dyn Sink<T>>,
    metrics: Arc<Metrics>,
    tell: mpsc::UnboundedSender<Event>,
    state: Mutex<State<T>>,
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
            sink,
            metrics,
            tell,
            state: Mutex::new(state),
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
            let topic_id = image.topic(topic)?.id;
            Some(Leader { node, epoch: epoch.0, topic_id })
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
        for connection in plan.replaced.iter().filter_map(|node| connections.get(node)) {
            connection.close("it does not answer, and another broker leads in its place");
        }
        for outgoing in plan.requests.drain(..) {
            let node = outgoing.node;
            let connection = connections.get(&node);
            self.queue(outgoing, connection);
        }
        plan
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
        let manifest = Manifest::new(&outgoing);
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
        let done = move |result: Result<(i16, ProduceResponse), ConnectionError>| {
            let took = began.elapsed();
            metrics.request_ended(took);
            let event = match result {
                Ok((version, mut response)) => {
                    if request::is_late(&response) {
                        cluster.suspect(node);
                    }
                    manifest.learn_leaders(version, &response, &cluster);
                    if let Ok(ms @ 1..) = u64::try_from(response.throttle_time_ms) {
                        let _ = tell.send(Event::Throttled(node, Duration::from_millis(ms)));
                    }
                    Event::Answered(id, manifest.answers(version, &mut response))
                }
                Err(error) => {
                    cluster.suspect(node);
                    Event::Failed(id, error.into())
                }
            };
            let _ = tell.send(event);
        };
        connection.send_then::<ProduceRequest>(newest, self.request_timeout, build, done);
    }
}
