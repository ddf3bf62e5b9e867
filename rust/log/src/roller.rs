//! The threads that put logs on the disk, off the append path: group commit and sealed segments.
//!
//! A log that needs a flush is queued once, however many appends ask for it; whatever was appended
//! until its turn comes is covered by one fdatasync. The roller returns a fact, the new durable
//! offset, to the closure it was given.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use kafkalite_protocol::types::Offset;
use parking_lot::{Condvar, Mutex};

use crate::commit_log::CommitLog;
use crate::error::LogError;

#[cfg(test)]
mod tests;

/// Told after each flush: the log, and its durable offset or why there is none.
pub type OnDurable = dyn Fn(&Arc<CommitLog>, Result<Offset, LogError>) + Send + Sync;

#[derive(Default)]
struct Queue {
    logs: VecDeque<Arc<CommitLog>>,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    on_durable: Box<OnDurable>,
}

/// A pool of threads that flush.
pub struct Roller {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Roller {
    /// Starts `threads` threads, as many as disks can be flushed at once.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        threads: usize,
        on_durable: impl Fn(&Arc<CommitLog>, Result<Offset, LogError>) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let on_durable = Box::new(on_durable);
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new(), on_durable });
        let roller = Self { shared, threads: Mutex::default() };
        for index in 0..threads.max(1) {
            let shared = roller.shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("roller-{index}"))
                .spawn(move || shared.run())?;
            roller.threads.lock().push(thread);
        }
        Ok(roller)
    }

    /// Queues `log` if it [needs a flush](CommitLog::needs_flush) and waits for none yet.
    ///
    /// To be called after every append, outside of all locks. Two loads if there is nothing to do.
    pub fn flush_if_needed(&self, log: &Arc<CommitLog>) {
        if log.needs_flush() {
            self.request(log);
        }
    }

    /// Queues `log`, unless it waits already.
    pub fn request(&self, log: &Arc<CommitLog>) {
        if log.take_flush_request() {
            return;
        }
        let mut queue = self.shared.queue.lock();
        queue.logs.push_back(log.clone());
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Flushes what is queued and ends the threads. Later requests stay unanswered.
    pub fn stop(&self) {
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic in the closure has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Roller {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        while let Some(log) = self.next() {
            // Before the flush: what is appended from here on asks again.
            log.clear_flush_request();
            let outcome = log.flush();
            (self.on_durable)(&log, outcome);
        }
    }

    fn next(&self) -> Option<Arc<CommitLog>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(log) = queue.logs.pop_front() {
                return Some(log);
            }
            if queue.stopping {
                return None;
            }
            self.wake.wait(&mut queue);
        }
    }
}
