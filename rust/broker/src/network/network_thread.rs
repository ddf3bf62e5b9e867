//! One network thread: a loop over its connections, from their first byte to their last.
//!
//! A turn polls, takes new connections and responses, writes, reads, and ends connections whose
//! deadline passed. Readiness is edge-triggered and remembered, so a paused connection costs
//! nothing: it is simply not read. Each connection gets a budget in a turn, and then the next
//! connection is served. The thread sleeps until an event or the earliest deadline. Only the first
//! response that arrives during its sleep wakes it.
//!
//! Source: Kafka's `Processor`; the budgets and the elided wake are ours.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam::queue::SegQueue;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use slab::Slab;

use super::buffer_pool::{Buffer, BufferPool};
use super::connection::{CloseReason, Connection};
use super::connection_limits::Permit;
use super::half_frames::{HalfFrames, Share, WaitsForMemory};
use super::open_connections::Listed;
use super::peer_log::PeerLog;
use super::socket::PeerSocket;
use super::{NetworkConfig, NetworkParts};
use crate::error::panics;
use crate::metrics::{Counter, TimeCounter};
use crate::request_queue::{InlineGate, RequestContext};
use crate::response_queue::{ConnectionResponses, ReadyResponse, ResponseQueue};

mod deadlines;
mod parting;
mod reading;
mod taking;
mod writing;

use parting::Parting;
use reading::Wanted;
use taking::Taking;

const WAKE: Token = Token(usize::MAX);

/// A connection on its way from the acceptor.
pub struct Accepted {
    /// Its socket, non-blocking.
    pub stream: PeerSocket,
    /// Where its requests come from.
    pub context: Arc<RequestContext>,
    /// Its share of the limits.
    pub permit: Permit,
    /// Its place among the open connections.
    pub listed: Listed,
}

/// What a network thread shares with others.
struct Shared {
    inbox: SegQueue<Accepted>,
    queue: Arc<ResponseQueue>,
    /// Connections served, and those on their way here.
    load: AtomicUsize,
    stopping: AtomicBool,
    stop_deadline_ns: AtomicU64,
}

/// Where the acceptor leaves connections for one thread.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Shared>,
}

impl Door {
    /// How many connections the thread has.
    #[must_use]
    pub fn load(&self) -> usize {
        self.shared.load.load(Ordering::Relaxed)
    }

    /// Gives it one more.
    pub fn push(&self, accepted: Accepted) {
        self.shared.load.fetch_add(1, Ordering::Relaxed);
        self.shared.inbox.push(accepted);
        self.shared.queue.poke();
    }
}

/// A running network thread.
pub struct ThreadHandle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ThreadHandle {
    /// The way in for new connections.
    #[must_use]
    pub fn door(&self) -> Door {
        Door { shared: Arc::clone(&self.shared) }
    }

    /// Begins no more requests; ends when all responses are out, or at `deadline_ns`.
    pub fn begin_stop(&self, deadline_ns: u64) {
        self.shared.stop_deadline_ns.store(deadline_ns, Ordering::Release);
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.queue.poke();
    }

    /// Waits for the end.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("a network thread panicked");
        }
    }
}

/// A connection and what the loop knows of its socket.
struct Served {
    stream: PeerSocket,
    connection: Connection,
    /// The socket may have bytes for us.
    readable: bool,
    /// The socket may take bytes.
    writable: bool,
    /// Since when the peer sends no more: what has arrived is still served.
    ended_ns: Option<u64>,
    /// Its end was announced, perhaps with bytes before it: read until the end shows.
    end_announced: bool,
    /// In `to_read` already.
    queued_to_read: bool,
    /// In `to_write` already.
    queued_to_write: bool,
    /// Held back by us: in `awaiting_room`, or waiting for answers.
    paused: bool,
    /// In `awaiting_room` already.
    awaits_room: bool,
    /// In `awaiting_memory` already, with its frame of this kind.
    awaits_memory: Option<WaitsForMemory>,
    /// The broker stops and the peer has every answer that it gets, but maybe not here yet.
    parting: Option<Parting>,
    /// Whether the peer takes its answer.
    taking: Taking,
    _permit: Permit,
    _listed: Listed,
}

/// Totals of one thread's work.
struct Totals {
    bytes_in: Counter,
    bytes_copied: Counter,
    bytes_zero_copy: Counter,
    busy: TimeCounter,
    wakes: Counter,
    closed: [Counter; CloseReason::ALL.len()],
}

