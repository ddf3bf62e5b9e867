//! The checker is proven first. The cases of histories are those of
//! `tests/conformance/test_checker.py`.

use bytes::Bytes;
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_broker::metadata::records::{
    CreateTopicRecord, MetadataRecord, RecordsBatch, TopicConfig,
};
use kafkalite_log::{LogEnd, Role};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{BatchHeader, RecordBatchBuilder};
use kafkalite_protocol::{LeaderEpoch, Offset, Uuid};
use kafkalite_simulator::checker::groups::{Groups, Place};
use kafkalite_simulator::checker::history::{Fate, History, Outcome, Poll, Send, check};
use kafkalite_simulator::checker::logs::{View, check_log};
use kafkalite_simulator::checker::topics::Topics;
use kafkalite_simulator::checker::{Checker, Violation};
use kafkalite_simulator::controller::{WORK, WORK_CONFIG};
use kafkalite_simulator::log::{Checks, MemoryLog};

fn send(value: u64, outcome: Outcome, offset: Option<i64>) -> Send {
    Send { value, partition: 0, outcome, offset, fate: Fate::Committed }
}

fn ok(value: u64, offset: i64) -> Send {
    send(value, Outcome::Ok, Some(offset))
}

fn poll(reader: u32, offset: i64, value: u64) -> Poll {
    let fate_then = Fate::Committed;
    Poll { reader, partition: 0, offset, value, sought: false, fate_then }
}

fn history(sends: &[Send], polls: &[Poll]) -> History {
    let (sends, polls) = (sends.to_vec(), polls.to_vec());
    History { sends, polls, drained: true, ..History::default() }
}

fn kinds(found: &[Violation]) -> Vec<&'static str> {
    let mut kinds: Vec<&str> = found.iter().map(|one| one.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn small_histories_are_judged_rightly() {
    let (a, b, c) = (1, 2, 3);
    let unknown = send(a, Outcome::Unknown, None);
    let aborted = Send { fate: Fate::Aborted, ..ok(a, 0) };
    let open = Poll { fate_then: Fate::Open, ..poll(1, 0, a) };
    let sought = Poll { sought: true, ..poll(1, 0, a) };
    let elsewhere = Poll { partition: 1, ..poll(1, 0, a) };
    let three = [ok(a, 0), ok(b, 1), ok(c, 2)];
    let not_drained = History { drained: false, ..history(&[ok(a, 0)], &[]) };
    let twice = [poll(1, 0, a), poll(1, 1, a)];
    let may_repeat = History { may_repeat: true, ..history(&[ok(a, 1)], &twice) };
    let cases: [(&str, History, &[&str]); 18] = [
        ("nothing happened", history(&[], &[]), &[]),
        ("acknowledged and read", history(&[ok(a, 0)], &[poll(1, 0, a)]), &[]),
        ("an unknown send that was not read", history(&[unknown], &[]), &[]),
        ("an unknown send that was read", history(&[unknown], &[poll(1, 0, a)]), &[]),
        ("a refused send", history(&[send(a, Outcome::Failed, None)], &[]), &[]),
        ("acknowledged without a promise", history(&[ok(a, -1)], &[]), &[]),
        ("acknowledged and not drained", not_drained, &[]),
        ("acknowledged and unread", history(&[ok(a, 0)], &[]), &["unseen"]),
        (
            "acknowledged below what was read",
            history(&[ok(a, 0), ok(b, 1)], &[poll(1, 1, b)]),
            &["lost-write"],
        ),
        ("twice without idempotence", may_repeat, &[]),
        ("twice", history(&[ok(a, 1)], &twice), &["duplicate"]),
        (
            "twice in two partitions",
            history(&[ok(a, 0)], &[poll(1, 0, a), elsewhere]),
            &["duplicate"],
        ),
        (
            "two values at one offset",
            history(&[ok(a, 0), unknown], &[poll(1, 0, a), poll(2, 0, b)]),
            &["inconsistent-offset", "phantom"],
        ),
        ("an aborted record", history(&[aborted], &[poll(1, 0, a)]), &["aborted-read"]),
        ("read before its commit", history(&[ok(a, 0)], &[open]), &["precommitted-read"]),
        ("back as told", history(&[ok(a, 0)], &[poll(1, 0, a), sought]), &[]),
        (
            "the same record again",
            history(&[ok(a, 0)], &[poll(1, 0, a), poll(1, 0, a)]),
            &["non-monotonic-poll"],
        ),
        (
            "a gap that holds something",
            history(&three, &[poll(1, 0, a), poll(1, 2, c), poll(2, 1, b)]),
            &["poll-skip"],
        ),
    ];
    for (name, history, expected) in cases {
        assert_eq!(kinds(&check(&history)), expected, "{name}");
    }
}

fn batch(values: &[u64]) -> (Bytes, BatchHeader) {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    for value in values {
        builder.append(0, None, Some(&value.to_be_bytes()), &[]);
    }
    let bytes = builder.build(Offset(0), LeaderEpoch::UNKNOWN).unwrap();
    let header = BatchHeader::parse(&bytes).unwrap();
    (bytes, header)
}

/// A log that was led in epoch 1, with a batch of one record for each value.
fn log(values: &[u64]) -> MemoryLog {
    let mut log = MemoryLog::default();
    log.take_role(Role::Leader(LeaderEpoch(1)));
    for value in values {
        let (bytes, header) = batch(&[*value]);
        log.append_as_leader(&bytes, header, LeaderEpoch(1)).unwrap();
    }
    log
}

fn view(broker: i32, log: &MemoryLog, epoch: i32, leads: bool, high_watermark: i64) -> View<'_> {
    let (epoch, high_watermark) = (LeaderEpoch(epoch), Offset(high_watermark));
    View { broker, incarnation: 0, stay: 0, partition: 0, epoch, leads, high_watermark, log }
}

