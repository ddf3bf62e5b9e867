//! A thread that runs the tasks of a queue, one by one.

use crate::error::panics;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

struct Queue<T> {
    tasks: VecDeque<T>,
    stopped: bool,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    wake: Condvar,
}

/// The thread, and the door to its queue.
pub struct Worker<T> {
    name: &'static str,
    shared: Arc<Shared<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that gives each task to `run`. A panic ends one task.
    ///
    /// # Errors
    /// The operating system refuses another thread.
    pub fn start(
        name: &'static str,
        mut run: impl FnMut(T) + Send + 'static,
    ) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { tasks: VecDeque::new(), stopped: false });
        let shared = Arc::new(Shared { queue, wake: Condvar::new() });
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(task) = inside.next() {
                panics::contain(format_args!("a task of {name}"), || run(task));
            }
        })?;
        Ok(Self { name, shared, thread: Mutex::new(Some(thread)) })
    }
}

impl<T> Worker<T> {
    /// Adds a task; it is dropped if the worker was stopped.
    pub fn push(&self, task: T) {
        let mut queue = self.shared.queue.lock();
        if queue.stopped {
            // Not under the lock: what a task holds may come back here when it is dropped.
            drop(queue);
            return drop(task);
        }
        queue.tasks.push_back(task);
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Ends the thread after the task that it runs, and drops all others.
    pub fn stop(&self) {
        let left = {
            let mut queue = self.shared.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.tasks)
        };
        self.shared.wake.notify_one();
        drop(left);
        let Some(thread) = self.thread.lock().take() else { return };
        // A task that drops the last handle runs on the thread itself, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!(thread = self.name, "a thread panicked");
        }
    }
}

impl<T> Shared<T> {
    fn next(&self) -> Option<T> {
        let mut queue = self.queue.lock();
        loop {
            if queue.stopped {
                return None;
            }
            match queue.tasks.pop_front() {
                Some(task) => return Some(task),
                None => self.wake.wait(&mut queue),
            }
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.stop();
    }
}
