//! Every version of every API: the error of a fault is where clients of that version look for it.

use bytes::Bytes;
use kafkalite_protocol::messages as m;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::{ApiKey, ErrorCode, Reader, Uuid, Writer};
use std::sync::Arc;

use super::api::{self, Answered, Change, FAULTED, Head};
use super::parts::Parts;
use crate::handlers::{PRIVATE, SERVED, frame, refusal};
use crate::metadata::MetadataImage;
use crate::request_queue::{Audience, Lane, Request, RequestContext};
use crate::response_queue::{Piece, Responder, Response};
use kafkalite_protocol::header::{RequestHeader, response_header_is_flexible};

mod changed;
mod noted;

const ERROR: ErrorCode = ErrorCode::NotLeaderOrFollower;

fn parts(topic: Option<&str>, partition: Option<i32>) -> Parts {
    let image = Arc::new(MetadataImage::default());
    let topic = topic.map(str::to_owned);
    Parts { topic, partition, group: None, except: Vec::new(), image }
}

fn encoded<W: Wire>(message: &W, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    writer.into_bytes()
}

fn request<W: Wire>(api: ApiKey, version: i16, message: &W) -> Request {
    let (api_key, api_version, correlation_id) = (api as i16, version, 7);
    let peer = ([127, 0, 0, 1], 9).into();
    let context = RequestContext::anonymous((peer, peer), Arc::from("L"), Audience::Clients, 1);
    Request {
        header: RequestHeader { api_key, api_version, correlation_id, client_id: None },
        body: encoded(message, version),
        context: Arc::new(context),
        lane: Lane::Data,
        responder: Responder::to(api_key, api_version, |_| {}),
        received_ns: 0,
    }
}

fn body<W: Wire>(api: ApiKey, version: i16, response: Response) -> W {
    let Response::Pieces(pieces) = response else { panic!("{api:?} {version}: no frame") };
    let [Piece::Mem(bytes)] = &pieces[..] else { panic!("{api:?} {version}: not in memory") };
    let length = i32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
    assert_eq!(length as usize + 4, bytes.len(), "{api:?} {version}");
    assert_eq!(bytes[4..8], 7_i32.to_be_bytes(), "{api:?} {version}");
    let from = if response_header_is_flexible(api, version) { 9 } else { 8 };
    let mut reader = Reader::new(bytes.slice(from..));
    let read = W::decode(&mut reader, version).expect("it decodes");
    assert_eq!(reader.remaining(), 0, "{api:?} {version}: bytes are left");
    read
}

/// Refuses a request that names `t`-0 and `t`-1. With a fault of `t`-1 only that one is refused.
fn refused<R, C>(ask: impl Fn(i16) -> R, codes: C)
where
    R: m::Request,
    C: Fn(&R::Response) -> Vec<i16>,
{
    let known = api::of(R::API_KEY).expect("it has faults");
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        let mut all = request(R::API_KEY, version, &ask(version));
        let answered = known.refuse(&mut all, &parts(None, None), ERROR);
        let Some(Answered::Whole(answer)) = answered else { panic!("{version}: not refused") };
        let codes = codes(&body(R::API_KEY, version, answer));
        assert!(!codes.is_empty(), "{version}");
        assert!(codes.iter().all(|code| *code == ERROR.code()), "{version}: {codes:?}");
    }
}

#[test]
fn produce_is_refused_in_every_version_and_the_rest_of_it_is_run() {
    use m::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
    let partition = |index| PartitionProduceData { index, ..Default::default() };
    let ask = |_| ProduceRequest {
        topic_data: vec![TopicProduceData {
            name: "t".to_owned(),
            partition_data: vec![partition(0), partition(1)],
            ..Default::default()
        }],
        ..Default::default()
    };
    let of = |answer: &ProduceResponse| {
        let all = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        all.map(|one| one.error_code).collect()
    };
    refused(ask, of);
    // By name, so before topic ids.
    let (api, version) = (ApiKey::Produce, 12);
    let known = api::of(api).expect("it has faults");
    let mut one = request(api, version, &ask(version));
    let answered = known.refuse(&mut one, &parts(Some("t"), Some(1)), ERROR);
    let Some(Answered::Part(join)) = answered else { panic!("all of it was refused") };
    let left = ProduceRequest::decode(&mut Reader::of_request(one.body), version).expect("read");
    assert_eq!(left.topic_data[0].partition_data.len(), 1);
    assert_eq!(left.topic_data[0].partition_data[0].index, 0);
    let mut answer = ProduceResponse::default();
    answer.responses.push(m::produce::TopicProduceResponse {
        name: "t".to_owned(),
        partition_responses: vec![Default::default()],
        ..Default::default()
    });
    let joined = join(Response::frame(frame(api, version, 7, &answer)));
    let joined: ProduceResponse = body(api, version, joined);
    assert_eq!(joined.responses.len(), 1, "a topic stands there once");
    assert_eq!(of(&joined), [0, ERROR.code()]);
}

