//! Topics that come and go: `__consumer_offsets` with its leaders, and those that groups read.

use super::groups::{heartbeat, stable};
use super::*;
use crate::metadata::MetadataImage;
use crate::metadata::records::{
    CreateTopicRecord, MetadataRecord, PartitionRecord, RecordsBatch, RemoveTopicRecord,
};

const FORMER: Uuid = Uuid([1; 16]);
const LATER: Uuid = Uuid([2; 16]);
const NOT_COORDINATOR: ErrorCode = ErrorCode::NotCoordinator;

fn after(image: &MetadataImage, records: Vec<MetadataRecord>) -> MetadataImage {
    let base_offset = image.offset + 1;
    image.with_batch(&RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records }).unwrap()
}

fn create(name: &str, topic_id: Uuid) -> MetadataRecord {
    let partition =
        PartitionRecord { leader: 1, replicas: vec![1], isr: vec![1], ..<_>::default() };
    let (name, partitions, configs) = (name.to_owned(), vec![partition], vec![]);
    MetadataRecord::CreateTopic(CreateTopicRecord { name, topic_id, partitions, configs })
}

fn remove(topic_id: Uuid) -> MetadataRecord {
    MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id })
}

impl Broker {
    /// The newest commit of `g` for partition 0 of `t`, for the topic with this id.
    fn commit_to(&self, id: Uuid, offset: i64) {
        let who = Committer { group_id: "g".into(), ..outsider() };
        let (answer, got) = slot();
        self.groups.commit(who, vec![Commit { topic_id: id, ..one("t", offset) }], answer);
        assert_eq!(taken(&got), [ErrorCode::None]);
    }
}

#[test]
fn the_offsets_of_deleted_topics_go() {
    let broker = Broker::new();
    broker.commit("g", "gone", 1);
    broker.commit("g", "kept", 1);
    let both = vec![create("gone", FORMER), create("kept", LATER)];
    let before = after(&MetadataImage::default(), both);
    broker.groups.follow_image(&before, &after(&before, vec![remove(FORMER)]));
    for broker in [&broker, &broker.restarted()] {
        assert_eq!((broker.committed("g", "gone"), broker.committed("g", "kept")), (None, Some(1)));
    }
}

/// The removal was decided by name: a commit for the next topic of the name that came before it was
/// answered, and gone.
#[test]
fn the_offsets_of_the_next_topic_of_a_name_stay_when_the_former_goes() {
    let broker = Broker::new();
    broker.topic.inner.lock().ids.insert("t".to_owned(), LATER);
    broker.commit_to(LATER, 7);
    let before = after(&MetadataImage::default(), vec![create("t", FORMER)]);
    let then = after(&before, vec![remove(FORMER), create("t", LATER)]);
    broker.groups.follow_image(&before, &then);
    for broker in [&broker, &broker.restarted()] {
        assert_eq!(broker.committed("g", "t"), Some(7));
    }
}

#[test]
fn a_commit_on_its_way_goes_with_its_topic() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let got = broker.commit("g", "t", 1);
    let before = after(&MetadataImage::default(), vec![create("t", FORMER)]);
    broker.groups.follow_image(&before, &after(&before, vec![remove(FORMER)]));
    broker.topic.commit();
    assert_eq!(taken(&got), [ErrorCode::None]);
    for broker in [&broker, &broker.restarted()] {
        assert_eq!(broker.committed("g", "t"), None);
    }
}

#[test]
fn without_its_topic_every_group_is_gone_until_there_is_one_again() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    broker.topic.inner.lock().id = None;
    broker.groups.follow();
    assert_eq!(heartbeat(&broker, "g", &member, 1), NOT_COORDINATOR as i16);
    assert!(!broker.groups.knows_topic());
    broker.topic.make(Uuid([9; 16]), 5);
    broker.groups.follow();
    assert_eq!(heartbeat(&broker, "g", &member, 1), ErrorCode::UnknownMemberId as i16);
}

/// Groups of the former topic were there again when the thread that read it came to its end.
#[test]
fn a_topic_that_is_deleted_while_it_is_read_brings_no_group_back() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    let loading = Broker::unloaded(Arc::clone(&broker.topic), 0, Codec::None);
    assert_eq!(loading.loads.lock().len(), 1);
    // The records are still there for who holds the log.
    loading.topic.inner.lock().id = Some(Uuid([9; 16]));
    let former = std::mem::take(&mut *loading.loads.lock());
    loading.groups.follow();
    former.into_iter().for_each(|mut load| while load() {});
    let error = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(loading.groups.fetch("g", None), Err(error), "the new topic is not read yet");
    loading.topic.inner.lock().partitions.iter_mut().for_each(|one| one.batches.clear());
    loading.load();
    assert_eq!(loading.committed("g", "t"), None);
}

