//! The rooms of a broker without their threads, for simulations: each step is a call.
//!
//! A simulation decides the order of all steps from a seed. Requests come in by
//! [`SteppedBroker::run`], without a socket. Followers are driven from outside, by `Fetcher` and
//! `LocalLogs`. The controller in the environment has a publisher without a thread. Compaction and
//! cold reads do not happen.

use super::foundation::{Foundation, Loads, Threads};
use super::front::Doors;
use super::joining::Settled;
use super::{Environment, StartError, directories, following, maintenance, request_queue};
use crate::config::BrokerConfig;
use crate::error::HandlerError;
use crate::handlers::{self, Rooms};
use crate::metadata::controller::Registration;
use crate::metrics::Metrics;
use crate::partitions::SteppedChores;
use crate::purgatory::Timer;
use crate::request_queue::{Request, RequestQueue, Work};
use kafkalite_log::LogError;
use parking_lot::Mutex;
use std::sync::Arc;

/// A broker that does nothing by itself.
pub struct SteppedBroker {
    rooms: Arc<Rooms>,
    queue: Arc<RequestQueue>,
    timer: Arc<Timer>,
    loads: Loads,
    chores: Mutex<SteppedChores>,
}

impl SteppedBroker {
    /// Opens the directories, has the broker registered, and builds the rooms. The environment has
    /// to bring a controller. Its image has the registration when `register` returns: rooms that
    /// followed an older one would lead what the broker led in its life before.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        config: &BrokerConfig,
        environment: Environment,
        register: impl FnOnce(&Registration),
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::remembering(0));
        let settled = Settled::new(config, &environment, &[])?;
        let opened = directories::open(&settled, &[], &environment)?;
        let clock = &environment.clock;
        let doors = Arc::new(Doors::default());
        let queue = request_queue(&settled.config, doors.clone(), clock.clone(), metrics.clone());
        queue.parked().set_max_bytes(settled.config.memory_budget_bytes);
        let timer = Timer::without_thread(clock.clone());
        register(opened.registration());
        let directories = opened.register(settled.config.registration_timeout_ms)?;
        let image = directories.cluster.controller().image();
        let config = &following::in_force(&settled.config, &image);
        let loads = Loads::default();
        let foundation = Foundation {
            config,
            clock,
            metrics: &metrics,
            timer: &timer,
            queue: &queue,
            links: None,
            threads: Threads::Stepped(loads.clone()),
        };
        let rooms = Arc::new(foundation.rooms(directories)?);
        doors.rooms.get_or_init(|| Arc::downgrade(&rooms));
        let chores = SteppedChores::new(&rooms.partitions, clock.clone(), &maintenance(config));
        Ok(Self { rooms, queue, timer, loads, chores: Mutex::new(chores) })
    }

    /// The rooms.
    #[must_use]
    pub fn rooms(&self) -> &Arc<Rooms> {
        &self.rooms
    }

    /// Runs one request to its answer, or until it waits.
    ///
    /// # Errors
    /// The request cannot be understood.
    pub fn run(&self, request: Request) -> Result<(), HandlerError> {
        handlers::run(&self.rooms, request)
    }

    /// Does what an I/O thread would do next beside requests. Whether there was anything.
    pub fn run_task(&self) -> bool {
        match self.queue.try_take() {
            Some(Work::Task(task)) => {
                task();
                true
            }
            // Connections belong to the network, and there is none.
            Some(Work::Connection(_)) => true,
            None => false,
        }
    }

    /// Runs what is due. Returns when something is due next, in ms of monotonic time.
    pub fn expire(&self) -> Option<u64> {
        self.timer.turn()
    }

    /// Flushes the logs that acknowledgements wait for.
    pub fn flush(&self) {
        let partitions = &self.rooms.partitions;
        partitions.committer().turn(|key| partitions.flush(key));
    }

    /// Reads once in the log of a coordinator that loads. Whether one does.
    pub fn load(&self) -> bool {
        let Some(mut load) = self.loads.lock().pop_front() else { return false };
        if load() {
            self.loads.lock().push_front(load);
        }
        true
    }

    /// Does one chore of the log manager, if one is due. Whether there was one.
    pub fn keep(&self) -> bool {
        self.chores.lock().turn()
    }

    /// Stops cleanly: the logs are closed in the life of this epoch.
    ///
    /// # Errors
    /// A log or a checkpoint cannot be written: the next start checks the logs.
    pub fn stop(&self, broker_epoch: i64) -> Result<(), LogError> {
        self.end();
        let closed = self.rooms.partitions.close(broker_epoch);
        self.rooms.partitions.dirs().unlock();
        closed
    }

    /// Ends like a crash: nothing is flushed or noted. The storage has to refuse everything by now.
    pub fn kill(&self) {
        self.end();
        self.rooms.partitions.dirs().unlock();
    }

    fn end(&self) {
        let rooms = &self.rooms;
        rooms.groups.stop();
        rooms.fetches.stop();
        rooms.produces.stop();
        rooms.changes.stop();
        rooms.controller.stop();
    }
}
