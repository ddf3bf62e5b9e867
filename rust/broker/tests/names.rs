//! A name that is given again: what its former topic left on the disk does not reach the new one.
//! And a partition whose log does not open keeps what is known of it.
#![allow(clippy::unwrap_used)]

mod client;

use client::storage::{Asking, Use};
use client::{
    Client, awaited, batch, config, create_offsets_topic, create_topic, record_count, start,
};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{ManualClock, SystemClock};
use kafkalite_broker::metadata::controller::TopicName;
use kafkalite_broker::partitions::Partition;
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const STORAGE_ERROR: i16 = ErrorCode::KafkaStorageError as i16;
const ENOSPC: i32 = 28;
const EMFILE: i32 = 24;
const FEW_PARTITIONS: [(&str, &str); 1] = [("offsets.topic.num.partitions", "1")];

fn delete_topic(broker: &Broker, name: &str) {
    let gone = [TopicName::Name(name.into())];
    broker.rooms().controller.blocking().delete_topics(&gone).pop().unwrap().unwrap();
}

fn delete_records(client: &mut Client, topic: &str, offset: i64) {
    let partition = DeleteRecordsPartition { partition_index: 0, offset };
    let topic = DeleteRecordsTopic { name: topic.into(), partitions: vec![partition] };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 5_000 };
    let answer = client.call(&request, 2).topics.remove(0).partitions.remove(0);
    assert_eq!((answer.error_code, answer.low_watermark), (0, offset));
}

/// Produces `count` batches of one record to partition 0.
fn produce(client: &mut Client, topic: &str, count: usize) {
    for _ in 0..count {
        let answer = client.produce(topic, batch(&["v"], None), -1);
        assert_eq!(answer.error_code, 0, "{topic}");
    }
}

/// The error of a produce to partition 0.
fn produced(client: &mut Client, topic: &str) -> i16 {
    client.produce(topic, batch(&["v"], None), -1).error_code
}

fn partition(broker: &Broker, topic: &str) -> Arc<Partition> {
    broker.rooms().partitions.find_by_name(topic, 0).unwrap()
}

/// Start and end of partition 0.
fn bounds(broker: &Broker, topic: &str) -> (i64, i64) {
    let partition = partition(broker, topic);
    (partition.log_start_offset().0, partition.log_end_offset().0)
}

/// Refuses, as long as `refuses` says so, what `is_meant` holds of, with this error number.
fn refusing(
    refuses: &Arc<AtomicBool>,
    errno: i32,
    is_meant: impl Fn(Use, &str) -> bool + Send + Sync + 'static,
) -> Arc<Asking> {
    let refuses = refuses.clone();
    Asking::new(move |what, path| {
        if refuses.load(Ordering::SeqCst) && is_meant(what, &path.to_string_lossy()) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(())
    })
}

fn start_over(directory: &Path, storage: Arc<Asking>) -> Broker {
    Broker::start_with(config(directory, &[]), Arc::new(SystemClock::new()), storage).unwrap()
}

