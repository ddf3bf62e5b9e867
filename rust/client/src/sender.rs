//! The sender: takes batches out of the accumulator and brings them to the leaders of partitions.
//!
//! `dispatch` decides, without socket and clock: what leaves in which request, and what an answer
//! means for a batch. `track` is one partition of it. The task here is the shell: it asks the
//! dispatch, writes requests, waits for answers, connections, metadata and the next time to look.
//! It sleeps while there is nothing to do, and is woken only for what it can act on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::init_producer_id::InitProducerIdRequest;
use kafkalite_protocol::messages::produce::ProduceRequest;
use tokio::sync::{mpsc, watch};

use crate::accumulator::{Accumulator, Sink, Wants};
use crate::backoff::Backoff;
use crate::cluster::{Cluster, NodeId, Wanted};
use crate::config::{Acks, ProducerConfig};
use crate::connection::Connection;
use crate::error::ClientError;
use crate::idempotence::Identity;
use dispatch::{Answer, Dispatch, Leader, Outgoing, Plan, Room};
use request::Manifest;

pub mod dispatch;
mod metrics;
mod request;
mod track;

pub use metrics::Metrics;

/// What of a producer's configuration concerns the sender.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// `linger.ms`.
    pub linger: Duration,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `max.request.size`, in bytes.
    pub max_request_size: usize,
    /// `retries`.
    pub retries: usize,
    /// `retry.backoff.ms` and its maximum.
    pub retry_backoff: Backoff,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Duration,
    /// `compression.type`.
    pub codec: Codec,
    /// Its level, where it was chosen.
    pub level: Option<i32>,
}

impl Settings {
    /// What `config` says.
    #[must_use]
    pub fn of(config: &ProducerConfig) -> Self {
        Self {
            idempotent: config.idempotent,
            linger: config.linger,
            max_in_flight: config.max_in_flight,
            max_request_size: config.max_request_size,
            retries: config.retries,
            retry_backoff: config.client.retry_backoff,
            delivery_timeout: config.delivery_timeout,
            codec: config.compression.codec,
            level: config.compression.level,
        }
    }
}

/// How often the chances of partitions are looked at anew.
const LOADS_INTERVAL: Duration = Duration::from_millis(20);

/// What the tasks that wait for brokers tell the sender.
enum Event {
    Answered(u64, Vec<Option<Answer>>),
    Left(u64),
    Failed(u64, ClientError),
    Connected(NodeId, Result<Arc<Connection>, ClientError>),
    Throttled(NodeId, Duration),
    Identified(Result<Identity, ClientError>),
    Refreshed,
}

