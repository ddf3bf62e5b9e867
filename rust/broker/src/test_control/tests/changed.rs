//! Answers that say something else than the truth, in every version that has a place for it.

use super::*;
use kafkalite_protocol::primitives::Records;
use m::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use m::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use m::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};
use m::{Request, Versioned};

fn changed<R: Request>(version: i16, answer: &R::Response, change: &Change<'_>) -> R::Response {
    let (api, known) = (R::API_KEY, api::of(R::API_KEY).expect("it has faults"));
    let head = Head { api, version, correlation_id: 7 };
    let sent = Response::frame(frame(api, version, 7, answer));
    body(api, version, known.change(sent, head, change, &mut || true))
}

/// A topic by its name or its id, as the version has it, and partitions 0 to 2; 1 has an error.
fn fetched(version: i16) -> FetchResponse {
    let one = |partition_index, error: ErrorCode| PartitionData {
        partition_index,
        error_code: error.code(),
        records: Some(Records::Bytes(Bytes::from_static(b"records"))),
        ..Default::default()
    };
    let partitions =
        vec![one(0, ErrorCode::None), one(1, ErrorCode::OffsetOutOfRange), one(2, ErrorCode::None)];
    let topic = if version < 13 { "t".to_owned() } else { String::new() };
    let responses = vec![FetchableTopicResponse { topic, partitions, ..Default::default() }];
    FetchResponse { responses, ..Default::default() }
}

#[test]
fn a_fetch_names_the_replica_to_read_from_where_there_is_no_error() {
    for version in 11..=FetchRequest::VERSIONS.max {
        let asked = [("t".to_owned(), Uuid::ZERO, 3)];
        let all = Change::Point {
            parts: &parts(None, None),
            asked: if version < 13 { &asked } else { &[] },
            broker: 2,
            leader_epoch: None,
        };
        let told = changed::<FetchRequest>(version, &fetched(version), &all);
        let partitions = &told.responses[0].partitions;
        let of = |one: &PartitionData| {
            let bytes = one.records.as_ref().map_or(0, |records| records.len());
            (one.partition_index, one.preferred_read_replica, bytes)
        };
        let seen: Vec<_> = partitions.iter().map(of).collect();
        assert_eq!(seen[..3], [(0, 2, 0), (1, -1, 7), (2, 2, 0)], "{version}");
        // What an incremental answer leaves out is added.
        assert_eq!(seen.get(3).copied(), (version < 13).then_some((3, 2, 0)), "{version}");
        assert_eq!(told.responses.len(), 1, "{version}");
    }
}

#[test]
fn metadata_names_another_leader_of_one_partition_or_of_all() {
    for version in MetadataRequest::VERSIONS.min..=MetadataRequest::VERSIONS.max {
        let one = |partition_index| MetadataResponsePartition {
            partition_index,
            leader_id: 1,
            leader_epoch: if version < 7 { -1 } else { 4 },
            ..Default::default()
        };
        let partitions = vec![one(0), one(1)];
        let name = Some("t".to_owned());
        let topics = vec![MetadataResponseTopic { name, partitions, ..Default::default() }];
        let answer = MetadataResponse { topics, ..Default::default() };
        let leaders = |parts: &Parts, leader_epoch| {
            let change = Change::Point { parts, asked: &[], broker: 2, leader_epoch };
            let told = changed::<MetadataRequest>(version, &answer, &change);
            let all = told.topics[0].partitions.iter();
            all.map(|one| (one.leader_id, one.leader_epoch)).collect::<Vec<_>>()
        };
        let (true_one, told) = if version < 7 { (-1, -1) } else { (4, 9) };
        let both = [(2, true_one), (2, true_one)];
        assert_eq!(leaders(&parts(None, None), None), both, "{version}");
        let second = [(1, true_one), (2, told)];
        assert_eq!(leaders(&parts(Some("t"), Some(1)), Some(9)), second, "{version}");
        let neither = [(1, true_one), (1, true_one)];
        assert_eq!(leaders(&parts(Some("u"), None), None), neither, "{version}");
    }
}

#[test]
fn api_versions_tell_fewer_versions_of_one_api() {
    let range = |api_key: ApiKey, min_version, max_version| ApiVersion {
        api_key: api_key as i16,
        min_version,
        max_version,
    };
    let versions = ApiVersionsRequest::VERSIONS;
    for version in versions.min..=versions.max {
        let api_keys = vec![range(ApiKey::Produce, 3, 12), range(ApiKey::Fetch, 4, 17)];
        let answer = ApiVersionsResponse { api_keys, ..Default::default() };
        let told = |left| {
            let change = Change::Limit(ApiKey::Fetch, left);
            changed::<ApiVersionsRequest>(version, &answer, &change).api_keys
        };
        let produce = range(ApiKey::Produce, 3, 12);
        let with = |min, max| vec![produce.clone(), range(ApiKey::Fetch, min, max)];
        assert_eq!(told(0..=12), with(4, 12), "{version}");
        assert_eq!(told(6..=i16::MAX), with(6, 17), "{version}");
        assert_eq!(told(0..=99), with(4, 17), "{version}");
        assert_eq!(told(0..=3), std::slice::from_ref(&produce), "{version}: below what is served");
        assert_eq!(
            told(std::ops::RangeInclusive::new(0, -1)),
            std::slice::from_ref(&produce),
            "{version}"
        );
    }
}
