//! A broker that does what a test says: honest answers, none, or bytes that cannot be.

use super::event_loop::EventLoop;
use crate::address::HostPort;
use crate::awaited;
use crate::backoff::Backoff;
use crate::config::ConnectionConfig;
use bytes::{Bytes, BytesMut};
use kafkalite_protocol::header::{RequestHeader, begin_response};
use kafkalite_protocol::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use kafkalite_protocol::messages::{ApiKey, Request, Wire};
use kafkalite_protocol::{Reader, Writer};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Its id in the metadata it tells.
pub const NODE: i32 = 1;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// How many requests of this API came before it, on all connections.
    pub before: usize,
    /// Its header.
    pub header: RequestHeader,
    /// What follows the header.
    pub body: Bytes,
    /// Where the broker is.
    pub place: HostPort,
}

impl Asked {
    /// Whether it is a request of this API.
    pub fn is(&self, api: ApiKey) -> bool {
        self.header.api_key == api as i16
    }

    /// The request; fails the test if it is another one.
    pub fn read<R: Request>(&self) -> R {
        assert!(self.is(R::API_KEY));
        R::decode(&mut Reader::new(self.body.clone()), self.header.api_version).expect("readable")
    }

    /// An honest answer.
    pub fn answer<R: Request>(&self, response: &R::Response) -> Answer {
        let version = self.header.api_version;
        let mut writer = begin_response(R::API_KEY, version, self.header.correlation_id);
        response.encode(&mut writer, version);
        writer.patch_size();
        Answer::Raw(writer.into_bytes())
    }
}

/// An answer for later.
pub type Held = Mutex<Option<(oneshot::Sender<Bytes>, Bytes)>>;

/// Keeps an answer until [`release`].
pub fn hold(held: &Held, answer: Answer) -> Answer {
    let Answer::Raw(bytes) = answer else { unreachable!("an honest answer is bytes") };
    let (sender, later) = oneshot::channel();
    *held.lock() = Some((sender, bytes));
    Answer::Later(later)
}

/// Gives what is held, if anything is.
pub fn release(held: &Held) {
    if let Some((sender, bytes)) = held.lock().take() {
        // The client has gone if no receiver takes it.
        let _ = sender.send(bytes);
    }
}

/// Waits until there is something to [`release`].
#[track_caller]
pub fn wait_held(held: &Held) {
    awaited::until("an answer is held", || held.lock().is_some());
}

/// What to do about a request.
pub enum Answer {
    /// These bytes, as they are.
    Raw(Bytes),
    /// These bytes, when the test sends them; the connection waits meanwhile.
    Later(oneshot::Receiver<Bytes>),
    /// Nothing; the connection lives on.
    Silence,
    /// The connection ends.
    Close,
    /// What a good broker would say: of ApiVersions and Metadata only.
    Usual,
}

/// Runs until it is dropped.
pub struct FakeBroker {
    /// Where it is.
    pub place: HostPort,
    asked: Arc<Mutex<Vec<i16>>>,
    event_loop: EventLoop,
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

impl FakeBroker {
    /// One at a free port that answers as `script` says.
    pub fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// At this address; port 0 is a free one.
    pub fn start_at(
        address: &str,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("a free port of loopback");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let place = HostPort { host: "127.0.0.1".to_owned(), port };
        let event_loop = EventLoop::start("fake broker");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (at, log, script) = (place.clone(), Arc::clone(&asked), Arc::new(script));
        let accept = async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let serve = serve(stream, connection, at.clone(), Arc::clone(&log), script.clone());
                tokio::spawn(serve);
            }
        };
        event_loop.spawn(accept);
        Self { place, asked, event_loop }
    }

    /// Ends it; when this returns its port is free.
    pub fn stop(self) -> HostPort {
        self.event_loop.stop();
        self.place
    }

    /// Waits until it was asked so often.
    #[track_caller]
    pub fn wait_for(&self, api: ApiKey, times: usize) {
        awaited::until(&format!("{api:?} is asked {times} times"), || self.count(api) >= times);
    }

    /// How often it was asked.
    pub fn count(&self, api: ApiKey) -> usize {
        self.asked.lock().iter().filter(|key| **key == api as i16).count()
    }

    /// A configuration that leads here.
    pub fn config(&self) -> ConnectionConfig {
        config([self.place.clone()])
    }
}

