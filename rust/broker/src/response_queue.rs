//! The way back: one response queue for each network thread, and the `Responder` that fills it.
//!
//! A request owns one [`Responder`]. Sending consumes it, so nothing is answered twice; dropping it
//! unsent closes the connection, so nothing is forgotten either. The response goes into the slot
//! its request opened on the connection ([`slots::ResponseSlots`]), and responses leave in the
//! order of the slots. The [`ResponseQueue`] of the connection's network thread notes the response,
//! and wakes the thread only if it is parked. One wake serves every response that arrives until the
//! thread looks.
//!
//! Source: Kafka's `RequestChannel` and the response queue of its `Processor`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use bytes::Bytes;
use crossbeam::queue::SegQueue;
use kafkalite_log::FileSlice;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::clock::Clock;

pub mod slots;
#[cfg(test)]
pub(crate) mod tests;

pub use slots::{Answer, Overlap, ReadyResponse, ResponseSlots, Slot};

/// A part of a response frame.
#[derive(Clone)]
pub enum Piece {
    /// Bytes in memory.
    Mem(Bytes),
    /// A range of a segment's `.log`, sent from the page cache without copying.
    File(FileSlice),
}

impl Piece {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Mem(bytes) => bytes.len(),
            Self::File(slice) => slice.length as usize,
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a request is answered with.
pub enum Response {
    /// One complete frame: its 4-byte size, the response header, the body.
    Pieces(SmallVec<[Piece; 4]>),
    /// Nothing is sent: a produce with acks=0 that went well.
    NoResponse,
    /// The connection is closed once the responses before this one are out.
    Close,
}

impl Response {
    /// A frame that lies in memory in one run.
    #[must_use]
    pub fn frame(frame: Bytes) -> Self {
        let mut pieces = SmallVec::new();
        pieces.push(Piece::Mem(frame));
        Self::Pieces(pieces)
    }
}

/// The responses on their way to one network thread.
pub struct ResponseQueue {
    /// Connections with responses to take, by the thread's own key for them. A key that was reused
    /// meanwhile makes the thread look at a connection without need, nothing worse.
    connections: SegQueue<usize>,
    /// The thread is about to sleep or sleeps: the thread that clears this wakes it.
    parked: AtomicBool,
    /// Something other than a response wants the thread's attention.
    poked: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl ResponseQueue {
    /// A queue whose thread is woken by `wake`.
    #[must_use]
    pub fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let (connections, parked) = (SegQueue::new(), AtomicBool::new(false));
        Self { connections, parked, poked: AtomicBool::new(false), wake }
    }

    /// Tells the thread that connection `key` has responses to take.
    pub fn push(&self, key: usize) {
        self.connections.push(key);
        self.wake_if_parked();
    }

    /// Makes the thread look around: room became free, a connection was accepted, time moved.
    pub fn poke(&self) {
        self.poked.store(true, Ordering::Release);
        self.wake_if_parked();
    }

    /// Whether the thread was poked since it last asked.
    #[must_use]
    pub fn take_poke(&self) -> bool {
        self.poked.load(Ordering::Relaxed) && self.poked.swap(false, Ordering::AcqRel)
    }

    fn wake_if_parked(&self) {
        // Pairs with the fence in `park`: either it sees what we pushed, or we see it parked.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// The next connection to look at.
    #[must_use]
    pub fn pop(&self) -> Option<usize> {
        self.connections.pop()
    }

    /// The thread is about to sleep. `false`: something arrived meanwhile, do not.
    #[must_use]
    pub fn park(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.connections.is_empty() && !self.poked.load(Ordering::Relaxed) {
            return true;
        }
        self.unpark();
        false
    }

    /// The thread is awake again.
    pub fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Connections waiting to be looked at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// The responses of one connection, shared by its network thread and its responders.
pub struct ConnectionResponses {
    slots: Mutex<ResponseSlots>,
    /// Frames begun and not answered; read without the lock.
    unanswered: AtomicUsize,
    queue: Arc<ResponseQueue>,
    key: usize,
    clock: Arc<dyn Clock>,
}

impl ConnectionResponses {
    /// No response expected yet. `key` names the connection to its network thread.
    #[must_use]
    pub fn new(key: usize, queue: Arc<ResponseQueue>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::new(ResponseSlots::default()),
            unanswered: AtomicUsize::new(0),
            queue,
            key,
            clock,
        })
    }

