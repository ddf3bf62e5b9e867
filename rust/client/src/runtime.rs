//! The one thread of a client: a tokio runtime that carries all its connections.
//!
//! Callers on other threads hand in futures and wait outside, on a channel: [`Call::wait`]. The
//! thread ends when the runtime is shut down or dropped; what was under way then is `Closed`.
//! After a fork nothing here blocks or locks: the check comes first.

use crate::error::ClientError;
use crate::fork::{ForkGuard, Home};
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long a caller waits before it is asked whether it still has patience.
const HURRY_EVERY: Duration = Duration::from_millis(100);

/// A thread that runs futures.
pub struct Runtime {
    name: String,
    home: Home,
    handle: Handle,
    stop: Arc<Notify>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    join: JoinHandle<()>,
    ended: Receiver<()>,
}

impl Runtime {
    /// Starts the thread; `name` is what errors and thread lists call it.
    pub fn start(name: &str) -> Result<Self, ClientError> {
        let refused = |what: &str, error: std::io::Error| ClientError::Resource {
            what: what.to_owned(),
            why: error.to_string(),
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| refused("an event loop", error))?;
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (end, ended) = sync_channel(1);
        // Linux shows 15 bytes of a thread's name.
        let short: String = name.chars().take(15).collect();
        let join = std::thread::Builder::new()
            .name(short)
            .spawn(move || {
                runtime.block_on(stopped.notified());
                // A name look-up that hangs does not hold us up.
                runtime.shutdown_background();
                let _ = end.send(());
            })
            .map_err(|error| refused("a thread", error))?;
        let thread = Mutex::new(Some(Thread { join, ended }));
        Ok(Self { name: name.to_owned(), home: Home::here(), handle, stop, thread })
    }

    /// Whether this is the process the runtime was made in; costs a system call.
    pub fn check_fork(&self) -> Result<(), ClientError> {
        self.home.check()
    }

    /// The same, for calls that cost less than a system call.
    pub fn check_fork_cheaply(&self) -> Result<(), ClientError> {
        self.home.check_cheaply()
    }

    /// What spawns tasks on the thread.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `future` on the thread; it is dropped where it stands when the runtime shuts down.
    pub fn spawn<F>(&self, future: F) -> Result<AbortHandle, ClientError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.check_fork()?;
        Ok(self.handle.spawn(future).abort_handle())
    }

    /// Runs `future` on the thread; the caller waits with [`Call::wait`], as often as it likes.
    pub fn begin<F, T>(&self, future: F) -> Result<Call<T>, ClientError>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let (done, result) = sync_channel(1);
        let task = self.spawn(async move {
            let done: SyncSender<_> = done;
            // The caller may have gone.
            let _ = done.send(future.await);
        })?;
        let task = ForkGuard::new(task);
        Ok(Call { result: Mutex::new(result), task, what: self.name.clone() })
    }

    /// Runs `future` on the thread and waits for it here, until `deadline` at most.
    ///
    /// Must not be called on the runtime's own thread.
    pub fn call<F, T>(&self, future: F, deadline: Instant) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        self.call_patiently(future, &mut { deadline }, &mut || false)
    }

    /// The same, where the caller may lose patience: `hurried` is asked ten times a second, and
    /// once it says so `deadline` is now.
    pub fn call_patiently<F, T>(
        &self,
        future: F,
        deadline: &mut Instant,
        hurried: &mut dyn FnMut() -> bool,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let began = Instant::now();
        let call = self.begin(future)?;
        loop {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            if let Some(result) = call.wait(left.min(HURRY_EVERY)) {
                return result;
            }
            if left <= HURRY_EVERY {
                let after_ms = began.elapsed().as_millis() as u64;
                let what = format!("a call of {}", self.name);
                return Err(ClientError::Timeout { what, after_ms });
            }
            if hurried() {
                *deadline = now;
            }
        }
    }

    /// Ends the thread and waits for its end, `timeout` at most; whether it ended.
    ///
    /// Everything that was spawned is dropped. In a forked child there is nothing to end.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        if self.home.check().is_err() {
            return true;
        }
        let Some(thread) = self.thread.lock().take() else { return true };
        self.stop.notify_one();
        if thread.join.thread().id() == std::thread::current().id() {
            return false;
        }
        let ended = !matches!(thread.ended.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
        if ended {
            let _ = thread.join.join();
        }
        ended
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // The dropping thread may hold a lock that the client's thread waits for: the client's
        // thread ends by itself.
        self.shutdown(Duration::ZERO);
    }
}

/// Something under way on the runtime's thread. Dropping it ends it.
pub struct Call<T> {
    result: Mutex<Receiver<Result<T, ClientError>>>,
    task: ForkGuard<AbortHandle>,
    what: String,
}

impl<T> Call<T> {
    /// The result, if it comes within `timeout`; a result is handed out once.
    pub fn wait(&self, timeout: Duration) -> Option<Result<T, ClientError>> {
        match self.result.lock().recv_timeout(timeout) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(ClientError::Closed { what: self.what.clone() }))
            }
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let Ok(task) = self.task.get() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
