//! The one place where a voter waits for its disk: jobs that run in the order they came.

use crate::error::QuorumError;
use std::io;
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;

/// Work on the files of one voter.
pub type Job = Box<dyn FnOnce() + Send>;

/// The way to the jobs of one voter.
#[derive(Clone)]
pub struct Disk {
    submit: Arc<dyn Fn(Job) + Send + Sync>,
}

impl Disk {
    /// A disk that hands its jobs to `submit`, which must keep their order.
    pub fn new(submit: impl Fn(Job) + Send + Sync + 'static) -> Self {
        Self { submit: Arc::new(submit) }
    }

    /// A disk with a thread of its own, which ends with the last clone of the disk.
    pub fn on_thread(name: &str) -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let run = move || jobs.into_iter().for_each(|job| job());
        std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        // After a job that panicked there is no receiver. Later jobs are dropped, and `run` fails.
        Ok(Self::new(move |job| _ = sender.send(job)))
    }

    /// Runs `job` in its turn.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        (self.submit)(Box::new(job));
    }

    /// Runs `work` in its turn, and waits for what it returns.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, QuorumError> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        self.submit(move || _ = done.send(work()));
        let stopped = |_| QuorumError::Stopped("its disk has no thread any more".to_owned());
        Ok(result.await.map_err(stopped)??)
    }
}
