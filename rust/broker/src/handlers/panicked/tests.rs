#![allow(clippy::unwrap_used)]

use super::*;
use crate::handlers::SERVED;
use crate::response_queue::Overlap;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::fetch::FetchResponse;
use kafkalite_protocol::messages::heartbeat::HeartbeatResponse;
use kafkalite_protocol::{Reader, header};

fn slot(api: ApiKey, api_version: i16) -> Slot {
    let (api_key, overlap) = (api as i16, Overlap::Alone);
    Slot { api_key, api_version, correlation_id: 77, overlap, received_ns: 0 }
}

/// The body of the answer to a request whose handler panicked.
fn answered<W: Wire>(api: ApiKey, version: i16) -> Option<W> {
    let Response::Pieces(pieces) = on_panic(&slot(api, version))? else { return None };
    let Some(crate::response_queue::Piece::Mem(bytes)) = pieces.first() else { return None };
    let head = if header::response_header_is_flexible(api, version) { 9 } else { 8 };
    assert_eq!(bytes[4..8], 77_i32.to_be_bytes(), "the correlation id");
    let mut reader = Reader::new(bytes.slice(head..));
    Some(W::decode(&mut reader, version).unwrap())
}

#[test]
fn every_served_api_says_so_in_its_highest_version_or_closes() {
    let closed: Vec<_> =
        SERVED.iter().filter(|api| on_panic(&slot(**api, api.versions().max)).is_none()).collect();
    // These have no error for all.
    use ApiKey::*;
    let expected = [
        &Produce,
        &ListOffsets,
        &OffsetCommit,
        &OffsetFetch,
        &FindCoordinator,
        &DescribeGroups,
        &CreateTopics,
        &DeleteTopics,
        &DeleteRecords,
        &OffsetForLeaderEpoch,
        &CreateAcls,
        &DeleteAcls,
        &DescribeConfigs,
        &AlterConfigs,
        &AlterReplicaLogDirs,
        &CreatePartitions,
        &DeleteGroups,
        &IncrementalAlterConfigs,
        &DescribeProducers,
        &DescribeTopicPartitions,
    ];
    assert_eq!(closed, expected);
}

#[test]
fn a_response_with_an_error_for_all_carries_it_without_the_request() {
    let response: HeartbeatResponse = answered(ApiKey::Heartbeat, 4).unwrap();
    assert_eq!(response.error_code, ErrorCode::UnknownServerError.code());
}

#[test]
fn a_version_without_an_error_for_all_closes() {
    assert!(answered::<FetchResponse>(ApiKey::Fetch, 6).is_none());
    let answer: FetchResponse = answered(ApiKey::Fetch, 7).unwrap();
    assert_eq!(answer.error_code, ErrorCode::UnknownServerError.code());
}