impl Totals {
    fn new(parts: &NetworkParts, thread: usize) -> Self {
        let labels = || vec![("thread", thread.to_string())];
        let count = |name, help| parts.metrics.counter(name, help, labels());
        Self {
            bytes_in: count("kafkalite_network_bytes_in", "Bytes received."),
            bytes_copied: count("kafkalite_network_bytes_out_copied", "Bytes sent from memory."),
            bytes_zero_copy: count(
                "kafkalite_network_bytes_out_zero_copy",
                "Bytes sent from the page cache without a copy.",
            ),
            busy: parts.metrics.time(
                "kafkalite_network_thread_busy_seconds",
                "Time in which the thread was not waiting.",
                labels(),
            ),
            wakes: count("kafkalite_network_thread_polls", "Times the thread polled."),
            closed: CloseReason::ALL.map(|reason| {
                let labels =
                    vec![("thread", thread.to_string()), ("reason", reason.name().to_owned())];
                let help = "Connections closed, by reason.";
                parts.metrics.counter("kafkalite_connections_closed", help, labels)
            }),
        }
    }
}

/// The loop's own state.
pub struct NetworkThread {
    poll: Poll,
    shared: Arc<Shared>,
    config: Arc<NetworkConfig>,
    parts: NetworkParts,
    half_frames: Arc<HalfFrames>,
    /// Of the connections here that wait for room in a lane.
    wants_room: Wanted,
    /// As `wants_room`, for memory of large frames.
    wants_memory: Wanted,
    gate: InlineGate,
    connections: Slab<Served>,
    to_read: VecDeque<usize>,
    to_write: VecDeque<usize>,
    awaiting_room: VecDeque<usize>,
    /// By [`Share`]: what has no memory holds up none of another kind.
    awaiting_memory: [VecDeque<usize>; Share::ALL.len()],
    pool: Arc<BufferPool>,
    /// What small reads go into before they are copied out.
    spare: Option<Buffer>,
    ready: Vec<ReadyResponse>,
    next_scan_ns: u64,
    /// The connection that is being served, for whom a panic ends.
    at: Option<usize>,
    peer_log: PeerLog,
    totals: Totals,
}

