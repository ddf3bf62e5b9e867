//! Connections of the admin port: few, each with a deadline, and ended in every process.
//!
//! A client has [`Limits::request`] from the first byte of a request to the last byte of its head.
//! The answer may take [`Limits::answer`] then: a change waits for the controller and for replicas.
//! A client has [`Limits::idle`] to begin a request or to take more of an answer. Beyond
//! [`Limits::connections`] each new connection ends the one that has been still for longest. So
//! clients that keep unused connections cannot make a health probe wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

/// Pause after an `accept` that failed, for want of descriptors for instance.
const BACK_OFF: Duration = Duration::from_millis(100);

/// How many clients there may be, and how slow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open connections.
    pub connections: usize,
    /// From the first byte of a request to the end of its head.
    pub request: Duration,
    /// From then on to the first byte of the answer.
    pub answer: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (request, idle) = (Duration::from_secs(5), Duration::from_secs(15));
        Self { connections: 64, request, answer: Duration::from_secs(60), idle }
    }
}

/// Whether the head of a request has arrived on a connection, and its answer not begun.
#[derive(Debug, Clone, Default)]
pub(super) struct Answering(Arc<AtomicBool>);

impl Answering {
    /// The head is there.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Forgets it; returns what it was.
    fn end(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// The connections that are open, and when something moved on each.
#[derive(Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, (OwnedFd, Instant)>,
}

impl Open {
    /// Adds a connection, and ends another if there are more than `most` now. Returns its number.
    fn add(&mut self, stream: &TcpStream, most: usize) -> io::Result<u64> {
        let number = self.next;
        self.connections.insert(number, (stream.as_fd().try_clone_to_owned()?, Instant::now()));
        self.next += 1;
        if self.connections.len() > most {
            let others = self.connections.iter().filter(|(other, _)| **other != number);
            let stillest = others.min_by_key(|(_, (_, moved))| *moved).map(|(other, _)| *other);
            if let Some((socket, _)) = stillest.and_then(|other| self.connections.remove(&other)) {
                end(&socket);
            }
        }
        Ok(number)
    }

    fn moved(&mut self, number: u64) {
        if let Some((_, moved)) = self.connections.get_mut(&number) {
            *moved = Instant::now();
        }
    }
}

/// Ends a connection for every holder of a copy of its socket.
fn end(socket: &impl AsFd) {
    // Refused where the peer has ended it before; on macOS for listeners, where only a forked
    // child with a copy would notice.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// Accepts within its limits. Dropped, it listens no more, also where a process that was forked
/// meanwhile has a copy of the socket.
pub(super) struct BoundedListener {
    listener: TcpListener,
    open: Arc<Mutex<Open>>,
    limits: Limits,
}

impl BoundedListener {
    pub(super) fn new(listener: std::net::TcpListener, limits: Limits) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::from_std(listener)?, open: Arc::default(), limits })
    }
}

impl Drop for BoundedListener {
    fn drop(&mut self) {
        end(&self.listener);
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            let accepted = self.listener.accept().await.and_then(|(stream, peer)| {
                let number = self.open.lock().add(&stream, self.limits.connections)?;
                Ok((stream, peer, number))
            });
            match accepted {
                Ok((stream, peer, number)) => {
                    let deadline = Box::pin(sleep(self.limits.idle));
                    let (limits, has_begun) = (self.limits, false);
                    let open = Arc::clone(&self.open);
                    let answering = Answering::default();
                    let stream = BoundedStream {
                        stream,
                        limits,
                        deadline,
                        has_begun,
                        answering,
                        open,
                        number,
                    };
                    return (stream, peer);
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection to the admin port");
                    sleep(BACK_OFF).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection; shut down when it is dropped.
pub(super) struct BoundedStream {
    stream: TcpStream,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// Part of a request was read since the last answer.
    has_begun: bool,
    answering: Answering,
    open: Arc<Mutex<Open>>,
    number: u64,
}

impl BoundedStream {
    /// What says that an answer is being made.
    pub(super) fn answering(&self) -> Answering {
        self.answering.clone()
    }

    /// What came of an operation, or the end of the connection if it has waited for too long.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        while outcome.is_pending() && self.deadline.as_mut().poll(context).is_ready() {
            if !self.answering.end() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let more = self.limits.answer;
            self.deadline.as_mut().reset(Instant::now() + more);
        }
        outcome
    }

    fn has_written(&mut self) {
        self.open.lock().moved(self.number);
        self.has_begun = false;
        self.answering.end();
        self.deadline.as_mut().reset(Instant::now() + self.limits.idle);
    }
}

impl Drop for BoundedStream {
    fn drop(&mut self) {
        end(&self.stream);
        let left = self.open.lock().connections.remove(&self.number);
        drop(left);
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(outcome, Poll::Ready(Ok(()))) {
            self.open.lock().moved(self.number);
            if !self.has_begun {
                self.has_begun = true;
                let until = Instant::now() + self.limits.request;
                self.deadline.as_mut().reset(until);
            }
        }
        self.in_time(context, outcome)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(outcome, Poll::Ready(Ok(_))) {
            self.has_written();
        }
        self.in_time(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if matches!(outcome, Poll::Ready(Ok(_))) {
            self.has_written();
        }
        self.in_time(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