#[test]
fn the_bytes_of_a_log_are_judged_rightly() {
    let sound = log(&[1, 2, 3]);
    assert!(check_log(Offset::ZERO, sound.batches()).is_empty());
    let gap = [sound.batches()[0].clone(), sound.batches()[2].clone()];
    assert_eq!(kinds(&check_log(Offset::ZERO, &gap)), ["offset-gap"]);
    let mut damaged = sound.batches().to_vec();
    let mut bytes = damaged[1].bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    damaged[1].bytes = Bytes::from(bytes);
    assert_eq!(kinds(&check_log(Offset::ZERO, &damaged)), ["bad-crc"]);
}

#[test]
fn a_high_watermark_may_go_back_only_under_another_leader_epoch() {
    let log = log(&[1, 2, 3]);
    let found = |second: View<'_>| {
        let mut checker = Checker::default();
        checker.logs.observe(&view(1, &log, 1, true, 2));
        checker.logs.observe(&second);
        kinds(&checker.found())
    };
    assert!(found(view(1, &log, 1, true, 3)).is_empty());
    assert!(found(view(1, &log, 2, false, 1)).is_empty());
    assert_eq!(found(view(1, &log, 1, true, 1)), ["mark-went-back"]);
    assert_eq!(found(view(1, &log, 1, true, 4)), ["mark-beyond-end"]);
}

#[test]
fn replicas_that_differ_below_the_high_watermark_are_found() {
    let (one, other) = (log(&[1, 2]), log(&[1, 3]));
    let mut checker = Checker::default();
    checker.logs.observe(&view(1, &one, 1, true, 2));
    checker.logs.observe(&view(2, &other, 1, false, 1));
    assert!(checker.is_clean());
    checker.logs.observe(&view(2, &other, 1, false, 2));
    assert_eq!(kinds(&checker.found()), ["replicas-differ"]);
}

#[test]
fn a_leader_without_a_committed_record_is_found() {
    let (full, short) = (log(&[1, 2]), log(&[1]));
    let mut checker = Checker::default();
    checker.logs.observe(&view(1, &full, 1, true, 2));
    checker.logs.observe(&view(2, &short, 2, true, 1));
    assert_eq!(kinds(&checker.found()), ["committed-lost"]);
}

