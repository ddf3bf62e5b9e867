//! What a connection does next, and when it has to end, without a socket.

use std::net::SocketAddr;

use kafkalite_protocol::primitives::Writer;

use super::*;
use crate::clock::ManualClock;
use crate::handlers::policy;
use crate::metrics::Metrics;
use crate::request_queue::{Audience, LaneBounds, Room};
use crate::response_queue::{Overlap, Piece, Responder, Response, ResponseQueue};

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const QUORUM: i16 = 10_001;

struct Bytes(Vec<u8>);

impl std::io::Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(self.0.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }
}

struct House {
    connection: Connection,
    queue: Arc<RequestQueue>,
    half_frames: Arc<HalfFrames>,
    pool: Arc<BufferPool>,
}

impl House {
    fn new(config: &NetworkConfig, lane: LaneBounds) -> Self {
        let clock = Arc::new(ManualClock::new(0));
        let metrics = Arc::new(Metrics::new());
        let run = Arc::new(|_| {});
        let responses = Arc::new(ResponseQueue::new(Box::new(|| {})));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let (listener, clients) = ("PLAINTEXT".into(), Audience::Clients);
        let context = RequestContext::anonymous((address, address), listener, clients, 1);
        let context = Arc::new(context);
        let responses = ConnectionResponses::new(0, responses, Arc::clone(&clock) as _);
        Self {
            connection: Connection::new(context, responses, config, 0),
            queue: RequestQueue::new(lane, lane, run, policy, clock, metrics),
            half_frames: HalfFrames::new(4 << 20),
            pool: BufferPool::new(1 << 20, usize::MAX),
        }
    }

    fn arrive(&mut self, bytes: Vec<u8>, now_ns: u64) {
        let mut source = Bytes(bytes);
        while !source.0.is_empty() {
            self.connection.frames.read(&mut source, &self.pool, &mut None).expect("bytes");
        }
        self.connection.bytes_arrived(now_ns);
    }

    fn step(&mut self) -> Step {
        self.connection.next_step(&self.queue, &self.half_frames, &self.pool, 0)
    }

    /// The next step must be a request: its responder and its place.
    fn submitted(&mut self) -> (Responder, Place) {
        match self.step() {
            Step::Submit(request, place) => (request.responder, place),
            other => panic!("{}", name(&other)),
        }
    }

    fn step_name(&mut self) -> &'static str {
        name(&self.step())
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Submit(..) => "submit",
        Step::Read => "read",
        Step::AwaitAnswers => "await answers",
        Step::AwaitRoom => "await room",
        Step::AwaitMemory => "await memory",
        Step::Close(reason, _) => reason.name(),
    }
}

const WIDE: LaneBounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };

fn house() -> House {
    House::new(&NetworkConfig::default(), WIDE)
}

fn frame(api_key: i16, api_version: i16, length: usize) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i32(0);
    RequestHeader { api_key, api_version, correlation_id: 7, client_id: None }.encode(&mut writer);
    writer.raw(&vec![0; length]);
    writer.patch_size();
    writer.into_bytes().to_vec()
}

#[test]
fn a_frame_waits_in_the_buffer_until_it_may_begin() {
    let mut house = house();
    for api_key in [FETCH, PRODUCE, METADATA, PRODUCE] {
        house.arrive(frame(api_key, 9, 5), 0);
    }
    let (fetch, _) = house.submitted();
    let (produce, _) = house.submitted();
    assert_eq!(house.step_name(), "await answers");
    fetch.send(Response::NoResponse);
    assert_eq!(house.step_name(), "await answers");
    produce.send(Response::NoResponse);
    let (metadata, _) = house.submitted();
    assert_eq!(house.step_name(), "await answers");
    metadata.send(Response::NoResponse);
    house.submitted();
    assert_eq!(house.step_name(), "read");
}

#[test]
fn a_frame_without_room_in_its_lane_waits_for_it() {
    let mut house =
        House::new(&NetworkConfig::default(), LaneBounds { max_requests: 1, max_bytes: 1 << 20 });
    house.arrive(frame(PRODUCE, 9, 5), 0);
    house.arrive(frame(PRODUCE, 9, 5), 0);
    let (_responder, place) = house.submitted();
    assert_eq!(house.step_name(), "await room");
    drop(place);
    house.submitted();
}

#[test]
fn a_large_frame_is_not_received_while_it_could_not_begin() {
    let mut house = house();
    house.arrive(frame(METADATA, 9, 5), 0);
    let (metadata, _) = house.submitted();
    house.arrive(frame(PRODUCE, 9, 500_000)[..100].to_vec(), 0);
    assert_eq!(house.step_name(), "await answers");
    assert_eq!(house.half_frames.bytes(), 0);
    metadata.send(Response::NoResponse);
    assert_eq!(house.step_name(), "read");
    assert!(house.half_frames.bytes() > 0);
}