fn entries(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A topic that was created again began where its predecessor did, if the broker was killed before
/// it rewrote the checkpoints. Acknowledged records were hidden.
#[test]
fn a_topic_that_is_made_again_does_not_begin_where_its_predecessor_did() {
    let directory = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let storage = refusing(&refuses, ENOSPC, |_, path| path.contains("-offset-checkpoint"));
    let broker = start_over(directory.path(), storage);
    let mut client = Client::connect(&broker);
    create_topic(&broker, "t", 1, &[]);
    produce(&mut client, "t", 10);
    delete_records(&mut client, "t", 5);
    // From here on no checkpoint is written, as if each time the broker had been killed before.
    refuses.store(true, Ordering::SeqCst);
    delete_topic(&broker, "t");
    create_topic(&broker, "t", 1, &[]);
    produce(&mut client, "t", 10);
    broker.kill();
    for _ in 0..2 {
        let broker = start(directory.path(), &[]);
        assert_eq!(bounds(&broker, "t"), (0, 10));
        broker.kill();
    }
}

/// What groups had committed of a deleted topic was there for the next topic of its name, if the
/// records of their removal were lost.
#[test]
fn a_topic_that_is_made_again_has_no_offsets_of_its_predecessor() {
    let directory = tempfile::tempdir().unwrap();
    let id_of = |broker: &Broker| broker.rooms().controller.image().topic("t").unwrap().id;
    let broker = start(directory.path(), &FEW_PARTITIONS);
    let mut client = Client::connect(&broker);
    create_offsets_topic(&broker).unwrap();
    create_topic(&broker, "t", 1, &[]);
    let former = id_of(&broker);
    assert_eq!(commit(&mut client, 9, former, 7), 0);
    for version in [1, 9, 10] {
        assert_eq!(committed(&mut client, version, former), (0, 7), "version {version}");
    }
    broker.kill();
    // A power cut takes what was not synced; here that is all that is written from here on.
    let log = directory.path().join("__consumer_offsets-0/00000000000000000000.log");
    let synced = std::fs::read(&log).unwrap();
    let broker = start(directory.path(), &FEW_PARTITIONS);
    awaited::until("groups are loaded", || broker.rooms().groups.fetch("g", None).is_ok());
    delete_topic(&broker, "t");
    create_topic(&broker, "t", 1, &[]);
    broker.kill();
    assert!(std::fs::read(&log).unwrap().len() > synced.len(), "the removal was recorded");
    std::fs::write(&log, synced).unwrap();
    let broker = start(directory.path(), &FEW_PARTITIONS);
    let mut client = Client::connect(&broker);
    awaited::until("groups are loaded", || broker.rooms().groups.fetch("g", None).is_ok());
    let later = id_of(&broker);
    for version in [1, 9, 10] {
        assert_eq!(committed(&mut client, version, later), (0, -1), "version {version}");
    }
    let unknown = ErrorCode::UnknownTopicId.code();
    assert_eq!(committed(&mut client, 10, former), (unknown, -1));
    assert_eq!(commit(&mut client, 10, former, 8), unknown);
    assert_eq!(commit(&mut client, 10, later, 3), 0);
    broker.kill();
    let broker = start(directory.path(), &FEW_PARTITIONS);
    let mut client = Client::connect(&broker);
    awaited::until("groups are loaded", || broker.rooms().groups.fetch("g", None).is_ok());
    for version in [1, 9, 10] {
        assert_eq!(committed(&mut client, version, later), (0, 3), "version {version}");
    }
    broker.stop();
}

/// Commits an offset of partition 0 of topic `t`, by id from version 10 on.
fn commit(client: &mut Client, version: i16, id: Uuid, committed_offset: i64) -> i16 {
    let by_id = version >= 10;
    let topic = OffsetCommitRequestTopic {
        name: if by_id { String::new() } else { "t".into() },
        topic_id: if by_id { id } else { Uuid::ZERO },
        partitions: vec![OffsetCommitRequestPartition {
            committed_offset,
            ..OffsetCommitRequestPartition::default()
        }],
    };
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    };
    client.call(&request, version).topics[0].partitions[0].error_code
}

/// What group `g` has committed of partition 0 of topic `t`: the error, and the offset.
fn committed(client: &mut Client, version: i16, id: Uuid) -> (i16, i64) {
    let by_id = version >= 10;
    let name = if by_id { String::new() } else { "t".to_owned() };
    if version < 8 {
        let topic = OffsetFetchRequestTopic { name, partition_indexes: vec![0] };
        let request = OffsetFetchRequest {
            group_id: "g".into(),
            topics: Some(vec![topic]),
            ..OffsetFetchRequest::default()
        };
        let answer = client.call(&request, version).topics.remove(0).partitions.remove(0);
        return (answer.error_code, answer.committed_offset);
    }
    let topic = OffsetFetchRequestTopics {
        name,
        topic_id: if by_id { id } else { Uuid::ZERO },
        partition_indexes: vec![0],
    };
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
    let mut answer = client.call(&request, version).groups.remove(0);
    let answer = answer.topics.remove(0).partitions.remove(0);
    (answer.error_code, answer.committed_offset)
}

/// A killed broker may leave the directory of a deleted topic under its old name. Such a directory
/// stayed on the disk, and became a stray when the name was given again.
#[test]
fn what_a_deleted_topic_left_under_its_name_is_deleted_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let storage = refusing(&refuses, ENOSPC, |_, path| path.ends_with("/t-0"));
    let broker = start_over(directory.path(), storage);
    create_topic(&broker, "t", 1, &[]);
    produce(&mut Client::connect(&broker), "t", 3);
    refuses.store(true, Ordering::SeqCst);
    delete_topic(&broker, "t");
    broker.kill();
    assert!(directory.path().join("t-0").is_dir());
    let broker = start(directory.path(), &[]);
    let is_left = || entries(directory.path()).iter().any(|name| name.starts_with("t-0"));
    awaited::until("the directory is removed", || !is_left());
    create_topic(&broker, "t", 1, &[]);
    produce(&mut Client::connect(&broker), "t", 1);
    assert_eq!(bounds(&broker, "t"), (0, 1));
    broker.stop();
}

