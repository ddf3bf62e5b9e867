//! What leaves: memory, file ranges, answers of handlers that failed, and the end of it all.

use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalite_log::{FileSlice, SegmentFile};

use super::*;
use crate::response_queue::tests::segment;

/// Answers each request with header, file ranges of the lengths in its body, and a trailer.
fn serve_ranges(file: Arc<SegmentFile>) -> impl Fn(Request) + Send + Sync + 'static {
    move |request| {
        let lengths: Vec<u32> = request
            .body
            .chunks_exact(4)
            .map(|chunk| u32::from_be_bytes(chunk.try_into().expect("four bytes")))
            .collect();
        let total: u32 = lengths.iter().sum::<u32>() + 3;
        let start = frame_start(request.header.correlation_id, total as usize, b"");
        let mut pieces = smallvec::smallvec![Piece::Mem(start)];
        let mut position = 0;
        for length in lengths {
            let file = Arc::clone(&file);
            pieces.push(Piece::File(FileSlice { file, position, length, written_ms: None }));
            position += u64::from(length);
        }
        pieces.push(Piece::Mem(Bytes::from_static(b"end")));
        request.responder.send(Response::Pieces(pieces));
    }
}

fn lengths(lengths: &[u32]) -> Vec<u8> {
    lengths.iter().flat_map(|length| length.to_be_bytes()).collect()
}

#[test]
fn file_ranges_small_and_large_arrive_between_the_memory_around_them() {
    let content: Vec<u8> = (0..6_000_000u32).map(|i| (i % 249) as u8).collect();
    let broker = Broker::start(NetworkConfig::default(), serve_ranges(segment(&content)));
    let mut client = broker.connect();
    let mut zero_copy = 0;
    for ranges in [
        &[10u32][..],
        &[16_383, 16_384, 1],
        &[5_000_000, 100, 0, 900_000],
        &[1; 200],
        &[20_000; 100],
    ] {
        client.send(&request(FETCH, 1, &lengths(ranges)));
        let (_, body) = client.receive();
        let total = ranges.iter().sum::<u32>() as usize;
        assert_eq!(body.len(), total + 3);
        assert!(body[..total] == content[..total], "the ranges in their order");
        assert_eq!(&body[total..], b"end");
        zero_copy += ranges.iter().filter(|&&n| n >= 16_384).count();
    }
    assert!(zero_copy > 0);
    assert!(broker.counter("kafkalite_network_bytes_out_zero_copy", "") > 5_000_000);
}

#[test]
fn a_file_shorter_than_its_range_closes_the_connection() {
    for length in [100u32, 100_000] {
        let broker = Broker::start(NetworkConfig::default(), serve_ranges(segment(&[1; 50])));
        let mut client = broker.connect();
        client.send(&request(FETCH, 1, &lengths(&[length])));
        let mut got = Vec::new();
        // The end of the stream, or a reset: in both cases less than the frame promised.
        let _ = client.stream.read_to_end(&mut got);
        assert!(got.len() < length as usize);
        assert_eq!(broker.counter("kafkalite_connections_closed", "short_file"), 1);
    }
}

#[test]
fn a_client_that_does_not_read_delays_no_other_and_holds_no_copies_of_files() {
    let content = vec![3u8; 4 << 20];
    let broker = Broker::start(NetworkConfig::default(), serve_ranges(segment(&content)));
    let mut deaf = broker.connect();
    for id in 0..200 {
        deaf.send(&request(FETCH, id, &lengths(&[4 << 20])));
    }
    let mut other = broker.connect();
    for id in 0..20 {
        other.send(&request(FETCH, id, &lengths(&[100_000])));
        assert_eq!(other.receive().1.len(), 100_003);
    }
    for id in 0..200 {
        assert_eq!(deaf.receive_id(), id);
    }
}

