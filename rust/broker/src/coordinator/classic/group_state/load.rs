//! A group as a restart finds it.
//!
//! Source: Kafka's `GroupMetadataManager.replay` and `onLoaded`.

use std::sync::Arc;

use kafkalite_protocol::messages::group_records::{GroupMetadataValue, MemberMetadata};

use super::{GroupLimits, GroupState, Now, State};
use crate::coordinator::classic::member::Member;

impl GroupState {
    /// A group as its stored record tells: stable if it has members, empty otherwise.
    pub fn load(
        group_id: Arc<str>,
        limits: GroupLimits,
        now: Now,
        value: &GroupMetadataValue,
    ) -> Self {
        let mut group = Self::new(group_id, limits, now, false);
        group.state = if value.members.is_empty() { State::Empty } else { State::Stable };
        group.previous_state = group.state;
        group.state_timestamp_ms =
            (value.current_state_timestamp != -1).then_some(value.current_state_timestamp);
        group.generation = value.generation;
        group.protocol_type =
            Some(value.protocol_type.clone()).filter(|protocol_type| !protocol_type.is_empty());
        group.protocol_name = value.protocol.clone();
        for stored in &value.members {
            let member = loaded_member(stored, value.protocol.as_deref());
            group.insert_member(member);
        }
        group.leader = value.leader.clone().filter(|leader| group.members.contains_key(leader));
        group.subscribed_topics = group.compute_subscribed_topics();
        group
    }

    /// Loading is over: every session starts again, and a group over `group.max.size` is
    /// rebalanced.
    pub fn loaded(&mut self, now: Now) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in &ids {
            self.restart_session(now, id);
        }
        if self.members.len() > self.max_size() {
            self.prepare_rebalance(now, "the group that was loaded is over capacity");
        }
    }
}

fn loaded_member(stored: &MemberMetadata, protocol: Option<&str>) -> Member {
    let rebalance_timeout_ms = match stored.rebalance_timeout {
        -1 => stored.session_timeout,
        timeout => timeout,
    };
    Member {
        member_id: stored.member_id.clone(),
        group_instance_id: stored.group_instance_id.clone(),
        client_id: stored.client_id.clone(),
        client_host: stored.client_host.clone(),
        rebalance_timeout_ms,
        session_timeout_ms: stored.session_timeout,
        protocols: vec![(protocol.unwrap_or_default().to_owned(), stored.subscription.clone())],
        assignment: stored.assignment.clone(),
        is_new: false,
        awaiting_join: None,
        awaiting_sync: None,
        deadline_ms: None,
    }
}
