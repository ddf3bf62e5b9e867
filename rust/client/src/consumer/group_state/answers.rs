//! What the coordinator answers, and what a member makes of it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;

use super::{Action, GroupMember, Phase};
use crate::consumer::assignors::protocol::{NO_GENERATION, decode_assignment, decode_subscription};

/// One member, as the leader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: String,
    /// Its name, if it is static.
    pub instance_id: Option<String>,
    /// Its subscription.
    pub metadata: Bytes,
}

/// A Join that went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The group's new generation.
    pub generation: i32,
    /// Our id.
    pub member_id: String,
    /// The assignor that all members offer.
    pub protocol: String,
    /// The leader's id.
    pub leader: String,
    /// Whether the assignment stays as it is, though we lead (KIP-814).
    pub skip_assignment: bool,
    /// All members, if we lead.
    pub members: Vec<JoinedMember>,
}

impl GroupMember {
    /// The coordinator is known.
    pub fn coordinator_found(&mut self, now: Instant) {
        self.coordinator_known = true;
        self.failures = 0;
        self.last_answer = now;
    }

    /// The coordinator could not be found.
    pub fn coordinator_failed(&mut self, code: Option<ErrorCode>, now: Instant) {
        match code.filter(|code| is_fatal(*code)) {
            Some(code) => self.fail(code),
            None => self.back_off(now),
        }
    }

    /// The connection to it ended, or it did not answer in time: another broker may be the
    /// coordinator by now.
    pub fn coordinator_lost(&mut self, now: Instant) {
        self.coordinator_known = false;
        self.heartbeat_in_flight = false;
        match self.phase {
            Phase::Joining => self.phase = Phase::Preparing,
            Phase::Syncing | Phase::Counting | Phase::Assigned => {
                // The generation may go on without us; joining again finds out.
                self.leading = None;
                self.phase = Phase::Stable;
                self.request_rejoin("the coordinator went away during a rebalance");
            }
            _ => {}
        }
        self.back_off(now);
    }

    /// Join went through.
    pub fn joined(&mut self, joined: Joined, now: Instant) -> Action {
        if self.phase != Phase::Joining {
            return Action::Wait(None);
        }
        self.answered(now);
        self.generation = joined.generation;
        self.member_id = joined.member_id;
        self.protocol = joined.protocol;
        self.assignments.clear();
        self.counted = None;
        self.leading = None;
        if joined.leader != self.member_id {
            self.phase = Phase::Assigned;
            return Action::Wait(None);
        }
        self.skip_assignment = joined.skip_assignment;
        // What a member says of itself in bytes that cannot be read, it did not say.
        let members = joined.members.iter().filter_map(|member| {
            let instance = member.instance_id.as_deref();
            decode_subscription(&member.member_id, instance, member.metadata.clone()).ok()
        });
        let members: Vec<_> = members.collect();
        let topics = Self::topics_of(&members);
        self.leading = Some(members);
        self.phase = Phase::Counting;
        Action::CountPartitions(topics)
    }

    /// Join was refused; `member_id` is the one that came with the refusal.
    pub fn join_failed(&mut self, code: ErrorCode, member_id: &str, now: Instant) {
        if self.phase != Phase::Joining {
            return;
        }
        self.phase = Phase::Preparing;
        self.last_answer = now;
        match code {
            ErrorCode::MemberIdRequired => member_id.clone_into(&mut self.member_id),
            ErrorCode::UnknownMemberId => {
                self.lose_generation();
                self.member_id.clear();
            }
            ErrorCode::IllegalGeneration => self.lose_generation(),
            other => self.common(other, now),
        }
    }

    /// Sync went through: here is our assignment.
    pub fn synced(&mut self, assignment: Bytes, now: Instant) {
        if self.phase != Phase::Syncing {
            return;
        }
        self.answered(now);
        self.phase = Phase::Stable;
        self.last_heartbeat = now;
        match decode_assignment(assignment) {
            Ok(assigned) => self.take_assignment(assigned),
            Err(_) => {
                self.request_rejoin("the leader's assignment cannot be read");
                self.back_off(now);
            }
        }
    }

