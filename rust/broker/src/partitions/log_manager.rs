//! Looks after the logs in the background: retention, compaction, `flush.ms`, checkpoints, deleted
//! files, logs that did not open.
//!
//! Threads sleep until the next of their tasks is due: those of the cleaner, and one for the rest.
//! Nothing here is on the path of a request, and an acknowledgement waits for none of it.
//! Source: Kafka's `LogManager` and `LogCleaner`.

use super::checkpoints::Checkpoint;
use super::log_cleaner::LogCleaner;
use super::replica_manager::ReplicaManager;
use crate::clock::Clock;
use crate::error::panics;
use kafkalite_log::LogError;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often each task runs, in ms.
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

/// Since when each log, by key, has records that are not known to be on the disk; wall time in ms.
type Unflushed = HashMap<u64, i64>;

/// When a task is due, in ms of monotonic time.
enum When {
    /// Then, and `interval_ms` after each time.
    Every { interval_ms: u64, due_ms: u64 },
    /// Whenever something says so.
    At(Box<dyn Fn() -> Option<u64> + Send>),
}

/// Something to do; it gets the wall time in ms.
struct Task {
    when: When,
    run: Box<dyn FnMut(i64) + Send>,
}

impl Task {
    /// One that first runs an interval after `start_ms`.
    fn every(interval_ms: u64, start_ms: u64, run: impl FnMut(i64) + Send + 'static) -> Self {
        let due_ms = start_ms.saturating_add(interval_ms);
        Self { when: When::Every { interval_ms, due_ms }, run: Box::new(run) }
    }

    fn at(
        due_ms: impl Fn() -> Option<u64> + Send + 'static,
        run: impl FnMut(i64) + Send + 'static,
    ) -> Self {
        Self { when: When::At(Box::new(due_ms)), run: Box::new(run) }
    }

    fn due_ms(&self) -> u64 {
        match &self.when {
            When::Every { due_ms, .. } => *due_ms,
            When::At(due_ms) => due_ms().unwrap_or(u64::MAX),
        }
    }

    fn run(&mut self, clock: &dyn Clock) {
        panics::contain("a task of the log manager", || (self.run)(clock.wall_ms()));
        if let When::Every { interval_ms, due_ms } = &mut self.when {
            *due_ms = clock.monotonic_ms().saturating_add(*interval_ms);
        }
    }
}

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The threads that look after the logs.
pub struct LogManager {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LogManager {
    /// Starts the threads: one compacts, which may take long, one does everything else.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        partitions: &Arc<ReplicaManager>,
        clock: Arc<dyn Clock>,
        intervals: Maintenance,
    ) -> std::io::Result<Self> {
        let manager = Self { shared: Arc::default(), threads: Mutex::default() };
        let waker = manager.shared.clone();
        clock.on_advance(Box::new(move || waker.look_again()));
        let waker = manager.shared.clone();
        partitions.on_deadline(move || waker.look_again());
        // Not when the threads first run: by then the clock may have been moved.
        let start_ms = clock.monotonic_ms();
        if intervals.cleaner_enabled {
            let threads = intervals.cleaner_threads;
            let cleaner = LogCleaner::new(partitions.clone(), intervals.cleaner_max_keys, threads);
            let cleaner = Arc::new(cleaner);
            for i in 0..threads {
                let (cleaner, shared) = (cleaner.clone(), manager.shared.clone());
                let clean = move |now_ms| cleaner.run(now_ms, || *shared.stopped.lock());
                let task = Task::every(intervals.cleaner_ms, start_ms, clean);
                manager.spawn(&format!("log-cleaner-{i}"), vec![task], clock.clone())?;
            }
        }
        manager.spawn("log-manager", tasks(partitions, &intervals, start_ms), clock)?;
        Ok(manager)
    }

    fn spawn(&self, name: &str, tasks: Vec<Task>, clock: Arc<dyn Clock>) -> std::io::Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&shared, tasks, clock.as_ref()))?;
        self.threads.lock().push(thread);
        Ok(())
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

/// Everything but compaction.
fn tasks(partitions: &Arc<ReplicaManager>, intervals: &Maintenance, start_ms: u64) -> Vec<Task> {
    let note = |which, interval_ms| {
        let noted = partitions.clone();
        Task::every(interval_ms, start_ms, move |_| {
            if let Err(error) = noted.checkpoint(which) {
                tracing::error!(%error, "checkpoints are not written");
            }
        })
    };
    let (retained, flushed) = (partitions.clone(), partitions.clone());
    let mut unflushed = Unflushed::new();
    let (next_removal, removed) = (partitions.clone(), partitions.clone());
    let (next_retry, retried) = (partitions.clone(), partitions.clone());
    let truncated = partitions.clone();
    let (next_flush, flushed_again) = (partitions.clone(), partitions.clone());
    vec![
        Task::every(intervals.retention_ms, start_ms, move |now_ms| retain(&retained, now_ms)),
        Task::every(intervals.flush_ms, start_ms, move |now_ms| {
            flush_overdue(&flushed, &mut unflushed, now_ms);
        }),
        note(Checkpoint::RecoveryPoint, intervals.recovery_points_ms),
        note(Checkpoint::LogStart, intervals.log_starts_ms),
        note(Checkpoint::HighWatermark, intervals.high_watermarks_ms),
        Task::every(intervals.high_watermarks_ms, start_ms, move |_| {
            if let Err(error) = truncated.forget_truncations() {
                tracing::error!(%error, "notes of truncations stay");
            }
        }),
        Task::at(move || next_removal.next_removal_ms(), move |_| removed.remove_deleted()),
        Task::at(move || next_retry.next_retry_ms(), move |_| retried.retry_unopened()),
        Task::at(move || next_flush.next_flush_ms(), move |_| flushed_again.flush_again()),
    ]
}

impl Shared {
    /// Wakes the threads: a task may be due by now.
    fn look_again(&self) {
        // Under the lock, or a thread could be between its look at the clock and sleep.
        let _stopped = self.stopped.lock();
        self.wake.notify_all();
    }
}

/// Sleeps until the next task is due, runs it, and so on.
fn run(shared: &Shared, mut tasks: Vec<Task>, clock: &dyn Clock) {
    loop {
        {
            let mut stopped = shared.stopped.lock();
            if *stopped {
                return;
            }
            let now = clock.monotonic_ms();
            let next = tasks.iter().map(Task::due_ms).min().unwrap_or(u64::MAX);
            if next > now {
                let sleep = Duration::from_millis(next - now).min(LONGEST_SLEEP);
                shared.wake.wait_for(&mut stopped, sleep);
                continue;
            }
        }
        for task in &mut tasks {
            if task.due_ms() <= clock.monotonic_ms() {
                task.run(clock);
            }
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

fn flush_overdue(partitions: &ReplicaManager, unflushed: &mut Unflushed, now_ms: i64) {
    let all = partitions.all();
    let mut still = Unflushed::new();
    for partition in all {
        let flush_ms = partition.log_config().flush_ms;
        if flush_ms == i64::MAX || partition.log().unflushed_messages() == 0 {
            continue;
        }
        let since_ms = unflushed.get(&partition.key()).copied().unwrap_or(now_ms);
        if now_ms.saturating_sub(since_ms) < flush_ms {
            still.insert(partition.key(), since_ms);
            continue;
        }
        match partition.flush() {
            Ok(_) | Err(LogError::Closed { .. }) => {}
            Err(error) => {
                tracing::error!(log = %partition.log().path().display(), %error, "flush failed");
            }
        }
    }
    *unflushed = still;
}
