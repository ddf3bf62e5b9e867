//! A stop loses no answer, and does not wait for clients that have all answers.

use std::sync::atomic::{AtomicI32, Ordering};

use super::*;

/// Reads whole frames until the end, a little at a time. Returns how many came, and how it ended.
fn read_slowly(client: &mut Client) -> (i32, std::io::Result<usize>) {
    let (mut bytes, mut some) = (Vec::new(), [0; 1_000]);
    let end = loop {
        match client.stream.read(&mut some) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&some[..count]),
            end => break end,
        }
    };
    let (mut rest, mut count) = (&bytes[..], 0);
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let Some((_, after)) = after.split_at_checked(u32::from_be_bytes(*size) as usize) else {
            break;
        };
        (rest, count) = (after, count + 1);
    }
    (count, end)
}

/// A reset lost the rest of its answers, because the socket held requests that had not begun.
#[test]
fn a_peer_that_asks_ahead_and_reads_slowly_gets_every_answer_of_before_the_stop() {
    let begun = Arc::new(AtomicI32::new(0));
    let counted = Arc::clone(&begun);
    let broker = Broker::start(NetworkConfig::default(), move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        request.responder.send(frame(request.header.correlation_id, &[7; 100_000]));
    });
    let mut client = broker.connect_slow_reader();
    let ahead: Vec<u8> = (0..200).flat_map(|id| request(PRODUCE, id, &[1; 4_000])).collect();
    let mut writer = client.stream.try_clone().expect("a descriptor");
    let sender = std::thread::spawn(move || {
        // The broker reads no more at some point, and then ends.
        let _ = writer.write_all(&ahead);
    });
    awaited::until("requests are begun", || begun.load(Ordering::SeqCst) >= 3);
    broker.network.begin_stop(u64::MAX);
    let (got, end) = read_slowly(&mut client);
    assert_eq!((got, end.ok()), (begun.load(Ordering::SeqCst), Some(0)));
    drop(client);
    let _ends = awaited::within("the network stops");
    broker.network.join();
    sender.join().expect("it writes");
}

#[test]
fn a_stop_waits_for_no_peer_that_has_all_its_answers() {
    let broker = Broker::start(NetworkConfig::default(), echo);
    let mut idle: Vec<Client> = (0..3).map(|_| broker.connect()).collect();
    for client in &mut idle {
        client.send(&request(METADATA, 1, b""));
        assert_eq!(client.receive_id(), 1);
    }
    let began_ns = broker.clock.monotonic_ns();
    broker.network.begin_stop(u64::MAX);
    let _ends = awaited::within("the network stops");
    broker.network.join();
    let took_ms = (broker.clock.monotonic_ns() - began_ns) / 1_000_000;
    assert!(took_ms < 900, "{took_ms} ms, as long as for one that asks more");
    assert!(idle.iter_mut().all(Client::is_closed));
}

#[test]
fn a_stop_leaves_a_peer_that_takes_nothing_at_its_deadline() {
    let broker = Broker::start(NetworkConfig::default(), |request| {
        request.responder.send(frame(request.header.correlation_id, &[7; 4 << 20]));
    });
    let mut client = broker.connect_slow_reader();
    client.send(&request(METADATA, 1, b""));
    let mut first = [0; 1];
    client.stream.read_exact(&mut first).expect("the answer begins");
    broker.network.begin_stop(broker.clock.monotonic_ns() + 50_000_000);
    let _ends = awaited::within("the network stops");
    broker.network.join();
}
