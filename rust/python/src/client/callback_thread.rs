//! A thread of a client that does nothing but tell Python what happened.
//!
//! The client's own thread puts jobs in a queue and goes on: it never waits for the GIL. The thread
//! starts with the first callback or waiting caller. It runs all jobs that there are at a time, in
//! order, and ends with its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The queue and its thread.
pub struct CallbackThread<J> {
    queue: Mutex<Queue<J>>,
    changed: Condvar,
    /// Read without the lock; set with it.
    running: AtomicBool,
}

struct Queue<J> {
    jobs: Vec<J>,
    thread: Option<JoinHandle<()>>,
    id: Option<ThreadId>,
    closed: bool,
}

impl<J> Default for CallbackThread<J> {
    fn default() -> Self {
        let queue = Queue { jobs: Vec::new(), thread: None, id: None, closed: false };
        Self { queue: Mutex::new(queue), changed: Condvar::new(), running: AtomicBool::new(false) }
    }
}

impl<J: Send + 'static> CallbackThread<J> {
    /// Starts the thread, if it does not run; it calls `tell` with all the jobs there are.
    pub fn start(self: &Arc<Self>, tell: impl Fn(Vec<J>) + Send + 'static) {
        if self.running.load(Ordering::Relaxed) {
            return;
        }
        let mut queue = self.queue.lock();
        if queue.thread.is_none() && !queue.closed {
            let callback_thread = Arc::clone(self);
            let run = move || callback_thread.run(tell);
            queue.thread =
                std::thread::Builder::new().name("kafkalite-cb".to_owned()).spawn(run).ok();
            queue.id = queue.thread.as_ref().map(|thread| thread.thread().id());
            self.running.store(queue.thread.is_some(), Ordering::Relaxed);
        }
    }

    /// Queues jobs. Where no thread runs, as after the end, they come back.
    pub fn push(&self, jobs: impl IntoIterator<Item = J>) -> Vec<J> {
        let mut queue = self.queue.lock();
        if !self.running.load(Ordering::Relaxed) {
            return jobs.into_iter().collect();
        }
        queue.jobs.extend(jobs);
        drop(queue);
        self.changed.notify_all();
        Vec::new()
    }

    /// Whether this is the thread.
    pub fn is_here(&self) -> bool {
        self.queue.lock().id == Some(std::thread::current().id())
    }

    /// Waits until `told`, which changes by telling alone; `false` if not by `until`.
    pub fn wait(&self, until: Instant, told: impl Fn() -> bool) -> bool {
        let mut queue = self.queue.lock();
        while !told() {
            if self.changed.wait_until(&mut queue, until).timed_out() {
                return told();
            }
        }
        true
    }

    /// Ends the thread when it has told all it has; `false` if it has not by `until`.
    pub fn close(&self, until: Instant) -> bool {
        let thread = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            queue.thread.take()
        };
        self.changed.notify_all();
        let Some(thread) = thread else { return true };
        if thread.thread().id() == std::thread::current().id() {
            return true;
        }
        let ended = self.wait(until, || !self.running.load(Ordering::Relaxed));
        if ended {
            let _ = thread.join();
        }
        ended
    }

    fn run(&self, tell: impl Fn(Vec<J>)) {
        loop {
            let jobs = {
                let mut queue = self.queue.lock();
                while queue.jobs.is_empty() && !queue.closed {
                    self.changed.wait(&mut queue);
                }
                if queue.jobs.is_empty() {
                    self.running.store(false, Ordering::Relaxed);
                    break;
                }
                std::mem::take(&mut queue.jobs)
            };
            tell(jobs);
            // A waiting caller has looked, or looks after this.
            drop(self.queue.lock());
            self.changed.notify_all();
        }
        self.changed.notify_all();
    }
}
