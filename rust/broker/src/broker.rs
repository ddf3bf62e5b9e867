//! Builds the rooms, hands each what it needs, starts and stops them; nothing else.
//!
//! Start: lock the directory, bind the listeners, open the metadata log (which raises the epochs of
//! all led partitions). Then open the logs, load the groups, and accept connections last. Stop: the
//! reverse order.
//! Source: the role of Kafka's `BrokerServer`.

use crate::admin_api::AdminApi;
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::figures::Figures;
use crate::handlers::{self, Rooms};
use crate::io_threads::IoThreads;
use crate::metadata::controller::{NewTopic, TableRules, TopicDefaults};
use crate::metrics::Metrics;
use crate::network::{Network, NetworkParts};
use crate::partitions::LogManager;
use crate::purgatory::Timer;
use crate::request_queue::{LaneBounds, Request, RequestQueue};
use crate::test_control::TestControl;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::ErrorCode;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

mod directories;
mod environment;
mod following;
mod foundation;
mod freed_memory;
mod front;
mod joining;
mod looking_in;
mod maintenance;
mod start_error;
mod stepped;

pub use environment::Environment;
use foundation::{Foundation, Threads};
use front::{Doors, Front, network_config};
use joining::Settled;
use looking_in::{admin_api, figures};
use maintenance::maintenance;
pub use start_error::StartError;
use start_error::system;
pub use stepped::SteppedBroker;

/// Requests and bytes of the control lane: small, so that it never competes with data for memory.
const CONTROL_LANE: LaneBounds = LaneBounds { max_requests: 500, max_bytes: 16 << 20 };

/// A running broker.
pub struct Broker {
    rooms: Arc<Rooms>,
    network: Network,
    io_threads: IoThreads,
    timer: Arc<Timer>,
    log_manager: LogManager,
    control: Option<Arc<TestControl>>,
    /// The metrics show them as long as they are here.
    _figures: Arc<Figures>,
    api: Arc<AdminApi>,
    broker_epoch: i64,
    stop_timeout_ms: u64,
}

impl Broker {
    /// Starts a broker on the system's clock; it serves when this returns.
    ///
    /// # Errors
    /// See [`StartError`]; nothing of it runs then.
    pub fn start(config: BrokerConfig) -> Result<Self, StartError> {
        let environment = Environment::of(&config);
        Self::start_in(config, environment)
    }

    /// Starts a broker on a clock and a file system of the caller's.
    ///
    /// # Errors
    /// See [`StartError`]; nothing of it runs then.
    pub fn start_with(
        config: BrokerConfig,
        clock: Arc<dyn Clock>,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, StartError> {
        Self::start_in(config, Environment::over(clock, storage))
    }

    /// Starts a broker in an environment of the caller's.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_in(config: BrokerConfig, environment: Environment) -> Result<Self, StartError> {
        crate::error::panics::log_them();
        let metrics = Arc::new(Metrics::remembering(config.recent_requests));
        let listeners = Network::bind(&network_config(&config))?;
        let (environment, control) = environment.under_test(&config);
        let settled = Settled::new(&config, &environment, &listeners)?;
        let opened = directories::open(&settled, &listeners, &environment)?;
        let clock = environment.clock;
        let cluster = opened.cluster.clone();
        // What was altered in an earlier life counts from the first thread on.
        let mut config = following::in_force(&settled.config, &cluster.controller().image());

        // The queue calls the rooms. The rooms hold purgatories, whose deadlines run on the queue.
        // One reference of this circle is weak, so that a stopped broker can be dropped.
        let doors = Arc::new(Doors { control: control.clone(), ..Doors::default() });
        doors.cluster.get_or_init(|| Arc::downgrade(&cluster));
        let queue = request_queue(&config, doors.clone(), clock.clone(), metrics.clone());
        queue.parked().set_max_bytes(config.memory_budget_bytes);
        let expired = queue.clone();
        let timer = Timer::start(clock.clone(), Arc::new(move |task| expired.execute(task)))
            .map_err(system("the purgatory timer"))?;
        let (on_panic, clock) = (handlers::on_panic, clock);
        let parts = NetworkParts { queue, on_panic, clock, metrics };
        let mut front = Front::Bound(listeners);
        if cluster.has_company() {
            // The voters of a cluster that starts need each other before any of them is ready.
            front = front.open(&config, &parts)?;
        }
        let directories = opened.register(config.registration_timeout_ms)?;
        config = following::in_force(&config, &cluster.controller().image());
        let NetworkParts { queue, clock, metrics, .. } = &parts;
        let (config, links) = (&config, environment.links);
        let (timer_of, threads) = (&timer, Threads::Own);
        let foundation =
            Foundation { config, clock, metrics, timer: timer_of, queue, links, threads };
        let broker_epoch = directories.broker_epoch;
        let built = Arc::new(foundation.rooms(directories)?);
        doors.open(&built, &timer);
        let intervals = maintenance(config);
        let log_manager = LogManager::start(&built.partitions, clock.clone(), intervals)
            .map_err(system("the log manager"))?;
        doors.open_logs(&log_manager);
        let figures = figures(&built, config.node_id);
        figures.show_in(metrics);
        let (network, io_threads) = front.opened(config, &parts)?;
        doors.open_network(&network);
        following::bound_connections(&built.controller, &built.config, network.limits());
        cluster.serve(broker_epoch);
        let stop_timeout_ms = config.stop_timeout_ms;
        let dirs = built.partitions.dirs().iter().map(|dir| dir.path().display().to_string());
        let data_dir = dirs.collect::<Vec<_>>().join(",");
        for (listener, address) in network.addresses() {
            tracing::info!(%listener, %address, data_dir, node_id = config.node_id, "serving");
        }
        let started_ns = built.clock.monotonic_ns();
        let api = admin_api(&built, network.connections(), control.as_ref(), started_ns);
        Ok(Self {
            api,
            rooms: built,
            network,
            io_threads,
            timer,
            log_manager,
            control,
            _figures: figures,
            broker_epoch,
            stop_timeout_ms,
        })
    }

