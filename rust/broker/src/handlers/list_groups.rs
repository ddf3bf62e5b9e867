//! ListGroups: the groups of this broker, by state and type.
//!
//! Source: Kafka's `KafkaApis.handleListGroupsRequest`, KIP-518, KIP-848.

use super::{Call, Rooms};
use kafkalite_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ListGroupsRequest>) {
    let Call { request, reply } = call;
    let (error, groups) = rooms.groups.list(&request.states_filter, &request.types_filter);
    let error_code = error.code();
    reply.send(&ListGroupsResponse { error_code, groups, ..ListGroupsResponse::default() });
}