    /// Sync was refused.
    pub fn sync_failed(&mut self, code: ErrorCode, now: Instant) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Stable;
            // Without an assignment only another Join leads on.
            self.request_rejoin("sync was refused");
            self.member_refused(code, now);
        }
    }

    /// A heartbeat was answered.
    pub fn heartbeat_answered(&mut self, code: ErrorCode, now: Instant) {
        if !std::mem::take(&mut self.heartbeat_in_flight) {
            return;
        }
        if code.is_none() {
            self.answered(now);
        } else {
            self.member_refused(code, now);
        }
    }

    /// A commit was refused, which tells as much as a heartbeat; `generation` is the one that it
    /// was sent with. That a rebalance is in progress it does not tell: commits are refused so
    /// between Join and Sync alone, and that is over here. A refusal of one partition tells nothing
    /// of the membership.
    pub fn commit_refused(&mut self, code: ErrorCode, generation: i32, now: Instant) {
        let is_of_member = matches!(
            code,
            ErrorCode::UnknownMemberId
                | ErrorCode::IllegalGeneration
                | ErrorCode::FencedInstanceId
                | ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorNotAvailable
        );
        if generation == self.generation && self.phase == Phase::Stable && is_of_member {
            self.member_refused(code, now);
        }
    }

    /// Whether a commit of `generation` that was refused with `code` will be accepted later. The
    /// coordinator waits for the leader of that generation, or the member went on to another
    /// generation with the same partitions. A removed member holds no partitions.
    #[must_use]
    pub fn goes_on_from(&self, generation: i32, code: ErrorCode) -> bool {
        let rejoining = matches!(
            self.phase,
            Phase::Joining | Phase::Counting | Phase::Assigned | Phase::Syncing
        );
        let goes_on = match code {
            ErrorCode::RebalanceInProgress => true,
            ErrorCode::IllegalGeneration => rejoining || self.generation != generation,
            _ => false,
        };
        goes_on && self.generation != NO_GENERATION
    }

    fn member_refused(&mut self, code: ErrorCode, now: Instant) {
        self.last_answer = now;
        match code {
            ErrorCode::RebalanceInProgress => self.request_rejoin("a rebalance began"),
            ErrorCode::UnknownMemberId => {
                self.lose_generation();
                self.member_id.clear();
                self.prepare("the coordinator does not know the member any more");
            }
            ErrorCode::IllegalGeneration => {
                self.lose_generation();
                self.prepare("the group went on to another generation");
            }
            other => self.common(other, now),
        }
    }

    fn common(&mut self, code: ErrorCode, now: Instant) {
        match code {
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.coordinator_known = false;
                self.back_off(now);
            }
            ErrorCode::RebalanceInProgress => self.back_off(now),
            other if is_fatal(other) => self.fail(other),
            _ => self.back_off(now),
        }
    }

    fn answered(&mut self, now: Instant) {
        self.failures = 0;
        self.last_answer = now;
        self.last_heartbeat = now;
    }

    fn back_off(&mut self, now: Instant) {
        self.failures += 1;
        let wait = self.config.retry_backoff.after(self.failures);
        self.retry_at = Some(now + wait.max(Duration::from_millis(1)));
    }

    fn fail(&mut self, code: ErrorCode) {
        self.lose_generation();
        self.phase = Phase::Failed;
        self.failure = Some(code);
    }
}

/// Refusals that another try does not change.
fn is_fatal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FencedInstanceId
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::GroupMaxSizeReached
            | ErrorCode::InconsistentGroupProtocol
            | ErrorCode::InvalidSessionTimeout
            | ErrorCode::InvalidGroupId
            | ErrorCode::InvalidRequest
            | ErrorCode::UnsupportedVersion
    )
}