    /// The address of each listener by name, in the order of the configuration.
    #[must_use]
    pub fn listeners(&self) -> Vec<(Arc<str>, SocketAddr)> {
        self.network.addresses().to_vec()
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.rooms.metrics
    }

    /// The rooms, for those who look in from outside: admin HTTP, tests.
    #[must_use]
    pub fn rooms(&self) -> &Arc<Rooms> {
        &self.rooms
    }

    /// Faults on purpose, if `kafkalite.test.control` asks for them.
    #[must_use]
    pub fn test_control(&self) -> Option<&Arc<TestControl>> {
        self.control.as_ref()
    }

    /// Makes the topics that are not there yet: name and partitions, or as many as `num.partitions`
    /// says.
    ///
    /// # Errors
    /// The first topic that cannot be made; those before it are there.
    pub fn create_topics(&self, topics: &[(String, Option<i32>)]) -> Result<(), StartError> {
        let rules = TableRules::new(self.rooms.config());
        let wanted = topics.iter().map(|(name, partitions)| NewTopic {
            name: name.clone(),
            num_partitions: partitions.unwrap_or(-1),
            replication_factor: -1,
            assignments: vec![],
            configs: vec![],
        });
        let wanted: Vec<NewTopic> = wanted.collect();
        let defaults = TopicDefaults::of(rules.broker());
        let controller = self.rooms.controller.blocking();
        let answers = controller.create_topics(&wanted, defaults, &rules, false);
        let refused = answers.into_iter().zip(wanted).find_map(|(answer, topic)| {
            let error = answer.err().filter(|e| e.code != ErrorCode::TopicAlreadyExists)?;
            let why = error.message.unwrap_or_else(|| error.code.name().to_owned());
            Some(StartError::Topic { name: topic.name, why })
        });
        refused.map_or(Ok(()), Err)
    }

    /// Stops: no more requests, those begun are answered within `kafkalite.stop.timeout.ms`, logs
    /// are closed cleanly.
    pub fn stop(&self) {
        // A broker that leaves must not follow the next leaders. They would wait for it as for one
        // that is about to be in sync.
        self.rooms.fetchers.stop();
        self.rooms.cluster.leave(Duration::from_millis(self.stop_timeout_ms));
        let clock = &self.rooms.clock;
        let deadline_ns =
            clock.monotonic_ns().saturating_add(self.stop_timeout_ms.saturating_mul(1_000_000));
        self.end_threads(deadline_ns);
        if let Err(error) = self.rooms.partitions.close(self.broker_epoch) {
            tracing::error!(%error, "logs are not closed cleanly; the next start checks them");
        }
        self.rooms.partitions.dirs().unlock();
        tracing::info!("stopped");
    }

    /// Ends like a crash, as far as threads can. Connections are cut with their answers unsent, and
    /// nothing is flushed or noted. The next start checks the logs.
    pub fn kill(&self) {
        self.end_threads(0);
        self.rooms.partitions.dirs().unlock();
    }

    fn end_threads(&self, deadline_ns: u64) {
        if let Some(control) = &self.control {
            control.stop();
        }
        self.network.begin_stop(deadline_ns);
        self.rooms.groups.stop();
        self.rooms.fetchers.stop();
        self.rooms.fetches.stop();
        self.network.join();
        // Produces that wait for the disk are answered while the network still runs: a client sends
        // records again when it gets no answer.
        self.rooms.produces.stop();
        self.rooms.changes.stop();
        self.rooms.cold_reads.stop();
        self.io_threads.stop();
        self.timer.stop();
        self.log_manager.stop();
        self.rooms.partitions.committer().stop();
        self.rooms.controller.stop();
        self.rooms.cluster.stop();
        if let Some(control) = &self.control {
            control.wait_for_commands();
        }
    }
}

impl Drop for Broker {
    /// What waits holds what it waits for: fetches that were never answered would keep the rooms.
    fn drop(&mut self) {
        self.end_threads(0);
    }
}

fn request_queue(
    config: &BrokerConfig,
    doors: Arc<Doors>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Arc<RequestQueue> {
    let data = LaneBounds {
        max_requests: config.queued_max_requests,
        max_bytes: config.queued_max_request_bytes.unwrap_or(usize::MAX),
    };
    let help = "Requests that could not be decoded: their connections were closed.";
    let malformed = metrics.counter("kafkalite_malformed_requests", help, vec![]);
    let run = move |request: Request| {
        let peer = request.context.peer;
        if let Err(error) = doors.run(request) {
            malformed.add(1);
            tracing::warn!(%peer, %error, "connection is closed");
        }
    };
    RequestQueue::new(CONTROL_LANE, data, Arc::new(run), handlers::policy, clock, metrics)
}