#[test]
fn requests_that_change_something_are_refused_in_every_version() {
    use m::create_topics::{CreatableTopic, CreateTopicsRequest};
    use m::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
    use m::offset_commit::{OffsetCommitRequest, OffsetCommitRequestTopic};
    refused(
        |_| CreateTopicsRequest {
            topics: vec![CreatableTopic { name: "t".to_owned(), ..Default::default() }],
            ..Default::default()
        },
        |answer| answer.topics.iter().map(|topic| topic.error_code).collect(),
    );
    refused(
        |version| {
            let (name, topics) = ("t".to_owned(), Vec::new());
            let by_name = DeleteTopicsRequest { topics, timeout_ms: 1, topic_names: vec![name] };
            let topic = DeleteTopicState { name: Some("t".to_owned()), ..Default::default() };
            let (topics, topic_names) = (vec![topic], Vec::new());
            let by_state = DeleteTopicsRequest { topics, timeout_ms: 1, topic_names };
            if version < 6 { by_name } else { by_state }
        },
        |answer| answer.responses.iter().map(|topic| topic.error_code).collect(),
    );
    refused(
        |_| OffsetCommitRequest {
            topics: vec![OffsetCommitRequestTopic {
                name: "t".to_owned(),
                partitions: vec![Default::default()],
                ..Default::default()
            }],
            ..Default::default()
        },
        |answer| {
            let all = answer.topics.iter().flat_map(|topic| &topic.partitions);
            all.map(|one| one.error_code).collect()
        },
    );
}

/// Marks answers of every version.
fn marked<R, C>(answer: impl Fn() -> R::Response, error: ErrorCode, codes: C)
where
    R: m::Request,
    C: Fn(&R::Response, i16) -> Vec<i16>,
{
    let known = api::of(R::API_KEY).expect("it has faults");
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        let head = Head { api: R::API_KEY, version, correlation_id: 7 };
        let sent = Response::frame(frame(R::API_KEY, version, 7, &answer()));
        let mut fired = 0;
        let mut fires = || {
            fired += 1;
            true
        };
        let all = parts(None, None);
        let told = known.mark(sent, head, (&all, &[]), error, &mut fires);
        let told = codes(&body(R::API_KEY, version, told), version);
        assert_eq!(told, [error.code()], "{version}");
        assert_eq!(fired, 1, "{version}");
    }
}

