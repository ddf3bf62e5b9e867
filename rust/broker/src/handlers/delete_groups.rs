//! DeleteGroups: removes empty groups and their offsets.
//!
//! Source: Kafka's `KafkaApis.handleDeleteGroupsRequest`, KIP-229.

use super::{Call, Rooms};
use kafkalite_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};
use std::collections::HashSet;

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
    // Who is named twice is deleted and told once.
    let mut named = HashSet::new();
    let names = request.groups_names.into_iter().filter(|name| named.insert(name.clone()));
    rooms.groups.delete_groups(&names.collect::<Vec<_>>(), Box::new(answer));
}
