//! From one generation to the next.

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::group_records::GroupMetadataValue;

use super::{GroupState, JoinPhase, Now, PendingAppend, State};

/// The error that a member gets when the group's record could not be stored.
pub(in crate::coordinator) fn response_error(append_error: ErrorCode) -> ErrorCode {
    match append_error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}

impl GroupState {
    /// Starts a rebalance where one can start, else looks whether the one that runs is complete.
    pub(super) fn prepare_or_complete(&mut self, now: Now, reason: &str) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(now, reason);
            }
            State::PreparingRebalance => self.maybe_complete_join(now),
            State::Dead => {}
        }
    }

    pub(super) fn prepare_rebalance(&mut self, now: Now, reason: &str) {
        if self.state == State::CompletingRebalance {
            self.reset_assignments(now, ErrorCode::RebalanceInProgress);
        }
        self.pending_syncs.clear();
        self.sync_deadline_ms = None;
        let is_initial = self.state == State::Empty;
        self.transition(now, State::PreparingRebalance);
        tracing::debug!(
            group = &*self.group_id,
            generation = self.generation,
            reason,
            "preparing to rebalance"
        );
        if is_initial {
            // A new group: others are likely to come at the same moment.
            let delay_ms = self.limits.initial_rebalance_delay_ms.max(0);
            let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
            if delay_ms == 0 {
                self.complete_join(now);
            } else {
                self.schedule_join(now, delay_ms, JoinPhase::Initial { delay_ms, remaining_ms });
            }
        } else if self.have_all_joined() {
            self.complete_join(now);
        } else {
            let timeout_ms = self.rebalance_timeout_ms();
            self.schedule_join(now, timeout_ms, JoinPhase::Rebalance);
        }
    }

    fn schedule_join(&mut self, now: Now, delay_ms: i32, phase: JoinPhase) {
        // At least a millisecond, or a timeout of 0 would spin.
        let deadline = now.ms + i64::from(delay_ms.max(1));
        self.join_phase = Some((deadline, phase));
        self.arm(deadline);
    }

    /// Ends the join phase if all members have joined. The first generation keeps its delay.
    pub(super) fn maybe_complete_join(&mut self, now: Now) {
        if self.state == State::PreparingRebalance
            && self.previous_state != State::Empty
            && self.have_all_joined()
        {
            self.complete_join(now);
        }
    }

    /// The join phase's time is up.
    pub(super) fn join_phase_over(&mut self, now: Now, phase: JoinPhase) {
        match phase {
            JoinPhase::Initial { delay_ms, remaining_ms }
                if self.new_member_added && remaining_ms != 0 =>
            {
                self.new_member_added = false;
                let next_ms = self.limits.initial_rebalance_delay_ms.max(0).min(remaining_ms);
                let remaining_ms = (remaining_ms - delay_ms).max(0);
                let phase = JoinPhase::Initial { delay_ms: next_ms, remaining_ms };
                self.schedule_join(now, next_ms, phase);
            }
            JoinPhase::Initial { .. } | JoinPhase::Rebalance => self.complete_join(now),
        }
    }

    /// Goes on with who is there: the next generation, or an empty group.
    pub(super) fn complete_join(&mut self, now: Now) {
        self.join_phase = None;
        if self.state != State::PreparingRebalance {
            return;
        }
        let absent =
            |member: &&super::Member| member.awaiting_join.is_none() && !member.is_static();
        let absent: Vec<String> =
            self.members.values().filter(absent).map(|member| member.member_id.clone()).collect();
        for member_id in &absent {
            self.remove_member(member_id);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only static members are left, and none came back: their sessions decide.
            let timeout_ms = self.rebalance_timeout_ms();
            self.schedule_join(now, timeout_ms, JoinPhase::Rebalance);
            return;
        }
        self.new_member_added = false;
        self.generation = self.generation.wrapping_add(1).max(0);
        self.pending_syncs.clear();
        self.protocol_name = if self.members.is_empty() { None } else { self.select_protocol() };
        self.subscribed_topics = self.compute_subscribed_topics();
        if self.members.is_empty() {
            self.transition(now, State::Empty);
            let value = self.empty_record();
            self.append(value, PendingAppend::Empty);
        } else {
            self.transition(now, State::CompletingRebalance);
            self.announce_generation(now);
        }
    }

    /// Keeps the leader if it has joined, else takes a member that has; `false` if no member has.
    fn elect_joined_leader(&mut self) -> bool {
        let is_back =
            |id: &String| self.members.get(id).is_some_and(|member| member.awaiting_join.is_some());
        if self.leader.as_ref().is_some_and(is_back) {
            return true;
        }
        let joined = self.members.values().find(|member| member.awaiting_join.is_some());
        match joined.map(|member| member.member_id.clone()) {
            Some(leader) => {
                self.leader = Some(leader);
                true
            }
            None => false,
        }
    }

    fn announce_generation(&mut self, now: Now) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for member_id in &ids {
            if let Some(token) = self.take_join(member_id) {
                let response = self.generation_response(member_id);
                self.answer_join(token, response);
            }
            if let Some(member) = self.members.get_mut(member_id) {
                member.is_new = false;
            }
            // What it held belongs to the generation before.
            self.assign(member_id, Bytes::new());
            self.restart_session(now, member_id);
            self.pending_syncs.insert(member_id.clone());
        }
        let deadline = now.ms + i64::from(self.rebalance_timeout_ms().max(1));
        self.sync_deadline_ms = Some(deadline);
        self.arm(deadline);
    }

    /// Removes members that know the generation and never asked for their assignment. The others
    /// rebalance.
    pub(super) fn sync_phase_over(&mut self, now: Now) {
        if !matches!(self.state, State::CompletingRebalance | State::Stable)
            || self.pending_syncs.is_empty()
        {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_syncs) {
            self.remove_member(&member_id);
        }
        self.prepare_rebalance(now, "members did not ask for their assignment");
    }

    /// The record of a group without members.
    pub(super) fn empty_record(&self) -> GroupMetadataValue {
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            ..self.first_record()
        }
    }

    /// The record that says no more than that the group is there.
    pub(super) fn first_record(&self) -> GroupMetadataValue {
        GroupMetadataValue {
            protocol: None,
            leader: None,
            current_state_timestamp: self.state_timestamp_ms.unwrap_or(-1),
            ..GroupMetadataValue::default()
        }
    }
}
