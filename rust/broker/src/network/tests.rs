//! The network on real sockets: framing, order, overlap, back-pressure, hostile peers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::primitives::Writer;
use parking_lot::Mutex;

use super::*;
use crate::awaited;
use crate::clock::{ManualClock, SystemClock};
use crate::handlers::policy;
use crate::io_threads::IoThreads;
use crate::metrics::Value;
use crate::request_queue::{ApiPolicy, LaneBounds, Request, RunRequest};
use crate::response_queue::Piece;

#[cfg(target_os = "linux")]
mod forks;
mod hostile;
mod order;
mod sending;
#[cfg(target_os = "linux")]
mod slow_readers;
mod stopping;

/// Long enough for any machine; a passing test never waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;
const HEARTBEAT: i16 = 12;
const QUORUM: i16 = 10_001;

struct Broker {
    network: Network,
    io_threads: IoThreads,
    queue: Arc<RequestQueue>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl Broker {
    fn start(config: NetworkConfig, run: impl Fn(Request) + Send + Sync + 'static) -> Self {
        let bounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };
        Self::start_with(config, bounds, Arc::new(SystemClock::new()), Arc::new(run))
    }

    fn start_with(
        config: NetworkConfig,
        data: LaneBounds,
        clock: Arc<dyn Clock>,
        run: RunRequest,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let control = LaneBounds { max_requests: 100, max_bytes: 8 << 20 };
        // Every API may run on a network thread here.
        let policy_of = |api_key| ApiPolicy { inline: true, ..policy(api_key) };
        let (told, counted) = (Arc::clone(&clock), Arc::clone(&metrics));
        let queue = RequestQueue::new(control, data, run, policy_of, told, counted);
        let io_threads =
            IoThreads::start(2, Arc::clone(&queue), &clock, &metrics).expect("threads");
        let parts = NetworkParts {
            queue: Arc::clone(&queue),
            on_panic: |slot| Some(frame(slot.correlation_id, b"UNKNOWN_SERVER_ERROR")),
            clock: Arc::clone(&clock),
            metrics: Arc::clone(&metrics),
        };
        let listeners = Network::bind(&config).expect("a free port");
        let network = Network::start(config, listeners, parts).expect("threads");
        Self { network, io_threads, queue, metrics, clock }
    }

    fn connect(&self) -> Client {
        self.connect_to(0)
    }

    fn connect_to(&self, listener: usize) -> Client {
        let (_, address) = self.network.addresses()[listener].clone();
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a valid timeout");
        stream.set_nodelay(true).expect("TCP");
        Client { stream }
    }

    /// A peer whose machine takes a few KiB before its program reads: the rest of its answers stays
    /// with the broker's machine.
    fn connect_slow_reader(&self) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.set_recv_buffer_size(4 << 10).expect("a valid size");
        socket.connect(&self.network.addresses()[0].1.into()).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
        Client { stream: socket.into() }
    }

    fn counter(&self, name: &str, label: &str) -> u64 {
        let mut total = 0;
        self.metrics.for_each_scalar(|n, _, labels, value| {
            let labelled = label.is_empty() || labels.iter().any(|(_, value)| value == label);
            if let (true, true, Value::Counter(count)) = (n == name, labelled, value) {
                total += count;
            }
        });
        total
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ends = awaited::within("the network stops");
        self.network.begin_stop(self.clock.monotonic_ns());
        self.network.join();
        self.io_threads.stop();
    }
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker reads");
    }

    /// The next response: its correlation id, and what follows.
    fn receive(&mut self) -> (i32, Vec<u8>) {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).expect("a response");
        let mut body = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut body).expect("a whole response");
        let rest = body.split_off(4);
        (i32::from_be_bytes(body.try_into().expect("four bytes")), rest)
    }

    fn receive_id(&mut self) -> i32 {
        self.receive().0
    }

    /// Whether the broker closes the connection without another byte.
    fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A request frame.
fn request(api_key: i16, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let api = kafkalite_protocol::messages::ApiKey::from_i16(api_key).expect("a known key");
    let header = RequestHeader {
        api_key,
        api_version: api.versions().min,
        correlation_id,
        client_id: Some("test".into()),
    };
    let mut writer = Writer::new();
    writer.i32(0);
    header.encode(&mut writer);
    writer.raw(body);
    writer.patch_size();
    writer.into_bytes().to_vec()
}

/// A response frame in memory.
fn frame(correlation_id: i32, body: &[u8]) -> Response {
    Response::frame(frame_start(correlation_id, body.len(), body))
}

fn frame_start(correlation_id: i32, length: usize, body: &[u8]) -> Bytes {
    let size = i32::try_from(4 + length).expect("a small frame");
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.extend_from_slice(&correlation_id.to_be_bytes());
    bytes.extend_from_slice(body);
    Bytes::from(bytes)
}

fn echo(request: Request) {
    let response = frame(request.header.correlation_id, &request.body);
    request.responder.send(response);
}

/// Requests that handlers put aside, to be answered when the test says so.
#[derive(Default, Clone)]
struct Parked(Arc<Mutex<Vec<Request>>>);

impl Parked {
    fn park(&self, request: Request) {
        self.0.lock().push(request);
    }

    fn answer(&self, correlation_id: i32) {
        let request = {
            let mut parked = self.0.lock();
            let at = parked.iter().position(|r| r.header.correlation_id == correlation_id);
            parked.remove(at.expect("it was parked"))
        };
        echo(request);
    }
}