impl NetworkThread {
    /// Starts thread number `i`.
    ///
    /// # Errors
    /// When the operating system refuses a thread or an epoll instance.
    pub fn start(
        i: usize,
        config: Arc<NetworkConfig>,
        parts: &NetworkParts,
        half_frames: Arc<HalfFrames>,
        pool: Arc<BufferPool>,
    ) -> io::Result<ThreadHandle> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let queue = Arc::new(ResponseQueue::new(Box::new(move || {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "a network thread cannot be woken");
            }
        })));
        let poked = Arc::downgrade(&queue);
        parts.clock.on_advance(Box::new(move || {
            if let Some(queue) = poked.upgrade() {
                queue.poke();
            }
        }));
        let labels = vec![("thread", i.to_string())];
        let help = "Connections with responses the network thread has not looked at.";
        parts.metrics.computed("kafkalite_response_queue_size", help, labels, &queue, |queue| {
            i64::try_from(queue.len()).unwrap_or(i64::MAX)
        });
        let wants_room = Wanted::new(parts.queue.waiters().register(Arc::clone(&queue)));
        let wants_memory = Wanted::new(half_frames.waiters().register(Arc::clone(&queue)));
        let shared = Arc::new(Shared {
            inbox: SegQueue::new(),
            queue,
            load: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            stop_deadline_ns: AtomicU64::new(u64::MAX),
        });
        let gate = InlineGate::new(config.inline, config.inline_max_bytes);
        let thread = Self {
            poll,
            shared: Arc::clone(&shared),
            parts: parts.clone(),
            half_frames,
            wants_room,
            wants_memory,
            gate,
            connections: Slab::new(),
            to_read: VecDeque::new(),
            to_write: VecDeque::new(),
            awaiting_room: VecDeque::new(),
            awaiting_memory: Default::default(),
            pool,
            spare: None,
            ready: Vec::new(),
            next_scan_ns: u64::MAX,
            at: None,
            peer_log: PeerLog::default(),
            totals: Totals::new(parts, i),
            config,
        };
        let thread = std::thread::Builder::new()
            .name(format!("kafkalite-network-{i}"))
            .spawn(move || thread.run())?;
        Ok(ThreadHandle { shared, thread: Mutex::new(Some(thread)) })
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut awake_ns = self.now_ns();
        while !self.is_over() {
            let timeout = self.timeout();
            let parked = timeout.is_none_or(|timeout| !timeout.is_zero());
            // Something arrived between the last look and now: poll, but do not sleep.
            let may_sleep = parked && self.shared.queue.park();
            let timeout = if may_sleep { timeout } else { Some(std::time::Duration::ZERO) };
            self.totals.busy.add_ns(self.now_ns().saturating_sub(awake_ns));
            let polled = self.poll.poll(&mut events, timeout);
            awake_ns = self.now_ns();
            self.shared.queue.unpark();
            self.totals.wakes.add(1);
            match polled {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "a network thread cannot wait for its sockets");
                    break;
                }
            }
            let turned = panics::contain("a turn of a network thread", || {
                for event in &events {
                    self.note_readiness(event);
                }
                self.turn();
            });
            if turned.is_none() {
                self.close_panicked();
            }
        }
        self.close_all(CloseReason::Stopped);
        // Those that came too late to be served: others hold this thread's inbox as well.
        while self.shared.inbox.pop().is_some() {
            self.shared.load.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn close_all(&mut self, reason: CloseReason) {
        let open: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in open {
            self.close(key, reason, "");
        }
    }

    /// Closes the connection that was served when the thread panicked. The others go on. If no
    /// connection was being served, the state of all is unknown, so all are closed and connect
    /// again.
    fn close_panicked(&mut self) {
        match self.at.take() {
            Some(key) => self.close(key, CloseReason::Panicked, ""),
            None => self.close_all(CloseReason::Panicked),
        }
    }

    /// One round over everything that can move.
    fn turn(&mut self) {
        self.gate.next_turn();
        self.accept();
        if self.shared.queue.take_poke() {
            self.retry_awaiting_room();
            self.retry_awaiting_memory();
        }
        self.take_responses();
        // Only what is in the lists now: a connection that spent its budget comes next turn. What
        // came in goes first: it is short, and the rest of a replay can wait.
        for _ in 0..self.to_read.len() {
            if let Some(key) = self.to_read.pop_front() {
                self.at = Some(key);
                self.read_turn(key);
                // What ran inline is answered: one write for all responses of the connection.
                self.take_responses();
            }
        }
        let mut left = writing::TURN_BYTES as u64;
        for _ in 0..self.to_write.len() {
            if left > 0
                && let Some(key) = self.to_write.pop_front()
            {
                self.at = Some(key);
                left = left.saturating_sub(self.write_turn(key));
            }
        }
        self.at = None;
        if self.is_stopping() {
            self.part();
        }
        self.end_overdue();
    }

    fn note_readiness(&mut self, event: &mio::event::Event) {
        let key = event.token().0;
        let Some(served) = self.connections.get_mut(key) else { return };
        served.end_announced |= event.is_read_closed() || event.is_error();
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            served.readable = true;
            self.queue_to_read(key);
        }
        if event.is_writable() || event.is_error() {
            let Some(served) = self.connections.get_mut(key) else { return };
            served.writable = true;
            if !served.connection.output.is_empty() {
                self.queue_to_write(key);
            }
        }
    }

    fn accept(&mut self) {
        while let Some(accepted) = self.shared.inbox.pop() {
            let Accepted { mut stream, context, permit, listed } = accepted;
            let now_ns = self.now_ns();
            let entry = self.connections.vacant_entry();
            let key = entry.key();
            let interest = Interest::READABLE | Interest::WRITABLE;
            if let Err(error) = self.poll.registry().register(&mut *stream, Token(key), interest) {
                tracing::warn!(peer = %context.peer, %error, "cannot serve a connection");
                self.shared.load.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (queue, clock) = (Arc::clone(&self.shared.queue), Arc::clone(&self.parts.clock));
            let responses = ConnectionResponses::new(key, queue, clock);
            entry.insert(Served {
                stream,
                connection: Connection::new(context, responses, &self.config, now_ns),
                readable: true,
                writable: true,
                ended_ns: None,
                end_announced: false,
                queued_to_read: false,
                queued_to_write: false,
                paused: false,
                awaits_room: false,
                awaits_memory: None,
                parting: None,
                taking: Taking::default(),
                _permit: permit,
                _listed: listed,
            });
            self.queue_to_read(key);
            self.schedule_scan(key);
        }
    }

    fn queue_to_read(&mut self, key: usize) {
        if let Some(served) = self.connections.get_mut(key)
            && !std::mem::replace(&mut served.queued_to_read, true)
        {
            self.to_read.push_back(key);
        }
    }

    fn queue_to_write(&mut self, key: usize) {
        if let Some(served) = self.connections.get_mut(key)
            && !std::mem::replace(&mut served.queued_to_write, true)
        {
            self.to_write.push_back(key);
        }
    }

    fn close(&mut self, key: usize, reason: CloseReason, why: &str) {
        let Some(mut served) = self.connections.try_remove(key) else { return };
        // Closing the descriptor would deregister it as well; a failure changes nothing.
        let _ = self.poll.registry().deregister(&mut *served.stream);
        self.shared.load.fetch_sub(1, Ordering::Relaxed);
        self.totals.closed[reason as usize].add(1);
        let peer = served.connection.context().peer;
        if reason.is_offence() && self.peer_log.may_name(peer.ip(), self.now_ns()) {
            tracing::warn!(%peer, reason = reason.name(), why, "closed a connection");
        } else {
            tracing::debug!(%peer, reason = reason.name(), why, "closed a connection");
        }
    }

    fn now_ns(&self) -> u64 {
        self.parts.clock.monotonic_ns()
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Whether the thread was asked to stop, and has closed every connection or has no time left.
    fn is_over(&self) -> bool {
        self.is_stopping()
            && (self.connections.is_empty()
                || self.now_ns() >= self.shared.stop_deadline_ns.load(Ordering::Acquire))
    }
}