#[test]
fn a_deposed_coordinator_answers_who_waits_and_writes_nothing() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    assert_ne!(partition_of("other", 5), partition_of("third", 5));
    assert_eq!(taken(&broker.commit("third", "t", 1)), [ErrorCode::None]);
    broker.topic.inner.lock().holds = true;
    let waits = broker.commit("other", "t", 1);
    let batches = broker.topic.batches();
    let count = broker.topic.inner.lock().partitions.len();
    (0..count).for_each(|index| broker.topic.change(index, |one| one.epoch += 1));
    assert_eq!(taken(&waits), [NOT_COORDINATOR]);
    // It was not told that it is deposed: the log refuses its epoch.
    for group in ["other", "third"] {
        assert_eq!(taken(&broker.commit(group, "t", 2)), [NOT_COORDINATOR], "{group}");
    }
    assert_eq!(broker.topic.batches(), batches);
    broker.groups.follow();
    broker.load();
    let loading = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(broker.groups.fetch("other", None), Err(loading));
    broker.topic.commit();
    assert_eq!(heartbeat(&broker, "g", &member, 1), 0);
    assert_eq!(broker.committed("other", "t"), Some(1), "its record was not lost");
}

#[test]
fn a_join_that_waits_is_sent_on_when_the_partition_moves_away() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    // Another member comes: the first one has to join again before it is answered.
    let waits = broker.join_as("g", "", "another");
    assert!(waits.lock().is_none());
    broker.topic.depose();
    broker.groups.follow();
    assert_eq!(taken(&waits).error_code, NOT_COORDINATOR as i16);
    assert_eq!(heartbeat(&broker, "g", &member, 1), NOT_COORDINATOR as i16);
    assert!(!broker.groups.coordinates("g"));
}

#[test]
fn nothing_is_answered_from_records_that_may_still_be_lost() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    broker.topic.inner.lock().holds = true;
    broker.commit("g", "t", 6);
    let again = broker.restarted();
    let loading = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(again.groups.fetch("g", None), Err(loading));
    assert_eq!(taken(&again.commit("g", "t", 7)), [loading]);
    again.topic.commit();
    assert_eq!(again.committed("g", "t"), Some(6));
}

#[test]
fn a_partition_that_was_not_read_is_tried_again_until_it_is() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    broker.topic.inner.lock().read_fails = Some(ErrorCode::KafkaStorageError);
    let again = broker.restarted();
    assert_eq!(again.groups.fetch("g", None), Err(NOT_COORDINATOR));
    assert!(!again.groups.coordinates("g"));
    // After 1 s, 2 s, 4 s.
    for (wait_ms, reads) in [(1_000, 2), (1_000, 2), (1_000, 3), (4_000, 4)] {
        again.pass(wait_ms);
        again.load();
        assert_eq!(again.topic.inner.lock().reads, reads);
    }
    again.topic.inner.lock().read_fails = None;
    again.pass(8_000);
    again.load();
    assert_eq!(again.committed("g", "t"), Some(5));
}

#[test]
fn a_log_that_opens_late_is_loaded_then() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    broker.topic.depose();
    let again = broker.restarted();
    assert_eq!(again.groups.describe("g", 6).error_code, NOT_COORDINATOR as i16);
    let count = again.topic.inner.lock().partitions.len();
    (0..count).for_each(|index| again.topic.change(index, |one| one.is_away = false));
    again.groups.follow();
    again.load();
    assert_eq!(again.groups.describe("g", 6).members[0].member_id, member);
    assert_eq!(again.groups.list(&[], &[]).1.len(), 1);
}

/// A FindCoordinator that was queued when the broker stopped loaded every group again.
#[test]
fn a_broker_that_stops_loads_nothing_any_more() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    broker.groups.stop();
    broker.groups.follow();
    assert!(broker.loads.lock().is_empty());
    assert_eq!(broker.groups.fetch("g", None), Err(NOT_COORDINATOR));
    assert_eq!(taken(&broker.commit("g", "t", 6)), [NOT_COORDINATOR]);
}
