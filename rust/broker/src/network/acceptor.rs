//! Listeners, and the one thread that accepts on all of them.
//!
//! A new connection goes to the network thread that serves the fewest. An `accept` that fails for
//! lack of descriptors or memory is tried again a little later, without spinning. Meanwhile clients
//! wait in the listen backlog, as they do while `max.connections` is reached.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};

use super::connection_limits::ConnectionLimits;
use super::network_thread::{Accepted, Door};
use super::open_connections::OpenConnections;
use super::peer_log::PeerLog;
use super::socket::{ListeningSocket, PeerSocket};
use super::{ListenerConfig, NetworkConfig, NetworkParts, socket};
use crate::clock::Clock;
use crate::error::panics;
use crate::metrics::Counter;
use crate::request_queue::{Audience, RequestContext};

#[cfg(test)]
mod tests;

/// Pause after an `accept` that failed for want of resources.
const BACK_OFF: Duration = Duration::from_millis(100);
const WAKE: Token = Token(usize::MAX);
/// How often a port is looked for that is free at every address of a host.
const PORT_TRIES: usize = 16;

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process, or another listener of ours, has the port.
    #[error("listener {listener}: port {port} of {host:?} is taken")]
    PortTaken {
        /// Name of the listener.
        listener: String,
        /// Host as configured.
        host: String,
        /// Port as configured.
        port: u16,
    },
    /// Ports below 1024 are for root.
    #[error("listener {listener}: binding port {port} of {host:?} is not permitted")]
    NotPermitted {
        /// Name of the listener.
        listener: String,
        /// Host as configured.
        host: String,
        /// Port as configured.
        port: u16,
    },
    /// The host has no address, or none of this machine.
    #[error("listener {listener}: {host:?} is no address of this machine: {source}")]
    UnknownHost {
        /// Name of the listener.
        listener: String,
        /// Host as configured.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else.
    #[error("listener {listener}: cannot listen on {host:?}:{port}: {source}")]
    Other {
        /// Name of the listener.
        listener: String,
        /// Host as configured.
        host: String,
        /// Port as configured.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

impl BindError {
    fn new(config: &ListenerConfig, source: io::Error) -> Self {
        let (listener, host, port) = (config.name.clone(), config.host.clone(), config.port);
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::PortTaken { listener, host, port },
            io::ErrorKind::PermissionDenied => Self::NotPermitted { listener, host, port },
            io::ErrorKind::AddrNotAvailable => Self::UnknownHost { listener, host, source },
            _ => Self::Other { listener, host, port, source },
        }
    }
}

/// What a connection takes from the listener that accepted it.
#[derive(Debug, Clone)]
struct ListenerIdentity {
    name: Arc<str>,
    audience: Audience,
}

/// A bound listener that accepts nothing yet.
#[derive(Debug)]
pub struct Listener {
    identity: ListenerIdentity,
    /// One for each address of its host; one at least. They share a port.
    sockets: Vec<BoundSocket>,
}

#[derive(Debug)]
struct BoundSocket {
    address: SocketAddr,
    socket: ListeningSocket,
    /// Congestion control of connections that do not come over loopback, if not the listener's.
    congestion_elsewhere: Option<String>,
}

impl Listener {
    /// Binds all addresses of the host, and listens: `localhost` is two on most machines, and a
    /// client may try either first.
    ///
    /// # Errors
    /// As [`BindError`] tells.
    pub fn bind(config: &ListenerConfig, network: &NetworkConfig) -> Result<Self, BindError> {
        let host = if config.host.is_empty() { "0.0.0.0" } else { &config.host };
        // A failed look-up of a name comes as `Uncategorized`; it is always about the host.
        let unknown = |source| BindError::UnknownHost {
            listener: config.name.clone(),
            host: config.host.clone(),
            source,
        };
        let mut addresses = Vec::new();
        for address in (host, config.port).to_socket_addrs().map_err(unknown)? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(unknown(io::Error::other("the name has no address")));
        }
        let mut tries = PORT_TRIES;
        loop {
            tries -= 1;
            match listen_on_all(&addresses, network) {
                Ok(sockets) => {
                    let (name, audience) = (config.name.as_str().into(), config.audience);
                    return Ok(Self { identity: ListenerIdentity { name, audience }, sockets });
                }
                // The port that the system chose for the first address is taken at another.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && config.port == 0
                        && tries > 0 => {}
                Err(error) => return Err(BindError::new(config, error)),
            }
        }
    }

    /// The first address it is bound to, with the port the system chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.sockets[0].address
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.identity.name
    }
}

