//! LeaveGroup: members go without waiting for their sessions to end.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::leave_group::{MemberIdentity, MemberResponse};

use super::{GroupState, Now, State, UNKNOWN_MEMBER_ID};

impl GroupState {
    /// Each of `members` leaves; one answer for each, in order. An empty member id with an instance
    /// id is how an administrator removes a static member.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE if the group is dead.
    pub fn leave(
        &mut self,
        now: Now,
        members: &[MemberIdentity],
    ) -> Result<Vec<MemberResponse>, ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let answers: Vec<MemberResponse> = members
            .iter()
            .map(|member| MemberResponse {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                error_code: self.leave_one(member) as i16,
            })
            .collect();
        if answers.iter().any(|answer| answer.error_code == ErrorCode::None as i16) {
            match self.state {
                State::Stable | State::CompletingRebalance => {
                    self.prepare_rebalance(now, "members left");
                }
                State::PreparingRebalance => self.maybe_complete_join(now),
                State::Empty | State::Dead => {}
            }
        }
        Ok(answers)
    }

    fn leave_one(&mut self, member: &MemberIdentity) -> ErrorCode {
        let instance_id = member.group_instance_id.as_deref();
        if member.member_id == UNKNOWN_MEMBER_ID {
            let id = instance_id.and_then(|instance_id| self.static_members.get(instance_id));
            return match id.cloned() {
                Some(id) => {
                    self.remove_member(&id);
                    ErrorCode::None
                }
                None => ErrorCode::UnknownMemberId,
            };
        }
        if !self.pending_joins.contains_key(&member.member_id)
            && let Err(error) = self.validate_member(&member.member_id, instance_id)
        {
            return error;
        }
        self.remove_member(&member.member_id);
        ErrorCode::None
    }
}
