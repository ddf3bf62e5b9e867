//! What a state machine wants to be done after unlocking, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;

use super::{Answer, Now, StateMachine};

/// Called once under the lock: when the records of a write are committed, or with the reason why
/// they never will be. However long that takes: what is in the log must come to be known.
pub type Stored<S> = Box<dyn FnOnce(&mut S, Now, &mut Effects<S>, Result<(), ErrorCode>) + Send>;

/// Called at most once under the lock, before [`Stored`]: the commit timeout is over and nothing is
/// known yet. The records stay in the log.
pub type Late<S> = Box<dyn FnOnce(&mut S, Now, &mut Effects<S>) + Send>;

/// Records that are appended.
pub struct Write<S: StateMachine> {
    /// The records, in order; at least one.
    pub records: Vec<S::Record>,
    /// Whether they may go into several batches, one after the other, of which the last ones may
    /// fail. Others are one batch, or are refused if the log takes none of that size.
    pub may_split: bool,
    /// What follows.
    pub stored: Stored<S>,
    /// What follows if that takes too long.
    pub late: Late<S>,
}

/// One thing to do.
pub(super) enum Effect<S: StateMachine> {
    Run(Box<dyn FnOnce() + Send>),
    WakeAt(i64, S::Timer),
    Write(Write<S>),
}

/// Things to do, in order.
pub struct Effects<S: StateMachine> {
    queue: VecDeque<Effect<S>>,
}

impl<S: StateMachine> Effects<S> {
    /// Nothing to do.
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    /// Calls `run` with no lock held; for answers.
    pub fn run(&mut self, run: impl FnOnce() + Send + 'static) {
        self.queue.push_back(Effect::Run(Box::new(run)));
    }

    /// Calls [`StateMachine::on_timer`] at `at_ms` of monotonic time.
    pub fn wake_at(&mut self, at_ms: i64, timer: S::Timer) {
        self.queue.push_back(Effect::WakeAt(at_ms, timer));
    }

    /// Appends records.
    pub fn write(&mut self, write: Write<S>) {
        self.queue.push_back(Effect::Write(write));
    }

    /// Appends what a batch had no room for, before anything else is done.
    pub(super) fn write_next(&mut self, rest: Write<S>) {
        self.queue.push_front(Effect::Write(rest));
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Effect<S>> {
        self.queue.pop_front()
    }
}

/// An answer that the log gives when the outcome is known, or the clock when that takes too long;
/// the first counts.
pub struct FirstAnswer<T>(Arc<Mutex<Option<Answer<T>>>>);

impl<T> Clone for FirstAnswer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> FirstAnswer<T> {
    /// An answer that is not given yet.
    pub fn new(answer: Answer<T>) -> Self {
        Self(Arc::new(Mutex::new(Some(answer))))
    }

    /// Answers after unlocking, unless that was done before.
    pub fn give<S: StateMachine>(self, effects: &mut Effects<S>, value: T) {
        effects.run(move || {
            let answer = self.0.lock().take();
            if let Some(answer) = answer {
                answer(value);
            }
        });
    }
}
