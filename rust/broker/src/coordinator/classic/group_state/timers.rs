//! Deadlines: sessions, ids given out, the join phase, the sync phase.
//!
//! The group asks for one wake-up, at its earliest deadline. A heartbeat only moves its member's
//! deadline further away: the wake-up comes too early then, finds nothing due, and is set again.

use super::{Action, GroupState, Now, State};

/// One deadline that has passed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(String),
    PendingJoin(String),
    SyncPhase,
    JoinPhase,
}

impl GroupState {
    /// Gives a member its whole session from now on.
    pub(super) fn restart_session(&mut self, now: Now, member_id: &str) {
        if let Some(timeout_ms) =
            self.members.get(member_id).map(|member| member.session_timeout_ms)
        {
            self.set_session(now, member_id, timeout_ms);
        }
    }

    pub(super) fn set_session(&mut self, now: Now, member_id: &str, timeout_ms: i32) {
        let deadline = now.ms + i64::from(timeout_ms.max(1));
        if let Some(member) = self.members.get_mut(member_id) {
            member.deadline_ms = Some(deadline);
            self.arm(deadline);
        }
    }

    /// Asks for a wake-up at `deadline`, unless an earlier one is on its way.
    pub(super) fn arm(&mut self, deadline: i64) {
        if self.wake_at_ms.is_none_or(|at| deadline < at) {
            self.wake_at_ms = Some(deadline);
            self.actions.push(Action::WakeAt(deadline));
        }
    }

    /// The time asked for by [`Action::WakeAt`] has come. Early or late calls do no harm.
    pub fn wake(&mut self, now: Now) {
        if self.wake_at_ms.is_some_and(|at| at > now.ms) {
            return;
        }
        self.wake_at_ms = None;
        loop {
            let due = self.due(now.ms);
            if due.is_empty() {
                break;
            }
            for (_, what) in due {
                self.expire(now, &what);
            }
        }
        if let Some(next) = self.next_deadline() {
            self.arm(next);
        }
    }

    /// Everything whose time is up, earliest first.
    fn due(&self, now_ms: i64) -> Vec<(i64, Due)> {
        let mut due: Vec<(i64, Due)> = Vec::new();
        for member in self.members.values() {
            if let Some(deadline) = member.deadline_ms.filter(|deadline| *deadline <= now_ms) {
                due.push((deadline, Due::Session(member.member_id.clone())));
            }
        }
        for (member_id, deadline) in &self.pending_joins {
            if *deadline <= now_ms {
                due.push((*deadline, Due::PendingJoin(member_id.clone())));
            }
        }
        if let Some((deadline, _)) = self.join_phase.filter(|(deadline, _)| *deadline <= now_ms) {
            due.push((deadline, Due::JoinPhase));
        }
        if let Some(deadline) = self.sync_deadline_ms.filter(|deadline| *deadline <= now_ms) {
            due.push((deadline, Due::SyncPhase));
        }
        due.sort();
        due
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        let sessions = self.members.values().filter_map(|member| member.deadline_ms);
        let joins = self.pending_joins.values().copied();
        let phases = self.join_phase.map(|(deadline, _)| deadline).into_iter();
        sessions.chain(joins).chain(phases).chain(self.sync_deadline_ms).min()
    }

    /// What came before in the same wake-up may have moved this deadline: it is looked at again.
    fn expire(&mut self, now: Now, what: &Due) {
        match what {
            Due::Session(member_id) => {
                let deadline = self.members.get(member_id).and_then(|member| member.deadline_ms);
                if deadline.is_some_and(|deadline| deadline <= now.ms) {
                    self.session_over(now, member_id);
                }
            }
            Due::PendingJoin(member_id) => {
                if self.pending_joins.get(member_id).is_some_and(|deadline| *deadline <= now.ms) {
                    self.remove_member(member_id);
                    if self.state == State::PreparingRebalance && self.have_all_joined() {
                        self.complete_join(now);
                    }
                }
            }
            Due::JoinPhase => {
                if let Some((deadline, phase)) = self.join_phase
                    && deadline <= now.ms
                {
                    self.join_phase = None;
                    self.join_phase_over(now, phase);
                }
            }
            Due::SyncPhase => {
                if self.sync_deadline_ms.is_some_and(|deadline| deadline <= now.ms) {
                    self.sync_deadline_ms = None;
                    self.sync_phase_over(now);
                }
            }
        }
    }

    fn session_over(&mut self, now: Now, member_id: &str) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.deadline_ms = None;
        if member.has_satisfied_heartbeat() {
            return;
        }
        tracing::info!(group = &*self.group_id, member = member_id, "the member's session is over");
        self.remove_member(member_id);
        match self.state {
            State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(now, "a member's session is over");
            }
            State::PreparingRebalance if self.have_all_joined() => self.complete_join(now),
            State::PreparingRebalance | State::Empty | State::Dead => {}
        }
    }
}
