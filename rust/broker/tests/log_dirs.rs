//! Several log directories, and what many threads do to the logs in them.
#![allow(clippy::unwrap_used)]

mod client;

use client::storage::{Asking, Use};
use client::{
    Client, await_notes, awaited, batch, config, create_topic, produce_request, record_count, start,
};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{ManualClock, SystemClock};
use kafkalite_broker::metadata::controller::TopicName;
use kafkalite_broker::partitions::Partition;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribeLogDirsRequest, DescribeLogDirsResult,
};
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::messages::produce::ProduceRequest;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const OFFLINE: i16 = ErrorCode::KafkaStorageError as i16;

fn two(directory: &Path) -> String {
    format!("{0}/one,{0}/two", directory.display())
}

fn described(client: &mut Client) -> Vec<DescribeLogDirsResult> {
    client.call(&DescribeLogDirsRequest { topics: None }, 4).results
}

/// A disk that fails under `two` from the moment that `broken` says so.
fn failing(two: PathBuf, broken: Arc<AtomicBool>) -> Arc<Asking> {
    Asking::new(move |what, path| {
        let fails = broken.load(Ordering::SeqCst) && path.starts_with(&two);
        if fails && what != Use::List { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    })
}

#[test]
fn a_disk_that_fails_takes_its_own_partitions_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let settings = config(directory.path(), &[("log.dirs", &two(directory.path()))]);
    let broken = Arc::new(AtomicBool::new(false));
    let storage = failing(directory.path().join("two"), broken.clone());
    let clock = Arc::new(SystemClock::new());
    let broker = Broker::start_with(settings, clock, storage).unwrap();
    let mut client = Client::connect(&broker);
    for topic in ["a", "b"] {
        create_topic(&broker, topic, 1, &[]);
        assert_eq!(client.produce(topic, batch(&["before"], None), -1).error_code, 0);
    }
    broken.store(true, Ordering::SeqCst);
    assert_eq!(client.produce("a", batch(&["after"], None), -1).error_code, 0);
    assert_eq!(client.produce("b", batch(&["after"], None), -1).error_code, OFFLINE);
    let dirs = described(&mut client);
    let told: Vec<_> = dirs.iter().map(|dir| (dir.error_code, dir.topics.len())).collect();
    assert_eq!(told, [(0, 1), (OFFLINE, 0)]);
    // What is made now is made where it can be.
    for topic in ["c", "d"] {
        create_topic(&broker, topic, 1, &[]);
        assert_eq!(client.produce(topic, batch(&["new"], None), -1).error_code, 0);
    }
    assert_eq!(described(&mut client)[0].topics.len(), 3);
    broker.stop();
    broken.store(false, Ordering::SeqCst);

    let both = two(directory.path());
    let broker = start(directory.path(), &[("log.dirs", &both)]);
    let mut client = Client::connect(&broker);
    for (topic, end) in [("a", 2), ("b", 1), ("c", 1), ("d", 1)] {
        let produced = client.produce(topic, batch(&["again"], None), -1);
        assert_eq!((produced.error_code, produced.base_offset), (0, end), "{topic}");
    }
    broker.stop();
}

/// A disk that failed as a log was made there was not taken offline. It had the fewest logs, so
/// every new one was tried there, again and again. The other disk was well.
#[test]
fn a_disk_that_fails_as_a_log_is_made_gets_no_more_logs() {
    let directory = tempfile::tempdir().unwrap();
    let settings = config(directory.path(), &[("log.dirs", &two(directory.path()))]);
    let broken = Arc::new(AtomicBool::new(true));
    let storage = failing(directory.path().join("two/b-0"), broken);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    let mut client = Client::connect(&broker);
    for topic in ["a", "b", "c"] {
        create_topic(&broker, topic, 1, &[]);
        awaited::until("the log is made on the other disk", || {
            clock.advance_ms(100);
            client.produce(topic, batch(&["new"], None), -1).error_code == 0
        });
    }
    let dirs = described(&mut client);
    let told: Vec<_> = dirs.iter().map(|dir| (dir.error_code, dir.topics.len())).collect();
    assert_eq!(told, [(0, 3), (OFFLINE, 0)]);
    // The broker gives its clients time to leave, and the clock stands still.
    drop(client);
    broker.stop();
}