    /// Whether a request of this kind may start now, and be answered after those before it.
    #[must_use]
    pub fn may_open(&self, overlap: Overlap) -> bool {
        self.unanswered() == 0 || self.slots.lock().may_open(overlap)
    }

    /// Requests begun and not answered.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Acquire)
    }

    /// Opens the next slot and returns the one responder for it.
    #[must_use]
    pub fn open(self: &Arc<Self>, slot: Slot) -> Responder {
        let (api_key, api_version) = (slot.api_key, slot.api_version);
        let mut slots = self.slots.lock();
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let sequence = slots.open(slot);
        let connection = Arc::clone(self);
        let to = Some(To::Slot { connection, sequence });
        Responder { to, api_key, api_version, started_ns: None }
    }

    /// The handler of the request returned, or panicked.
    pub fn handled(&self, sequence: u64, handled_ns: u64) {
        self.slots.lock().handled(sequence, handled_ns);
    }

    /// Whether no request is open: all are answered, and their responses taken.
    #[must_use]
    pub fn are_taken(&self) -> bool {
        self.unanswered() == 0 && self.slots.lock().is_empty()
    }

    /// Takes the responses whose turn it is.
    pub fn take_ready(&self, ready: &mut Vec<ReadyResponse>) {
        self.slots.lock().take_ready(ready);
    }

    fn answer(&self, sequence: u64, answer: Answer, started_ns: Option<u64>) {
        let answered_ns = self.clock.monotonic_ns();
        let notify = {
            let mut slots = self.slots.lock();
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
            slots.answer_started(sequence, answer, started_ns, answered_ns)
        };
        if notify {
            self.queue.push(self.key);
        }
    }
}

enum To {
    Slot {
        connection: Arc<ConnectionResponses>,
        sequence: u64,
    },
    /// For requests that came from no socket.
    Closure(Box<dyn FnOnce(Response) + Send>),
}

/// The right, and the duty, to answer one request.
pub struct Responder {
    to: Option<To>,
    api_key: i16,
    api_version: i16,
    /// When the handler started, once it has.
    started_ns: Option<u64>,
}

impl Responder {
    /// A responder that gives the response to `receive`: for tests, and requests without a socket.
    #[must_use]
    pub fn to(
        api_key: i16,
        api_version: i16,
        receive: impl FnOnce(Response) + Send + 'static,
    ) -> Self {
        let to = Some(To::Closure(Box::new(receive)));
        Self { to, api_key, api_version, started_ns: None }
    }

    /// Answers the request.
    pub fn send(mut self, response: Response) {
        self.finish(response);
    }

    /// Kafka's number of the request's API.
    #[must_use]
    pub fn api_key(&self) -> i16 {
        self.api_key
    }

    /// The version the request was written in, and the response must be.
    #[must_use]
    pub fn api_version(&self) -> i16 {
        self.api_version
    }

    /// Where the answer will go, for a thread that runs the handler and notes its return.
    pub(crate) fn slot(&self) -> Option<(Arc<ConnectionResponses>, u64)> {
        match &self.to {
            Some(To::Slot { connection, sequence }) => Some((Arc::clone(connection), *sequence)),
            _ => None,
        }
    }

    /// The handler starts: the answer tells it.
    pub(crate) fn started(&mut self, started_ns: u64) {
        self.started_ns = Some(started_ns);
    }

    fn finish(&mut self, response: Response) {
        match self.to.take() {
            Some(To::Slot { connection, sequence }) => {
                connection.answer(sequence, Answer::Response(response), self.started_ns);
            }
            Some(To::Closure(receive)) => receive(response),
            None => {}
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish(Response::Close);
        } else if let Some(To::Slot { connection, sequence }) = self.to.take() {
            // The network thread answers UNKNOWN_SERVER_ERROR: nothing that could panic again
            // runs here.
            connection.answer(sequence, Answer::Panicked, self.started_ns);
        }
    }
}
