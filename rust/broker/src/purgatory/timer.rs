//! One thread that owns the timing wheel and sleeps until its next deadline.
//!
//! It never ticks: without waiting operations it sleeps without a timeout. An insert wakes it only
//! if its deadline is earlier than the end of the sleep. Expired operations go to the broker's
//! closure (`run`), normally the request queue. So I/O threads build the responses, and a thousand
//! of them never delay the next deadline. Why one thread: ADR 0030.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::timing_wheel::{TimerId, TimingWheel};
use crate::clock::Clock;
use crate::error::panics;

#[cfg(test)]
mod tests;

/// What happens at a deadline.
pub type TimerTask = Box<dyn FnOnce() + Send>;

/// Where expired tasks run.
pub type RunExpired = Arc<dyn Fn(TimerTask) + Send + Sync>;

struct State {
    wheel: TimingWheel<TimerTask>,
    /// The thread sleeps until then: an earlier deadline has to wake it. 0 while it is awake.
    sleeps_until_ms: u64,
    stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    clock: Arc<dyn Clock>,
}

impl Shared {
    fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                wheel: TimingWheel::new(clock.monotonic_ms()),
                sleeps_until_ms: 0,
                stopped: false,
            }),
            wake: Condvar::new(),
            clock,
        })
    }

    /// Adds what is due now to `expired`.
    fn expire(&self, state: &mut State, expired: &mut Vec<TimerTask>) {
        state.wheel.advance(self.clock.monotonic_ms(), |task| expired.push(task));
    }

    fn run(&self, run: &RunExpired) {
        let mut expired = Vec::new();
        loop {
            {
                let mut state = self.state.lock();
                state.sleeps_until_ms = 0;
                if state.stopped {
                    return;
                }
                let now_ns = self.clock.monotonic_ns();
                self.expire(&mut state, &mut expired);
                if expired.is_empty() {
                    let next = state.wheel.next_event_ms();
                    state.sleeps_until_ms = next.unwrap_or(u64::MAX);
                    match next {
                        // Waiting for the exact nanosecond: a sleep cut to whole milliseconds
                        // would wake just before the deadline and spin until it.
                        Some(next_ms) => {
                            let until_ns = next_ms.saturating_mul(crate::clock::NS_PER_MS);
                            let sleep = Duration::from_nanos(until_ns.saturating_sub(now_ns));
                            self.wake.wait_for(&mut state, sleep);
                        }
                        None => self.wake.wait(&mut state),
                    }
                    continue;
                }
            }
            // The lock is free again: tasks may insert and cancel.
            for task in expired.drain(..) {
                panics::contain("a delayed operation at its deadline", || run(task));
            }
        }
    }
}

/// Deadlines for the whole broker.
pub struct Timer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Timer {
    /// Starts the thread. Each expired task is given to `run`.
    ///
    /// # Errors
    /// When the operating system refuses another thread.
    pub fn start(clock: Arc<dyn Clock>, run: RunExpired) -> std::io::Result<Arc<Self>> {
        let shared = Shared::new(Arc::clone(&clock));
        let woken = Arc::downgrade(&shared);
        clock.on_advance(Box::new(move || {
            if let Some(shared) = woken.upgrade() {
                // Under the lock, or the thread could be between its look at the clock and sleep.
                let _state = shared.state.lock();
                shared.wake.notify_one();
            }
        }));
        let inside = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("kafkalite-timer".into())
            .spawn(move || while panics::contain("the timer", || inside.run(&run)).is_none() {})?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// A timer without a thread: its owner calls [`Self::turn`] whenever time has passed. For
    /// simulations, where nothing may run by itself.
    #[must_use]
    pub fn without_thread(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { shared: Shared::new(clock), thread: Mutex::new(None) })
    }

    /// Runs every task that is due now, on this thread, and those that become due by it. Returns
    /// when to call again, in ms of monotonic time; `None` while nothing waits.
    pub fn turn(&self) -> Option<u64> {
        loop {
            let mut expired = Vec::new();
            let next_ms = {
                let mut state = self.shared.state.lock();
                self.shared.expire(&mut state, &mut expired);
                state.wheel.next_event_ms()
            };
            if expired.is_empty() {
                return next_ms;
            }
            expired.into_iter().for_each(|task| task());
        }
    }

    /// Moves the clock with `move_clock`, and runs on this thread what is due then. The timer's
    /// thread sees the new time only afterwards, so it takes none of these tasks.
    pub fn turn_after(&self, move_clock: impl FnOnce()) {
        let mut expired = Vec::new();
        {
            let mut state = self.shared.state.lock();
            move_clock();
            self.shared.expire(&mut state, &mut expired);
        }
        for task in expired {
            panics::contain("a delayed operation at its deadline", task);
        }
        self.turn();
    }

    /// Runs `task` once `delay_ms` have passed, unless it is cancelled before.
    pub fn schedule(&self, delay_ms: u64, task: TimerTask) -> TimerId {
        // Rounded up: never before the delay is over.
        let now_ms = self.shared.clock.monotonic_ns().div_ceil(crate::clock::NS_PER_MS);
        let deadline_ms = now_ms.saturating_add(delay_ms);
        let mut state = self.shared.state.lock();
        let id = state.wheel.insert(deadline_ms, task);
        if deadline_ms < state.sleeps_until_ms {
            self.shared.wake.notify_one();
        }
        id
    }

    /// Drops a task that has not run. `false` if it ran, is about to, or was cancelled before.
    pub fn cancel(&self, id: TimerId) -> bool {
        let task = self.shared.state.lock().wheel.cancel(id);
        // Dropped outside the lock: the task may own what in turn cancels timers.
        task.is_some()
    }

    /// How many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().wheel.len()
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the thread. What still waits is dropped unrun when the timer is.
    pub fn stop(&self) {
        {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            self.shared.wake.notify_one();
        }
        let Some(thread) = self.thread.lock().take() else { return };
        // A task that drops the last handle runs on the thread itself, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the timer thread panicked");
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}
