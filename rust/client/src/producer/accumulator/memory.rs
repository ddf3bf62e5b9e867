//! `buffer.memory`: the bytes that batches may take before they are delivered.
//!
//! Taking memory is one atomic operation while no caller waits. A caller that finds none waits in
//! line. The first in line is served first, so that small records cannot always pass a large one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// Buffers kept for the next batch; each has at most the size of a batch.
const SPARE_BUFFERS: usize = 16;

/// Told once that memory became free, or that waiting is over.
pub type Wake = Box<dyn FnOnce() + Send>;

/// A place in the line of those that wait for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// A caller in line.
struct Waiter {
    ticket: Ticket,
    /// How many bytes it wants, and what tells it that they may be there.
    wake: Option<(usize, Wake)>,
}

#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    next: u64,
    closed: bool,
}

/// The memory of one producer.
pub struct Memory {
    limit: usize,
    used: AtomicUsize,
    /// Tickets in line; read without the lock.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    freed: Condvar,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Memory {
    /// At most `limit` bytes, all of them free.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            freed: Condvar::new(),
            spare: Mutex::default(),
        })
    }

    /// Bytes taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes there are.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a caller waits: then batches leave before their time.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes `bytes`, unless there are too few or another caller is ahead in line.
    #[must_use]
    pub fn try_reserve(
        self: &Arc<Self>,
        bytes: usize,
        ticket: Option<Ticket>,
    ) -> Option<Reservation> {
        if self.waiting.load(Ordering::SeqCst) > 0 && !self.is_first(ticket) {
            return None;
        }
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .ok()?;
        Some(Reservation { memory: Arc::clone(self), bytes })
    }

    fn is_first(&self, ticket: Option<Ticket>) -> bool {
        let line = self.line.lock();
        line.waiters.front().is_none_or(|first| Some(first.ticket) == ticket)
    }

    /// Gets in line; [`Self::leave`] must follow.
    #[must_use]
    pub fn enter(&self) -> Ticket {
        let mut line = self.line.lock();
        let ticket = Ticket(line.next);
        line.next += 1;
        line.waiters.push_back(Waiter { ticket, wake: None });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        ticket
    }

    /// Gets out of line, with what was wanted or without; the next one looks again.
    pub fn leave(&self, ticket: Ticket) {
        let mut line = self.line.lock();
        if let Some(at) = line.waiters.iter().position(|waiter| waiter.ticket == ticket) {
            line.waiters.remove(at);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        self.tell(line);
    }

    /// Waits until memory became free, the producer closes, or `until`; `false` for the last.
    ///
    /// What became free may be taken by the time this returns: try again.
    pub fn wait(&self, ticket: Ticket, bytes: usize, until: Instant) -> bool {
        let mut line = self.line.lock();
        while !self.is_worth_trying(&line, ticket, bytes) {
            if self.freed.wait_until(&mut line, until).timed_out() {
                return self.is_worth_trying(&line, ticket, bytes);
            }
        }
        true
    }

    /// Calls `wake` once, when the ticket is the first in line and `bytes` are free, or when the
    /// producer closes. The call comes at once if that holds now.
    pub fn subscribe(&self, ticket: Ticket, bytes: usize, wake: Wake) {
        let mut line = self.line.lock();
        let is_due = self.is_worth_trying(&line, ticket, bytes);
        match line.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) {
            Some(waiter) if !is_due => waiter.wake = Some((bytes, wake)),
            _ => {
                drop(line);
                wake();
            }
        }
    }

    fn is_worth_trying(&self, line: &Line, ticket: Ticket, bytes: usize) -> bool {
        let first = line.waiters.front().is_none_or(|front| front.ticket == ticket);
        line.closed || (first && self.used.load(Ordering::SeqCst) + bytes <= self.limit)
    }

    /// No caller waits any more; memory in use stays in use until it is dropped.
    pub fn close(&self) {
        let mut line = self.line.lock();
        line.closed = true;
        self.tell(line);
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        // A caller that gets in line after this load reads `used` after this subtraction.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.tell(self.line.lock());
        }
    }

    /// Wakes the first in line if there is enough for it, and all callers once it is closed.
    fn tell(&self, mut line: parking_lot::MutexGuard<'_, Line>) {
        let closed = line.closed;
        let count = if closed { line.waiters.len() } else { 1 };
        let fits = |bytes| self.used.load(Ordering::SeqCst) + bytes <= self.limit;
        let due = line.waiters.iter_mut().take(count).filter_map(|waiter| {
            waiter.wake.take_if(|(bytes, _)| closed || fits(*bytes)).map(|(_, wake)| wake)
        });
        let due: Vec<Wake> = due.collect();
        self.freed.notify_all();
        drop(line);
        for wake in due {
            wake();
        }
    }

    /// A buffer with room for `bytes` and at most for twice as many; one used before if there is.
    #[must_use]
    pub fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut spare = self.spare.lock();
        let fits = |buffer: &Vec<u8>| (bytes..=2 * bytes).contains(&buffer.capacity());
        match spare.iter().rposition(fits) {
            Some(at) => spare.swap_remove(at),
            None => {
                drop(spare);
                Vec::with_capacity(bytes)
            }
        }
    }

    /// Keeps a buffer for the next batch: the pages of a fresh one cost more than its records.
    pub fn recycle(&self, mut buffer: Vec<u8>, at_most: usize) {
        if buffer.capacity() > at_most {
            return;
        }
        buffer.clear();
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        } else if let Some(first) = spare.first_mut() {
            // The sizes in use change: what is asked for now is what came back last.
            *first = buffer;
        }
    }
}

/// Bytes taken; dropped, they are free again.
pub struct Reservation {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Reservation {
    /// How many.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives `bytes` of it, at most all, to a reservation of their own.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { memory: Arc::clone(&self.memory), bytes }
    }

    /// Adds another reservation of the same memory.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.release(self.bytes);
        }
    }
}
