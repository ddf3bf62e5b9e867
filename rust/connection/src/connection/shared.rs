//! What callers of a connection and its task share: frames to write, and who waits for an answer.
//!
//! The task writes frames in the order in which they were queued.

use super::frames::FrameError;
use super::reply::{self, Reply, Sent};
use crate::config::ConnectionConfig;
use crate::error::ConnectionError;
use bytes::{Buf, Bytes};
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages::{ApiKey, Request};
use kafkalite_protocol::{WirePiece, Writer};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

/// Pieces of memory that one system call writes.
const PIECES_AT_A_TIME: usize = 64;

/// Both sides of a connection hold it.
pub struct Shared {
    /// As the connection was asked for.
    pub address: String,
    pub request_timeout: Duration,
    client_id: String,
    state: Mutex<State>,
    /// There are frames to write, or the connection ends.
    pub to_write: Notify,
    /// A deadline came that is earlier than the one the task sleeps for.
    pub earlier: Notify,
    /// The connection ended.
    over: Notify,
}

struct State {
    queue: Vec<Outgoing>,
    waiting: VecDeque<Waiting>,
    next_id: i32,
    /// When the task looks at deadlines next.
    armed: Option<Instant>,
    last_used: Instant,
    closed: Option<ConnectionError>,
}

/// A frame on its way out.
struct Outgoing {
    pieces: Vec<Bytes>,
    /// Told when the system took the last byte.
    written: Option<oneshot::Sender<()>>,
}

/// What the system has not taken yet: pieces of frames, the last of each with whom to tell.
#[derive(Default)]
pub struct Out(VecDeque<(Bytes, Option<oneshot::Sender<()>>)>);

/// How far writing came.
pub enum Progress {
    /// Everything that was queued is written.
    All,
    /// The system takes no more for now.
    Full,
    /// The connection ended.
    Over,
}

/// Is given the answer, or why there is none; must not wait, and may be called on any thread.
type Done = Box<dyn FnOnce(&Shared, Result<Bytes, ConnectionError>) + Send>;

/// Someone who waits for an answer.
struct Waiting {
    id: i32,
    api: ApiKey,
    began: Instant,
    deadline: Instant,
    done: Done,
}

impl Shared {
    pub fn new(address: String, config: &ConnectionConfig) -> Arc<Self> {
        Arc::new(Self {
            address,
            request_timeout: config.request_timeout,
            client_id: config.client_id.clone(),
            state: Mutex::new(State {
                queue: Vec::new(),
                waiting: VecDeque::new(),
                next_id: 0,
                armed: None,
                last_used: Instant::now(),
                closed: None,
            }),
            to_write: Notify::new(),
            earlier: Notify::new(),
            over: Notify::new(),
        })
    }

    /// Queues `request`, written in `version`, and has the task write it.
    pub fn send<R: Request>(
        self: &Arc<Self>,
        request: &R,
        version: i16,
        timeout: Duration,
    ) -> Reply<R> {
        let (reply, answer) = oneshot::channel();
        // The caller may have gone.
        let done: Done = Box::new(move |_, answer| drop(reply.send(answer)));
        match self.queue(request, version, timeout, done) {
            Ok(()) => {
                self.to_write.notify_one();
                Reply::new(answer, version, Arc::clone(self))
            }
            Err((error, _)) => Reply::failed(error, Arc::clone(self)),
        }
    }

    /// As [`Self::send`]; `done` is given the answer, on the thread that reads it.
    pub fn send_then<R: Request>(
        &self,
        request: &R,
        version: i16,
        timeout: Duration,
        done: impl FnOnce(Result<(i16, R::Response), ConnectionError>) + Send + 'static,
    ) {
        let done: Done = Box::new(move |shared, answer| {
            done(answer.and_then(|body| reply::decode::<R>(shared, version, body)));
        });
        match self.queue(request, version, timeout, done) {
            Ok(()) => self.to_write.notify_one(),
            Err((error, done)) => done(self, Err(error)),
        }
    }

    /// Queues `request`; the error is why it cannot be sent any more.
    fn queue<R: Request>(
        &self,
        request: &R,
        version: i16,
        timeout: Duration,
        done: Done,
    ) -> Result<(), (ConnectionError, Done)> {
        let began = Instant::now();
        let deadline = began + timeout;
        let mut state = self.state.lock();
        if let Some(error) = &state.closed {
            return Err((error.clone(), done));
        }
        let id = state.next_id();
        state.last_used = began;
        state.waiting.push_back(Waiting { id, api: R::API_KEY, began, deadline, done });
        let pieces = self.frame(request, version, id);
        state.queue.push(Outgoing { pieces, written: None });
        let earlier = state.armed.is_none_or(|armed| deadline < armed);
        if earlier {
            state.armed = Some(deadline);
        }
        drop(state);
        if earlier {
            self.earlier.notify_one();
        }
        Ok(())
    }

    /// Queues `request`, which the broker does not answer.
    pub fn send_unanswered<R: Request>(&self, request: &R, version: i16) -> Sent {
        let (written, taken) = oneshot::channel();
        let mut state = self.state.lock();
        if let Some(error) = &state.closed {
            return Sent::failed(error.clone());
        }
        let id = state.next_id();
        state.last_used = Instant::now();
        let pieces = self.frame(request, version, id);
        state.queue.push(Outgoing { pieces, written: Some(written) });
        drop(state);
        self.to_write.notify_one();
        Sent::new(taken, version, self.disconnected("it ended before the request was sent"))
    }

