//! Threads that read in what left the page cache, before a network thread would have to.
//!
//! sendfile from a cold range blocks the network thread and every connection that it serves
//! (KAFKA-7504). So a response whose file ranges are not resident comes here first. Its ranges are
//! read ahead and then read, without a copy, and then the response goes to the response queue. A
//! consumer that replays a whole disk gets 4 MiB at a time, in turns with other consumers.
//! Residency affects speed, never correctness: a range that is evicted before it is sent costs one
//! slow send.
//!
//! Each read of the disk is small, and the kernel's own read-ahead is off. Its windows of several
//! MiB end in interrupts that delay all other work, far more than the same bytes in steps
//! (`benches/cold_replay.py`). While clients produce, steps keep to a pace ([`Pace`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kafkalite_log::FileSlice;
use kafkalite_protocol::ApiKey;
use parking_lot::{Condvar, Mutex};
use rustix::fs::Advice;

use crate::clock::Clock;
use crate::error::panics;
use crate::metrics::{Counter, Metrics, Stage, TimeCounter};
use crate::response_queue::{Piece, Responder, Response};

use self::pace::Pace;

mod pace;
#[cfg(test)]
mod tests;

/// What was written in this time, in ms, is in the page cache: the kernel has hardly written it
/// back yet. How far it is from the log's end says less: a slow log's last MiB may be of last week.
const FRESH_MS: i64 = 30_000;

/// One request to the disk.
const STEP_BYTES: u64 = 256 << 10;

/// The disk is asked for this much before it is waited for.
const AHEAD_BYTES: u64 = 1 << 20;

/// Whether a range is in the page cache, or as good as.
pub type IsResident = Arc<dyn Fn(&FileSlice) -> bool + Send + Sync>;

/// What happens once the ranges of a job are read in.
type Continuation = Box<dyn FnOnce() + Send>;

struct Job {
    /// Cold ranges still to read, the front one first.
    slices: VecDeque<FileSlice>,
    then: Continuation,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopped: bool,
}

/// How much the pool reads.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Threads, at least 1: `kafkalite.cold.read.threads`.
    pub threads: usize,
    /// Read for one response before another one's turn: `kafkalite.cold.read.max.bytes`.
    pub turn_bytes: u64,
    /// Most bytes read in a second while clients produce; 0 is no limit.
    /// `kafkalite.cold.read.max.bytes.per.second`.
    pub bytes_per_second: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Wakes a thread for a job.
    wake: Condvar,
    /// Wakes threads that keep to the pace, at the end.
    hurry: Condvar,
    pace: Mutex<Pace>,
    bytes: Counter,
    /// How long threads waited to keep to the pace.
    throttled: TimeCounter,
    turn_bytes: u64,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// The pool.