#[test]
fn answers_to_reads_are_marked_in_every_version() {
    use m::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse};
    use m::list_offsets::{ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse};
    use m::metadata::{MetadataRequest, MetadataResponse, MetadataResponseTopic};
    marked::<FetchRequest, _>(
        || FetchResponse {
            responses: vec![FetchableTopicResponse {
                topic: "t".to_owned(),
                partitions: vec![Default::default()],
                ..Default::default()
            }],
            ..Default::default()
        },
        ERROR,
        |answer, _| answer.responses[0].partitions.iter().map(|one| one.error_code).collect(),
    );
    marked::<ListOffsetsRequest, _>(
        || ListOffsetsResponse {
            topics: vec![ListOffsetsTopicResponse {
                name: "t".to_owned(),
                partitions: vec![Default::default()],
            }],
            ..Default::default()
        },
        ERROR,
        |answer, _| answer.topics[0].partitions.iter().map(|one| one.error_code).collect(),
    );
    marked::<MetadataRequest, _>(
        || MetadataResponse {
            topics: vec![MetadataResponseTopic {
                name: Some("t".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        },
        ErrorCode::LeaderNotAvailable,
        |answer, _| answer.topics.iter().map(|topic| topic.error_code).collect(),
    );
}

#[test]
fn errors_of_groups_and_coordinators_stand_where_each_version_has_them() {
    use m::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
    use m::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
    marked::<FindCoordinatorRequest, _>(
        || FindCoordinatorResponse {
            coordinators: vec![Coordinator { key: "g".to_owned(), ..Default::default() }],
            ..Default::default()
        },
        ErrorCode::CoordinatorNotAvailable,
        |answer, version| match version {
            0..=3 => vec![answer.error_code],
            _ => answer.coordinators.iter().map(|one| one.error_code).collect(),
        },
    );
    marked::<OffsetFetchRequest, _>(
        || OffsetFetchResponse {
            topics: vec![m::offset_fetch::OffsetFetchResponseTopic {
                name: "t".to_owned(),
                partitions: vec![Default::default()],
            }],
            groups: vec![Default::default()],
            ..Default::default()
        },
        ErrorCode::NotCoordinator,
        |answer, version| match version {
            0..=1 => answer.topics[0].partitions.iter().map(|one| one.error_code).collect(),
            2..=7 => vec![answer.error_code],
            _ => answer.groups.iter().map(|group| group.error_code).collect(),
        },
    );
}

#[test]
fn a_partition_that_an_incremental_fetch_left_out_is_added_with_its_error() {
    use m::fetch::FetchResponse;
    let (api, version, id) = (ApiKey::Fetch, 13, Uuid::from_random([9; 16]));
    let known = api::of(api).expect("it has faults");
    let head = Head { api, version, correlation_id: 7 };
    let sent = Response::frame(frame(api, version, 7, &FetchResponse::default()));
    let asked = [(String::new(), id, 4)];
    let told = known.mark(sent, head, (&parts(None, None), &asked), ERROR, &mut || true);
    let told: FetchResponse = body(api, version, told);
    assert_eq!(told.responses[0].topic_id, id);
    assert_eq!(told.responses[0].partitions[0].partition_index, 4);
    assert_eq!(told.responses[0].partitions[0].error_code, ERROR.code());
    assert_eq!(told.responses[0].partitions[0].high_watermark, -1);
}

#[test]
fn an_answer_that_is_not_struck_stays_as_it_is() {
    use m::fetch::FetchResponse;
    let (api, version) = (ApiKey::Fetch, 12);
    let known = api::of(api).expect("it has faults");
    let head = Head { api, version, correlation_id: 7 };
    let sent = || Response::frame(frame(api, version, 7, &FetchResponse::default()));
    let told = known.change(sent(), head, &Change::Throttle(50), &mut || false);
    let told: FetchResponse = body(api, version, told);
    assert_eq!(told.throttle_time_ms, 0);
    let told = known.change(sent(), head, &Change::Throttle(50), &mut || true);
    let told: FetchResponse = body(api, version, told);
    assert_eq!(told.throttle_time_ms, 50);
}

/// Versions without any place for an error: a fault of their errors strikes nothing.
#[test]
fn few_old_versions_have_no_place_for_an_error() {
    let mut without = Vec::new();
    for &api in FAULTED {
        let known = api::of(api).expect("it is in the table");
        for version in api.versions().min..=api.versions().max {
            let head = Head { api, version, correlation_id: 7 };
            let is_before = known.is_refused_before(head, &parts(None, None), ERROR);
            if !is_before && refusal(api, version, 7, ERROR).is_none() {
                without.push((api, version));
            }
        }
    }
    // Those that stand here beside the two old ones have errors of parts.
    let of_parts = [
        ApiKey::Fetch,
        ApiKey::ListOffsets,
        ApiKey::Metadata,
        ApiKey::OffsetFetch,
        ApiKey::FindCoordinator,
        ApiKey::DescribeGroups,
        ApiKey::OffsetForLeaderEpoch,
        ApiKey::CreateAcls,
        ApiKey::DeleteAcls,
        ApiKey::DescribeConfigs,
        ApiKey::AlterReplicaLogDirs,
        ApiKey::DescribeProducers,
        ApiKey::DescribeTopicPartitions,
    ];
    without.retain(|(api, _)| !of_parts.contains(api));
    let old =
        [(ApiKey::DescribeLogDirs, 1), (ApiKey::DescribeLogDirs, 2), (ApiKey::ElectLeaders, 0)];
    assert_eq!(without, old);
}

#[test]
fn every_api_that_clients_are_served_has_faults() {
    let served = SERVED.iter().filter(|api| !PRIVATE.contains(api));
    assert!(served.eq(FAULTED.iter()));
}
