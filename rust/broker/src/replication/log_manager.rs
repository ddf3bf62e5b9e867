//! Looks after the logs in the background: retention, compaction, `flush.ms`, checkpoints, deleted files.
//!
//! One thread sleeps until the next of its tasks is due. Nothing here is on the path of a request, and an
//! acknowledgement waits for none of it.
//! Source: Kafka's `LogManager` and `LogCleaner`.

use super::partitions::Partitions;
use crate::clock::Clock;
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
    /// `log.flush.scheduler.interval.ms`
    pub flush_ms: u64,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub checkpoint_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Retention,
    Compaction,
    Flush,
    Checkpoint,
}

const TASKS: [Task; 4] = [Task::Retention, Task::Compaction, Task::Flush, Task::Checkpoint];
/// The thread looks at the clock at least this often, so that a clock moved by hand is seen.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Since when each log, by key, has records that are not known to be on the disk; wall time in ms.
type Unflushed = HashMap<u64, i64>;

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The thread that looks after the logs.
pub struct LogManager {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LogManager {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system refuses it.
    pub fn start(
        partitions: Arc<Partitions>,
        clock: Arc<dyn Clock>,
        intervals: Maintenance,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let waker = shared.clone();
        clock.on_advance(Box::new(move || {
            waker.wake.notify_all();
        }));
        let sleeper = shared.clone();
        let thread = std::thread::Builder::new()
            .name("log-manager".to_owned())
            .spawn(move || run(&sleeper, &partitions, clock.as_ref(), intervals))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread after the task it is at.
    pub fn stop(&self) {
        *self.shared.stopped.lock() = true;
        self.shared.wake.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the log manager panicked");
        }
    }
}

fn interval_ms(task: Task, intervals: Maintenance) -> u64 {
    match task {
        Task::Retention => intervals.retention_ms,
        Task::Compaction if intervals.cleaner_enabled => intervals.cleaner_ms,
        Task::Compaction => u64::MAX,
        Task::Flush => intervals.flush_ms,
        Task::Checkpoint => intervals.checkpoint_ms,
    }
}

fn run(shared: &Shared, partitions: &Partitions, clock: &dyn Clock, intervals: Maintenance) {
    let mut unflushed = Unflushed::new();
    let start = clock.monotonic_ms();
    let mut due = TASKS.map(|task| start.saturating_add(interval_ms(task, intervals)));
    loop {
        {
            let mut stopped = shared.stopped.lock();
            if *stopped {
                return;
            }
            let now = clock.monotonic_ms();
            let next = due.iter().copied().min().unwrap_or(u64::MAX);
            if next > now {
                let sleep = Duration::from_millis(next - now).min(LONGEST_SLEEP);
                shared.wake.wait_for(&mut stopped, sleep);
                continue;
            }
        }
        for (task, due) in TASKS.into_iter().zip(&mut due) {
            if *due <= clock.monotonic_ms() {
                run_task(task, partitions, &mut unflushed, clock.wall_ms());
                *due = clock.monotonic_ms().saturating_add(interval_ms(task, intervals));
            }
        }
    }
}

fn run_task(task: Task, partitions: &Partitions, unflushed: &mut Unflushed, now_ms: i64) {
    match task {
        Task::Retention => retain(partitions, now_ms),
        Task::Compaction => {}
        Task::Flush => flush_overdue(partitions, unflushed, now_ms),
        Task::Checkpoint => {
            if let Err(error) = partitions.checkpoint() {
                tracing::error!(%error, "checkpoints are not written");
            }
        }
    }
}

fn retain(partitions: &Partitions, now_ms: i64) {
    let mut moved = false;
    for partition in partitions.all() {
        let kept = partition.log().retain(now_ms, partition.high_watermark());
        match kept {
            Ok(deleted) => moved |= deleted.deleted_segments > 0,
            Err(error) => {
                tracing::error!(log = %partition.log().path().display(), %error, "retention failed");
            }
        }
        if let Err(error) = partition.log().remove_deleted(now_ms) {
            tracing::error!(log = %partition.log().path().display(), %error, "old files stay");
        }
    }
    if moved && partitions.checkpoint_log_starts().is_err() {
        tracing::error!("the log start checkpoint is not written");
    }
    partitions.remove_deleted(now_ms);
}

fn flush_overdue(partitions: &Partitions, unflushed: &mut Unflushed, now_ms: i64) {
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
        } else if let Err(error) = partition.flush() {
            tracing::error!(log = %partition.log().path().display(), %error, "flush failed");
        }
    }
    *unflushed = still;
}
