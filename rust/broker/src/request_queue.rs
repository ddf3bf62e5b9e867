//! The request queue: three lanes of connections with pending frames, between network and I/O
//! threads.
//!
//! An item is a connection, not a frame: an I/O thread takes it, runs its frames in order and gives
//! it back. So appends of a connection happen in the order of its requests without a lock, and one
//! wake serves many frames. The control lane (heartbeats, coordinators, metadata, controller) has
//! room of its own and is polled before the data lane. So a backlog of produce requests ejects no
//! consumer. Every fifth turn is the data lane's, so a flood of metadata requests stops no produce.
//! What arrives on the listener of brokers takes a lane that is polled first: replica fetches never
//! queue behind produce requests. It leaves every fifth turn to the control lane, as clients may
//! use that listener as well. [`policy`] says which API takes which lane.
//!
//! The only entry for network threads is [`RequestQueue::submit`]. It runs a cheap request on the
//! caller's thread when nothing waits before it ([`InlineMode`]), and queues it otherwise. All
//! lanes are bounded in requests and bytes ([`room::Room`]). A connection whose frame finds no room
//! is not read until there is room.
//!
//! Source: Kafka's `RequestChannel`; its one queue blocks the network thread when full, this never.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crossbeam::queue::SegQueue;
use kafkalite_protocol::header::RequestHeader;
use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;
use crate::error::panics;
use crate::metrics::{Metrics, RecentRequest, Stage};
use crate::response_queue::Responder;

/// Connections of the lanes ahead that are served before one that waits in a lane behind them.
const TURNS_AHEAD: usize = 4;
/// How much of a client's name is remembered.
const REMEMBERED_CLIENT_ID_CHARS: usize = 256;

pub mod client_seen;
pub mod connection_requests;
pub mod inline;
pub mod parked;
pub mod policy;
pub mod room;
#[cfg(test)]
mod tests;

pub use client_seen::{ClientSeen, clipped};
pub use connection_requests::ConnectionRequests;
pub use inline::InlineGate;
pub use parked::Parked;
pub use policy::{ApiPolicy, Audience, Lane, PolicyOf, Principal};
pub use room::{Claim, Place, Room, RoomWaiters};

/// One request as a handler gets it.
pub struct Request {
    /// Its header, whose key and version were checked to be known.
    pub header: RequestHeader,
    /// The frame after the request header: a slice that pins the whole frame.
    pub body: Bytes,
    /// Where it came from; shared by all requests of the connection.
    pub context: Arc<RequestContext>,
    /// Which lane it takes.
    pub lane: Lane,
    /// The right, and the duty, to answer it.
    pub responder: Responder,
    /// When its frame was complete, on the monotonic clock.
    pub received_ns: u64,
}

/// Where a request came from.
#[derive(Debug)]
pub struct RequestContext {
    /// The client's end of the connection: its address.
    pub peer: SocketAddr,
    /// Our end of it.
    pub local: SocketAddr,
    /// Name of the listener it was accepted on.
    pub listener: Arc<str>,
    /// Who uses that listener.
    pub audience: Audience,
    /// Who sends the requests.
    pub principal: Principal,
    /// Unique for the life of the process.
    pub connection_id: u64,
    /// What is known of the client.
    pub client: ClientSeen,
    /// What an upper room notes of the connection, for as long as it lives. Test control does.
    pub notes: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl RequestContext {
    /// The origin of a connection's requests, for a listener without authentication.
    #[must_use]
    pub fn anonymous(
        (peer, local): (SocketAddr, SocketAddr),
        listener: Arc<str>,
        audience: Audience,
        connection_id: u64,
    ) -> Self {
        let (principal, client) = (Principal::anonymous(), ClientSeen::default());
        let notes = OnceLock::new();
        Self { peer, local, listener, audience, principal, connection_id, client, notes }
    }
}

/// Runs a request: `broker.rs` hands in the table of handlers.
pub type RunRequest = Arc<dyn Fn(Request) + Send + Sync>;

/// When a network thread runs requests itself: `kafkalite.request.inline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InlineMode {
    /// Cheap ones, while nothing waits before them.
    Auto,
    /// None: every request goes through the queue.
    Never,
    /// All that find nothing of their own connection before them, cheap or not.
    Always,
}

/// Bounds of one lane.
#[derive(Debug, Clone, Copy)]
pub struct LaneBounds {
    /// Requests queued or running.
    pub max_requests: usize,
    /// Bytes of their frames.
    pub max_bytes: usize,
}

/// What an I/O thread takes out.
pub enum Work {
    /// A connection with pending frames.
    Connection(Arc<ConnectionRequests>),
    /// Something to run that is no request: an expired operation, a deferred completion.
    Task(Box<dyn FnOnce() + Send>),
}

struct LaneQueue {
    items: SegQueue<Work>,
    room: Arc<Room>,
}