/// A new log was tried again and again on a disk that was full, and never on the one with room.
#[test]
fn a_new_log_that_finds_a_disk_full_is_made_on_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let settings = config(directory.path(), &[("log.dirs", &two(directory.path()))]);
    // No room for any file of one log, and room for the first files of the other.
    let begun = ["two/b-0", "two/c-0"].map(|name| directory.path().join(name));
    let full =
        [begun[0].join("partition.metadata.tmp"), begun[1].join("leader-epoch-checkpoint.tmp")];
    let storage = Asking::new(move |_, path| {
        if full.iter().any(|it| it == path) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    });
    let broker = Broker::start_with(settings, Arc::new(SystemClock::new()), storage).unwrap();
    let mut client = Client::connect(&broker);
    let produced = |client: &mut Client, topic| {
        let produced = client.produce(topic, batch(&["value"], None), -1);
        (produced.error_code, produced.base_offset)
    };
    for topic in ["a", "b", "c"] {
        create_topic(&broker, topic, 1, &[]);
        assert_eq!(produced(&mut client, topic), (0, 0), "{topic}");
    }
    assert_eq!(begun.each_ref().map(|path| path.exists()), [true, true]);
    broker.stop();
    let broker = start(directory.path(), &[("log.dirs", &two(directory.path()))]);
    let mut client = Client::connect(&broker);
    for topic in ["a", "b", "c"] {
        assert_eq!(produced(&mut client, topic), (0, 1), "{topic}");
    }
    assert_eq!(begun.each_ref().map(|path| path.exists()), [false, false]);
    broker.stop();
}

/// The flush after a roll writes a small file. When it found the disk full, acknowledgements waited
/// for the next append, also when there was room again; who sends a batch again appends nothing.
#[test]
fn a_flush_that_found_the_disk_full_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicUsize::new(0));
    let (is_full, counted) = (full.clone(), refused.clone());
    let storage = Asking::new(move |_, path| {
        let is_epochs = path.to_string_lossy().ends_with("t-0/leader-epoch-checkpoint.tmp");
        if is_epochs && is_full.load(Ordering::SeqCst) {
            counted.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    });
    let clock = Arc::new(ManualClock::new(1_000_000));
    let settings = config(directory.path(), &[]);
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    create_topic(&broker, "t", 1, &[("flush.messages", "1"), ("segment.bytes", "1048576")]);
    let value = "v".repeat(700_000);
    let mut client = Client::connect(&broker);
    assert_eq!(client.produce("t", batch(&[&value], None), -1).error_code, 0);
    full.store(true, Ordering::SeqCst);
    let waits = produce_request("t", batch(&[&value], None), -1);
    let waits = ProduceRequest { timeout_ms: i32::MAX, ..waits };
    let produced = std::thread::spawn(move || client.call(&waits, 9));
    awaited::until("a flush finds the disk full", || refused.load(Ordering::SeqCst) > 0);
    full.store(false, Ordering::SeqCst);
    awaited::until("the flush is tried again", || {
        clock.advance_ms(100);
        produced.is_finished()
    });
    let answers = produced.join().unwrap().responses.remove(0).partition_responses;
    let produced = &answers[0];
    assert_eq!((produced.error_code, produced.base_offset), (0, 1));
    broker.stop();
}

/// One partition of `__consumer_offsets` that did not load kept the coordinator of every group from
/// being found, until a restart that could read it.
#[test]
fn a_lost_directory_costs_the_groups_that_live_there_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let both = two(directory.path());
    let settings = [("log.dirs", both.as_str()), ("offsets.topic.num.partitions", "2")];
    let settings = config(directory.path(), &settings);
    let find = |client: &mut Client| {
        let coordinator_keys = ["a", "b"].map(str::to_owned).to_vec();
        let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
        let found = client.call(&request, 6).coordinators;
        found.into_iter().map(|found| (found.key, found.error_code)).collect::<Vec<_>>()
    };
    let broker = Broker::start(settings.clone()).unwrap();
    let all_well = [("a".to_owned(), 0), ("b".to_owned(), 0)];
    assert_eq!(find(&mut Client::connect(&broker)), all_well);
    // A replica that was never noted is made on the other disk.
    await_notes(&broker);
    broker.stop();
    // The hash of a name of one character is that character.
    let lost = |group: &str| {
        let partition = group.bytes().map(i32::from).sum::<i32>() % 2;
        directory.path().join(format!("two/__consumer_offsets-{partition}")).exists()
    };
    let not_available = ErrorCode::CoordinatorNotAvailable as i16;
    let expected =
        ["a", "b"].map(|group| (group.to_owned(), if lost(group) { not_available } else { 0 }));
    assert_ne!(expected, all_well);

    let broken = Arc::new(AtomicBool::new(true));
    let storage = failing(directory.path().join("two"), broken);
    let broker = Broker::start_with(settings, Arc::new(SystemClock::new()), storage).unwrap();
    let mut client = Client::connect(&broker);
    awaited::until("what can be loaded is", || find(&mut client) == expected);
    assert_eq!(client.call(&ListGroupsRequest::default(), 4).error_code, 0);
    broker.stop();
}