/// The id of the second of [`two`].
pub const OTHER: i32 = NODE + 1;

/// Two brokers of one cluster. Both say that the first, with the id [`NODE`], leads everything.
pub fn two(
    first: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    second: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> [FakeBroker; 2] {
    two_until(Arc::default(), first, second)
}

/// The same until `is_gone`: then the second one says that it is alone, and leads everything. The
/// first one says nothing.
pub fn two_until(
    is_gone: Arc<AtomicBool>,
    first: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    second: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> [FakeBroker; 2] {
    let told = move |asked: &Asked, places: &[HostPort; 2]| match (
        is_gone.load(Ordering::Relaxed),
        asked.place == places[1],
    ) {
        (true, true) => metadata_of_second(asked),
        (true, false) => Answer::Silence,
        (false, _) => metadata_of_two(asked, places),
    };
    two_with(told, first, second)
}

/// Two brokers that answer Metadata by `told`, which gets the places of both.
pub fn two_with(
    told: impl Fn(&Asked, &[HostPort; 2]) -> Answer + Send + Sync + 'static,
    first: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    second: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> [FakeBroker; 2] {
    let (told, places) = (Arc::new(told), Arc::new(OnceLock::new()));
    let begin = |script: Box<Script>| {
        let (told, places) = (Arc::clone(&told), Arc::clone(&places));
        FakeBroker::start(move |asked| match asked.is(ApiKey::Metadata) {
            true => told(asked, places.get().expect("their addresses are unknown before")),
            false => script(asked),
        })
    };
    let both = [begin(Box::new(first)), begin(Box::new(second))];
    places.set(both.each_ref().map(|broker| broker.place.clone())).expect("set once");
    both
}

/// The answer that the first of two leads everything.
pub fn metadata_of_two(asked: &Asked, places: &[HostPort; 2]) -> Answer {
    let mut told = metadata(&places[0], names(asked));
    let (host, port) = (places[1].host.clone(), i32::from(places[1].port));
    told.brokers.push(MetadataResponseBroker { node_id: OTHER, host, port, rack: None });
    asked.answer::<MetadataRequest>(&told)
}

/// The answer that the second of two is alone.
fn metadata_of_second(asked: &Asked) -> Answer {
    let mut told = metadata(&asked.place, names(asked));
    (told.controller_id, told.brokers[0].node_id) = (OTHER, OTHER);
    for partition in told.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        (partition.leader_id, partition.leader_epoch) = (OTHER, partition.leader_epoch + 1);
    }
    asked.answer::<MetadataRequest>(&told)
}

fn names(asked: &Asked) -> impl Iterator<Item = String> {
    let request: MetadataRequest = asked.read();
    request.topics.unwrap_or_default().into_iter().filter_map(|topic| topic.name)
}

/// A configuration that leads to these places; tests change what they are about.
pub fn config(servers: impl IntoIterator<Item = HostPort>) -> ConnectionConfig {
    let backoff = |initial, max| Backoff {
        initial: Duration::from_millis(initial),
        max: Duration::from_millis(max),
    };
    ConnectionConfig {
        bootstrap_servers: servers.into_iter().collect(),
        client_id: "test".to_owned(),
        request_timeout: Duration::from_secs(30),
        bootstrap_timeout: Duration::from_secs(3),
        setup_timeout: backoff(10_000, 30_000),
        reconnect_backoff: backoff(50, 1_000),
        retry_backoff: backoff(100, 1_000),
        metadata_max_age: Duration::from_secs(300),
        metadata_max_idle: Duration::MAX,
        rebootstrap: true,
        connections_max_idle: None,
        send_buffer: None,
        receive_buffer: None,
        response_max_bytes: 128 << 20,
        allow_auto_create_topics: true,
    }
}

async fn serve(
    stream: TcpStream,
    connection: usize,
    place: HostPort,
    log: Arc<Mutex<Vec<i16>>>,
    script: Arc<Script>,
) {
    let mut read = BytesMut::new();
    while let Some(mut frame) = next_frame(&stream, &mut read).await {
        let mut reader = Reader::new(frame.split_off(4));
        let header = RequestHeader::decode(&mut reader).expect("a request");
        let before = {
            let mut log = log.lock();
            let before = log.iter().filter(|key| **key == header.api_key).count();
            log.push(header.api_key);
            before
        };
        let asked =
            Asked { connection, before, header, body: reader.into_rest(), place: place.clone() };
        let answer = match script(&asked) {
            Answer::Usual => usual(&asked),
            answer => answer,
        };
        match answer {
            Answer::Raw(bytes) => write_all(&stream, &bytes).await,
            Answer::Later(bytes) => match bytes.await {
                Ok(bytes) => write_all(&stream, &bytes).await,
                Err(_) => return,
            },
            Answer::Silence => {}
            Answer::Close | Answer::Usual => return,
        }
    }
}

async fn next_frame(stream: &TcpStream, read: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(size) = read.first_chunk::<4>() {
            let total = 4 + u32::from_be_bytes(*size) as usize;
            if read.len() >= total {
                return Some(read.split_to(total).freeze());
            }
        }
        stream.readable().await.ok()?;
        let mut chunk = [0; 4_096];
        match stream.try_read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() && stream.writable().await.is_ok() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn usual(asked: &Asked) -> Answer {
    if asked.is(ApiKey::ApiVersions) {
        return asked
            .answer::<kafkalite_protocol::messages::api_versions::ApiVersionsRequest>(&all_apis());
    }
    asked.answer::<MetadataRequest>(&metadata(&asked.place, names(asked)))
}

/// Every API of ours, in all its versions.
pub fn all_apis() -> ApiVersionsResponse {
    let api = |api: &ApiKey| {
        let range = api.versions();
        ApiVersion { api_key: *api as i16, min_version: range.min, max_version: range.max }
    };
    ApiVersionsResponse { api_keys: ApiKey::ALL.iter().map(api).collect(), ..Default::default() }
}

/// This broker, and topics of one partition that it leads.
pub fn metadata(place: &HostPort, names: impl Iterator<Item = String>) -> MetadataResponse {
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: NODE,
            host: place.host.clone(),
            port: i32::from(place.port),
            rack: None,
        }],
        controller_id: NODE,
        topics: names.map(|name| topic(&name, 1, 0)).collect(),
        ..MetadataResponse::default()
    }
}

