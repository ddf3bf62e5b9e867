//! What a group looks like from outside.

use bytes::Bytes;
use kafkalite_protocol::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use kafkalite_protocol::messages::list_groups::ListedGroup;

use super::{GroupState, JoinPhase, Member, Now, State};

/// A member that a rebalance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingMember {
    /// Given by the coordinator.
    pub member_id: String,
    /// `group.instance.id`, if it has one.
    pub group_instance_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Its address, with the slash that Kafka puts before it.
    pub client_host: String,
}

/// A rebalance that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// Kafka's name of the state.
    pub state: &'static str,
    /// For how long the group is in that state.
    pub since_ms: Option<i64>,
    /// When its time is up, in ms from now.
    pub until_ms: Option<i64>,
    /// The generation: of the members before, or the one that is formed.
    pub generation: i32,
    /// Members, those that are missing among them.
    pub members: usize,
    /// It waits for more members of a new group: `group.initial.rebalance.delay.ms`.
    pub is_first: bool,
    /// Who has not joined yet, or the leader who has not sent the assignment.
    pub missing: Vec<MissingMember>,
    /// Member ids that were given out and have not joined yet.
    pub ids_not_used: usize,
}

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

    /// What a rebalance waits for; `None` if there is none.
    pub fn rebalance(&self, now: Now) -> Option<Rebalance> {
        let all = self.members.values();
        let is_leader =
            |member: &&Member| self.leader.as_deref() == Some(member.member_id.as_str());
        let (missing, until_ms): (Vec<&Member>, _) = match self.state {
            State::PreparingRebalance => {
                let absent = all.filter(|member| member.awaiting_join.is_none());
                (absent.collect(), self.join_phase.map(|(at_ms, _)| at_ms))
            }
            State::CompletingRebalance => {
                let late = all.filter(is_leader).filter(|leader| leader.awaiting_sync.is_none());
                (late.collect(), self.sync_deadline_ms)
            }
            State::Empty | State::Stable | State::Dead => return None,
        };
        let missing = missing.into_iter().map(|member| MissingMember {
            member_id: member.member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
        });
        Some(Rebalance {
            state: self.state.name(),
            since_ms: self.state_timestamp_ms.map(|began| (now.wall_ms - began).max(0)),
            until_ms: until_ms.map(|at_ms| (at_ms - now.ms).max(0)),
            generation: self.generation,
            members: self.members.len(),
            is_first: matches!(self.join_phase, Some((_, JoinPhase::Initial { .. }))),
            missing: missing.collect(),
            ids_not_used: self.pending_joins.len(),
        })
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