/// Holds all threads until `wanted` different ones have come, or half a minute is over.
struct Meeting {
    wanted: usize,
    there: Mutex<BTreeSet<PathBuf>>,
    came: Condvar,
    /// A thread waited for too long; no thread waits any more.
    given_up: AtomicBool,
}

impl Meeting {
    fn of(wanted: usize) -> Arc<Self> {
        let (there, came) = (Mutex::default(), Condvar::new());
        Arc::new(Self { wanted, there, came, given_up: AtomicBool::new(false) })
    }

    fn join(&self, who: &Path) {
        let mut there = self.there.lock().unwrap();
        there.insert(who.to_owned());
        self.came.notify_all();
        let missing = |there: &mut BTreeSet<PathBuf>| {
            there.len() < self.wanted && !self.given_up.load(Ordering::SeqCst)
        };
        let waited = self.came.wait_timeout_while(there, awaited::LIMIT, missing).unwrap();
        self.given_up.fetch_or(waited.1.timed_out(), Ordering::SeqCst);
    }

    fn took_place(&self) -> bool {
        let are_here = self.there.lock().unwrap().len() >= self.wanted;
        are_here && !self.given_up.load(Ordering::SeqCst)
    }
}

/// Each new partition waits for the disk twice, and partitions did so one after another. A topic of
/// 50 partitions took ten times as long as before the waits existed.
#[test]
fn new_logs_are_made_side_by_side_and_spread_over_the_directories() {
    let directory = tempfile::tempdir().unwrap();
    let meeting = Meeting::of(4);
    let met = meeting.clone();
    let storage = Asking::new(move |what, path| {
        if what == Use::List && path.to_string_lossy().contains("/t-") {
            met.join(path);
        }
        Ok(())
    });
    let settings = config(directory.path(), &[("log.dirs", &two(directory.path()))]);
    let broker = Broker::start_with(settings, Arc::new(SystemClock::new()), storage).unwrap();
    create_topic(&broker, "t", 4, &[]);
    assert!(meeting.took_place(), "four logs at a time");
    let dirs = described(&mut Client::connect(&broker));
    let counts = dirs.iter().map(|dir| dir.topics.iter().map(|t| t.partitions.len()).sum());
    assert_eq!(counts.collect::<Vec<usize>>(), [2, 2]);
    broker.stop();
}

#[test]
fn logs_are_recovered_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, "t", 2, &[]);
    Client::connect(&broker).produce("t", batch(&["v"], None), -1);
    broker.kill();
    let meeting = Meeting::of(2);
    let met = meeting.clone();
    let storage = Asking::new(move |what, path| {
        if what == Use::List && path.to_string_lossy().contains("/t-") {
            met.join(path);
        }
        Ok(())
    });
    let settings = config(directory.path(), &[("num.recovery.threads.per.data.dir", "2")]);
    let clock = Arc::new(SystemClock::new());
    let broker = Broker::start_with(settings, clock, storage).unwrap();
    assert!(meeting.took_place(), "two threads were at two logs at once");
    broker.stop();
}

