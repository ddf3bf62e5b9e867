//! What was fetched and waits to be handed out: between the thread that fetches and the callers.
//!
//! The fetcher bounds it in bytes: it asks [`FetchBuffer::bytes`] before the next fetch, and is
//! woken when there is room again. Callers wait on it, or leave a [`Waker`] that is called once.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use parking_lot::{Condvar, Mutex};

use super::decode::Aborted;
use crate::consumer::cursor::{Cursor, Position};

/// What one fetch brought for one partition.
#[derive(Debug)]
pub struct Fetched {
    /// The place it was fetched for.
    pub cursor: Arc<Cursor>,
    /// Where the fetch began.
    pub from: Position,
    /// Batches, or why there are none.
    pub content: Content,
    _held: Held,
}

/// What there is for a partition.
#[derive(Debug)]
pub enum Content {
    /// Batches as they came, and the transactions among them that were aborted.
    Batches {
        /// The batches.
        bytes: Bytes,
        /// Their aborted transactions.
        aborted: Vec<Aborted>,
    },
    /// The partition cannot be read on from there.
    Refused(ErrorCode),
    /// Records before that place are no longer in the log, and no policy says where to go on. The
    /// offset is where the log parts from what was read, if the leader knows it.
    Truncated(Option<i64>),
    /// What came is no batch.
    Unreadable(String),
}

impl Content {
    /// Whether it is batches.
    #[must_use]
    pub fn is_batches(&self) -> bool {
        matches!(self, Self::Batches { .. })
    }
}

/// Bytes in the buffer, given back when dropped.
#[derive(Debug)]
struct Held {
    total: Arc<AtomicUsize>,
    cursor: Arc<Cursor>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::AcqRel);
        self.cursor.remove_buffered(self.bytes);
    }
}

/// Called once when there is something to look at; each wait makes its own.
pub type Waker = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inside {
    queue: VecDeque<Fetched>,
    waker: Option<Waker>,
    /// Something else than records wants the caller's attention.
    attention: bool,
}

/// A queue of [`Fetched`].
pub struct FetchBuffer {
    inside: Mutex<Inside>,
    changed: Condvar,
    bytes: Arc<AtomicUsize>,
}

impl Default for FetchBuffer {
    fn default() -> Self {
        Self {
            inside: Mutex::new(Inside::default()),
            changed: Condvar::new(),
            bytes: Arc::new(AtomicUsize::new(0)),
        }
    }
}

impl FetchBuffer {
    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Adds what one response brought, in order.
    pub fn push_all(&self, fetched: Vec<(Arc<Cursor>, Position, Content)>) {
        if fetched.is_empty() {
            return;
        }
        let fetched: Vec<_> = fetched
            .into_iter()
            .map(|(cursor, from, content)| {
                let bytes = match &content {
                    Content::Batches { bytes, .. } => bytes.len(),
                    _ => 0,
                };
                self.bytes.fetch_add(bytes, Ordering::AcqRel);
                cursor.add_buffered(bytes);
                let total = Arc::clone(&self.bytes);
                let held = Held { total, cursor: Arc::clone(&cursor), bytes };
                Fetched { cursor, from, content, _held: held }
            })
            .collect();
        let mut inside = self.inside.lock();
        inside.queue.extend(fetched);
        self.wake(inside);
    }

    /// The next that is neither stale nor paused; stale ones are dropped on the way. `is_begun`
    /// says of which cursors something is taken and not handed out: that comes first.
    ///
    /// Another thread may let a cursor go on at any moment. Of one that was passed over nothing is
    /// taken in the same look, or what was fetched later would come first.
    pub fn pop(&self, is_begun: impl Fn(&Arc<Cursor>) -> bool) -> Option<Fetched> {
        let mut inside = self.inside.lock();
        while inside.queue.front().is_some_and(|fetched| fetched.cursor.is_retired()) {
            inside.queue.pop_front();
        }
        let mut passed = HashSet::new();
        let at = inside.queue.iter().position(|Fetched { cursor, .. }| {
            let is_next =
                !passed.contains(&Arc::as_ptr(cursor)) && !is_begun(cursor) && cursor.is_open();
            if !is_next {
                passed.insert(Arc::as_ptr(cursor));
            }
            is_next
        })?;
        inside.queue.remove(at)
    }

    /// Whether something waits that can be handed out.
    pub fn has_open(&self) -> bool {
        self.inside.lock().queue.iter().any(|fetched| fetched.cursor.is_open())
    }

    /// Drops what no caller will take.
    pub fn drop_stale(&self) {
        self.inside.lock().queue.retain(|fetched| !fetched.cursor.is_retired());
    }

    /// Lets callers look at something else than records.
    pub fn call_attention(&self) {
        let mut inside = self.inside.lock();
        inside.attention = true;
        self.wake(inside);
    }

    /// Whether a call for attention waits.
    pub fn has_attention(&self) -> bool {
        self.inside.lock().attention
    }

    /// Whether a call for attention waited; takes the call away.
    pub fn take_attention(&self) -> bool {
        std::mem::take(&mut self.inside.lock().attention)
    }

    fn wake(&self, mut inside: parking_lot::MutexGuard<'_, Inside>) {
        let waker = inside.waker.take();
        drop(inside);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker();
        }
    }

    fn is_ready(inside: &Inside) -> bool {
        inside.attention || inside.queue.iter().any(|fetched| fetched.cursor.is_open())
    }

    /// Waits until there is something to look at, or until `deadline`.
    pub fn wait_until(&self, deadline: Instant) {
        let mut inside = self.inside.lock();
        while !Self::is_ready(&inside) {
            if self.changed.wait_until(&mut inside, deadline).timed_out() {
                return;
            }
        }
    }

    /// Calls `waker` as soon as there is something to look at, perhaps at once. An earlier one is
    /// forgotten.
    pub fn wake_when_ready(&self, waker: Waker) {
        let mut inside = self.inside.lock();
        inside.waker = Some(waker);
        if Self::is_ready(&inside) {
            self.wake(inside);
        }
    }

    /// Drops everything, stale or not.
    pub fn clear(&self) {
        let dropped = std::mem::take(&mut self.inside.lock().queue);
        drop(dropped);
    }
}
