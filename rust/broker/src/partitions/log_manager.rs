//! Looks after the logs in the background: retention, compaction, `flush.ms`, checkpoints, deleted
//! files, followers that lag. Tries logs again that did not open, and notes of log directories.
//!
//! Threads sleep until the next of their chores is due. Those of the cleaner compact, one moves
//! replicas between log directories, and one does the rest.
//! [`Rounds`] decides when that is; it is pure. Nothing here is on the path of a request, and an
//! acknowledgement waits for none of it.
//! Source: Kafka's `LogManager` and `LogCleaner`.

use super::log_cleaner::LogCleaner;
use super::replica_manager::ReplicaManager;
use crate::clock::Clock;
use crate::error::panics;
use kafkalite_log::LogError;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

mod flush_ages;
mod rounds;

pub use flush_ages::FlushAges;
pub use rounds::{Chore, Next, Rounds};

/// How often each chore is done, in ms.
#[derive(Clone, Copy, Debug)]
pub struct Maintenance {
    /// `log.retention.check.interval.ms`
    pub retention_ms: u64,
    /// `log.cleaner.backoff.ms`
    pub cleaner_ms: u64,
    /// `log.cleaner.enable`
    pub cleaner_enabled: bool,
    /// `log.cleaner.threads`
    pub cleaner_threads: usize,
    /// Keys that fit into `log.cleaner.dedupe.buffer.size`.
    pub cleaner_max_keys: usize,
    /// `log.flush.scheduler.interval.ms`
    pub flush_ms: u64,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub recovery_points_ms: u64,
    /// `log.flush.start.offset.checkpoint.interval.ms`
    pub log_starts_ms: u64,
    /// `replica.high.watermark.checkpoint.interval.ms`
    pub high_watermarks_ms: u64,
}

/// The threads look at the clock at least this often, so that a clock moved by hand is seen.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The threads that look after the logs.
pub struct LogManager {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    partitions: Arc<ReplicaManager>,
    cleaner: Option<Arc<LogCleaner>>,
}

impl LogManager {
    /// Starts the threads: some compact, which may take long, one moves replicas, and one does
    /// everything else.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        partitions: &Arc<ReplicaManager>,
        clock: Arc<dyn Clock>,
        intervals: Maintenance,
    ) -> std::io::Result<Self> {
        let (max_keys, threads) = (intervals.cleaner_max_keys, intervals.cleaner_threads);
        let cleaner = intervals
            .cleaner_enabled
            .then(|| Arc::new(LogCleaner::new(partitions.clone(), max_keys, threads)));
        let manager = Self {
            shared: Arc::default(),
            threads: Mutex::default(),
            partitions: partitions.clone(),
            cleaner: cleaner.clone(),
        };
        let waker = manager.shared.clone();
        clock.on_advance(Box::new(move || waker.look_again()));
        let waker = manager.shared.clone();
        partitions.on_deadline(move || waker.look_again());
        // Not when the threads first run: by then the clock may have been moved.
        let start_ms = clock.monotonic_ms();
        if let Some(cleaner) = cleaner {
            for i in 0..threads {
                let (cleaner, shared) = (cleaner.clone(), manager.shared.clone());
                let rounds = Rounds::of_cleaner(&intervals, start_ms);
                let doer = Cleaning { cleaner, shared };
                manager.spawn(&format!("log-cleaner-{i}"), rounds, doer, clock.clone())?;
            }
        }
        let (partitions, flush_ages) = (partitions.clone(), FlushAges::default());
        let (rounds, moving) = (Rounds::of_mover(start_ms), Moving(partitions.clone()));
        manager.spawn("log-mover", rounds, moving, clock.clone())?;
        let rounds = Rounds::new(&intervals, start_ms);
        manager.spawn("log-manager", rounds, Keeping { partitions, flush_ages }, clock)?;
        Ok(manager)
    }

    fn spawn(
        &self,
        name: &str,
        rounds: Rounds,
        doer: impl Doer,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&shared, rounds, doer, clock.as_ref()))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// What does at once, on the caller's thread, all that depends on wall time: retention, then
    /// compaction. For tests that move the clock.
    pub fn doing_due(&self) -> impl Fn(i64) + Send + Sync + 'static {
        let (partitions, shared) = (Arc::downgrade(&self.partitions), self.shared.clone());
        let cleaner = self.cleaner.as_ref().map(Arc::downgrade);
        move |now_ms| {
            if let Some(partitions) = partitions.upgrade() {
                retain(&partitions, now_ms);
            }
            if let Some(cleaner) = cleaner.as_ref().and_then(Weak::upgrade) {
                cleaner.run_to_end(now_ms, || *shared.stopped.lock());
            }
        }
    }

    /// Ends the threads after the tasks they are at.
    pub fn stop(&self) {
        *self.shared.stopped.lock() = true;
        self.shared.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the log manager panicked");
            }
        }
    }
}

impl Drop for LogManager {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The chores of the log manager without its thread, for simulations. Nothing is compacted.
pub struct SteppedChores {
    rounds: Rounds,
    keeping: Keeping,
    clock: Arc<dyn Clock>,
}

impl SteppedChores {
    /// No chore was done yet.
    #[must_use]
    pub fn new(
        partitions: &Arc<ReplicaManager>,
        clock: Arc<dyn Clock>,
        intervals: &Maintenance,
    ) -> Self {
        let rounds = Rounds::new(intervals, clock.monotonic_ms());
        let (partitions, flush_ages) = (Arc::clone(partitions), FlushAges::default());
        Self { rounds, keeping: Keeping { partitions, flush_ages }, clock }
    }