#[test]
fn logs_are_compacted_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let meeting = Meeting::of(2);
    let met = meeting.clone();
    let storage = Asking::new(move |what, path| {
        if what == Use::Open && path.to_string_lossy().ends_with(".log.cleaned") {
            met.join(path.parent().unwrap());
        }
        Ok(())
    });
    let settings = config(directory.path(), &[("log.cleaner.threads", "2")]);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    create_topic(&broker, "t", 2, &COMPACTED);
    broker.rooms().partitions.all().iter().for_each(|partition| fill(partition));
    clock.advance_ms(15_000);
    let there = meeting.there.lock().unwrap();
    let missing = |there: &mut BTreeSet<PathBuf>| there.len() < 2;
    let waited = meeting.came.wait_timeout_while(there, Duration::from_secs(30), missing);
    assert_eq!(waited.unwrap().0.len(), 2, "two threads were at two logs at once");
    broker.stop();
}

/// The cleaned offset of a log was kept by its name. A new log of the name counted as clean up to
/// there, and its records below were never compacted.
#[test]
fn a_topic_that_is_made_again_is_compacted_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_000_000));
    let storage = Arc::new(kafkalite_log::storage::RealStorage);
    let broker = Broker::start_with(config(directory.path(), &[]), clock.clone(), storage).unwrap();
    for life in ["the first is compacted", "the second is compacted"] {
        create_topic(&broker, "t", 1, &COMPACTED);
        let partition = broker.rooms().partitions.all().remove(0);
        fill(&partition);
        awaited::until(life, || {
            clock.advance_ms(15_000);
            record_count(&partition) < 5
        });
        let gone = [TopicName::Name("t".into())];
        broker.rooms().controller.blocking().delete_topics(&gone).pop().unwrap().unwrap();
    }
    broker.stop();
}

/// The group commit skipped a partition that was deleted before its turn came. A produce that
/// waited for the disk there was answered at its timeout.
#[test]
fn a_produce_that_waits_for_the_disk_fails_when_its_topic_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let (came, at_the_gate) = std::sync::mpsc::channel();
    let (closed, passed) = (gate.lock().unwrap(), gate.clone());
    let storage = Asking::new(move |what, path| {
        let commits = std::thread::current().name() == Some("group-commit");
        if commits && what == Use::Change && path.to_string_lossy().contains("/busy-0/") {
            let _ = came.send(());
            drop(passed.lock());
        }
        Ok(())
    });
    let clock = Arc::new(SystemClock::new());
    let broker = Broker::start_with(config(directory.path(), &[]), clock, storage).unwrap();
    // Opened before the broker is dropped, if the test fails: the broker waits for its threads.
    let closed = closed;
    for topic in ["busy", "t"] {
        create_topic(&broker, topic, 1, &[("flush.messages", "1")]);
    }
    // On a loaded machine the deletion comes late.
    let waiting = |topic| {
        let request = produce_request(topic, batch(&["v"], None), 1);
        ProduceRequest { timeout_ms: i32::MAX, ..request }
    };
    let mut busy = Client::connect(&broker);
    busy.send(&waiting("busy"), 9);
    awaited::received("the group commit comes to busy-0", &at_the_gate);
    let mut client = Client::connect(&broker);
    client.send(&waiting("t"), 9);
    awaited::until("both produces wait", || broker.rooms().produces.len() >= 2);
    let gone = [TopicName::Name("t".into())];
    broker.rooms().controller.blocking().delete_topics(&gone).pop().unwrap().unwrap();
    let (_, response) = client.receive::<ProduceRequest>(9).unwrap();
    let code = response.responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::NotLeaderOrFollower.code());
    drop(closed);
    broker.stop();
}

const COMPACTED: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "200"),
    ("min.cleanable.dirty.ratio", "0.01"),
];

/// Fills several segments with one key.
fn fill(partition: &Partition) {
    for _ in 0..9 {
        let batch = kafkalite_log::ValidatedBatch::trusted(&keyed()).unwrap();
        partition.append(&batch, true, 1_000_000).unwrap();
    }
    assert!(partition.log().active_base_offset().0 > 4, "in several segments");
}

fn keyed() -> bytes::Bytes {
    use kafkalite_protocol::compression::Codec;
    use kafkalite_protocol::record_batch::RecordBatchBuilder;
    use kafkalite_protocol::{LeaderEpoch, Offset};
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(1_000_000, Some(b"key"), Some(&[b'v'; 50]), &[]);
    builder.build(Offset(0), LeaderEpoch(-1)).unwrap()
}
