//! Test control: faults on purpose, for people who test their clients against this broker.
//!
//! | file | content |
//! |---|---|
//! | `spec`, `trigger` | what a fault is and when it strikes; pure |
//! | `fault`, `held` | faults in force, and the requests and answers that they hold back |
//! | `faulted`, `api`, `data_apis`, `offset_apis`, `admin_apis` | what faults know of each API |
//! | `intercept` | the way of a request through the faults, and of its answer back |
//! | `moves` | leaders and coordinators that move |
//! | `disk`, `clock` | the file system and the clock of a broker under test |
//! | `snapshots`, `forks` | copies of all that the broker keeps, and second brokers on them |
//! | `given_ids` | producer ids that a reset does not give out again |
//! | `noting`, `told`, `seen` | what is noted of each request, answer and connection |
//! | `recordings` | the requests of a test run |
//! | `explain`, `waits`, `errors_told`, `words` | why a client is stuck |
//! | `commanding` | commands that wait while the broker stops |
//! | `life` | which life of the broker a fault or a recording is of |
//! | `commands` | all of it as JSON, for the admin API and Python |
//!
//! Only a broker with `kafkalite.test.control=true` has it. The closure that runs requests
//! (`broker.rs`) gives each of them to [`TestControl::run`]. While there are no faults it notes the
//! request, and goes the usual way. Faults end with the broker's stop. ADRs 0077 and 0150.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use kafkalite_log::storage::Storage;
use parking_lot::Mutex;

use crate::clock::{Clock, MovedClock};
use crate::handlers::Rooms;
use crate::purgatory::Timer;
use disk::{DiskFaults, TestedStorage};
use explain::Connections;
use fault::Fault;
pub use forks::{Forked, StartFork};
use held::{Held, Holding};
pub use recordings::Page;
use recordings::Recordings;
pub use refusal::Refused;
use spec::{Kind, Stage};

mod admin_apis;
mod api;
mod clock;
mod commanding;
mod commands;
mod data_apis;
mod disk;
mod errors_told;
mod explain;
mod fault;
mod faulted;
mod forks;
mod given_ids;
mod held;
mod intercept;
mod life;
mod moves;
mod noting;
mod offset_apis;
mod over;
mod parts;
mod recordings;
mod refusal;
mod seen;
mod snapshots;
mod spec;
#[cfg(test)]
mod tests;
mod told;
mod trigger;
mod waits;
mod words;

/// Faults in force at the same time, at most.
const MOST_FAULTS: usize = 1_000;

/// What does the chores of the log manager that are due at a wall time.
pub type DoDue = Box<dyn Fn(i64) + Send + Sync>;

/// The faults and the clock of one broker.
pub struct TestControl {
    clock: Arc<MovedClock>,
    commands: commanding::Commands,
    /// One move of the clock at a time.
    moving: Mutex<()>,
    do_due: OnceLock<DoDue>,
    /// One change of the snapshots at a time.
    copying: Mutex<()>,
    last_snapshot: AtomicU64,
    start_fork: OnceLock<StartFork>,
    forks: Mutex<Vec<forks::Fork>>,
    faults: ArcSwap<Vec<Arc<Fault>>>,
    /// One change of the list at a time.
    changing: Mutex<()>,
    is_armed: AtomicBool,
    life: life::Life,
    next_id: AtomicU64,
    holding: Holding,
    next_request: AtomicU64,
    recordings: Recordings,
    connections: OnceLock<Connections>,
    disk: Arc<DiskFaults>,
    /// Weak: the rooms' queue leads to this.
    behind: OnceLock<(Weak<Rooms>, Weak<Timer>)>,
}

