//! Whether the controller still counts this broker among those that are alive.
//!
//! It has fenced a broker whose heartbeats it does not take for a session, and others lead. Such a
//! broker knows that without being heard: it has had no answer for a session. The controller itself
//! is cut off when a majority of the voters does not answer it.

use super::{Cluster, Member, NO_EPOCH};
use kafkalite_quorum::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Cluster {
    /// Has `told` called in each turn while this broker's session is over, and once when it is not
    /// any more. Only the first `told` counts.
    pub fn on_session(&self, told: impl Fn(bool) + Send + Sync + 'static) {
        let _ = self.on_session.set(Box::new(told));
    }

    /// Looks whether the session of this broker is over.
    pub(super) fn look_at_session(&self, member: &Arc<Member>, status: &Status) {
        let session = self.settings.session_timeout;
        let serves = self.epoch.load(Ordering::Acquire) != NO_EPOCH;
        let lasts_ns = {
            let mut silence = member.silence.lock();
            let now_ns = self.clock.monotonic_ns();
            silence.looks(now_ns, self.settings.limits().gap_ns());
            // A session begins when the broker begins to serve.
            if !serves || Member::leads(status) && hears_majority(status, session) {
                silence.ends();
            }
            silence.lasts_ns(now_ns)
        };
        let is_over = u128::from(lasts_ns) > session.as_nanos();
        if self.is_unheard.swap(is_over, Ordering::AcqRel) != is_over {
            match is_over {
                true => tracing::warn!("no controller hears this broker: others may lead by now"),
                false => tracing::info!("a controller hears this broker again"),
            }
        } else if !is_over {
            return;
        }
        if let Some(told) = self.on_session.get() {
            told(is_over);
        }
    }
}

/// Whether a majority of the voters, this one among them, answered within `session`.
fn hears_majority(status: &Status, session: Duration) -> bool {
    let is_heard = |ms_ago: u64| u128::from(ms_ago) <= session.as_millis();
    let voters = status.voters.iter();
    let heard =
        voters.filter(|one| one.id == status.me || one.answered_ms_ago.is_some_and(is_heard));
    2 * heard.count() > status.voters.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafkalite_quorum::{MemberStatus, VoterId};

    #[test]
    fn a_leader_of_the_quorum_is_heard_while_a_majority_answers() {
        let id = |node_id| VoterId { node_id, ..VoterId::default() };
        let heard = |ago: &[Option<u64>]| {
            let voters = (1..).zip(ago).map(|(node, ago)| MemberStatus {
                id: id(node),
                answered_ms_ago: *ago,
                ..MemberStatus::default()
            });
            let voters = voters.collect();
            let status = Status {
                me: id(1),
                leader: None,
                term: 1,
                end: 0,
                voters,
                learners: Vec::new(),
                stopped: None,
            };
            hears_majority(&status, Duration::from_secs(3))
        };
        assert!(heard(&[None]), "alone it is the majority");
        assert!(heard(&[None, Some(3_000), None]));
        assert!(!heard(&[None, Some(3_001), None]));
        assert!(heard(&[None, Some(0)]), "two of two");
        assert!(!heard(&[None, None]), "one of two is none");
        assert!(!heard(&[None, Some(10), None, None, None]));
    }
}
