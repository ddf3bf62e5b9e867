//! Peers that lie, stall, flood or leave: the others are served, and memory stays bounded.

use super::*;

#[test]
fn a_bad_size_or_header_closes_that_connection_alone() {
    let mut unknown_key = request(PRODUCE, 1, b"");
    unknown_key[4..6].copy_from_slice(&9_999i16.to_be_bytes());
    let mut bad_version = request(METADATA, 1, b"");
    bad_version[6..8].copy_from_slice(&999i16.to_be_bytes());
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("negative", (-1i32).to_be_bytes().to_vec(), "bad_size"),
        ("smallest", i32::MIN.to_be_bytes().to_vec(), "bad_size"),
        ("too large", [&1_000_001i32.to_be_bytes()[..], &[0, 3]].concat(), "bad_size"),
        ("too large for any", (100 << 20 | 1i32).to_be_bytes().to_vec(), "bad_size"),
        ("no header", 0i32.to_be_bytes().to_vec(), "bad_request"),
        ("unknown key", unknown_key, "bad_request"),
        ("unsupported version", bad_version, "bad_request"),
    ];
    let config = NetworkConfig { max_frame_bytes: 1_000_000, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let mut good = broker.connect();
    let mut closed = std::collections::HashMap::new();
    for (name, bytes, reason) in cases {
        let mut bad = broker.connect();
        bad.send(&bytes);
        assert!(bad.is_closed(), "{name}");
        let count: &mut u64 = closed.entry(reason).or_default();
        *count += 1;
        assert_eq!(broker.counter("kafkalite_connections_closed", reason), *count, "{name}");
        good.send(&request(HEARTBEAT, 7, b""));
        assert_eq!(good.receive_id(), 7, "{name}");
    }
}

/// A piece of a snapshot of the metadata was refused below 1.1 MiB, and a new broker never got one.
#[test]
fn what_brokers_send_each_other_may_be_larger_than_a_request_of_a_client() {
    let config = NetworkConfig { max_frame_bytes: 1_000, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let mut client = broker.connect();
    let body = vec![7; 2 << 20];
    for id in [1, 2] {
        client.send(&request(QUORUM, id, &body));
        assert_eq!(client.receive(), (id, body.clone()));
    }
    client.send(&request(METADATA, 3, &[7; 2_000])[..100]);
    assert!(client.is_closed());
    assert_eq!(broker.counter("kafkalite_connections_closed", "bad_size"), 1);
}

#[test]
fn api_versions_of_an_unknown_version_reaches_the_handler() {
    let broker = Broker::start(NetworkConfig::default(), echo);
    let mut client = broker.connect();
    let mut bytes = request(18, 5, b"");
    bytes[6..8].copy_from_slice(&999i16.to_be_bytes());
    client.send(&bytes);
    assert_eq!(client.receive_id(), 5);
}

#[test]
fn a_frame_may_arrive_byte_by_byte_or_be_much_larger_than_the_read_buffer() {
    let broker = Broker::start(NetworkConfig::default(), echo);
    let mut client = broker.connect();
    for byte in request(METADATA, 1, b"slowly") {
        client.send(&[byte]);
    }
    assert_eq!(client.receive(), (1, b"slowly".to_vec()));
    for (id, length) in [(2, 65_000), (3, 65_536), (4, 70_000), (5, 3_000_000), (6, 10)] {
        let body: Vec<u8> = (0..length).map(|i: u32| (i % 251) as u8).collect();
        let mut both = request(PRODUCE, id, &body);
        both.extend(request(PRODUCE, id + 100, b"behind it"));
        let mut writer = client.stream.try_clone().expect("a descriptor");
        let sender = std::thread::spawn(move || writer.write_all(&both));
        assert_eq!(client.receive(), (id, body), "{length} bytes");
        assert_eq!(client.receive(), (id + 100, b"behind it".to_vec()));
        let _ends = awaited::within("the broker reads what is sent");
        sender.join().expect("no panic").expect("the broker reads");
    }
}

fn manual(config: NetworkConfig) -> (Arc<ManualClock>, Broker) {
    let clock = Arc::new(ManualClock::new(0));
    let bounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };
    let handed = Arc::clone(&clock) as Arc<dyn Clock>;
    (clock, Broker::start_with(config, bounds, handed, Arc::new(echo)))
}