/// A directory of a topic that this cluster does not know may hold records that are still needed.
/// It is put aside, and never deleted or served.
#[test]
fn the_directory_of_an_unknown_topic_becomes_a_stray() {
    let directory = tempfile::tempdir().unwrap();
    start(directory.path(), &[]).stop();
    let foreign = directory.path().join("t-0");
    std::fs::create_dir(&foreign).unwrap();
    let id = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
    std::fs::write(foreign.join("partition.metadata"), id).unwrap();
    let broker = start(directory.path(), &[]);
    assert!(!foreign.exists());
    let left = entries(directory.path());
    assert!(left.iter().any(|name| name.ends_with("-stray")), "{left:?}");
    create_topic(&broker, "t", 1, &[]);
    broker.stop();
}

/// A topic with ten records of which DeleteRecords took five, behind a broker that stopped.
fn stopped_with_a_log_start(directory: &Path) {
    let broker = start(directory, &[]);
    let mut client = Client::connect(&broker);
    create_topic(&broker, "t", 1, &[]);
    produce(&mut client, "t", 10);
    delete_records(&mut client, "t", 5);
    broker.stop();
}

fn of_t(_: Use, path: &str) -> bool {
    path.contains("/t-0/")
}

/// A partition that did not open lost its entries in the checkpoints at the next stop: what
/// DeleteRecords had deleted came back.
#[test]
fn a_partition_that_does_not_open_keeps_its_log_start() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_log_start(directory.path());
    let refuses = Arc::new(AtomicBool::new(true));
    let broker = start_over(directory.path(), refusing(&refuses, EMFILE, of_t));
    assert_eq!(produced(&mut Client::connect(&broker), "t"), STORAGE_ERROR);
    broker.stop();
    let broker = start(directory.path(), &[]);
    assert_eq!(bounds(&broker, "t"), (5, 10));
    broker.stop();
}

fn only_segment(directory: &Path) -> PathBuf {
    directory.join("t-0").join("00000000000000000000.log")
}

#[test]
fn the_directory_of_a_release_without_ids_beside_its_checkpoints_opens() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_log_start(directory.path());
    std::fs::remove_file(directory.path().join("checkpoint-topic-ids")).unwrap();
    for _ in 0..2 {
        let broker = start(directory.path(), &[]);
        assert_eq!(bounds(&broker, "t"), (5, 10));
        broker.kill();
    }
}

/// The stop of a broker counted as clean although a log had not opened. The torn tail that a kill
/// had left in that log was never cut, and was served if it was zeros.
#[test]
fn a_log_that_did_not_open_is_checked_by_the_next_start() {
    for tail in [&[7_u8; 30][..], &[0; 4_096]] {
        let directory = tempfile::tempdir().unwrap();
        let broker = start(directory.path(), &[]);
        create_topic(&broker, "t", 1, &[]);
        produce(&mut Client::connect(&broker), "t", 3);
        broker.kill();
        let mut bytes = std::fs::read(only_segment(directory.path())).unwrap();
        bytes.extend_from_slice(tail);
        std::fs::write(only_segment(directory.path()), bytes).unwrap();
        let refuses = Arc::new(AtomicBool::new(true));
        start_over(directory.path(), refusing(&refuses, EMFILE, of_t)).stop();
        let broker = start(directory.path(), &[]);
        produce(&mut Client::connect(&broker), "t", 1);
        assert_eq!(bounds(&broker, "t"), (0, 4));
        broker.kill();
        let broker = start(directory.path(), &[]);
        assert_eq!(bounds(&broker, "t"), (0, 4), "what was appended behind it can be read");
        broker.stop();
    }
}

/// After a panic while a log was opened, the broker opened it once more as a new log: with log
/// start and recovery point 0.
#[test]
fn a_log_whose_opening_panics_keeps_its_log_start() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_log_start(directory.path());
    let panics = Arc::new(AtomicBool::new(true));
    let seen = panics.clone();
    let storage = Asking::new(move |_, path| {
        let opens = path.ends_with("t-0/00000000000000000000.log");
        if opens && seen.swap(false, Ordering::SeqCst) {
            panic!("a bug while a log is opened");
        }
        Ok(())
    });
    let clock = Arc::new(ManualClock::new(1_000_000));
    let settings = config(directory.path(), &[]);
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    assert!(!panics.load(Ordering::SeqCst), "it panicked");
    awaited::until("the log is opened", || {
        clock.advance_ms(1_000);
        broker.rooms().partitions.find_by_name("t", 0).is_ok()
    });
    assert_eq!(bounds(&broker, "t"), (5, 10));
    broker.stop();
    let broker = start(directory.path(), &[]);
    assert_eq!(bounds(&broker, "t"), (5, 10));
    broker.stop();
}