/// Tells a sender to stop without waiting for what is on its way.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Fails everything that is left, at the sender's next turn; nudge the accumulator.
    pub(crate) fn now(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The task.
pub(crate) struct Sender<T> {
    cluster: Cluster,
    config: ProducerConfig,
    accumulator: Arc<Accumulator<T>>,
    dispatch: Dispatch<T>,
    sink: Arc<dyn Sink<T>>,
    stop: Arc<Stop>,
    metrics: Arc<Metrics>,
    tell: mpsc::UnboundedSender<Event>,
    told: mpsc::UnboundedReceiver<Event>,
    images: watch::Receiver<u64>,
    connections: HashMap<NodeId, Arc<Connection>>,
    connecting: HashSet<NodeId>,
    throttled: HashMap<NodeId, Instant>,
    /// Since when brokers have not taken what they could have.
    unavailable: HashMap<NodeId, Instant>,
    identifying: bool,
    refreshing: bool,
    loads_at: Option<Instant>,
}

impl<T: Send + 'static> Sender<T> {
    pub(crate) fn new(
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Arc<Accumulator<T>>,
        sink: Arc<dyn Sink<T>>,
        stop: Arc<Stop>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let settings = Settings::of(&config);
        Self {
            images: cluster.images(),
            dispatch: Dispatch::new(settings, Arc::clone(&accumulator), Arc::clone(&metrics)),
            cluster,
            config,
            accumulator,
            sink,
            stop,
            metrics,
            tell,
            told,
            connections: HashMap::new(),
            connecting: HashSet::new(),
            throttled: HashMap::new(),
            unavailable: HashMap::new(),
            identifying: false,
            refreshing: false,
            loads_at: None,
        }
    }

    /// Runs until the producer is closed and everything is delivered or failed, or it is stopped.
    pub(crate) async fn run(mut self) {
        loop {
            let events = self.accumulator.events();
            while let Ok(event) = self.told.try_recv() {
                self.take(event);
            }
            let now = Instant::now();
            let plan = self.turn(now);
            self.report();
            if self.is_over() {
                break;
            }
            let wants = self.wants(&plan);
            let wake_at = plan.wake_at.map(tokio::time::Instant::from_std);
            let timer = async {
                match wake_at {
                    Some(time) => tokio::time::sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(event) = self.told.recv() => self.take(event),
                () = self.accumulator.sleep(wants, events) => {}
                Ok(()) = self.images.changed() => self.learn_partitions(),
                () = timer => {}
            }
            self.accumulator.awake();
        }
        let closed = ClientError::Closed { what: "the producer".to_owned() };
        self.dispatch.end(closed);
        self.report();
    }

    fn is_over(&self) -> bool {
        self.stop.0.load(Ordering::SeqCst)
            || (self.accumulator.is_closed() && self.accumulator.is_idle())
    }

    /// What to be woken for: nothing where every broker has all it may have; only full batches
    /// where a timer runs for the others, as what comes later lingers longer.
    fn wants(&self, plan: &Plan) -> Wants {
        let full = self.dispatch.full_nodes();
        if plan.saturated && full >= self.cluster.image().brokers().count() {
            Wants::Nothing
        } else if plan.linger_at.is_some() {
            Wants::Filled
        } else {
            Wants::Anything
        }
    }

    /// One look at everything: sends what can be sent.
    fn turn(&mut self, now: Instant) -> Plan {
        let image = self.cluster.image();
        let leader = |topic: &str, partition: i32| {
            let (node, epoch) = image.leader(topic, partition)?;
            Some(Leader { node, epoch: epoch.0 })
        };
        self.connections.retain(|_, connection| !connection.is_closed());
        self.throttled.retain(|_, until| *until > now);
        let (connections, throttled) = (&self.connections, &self.throttled);
        let room = |node: NodeId| match throttled.get(&node) {
            Some(until) => Room::Later(*until),
            None if connections.contains_key(&node) => Room::Free,
            None => Room::Absent,
        };
        let mut plan = self.dispatch.plan(now, leader, room);
        for outgoing in plan.requests.drain(..) {
            self.unavailable.remove(&outgoing.node);
            self.send(outgoing);
        }
        for node in &plan.absent {
            self.unavailable.entry(*node).or_insert(now);
            self.connect(*node);
        }
        if plan.wants_identity {
            self.identify();
        }
        if !plan.leaderless.is_empty() {
            self.look_for_leaders(&plan);
        } else if self.dispatch.take_refresh() {
            self.cluster.request_refresh();
        }
        self.update_loads(now);
        plan
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Answered(id, answers) => self.dispatch.answered(id, answers, Instant::now()),
            Event::Left(id) => self.dispatch.left(id),
            Event::Failed(id, error) => self.dispatch.failed(id, error, Instant::now()),
            Event::Throttled(node, wait) => {
                self.throttled.insert(node, Instant::now() + wait);
            }
            Event::Connected(node, result) => {
                self.connecting.remove(&node);
                match result {
                    Ok(connection) => {
                        self.connections.insert(node, connection);
                    }
                    Err(error) => tracing::debug!(node, %error, "no connection to a broker"),
                }
            }
            Event::Identified(Ok(identity)) => {
                self.identifying = false;
                self.dispatch.identified(identity);
            }
            Event::Identified(Err(error)) => {
                self.identifying = false;
                self.dispatch.fail_for_good(error);
            }
            Event::Refreshed => self.refreshing = false,
        }
    }

    fn report(&mut self) {
        let reports = self.dispatch.take_reports();
        if !reports.is_empty() {
            self.sink.reports(reports);
        }
    }

    /// Writes a request; its answer comes as an event.
    fn send(&mut self, outgoing: Outgoing) {
        let (id, node) = (outgoing.id, outgoing.node);
        let tell = self.tell.clone();
        let Some(connection) = self.connections.get(&node) else {
            let why = "it ended before the request was sent".to_owned();
            let address = format!("broker {node}");
            let _ = tell.send(Event::Failed(id, ClientError::Disconnected { address, why }));
            return;
        };
        let manifest = Manifest::new(&outgoing, &self.cluster.image());
        let acks = self.config.acks;
        let request_timeout = self.config.client.request_timeout;
        let timeout_ms = i32::try_from(request_timeout.as_millis()).unwrap_or(i32::MAX);
        let newest = manifest.newest_version();
        let build = |_version| manifest.request(outgoing, acks.code(), timeout_ms);
        self.metrics.request_began();
        if acks == Acks::None {
            let sent = connection.send_unanswered::<ProduceRequest>(newest, build);
            tokio::spawn(async move {
                let _ = tell.send(match sent.await {
                    Ok(_) => Event::Left(id),
                    Err(error) => Event::Failed(id, error),
                });
            });
            return;
        }
        let began = Instant::now();
        let reply = connection.send_with::<ProduceRequest>(newest, request_timeout, build);
        let (cluster, metrics) = (self.cluster.clone(), Arc::clone(&self.metrics));
        tokio::spawn(async move {
            let result = reply.await;
            metrics.request_ended(began.elapsed());
            let event = match result {
                Ok((version, mut response)) => {
                    manifest.learn_leaders(version, &response, &cluster);
                    if let Ok(ms @ 1..) = u64::try_from(response.throttle_time_ms) {
                        let _ = tell.send(Event::Throttled(node, Duration::from_millis(ms)));
                    }
                    Event::Answered(id, manifest.answers(version, &mut response))
                }
                Err(error) => Event::Failed(id, error),
            };
            let _ = tell.send(event);
        });
    }

    /// Connects to a broker, unless that is under way. Waiting between attempts is the pool's.
    fn connect(&mut self, node: NodeId) {
        if !self.connecting.insert(node) {
            return;
        }
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        tokio::spawn(async move {
            let _ = tell.send(Event::Connected(node, cluster.connection(node).await));
        });
    }

    /// Asks any broker for a producer id, until one gives it or refuses for good.
    fn identify(&mut self) {
        if std::mem::replace(&mut self.identifying, true) {
            return;
        }
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        let backoff = self.config.client.retry_backoff;
        tokio::spawn(async move {
            let mut failures = 0;
            let result = loop {
                match ask_identity(&cluster).await {
                    Err(error) if error.retriable() || error.is_transport() => {
                        tracing::debug!(%error, "no producer id yet");
                        failures += 1;
                        tokio::time::sleep(backoff.after(failures)).await;
                    }
                    result => break result,
                }
            };
            let _ = tell.send(Event::Identified(result));
        });
    }

    /// Asks for the topics that have something to send and nobody to send it to.
    fn look_for_leaders(&mut self, plan: &Plan) {
        if std::mem::replace(&mut self.refreshing, true) {
            return;
        }
        let names = plan.leaderless.iter().map(ToString::to_string).collect();
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        tokio::spawn(async move {
            let _ = cluster.refresh(Wanted::Topics(names)).await;
            let _ = tell.send(Event::Refreshed);
        });
    }

    /// Topics may have got more partitions.
    fn learn_partitions(&mut self) {
        let image = self.cluster.image();
        for topic in self.accumulator.topics() {
            if let Some(known) = image.topic(topic.name()) {
                let count = known.partitions.len() as u32;
                if count > topic.partition_count() {
                    self.accumulator.learn(topic.name(), count);
                }
            }
        }
    }

    /// Keyless records go where queues are short, and not to brokers that take nothing.
    fn update_loads(&mut self, now: Instant) {
        if !self.config.adaptive_partitioning
            || self.loads_at.is_some_and(|at| now < at + LOADS_INTERVAL)
        {
            return;
        }
        self.loads_at = Some(now);
        let image = self.cluster.image();
        let patience = self.config.partitioner_availability_timeout;
        self.dispatch.update_loads(|topic, partition| {
            let Some((node, _)) = image.leader(topic, partition) else { return false };
            let since = self.unavailable.get(&node);
            patience.is_zero() || since.is_none_or(|since| now < *since + patience)
        });
    }
}

async fn ask_identity(cluster: &Cluster) -> Result<Identity, ClientError> {
    let request = |_version| InitProducerIdRequest {
        // An empty one would be a transactional producer's.
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..InitProducerIdRequest::default()
    };
    let (_, response) = cluster.send_any(request).await?;
    ClientError::check(response.error_code, None, || "InitProducerId".to_owned())?;
    Ok(Identity { producer_id: response.producer_id, epoch: response.producer_epoch })
}
