//! A clean stop answers what it began, and takes back nothing that was promised.
#![allow(clippy::unwrap_used)]

mod client;

use client::storage::Asking;
use client::{Client, awaited, batch, config, create_topic, produce_request, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::SystemClock;
use kafkalite_protocol::messages::produce::ProduceRequest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

/// The stop closed the connections of produces that waited for the disk, although the disk was
/// about to have their records. Their clients sent the records again, and the log had them twice.
#[test]
fn a_produce_that_waits_for_the_disk_is_answered_by_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let (gate, is_closed) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let (told, came) = mpsc::channel();
    let (passed, closed, told) = (gate.clone(), is_closed.clone(), Mutex::new(told));
    let storage = Asking::new(move |_, _| {
        let is_committer = std::thread::current().name() == Some("group-commit");
        if is_committer && closed.load(Ordering::SeqCst) {
            let _ = told.lock().unwrap().send(());
            drop(passed.lock().unwrap());
        }
        Ok(())
    });
    let config = config(directory.path(), &[]);
    let broker = Broker::start_with(config, Arc::new(SystemClock::new()), storage).unwrap();
    create_topic(&broker, "t", 1, &[("flush.messages", "1")]);
    for acks in [1, -1] {
        let mut client = Client::connect(&broker);
        assert_eq!(client.produce("t", batch(&["before"], None), acks).error_code, 0);
    }
    let mut clients = [1, -1].map(|acks| (acks, Client::connect(&broker)));
    let held = gate.lock().unwrap();
    is_closed.store(true, Ordering::SeqCst);
    for (acks, client) in &mut clients {
        client.send(&produce_request("t", batch(&["v"], None), *acks), 9);
    }
    awaited::received("a group comes to the disk", &came);
    let rooms = broker.rooms();
    awaited::until("both produces wait", || rooms.produces.len() == 2);
    let mut idle = Client::connect(&broker);
    std::thread::scope(|scope| {
        let _ends = awaited::within("the broker stops");
        scope.spawn(|| broker.stop());
        // The stop has told the purgatories by then.
        assert!(idle.receive::<ProduceRequest>(9).is_none(), "its connection ends");
        drop(held);
    });
    for (acks, client) in &mut clients {
        let (_, response) = client.receive::<ProduceRequest>(9).expect("an answer");
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0, "acks={acks}");
    }
}

/// After a restart the broker knew only the last batch of each producer. If a client had five in
/// flight and lost their answers, the first four were refused, and the client sent them again in
/// another epoch.
#[test]
fn five_batches_that_are_sent_again_after_a_stop_are_where_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let batches: Vec<_> = (0..5).map(|number| batch(&["v"], Some((7, 0, number)))).collect();
    let send_all = |broker: &Broker| {
        let mut client = Client::connect(broker);
        let answers = batches.iter().map(|batch| client.produce("t", batch.clone(), -1));
        let answers = answers.map(|answer| (answer.error_code, answer.base_offset));
        answers.collect::<Vec<_>>()
    };
    let first = send_all(&broker);
    broker.stop();
    drop(broker);
    let broker = start(directory.path(), &[]);
    assert_eq!(first, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    assert_eq!(send_all(&broker), first);
    broker.stop();
}
