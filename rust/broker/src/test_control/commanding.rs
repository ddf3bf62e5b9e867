//! Commands that may wait, and the stop of their broker: none of them outlives it.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::TestControl;
use super::refusal::Refused;

/// How long a stop waits for the commands that run. The faults that held them have ended then.
const MOST_WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Inner {
    running: usize,
    /// The broker stops: no command begins any longer.
    is_over: bool,
}

/// The commands that run.
#[derive(Default)]
pub(super) struct Commands {
    inner: Mutex<Inner>,
    ended: Condvar,
}

/// A command that runs; dropping this ends it, also after a panic.
struct Running<'a>(&'a Commands);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().running -= 1;
        self.0.ended.notify_all();
    }
}

impl Commands {
    /// Whether the broker stops.
    pub fn are_over(&self) -> bool {
        self.inner.lock().is_over
    }

    /// No command begins from now on.
    pub fn end(&self) {
        self.inner.lock().is_over = true;
    }

    /// Waits until none runs; `false`: some still run after `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut inner = self.inner.lock();
        self.ended.wait_while_for(&mut inner, |inner| inner.running > 0, limit);
        inner.running == 0
    }

    fn begin(&self) -> Result<Running<'_>, Refused> {
        let mut inner = self.inner.lock();
        if inner.is_over {
            return Err(Refused::not_running());
        }
        inner.running += 1;
        Ok(Running(self))
    }
}

impl TestControl {
    /// Obeys a command that may wait for a room. It fails if the broker stops before it is done.
    pub(super) fn while_running<T>(
        &self,
        obey: impl FnOnce() -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let _running = self.commands.begin()?;
        let done = obey()?;
        if self.commands.are_over() {
            return Err(Refused::not_running());
        }
        Ok(done)
    }

    /// Waits for the commands that the stop met. Their rooms close behind this.
    pub fn wait_for_commands(&self) {
        if !self.commands.wait(MOST_WAIT) {
            tracing::warn!("a command of test control still runs");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    /// A snapshot that waited for a stalled log went on behind the stop.
    #[test]
    fn a_stop_waits_for_commands_and_they_fail() {
        let control = TestControl::new(std::sync::Arc::new(SystemClock::default()));
        std::thread::scope(|scope| {
            let (began, begins) = std::sync::mpsc::channel();
            let (go, goes) = std::sync::mpsc::channel::<()>();
            let control = &control;
            let command = scope.spawn(move || {
                control.while_running(|| {
                    began.send(()).expect("the test waits");
                    goes.recv_timeout(MOST_WAIT).expect("the test sends");
                    Ok(())
                })
            });
            begins.recv_timeout(MOST_WAIT).expect("it begins");
            control.stop();
            assert!(!control.commands.wait(Duration::ZERO), "it runs");
            go.send(()).expect("the command waits");
            assert!(control.commands.wait(MOST_WAIT), "it ends");
            assert_eq!(command.join().expect("no panic"), Err(Refused::not_running()));
        });
        assert_eq!(control.while_running(|| Ok(())), Err(Refused::not_running()));
    }

    /// Each move of a leader added errors, until there was no room for another one.
    #[test]
    fn spent_errors_make_room_for_others() {
        let control = TestControl::new(std::sync::Arc::new(SystemClock::default()));
        let fault =
            br#"{"kind": "error", "api": "Fetch", "error": "UNKNOWN_SERVER_ERROR", "times": 1}"#;
        for _ in 0..super::super::MOST_FAULTS {
            control.add_fault(fault).expect("there is room");
        }
        assert_eq!(control.add_fault(fault).map_err(|refused| refused.status), Err(400));
        let first = std::sync::Arc::clone(&control.faults.load()[0]);
        assert!(first.fires());
        control.add_fault(fault).expect("the first one is spent");
        assert!(control.show_fault(first.id, None).is_err(), "it made room");
    }

    #[test]
    fn a_stopped_broker_takes_no_fault() {
        let control = TestControl::new(std::sync::Arc::new(SystemClock::default()));
        let fault = br#"{"kind": "stall", "stage": "log"}"#;
        control.add_fault(fault).expect("it runs");
        control.stop();
        assert_eq!(control.add_fault(fault), Err(Refused::not_running()));
        assert_eq!(control.list_faults(), br#"{"faults":[]}"#);
    }
}
