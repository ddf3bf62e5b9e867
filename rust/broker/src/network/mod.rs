//! Bytes in, bytes out: listeners, network threads, and what is owed to a connection.
//!
//! ```text
//! acceptor ──> network thread ──> request queue        (frames in, in order, with overlap rules)
//!                    ^ └────────> handler, inline      (cheap requests, nothing before them)
//!                    └── response queue                (responses out, in request order)
//! ```
//! A network thread serves its connections for their whole life: a hand-written loop on `mio` (ADR
//! 0050). A frame's claimed size costs nothing: memory is charged before a frame is buffered and as
//! its bytes arrive. Half-sent frames have a deadline. Back-pressure pauses one connection, never a
//! thread.
//!
//! Source: Kafka's `SocketServer`, `Acceptor`, `Processor`.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::request_queue::{Audience, InlineMode, RequestQueue};
use crate::response_queue::{Response, Slot};

pub mod acceptor;
pub mod buffer_pool;
pub mod connection;
pub mod connection_limits;
pub mod frames;
pub mod half_frames;
pub mod network_thread;
pub mod open_connections;
pub mod output;
pub mod peer_log;
mod socket;
#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, BindError, Listener};
use buffer_pool::BufferPool;
pub use connection_limits::ConnectionLimits;
use half_frames::HalfFrames;
use network_thread::{NetworkThread, ThreadHandle};
pub use open_connections::{OpenConnection, OpenConnections};

/// Read buffers kept although nothing is in them, at most.
const MAX_UNUSED_BUFFER_BYTES: usize = 16 << 20;

/// A listener as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its name, `PLAINTEXT` for instance.
    pub name: String,
    /// Name or address to bind; empty for all interfaces.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// Who connects to it.
    pub audience: Audience,
}

/// What the network needs to know; `broker.rs` fills it from the table of keys.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// `listeners`.
    pub listeners: Vec<ListenerConfig>,
    /// `num.network.threads`.
    pub network_threads: usize,
    /// `socket.listen.backlog.size`.
    pub backlog: i32,
    /// `socket.request.max.bytes`.
    pub max_frame_bytes: usize,
    /// `socket.send.buffer.bytes`; `None` (-1) lets the kernel tune it.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` (-1) lets the kernel tune it.
    pub receive_buffer_bytes: Option<usize>,
    /// `max.connections`.
    pub max_connections: usize,
    /// `max.connections.per.ip`.
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`; parked connections are not idle.
    pub max_idle_ms: u64,
    /// How long a frame may stay half-sent, plus one second for each `half_frame_min_bytes_per_s`
    /// that arrived.
    pub half_frame_timeout_ms: u64,
    /// The pace at which a large frame has to arrive, in bytes a second.
    pub half_frame_min_bytes_per_s: u64,
    /// Memory for large half-sent frames of all connections together.
    pub half_frame_bytes: usize,
    /// `kafkalite.request.inline`.
    pub inline: InlineMode,
    /// `kafkalite.request.inline.max.bytes`.
    pub inline_max_bytes: usize,
    /// `kafkalite.fetch.sendfile.min.bytes`: smaller file ranges are copied into one write.
    pub sendfile_min_bytes: usize,
}

impl Default for NetworkConfig {
    /// Bounds that suit tests: one thread, one loopback listener on a free port.
    fn default() -> Self {
        let listener = ListenerConfig {
            name: "PLAINTEXT".into(),
            host: "127.0.0.1".into(),
            port: 0,
            audience: Audience::Clients,
        };
        Self {
            listeners: vec![listener],
            network_threads: 1,
            backlog: 50,
            max_frame_bytes: 100 << 20,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            max_connections: usize::MAX,
            max_connections_per_ip: usize::MAX,
            max_idle_ms: 600_000,
            half_frame_timeout_ms: 30_000,
            half_frame_min_bytes_per_s: 64 << 10,
            half_frame_bytes: 32 << 20,
            inline: InlineMode::Auto,
            inline_max_bytes: 32 << 10,
            sendfile_min_bytes: 16 << 10,
        }
    }
}

/// Builds the response to a request whose handler panicked, from what is kept of it. `None`: it
/// cannot, and the connection is closed.
pub type OnPanic = fn(&Slot) -> Option<Response>;

/// What network threads are given.
#[derive(Clone)]
pub struct NetworkParts {
    /// Where requests go.
    pub queue: Arc<RequestQueue>,
    /// What a client hears when a handler panicked.
    pub on_panic: OnPanic,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

/// The acceptor and the network threads.
pub struct Network {
    acceptor: Acceptor,
    threads: Vec<ThreadHandle>,
    connections: Arc<OpenConnections>,
}

impl Network {
    /// Binds every listener; nothing is accepted before [`Network::start`].
    ///
    /// # Errors
    /// Which listener could not be bound, and why.
    pub fn bind(config: &NetworkConfig) -> Result<Vec<Listener>, BindError> {
        config.listeners.iter().map(|listener| Listener::bind(listener, config)).collect()
    }

    /// Starts the threads on bound listeners.
    ///
    /// # Errors
    /// When the operating system refuses a thread or an epoll instance.
    pub fn start(
        config: NetworkConfig,
        listeners: Vec<Listener>,
        parts: NetworkParts,
    ) -> std::io::Result<Self> {
        let config = Arc::new(config);
        let half_frames = HalfFrames::new(config.half_frame_bytes);
        let help = "Memory held by large frames that are half-sent or wait to begin.";
        parts.metrics.computed("kafkalite_half_frame_bytes", help, vec![], &half_frames, |held| {
            i64::try_from(held.bytes()).unwrap_or(i64::MAX)
        });
        let pool = BufferPool::new(MAX_UNUSED_BUFFER_BYTES, config.half_frame_bytes);
        let help = "Memory of read buffers that nothing is in.";
        parts.metrics.computed("kafkalite_unused_buffer_bytes", help, vec![], &pool, |pool| {
            i64::try_from(pool.unused_bytes()).unwrap_or(i64::MAX)
        });
        let threads = (0..config.network_threads.max(1))
            .map(|i| {
                let (half_frames, pool) = (Arc::clone(&half_frames), Arc::clone(&pool));
                NetworkThread::start(i, Arc::clone(&config), &parts, half_frames, pool)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let doors = threads.iter().map(ThreadHandle::door).collect();
        let connections = Arc::default();
        let acceptor = Acceptor::start(listeners, &config, doors, &connections, &parts)?;
        Ok(Self { acceptor, threads, connections })
    }

    /// The address each listener is bound to, in the order of the configuration.
    #[must_use]
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        self.acceptor.addresses()
    }

    /// The connections that are open.
    #[must_use]
    pub const fn connections(&self) -> &Arc<OpenConnections> {
        &self.connections
    }

    /// How many connections may be open.
    #[must_use]
    pub const fn limits(&self) -> &Arc<ConnectionLimits> {
        self.acceptor.limits()
    }

    /// Accepts no more connections and reads no more requests; those begun go on.
    pub fn begin_stop(&self, deadline_ns: u64) {
        self.acceptor.stop();
        for thread in &self.threads {
            thread.begin_stop(deadline_ns);
        }
    }

    /// Waits until every response is out or the deadline given to `begin_stop` has passed, closes
    /// all connections, and ends the threads.
    pub fn join(&self) {
        self.acceptor.stop();
        for thread in &self.threads {
            thread.join();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.begin_stop(0);
        self.join();
    }
}