#[test]
fn what_came_in_meanwhile_is_served_before_the_rest_of_many_large_responses() {
    const READERS: usize = 16;
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let held = Mutex::new((begun, may_go_on));
    let ranges = serve_ranges(segment(&[7; 1 << 20]));
    let requests = AtomicUsize::new(0);
    let config = NetworkConfig { inline: InlineMode::Always, ..NetworkConfig::default() };
    // The first reader, the last reader and all later requests hold the only thread.
    let broker = Broker::start(config, move |request| {
        if request.header.api_key == HEARTBEAT {
            return echo(request);
        }
        let number = requests.fetch_add(1, Ordering::Relaxed);
        if [0, READERS - 1, READERS].contains(&number) {
            let (begun, may_go_on) = &*held.lock();
            begun.send(()).expect("the test listens");
            awaited::received("the test answers", may_go_on);
        }
        ranges(request);
    });
    let large = request(FETCH, 1, &lengths(&[1 << 20]));
    let mut readers: Vec<Client> = (0..READERS).map(|_| broker.connect()).collect();
    let mut other = broker.connect();
    // The thread knows all of them, or it would meet some a turn later.
    for client in readers.iter_mut().chain([&mut other]) {
        client.send(&request(HEARTBEAT, 0, b""));
        assert_eq!(client.receive_id(), 0);
    }
    let (first, rest) = readers.split_first_mut().expect("there are some");
    first.send(&large);
    has_begun.recv_timeout(PATIENCE).expect("the first reader's request begins");
    rest.iter_mut().for_each(|reader| reader.send(&large));
    go_on.send(()).expect("it waits");
    has_begun.recv_timeout(PATIENCE).expect("the last reader's request begins");
    other.send(&request(FETCH, 1, &lengths(&[10])));
    go_on.send(()).expect("it waits");
    has_begun.recv_timeout(PATIENCE).expect("the other's request begins");
    // One turn's bytes after the first reader's request, and one's after the others'.
    let written = broker.counter("kafkalite_network_bytes_out_zero_copy", "");
    go_on.send(()).expect("it waits");
    assert!(written <= 2 * ((256 << 10) + (16 << 10)), "{written} bytes went before");
    assert_eq!(other.receive().1.len(), 13);
    for reader in &mut readers {
        assert_eq!(reader.receive().1.len(), (1 << 20) + 3);
    }
}

#[test]
fn a_panic_in_a_handler_is_answered_and_everything_goes_on() {
    for inline in [InlineMode::Always, InlineMode::Never] {
        let config = NetworkConfig { inline, ..NetworkConfig::default() };
        let broker = Broker::start(config, |request| {
            assert_ne!(request.header.correlation_id, 1, "on purpose");
            echo(request);
        });
        let mut client = broker.connect();
        for id in 0..3 {
            client.send(&request(METADATA, id, b"fine"));
        }
        assert_eq!(client.receive(), (0, b"fine".to_vec()));
        assert_eq!(client.receive(), (1, b"UNKNOWN_SERVER_ERROR".to_vec()));
        assert_eq!(client.receive(), (2, b"fine".to_vec()));
    }
}

#[test]
fn a_request_that_is_dropped_or_answered_close_ends_the_connection_after_earlier_answers() {
    for close in [true, false] {
        let broker = Broker::start(NetworkConfig::default(), move |request| {
            match (request.header.correlation_id, close) {
                (1, true) => request.responder.send(Response::Close),
                (1, false) => drop(request),
                _ => echo(request),
            }
        });
        let mut client = broker.connect();
        let mut burst = Vec::new();
        for id in 0..3 {
            burst.extend(request(PRODUCE, id, b""));
        }
        client.send(&burst);
        assert_eq!(client.receive_id(), 0);
        assert!(client.is_closed());
    }
}

#[test]
fn stopping_waits_for_answers_that_are_owed_and_takes_no_more_requests() {
    let parked = Parked::default();
    let (sent, began) = mpsc::channel();
    let (sent, park) = (Mutex::new(sent), parked.clone());
    let broker = Broker::start(NetworkConfig::default(), move |request| {
        park.park(request);
        sent.lock().send(()).expect("the test listens");
    });
    let mut client = broker.connect();
    client.send(&request(FETCH, 1, b""));
    began.recv_timeout(PATIENCE).expect("it began");
    broker.network.begin_stop(u64::MAX);
    client.send(&request(FETCH, 2, b""));
    parked.answer(1);
    let _ends = awaited::within("the network stops");
    broker.network.join();
    assert_eq!(client.receive_id(), 1);
    assert!(client.is_closed());
    assert!(began.try_recv().is_err());
}

#[test]
fn stopping_does_not_wait_beyond_its_deadline() {
    let parked = Parked::default();
    let (sent, began) = mpsc::channel();
    let (sent, park) = (Mutex::new(sent), parked.clone());
    let broker = Broker::start(NetworkConfig::default(), move |request| {
        park.park(request);
        sent.lock().send(()).expect("the test listens");
    });
    let mut client = broker.connect();
    client.send(&request(FETCH, 1, b""));
    began.recv_timeout(PATIENCE).expect("it began");
    broker.network.begin_stop(broker.clock.monotonic_ns());
    let _ends = awaited::within("the network stops");
    broker.network.join();
    assert!(client.is_closed());
}
