#![allow(clippy::unwrap_used)]
use super::*;
use crate::awaited;
use crate::clock::ManualClock;
use crate::metadata::quorum::{OnOutcome, QuorumStatus};
use crate::metadata::records::{ProducerIdsRecord, RemoveTopicRecord};
use std::sync::mpsc;

/// A quorum that commits when the test says so.
#[derive(Default)]
struct ByHand(Mutex<VecDeque<(Proposal, OnOutcome)>>);

impl MetadataQuorum for ByHand {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        self.0.lock().push_back((proposal, done));
    }

    fn published(&self, _: &Arc<MetadataImage>) {}

    fn status(&self) -> QuorumStatus {
        QuorumStatus { leader_id: 1, leader_epoch: 1, high_watermark: 0, voters: vec![] }
    }

    fn stop(&self) {}
}

struct House {
    quorum: Arc<ByHand>,
    publisher: Arc<Publisher>,
    changes: Arc<Changes>,
    told: mpsc::Sender<(i64, Result<(), ErrorCode>)>,
    answers: mpsc::Receiver<(i64, Result<(), ErrorCode>)>,
}

impl House {
    fn new() -> Self {
        let quorum = Arc::new(ByHand::default());
        let publisher = Publisher::start(MetadataImage::default(), |_| {}).unwrap();
        let publisher = Arc::new(publisher);
        let clock = Arc::new(ManualClock::new(0));
        let changes = Changes::new(clock, quorum.clone(), publisher.clone());
        let (told, answers) = mpsc::channel();
        Self { quorum, publisher, changes, told, answers }
    }

    /// Submits a change that takes the next `count` producer ids; its answer bears the first.
    fn take_ids(&self, count: i64) {
        let told = self.told.clone();
        self.changes.submit(Box::new(move |image| {
            let first = image.map_or(-1, |image| image.next_producer_id);
            let answer = move |result: Result<(), ApiError>| {
                told.send((first, result.map_err(|error| error.code))).unwrap();
            };
            Decided { records: vec![ids(first + count)], answer: Box::new(answer) }
        }));
    }

    fn under_way(&self) -> usize {
        self.quorum.0.lock().len()
    }

    /// The oldest proposal that is under way.
    fn proposal(&self) -> (Proposal, OnOutcome) {
        awaited::until("a proposal is under way", || self.under_way() > 0);
        self.quorum.0.lock().pop_front().unwrap()
    }

    fn commit(&self, proposal: Proposal) -> i64 {
        let (base_offset, records) = (proposal.expected + 1, proposal.records);
        let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records };
        let offset = batch.last_offset();
        self.publisher.committed(batch);
        offset
    }

    fn answer(&self) -> (i64, Result<(), ErrorCode>) {
        awaited::received("an answer", &self.answers)
    }
}

fn ids(next_producer_id: i64) -> MetadataRecord {
    MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: 1, next_producer_id })
}

#[test]
fn a_change_is_decided_on_the_image_that_the_one_before_made() {
    let house = House::new();
    for count in [10, 20, 30] {
        house.take_ids(count);
    }
    for (expected, first) in [(-1, 0), (0, 10), (1, 30)] {
        let (proposal, done) = house.proposal();
        assert_eq!(house.under_way(), 0, "the next one is not even decided");
        assert_eq!(proposal.expected, expected);
        done(Outcome::Committed(house.commit(proposal)));
        assert_eq!(house.answer(), (first, Ok(())));
    }
    assert_eq!(house.publisher.image().next_producer_id, 60);
}

#[test]
fn nobody_is_answered_before_the_record_is_in_the_local_image() {
    let house = House::new();
    house.take_ids(10);
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(0));
    assert!(house.answers.try_recv().is_err());
    house.commit(proposal);
    assert_eq!(house.answer(), (0, Ok(())));
}

#[test]
fn a_refused_change_is_answered_and_the_next_one_begins_where_it_began() {
    let house = House::new();
    house.take_ids(10);
    house.take_ids(20);
    let (_, done) = house.proposal();
    done(Outcome::Rejected(MetadataError::Offline { reason: "on purpose".to_owned() }));
    assert_eq!(house.answer(), (0, Err(ErrorCode::KafkaStorageError)));
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (0, Ok(())));
    assert_eq!(house.publisher.image().next_producer_id, 20);
}

/// As a leader that lost its epoch answers: the records may be committed by another one later.
#[test]
fn a_change_of_unknown_outcome_is_answered_as_such_and_applied_once_when_it_comes() {
    let house = House::new();
    house.take_ids(10);
    let (proposal, done) = house.proposal();
    done(Outcome::Unknown(MetadataError::Offline { reason: "on purpose".to_owned() }));
    assert_eq!(house.answer(), (0, Err(ErrorCode::RequestTimedOut)));
    assert_eq!(house.under_way(), 0, "it is not proposed again");
    assert_eq!(house.publisher.image().offset, -1);
    house.commit(proposal);
    awaited::until("the batch is applied", || house.publisher.image().offset == 0);
    house.take_ids(20);
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (10, Ok(())));
    assert_eq!(house.publisher.image().next_producer_id, 30);
    assert!(house.answers.try_recv().is_err(), "the first one is answered once");
}

#[test]
fn a_record_that_does_not_fit_is_never_proposed() {
    let house = House::new();
    let told = house.told.clone();
    house.changes.submit(Box::new(move |_| {
        let answer = move |result: Result<(), ApiError>| {
            told.send((7, result.map_err(|error| error.code))).unwrap();
        };
        let records = vec![MetadataRecord::RemoveTopic(RemoveTopicRecord::default())];
        Decided { records, answer: Box::new(answer) }
    }));
    assert_eq!(house.answer(), (7, Err(ErrorCode::KafkaStorageError)));
    assert_eq!(house.under_way(), 0);
}

#[test]
fn a_decision_that_panics_holds_up_none_of_those_behind_it() {
    let house = House::new();
    house.take_ids(10);
    house.changes.submit(Box::new(|_| panic!("on purpose")));
    house.take_ids(20);
    for first in [0, 10] {
        let (proposal, done) = house.proposal();
        done(Outcome::Committed(house.commit(proposal)));
        assert_eq!(house.answer(), (first, Ok(())));
    }
}

#[test]
fn of_very_many_changes_that_wait_the_last_are_refused() {
    let house = House::new();
    for _ in 0..MAX_WAITING + 3 {
        house.take_ids(1);
    }
    for _ in 0..2 {
        assert_eq!(house.answer(), (-1, Err(ErrorCode::ThrottlingQuotaExceeded)));
    }
    assert!(house.answers.try_recv().is_err());
}
