#![allow(clippy::unwrap_used)]
use super::*;
use crate::awaited;
use crate::metadata::records::{MetadataRecord, ProducerIdsRecord, RemoveTopicRecord};
use std::sync::mpsc;

fn batch(base_offset: i64, record: MetadataRecord) -> RecordsBatch {
    RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records: vec![record] }
}

fn ids(base_offset: i64) -> RecordsBatch {
    let ids = ProducerIdsRecord { broker_id: 1, next_producer_id: base_offset + 100 };
    batch(base_offset, MetadataRecord::ProducerIds(ids))
}

fn start() -> Publisher {
    Publisher::start(MetadataImage::default(), |_| {}).unwrap()
}

/// Waits until an offset is published, or given up.
fn published(publisher: &Publisher, offset: i64) -> Result<(), String> {
    let (told, heard) = mpsc::channel();
    publisher.when_published(offset, Box::new(move |result| told.send(result).unwrap()));
    awaited::received("an offset is published", &heard)
}

#[test]
fn followers_get_every_image_in_order_and_before_waiting_callers() {
    let publisher = start();
    let (told, heard) = mpsc::channel();
    let follower = told.clone();
    publisher.follow(
        Box::new(move |before, after| {
            let step = format!("{} to {}", before.offset, after.offset);
            follower.send(step).unwrap();
        }),
        Box::new(|| {}),
    );
    for offset in [1, 0] {
        let told = told.clone();
        let done = move |_| told.send(format!("{offset} is published")).unwrap();
        publisher.when_published(offset, Box::new(done));
    }
    publisher.committed(ids(0));
    publisher.committed(ids(1));
    let steps: Vec<_> = (0..5).map(|_| awaited::received("a step", &heard)).collect();
    let expected = ["-1 to -1", "-1 to 0", "0 is published", "0 to 1", "1 is published"];
    assert_eq!(steps, expected);
    assert_eq!(publisher.image().next_producer_id, 101);
    assert_eq!(published(&publisher, 1), Ok(()), "at once");
}

#[test]
fn after_a_follower_panics_the_others_still_get_the_image() {
    let publisher = start();
    let (told, heard) = mpsc::channel();
    publisher.follow(Box::new(|_, _| panic!("on purpose")), Box::new(|| {}));
    let follower = move |_: &_, after: &Arc<MetadataImage>| told.send(after.offset).unwrap();
    publisher.follow(Box::new(follower), Box::new(|| {}));
    publisher.committed(ids(0));
    assert_eq!(published(&publisher, 0), Ok(()));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [-1, 0]);
}

#[test]
fn a_record_that_does_not_fit_ends_publishing_and_every_wait() {
    let publisher = start();
    publisher.committed(ids(0));
    assert_eq!(published(&publisher, 0), Ok(()));
    publisher.committed(batch(1, MetadataRecord::RemoveTopic(RemoveTopicRecord::default())));
    assert!(published(&publisher, 1).is_err());
    publisher.committed(ids(2));
    assert!(published(&publisher, 2).is_err());
    assert_eq!(published(&publisher, 0), Ok(()));
    assert_eq!(publisher.image().offset, 0);
}

#[test]
fn what_waits_when_the_publisher_stops_is_dropped() {
    let publisher = start();
    let (told, heard) = mpsc::channel();
    publisher.when_published(7, Box::new(move |result| told.send(result).unwrap()));
    publisher.stop();
    assert_eq!(heard.recv_timeout(awaited::LIMIT), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn without_a_thread_each_turn_applies_one_batch() {
    let publisher = Publisher::without_thread(MetadataImage::default(), |_| {});
    publisher.committed(ids(0));
    publisher.committed(ids(1));
    assert_eq!(publisher.image().offset, -1);
    assert!(publisher.turn());
    assert_eq!(publisher.image().offset, 0);
    assert!(publisher.turn() && !publisher.turn());
    assert_eq!(publisher.image().offset, 1);
    publisher.stop();
    publisher.committed(ids(2));
    assert!(!publisher.turn());
    assert!(!start().turn(), "a thread does its work itself");
}