pub struct ColdReads {
    shared: Arc<Shared>,
    is_resident: IsResident,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ColdReads {
    /// A pool without threads, for simulations, where all is resident.
    pub fn without_threads(
        limits: Limits,
        is_resident: IsResident,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let help = "Bytes read in because they had left the page cache.";
        let bytes = metrics.counter("kafkalite_cold_read_bytes", help, vec![]);
        let help = "Time that cold reads waited because producers were active.";
        let name = "kafkalite_cold_read_throttled_seconds";
        let throttled = metrics.time(name, help, vec![]);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            hurry: Condvar::new(),
            pace: Mutex::new(Pace::new(limits.bytes_per_second)),
            bytes,
            throttled,
            turn_bytes: limits.turn_bytes,
            clock,
            metrics: Arc::clone(&metrics),
        });
        let help = "Responses waiting for ranges to be read in.";
        metrics.computed("kafkalite_cold_read_queue_size", help, vec![], &shared, |shared| {
            i64::try_from(shared.queue.lock().jobs.len()).unwrap_or(i64::MAX)
        });
        Self { shared, is_resident, threads: Mutex::default() }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// When the operating system refuses a thread, or `/dev/null`.
    pub fn start(
        limits: Limits,
        is_resident: IsResident,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let pool = Self::without_threads(limits, is_resident, clock, metrics);
        for i in 0..limits.threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let null = File::options().write(true).open("/dev/null")?;
            let thread = std::thread::Builder::new()
                .name(format!("kafkalite-cold-read-{i}"))
                .spawn(move || shared.serve(&null))?;
            pool.threads.lock().push(thread);
        }
        Ok(pool)
    }

    /// Sends `response`, after reading in those of its ranges that are not resident.
    pub fn send(&self, responder: Responder, response: Response) {
        let cold = match &response {
            Response::Pieces(pieces) => self.cold_ranges(pieces),
            Response::NoResponse | Response::Close => Vec::new(),
        };
        self.after_reading(responder.api_key(), cold, move || responder.send(response));
    }

    /// Calls `then`, which goes on with a request of `api_key`, once `slices` are in the page
    /// cache: now, on the caller's thread, if they are; else on a thread of the pool after reading
    /// them in.
    pub fn when_resident(
        &self,
        api_key: i16,
        mut slices: Vec<FileSlice>,
        then: impl FnOnce() + Send + 'static,
    ) {
        slices.retain(|slice| self.is_cold(slice));
        self.after_reading(api_key, slices, then);
    }

    /// Calls `then` after `cold` was read in, and records how long that took.
    fn after_reading(
        &self,
        api_key: i16,
        cold: Vec<FileSlice>,
        then: impl FnOnce() + Send + 'static,
    ) {
        if cold.is_empty() {
            return then();
        }
        let shared = Arc::clone(&self.shared);
        let started_ns = shared.clock.monotonic_ns();
        let then = move || {
            let took_ns = shared.clock.monotonic_ns().saturating_sub(started_ns);
            shared.metrics.record(Stage::ColdRead, api_key, took_ns);
            then();
        };
        self.read_in(cold, Box::new(then));
    }

    /// Reads `slices` in, whether resident or not, then calls `then` on a thread of the pool.
    pub fn read_in(&self, slices: Vec<FileSlice>, then: Continuation) {
        self.shared.push(Job { slices: slices.into(), then });
    }

    /// Ends the threads. Responses that wait are sent without reading further.
    pub fn stop(&self) {
        self.shared.queue.lock().stopped = true;
        self.shared.wake.notify_all();
        self.shared.hurry.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a cold-read thread panicked");
            }
        }
    }

    fn cold_ranges(&self, pieces: &[Piece]) -> Vec<FileSlice> {
        let files = pieces.iter().filter_map(|piece| match piece {
            Piece::File(slice) if slice.length > 0 => Some(slice),
            _ => None,
        });
        files.filter(|slice| self.is_cold(slice)).cloned().collect()
    }

    /// Asks the kernel, unless the range is as good as in memory.
    fn is_cold(&self, slice: &FileSlice) -> bool {
        let is_fresh = slice.written_ms.is_some_and(|written_ms| {
            (0..FRESH_MS).contains(&self.shared.clock.wall_ms().saturating_sub(written_ms))
        });
        !is_fresh && !(self.is_resident)(slice)
    }
}

impl Drop for ColdReads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn push(&self, job: Job) {
        self.queue.lock().jobs.push_back(job);
        self.wake.notify_one();
    }

    /// The next job, and whether it is to be read; `None` at the end.
    fn take(&self) -> Option<(Job, bool)> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some((job, !queue.stopped));
            }
            if queue.stopped {
                return None;
            }
            self.wake.wait(&mut queue);
        }
    }

    fn serve(&self, null: &File) {
        while let Some((mut job, read)) = self.take() {
            if read {
                let pause = |bytes| self.keep_pace(bytes);
                let turn = || read_turn(&mut job.slices, self.turn_bytes, null, pause);
                // Dropped with its responder, the job answers for itself.
                let Some(bytes) = panics::contain("a cold read", turn) else { continue };
                self.bytes.add(bytes);
                if !job.slices.is_empty() {
                    self.push(job);
                    continue;
                }
            }
            panics::contain("what followed a cold read", job.then);
        }
    }

    /// Waits until `bytes` may be read; not at all at the end.
    fn keep_pace(&self, bytes: u64) {
        let produced = || self.metrics.count(Stage::Local, ApiKey::Produce as i16);
        let wait_ns = self.pace.lock().wait_ns(self.clock.monotonic_ns(), bytes, produced);
        if wait_ns > 0 {
            let wait = Duration::from_nanos(wait_ns);
            self.throttled.add_ns(wait_ns);
            self.hurry.wait_while_for(&mut self.queue.lock(), |queue| !queue.stopped, wait);
        }
    }
}