    /// Does one chore, if one is due. Whether there was one.
    pub fn turn(&mut self) -> bool {
        let Self { rounds, keeping, clock } = self;
        match rounds.next(clock.monotonic_ms(), |chore| keeping.deadline_ms(chore)) {
            Next::Do(chore) => {
                keeping.carry_out(chore, clock.wall_ms());
                rounds.done(chore, clock.monotonic_ms());
                true
            }
            Next::SleepUntil(_) => false,
        }
    }
}

impl Shared {
    /// Wakes the threads: a task may be due by now.
    fn look_again(&self) {
        // Under the lock, or a thread could be between its look at the clock and sleep.
        let _stopped = self.stopped.lock();
        self.wake.notify_all();
    }
}

/// Carries out the chores of one thread.
trait Doer: Send + 'static {
    /// When a chore is due that has no interval, in ms of monotonic time.
    fn deadline_ms(&self, chore: Chore) -> Option<u64>;

    /// Does it; `now_ms` is wall time.
    fn carry_out(&mut self, chore: Chore, now_ms: i64);
}

/// Sleeps until the next chore is due, does it, and so on.
fn run(shared: &Shared, mut rounds: Rounds, mut doer: impl Doer, clock: &dyn Clock) {
    loop {
        let chore = {
            let mut stopped = shared.stopped.lock();
            if *stopped {
                return;
            }
            let now = clock.monotonic_ms();
            match rounds.next(now, |chore| doer.deadline_ms(chore)) {
                Next::Do(chore) => chore,
                Next::SleepUntil(next) => {
                    let sleep = Duration::from_millis(next - now).min(LONGEST_SLEEP);
                    shared.wake.wait_for(&mut stopped, sleep);
                    continue;
                }
            }
        };
        let carry_out = || doer.carry_out(chore, clock.wall_ms());
        panics::contain("a chore of the log manager", carry_out);
        rounds.done(chore, clock.monotonic_ms());
    }
}

/// What a thread of the cleaner does.
struct Cleaning {
    cleaner: Arc<LogCleaner>,
    shared: Arc<Shared>,
}

impl Doer for Cleaning {
    fn deadline_ms(&self, _: Chore) -> Option<u64> {
        None
    }

    fn carry_out(&mut self, _: Chore, now_ms: i64) {
        self.cleaner.run(now_ms, || *self.shared.stopped.lock());
    }
}

/// What the thread does that moves replicas.
struct Moving(Arc<ReplicaManager>);

impl Doer for Moving {
    fn deadline_ms(&self, _: Chore) -> Option<u64> {
        self.0.next_move_ms()
    }

    fn carry_out(&mut self, _: Chore, _: i64) {
        self.0.move_some();
    }
}

/// Everything but compaction and moves.
struct Keeping {
    partitions: Arc<ReplicaManager>,
    flush_ages: FlushAges,
}

impl Doer for Keeping {
    fn deadline_ms(&self, chore: Chore) -> Option<u64> {
        match chore {
            Chore::RemoveDeleted => self.partitions.next_removal_ms(),
            Chore::RetryUnopened => self.partitions.next_retry_ms(),
            Chore::AssignAgain => self.partitions.next_assignment_ms(),
            Chore::FlushAgain => self.partitions.next_flush_ms(),
            Chore::LookAtFollowers => self.partitions.next_isr_look_ms(),
            _ => None,
        }
    }

    fn carry_out(&mut self, chore: Chore, now_ms: i64) {
        match chore {
            Chore::Retain => retain(&self.partitions, now_ms),
            Chore::FlushOverdue => flush_overdue(&self.partitions, &mut self.flush_ages, now_ms),
            Chore::Note(which) => {
                if let Err(error) = self.partitions.checkpoint(which) {
                    tracing::error!(%error, "checkpoints are not written");
                }
            }
            Chore::ForgetTruncations => {
                if let Err(error) = self.partitions.forget_truncations() {
                    tracing::error!(%error, "notes of truncations stay");
                }
            }
            Chore::RemoveDeleted => self.partitions.remove_deleted(),
            Chore::RetryUnopened => self.partitions.retry_unopened(),
            Chore::AssignAgain => self.partitions.retry_assignments(),
            Chore::FlushAgain => self.partitions.flush_again(),
            Chore::LookAtFollowers => self.partitions.look_at_followers(),
            // These have threads of their own.
            Chore::Clean | Chore::Move => {}
        }
    }
}

fn retain(partitions: &ReplicaManager, now_ms: i64) {
    let mut moved = false;
    for partition in partitions.all() {
        match partition.retain(now_ms) {
            Ok(deleted) => moved |= deleted.deleted_segments > 0,
            // Deleted meanwhile.
            Err(LogError::Closed { .. }) => continue,
            Err(error) => {
                let log = partition.log().path();
                tracing::error!(log = %log.display(), %error, "retention failed");
            }
        }
        if let Err(error) = partition.log().remove_deleted(now_ms) {
            tracing::error!(log = %partition.log().path().display(), %error, "old files stay");
        }
    }
    if moved && partitions.checkpoint_log_starts().is_err() {
        tracing::error!("the log start checkpoint is not written");
    }
}

fn flush_overdue(partitions: &ReplicaManager, ages: &mut FlushAges, now_ms: i64) {
    let all = partitions.all();
    let unflushed = all.iter().filter(|partition| partition.log().unflushed_messages() > 0);
    let unflushed = unflushed.map(|partition| (partition.key(), partition.log_config().flush_ms));
    let overdue = ages.overdue(now_ms, unflushed);
    for partition in all.iter().filter(|partition| overdue.contains(&partition.key())) {
        match partition.flush() {
            Ok(_) | Err(LogError::Closed { .. }) => {}
            Err(error) => {
                tracing::error!(log = %partition.log().path().display(), %error, "flush failed");
            }
        }
    }
}

#[cfg(test)]
mod tests;