/// Listens on every address that this machine has; all get the port of the first.
fn listen_on_all(
    addresses: &[SocketAddr],
    network: &NetworkConfig,
) -> io::Result<Vec<BoundSocket>> {
    let mut sockets: Vec<BoundSocket> = Vec::with_capacity(addresses.len());
    let mut missing = None;
    for address in addresses {
        let mut address = *address;
        if let Some(first) = sockets.first() {
            address.set_port(first.address.port());
        }
        match listen_on(address, network) {
            Ok(socket) => sockets.push(socket),
            // A name may have addresses of a family that is switched off here.
            Err(error) if is_missing(&error) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    match missing {
        Some(error) if sockets.is_empty() => Err(error),
        _ => Ok(sockets),
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

fn listen_on(address: SocketAddr, network: &NetworkConfig) -> io::Result<BoundSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    // A restarted broker takes its port back while old connections linger in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if let Some(bytes) = network.receive_buffer_bytes {
        // Accepted sockets inherit it; set later it could not widen the TCP window.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(network.backlog)?;
    let socket = ListeningSocket::new(TcpListener::from_std(socket.into()));
    let address = socket.local_addr()?;
    let congestion_elsewhere = socket::keep_bbr_off_loopback(&socket);
    Ok(BoundSocket { address, socket, congestion_elsewhere })
}

/// The accepting thread.
pub struct Acceptor {
    addresses: Vec<(Arc<str>, SocketAddr)>,
    limits: Arc<ConnectionLimits>,
    stopped: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Acceptor {
    /// Starts accepting for the network threads behind `doors`.
    ///
    /// # Errors
    /// When the operating system refuses a thread or an epoll instance.
    pub fn start(
        listeners: Vec<Listener>,
        config: &Arc<NetworkConfig>,
        doors: Vec<Door>,
        connections: &Arc<OpenConnections>,
        parts: &NetworkParts,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let addresses = listeners.iter().map(|l| (Arc::clone(l.name()), l.address())).collect();
        let open = |listener: Listener| {
            let identity = listener.identity;
            listener.sockets.into_iter().map(move |socket| (identity.clone(), socket))
        };
        let mut sockets: Vec<_> = listeners.into_iter().flat_map(open).collect();
        for (i, (_, listening)) in sockets.iter_mut().enumerate() {
            poll.registry().register(&mut *listening.socket, Token(i), Interest::READABLE)?;
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let on_room = Arc::clone(&waker);
        let limits = ConnectionLimits::new(
            config.max_connections,
            config.max_connections_per_ip,
            Box::new(move || drop(on_room.wake())),
        );
        let kept = Arc::clone(&limits);
        let help = "Connections open.";
        parts.metrics.computed("kafkalite_connections", help, vec![], &limits, |limits| {
            i64::try_from(limits.total()).unwrap_or(i64::MAX)
        });
        let count = |name, help| parts.metrics.counter(name, help, vec![]);
        let accepting = Accepting {
            poll,
            sockets,
            config: Arc::clone(config),
            doors,
            connections: Arc::clone(connections),
            limits,
            clock: Arc::clone(&parts.clock),
            stopped: Arc::clone(&stopped),
            peer_log: PeerLog::default(),
            accepted: count("kafkalite_connections_accepted", "Connections accepted."),
            refused: count(
                "kafkalite_connections_refused",
                "Connections closed at once because of max.connections.per.ip.",
            ),
            failed: count("kafkalite_accept_errors", "Failures of accept."),
        };
        let thread = std::thread::Builder::new()
            .name("kafkalite-acceptor".into())
            .spawn(move || accepting.run())?;
        Ok(Self { addresses, limits: kept, stopped, waker, thread: Mutex::new(Some(thread)) })
    }

    /// The first address each listener is bound to.
    #[must_use]
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        &self.addresses
    }

    /// How many connections may be open.
    #[must_use]
    pub const fn limits(&self) -> &Arc<ConnectionLimits> {
        &self.limits
    }

    /// Closes the listeners and ends the thread.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the acceptor cannot be woken");
        }
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the acceptor panicked");
        }
    }
}

/// Connections get numbers that are never used again while the process lives.
static NEXT_CONNECTION_ID: AtomicU64 = AtomicU64::new(1);

struct Accepting {
    poll: Poll,
    /// Each with its listener.
    sockets: Vec<(ListenerIdentity, BoundSocket)>,
    config: Arc<NetworkConfig>,
    doors: Vec<Door>,
    connections: Arc<OpenConnections>,
    limits: Arc<ConnectionLimits>,
    clock: Arc<dyn Clock>,
    stopped: Arc<AtomicBool>,
    peer_log: PeerLog,
    accepted: Counter,
    refused: Counter,
    failed: Counter,
}

impl Accepting {
    fn run(mut self) {
        let mut events = Events::with_capacity(16);
        let mut timeout = None;
        while !self.stopped.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "the acceptor cannot wait for connections");
                    return;
                }
            }
            // Every socket, whatever the events say: readiness that was left unused while the
            // bound was reached or descriptors were out is not announced again.
            let count = self.sockets.len();
            let accept = || {
                let mut all_empty = true;
                for i in 0..count {
                    all_empty &= self.accept_all(i);
                }
                all_empty
            };
            let all_empty = panics::contain("accepting", accept).unwrap_or(false);
            timeout = (!all_empty && self.limits.has_room()).then_some(BACK_OFF);
        }
    }

    /// Accepts until the backlog of socket `i` is empty; `false` if it had to stop before. As in
    /// Kafka brokers are let in above the bound, if clients have another listener.
    fn accept_all(&mut self, i: usize) -> bool {
        let is_for_brokers = self.sockets[i].0.audience == Audience::Brokers;
        while is_for_brokers || self.limits.has_room() {
            match self.sockets[i].1.socket.accept() {
                Ok((stream, peer)) => self.hand_over(i, PeerSocket::new(stream), peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if is_about_one_connection(&error) => self.failed.add(1),
                Err(error) => {
                    self.failed.add(1);
                    let local = self.sockets[i].1.address;
                    if self.peer_log.may_name(local.ip(), self.clock.monotonic_ns()) {
                        tracing::warn!(%local, %error, "cannot accept connections, trying again");
                    }
                    return false;
                }
            }
        }
        false
    }

    fn hand_over(&mut self, i: usize, stream: PeerSocket, peer: SocketAddr) {
        let Some(permit) = ConnectionLimits::open(&self.limits, peer.ip()) else {
            self.refused.add(1);
            if self.peer_log.may_name(peer.ip(), self.clock.monotonic_ns()) {
                let bound = self.limits.max_per_ip();
                tracing::warn!(%peer, bound, "refused: max.connections.per.ip is reached");
            }
            return;
        };
        let (listener, listening) = &self.sockets[i];
        let elsewhere = listening.congestion_elsewhere.as_deref();
        socket::configure(&stream, peer, &self.config, elsewhere);
        let local = stream.local_addr().unwrap_or(listening.address);
        let connection_id = NEXT_CONNECTION_ID.fetch_add(1, Ordering::Relaxed);
        let (name, audience) = (Arc::clone(&listener.name), listener.audience);
        let context = RequestContext::anonymous((peer, local), name, audience, connection_id);
        let (context, now_ns) = (Arc::new(context), self.clock.monotonic_ns());
        let listed = OpenConnections::list(&self.connections, &context, now_ns);
        self.accepted.add(1);
        let least_loaded = self.doors.iter().min_by_key(|door| door.load());
        if let Some(door) = least_loaded {
            door.push(Accepted { stream, context, permit, listed });
        }
    }
}

/// The peer went away: the next connection may be fine.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}