    /// A request with size and header.
    fn frame<R: Request>(&self, request: &R, version: i16, correlation_id: i32) -> Vec<Bytes> {
        let mut writer = Writer::new();
        writer.i32(0);
        let header = RequestHeader {
            api_key: R::API_KEY as i16,
            api_version: version,
            correlation_id,
            client_id: Some(self.client_id.clone()),
        };
        header.encode(&mut writer);
        request.encode(&mut writer, version);
        writer.patch_size();
        let pieces = writer.into_pieces().into_iter();
        pieces
            .filter_map(|piece| match piece {
                WirePiece::Mem(bytes) => Some(bytes),
                // Requests carry their records in memory.
                WirePiece::External { .. } => None,
            })
            .collect()
    }

    /// The frames that wait to be written; `None` when the connection ended.
    fn take_queue(&self) -> Option<Vec<Outgoing>> {
        let mut state = self.state.lock();
        if state.closed.is_some() { None } else { Some(std::mem::take(&mut state.queue)) }
    }

    /// Writes `out` and what is queued to `stream`, as far as the system takes it.
    pub fn write(&self, stream: &TcpStream, out: &mut Out) -> io::Result<Progress> {
        loop {
            let Some(queue) = self.take_queue() else { return Ok(Progress::Over) };
            for outgoing in queue {
                out.push(outgoing);
            }
            if out.0.is_empty() {
                return Ok(Progress::All);
            }
            let pieces = out.0.iter().take(PIECES_AT_A_TIME);
            let slices: Vec<IoSlice<'_>> = pieces.map(|(piece, _)| IoSlice::new(piece)).collect();
            match stream.try_write_vectored(&slices) {
                Ok(count) => out.written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Full);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives an answer, without its size, to the caller that waits for it; the error is what is
    /// wrong.
    pub fn answer(&self, frame: &Bytes) -> Result<(), String> {
        let Some(id) = frame.first_chunk::<4>().map(|id| i32::from_be_bytes(*id)) else {
            return Err("a response without a correlation id".to_owned());
        };
        let mut state = self.state.lock();
        let Some(first) = state.waiting.front() else {
            return Err(format!("a response with correlation id {id} to no request"));
        };
        if first.id != id {
            return Err(format!("correlation id {id}, {} was expected", first.id));
        }
        let waiting = state.waiting.pop_front().expect("it is there");
        state.last_used = Instant::now();
        drop(state);
        (waiting.done)(self, Ok(frame.slice(4..)));
        Ok(())
    }

    /// When to look at deadlines next, `None` for never; ends the connection if one has passed.
    pub fn check_deadlines(&self, now: Instant, max_idle: Option<Duration>) -> Option<Instant> {
        let mut state = self.state.lock();
        if let Some(at) = state.waiting.iter().position(|waiting| waiting.deadline <= now) {
            let late = state.waiting.remove(at).expect("it is there");
            drop(state);
            let after_ms = now.saturating_duration_since(late.began).as_millis() as u64;
            let what = format!("an answer of {} to {}", self.address, late.api.name());
            (late.done)(self, Err(ConnectionError::Timeout { what, after_ms }));
            self.close(self.disconnected(&format!("{} was not answered in time", late.api.name())));
            return None;
        }
        let idle_at = max_idle.and_then(|idle| state.last_used.checked_add(idle));
        if state.waiting.is_empty() && idle_at.is_some_and(|at| at <= now) {
            drop(state);
            self.close(self.disconnected("the connection was idle"));
            return None;
        }
        let first = state.waiting.iter().map(|waiting| waiting.deadline).min();
        // While something waits the connection is not idle, however long that takes.
        let idle_at = idle_at.filter(|at| *at > now);
        state.armed = first.into_iter().chain(idle_at).min();
        state.armed
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    pub fn in_flight(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Completes when the connection has ended.
    pub async fn ended(&self) {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            // Register first: what ends between the look and the wait is not missed.
            over.as_mut().enable();
            if self.is_closed() {
                return;
            }
            over.await;
        }
    }

    /// Ends the connection: everything that waits fails with `error`.
    pub fn close(&self, error: ConnectionError) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return;
        }
        tracing::debug!(%error, "connection ended");
        state.closed = Some(error.clone());
        let waiting = std::mem::take(&mut state.waiting);
        state.queue.clear();
        drop(state);
        for waiting in waiting {
            (waiting.done)(self, Err(error.clone()));
        }
        self.to_write.notify_one();
        self.over.notify_waiters();
    }

    /// What the broker sent cannot be.
    pub fn malformed(&self, why: impl Into<String>) -> ConnectionError {
        ConnectionError::MalformedResponse { address: self.address.clone(), why: why.into() }
    }

    /// What the broker sent is no response.
    pub fn no_response(&self, error: &FrameError) -> ConnectionError {
        match *error {
            FrameError::TooSmall { .. } => self.malformed(error.to_string()),
            FrameError::TooLarge { size, cap } => {
                let address = self.address.clone();
                ConnectionError::ResponseTooLarge { address, size, limit: cap }
            }
        }
    }

    pub fn disconnected(&self, why: &str) -> ConnectionError {
        ConnectionError::Disconnected { address: self.address.clone(), why: why.to_owned() }
    }
}

impl Out {
    fn push(&mut self, frame: Outgoing) {
        self.0.extend(frame.pieces.into_iter().map(|piece| (piece, None)));
        if let Some((_, written)) = self.0.back_mut() {
            *written = frame.written;
        }
    }

    /// The system took `count` bytes.
    fn written(&mut self, mut count: usize) {
        while let Some((first, _)) = self.0.front_mut() {
            if first.len() > count {
                first.advance(count);
                return;
            }
            count -= first.len();
            if let Some((_, Some(told))) = self.0.pop_front() {
                let _ = told.send(());
            }
        }
    }
}

impl State {
    fn next_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}