/// A topic whose partitions are all led by this broker.
pub fn topic(name: &str, partitions: i32, leader_epoch: i32) -> MetadataResponseTopic {
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: NODE,
        leader_epoch,
        replica_nodes: vec![NODE],
        isr_nodes: vec![NODE],
        ..MetadataResponsePartition::default()
    };
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        partitions: (0..partitions).map(partition).collect(),
        ..MetadataResponseTopic::default()
    }
}

/// The answer that this broker is the coordinator of every group.
pub fn coordinator(asked: &Asked) -> Answer {
    coordinator_is(asked, NODE)
}

/// The answer that the coordinator of every group has this id, and this broker's place.
pub fn coordinator_is(asked: &Asked, node_id: i32) -> Answer {
    coordinator_at(asked, node_id, &asked.place)
}

/// The answer that the coordinator of every group has this id and place.
pub fn coordinator_at(asked: &Asked, node_id: i32, place: &HostPort) -> Answer {
    let request: FindCoordinatorRequest = asked.read();
    let found = |key: String| Coordinator {
        key,
        node_id,
        host: place.host.clone(),
        port: i32::from(place.port),
        ..Coordinator::default()
    };
    let coordinators = request.coordinator_keys.into_iter().map(found).collect();
    let response = FindCoordinatorResponse { coordinators, ..Default::default() };
    asked.answer::<FindCoordinatorRequest>(&response)
}

/// An answer to a request with these bytes after the correlation id.
pub fn raw(correlation_id: i32, body: &[u8]) -> Answer {
    let mut writer = Writer::new();
    writer.i32(0);
    writer.i32(correlation_id);
    writer.raw(body);
    writer.patch_size();
    Answer::Raw(writer.into_bytes())
}