/// The queue itself.
pub struct RequestQueue {
    brokers: LaneQueue,
    control: LaneQueue,
    data: LaneQueue,
    waiters: Arc<RoomWaiters>,
    parked: Arc<Parked>,
    /// Connections of the lane of brokers served since the control lane had a turn of its own.
    ahead_of_control: AtomicUsize,
    /// Connections of both other lanes served since the data lane had a turn of its own.
    ahead_of_data: AtomicUsize,
    sleeping: AtomicUsize,
    idle: Mutex<()>,
    wake: Condvar,
    stopped: AtomicBool,
    run: RunRequest,
    policy_of: PolicyOf,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl RequestQueue {
    /// An empty queue; `run` is what becomes of every request, `policy_of` how each API travels.
    /// The lane of brokers has the bounds of the control lane.
    #[must_use]
    pub fn new(
        control: LaneBounds,
        data: LaneBounds,
        run: RunRequest,
        policy_of: PolicyOf,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let waiters = Arc::new(RoomWaiters::default());
        let lane = |name: &str, bounds: LaneBounds| {
            let room = Room::new(bounds.max_requests, bounds.max_bytes, Arc::clone(&waiters));
            let labels = || vec![("lane", name.to_owned())];
            let help = "Requests queued or running.";
            metrics.computed("kafkalite_request_queue_size", help, labels(), &room, |room| {
                i64::try_from(room.count()).unwrap_or(i64::MAX)
            });
            let help = "Bytes of the frames of requests queued or running.";
            metrics.computed("kafkalite_request_queue_bytes", help, labels(), &room, |room| {
                i64::try_from(room.bytes()).unwrap_or(i64::MAX)
            });
            LaneQueue { items: SegQueue::new(), room }
        };
        let parked = Parked::new(&waiters, &metrics);
        Arc::new(Self {
            brokers: lane("brokers", control),
            control: lane("control", control),
            data: lane("data", data),
            waiters,
            parked,
            ahead_of_control: AtomicUsize::new(0),
            ahead_of_data: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            idle: Mutex::new(()),
            wake: Condvar::new(),
            stopped: AtomicBool::new(false),
            run,
            policy_of,
            clock,
            metrics,
        })
    }

    /// How requests of this API travel.
    #[must_use]
    pub fn policy(&self, api_key: i16) -> ApiPolicy {
        (self.policy_of)(api_key)
    }

    /// The threads that are notified when room becomes free; a network thread registers its
    /// response queue.
    #[must_use]
    pub fn waiters(&self) -> &Arc<RoomWaiters> {
        &self.waiters
    }

    /// Memory of requests that wait: who begins and who holds such requests asks and says so here.
    #[must_use]
    pub fn parked(&self) -> &Arc<Parked> {
        &self.parked
    }

    /// Takes room for a frame of `bytes` in a lane; `None` while there is none. `claim` as in
    /// [`Room::enter`].
    #[must_use]
    pub fn enter(&self, lane: Lane, bytes: usize, claim: &mut Option<Claim>) -> Option<Place> {
        Room::enter(&self.lane(lane).room, bytes, claim)
    }

    /// Whether nothing is queued in any lane.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [&self.brokers, &self.control, &self.data].iter().all(|lane| lane.items.is_empty())
    }

    /// The only entry for network threads. Runs the request here and now if `gate` admits it and no
    /// request of its connection is queued or running; else queues it.
    ///
    /// Returns when it ended, if it ran: the caller need not look at the clock again.
    pub fn submit(
        &self,
        connection: &Arc<ConnectionRequests>,
        request: Request,
        place: Place,
        gate: &mut InlineGate,
    ) -> Option<u64> {
        let now_ns = request.received_ns;
        let may_run_inline = self.policy(request.header.api_key).inline
            && request.context.audience == Audience::Clients;
        if gate.admits(may_run_inline, place.bytes(), now_ns, || self.is_empty())
            && connection.begin_inline()
        {
            // It did not wait.
            let ended_ns = self.run_from(request, now_ns);
            connection.end_inline();
            drop(place);
            gate.record(ended_ns.saturating_sub(now_ns), ended_ns);
            Some(ended_ns)
        } else {
            self.enqueue(connection, request, place);
            None
        }
    }

    /// Queues a request of `connection` behind those it already has pending.
    pub fn enqueue(&self, connection: &Arc<ConnectionRequests>, request: Request, place: Place) {
        let lane = request.lane;
        if connection.push(request, place) {
            self.push(lane, Work::Connection(Arc::clone(connection)));
        }
    }

    /// Runs `task` on an I/O thread, behind the requests of the data lane.
    pub fn execute(&self, task: Box<dyn FnOnce() + Send>) {
        self.push(Lane::Data, Work::Task(task));
    }

    /// As [`Self::execute`], before the requests of clients: for what other brokers wait for.
    pub fn execute_for_brokers(&self, task: Box<dyn FnOnce() + Send>) {
        self.push(Lane::Brokers, Work::Task(task));
    }