/// Reads up to `turn_bytes` of the ranges, each step after a `pause` for its bytes, and removes
/// what was read. Returns how much that was.
fn read_turn(
    slices: &mut VecDeque<FileSlice>,
    turn_bytes: u64,
    null: &File,
    pause: impl Fn(u64),
) -> u64 {
    let mut left = turn_bytes;
    for slice in slices.iter() {
        // Only what is asked for is read. It costs speed alone where the kernel does not take it.
        let _ = rustix::fs::fadvise(slice.file.as_fd(), 0, None, Advice::Random);
    }
    ask_for(slices, 0, AHEAD_BYTES);
    while left > 0
        && let Some(slice) = slices.front_mut()
    {
        let step = left.min(u64::from(slice.length)).min(STEP_BYTES);
        pause(step);
        let read = match read_step(slice, step, null) {
            Ok(read) if read > 0 => read.min(u64::from(slice.length)),
            // The end of a file cut short, or a disk that fails: the send will tell.
            Ok(_) => u64::from(slice.length),
            Err(error) => {
                tracing::debug!(%error, "a cold range could not be read in");
                u64::from(slice.length)
            }
        };
        left = left.saturating_sub(read);
        slice.position += read;
        // `read` is at most the length.
        slice.length -= u32::try_from(read).unwrap_or(slice.length);
        if slice.length == 0
            && let Some(done) = slices.pop_front()
            && slices.is_empty()
        {
            // A consumer that reads old records mostly goes on to the next ones.
            advise(&done, done.position, AHEAD_BYTES);
        }
        ask_for(slices, AHEAD_BYTES.saturating_sub(read), read);
    }
    turn_bytes - left
}

/// Lets the disk begin to read `bytes` of the ranges, after the first `skip` bytes. So a file of
/// many small ranges costs one wait, not one for each range.
fn ask_for(slices: &VecDeque<FileSlice>, mut skip: u64, bytes: u64) {
    let mut left = bytes;
    for slice in slices {
        let skipped = skip.min(slice.length.into());
        skip -= skipped;
        let length = left.min(u64::from(slice.length) - skipped);
        advise(slice, slice.position + skipped, length);
        left -= length;
        if left == 0 {
            return;
        }
    }
}

/// Asks for `bytes` of the slice's file, in steps. Advice the kernel does not take costs speed
/// alone.
fn advise(slice: &FileSlice, position: u64, bytes: u64) {
    let file = slice.file.as_fd();
    let end = position + bytes;
    for at in (position..end).step_by(STEP_BYTES as usize) {
        let length = NonZeroU64::new((end - at).min(STEP_BYTES));
        let _ = rustix::fs::fadvise(file, at, length, Advice::WillNeed);
    }
}

/// Waits until `bytes` from the start of `slice` are in the page cache, by sending them nowhere.
/// Returns how many are; 0 at the end of the file.
fn read_step(slice: &FileSlice, bytes: u64, null: &File) -> io::Result<u64> {
    let mut position = slice.position;
    let count = usize::try_from(bytes).unwrap_or(usize::MAX);
    let sent = loop {
        let file = slice.file.as_fd();
        match rustix::fs::sendfile(null.as_fd(), file, Some(&mut position), count) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    Ok(sent as u64)
}