/// Entries and snapshots of the metadata waited for as long as a client sent a large frame slowly.
#[test]
fn large_frames_of_clients_that_stand_still_hold_up_no_broker() {
    let (mut client, mut broker) = (house(), house());
    broker.half_frames = Arc::clone(&client.half_frames);
    let room = Arc::clone(client.half_frames.of(Share::Others));
    let held: Vec<_> = std::iter::from_fn(|| Room::begin(&room, 256 << 10)).collect();
    client.arrive(frame(METADATA, 9, 500_000)[..100].to_vec(), 0);
    assert_eq!(client.step_name(), "await memory");
    broker.arrive(frame(QUORUM, 0, 500_000)[..100].to_vec(), 0);
    assert_eq!(broker.step_name(), "read");
    drop(held);
    assert_eq!(client.step_name(), "read");
}

#[test]
fn nothing_more_is_begun_for_a_peer_that_does_not_read() {
    let mut house = house();
    house.arrive(frame(PRODUCE, 9, 5), 0);
    let big = Piece::Mem(vec![0; MAX_UNSENT_BYTES].into());
    let overlap = Overlap::Produce;
    let slot = Slot { api_key: 0, api_version: 9, correlation_id: 1, overlap, received_ns: 0 };
    house.connection.output.push([big].into_iter().collect(), slot, Default::default());
    assert_eq!(house.step_name(), "await answers");
}

#[test]
fn what_is_not_served_ends_the_connection_except_api_versions() {
    for (api_key, version, expected) in [
        (METADATA, 9, "submit"),
        (METADATA, 200, "bad_request"),
        (METADATA, -1, "bad_request"),
        (9_999, 0, "bad_request"),
        (-1, 0, "bad_request"),
        (API_VERSIONS, 200, "submit"),
        (API_VERSIONS, -1, "submit"),
    ] {
        let mut house = house();
        house.arrive(frame(api_key, version, 5), 0);
        assert_eq!(house.step_name(), expected, "key {api_key}, version {version}");
    }
}

#[test]
fn a_half_sent_frame_earns_time_by_arriving() {
    let config = NetworkConfig {
        half_frame_timeout_ms: 1_000,
        half_frame_min_bytes_per_s: 10_000,
        max_idle_ms: 50_000,
        ..NetworkConfig::default()
    };
    let mut house = House::new(&config, WIDE);
    let deadline = |house: &House, paused| house.connection.deadline(&config, paused);
    assert_eq!(deadline(&house, false), (50_000 * NS_PER_MS, CloseReason::Idle));
    let bytes = frame(PRODUCE, 9, 50_000);
    house.arrive(bytes[..5_000].to_vec(), 200 * NS_PER_MS);
    assert_eq!(deadline(&house, false), (1_700 * NS_PER_MS, CloseReason::SlowFrame));
    assert_eq!(deadline(&house, true).1, CloseReason::Idle, "it does not run while we do not read");
    house.arrive(bytes[5_000..10_000].to_vec(), 900 * NS_PER_MS);
    assert_eq!(deadline(&house, false), (2_200 * NS_PER_MS, CloseReason::SlowFrame));
    house.connection.excuse(3_000 * NS_PER_MS);
    assert_eq!(deadline(&house, false), (5_000 * NS_PER_MS, CloseReason::SlowFrame));
    house.arrive(bytes[10_000..].to_vec(), 4_000 * NS_PER_MS);
    assert_eq!(deadline(&house, false).1, CloseReason::Idle, "it is whole");
}

#[test]
fn a_large_frame_gives_up_its_memory_sooner_and_at_the_latest_when_it_stood_still_that_long() {
    let config = NetworkConfig {
        half_frame_timeout_ms: 1_000,
        half_frame_min_bytes_per_s: 10_000,
        ..NetworkConfig::default()
    };
    let mut house = House::new(&config, WIDE);
    let gives_up = |house: &House, paused| house.connection.gives_up_memory_at(&config, paused);
    let bytes = frame(PRODUCE, 9, 500_000);
    house.arrive(bytes[..1_000].to_vec(), 200 * NS_PER_MS);
    assert_eq!(gives_up(&house, false), None, "it holds no memory yet");
    assert_eq!(house.step_name(), "read");
    assert_eq!(gives_up(&house, false), Some((400 * NS_PER_MS, Share::Produces)));
    house.arrive(bytes[1_000..4_000].to_vec(), 300 * NS_PER_MS);
    assert_eq!(gives_up(&house, false), Some((700 * NS_PER_MS, Share::Produces)));
    assert_eq!(gives_up(&house, true), Some((1_000 * NS_PER_MS, Share::Produces)));
    house.connection.excuse(2_000 * NS_PER_MS);
    assert_eq!(gives_up(&house, false), Some((1_000 * NS_PER_MS, Share::Produces)));
}