    /// Puts a connection back whose budget was spent before its frames were.
    pub(crate) fn requeue(&self, lane: Lane, connection: Arc<ConnectionRequests>) {
        self.push(lane, Work::Connection(connection));
    }

    /// The next piece of work; waits for it. `None`: the queue was stopped and is empty.
    #[must_use]
    pub fn take(&self) -> Option<Work> {
        loop {
            if let Some(work) = self.try_take() {
                return Some(work);
            }
            let mut idle = self.idle.lock();
            self.sleeping.fetch_add(1, Ordering::Relaxed);
            // Pairs with the fence in `push`: either we see its item, or it sees us asleep.
            fence(Ordering::SeqCst);
            if self.is_empty() {
                if self.stopped.load(Ordering::Acquire) {
                    self.sleeping.fetch_sub(1, Ordering::Relaxed);
                    return None;
                }
                self.wake.wait(&mut idle);
            }
            self.sleeping.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The next piece of work; `None` if there is none. Brokers go first, then the control lane,
    /// then the data lane. After [`TURNS_AHEAD`] connections of the lanes ahead, a lane has one
    /// turn of its own: or a flood ahead would stop all that is behind.
    #[must_use]
    pub fn try_take(&self) -> Option<Work> {
        if is_due(&self.ahead_of_data)
            && let Some(work) = self.data.items.pop()
        {
            return Some(work);
        }
        let control = || self.control.items.pop();
        let brokers = || {
            let work = self.brokers.items.pop()?;
            self.ahead_of_control.fetch_add(1, Ordering::Relaxed);
            Some(work)
        };
        let ahead = match is_due(&self.ahead_of_control) {
            true => control().or_else(brokers),
            false => brokers().or_else(control),
        };
        if ahead.is_some() {
            self.ahead_of_data.fetch_add(1, Ordering::Relaxed);
            return ahead;
        }
        self.data.items.pop()
    }

    /// I/O threads end once what is queued has been run.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _idle = self.idle.lock();
        self.wake.notify_all();
    }

    /// Runs one request on this thread and records its stages; returns when it ended. A handler's
    /// panic ends here.
    pub(crate) fn run(&self, request: Request) -> u64 {
        let started_ns = self.clock.monotonic_ns();
        self.run_from(request, started_ns)
    }

    fn run_from(&self, mut request: Request, started_ns: u64) -> u64 {
        request.responder.started(started_ns);
        let api_key = request.header.api_key;
        let slot = request.responder.slot();
        let queued_ns = started_ns.saturating_sub(request.received_ns);
        self.metrics.record(Stage::RequestQueue, api_key, queued_ns);
        let recent = self.metrics.recent().map(|recent| {
            recent.push(remembered(&request, started_ns));
            (recent, request.context.connection_id, request.header.correlation_id)
        });
        panics::contain(format_args!("a handler of API {api_key}"), || (self.run)(request));
        let handled_ns = self.clock.monotonic_ns();
        self.metrics.record(Stage::Local, api_key, handled_ns.saturating_sub(started_ns));
        if let Some((connection, sequence)) = slot {
            connection.handled(sequence, handled_ns);
        }
        if let Some((recent, connection_id, correlation_id)) = recent {
            recent.note(connection_id, correlation_id, |entry| entry.handled_ns = Some(handled_ns));
        }
        handled_ns
    }

    fn lane(&self, lane: Lane) -> &LaneQueue {
        match lane {
            Lane::Brokers => &self.brokers,
            Lane::Control => &self.control,
            Lane::Data => &self.data,
        }
    }

    fn push(&self, lane: Lane, work: Work) {
        self.lane(lane).items.push(work);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) > 0 {
            // Under the lock, or the thread could be between its look at the queue and its sleep.
            let _idle = self.idle.lock();
            self.wake.notify_one();
        }
    }
}

/// Whether a lane has a turn of its own after so many of the lanes ahead; if so their count starts
/// again.
fn is_due(ahead: &AtomicUsize) -> bool {
    let is_due = ahead.load(Ordering::Relaxed) >= TURNS_AHEAD;
    if is_due {
        ahead.store(0, Ordering::Relaxed);
    }
    is_due
}

/// A client may send 32 KiB of a name with every request.
fn shortened(client_id: &str) -> String {
    client_id.chars().take(REMEMBERED_CLIENT_ID_CHARS).collect()
}

fn remembered(request: &Request, started_ns: u64) -> RecentRequest {
    RecentRequest {
        api_key: request.header.api_key,
        api_version: request.header.api_version,
        correlation_id: request.header.correlation_id,
        client_id: request.header.client_id.as_deref().map(shortened),
        connection_id: request.context.connection_id,
        peer: request.context.peer,
        received_ns: request.received_ns,
        started_ns,
        handled_ns: None,
        answered_ns: None,
        taken_ns: None,
        sent_ns: None,
    }
}