#[test]
fn a_half_sent_frame_ends_its_connection_at_the_deadline_and_an_idle_one_stays() {
    let config = NetworkConfig { half_frame_timeout_ms: 1_000, ..NetworkConfig::default() };
    let (clock, broker) = manual(config);
    let (mut slow, mut idle) = (broker.connect(), broker.connect());
    for client in [&mut slow, &mut idle] {
        client.send(&request(HEARTBEAT, 1, b""));
        assert_eq!(client.receive_id(), 1);
    }
    // A complete request and the beginning of the next in one piece: once the answer is here, the
    // beginning has been read.
    let mut bytes = request(HEARTBEAT, 2, b"");
    bytes.extend(&request(HEARTBEAT, 3, b"never whole")[..9]);
    slow.send(&bytes);
    assert_eq!(slow.receive_id(), 2);
    clock.advance_ms(900);
    slow.send(b"x");
    clock.advance_ms(90);
    idle.send(&request(HEARTBEAT, 4, b""));
    assert_eq!(idle.receive_id(), 4);
    assert_eq!(broker.counter("kafkalite_connections_closed", "slow_frame"), 0);
    clock.advance_ms(11);
    assert!(slow.is_closed());
    assert_eq!(broker.counter("kafkalite_connections_closed", "slow_frame"), 1);
    idle.send(&request(HEARTBEAT, 5, b""));
    assert_eq!(idle.receive_id(), 5);
}

#[test]
fn an_idle_connection_is_closed_and_a_parked_one_is_not() {
    let parked = Parked::default();
    let (sent, began) = mpsc::channel();
    let (sent, park) = (Mutex::new(sent), parked.clone());
    let clock = Arc::new(ManualClock::new(0));
    let config = NetworkConfig { max_idle_ms: 5_000, ..NetworkConfig::default() };
    let bounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };
    let run: RunRequest = Arc::new(move |request| match request.header.api_key {
        FETCH => {
            park.park(request);
            sent.lock().send(()).expect("the test listens");
        }
        _ => echo(request),
    });
    let handed = Arc::clone(&clock) as Arc<dyn Clock>;
    let broker = Broker::start_with(config, bounds, handed, run);
    let (mut idle, mut waiting) = (broker.connect(), broker.connect());
    idle.send(&request(HEARTBEAT, 1, b""));
    assert_eq!(idle.receive_id(), 1);
    waiting.send(&request(FETCH, 2, b""));
    began.recv_timeout(PATIENCE).expect("the fetch began");
    clock.advance_ms(5_001);
    assert!(idle.is_closed());
    assert_eq!(broker.counter("kafkalite_connections_closed", "idle"), 1);
    parked.answer(2);
    assert_eq!(waiting.receive_id(), 2);
    // It has its answer, and from now on it is idle like the others. The round trip lets the thread
    // end the turn in which it wrote. Otherwise the time of that write could be read after the
    // clock moved.
    let mut other = broker.connect();
    other.send(&request(HEARTBEAT, 3, b""));
    assert_eq!(other.receive_id(), 3);
    clock.advance_ms(5_001);
    assert!(waiting.is_closed());
}

#[test]
fn a_full_data_lane_stops_its_connections_and_lets_heartbeats_through() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let (sent, began) = mpsc::channel();
    let sent = Mutex::new(sent);
    let run: RunRequest = Arc::new(move |request| {
        if request.header.api_key == PRODUCE {
            sent.lock().send(()).expect("the test listens");
            awaited::received("the test releases", &released.lock());
        }
        echo(request);
    });
    let bounds = LaneBounds { max_requests: 4, max_bytes: 1 << 20 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let config = NetworkConfig { inline: InlineMode::Never, ..NetworkConfig::default() };
    let broker = Broker::start_with(config, bounds, clock, run);
    let mut producer = broker.connect();
    let mut burst = Vec::new();
    for id in 0..50 {
        burst.extend(request(PRODUCE, id, &[1; 100]));
    }
    producer.send(&burst);
    began.recv_timeout(PATIENCE).expect("the first produce began");
    // One I/O thread is stuck with the producer, its lane is full, and the other thread serves
    // heartbeats that come over the same network thread.
    let mut consumer = broker.connect();
    for id in 0..10 {
        consumer.send(&request(HEARTBEAT, id, b""));
        assert_eq!(consumer.receive_id(), id);
    }
    for _ in 0..50 {
        release.send(()).expect("the handler waits");
    }
    for id in 0..50 {
        assert_eq!(producer.receive_id(), id);
    }
}

