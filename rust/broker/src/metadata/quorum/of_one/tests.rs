#![allow(clippy::unwrap_used)]
use super::*;
use crate::awaited;
use crate::faulty_storage::{Fault, FaultyStorage};
use crate::metadata::records::{ClusterRecord, MetadataRecord, ProducerIdsRecord};
use kafkalite_log::storage::{RealStorage, Storage};
use std::path::Path;
use std::sync::mpsc;

/// A quorum, the batches that were published so far, and the image it began with.
struct House {
    quorum: QuorumOfOne,
    publisher: Arc<Publisher>,
    /// Offset, epoch and next producer id of each image.
    images: mpsc::Receiver<(i64, i32, i64)>,
    image: MetadataImage,
}

impl House {
    fn open(dir: &Path, storage: Arc<dyn Storage>) -> Self {
        let (log, image) = MetadataLog::open(storage, dir).unwrap();
        let (told, images) = mpsc::channel();
        let swapped = move |after: &Arc<MetadataImage>| {
            told.send((after.offset, after.epoch, after.next_producer_id)).unwrap();
        };
        let publisher = Arc::new(Publisher::start(image.clone(), swapped).unwrap());
        let quorum = QuorumOfOne::new(1, log, &image, Arc::clone(&publisher));
        Self { quorum, publisher, images, image }
    }

    /// The outcome of a proposal; if it was committed, it is published as well.
    fn propose(&self, expected: i64, records: Vec<MetadataRecord>) -> Outcome {
        let (told, outcome) = mpsc::channel();
        let proposal = Proposal { records, expected, level: 1, timestamp_ms: 5, term: None };
        self.quorum.propose(proposal, Box::new(move |outcome| told.send(outcome).unwrap()));
        let outcome = awaited::received("the outcome of the proposal", &outcome);
        if let Outcome::Committed(offset) = outcome {
            let (told, published) = mpsc::channel();
            let done = Box::new(move |result| told.send(result).unwrap());
            self.publisher.when_published(offset, done);
            awaited::received("it is published", &published).unwrap();
        }
        outcome
    }

    /// Ends it, and opens what it left behind.
    fn reopened(self, dir: &Path) -> MetadataImage {
        self.publisher.stop();
        Self::open(dir, Arc::new(RealStorage)).image
    }
}

fn ids(next_producer_id: i64) -> MetadataRecord {
    MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: 1, next_producer_id })
}

#[test]
fn committed_batches_leave_in_the_order_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let house = House::open(dir.path(), Arc::new(RealStorage));
    for (expected, next) in [(-1, 1_000), (0, 2_000), (1, 3_000)] {
        let outcome = house.propose(expected, vec![ids(next)]);
        assert!(matches!(outcome, Outcome::Committed(offset) if offset == expected + 1));
        assert_eq!(house.images.try_recv().unwrap(), (expected + 1, 1, next));
    }
}

#[test]
fn a_proposal_that_was_overtaken_is_rejected_and_written_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let house = House::open(dir.path(), Arc::new(RealStorage));
    assert!(matches!(house.propose(-1, vec![ids(1_000)]), Outcome::Committed(0)));
    for expected in [-1, 1] {
        let outcome = house.propose(expected, vec![ids(9_000)]);
        let overtaken = MetadataError::Overtaken { expected, found: 0 };
        let Outcome::Rejected(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.to_string(), overtaken.to_string());
    }
    assert_eq!(house.images.try_iter().count(), 1);
    let image = house.reopened(dir.path());
    assert_eq!((image.offset, image.next_producer_id), (0, 1_000));
}

#[test]
fn each_start_leads_in_a_newer_epoch() {
    let dir = tempfile::tempdir().unwrap();
    for epoch in 1..4 {
        let house = House::open(dir.path(), Arc::new(RealStorage));
        let cluster = ClusterRecord { cluster_id: "c".to_owned() };
        house.propose(house.image.offset, vec![MetadataRecord::Cluster(cluster)]);
        let status = house.quorum.status();
        assert_eq!((status.leader_epoch, status.high_watermark), (epoch, i64::from(epoch)));
        assert_eq!(house.images.try_recv().unwrap().1, epoch);
        house.publisher.stop();
    }
}

#[test]
fn a_full_disk_rejects_one_proposal_and_takes_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let house = House::open(dir.path(), Arc::new(storage.clone()));
    storage.plan(storage.changes(), Fault::Fail(28));
    assert!(matches!(house.propose(-1, vec![ids(1_000)]), Outcome::Rejected(_)));
    assert!(matches!(house.propose(-1, vec![ids(2_000)]), Outcome::Committed(0)));
    assert_eq!(house.images.try_iter().collect::<Vec<_>>(), [(0, 1, 2_000)]);
}

/// The first proposal fails at each change of the disk in turn. It is found in the log at most
/// once, and only if it was not rejected.
#[test]
fn a_proposal_of_unknown_outcome_is_never_committed_twice_nor_retried() {
    for (error, places) in [(28, 3), (5, 3)] {
        for at in 0..places {
            let dir = tempfile::tempdir().unwrap();
            let storage = FaultyStorage::default();
            let house = House::open(dir.path(), Arc::new(storage.clone()));
            storage.plan(storage.changes() + at, Fault::Fail(error));
            let first = house.propose(-1, vec![ids(1_000)]);
            let second = house.propose(house.quorum.status().high_watermark - 1, vec![ids(2_000)]);
            let published: Vec<_> = house.images.try_iter().map(|(.., next)| next).collect();
            let found = house.reopened(dir.path());
            let context = format!("error {error} at {at}: {first:?}, then {second:?}");
            match (&first, &second) {
                (Outcome::Committed(0), Outcome::Committed(1)) => {
                    assert_eq!(published, [1_000, 2_000], "{context}");
                    assert_eq!((found.offset, found.next_producer_id), (1, 2_000), "{context}");
                }
                (Outcome::Rejected(_), Outcome::Committed(0)) => {
                    assert_eq!(published, [2_000], "{context}");
                    assert_eq!((found.offset, found.next_producer_id), (0, 2_000), "{context}");
                }
                (Outcome::Unknown(_), Outcome::Rejected(MetadataError::Offline { .. })) => {
                    assert_eq!(at, 1, "only the fsync leaves it open: {context}");
                    assert!(published.is_empty(), "{context}");
                    assert!((-1..=0).contains(&found.offset), "{context}");
                    assert!([0, 1_000].contains(&found.next_producer_id), "{context}");
                }
                _ => panic!("{context}"),
            }
        }
    }
}
