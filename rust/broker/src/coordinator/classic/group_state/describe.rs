//! What a group looks like from outside.

use bytes::Bytes;
use kafkalite_protocol::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use kafkalite_protocol::messages::list_groups::ListedGroup;

use super::{GroupState, State};

impl GroupState {
    /// State, protocol and members. The protocol and its metadata only while the group is stable;
    /// what a member was assigned until the next generation, as in Kafka.
    pub fn describe(&self) -> DescribedGroup {
        let protocol = self.protocol_name.as_deref().filter(|_| self.state == State::Stable);
        let members = self.members.values().map(|member| DescribedGroupMember {
            member_id: member.member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: protocol.map_or_else(Bytes::new, |name| member.metadata(name)),
            member_assignment: member.assignment.clone(),
        });
        DescribedGroup {
            group_id: self.group_id.to_string(),
            group_state: self.state.name().to_owned(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members: members.collect(),
            ..DescribedGroup::default()
        }
    }

    /// One line of ListGroups.
    pub fn list(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.group_id.to_string(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            group_state: self.state.name().to_owned(),
            group_type: "classic".to_owned(),
        }
    }
}
