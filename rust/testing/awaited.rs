//! Waits of tests: each has a deadline, and fails with what was awaited.
//!
//! Every crate's tests include this file, with `#[path]`.

// No test crate uses all of them.
#![allow(dead_code, clippy::expect_used)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a test waits for one thing. On a loaded machine everything is slow.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Waits until `is_so`.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited {LIMIT:?} for this: {what}");
        std::thread::yield_now();
    }
}

/// Takes the next message.
#[track_caller]
pub fn received<T>(what: &str, receiver: &Receiver<T>) -> T {
    match receiver.recv_timeout(LIMIT) {
        Ok(message) => message,
        Err(RecvTimeoutError::Timeout) => panic!("waited {LIMIT:?} for this: {what}"),
        Err(RecvTimeoutError::Disconnected) => panic!("the sender is gone before this: {what}"),
    }
}

/// Ends the test binary with `what` unless it is dropped within [`LIMIT`]. For waits that take no
/// deadline themselves: a join, a barrier, the end of a scope of threads.
#[must_use]
pub fn within(what: &str) -> Within {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let what = what.to_owned();
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        if is_done.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            use std::io::Write as _;
            // Past the capture of output, which ends with the process.
            let text = format!("{test} waited {LIMIT:?} for this: {what}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    });
    Within { _done: done }
}

/// See [`within`].
pub struct Within {
    _done: Sender<()>,
}