/// A partition whose log could not be made stayed dead until a restart.
#[test]
fn a_log_that_could_not_be_made_is_made_later() {
    let directory = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(true));
    let storage = refusing(&refuses, ENOSPC, of_t);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let settings = config(directory.path(), &[]);
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    assert_eq!(produced(&mut client, "t"), STORAGE_ERROR);
    refuses.store(false, Ordering::SeqCst);
    awaited::until("the log is made", || {
        clock.advance_ms(1_000);
        produced(&mut client, "t") == 0
    });
    // The stop gives a connection some time on this clock, which stands still.
    drop(client);
    broker.stop();
    let broker = start(directory.path(), &[]);
    assert_eq!(bounds(&broker, "t"), (0, 1));
    broker.stop();
}

/// A deleted topic left the directories of its partitions that had not opened: a new topic of the
/// name met them.
#[test]
fn a_deleted_topic_takes_partitions_with_it_that_did_not_open() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_log_start(directory.path());
    let refuses = Arc::new(AtomicBool::new(true));
    let broker = start_over(directory.path(), refusing(&refuses, EMFILE, of_t));
    delete_topic(&broker, "t");
    assert!(!directory.path().join("t-0").exists());
    refuses.store(false, Ordering::SeqCst);
    create_topic(&broker, "t", 1, &[]);
    produce(&mut Client::connect(&broker), "t", 1);
    assert_eq!(bounds(&broker, "t"), (0, 1));
    broker.stop();
}

/// A name of 249 characters left no room for what a stray is called: its topic never opened.
#[test]
fn a_directory_of_a_long_name_can_be_moved_out_of_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let name = "n".repeat(249);
    let path = directory.path().join(format!("{name}-0"));
    start(directory.path(), &[]).stop();
    std::fs::create_dir(&path).unwrap();
    let id = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
    std::fs::write(path.join("partition.metadata"), id).unwrap();
    let broker = start(directory.path(), &[]);
    create_topic(&broker, &name, 1, &[]);
    produce(&mut Client::connect(&broker), &name, 1);
    broker.stop();
}

/// Files of deleted partitions waited for the next retention check, and by wall time, which may
/// stand still or jump.
#[test]
fn files_of_a_deleted_topic_go_when_their_delay_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_000_000));
    let storage = Arc::new(kafkalite_log::storage::RealStorage);
    let settings = config(directory.path(), &[]);
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    create_topic(&broker, "t", 3, &[("file.delete.delay.ms", "1000")]);
    delete_topic(&broker, "t");
    let left = || entries(directory.path()).iter().filter(|name| name.contains("-delete")).count();
    clock.set_wall_ms(0);
    clock.advance_ms(999);
    assert_eq!(left(), 3);
    clock.advance_ms(1);
    awaited::until("the files are removed", || left() == 0);
    broker.stop();
}

/// After a restart the cleaned offset of a log counted for a new topic of its name. Records below
/// it were never compacted, and a key whose tombstone was removed came back.
#[test]
fn a_topic_that_is_made_again_is_compacted_from_its_start_after_a_restart() {
    const COMPACTED: [(&str, &str); 3] = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "200"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_000_000));
    let start = || {
        let storage = Arc::new(kafkalite_log::storage::RealStorage);
        Broker::start_with(config(directory.path(), &[]), clock.clone(), storage).unwrap()
    };
    let wait_until_clean = |broker: &Broker| {
        awaited::until("the log is compacted from its start", || {
            clock.advance_ms(15_000);
            record_count(&partition(broker, "t")) < 5
        });
    };
    let broker = start();
    create_topic(&broker, "t", 1, &COMPACTED);
    fill(&partition(&broker, "t"));
    wait_until_clean(&broker);
    delete_topic(&broker, "t");
    create_topic(&broker, "t", 1, &COMPACTED);
    fill(&partition(&broker, "t"));
    broker.kill();
    let broker = start();
    wait_until_clean(&broker);
    broker.stop();
}

/// Fills several segments with one key.
fn fill(partition: &Partition) {
    use kafkalite_protocol::compression::Codec;
    use kafkalite_protocol::record_batch::RecordBatchBuilder;
    use kafkalite_protocol::{LeaderEpoch, Offset};
    for _ in 0..9 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        builder.append(1_000_000, Some(b"key"), Some(&[b'v'; 50]), &[]);
        let batch = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = kafkalite_log::ValidatedBatch::trusted(&batch).unwrap();
        partition.append(&batch, true, 1_000_000).unwrap();
    }
}