#[test]
fn a_high_watermark_above_a_replica_in_sync_is_found() {
    let full = log(&[1, 2]);
    let mut checker = Checker::default();
    checker.logs.compare(&view(1, &full, 1, true, 2), 2, Offset(2));
    assert!(checker.is_clean());
    checker.logs.compare(&view(1, &full, 1, true, 2), 2, Offset(1));
    assert_eq!(kinds(&checker.found()), ["ahead-of-replica"]);
}

#[test]
fn two_brokers_that_acknowledge_in_one_epoch_are_found() {
    let mut checker = Checker::default();
    checker.logs.acknowledged(1, 0, LeaderEpoch(1));
    checker.logs.acknowledged(2, 0, LeaderEpoch(2));
    assert!(checker.is_clean());
    checker.logs.acknowledged(2, 0, LeaderEpoch(1));
    assert_eq!(kinds(&checker.found()), ["two-leaders"]);
}

#[test]
fn a_timer_that_fires_early_or_twice_is_found() {
    let mut checker = Checker::default();
    checker.timer_fired((1, 0), 7, 100, 100);
    checker.timer_fired((1, 1), 7, 100, 100);
    assert!(checker.is_clean());
    checker.timer_fired((1, 0), 7, 100, 100);
    checker.timer_fired((1, 0), 8, 100, 99);
    assert_eq!(kinds(&checker.found()), ["timer-early", "timer-fired-twice"]);
}

const TOPIC: Uuid = Uuid([1; 16]);

fn place(partition: i32) -> Place {
    (TOPIC, partition)
}

/// What the group's rules say to some steps.
fn judged(steps: impl FnOnce(&mut Groups)) -> Vec<&'static str> {
    let mut checker = Checker::default();
    steps(&mut checker.groups);
    kinds(&checker.found())
}

#[test]
fn the_steps_of_a_group_are_judged_rightly() {
    let right = judged(|group| {
        group.assigned(1, 1, "a", &[0, 1]);
        group.assigned(1, 1, "a", &[0, 1]);
        group.committed(1, 1, place(0), 5);
        group.assigned(1, 2, "b", &[0]);
        group.fetched(1, place(0), 5);
        group.committed(2, 2, place(0), 6);
        // A coordinator that was deposed and does not know it.
        group.fetched(1, place(0), 5);
    });
    assert!(right.is_empty(), "{right:?}");
    let two_owners = judged(|group| {
        group.assigned(1, 1, "a", &[0]);
        group.assigned(2, 1, "b", &[0]);
    });
    assert_eq!(two_owners, ["two-owners"]);
    let went_back = judged(|group| {
        group.assigned(1, 2, "a", &[0]);
        group.assigned(2, 1, "a", &[0]);
    });
    assert_eq!(went_back, ["generation-went-back"]);
    let old = judged(|group| {
        group.assigned(1, 2, "a", &[0]);
        group.committed(1, 1, place(0), 5);
    });
    assert_eq!(old, ["old-generation-commit"]);
    let lower = judged(|group| {
        group.committed(1, 1, place(0), 5);
        group.committed(2, 1, place(0), 4);
    });
    assert_eq!(lower, ["commit-went-back"]);
    let lost = judged(|group| {
        group.committed(1, 1, place(0), 5);
        group.fetched(2, place(0), -1);
    });
    assert_eq!(lost, ["commit-lost"]);
}

#[test]
fn a_follower_refuses_what_does_not_continue_its_log() {
    let leader = log(&[1, 2]);
    let all = leader.read(Offset(0), Offset(2), 9);
    let second = leader.read(Offset(1), Offset(2), 9);
    let mut damaged = all.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let checks = Checks { crc: true, epochs: true };
    let append = |bytes: &Bytes, epoch: i32| -> bool {
        let mut follower = MemoryLog::default();
        let end: Result<LogEnd, _> = follower.append_as_follower(bytes, LeaderEpoch(epoch), checks);
        assert_eq!(follower.end(), Offset(if end.is_ok() { 2 } else { 0 }));
        end.is_ok()
    };
    assert!(append(&all, 1));
    assert!(!append(&all, 0), "a batch of a newer epoch than the one that was asked for");
    assert!(!append(&second, 1), "a gap");
    assert!(!append(&Bytes::from(damaged), 1), "a flipped bit");
    assert!(!append(&all.slice(..all.len() - 1), 1), "a batch that was cut short");
}

