//! DeleteGroups: removes empty groups and their offsets.
//!
//! Source: Kafka's `KafkaApis.handleDeleteGroupsRequest`, KIP-229.

use super::{Call, Rooms};
use kafkalite_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DeleteGroupsRequest>) {
    let Call { request, reply } = call;
    let answer = move |results: Vec<(String, kafkalite_protocol::ErrorCode)>| {
        let result = |(group_id, error): (String, kafkalite_protocol::ErrorCode)| {
            DeletableGroupResult { group_id, error_code: error.code() }
        };
        let results = results.into_iter().map(result).collect();
        reply.send(&DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() });
    };
    rooms.groups.delete_groups(&request.groups_names, Box::new(answer));
}