#[test]
fn half_sent_large_frames_share_a_bounded_room_and_all_get_through() {
    let config = NetworkConfig { half_frame_bytes: 300 << 10, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let body = vec![9; 1 << 20];
    let clients: Vec<_> = (0..8)
        .map(|id| {
            let mut client = broker.connect();
            let bytes = request(PRODUCE, id, &body);
            std::thread::spawn(move || {
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                client.send(first);
                client.send(rest);
                let (got, echoed) = client.receive();
                (got, echoed.len())
            })
        })
        .collect();
    let _ends = awaited::within("every client has its answer");
    for (id, client) in (0..8).zip(clients) {
        assert_eq!(client.join().expect("no panic"), (id, 1 << 20));
    }
}

/// Slow frames held the whole memory of their kind, and each had 30 s and more.
#[test]
fn slow_frames_give_up_their_memory_when_another_connection_waits_for_it() {
    let config = NetworkConfig { half_frame_bytes: 4 << 20, ..NetworkConfig::default() };
    let (clock, broker) = manual(config);
    let mut other = broker.connect();
    let mut looked_at = || {
        for id in 0..2 {
            other.send(&request(HEARTBEAT, id, b""));
            assert_eq!(other.receive_id(), id);
        }
    };
    let bytes = request(METADATA, 7, &[0; 500_000]);
    let mut slow: Vec<Client> = (0..2).map(|_| broker.connect()).collect();
    for client in &mut slow {
        // Most of it, so that the frame has all its memory.
        client.send(&bytes[..450_000]);
    }
    let _ends = awaited::within("what was sent is received");
    while broker.counter("kafkalite_network_bytes_in", "") < 900_000 {
        looked_at();
    }
    clock.advance_ms(10_000);
    looked_at();
    assert_eq!(broker.counter("kafkalite_connections_closed", "slow_frame"), 0);
    let mut waiting = broker.connect();
    waiting.send(&request(HEARTBEAT, 1, b""));
    assert_eq!(waiting.receive_id(), 1, "its thread has it");
    waiting.send(&request(METADATA, 8, &[0; 100_000]));
    looked_at();
    clock.advance_ms(1_000);
    assert_eq!(waiting.receive_id(), 8);
    assert!(slow.iter_mut().all(Client::is_closed));
    assert_eq!(broker.counter("kafkalite_connections_closed", "slow_frame"), 2);
}

/// A complete frame keeps its memory until it may begin, and all kinds had one room. While the
/// waiting fetches held too much, further large fetches filled the room, and no large produce
/// arrived.
#[test]
fn large_fetches_that_may_not_begin_keep_no_large_produce_from_arriving() {
    let config = NetworkConfig { half_frame_bytes: 1 << 20, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    broker.queue.parked().set_max_bytes(1);
    let held = broker.queue.parked().hold_fetch(10_000);
    let mut fetchers: Vec<Client> = (0..20).map(|_| broker.connect()).collect();
    for (id, client) in (0..).zip(&mut fetchers) {
        client.send(&request(FETCH, id, &[0; 100_000]));
    }
    let mut other = broker.connect();
    for id in 0..2 {
        // What arrived before it was looked at before it is answered.
        other.send(&request(HEARTBEAT, id, b""));
        assert_eq!(other.receive_id(), id);
    }
    for (id, api_key) in [(2, PRODUCE), (3, METADATA)] {
        other.send(&request(api_key, id, &[0; 200_000]));
        assert_eq!(other.receive_id(), id, "of {api_key}");
    }
    drop(held);
    for (id, client) in (0..).zip(&mut fetchers) {
        assert_eq!(client.receive_id(), id);
    }
}

/// Memory of one kind became free. Before its waiters were looked at, a frame of another kind began
/// to wait. The wait was noted for both kinds, and the former waiters waited on.
#[test]
fn memory_that_became_free_is_not_forgotten_because_another_kind_begins_to_wait() {
    let config = NetworkConfig {
        half_frame_bytes: 8,
        network_threads: 1,
        inline: InlineMode::Always,
        ..NetworkConfig::default()
    };
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    let (begun, may_go_on) = (Mutex::new(begun), Mutex::new(may_go_on));
    let broker = Broker::start(config, move |request| {
        if &request.body[..] == b"hold the thread" {
            begun.lock().send(()).expect("the test waits");
            may_go_on.lock().recv_timeout(PATIENCE).expect("the test lets it go on");
        }
        echo(request);
    });
    let mut other = broker.connect();
    let mut looked_at = || {
        for id in 0..2 {
            other.send(&request(HEARTBEAT, id, b""));
            assert_eq!(other.receive_id(), id);
        }
    };
    let [produce, fetch] = [PRODUCE, FETCH].map(|api_key| request(api_key, 7, &[0; 100_000]));
    let [mut producer, mut late_producer] = [broker.connect(), broker.connect()];
    let [mut fetcher, mut late_fetcher] = [broker.connect(), broker.connect()];
    producer.send(&produce[..1_000]);
    fetcher.send(&fetch[..1_000]);
    looked_at();
    late_producer.send(&produce);
    late_fetcher.send(&fetch[..1_000]);
    looked_at();
    let mut blocking = broker.connect();
    blocking.send(&request(HEARTBEAT, 1, b"hold the thread"));
    has_begun.recv_timeout(PATIENCE).expect("the thread is held");
    producer.send(&produce[1_000..]);
    late_fetcher.send(&fetch[1_000..2_000]);
    go_on.send(()).expect("the handler waits");
    assert_eq!(producer.receive_id(), 7);
    assert_eq!(late_producer.receive_id(), 7, "the memory of produces is free");
    fetcher.send(&fetch[1_000..]);
    assert_eq!(fetcher.receive_id(), 7);
    late_fetcher.send(&fetch[2_000..]);
    assert_eq!(late_fetcher.receive_id(), 7);
}

#[test]
fn connections_above_the_bound_of_one_address_are_closed_at_once() {
    let config = NetworkConfig { max_connections_per_ip: 2, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let mut first = broker.connect();
    first.send(&request(HEARTBEAT, 1, b""));
    assert_eq!(first.receive_id(), 1);
    let mut second = broker.connect();
    second.send(&request(HEARTBEAT, 2, b""));
    assert_eq!(second.receive_id(), 2);
    assert!(broker.connect().is_closed());
    assert_eq!(broker.counter("kafkalite_connections_refused", ""), 1);
}

#[test]
fn connections_above_the_bound_in_total_wait_until_one_closes() {
    let config = NetworkConfig { max_connections: 1, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let mut first = broker.connect();
    first.send(&request(HEARTBEAT, 1, b""));
    assert_eq!(first.receive_id(), 1);
    let mut second = broker.connect();
    second.send(&request(HEARTBEAT, 2, b""));
    first.send(&request(HEARTBEAT, 3, b""));
    assert_eq!(first.receive_id(), 3);
    assert_eq!(broker.counter("kafkalite_connections_accepted", ""), 1);
    drop(first);
    assert_eq!(second.receive_id(), 2);
}

/// Clients that took all connections kept brokers from each other: no voter came back.
#[test]
fn brokers_are_let_in_on_their_listener_when_clients_have_all_connections() {
    let listener = |name: &str, audience| ListenerConfig {
        name: name.into(),
        host: "127.0.0.1".into(),
        port: 0,
        audience,
    };
    let listeners =
        vec![listener("CLIENTS", Audience::Clients), listener("BROKERS", Audience::Brokers)];
    let config = NetworkConfig { listeners, max_connections: 1, ..NetworkConfig::default() };
    let broker = Broker::start(config, echo);
    let mut client = broker.connect();
    client.send(&request(HEARTBEAT, 1, b""));
    assert_eq!(client.receive_id(), 1);
    let mut waits = broker.connect();
    waits.send(&request(HEARTBEAT, 2, b""));
    let mut others = [3, 4].map(|id| (id, broker.connect_to(1)));
    for (id, other) in &mut others {
        other.send(&request(HEARTBEAT, *id, b""));
        assert_eq!(other.receive_id(), *id);
    }
    drop(others);
    drop(client);
    assert_eq!(waits.receive_id(), 2);
}