#[test]
fn a_connection_with_a_request_that_waits_has_no_deadline() {
    let config = NetworkConfig::default();
    let mut house = House::new(&config, WIDE);
    house.arrive(frame(FETCH, 9, 5), 0);
    let (fetch, _) = house.submitted();
    assert_eq!(house.connection.deadline(&config, false).0, u64::MAX);
    assert!(!house.connection.is_settled());
    fetch.send(Response::NoResponse);
    house.connection.responses.take_ready(&mut Vec::new());
    assert_eq!(house.connection.deadline(&config, false).1, CloseReason::Idle);
    assert!(house.connection.is_settled());
}

/// The connection of a client that sends no more was closed before its answer reached the socket.
/// At a stop this happened to every client.
#[test]
fn a_connection_whose_answer_is_not_taken_is_neither_settled_nor_idle() {
    let config = NetworkConfig::default();
    let mut house = House::new(&config, WIDE);
    house.arrive(frame(PRODUCE, 9, 5), 0);
    let (produce, _) = house.submitted();
    produce.send(Response::NoResponse);
    assert!(!house.connection.is_settled());
    assert_eq!(house.connection.deadline(&config, false).0, u64::MAX);
}

#[test]
fn the_time_a_frame_took_to_arrive_is_known_when_it_is_taken() {
    let mut house = house();
    let bytes = frame(PRODUCE, 9, 500);
    house.arrive(bytes[..50].to_vec(), 1_000);
    house.arrive(bytes[50..].to_vec(), 5_000);
    house.submitted();
    assert_eq!(house.connection.frame_taken(6_000), 5_000);
    assert_eq!(house.connection.frame_taken(7_000), 0);
}

/// Fetches that waited were in no account: 300 of them, 56 KB each, held 80 MiB as long as their
/// `max_wait_ms` said.
#[test]
fn a_large_request_does_not_begin_while_others_that_wait_hold_too_much() {
    let mut house = house();
    house.queue.parked().set_max_bytes(100_000);
    let held = house.queue.parked().hold_fetch(100_000);
    house.arrive(frame(FETCH, 11, 2_000), 0);
    assert_eq!(name(&house.step()), "await room");
    assert_eq!(name(&house.step()), "await room");
    drop(held);
    let (responder, place) = house.submitted();
    drop((responder, place));

    // A small one takes no more than its connection: only twice as much keeps it back.
    let mut house = self::house();
    house.queue.parked().set_max_bytes(100_000);
    let first = house.queue.parked().hold_fetch(100_000);
    house.arrive(frame(FETCH, 11, 100), 0);
    let second = house.queue.parked().hold_fetch(100_000);
    assert_eq!(name(&house.step()), "await room");
    drop(second);
    let (responder, place) = house.submitted();
    drop((responder, place));
    drop(first);
}

#[test]
fn fetches_that_wait_keep_no_produce_back() {
    let mut house = house();
    house.queue.parked().set_max_bytes(100_000);
    let held = house.queue.parked().hold_fetch(1_000_000);
    house.arrive(frame(PRODUCE, 9, 2_000), 0);
    let (responder, place) = house.submitted();
    drop((responder, place, held));
}

/// A peer that had sent all it had and was reading a large answer was cut off after five seconds.
#[test]
fn a_peer_that_sends_no_more_has_time_as_long_as_it_reads() {
    let mut house = house();
    let second = 1_000 * NS_PER_MS;
    assert_eq!(house.connection.lingers_until(10 * second), 15 * second);
    house.connection.touch(14 * second);
    assert_eq!(house.connection.lingers_until(10 * second), 19 * second);
}

/// A burst of fetches begins before the first of them is known to wait.
#[test]
fn a_large_fetch_is_counted_from_its_admission_on() {
    let (mut first, mut second) = (house(), house());
    second.queue = Arc::clone(&first.queue);
    first.queue.parked().set_max_bytes(8_000);
    first.arrive(frame(FETCH, 11, 2_000), 0);
    second.arrive(frame(FETCH, 11, 2_000), 0);
    let (responder, place) = first.submitted();
    assert_eq!(name(&second.step()), "await room");
    // Its handler returned: from here on what it holds counts.
    drop((responder, place));
    let (responder, place) = second.submitted();
    drop((responder, place));
}
