//! DescribeGroups: state, protocol and members of groups.
//!
//! Source: Kafka's `KafkaApis.handleDescribeGroupsRequest`, KIP-430 for the operations.

use super::authorized_operations::{Resource, answer};
use super::{Call, Rooms};
use kafkalite_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup,
};
use std::collections::HashSet;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeGroupsRequest>) {
    let Call { request, reply } = call;
    let version = reply.version;
    let describe = |group_id: &String| {
        let group = rooms.groups.describe(group_id, version);
        let asked = request.include_authorized_operations && group.error_code == 0;
        DescribedGroup { authorized_operations: answer(asked, Resource::Group), ..group }
    };
    // A group's answer may be long, so a group that is named a million times is described once.
    let mut told = HashSet::new();
    let once = request.groups.iter().filter(|group_id| told.insert(group_id.as_str()));
    let once: Vec<&String> = once.collect();
    reply.send_each(&DescribeGroupsResponse::default(), once.into_iter().map(describe));
}