/// What the rules of metadata say to some steps.
fn judged_changes(steps: impl FnOnce(&mut Topics)) -> Vec<&'static str> {
    let mut checker = Checker::default();
    steps(&mut checker.topics);
    kinds(&checker.found())
}

/// An image with the group's topic, if it has an id, and its config.
fn image(offset: i64, topic: Option<(u8, &str)>) -> MetadataImage {
    let mut image = MetadataImage { offset: offset - 1, ..MetadataImage::default() };
    let create = topic.map(|(id, config)| {
        let value = config.to_owned();
        MetadataRecord::CreateTopic(CreateTopicRecord {
            name: WORK.to_owned(),
            topic_id: Uuid([id; 16]),
            partitions: Vec::new(),
            configs: vec![TopicConfig { name: WORK_CONFIG.to_owned(), value }],
        })
    });
    let records: Vec<MetadataRecord> = create.into_iter().collect();
    let batch = RecordsBatch { base_offset: offset, epoch: 1, timestamp_ms: 0, records };
    image = image.with_batch(&batch).unwrap();
    image
}

#[test]
fn the_steps_of_metadata_are_judged_rightly() {
    let right = judged_changes(|topics| {
        topics.asked();
        topics.created(Uuid([1; 16]), "5");
        topics.committed(&image(1, Some((1, "5"))));
        topics.asked();
        topics.committed(&image(2, Some((1, "6"))));
        topics.configured("6");
        topics.refused("7");
        topics.asked();
        topics.committed(&image(3, None));
        topics.deleted(Uuid([1; 16]));
        topics.committed(&image(4, Some((2, "8"))));
        topics.observe((1, 0), &image(3, None), || true);
        topics.observe((1, 1), &image(1, Some((1, "5"))), || true);
    });
    assert!(right.is_empty(), "{right:?}");
    let lost = judged_changes(|topics| {
        topics.created(Uuid([1; 16]), "5");
        topics.committed(&image(1, None));
    });
    assert_eq!(lost, ["change-lost"]);
    let config_lost = judged_changes(|topics| {
        topics.configured("6");
        topics.committed(&image(1, Some((1, "5"))));
    });
    assert_eq!(config_lost, ["change-lost"]);
    let came_back = judged_changes(|topics| {
        topics.deleted(Uuid([1; 16]));
        topics.committed(&image(1, Some((1, "5"))));
    });
    assert_eq!(came_back, ["change-lost"]);
    let refused = judged_changes(|topics| {
        topics.refused("5");
        topics.committed(&image(1, Some((1, "5"))));
    });
    assert_eq!(refused, ["refused-change"]);
    let went_back = judged_changes(|topics| {
        topics.observe((1, 0), &image(2, None), || true);
        topics.observe((1, 0), &image(1, None), || true);
    });
    assert_eq!(went_back, ["image-went-back"]);
    let differs = judged_changes(|topics| topics.observe((1, 0), &image(2, None), || false));
    assert_eq!(differs, ["image-differs"]);
}

#[test]
fn an_offset_of_a_former_topic_is_found() {
    let right = judged(|group| group.told_offset(1, place(0), &TOPIC.to_string()));
    assert!(right.is_empty(), "{right:?}");
    let other = Uuid([2; 16]).to_string();
    assert_eq!(judged(|group| group.told_offset(1, place(0), &other)), ["former-topic"]);
}

#[test]
fn records_that_retention_must_not_take_are_found() {
    let full = log(&[1, 2, 3]);
    let newest_ms = full.batches()[0].header.max_timestamp;
    let found = |high_watermark: i64, now_ms: i64| {
        let mut checker = Checker::default();
        let view = view(1, &full, 1, true, high_watermark);
        checker.logs.retained(&view, &full.batches()[..2], now_ms, 100);
        assert_eq!(checker.logs.retained_to(0), full.batches()[1].end());
        kinds(&checker.found())
    };
    assert!(found(2, newest_ms + 101).is_empty());
    assert_eq!(found(1, newest_ms + 101), ["retained-uncommitted"]);
    assert_eq!(found(2, newest_ms + 100), ["retained-too-early"]);
}
