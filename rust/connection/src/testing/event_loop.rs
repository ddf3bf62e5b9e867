//! A thread that runs futures for a test.

use crate::awaited;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// A tokio runtime on one thread of its own, until it is dropped.
pub struct EventLoop {
    handle: Handle,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl EventLoop {
    /// Starts the thread; `name` is what lists of threads call it.
    pub fn start(name: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.expect("an event loop");
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(stopped.notified());
            // A name look-up that hangs does not hold the test up.
            runtime.shutdown_background();
        });
        Self { handle, stop, thread: Some(thread.expect("a thread")) }
    }

    /// Runs `future` on the thread, without a wait.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    /// Runs `future` on the thread and waits for it here, [`awaited::LIMIT`] at most.
    #[track_caller]
    pub fn run<F>(&self, future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (done, result) = channel();
        self.spawn(async move {
            // The test has failed if no receiver takes it.
            let _ = done.send(future.await);
        });
        awaited::received("a future on the event loop", &result)
    }

    /// Ends the thread and everything that runs on it.
    pub fn stop(mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _within = awaited::within("the event loop ends");
            thread.join().expect("it does not panic");
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// Waits on an event loop until `is_so`.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + awaited::LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited {:?} for this: {what}", awaited::LIMIT);
        tokio::task::yield_now().await;
    }
}
