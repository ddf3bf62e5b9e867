//! Log directories that fail while logs are opened or made, and directories that change places.
#![allow(clippy::unwrap_used)]

mod client;

use client::storage::{Asking, Use};
use client::{Client, batch, config, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::ManualClock;
use kafkalite_protocol::{ErrorCode, Offset};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TOPICS: [&str; 4] = ["a", "b", "c", "d"];

fn dirs(directory: &Path, names: &[&str]) -> String {
    let paths = names.iter().map(|name| directory.join(name).display().to_string());
    paths.collect::<Vec<_>>().join(",")
}

/// A disk whose files called `.log` under `two` cannot be used in this way while `broken` says so.
fn failing(two: PathBuf, how: Use, broken: &Arc<AtomicBool>) -> Arc<Asking> {
    let broken = broken.clone();
    Asking::new(move |what, path| {
        let is_there = path.starts_with(&two) && path.extension().is_some_and(|it| it == "log");
        let fails = is_there && what == how && broken.load(Ordering::SeqCst);
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    })
}

/// Produces one record to a topic: the error code and the record's offset.
fn produced(client: &mut Client, topic: &str) -> (i16, i64) {
    let produced = client.produce(topic, batch(&["v"], None), -1);
    (produced.error_code, produced.base_offset)
}

/// A broker with the directories of these names whose topics end at `end`.
fn start_and_produce(directory: &Path, names: &[&str], end: i64) {
    let broker = start(directory, &[("log.dirs", &dirs(directory, names))]);
    let mut client = Client::connect(&broker);
    for topic in TOPICS {
        if end == 0 {
            create_topic(&broker, topic, 1, &[]);
        }
        assert_eq!(produced(&mut client, topic), (0, end), "{topic}");
    }
    broker.stop();
}

/// After the first failed read, all other logs of the directory were created again, empty, in
/// another directory. The log that failed followed at the next attempt.
#[test]
fn logs_of_a_directory_that_fails_while_they_are_opened_are_not_made_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    start_and_produce(directory.path(), &["one", "two"], 0);
    let in_two = |topic: &str| directory.path().join(format!("two/{topic}-0")).exists();
    assert_eq!(TOPICS.map(in_two), [false, true, false, true]);
    let broken = Arc::new(AtomicBool::new(true));
    let storage = failing(directory.path().join("two"), Use::Open, &broken);
    let both = dirs(directory.path(), &["one", "two"]);
    let settings = config(directory.path(), &[("log.dirs", &both)]);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    clock.advance_ms(1_000);
    broker.rooms().partitions.retry_unopened();
    let mut client = Client::connect(&broker);
    for topic in TOPICS {
        let offline = (ErrorCode::KafkaStorageError.code(), -1);
        let expected = if in_two(topic) { offline } else { (0, 1) };
        assert_eq!(produced(&mut client, topic), expected, "{topic}");
    }
    // The broker gives its clients time to leave, and the clock stands still.
    drop(client);
    broker.stop();
    let broker = start(directory.path(), &[("log.dirs", &both)]);
    let mut client = Client::connect(&broker);
    for topic in TOPICS {
        let expected = if in_two(topic) { 1 } else { 2 };
        assert_eq!(produced(&mut client, topic), (0, expected), "{topic}");
    }
    broker.stop();
}

/// What was begun in the directory that failed kept the partition from opening after a restart.
#[test]
fn a_log_that_was_made_in_another_directory_than_the_first_one_tried_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let both = dirs(directory.path(), &["one", "two"]);
    let settings = config(directory.path(), &[("log.dirs", &both)]);
    let broken = Arc::new(AtomicBool::new(true));
    let storage = failing(directory.path().join("two"), Use::Open, &broken);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    create_topic(&broker, "a", 1, &[]);
    create_topic(&broker, "b", 1, &[]);
    clock.advance_ms(1_000);
    broker.rooms().partitions.retry_unopened();
    assert_eq!(produced(&mut Client::connect(&broker), "b"), (0, 0));
    broker.stop();
    let there = |name: &str| directory.path().join(name).join("b-0").exists();
    assert!(there("one") && there("two"));

    let broker = start(directory.path(), &[("log.dirs", &both)]);
    assert_eq!(produced(&mut Client::connect(&broker), "b"), (0, 1));
    assert!(there("one") && !there("two"));
    broker.stop();
}

/// The first directory got a metadata log of its own, and every log was taken for a stray.
#[test]
fn directories_may_change_places() {
    let directory = tempfile::tempdir().unwrap();
    let orders: [&[&str]; 3] = [&["one", "two"], &["two", "one"], &["one", "two"]];
    for (end, names) in (0..).zip(orders) {
        start_and_produce(directory.path(), names, end);
    }
}

/// A new directory that was named first was given a cluster id of its own, and the others were then
/// refused as another cluster's.
#[test]
fn a_new_directory_may_be_named_first_or_last() {
    let directory = tempfile::tempdir().unwrap();
    let orders: [&[&str]; 3] = [&["one"], &["new", "one"], &["new", "one", "last"]];
    for (end, names) in (0..).zip(orders) {
        start_and_produce(directory.path(), names, end);
    }
}

/// A broker without its metadata log took all its logs for strays. When the metadata log was back,
/// the broker created the logs again, empty.
#[test]
fn where_logs_are_and_no_metadata_log_nothing_starts() {
    let directory = tempfile::tempdir().unwrap();
    start_and_produce(directory.path(), &["one", "two"], 0);
    let alone = dirs(directory.path(), &["two"]);
    let refused = Broker::start(config(directory.path(), &[("log.dirs", &alone)]));
    let why = refused.err().expect("it does not start").to_string();
    assert!(why.contains("__cluster_metadata-0"), "{why}");
    start_and_produce(directory.path(), &["one", "two"], 1);
}

/// A checkpoint that the disk could not read counted as empty, and was written as empty: records
/// that DeleteRecords had taken were there again.
#[test]
fn a_checkpoint_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let starts = |broker: &Broker| broker.rooms().partitions.all()[0].log_start_offset().0;
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    assert_eq!([0, 1].map(|_| produced(&mut client, "t").1), [0, 1]);
    broker.rooms().partitions.all()[0].delete_records(Offset(1), 1_000).unwrap();
    broker.stop();
    let storage = Asking::new(|what, path| {
        let fails = what == Use::Open && path.ends_with("log-start-offset-checkpoint");
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    });
    let settings = config(directory.path(), &[]);
    let clock = Arc::new(ManualClock::new(1_000_000));
    if let Ok(broker) = Broker::start_with(settings, clock, storage) {
        assert_eq!(starts(&broker), 1);
        broker.stop();
    }
    let broker = start(directory.path(), &[]);
    assert_eq!(starts(&broker), 1);
    broker.stop();
}
