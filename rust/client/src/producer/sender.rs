//! The sender: takes batches out of the accumulator and brings them to the leaders of partitions.
//!
//! `dispatch` decides, without socket and clock: what leaves in which request, and what an answer
//! means for a batch. `track` is one partition of it. The task here is the shell: it asks the
//! dispatch, writes requests, waits for answers, connections, metadata and the next time to look.
//! It sleeps while there is nothing to do, and is woken only for what it can act on. The dispatch
//! is behind a lock, in `outbox`: the thread that closes a producer fails what is left.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_connection::{Backoff, Cluster, Connection, NodeId, Wanted};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::init_producer_id::InitProducerIdRequest;
use tokio::sync::{mpsc, watch};

use crate::config::ProducerConfig;
use crate::error::ClientError;
use crate::producer::accumulator::{Accumulator, Sink, Wants};
use crate::producer::idempotence::Identity;
use dispatch::{Answer, Plan};

pub mod dispatch;
mod metrics;
mod outbox;
mod request;
mod track;

pub use metrics::Metrics;
pub(crate) use outbox::Outbox;

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
            retry_backoff: config.client.connection.retry_backoff,
            delivery_timeout: config.delivery_timeout,
            codec: config.compression.codec,
            level: config.compression.level,
        }
    }
}

/// Interval between updates of the partitions' chances.
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
    outbox: Arc<Outbox<T>>,
    stop: Arc<Stop>,
    tell: mpsc::UnboundedSender<Event>,
    told: mpsc::UnboundedReceiver<Event>,
    images: watch::Receiver<u64>,
    connecting: HashSet<NodeId>,
    /// Since when brokers that are sent to have no connection.
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
        let (brokers, waiting) = (cluster.clone(), Arc::clone(&accumulator));
        let outbox = Outbox::new(config.clone(), brokers, waiting, sink, metrics, tell.clone());
        Self {
            images: cluster.images(),
            cluster,
            config,
            accumulator,
            outbox,
            stop,
            tell,
            told,
            connecting: HashSet::new(),
            unavailable: HashMap::new(),
            identifying: false,
            refreshing: false,
            loads_at: None,
        }
    }

    /// What fails the rest when the sender does not.
    pub(crate) fn outbox(&self) -> Arc<Outbox<T>> {
        Arc::clone(&self.outbox)
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
            self.outbox.report();
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
    }

    fn is_over(&self) -> bool {
        self.stop.0.load(Ordering::SeqCst)
            || (self.accumulator.is_closed() && self.accumulator.is_idle())
    }

    /// What wakes the sender. Nothing, if every broker has all it may have. Only full batches, if a
    /// timer runs for the others, because later records linger longer.
    fn wants(&self, plan: &Plan) -> Wants {
        let full = self.outbox.lock().dispatch.full_nodes();
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
        let mut state = self.outbox.lock();
        let plan = self.outbox.send_all(&mut state, now);
        let wants_refresh = plan.leaderless.is_empty() && state.dispatch.take_refresh();
        drop(state);
        plan.silent.iter().for_each(|node| self.cluster.suspect(*node));
        for node in &plan.absent {
            self.unavailable.entry(*node).or_insert(now);
            self.connect(*node);
        }
        if plan.wants_identity {
            self.identify();
        }
        if !plan.leaderless.is_empty() {
            self.look_for_leaders(&plan);
        } else if wants_refresh || !plan.silent.is_empty() {
            self.cluster.request_refresh();
        }
        self.update_loads(now);
        plan
    }

    fn take(&mut self, event: Event) {
        let mut state = self.outbox.lock();
        match event {
            Event::Answered(id, answers) => {
                state.dispatch.answered(id, answers, Instant::now());
            }
            Event::Left(id) => state.dispatch.left(id),
            Event::Failed(id, error) => state.dispatch.failed(id, error, Instant::now()),
            Event::Throttled(node, wait) => state.throttle(node, Instant::now() + wait),
            Event::Connected(node, result) => {
                self.connecting.remove(&node);
                match result {
                    Ok(connection) => {
                        self.unavailable.remove(&node);
                        state.connected(node, connection);
                    }
                    Err(error) => tracing::debug!(node, %error, "no connection to a broker"),
                }
            }
            Event::Identified(Ok(identity)) => {
                self.identifying = false;
                state.dispatch.identified(identity);
            }
            Event::Identified(Err(error)) => {
                self.identifying = false;
                state.dispatch.fail_finally(error);
            }
            Event::Refreshed => self.refreshing = false,
        }
    }

    /// Connects to a broker, unless that is under way. Waiting between attempts is the pool's.
    fn connect(&mut self, node: NodeId) {
        if !self.connecting.insert(node) {
            return;
        }
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        tokio::spawn(async move {
            let connection = cluster.connection(node).await.map_err(ClientError::from);
            let _ = tell.send(Event::Connected(node, connection));
        });
    }

    /// Asks any broker for a producer id, until one gives it or refuses finally.
    fn identify(&mut self) {
        if std::mem::replace(&mut self.identifying, true) {
            return;
        }
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        let backoff = self.config.client.connection.retry_backoff;
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

    /// Asks for the topics that have records to send and no leader to send them to.
    fn look_for_leaders(&mut self, plan: &Plan) {
        if std::mem::replace(&mut self.refreshing, true) {
            return;
        }
        // Sending to a topic names it: Kafka's producers create what they send to.
        self.cluster.named(plan.leaderless.iter().map(|name| &**name));
        let names = plan.leaderless.iter().map(ToString::to_string).collect();
        let (tell, cluster) = (self.tell.clone(), self.cluster.clone());
        tokio::spawn(async move {
            let _ = cluster.refresh(Wanted::Topics(names)).await;
            let _ = tell.send(Event::Refreshed);
        });
    }

    /// Topics may have got more partitions, or were made again with fewer.
    fn learn_partitions(&mut self) {
        let image = self.cluster.image();
        for topic in self.accumulator.topics() {
            if let Some(known) = image.topic(topic.name()) {
                self.accumulator.follow(topic.name(), known.id, known.partitions.len() as u32);
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
        self.outbox.lock().dispatch.update_loads(|topic, partition| {
            let Some((node, _)) = image.leader(topic, partition) else { return false };
            let since = self.unavailable.get(&node);
            patience.is_zero() || since.is_none_or(|since| now < *since + patience)
        });
    }
}

impl<T> Drop for Sender<T> {
    /// In every end, for example of its runtime or by a panic, waiting callers get an answer.
    fn drop(&mut self) {
        self.outbox.end();
    }
}

async fn ask_identity(cluster: &Cluster) -> Result<Identity, ClientError> {
    let request = |_version| InitProducerIdRequest {
        // An empty one would be a transactional producer's.
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..InitProducerIdRequest::default()
    };
    let (_, response) = cluster.send_to_some(request).await?;
    ClientError::check(response.error_code, None, || "InitProducerId".to_owned())?;
    Ok(Identity { producer_id: response.producer_id, epoch: response.producer_epoch })
}
