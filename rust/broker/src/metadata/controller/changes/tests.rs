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
        let (voters, observers) = (vec![], vec![]);
        QuorumStatus { leader_id: 1, leader_epoch: 1, high_watermark: 0, voters, observers }
    }

    fn stop(&self) {}
}

struct House {
    clock: Arc<ManualClock>,
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
        let changes = Changes::new(clock.clone(), quorum.clone(), publisher.clone());
        let (told, answers) = mpsc::channel();
        Self { clock, quorum, publisher, changes, told, answers }
    }

    /// Submits a change that takes the next `count` producer ids; its answer bears the first.
    fn take_ids(&self, count: i64) {
        self.submit(move |image| vec![ids(image.next_producer_id + count)]);
    }

    fn submit(&self, decide: impl Fn(&MetadataImage) -> Vec<MetadataRecord> + Send + 'static) {
        self.submit_within(Bounds::default(), decide);
    }

    fn submit_within(
        &self,
        bounds: Bounds,
        decide: impl Fn(&MetadataImage) -> Vec<MetadataRecord> + Send + 'static,
    ) {
        let told = self.told.clone();
        self.changes.submit(Box::new(Told { decide, first: -1, bounds, told }));
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

/// A change whose answer bears the next producer id of the image that it was decided upon last.
struct Told<D> {
    decide: D,
    first: i64,
    bounds: Bounds,
    told: mpsc::Sender<(i64, Result<(), ErrorCode>)>,
}

impl<D: Fn(&MetadataImage) -> Vec<MetadataRecord> + Send> Change for Told<D> {
    fn decide(&mut self, image: &MetadataImage) -> Vec<MetadataRecord> {
        self.first = image.next_producer_id;
        (self.decide)(image)
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn answer(self: Box<Self>, result: Result<(), ApiError>) {
        self.told.send((self.first, result.map_err(|error| error.code))).unwrap();
    }
}

fn overtaken(expected: i64, found: i64) -> Outcome {
    Outcome::Rejected(MetadataError::Overtaken { expected, found })
}

fn settled(next_producer_id: i64) -> MetadataRecord {
    MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: -1, next_producer_id })
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
fn no_caller_is_answered_before_the_record_is_in_the_local_image() {
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

/// A leader took a refusal for the end of its earlier proposal too. That one was committed after
/// all, and the high watermark had passed a replica in sync.
#[test]
fn a_refusal_behind_a_change_of_unknown_outcome_counts_when_that_change_cannot_come_any_more() {
    let house = House::new();
    house.take_ids(10);
    let (_, done) = house.proposal();
    done(Outcome::Unknown(MetadataError::Offline { reason: "on purpose".to_owned() }));
    assert_eq!(house.answer(), (0, Err(ErrorCode::RequestTimedOut)));
    house.submit(|_| Vec::new());
    let (proposal, done) = house.proposal();
    assert!(house.answers.try_recv().is_err());
    assert_eq!((proposal.expected, &proposal.records[..]), (-1, &[settled(0)][..]));
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (0, Ok(())));
    house.submit(|_| Vec::new());
    assert_eq!(house.answer(), (0, Ok(())), "nothing is in doubt any more");
    assert_eq!(house.under_way(), 0);
}

#[test]
fn a_refusal_is_decided_again_when_a_change_of_unknown_outcome_comes_first() {
    let house = House::new();
    house.take_ids(10);
    let (late, done) = house.proposal();
    done(Outcome::Unknown(MetadataError::Offline { reason: "on purpose".to_owned() }));
    assert_eq!(house.answer(), (0, Err(ErrorCode::RequestTimedOut)));
    house.submit(|_| Vec::new());
    let (_, done) = house.proposal();
    house.commit(late);
    done(overtaken(-1, 0));
    assert_eq!(house.answer(), (10, Ok(())));
}

#[test]
fn a_record_that_does_not_fit_is_never_proposed() {
    let house = House::new();
    house.submit(|_| vec![MetadataRecord::RemoveTopic(RemoveTopicRecord::default())]);
    assert_eq!(house.answer(), (0, Err(ErrorCode::KafkaStorageError)));
    assert_eq!(house.under_way(), 0);
}

#[test]
fn a_decision_that_panics_holds_up_none_of_those_behind_it() {
    let house = House::new();
    house.take_ids(10);
    house.submit(|_| panic!("on purpose"));
    house.take_ids(20);
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (0, Ok(())));
    assert_eq!(house.answer(), (10, Err(ErrorCode::UnknownServerError)));
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (10, Ok(())));
}

/// It was answered with NOT_CONTROLLER, which Kafka's clients never see: the broker that forwards a
/// change asks the next controller.
#[test]
fn a_change_that_was_overtaken_is_decided_again_when_the_image_has_what_overtook_it() {
    let house = House::new();
    house.take_ids(10);
    house.take_ids(1_000);
    let (_, done) = house.proposal();
    done(overtaken(-1, 1));
    let others = RecordsBatch {
        base_offset: 0,
        epoch: 2,
        timestamp_ms: 0,
        records: vec![ids(100), ids(300)],
    };
    assert_eq!(house.under_way(), 0, "the image has nothing of the other change yet");
    house.publisher.committed(others);
    let (proposal, done) = house.proposal();
    assert_eq!((proposal.expected, &proposal.records[..]), (1, &[ids(310)][..]));
    assert_eq!(house.under_way(), 0, "the change behind it still waits");
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (300, Ok(())));
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (310, Ok(())));
    assert_eq!(house.publisher.image().next_producer_id, 1_310);
}

