use super::*;
use crate::testing::{NODE, metadata, topic};
use kafkalite_protocol::messages::metadata::MetadataResponseBroker;
use kafkalite_protocol::messages::{Versioned, Wire};
use kafkalite_protocol::{Reader, Writer};
use std::time::Duration;

fn place() -> HostPort {
    HostPort { host: "a".into(), port: 1 }
}

fn told(topics: Vec<MetadataResponseTopic>) -> MetadataResponse {
    MetadataResponse { topics, ..metadata(&place(), std::iter::empty()) }
}

fn image(topics: Vec<MetadataResponseTopic>) -> ClusterImage {
    let image = ClusterImage::default();
    image.after(told(topics), false, None, Instant::now()).expect("an honest answer")
}

fn epoch(image: &ClusterImage) -> Option<i32> {
    image.leader("t", 0).map(|(_, epoch)| epoch.0)
}

#[test]
fn an_answer_changes_its_own_topics_and_nothing_else() {
    let image = image(vec![topic("a", 1, 0), topic("b", 2, 0)]);
    let mut gone = topic("a", 0, 0);
    gone.error_code = ErrorCode::UnknownTopicOrPartition as i16;
    let next = image.after(told(vec![gone]), false, None, Instant::now()).expect("honest");
    assert!(next.topic("a").is_none());
    assert_eq!(next.topic_error("a").code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(next.topic("b").map(|topic| topic.partitions.len()), Some(2));
    assert!(next.generation() > image.generation());
    let all =
        image.after(told(vec![topic("c", 1, 0)]), true, None, Instant::now()).expect("honest");
    assert_eq!(all.topics().count(), 1, "an answer about all topics leaves no other");
}

/// A producer of topic "" once waited for `max.block.ms`: the answer was taken for one about an id.
#[test]
fn the_empty_name_is_refused_like_any_other_and_an_id_that_is_gone_is_nobodys() {
    let mut empty = topic("", 0, 0);
    empty.error_code = ErrorCode::InvalidTopicException as i16;
    let mut gone = topic("", 0, 0);
    gone.topic_id = Uuid([7; 16]);
    gone.error_code = ErrorCode::UnknownTopicId as i16;
    let refused = |topic| image(vec![topic]).topic_error("").code();
    assert_eq!(refused(empty), Some(ErrorCode::InvalidTopicException));
    assert_eq!(refused(gone), Some(ErrorCode::UnknownTopicOrPartition), "nothing is known of it");
}

#[test]
fn a_broker_that_lags_behind_does_not_bring_an_old_leader_back() {
    let image = image(vec![topic("t", 1, 5)]);
    for (told_epoch, known_epoch) in [(4, 5), (6, 6), (-1, -1)] {
        let next = image.after(told(vec![topic("t", 1, told_epoch)]), false, None, Instant::now());
        assert_eq!(epoch(&next.expect("honest")), Some(known_epoch), "told {told_epoch}");
    }
    let mut successor = topic("t", 1, 2);
    successor.topic_id = Uuid([7; 16]);
    let next = image.after(told(vec![successor]), false, None, Instant::now()).expect("honest");
    assert_eq!(epoch(&next), Some(2), "a topic with another id is another topic");
    let older =
        next.after(told(vec![topic("t", 1, 1)]), false, None, Instant::now()).expect("honest");
    assert_eq!(epoch(&older), Some(2), "a broker without ids cannot show another topic");
}

#[test]
fn news_of_a_leader_count_when_they_are_newer_and_lead_somewhere() {
    let image = image(vec![topic("t", 1, 5)]);
    let news = |leader, epoch, endpoint| {
        let leader_epoch = LeaderEpoch(epoch);
        let topic_id = Uuid::ZERO;
        let (topic, partition) = ("t", 0);
        let news = LeaderNews { topic, topic_id, partition, leader, leader_epoch, endpoint };
        image.with_leader(&news)
    };
    assert!(news(NODE, 5, None).is_none(), "known");
    assert!(news(2, 6, None).is_none(), "the address of broker 2 is unknown");
    assert!(news(2, 6, Some(("b", 70_000))).is_none(), "nor is that a place");
    let next = news(2, 6, Some(("b", 9))).expect("news");
    assert_eq!(next.leader("t", 0), Some((2, LeaderEpoch(6))));
    assert_eq!(next.broker(2).map(|broker| broker.place.to_string()), Some("b:9".into()));
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let mut gap = topic("t", 2, 0);
    gap.partitions.remove(0);
    let mut twice = topic("t", 2, 0);
    twice.partitions[1].partition_index = 0;
    let mut nowhere = told(vec![]);
    nowhere.brokers.push(MetadataResponseBroker { node_id: 9, port: -4, ..Default::default() });
    for answer in [told(vec![gap]), told(vec![twice]), nowhere] {
        assert!(ClusterImage::default().after(answer, false, None, Instant::now()).is_err());
    }
}

#[test]
fn a_topic_that_no_caller_uses_is_forgotten() {
    let image = image(vec![topic("used", 1, 0), topic("idle", 1, 0)]);
    let _ = image.topic("used");
    let now = Instant::now();
    assert!(image.used(Duration::from_secs(300), now).is_none(), "an answer just named it");
    let next = image.used(Duration::from_secs(300), now + Duration::from_secs(301));
    let next = next.expect("an image without it");
    assert_eq!(next.topics().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["used"]);
}

#[test]
fn no_answer_that_can_be_decoded_makes_it_panic() {
    let honest = told(vec![topic("a", 3, 7), topic("b", 1, 0)]);
    let version = MetadataResponse::VERSIONS.max;
    let mut writer = Writer::new();
    honest.encode(&mut writer, version);
    let bytes = writer.into_bytes();
    let mut image = image(vec![topic("a", 3, 7)]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut wrong = bytes.to_vec();
        for _ in 0..=random() % 3 {
            let at = random() as usize % wrong.len();
            wrong[at] = random() as u8;
        }
        let mut reader = Reader::new(wrong.into());
        let Ok(answer) = MetadataResponse::decode(&mut reader, version) else { continue };
        if let Ok(next) = image.after(answer, random() % 2 == 0, None, Instant::now()) {
            taken += 1;
            image = next;
        }
    }
    assert!(taken > 1_000, "{taken} were good enough");
}

/// Brokers learn one after the other that a topic was made again. Each answer of a broker that
/// lagged behind replaced the topic. Producers failed records of its partitions, and consumers read
/// the topic from its start.
#[test]
fn a_broker_that_lags_behind_does_not_bring_a_former_topic_back() {
    let of = |id: u8, count: i32| {
        let mut topic = topic("t", count, 0);
        topic.topic_id = Uuid([id; 16]);
        topic
    };
    let mut none = topic("t", 0, 0);
    none.error_code = ErrorCode::UnknownTopicOrPartition as i16;
    let now = Instant::now();
    for (gone_between, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut image = image(vec![of(1, 1)]);
        let mut hear = |topic, now| {
            image = image.after(told(vec![topic]), whole, None, now).expect("honest");
            let known = image.topic("t").map(|topic| (topic.id, topic.partitions.len()));
            known.map(|(id, count)| (id.0[0], count))
        };
        if gone_between {
            assert_eq!(hear(none.clone(), now), None);
        }
        assert_eq!(hear(of(2, 3), now), Some((2, 3)), "another topic of the name");
        assert_eq!(hear(of(1, 1), now), Some((2, 3)), "a broker that lags behind");
        assert_eq!(hear(of(2, 4), now), Some((2, 4)));
        assert_eq!(hear(none.clone(), now), None, "it is deleted");
        assert_eq!(hear(of(1, 1), now), None, "a broker that lags behind");
        assert_eq!(hear(of(2, 4), now), Some((2, 4)));
        let late = now + Duration::from_secs(6);
        assert_eq!(hear(of(1, 1), late), Some((1, 1)), "no broker lags behind for so long");
    }
}

/// A consumer without a group gave up the partitions that such an answer lacked. When the next
/// answer had them, it read them from their beginning.
#[test]
fn a_broker_that_lags_behind_takes_no_partition_from_a_topic() {
    let of = |id: u8, count: i32| {
        let mut topic = topic("t", count, 3);
        topic.topic_id = Uuid([id; 16]);
        topic
    };
    let image = image(vec![of(1, 4)]);
    for (told_id, told_count, known_count) in [(1, 2, 4), (1, 5, 5), (2, 2, 2), (0, 2, 2)] {
        let next = image.after(told(vec![of(told_id, told_count)]), false, None, Instant::now());
        let next = next.expect("honest");
        let indexes: Vec<_> =
            next.topic("t").expect("known").partitions.iter().map(|one| one.index).collect();
        assert_eq!(indexes, (0..known_count).collect::<Vec<_>>(), "id {told_id}, {told_count}");
    }
}

/// One broker named a topic, and a broker that lagged behind contradicted it. Clients waited five
/// seconds for the topic, although both brokers had it by then.
#[test]
fn a_broker_that_knows_better_by_now_ends_the_doubt_which_topic_is_the_later_one() {
    let mut topics = [topic("t", 1, 0), topic("t", 1, 0)];
    topics[0].topic_id = Uuid([1; 16]);
    topics[1].topic_id = Uuid([2; 16]);
    let (now, mut image) = (Instant::now(), ClusterImage::default());
    let mut hear = |id: usize, teller: Option<NodeId>| {
        let answer = told(vec![topics[id - 1].clone()]);
        image = image.after(answer, false, teller, now).expect("honest");
        let asked_next: Vec<_> = image.doubted(now).collect();
        (image.topic("t").map(|topic| topic.id.0[0]), asked_next)
    };
    assert_eq!(hear(2, Some(1)), (Some(2), vec![]));
    assert_eq!(hear(1, Some(3)), (Some(1), vec![]), "it is unknown that the broker lags behind");
    assert_eq!(hear(2, Some(1)), (Some(1), vec![3]), "one of them lags behind");
    assert_eq!(hear(2, None), (Some(1), vec![3]), "the answering broker is unknown");
    assert_eq!(hear(1, Some(3)), (Some(1), vec![3]), "it lags behind still");
    assert_eq!(hear(2, Some(3)), (Some(2), vec![]), "a broker never goes back");
    assert_eq!(hear(1, Some(4)), (Some(2), vec![1, 3]), "one more that lags behind");
}

/// A broker that is cut off from its cluster went on telling of a topic that was made again. After
/// five seconds its word counted: consumers read the topic from its start, or skipped to its end.
#[test]
fn a_broker_that_is_cut_off_for_long_does_not_bring_a_former_topic_back() {
    let mut topics = [topic("t", 1, 0), topic("t", 1, 0)];
    topics[0].topic_id = Uuid([1; 16]);
    topics[1].topic_id = Uuid([2; 16]);
    let (began, mut image) = (Instant::now(), ClusterImage::default());
    let mut hear = |id: usize, teller: NodeId, second: u64| {
        let answer = told(vec![topics[id - 1].clone()]);
        let now = began + Duration::from_secs(second);
        image = image.after(answer, false, Some(teller), now).expect("honest");
        image.topic("t").map(|topic| topic.id.0[0])
    };
    for teller in [1, 2, 3] {
        assert_eq!(hear(1, teller, 0), Some(1));
    }
    assert_eq!(hear(2, 1, 1), Some(2), "made again, and broker 3 is cut off");
    for second in [2, 30, 600] {
        assert_eq!(hear(1, 3, second), Some(2), "after {second} s");
    }
    assert_eq!(hear(2, 2, 601), Some(2));
    assert_eq!(hear(1, 3, 602), Some(2));
    assert_eq!(hear(1, 2, 603), Some(1), "a broker went back");
    assert_eq!(hear(2, 1, 610), Some(2), "for which no other one vouches");
}

/// The order of two topics is certain only if a broker answered with both.
#[test]
fn a_broker_that_goes_on_to_the_later_topic_makes_the_order_certain() {
    let mut topics = [topic("t", 1, 0), topic("t", 1, 0)];
    topics[0].topic_id = Uuid([1; 16]);
    topics[1].topic_id = Uuid([2; 16]);
    let later = |second| Instant::now() + Duration::from_secs(second);
    for (goes_on, known) in [(false, 1), (true, 2)] {
        let mut image = ClusterImage::default();
        let mut hear = |id: usize, teller: NodeId, now| {
            let answer = told(vec![topics[id - 1].clone()]);
            image = image.after(answer, false, Some(teller), now).expect("honest");
            image.topic("t").map(|topic| topic.id.0[0])
        };
        assert_eq!(hear(1, 1, later(0)), Some(1));
        assert_eq!(hear(2, 2, later(0)), Some(2), "the later answer");
        if goes_on {
            assert_eq!(hear(2, 1, later(1)), Some(2));
        }
        assert_eq!(hear(1, 3, later(60)), Some(known), "broker 1 goes on: {goes_on}");
    }
}

/// A broker that lags behind named the leader of a former topic of the name. The leaders of its
/// successor, which counts its epochs from 0, were refused until their epochs were higher.
#[test]
fn the_leader_of_a_former_topic_does_not_lead_its_successor() {
    let mut successor = topic("t", 1, 0);
    successor.topic_id = Uuid([2; 16]);
    let image = image(vec![successor]);
    let news = |id: u8| LeaderNews {
        topic: "t",
        topic_id: Uuid([id; 16]),
        partition: 0,
        leader: NODE,
        leader_epoch: LeaderEpoch(50),
        endpoint: None,
    };
    assert!(image.with_leader(&news(1)).is_none(), "of the former topic");
    assert!(image.with_leader(&news(2)).is_some());
    assert!(image.with_leader(&news(0)).is_some(), "a broker without ids");
}
