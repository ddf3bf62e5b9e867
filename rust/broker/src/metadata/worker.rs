//! A thread that runs the tasks of a queue, one by one. Without the thread a caller runs them.

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

type Run<T> = Box<dyn FnMut(T) + Send>;

/// The thread, and the door to its queue.
pub struct Worker<T> {
    name: &'static str,
    shared: Arc<Shared<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What is done with a task, if there is no thread for it.
    run: Mutex<Option<Run<T>>>,
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
        let shared = Arc::new(Shared::new());
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(task) = inside.next() {
                contained(name, &mut run, task);
            }
        })?;
        Ok(Self { name, shared, thread: Mutex::new(Some(thread)), run: Mutex::new(None) })
    }

    /// A worker whose tasks are run by [`Self::turn`]. For simulations.
    pub fn without_thread(name: &'static str, run: impl FnMut(T) + Send + 'static) -> Self {
        let (shared, run) = (Arc::new(Shared::new()), Mutex::new(Some(Box::new(run) as Run<T>)));
        Self { name, shared, thread: Mutex::new(None), run }
    }
}

/// A panic ends one task.
fn contained<T>(name: &str, run: &mut impl FnMut(T), task: T) {
    panics::contain(format_args!("a task of {name}"), || run(task));
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

    /// Runs the next task on this thread, if there is no other for it. Whether there was one.
    pub fn turn(&self) -> bool {
        // Not under the lock: a task may come back here.
        let Some(mut run) = self.run.lock().take() else { return false };
        let task = self.shared.queue.lock().tasks.pop_front();
        let any = task.is_some();
        if let Some(task) = task {
            contained(self.name, &mut run, task);
        }
        let is_stopped = self.shared.queue.lock().stopped;
        if !is_stopped {
            *self.run.lock() = Some(run);
        }
        any
    }

    /// Ends the thread after the task that it runs, and drops all others.
    pub fn stop(&self) {
        let left = {
            let mut queue = self.shared.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.tasks)
        };
        self.shared.wake.notify_one();
        // What tasks and their runner hold may come back here when it is dropped.
        let run = self.run.lock().take();
        drop((left, run));
        let Some(thread) = self.thread.lock().take() else { return };
        // A task that drops the last handle runs on the thread itself, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!(thread = self.name, "a thread panicked");
        }
    }
}

impl<T> Shared<T> {
    fn new() -> Self {
        let queue = Mutex::new(Queue { tasks: VecDeque::new(), stopped: false });
        Self { queue, wake: Condvar::new() }
    }

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
