//! The thread that loads partitions. It is there only while there is something to load.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Load;
use crate::error::panics;

#[derive(Default)]
struct Queue {
    loads: VecDeque<Load>,
    is_running: bool,
}

/// Loads partitions one after another, on a thread of its own.
#[derive(Clone, Default)]
pub struct LoaderThread {
    queue: Arc<Mutex<Queue>>,
}

impl LoaderThread {
    /// Runs `load` after those that came before.
    ///
    /// # Errors
    /// The operating system refuses a thread. `load` runs with the next one that is accepted.
    pub fn execute(&self, load: Load) -> std::io::Result<()> {
        {
            let mut queue = self.queue.lock();
            queue.loads.push_back(load);
            if std::mem::replace(&mut queue.is_running, true) {
                return Ok(());
            }
        }
        let inside = Arc::clone(&self.queue);
        let thread = std::thread::Builder::new().name("group-loader".to_owned());
        let started = thread.spawn(move || {
            while let Some(mut load) = next(&inside) {
                while panics::contain("loading a coordinator", &mut load) == Some(true) {}
            }
        });
        // What is in the queue stays there: the next call tries to start a thread again.
        started.map(|_| ()).inspect_err(|_| self.queue.lock().is_running = false)
    }

    /// Whether there is no thread, and nothing to load.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        !self.queue.lock().is_running
    }
}

fn next(queue: &Mutex<Queue>) -> Option<Load> {
    let mut queue = queue.lock();
    let load = queue.loads.pop_front();
    queue.is_running = load.is_some();
    load
}
