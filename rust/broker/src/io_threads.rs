//! The pool of I/O threads: take a connection out of the request queue, run its frames, go on.
//!
//! A thread runs the frames of one connection in order, up to a budget. The rest goes to the end of
//! its lane. So one busy connection delays the others by a budget and not by its backlog. A handler
//! that panics ends alone: the queue's `run` catches it, and the thread goes on.
//!
//! Source: Kafka's `KafkaRequestHandlerPool`.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::error::panics;
use crate::metrics::{Metrics, TimeCounter};
use crate::request_queue::{ConnectionRequests, RequestQueue, Work};

#[cfg(test)]
mod tests;

/// Frames of one connection that a thread runs before it looks at the others.
const BUDGET_FRAMES: usize = 16;
/// Bytes of those frames.
const BUDGET_BYTES: usize = 1 << 20;

/// `num.io.threads` threads.
pub struct IoThreads {
    queue: Arc<RequestQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl IoThreads {
    /// Starts `count` threads on `queue`.
    ///
    /// # Errors
    /// When the operating system refuses another thread; those started before are stopped.
    pub fn start(
        count: usize,
        queue: Arc<RequestQueue>,
        clock: &Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> std::io::Result<Self> {
        let help = "Time in which I/O threads ran something, added up over all of them.";
        let busy = metrics.time("kafkalite_io_threads_busy_seconds", help, vec![]);
        let help = "I/O threads.";
        metrics.gauge("kafkalite_io_threads", help, vec![]).set(count as i64);
        let pool = Self { queue, threads: Mutex::new(Vec::with_capacity(count)) };
        for i in 0..count.max(1) {
            let (queue, clock) = (Arc::clone(&pool.queue), Arc::clone(clock));
            let busy = busy.clone();
            let thread = std::thread::Builder::new()
                .name(format!("kafkalite-io-{i}"))
                .spawn(move || serve(&queue, &*clock, &busy))?;
            pool.threads.lock().push(thread);
        }
        Ok(pool)
    }

    /// Lets the threads finish what is queued, and waits for them.
    pub fn stop(&self) {
        self.queue.stop();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("an I/O thread panicked outside a handler");
            }
        }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(queue: &RequestQueue, clock: &dyn Clock, busy: &TimeCounter) {
    while let Some(work) = queue.take() {
        let started_ns = clock.monotonic_ns();
        // A handler's panic ends further in; one here is of the queue's own doing.
        match work {
            Work::Connection(connection) => {
                panics::contain("a turn of an I/O thread", || run_frames(queue, connection));
            }
            Work::Task(task) => {
                panics::contain("a deferred task", task);
            }
        }
        busy.add_ns(clock.monotonic_ns().saturating_sub(started_ns));
    }
}

/// Runs frames of `connection` until none is left or the budget is spent.
pub(crate) fn run_frames(queue: &RequestQueue, connection: Arc<ConnectionRequests>) {
    let mut bytes = 0;
    for _ in 0..BUDGET_FRAMES {
        let Some((request, place)) = connection.next() else { return };
        bytes += place.bytes();
        queue.run(request);
        // The frame's bytes count until its handler returned, not while it waits in purgatory.
        drop(place);
        if bytes >= BUDGET_BYTES {
            break;
        }
    }
    if let Some(lane) = connection.next_lane() {
        queue.requeue(lane, connection);
    }
}