#[test]
fn a_change_that_is_overtaken_again_and_again_is_made_once() {
    let house = House::new();
    house.take_ids(10);
    for offset in 0..3 {
        let (proposal, done) = house.proposal();
        assert_eq!(proposal.expected, offset - 1);
        let records = vec![ids(100 * (offset + 1))];
        let other = RecordsBatch { base_offset: offset, epoch: 2, timestamp_ms: 0, records };
        house.publisher.committed(other);
        done(overtaken(offset - 1, offset));
    }
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (300, Ok(())));
    assert_eq!(house.publisher.image().next_producer_id, 310);
    assert!(house.answers.try_recv().is_err(), "one answer");
}

#[test]
fn a_second_decision_that_panics_is_answered_and_holds_up_none_of_those_behind_it() {
    let house = House::new();
    house.submit(|image| {
        assert!(image.offset < 0, "on purpose");
        vec![ids(10)]
    });
    house.take_ids(20);
    let (proposal, done) = house.proposal();
    house.commit(proposal);
    done(overtaken(-1, 0));
    assert_eq!(house.answer(), (10, Err(ErrorCode::UnknownServerError)));
    let (proposal, done) = house.proposal();
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (10, Ok(())));
}

/// The log lost records that the image has: that is no other change, and does not pass.
#[test]
fn a_change_that_is_ahead_of_the_log_is_refused() {
    let house = House::new();
    house.take_ids(10);
    let (_, done) = house.proposal();
    done(overtaken(-1, -1));
    assert_eq!(house.answer(), (0, Err(ErrorCode::KafkaStorageError)));
    house.take_ids(20);
    assert_eq!(house.proposal().0.expected, -1, "the next one is begun");
}

#[test]
fn a_change_that_was_overtaken_by_what_cannot_be_applied_is_refused() {
    let house = House::new();
    house.take_ids(10);
    let (_, done) = house.proposal();
    done(overtaken(-1, 0));
    let records = vec![MetadataRecord::RemoveTopic(RemoveTopicRecord::default())];
    house.publisher.committed(RecordsBatch { base_offset: 0, epoch: 2, timestamp_ms: 0, records });
    assert_eq!(house.answer(), (0, Err(ErrorCode::KafkaStorageError)));
}

#[test]
fn a_change_that_was_overtaken_is_dropped_when_the_broker_stops_first() {
    let House { quorum, publisher, changes, told, answers, .. } = House::new();
    let bounds = Bounds::default();
    let change = Told { decide: |_: &MetadataImage| vec![ids(10)], first: -1, bounds, told };
    changes.submit(Box::new(change));
    let (_, done) = quorum.0.lock().pop_front().unwrap();
    done(overtaken(-1, 0));
    changes.stop();
    publisher.stop();
    let answer = answers.recv_timeout(awaited::LIMIT);
    let dropped = Err(mpsc::RecvTimeoutError::Disconnected);
    assert_eq!(answer, dropped, "its answer is dropped, and with it the wait");
}

/// A broker without a leader kept a DeleteTopics whose client had given up. It was made when the
/// cluster was back, by name: of a topic that was made and filled since.
#[test]
fn a_change_that_waited_beyond_its_time_is_not_made() {
    let house = House::new();
    house.take_ids(10);
    let until =
        |deadline_ms: u64| Bounds { deadline_ns: deadline_ms * 1_000_000, ..Bounds::default() };
    house.submit_within(until(1_000), |_| vec![ids(77)]);
    house.submit_within(until(1_001), |image| vec![ids(image.next_producer_id + 20)]);
    let (proposal, done) = house.proposal();
    house.clock.advance_ms(1_001);
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (0, Ok(())));
    assert_eq!(house.answer(), (-1, Err(ErrorCode::RequestTimedOut)), "it was not even decided");
    let (proposal, done) = house.proposal();
    house.clock.advance_ms(1);
    done(Outcome::Committed(house.commit(proposal)));
    assert_eq!(house.answer(), (10, Ok(())), "its time was not over when it began");
    assert_eq!(house.publisher.image().next_producer_id, 30);
}

#[test]
fn a_change_that_was_overtaken_is_not_decided_again_beyond_its_time() {
    let house = House::new();
    let bounds = Bounds { deadline_ns: 5, ..Bounds::default() };
    house.submit_within(bounds, |_| vec![ids(77)]);
    let (_, done) = house.proposal();
    house.clock.advance_ms(1);
    let (base_offset, records) = (0, vec![ids(10)]);
    house.publisher.committed(RecordsBatch { base_offset, epoch: 2, timestamp_ms: 0, records });
    done(overtaken(-1, 0));
    assert_eq!(house.answer(), (0, Err(ErrorCode::RequestTimedOut)));
    assert_eq!(house.under_way(), 0);
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
