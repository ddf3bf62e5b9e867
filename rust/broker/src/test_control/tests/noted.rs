//! What is noted of answers and connections.

use std::sync::Arc;

use kafkalite_log::FileSlice;
use kafkalite_protocol::messages as m;
use kafkalite_protocol::{ApiKey, ErrorCode, Records, Uuid};

use super::super::api::{self, FAULTED, Head};
use super::super::seen::{Began, End, Failed, Hit, Part, Seen, Watched};
use super::super::spec::Kind;
use super::super::told::WHOLE;
use super::{ERROR, request};
use crate::handlers::refusal;
use crate::response_queue::{Piece, Response};

#[test]
fn the_error_of_a_whole_answer_is_noted_in_every_version() {
    let mut seen = 0;
    for api in FAULTED {
        let known = api::of(*api).expect("it has faults");
        for version in api.versions().min..=api.versions().max {
            let Some(answer) = refusal(*api, version, 7, ERROR) else { continue };
            let Response::Pieces(pieces) = answer else { panic!("{api:?}: no frame") };
            let head = Head { api: *api, version, correlation_id: 7 };
            let outcomes = known.outcomes(&pieces, head).expect("it can be read");
            let whole = ((String::new(), Uuid::ZERO, WHOLE), ERROR.code());
            assert!(outcomes.contains(&whole), "{api:?} {version}: {outcomes:?}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_request_that_cannot_be_read_tells_nothing() {
    let known = api::of(ApiKey::Produce).expect("it has faults");
    assert!(known.tells(&bytes::Bytes::from_static(b"\xff"), 9).is_none());
}

#[test]
fn fetches_of_followers_are_not_noted() {
    let known = api::of(ApiKey::Fetch).expect("it has faults");
    let replica_state = m::fetch::ReplicaState { replica_id: 1, ..Default::default() };
    let follower = m::fetch::FetchRequest { replica_state, ..Default::default() };
    let body = request(ApiKey::Fetch, 17, &follower).body;
    assert!(known.tells(&body, 17).is_none());
    let consumer = request(ApiKey::Fetch, 17, &m::fetch::FetchRequest::default()).body;
    assert!(known.tells(&consumer, 17).is_some());
}

/// Records stay in their files. Two ranges are the records of one partition; the numbers on both
/// sides of them are read.
#[test]
fn errors_of_a_fetch_are_noted_without_its_records() {
    for (version, length) in [(6, 10), (11, 300), (12, 10), (13, 126), (17, 127), (17, 70_000)] {
        let first = u32::try_from(length / 3).expect("small");
        let rest = u32::try_from(length).expect("small") - first;
        let file = crate::response_queue::tests::segment(&vec![7; length]);
        let slice = |position: u64, length| {
            let file = Arc::clone(&file);
            Piece::File(FileSlice { file, position, length, written_ms: None })
        };
        let with_records = m::fetch::PartitionData {
            partition_index: 3,
            records: Some(Records::External { token: 0, len: first + rest }),
            ..Default::default()
        };
        let failed = m::fetch::PartitionData {
            partition_index: 4,
            error_code: ERROR.code(),
            records: Some(Records::default()),
            ..Default::default()
        };
        let topic = if version < 13 { "t".to_owned() } else { String::new() };
        let topic_id = if version < 13 { Uuid::ZERO } else { Uuid([9; 16]) };
        let partitions = vec![with_records, failed];
        let responses =
            vec![m::fetch::FetchableTopicResponse { topic: topic.clone(), topic_id, partitions }];
        let answer = m::fetch::FetchResponse { responses, ..Default::default() };
        let mut writer = kafkalite_protocol::header::begin_response(ApiKey::Fetch, version, 7);
        m::Wire::encode(&answer, &mut writer, version);
        writer.patch_size();
        let pieces = writer.into_pieces().into_iter().flat_map(|piece| match piece {
            kafkalite_protocol::WirePiece::Mem(bytes) => vec![Piece::Mem(bytes)],
            kafkalite_protocol::WirePiece::External { .. } => {
                vec![slice(0, first), slice(first.into(), rest)]
            }
        });
        let pieces: Vec<Piece> = pieces.collect();
        let head = Head { api: ApiKey::Fetch, version, correlation_id: 7 };
        let known = api::of(ApiKey::Fetch).expect("it has faults");
        let outcomes = known.outcomes(&pieces, head).expect("it can be read");
        let of = |partition| (topic.clone(), topic_id, partition);
        assert!(outcomes.contains(&(of(3), 0)), "{version} {length}");
        assert!(outcomes.contains(&(of(4), ERROR.code())), "{version} {length}");
    }
}

fn part(topic: &str, partition: Option<i32>) -> Part {
    Part { topic: Some(Arc::from(topic)), partition }
}

/// Requests of one API on one connection.
struct Asking {
    watched: Arc<Watched>,
    number: u64,
    group: Option<String>,
    /// Faults that strike each request.
    hits: Vec<Hit>,
}

impl Asking {
    fn new() -> Self {
        Self { watched: Arc::default(), number: 0, group: None, hits: Vec::new() }
    }

    /// Requests of a member of a group.
    fn of_group(group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..Self::new() }
    }

    /// A request that is answered so.
    fn asked(&mut self, api: ApiKey, outcomes: &[(Part, ErrorCode)]) {
        self.number += 1;
        let one = request(api, 9, &m::heartbeat::HeartbeatRequest::default());
        let began = Began {
            number: self.number,
            api,
            version: 9,
            correlation_id: 1,
            client_id: None,
            received_ns: 0,
            started_ns: self.number,
            wall_ms: 0,
            parts: vec![],
            group: self.group.clone(),
            member: None,
        };
        let seen = Arc::new(Seen::new(&one.context, began));
        self.watched.begin(&seen);
        self.hits.iter().for_each(|hit| seen.hit(hit.clone()));
        let failed =
            |(part, code): &(Part, ErrorCode)| Failed { part: part.clone(), code: code.code() };
        let outcomes = outcomes.iter().map(failed).collect();
        self.watched.end(&seen, End::Answered, outcomes, self.number);
    }

    fn streaks(&self) -> Vec<(Part, i16, u64)> {
        let streaks = self.watched.look().streaks;
        streaks.into_iter().map(|streak| (streak.part, streak.code, streak.times)).collect()
    }
}

#[test]
fn an_error_counts_until_its_part_succeeds_or_fails_otherwise() {
    let mut asking = Asking::new();
    let (zero, one) = (part("t", Some(0)), part("t", Some(1)));
    let error = (zero.clone(), ERROR);
    asking.asked(ApiKey::Produce, std::slice::from_ref(&error));
    asking.asked(ApiKey::Produce, &[(one, ErrorCode::None)]);
    asking.asked(ApiKey::ListOffsets, &[(zero.clone(), ErrorCode::None)]);
    asking.asked(ApiKey::Produce, std::slice::from_ref(&error));
    assert_eq!(asking.streaks(), [(zero.clone(), ERROR.code(), 2)]);
    let other = ErrorCode::CorruptMessage;
    asking.asked(ApiKey::Produce, &[(zero.clone(), other)]);
    assert_eq!(asking.streaks(), [(zero.clone(), other.code(), 1)]);
    asking.asked(ApiKey::Produce, &[(zero, ErrorCode::None)]);
    assert_eq!(asking.streaks(), []);
}

/// A fault that gives an error.
fn error_by(fault: u64, part: Part, error: ErrorCode) -> Hit {
    let error = Some(Failed { part, code: error.code() });
    Hit { fault, kind: Kind::Error, ms: 0, at_ns: 1, error }
}

fn waiting_by(fault: u64, kind: Kind, ms: u32) -> Hit {
    Hit { fault, kind, ms, at_ns: 1, error: None }
}

/// Only the last fault was looked at, and all errors were put to it.
#[test]
fn each_error_is_put_to_the_fault_that_made_it() {
    let mut asking = Asking::new();
    let of_topic = |topic: &str| part(topic, None);
    let all = Part { topic: None, partition: None };
    asking.hits = vec![
        error_by(1, of_topic("t"), ERROR),
        error_by(2, part("u", Some(1)), ERROR),
        error_by(3, all, ErrorCode::KafkaStorageError),
        waiting_by(4, Kind::Throttle, 100),
        waiting_by(5, Kind::Delay, 100),
    ];
    let unknown = ErrorCode::UnknownTopicOrPartition;
    asking.asked(
        ApiKey::Produce,
        &[
            (part("t", Some(0)), ERROR),
            (part("u", Some(0)), ERROR),
            (part("u", Some(1)), ERROR),
            (part("v", Some(0)), unknown),
            (part("w", Some(0)), ErrorCode::KafkaStorageError),
        ],
    );
    let look = asking.watched.look();
    let told: Vec<_> = look.streaks.iter().map(|streak| streak.fault).collect();
    assert_eq!(told, [Some(1), None, Some(2), None, Some(3)]);
    assert_eq!(look.throttled.map(|(_, ms, fault)| (ms, fault)), Some((100, 4)));
}

/// An error of the whole answer names no part.
#[test]
fn an_error_of_the_whole_answer_is_put_to_the_fault_of_a_topic() {
    let mut asking = Asking::new();
    asking.hits = vec![error_by(1, part("t", None), ERROR)];
    asking.asked(ApiKey::Fetch, &[(Part { topic: None, partition: None }, ERROR)]);
    assert_eq!(asking.watched.look().streaks[0].fault, Some(1));
}

#[test]
fn a_topic_that_is_no_longer_asked_for_is_forgotten() {
    let mut asking = Asking::new();
    let unknown = (part("t", None), ErrorCode::UnknownTopicOrPartition);
    asking.asked(ApiKey::Metadata, std::slice::from_ref(&unknown));
    asking.asked(ApiKey::Metadata, std::slice::from_ref(&unknown));
    assert_eq!(asking.streaks().len(), 1);
    asking.asked(ApiKey::Metadata, &[(part("u", None), ErrorCode::None)]);
    assert_eq!(asking.streaks(), []);
}

/// A commit of the generation before is refused in a healthy rebalance. Its partition may belong
/// to another member from then on, so that no other commit of it ever comes.
#[test]
fn a_member_that_is_in_its_group_again_is_no_longer_fenced() {
    for error in [ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId] {
        for again in [ApiKey::JoinGroup, ApiKey::Heartbeat] {
            let mut asking = Asking::of_group("g");
            let whole = Part { topic: None, partition: None };
            asking.asked(ApiKey::OffsetCommit, &[(part("t", Some(0)), error)]);
            asking.asked(ApiKey::OffsetCommit, &[(part("t", Some(1)), ERROR)]);
            asking.asked(again, &[(whole.clone(), ErrorCode::MemberIdRequired)]);
            assert_eq!(asking.streaks().len(), 3);
            asking.group = Some("another".to_owned());
            asking.asked(ApiKey::Heartbeat, &[(whole.clone(), ErrorCode::None)]);
            asking.group = Some("g".to_owned());
            let is_fenced =
                |asking: &Asking| asking.streaks().iter().any(|(_, code, _)| *code == error.code());
            assert!(is_fenced(&asking));
            asking.asked(again, &[(whole, ErrorCode::None)]);
            assert!(!is_fenced(&asking));
            assert_eq!(asking.streaks(), [(part("t", Some(1)), ERROR.code(), 1)]);
        }
    }
}

/// A client that invents partitions must not fill the memory.
#[test]
fn the_errors_of_a_connection_are_bounded() {
    let mut asking = Asking::new();
    let all: Vec<_> = (0..5_000).map(|index| (part("t", Some(index)), ERROR)).collect();
    asking.asked(ApiKey::Produce, &all);
    assert_eq!(asking.streaks().len(), 1_000);
}

#[test]
fn a_request_ends_once() {
    let asking = Asking::new();
    let one = request(ApiKey::Heartbeat, 4, &m::heartbeat::HeartbeatRequest::default());
    let began = Began {
        number: 1,
        api: ApiKey::Heartbeat,
        version: 4,
        correlation_id: 1,
        client_id: None,
        received_ns: 0,
        started_ns: 0,
        wall_ms: 0,
        parts: vec![],
        group: None,
        member: None,
    };
    let seen = Arc::new(Seen::new(&one.context, began));
    asking.watched.begin(&seen);
    assert_eq!(asking.watched.look().open.len(), 1);
    asking.watched.end(&seen, End::Answered, vec![], 5);
    asking.watched.end(&seen, End::Closed, vec![], 6);
    assert_eq!(seen.progress().ended, Some((5, End::Answered)));
    assert!(asking.watched.look().open.is_empty());
}
