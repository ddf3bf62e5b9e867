//! Group commit: one thread that puts on the disk whatever appends asked for since it last looked.
//!
//! An append under `flush.messages` only names its partition here and goes on. The thread flushes
//! each named partition once, for all appends that wait for it. While it flushes, the next group
//! gathers. A flush without such a wait, after a roll or in a new partition, is done between two
//! groups: thousands of them must not stand before a producer. Why: a sync per batch costs 25 times
//! as much as a sync per group (see `docs/adr`).

use crate::error::panics;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Default)]
struct State {
    /// Keys of partitions whose logs shall be flushed, and acknowledgements wait for that.
    awaited: BTreeSet<u64>,
    /// Keys of others.
    others: BTreeSet<u64>,
    /// Those of the others whose turn is now: a key that is named again waits for the next round.
    round: BTreeSet<u64>,
    stopped: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.others.is_empty() && self.round.is_empty()
    }

    /// All that are awaited, and one of the others.
    fn take_group(&mut self) -> Vec<u64> {
        if self.round.is_empty() {
            self.round = std::mem::take(&mut self.others);
        }
        let other = self.round.pop_first();
        std::mem::take(&mut self.awaited).into_iter().chain(other).collect()
    }
}

/// The committer of all logs.
#[derive(Default)]
pub struct GroupCommit {
    state: Mutex<State>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl GroupCommit {
    /// A committer whose thread is not started yet; what is named meanwhile is flushed then.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Starts the thread; `flush` flushes the partition with a key, if it still exists.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(self: &Arc<Self>, flush: impl Fn(u64) + Send + 'static) -> std::io::Result<()> {
        let committer = self.clone();
        let thread =
            std::thread::Builder::new().name("group-commit".to_owned()).spawn(move || {
                while let Some(keys) = committer.next_group() {
                    for key in keys {
                        if committer.state.lock().stopped {
                            return;
                        }
                        panics::contain("a group commit", || flush(key));
                    }
                }
            })?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Flushes what is named now, on this thread, and does not wait for more. For simulations,
    /// which start no thread.
    pub fn turn(&self, flush: impl FnMut(u64)) {
        let named = {
            let State { awaited, others, .. } = &mut *self.state.lock();
            awaited.append(others);
            std::mem::take(awaited)
        };
        named.into_iter().for_each(flush);
    }

    fn next_group(&self) -> Option<Vec<u64>> {
        let mut state = self.state.lock();
        while state.is_empty() && !state.stopped {
            self.wake.wait(&mut state);
        }
        (!state.stopped).then(|| state.take_group())
    }

    /// Asks for a flush of the partition with this key. Acknowledgements wait for it.
    pub fn commit(&self, key: u64) {
        self.name(key, |state| &mut state.awaited);
    }

    /// Asks for a flush that no acknowledgement waits for.
    pub fn commit_later(&self, key: u64) {
        self.name(key, |state| &mut state.others);
    }

    fn name(&self, key: u64, set: impl FnOnce(&mut State) -> &mut BTreeSet<u64>) {
        let mut state = self.state.lock();
        let was_empty = state.is_empty();
        set(&mut state).insert(key);
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Ends the thread after the flush that it is at. Nothing waits for the others any more, and a
    /// clean close flushes every log. Thousands of new partitions may be named here, and a stop
    /// that takes too long is killed.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the group commit thread panicked");
        }
    }
}

#[cfg(test)]
mod tests;