impl TestControl {
    /// Test control without a fault, of a broker on `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::new(MovedClock::new(clock)),
            commands: commanding::Commands::default(),
            moving: Mutex::default(),
            do_due: OnceLock::new(),
            copying: Mutex::default(),
            last_snapshot: AtomicU64::new(0),
            start_fork: OnceLock::new(),
            forks: Mutex::default(),
            faults: ArcSwap::default(),
            changing: Mutex::default(),
            is_armed: AtomicBool::new(false),
            life: life::Life::new(),
            next_id: AtomicU64::new(0),
            holding: Holding::default(),
            next_request: AtomicU64::new(0),
            recordings: Recordings::default(),
            connections: OnceLock::new(),
            disk: Arc::default(),
            behind: OnceLock::new(),
        })
    }

    /// The clock of the broker.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// The log manager is there: `do_due` does what depends on wall time.
    pub fn open_logs(&self, do_due: impl Fn(i64) + Send + Sync + 'static) {
        self.do_due.get_or_init(|| Box::new(do_due));
    }

    /// The file system of the broker: `inner`, with faults.
    pub fn storage(&self, inner: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(TestedStorage { inner, faults: Arc::clone(&self.disk) })
    }

    /// The rooms are there.
    pub fn open(&self, rooms: &Arc<Rooms>, timer: &Arc<Timer>) {
        self.behind.get_or_init(|| (Arc::downgrade(rooms), Arc::downgrade(timer)));
        given_ids::keep(rooms);
    }

    /// Whether a request has to take the way through the faults.
    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Acquire)
    }

    fn rooms(&self) -> Option<Arc<Rooms>> {
        self.behind.get()?.0.upgrade()
    }

    /// Runs a task once `ms` have passed; `false`: the broker has stopped.
    fn after(&self, ms: u64, task: Box<dyn FnOnce() + Send>) -> bool {
        let timer = self.behind.get().and_then(|(_, timer)| timer.upgrade());
        timer.map(|timer| timer.schedule(ms, task)).is_some()
    }

    fn add(&self, checked: spec::Checked) -> Result<Arc<Fault>, Refused> {
        let _changing = self.changing.lock();
        if self.commands.are_over() {
            // Nothing would end it.
            return Err(Refused::not_running());
        }
        let mut all = self.faults.load_full().to_vec();
        if all.len() >= MOST_FAULTS {
            // Moves of leaders add errors that programs seldom remove. A spent one does no more.
            all.retain(|fault| fault.checked.spec.kind != Kind::Error || !fault.is_spent());
        }
        if all.len() >= MOST_FAULTS {
            let why = format!("there are {MOST_FAULTS} faults already");
            return Err(Refused::bad("the fault is refused", why, "remove some of them."));
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = Fault::new(id, checked);
        if fault.checked.spec.stage == Some(Stage::IoThreads) {
            self.stop_io_threads(&fault);
        }
        all.push(Arc::clone(&fault));
        self.put(all);
        Ok(fault)
    }

    fn put(&self, faults: Vec<Arc<Fault>>) {
        self.disk.follow(&faults);
        if !faults.is_empty() {
            self.is_armed.store(true, Ordering::Release);
        }
        let is_idle = faults.is_empty();
        self.faults.store(Arc::new(faults));
        // What is still held keeps later requests of its connection behind it.
        if is_idle && self.holding.is_empty() {
            self.is_armed.store(false, Ordering::Release);
        }
    }

    fn stop_io_threads(&self, fault: &Arc<Fault>) {
        let Some(rooms) = self.rooms() else { return };
        // One more than there are threads: while it waits in the queue, no network thread finds
        // that empty and runs a request itself.
        for _ in 0..=rooms.config().num_io_threads {
            let fault = Arc::clone(fault);
            rooms.requests.execute(Box::new(move || {
                fault.fires();
                fault.stand_still(None);
            }));
        }
    }

    /// How many requests wait before their handlers for a fault, and how many answers after them.
    pub fn held(&self) -> (usize, usize) {
        self.holding.counts()
    }

    /// Removes the faults that `is_meant` names; how many there were. What they held goes on.
    fn remove(self: &Arc<Self>, is_meant: impl Fn(&Fault) -> bool) -> usize {
        let _changing = self.changing.lock();
        let before = self.faults.load_full();
        let (gone, rest): (Vec<_>, Vec<_>) =
            before.iter().cloned().partition(|fault| is_meant(fault));
        gone.iter().for_each(|fault| fault.end());
        let held: Vec<_> = gone.iter().flat_map(|fault| self.holding.take_of(fault.id)).collect();
        self.release_all(held);
        self.put(rest);
        gone.len()
    }

    /// On an I/O thread: a request that goes on is run there.
    fn release_all(self: &Arc<Self>, held: Vec<(u64, Held)>) {
        let Some(rooms) = self.rooms() else { return };
        for (fault, held) in held {
            let control = Arc::clone(self);
            rooms.requests.execute(Box::new(move || control.release(fault, held)));
        }
    }

    /// The broker stops: forks and faults end, and what they hold is let go. Connections that wait
    /// close. No command begins any longer; one that waited for a fault goes on, and fails.
    pub fn stop(&self) {
        self.commands.end();
        self.end_forks();
        let _changing = self.changing.lock();
        self.faults.load().iter().for_each(|fault| fault.end());
        drop(self.holding.end());
        self.put(Vec::new());
        self.recordings.clear();
    }
}
