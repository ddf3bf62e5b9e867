//! A broker that was taken out of the cluster while it was cut off finds its way back.
//!
//! It is no member of the quorum any more, so no leader tells it. In its image it leads what it
//! led, and acknowledges records that no other broker has. So a broker that no leader hears asks
//! the members that it knows to take it in again. Then it learns who leads now, and is fenced
//! until it starts again.

use super::{Cluster, Member, NO_EPOCH, join};
use crate::metadata::controller::Joining;
use kafkalite_protocol::messages::broker_heartbeat::BrokerHeartbeatRequest;
use kafkalite_quorum::{Endpoint, Status};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two questions, in nanoseconds.
const ASK_AGAIN_NS: u64 = 2_000_000_000;

/// Since when no leader took a heartbeat of this broker.
#[derive(Default)]
pub(super) struct Silence {
    since_ns: Option<u64>,
    asked_ns: u64,
    /// Questions so far.
    count: usize,
}

impl Silence {
    /// A leader took a heartbeat, or this broker leads itself.
    pub fn ends(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// The number of the question that is due, if there is silence for longer than `patience`.
    fn due(&mut self, now_ns: u64, patience: Duration) -> Option<usize> {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let is_long = u128::from(now_ns.saturating_sub(since_ns)) > patience.as_nanos();
        if !is_long || now_ns.saturating_sub(self.asked_ns) < ASK_AGAIN_NS {
            return None;
        }
        self.asked_ns = now_ns;
        self.count += 1;
        Some(self.count)
    }
}

impl Cluster {
    /// Tells the leader at `to` that this broker is alive.
    pub(super) fn tell_alive(
        &self,
        member: &Arc<Member>,
        to: Endpoint,
        request: BrokerHeartbeatRequest,
    ) {
        let member = Arc::clone(member);
        let runtime = member.peers.runtime().clone();
        // Not waited for: a leader that hangs must not hold up the next look for one.
        drop(runtime.spawn(async move {
            match member.peers.tell_alive(&to, request).await {
                Ok(answer) if answer.error_code == 0 => member.silence.lock().ends(),
                Ok(answer) => tracing::debug!(answer.error_code, "a heartbeat was refused"),
                Err(error) => tracing::debug!(%error, "a heartbeat was not answered"),
            }
        }));
    }

    /// Asks a member to take this broker in, where no leader hears it for too long.
    pub(super) fn look_for_the_way_back(&self, member: &Arc<Member>, status: &Status) {
        let Some(joining) = self.joining_again() else { return };
        let mut silence = member.silence.lock();
        if Member::leads(status) {
            return silence.ends();
        }
        let patience = self.settings.session_timeout;
        let Some(turn) = silence.due(self.clock.monotonic_ns(), patience) else { return };
        drop(silence);
        let all = status.voters.iter().chain(&status.learners);
        let others: Vec<_> = all.filter(|one| one.id != status.me).collect();
        let Some(other) = others.get(turn % others.len().max(1)) else { return };
        let (member, at) = (Arc::clone(member), other.at.clone());
        tracing::debug!(?at, "no leader hears this broker, which asks to be taken in again");
        let runtime = member.peers.runtime().clone();
        drop(runtime.spawn(async move {
            if let Err(error) = member.peers.ask(&at, join::request(&joining)).await {
                tracing::debug!(%error, "a member of the cluster was not reached");
            }
        }));
    }

    /// This broker as it asks to be taken in, if it serves and its image says that it may.
    fn joining_again(&self) -> Option<Joining> {
        let image = self.controller.image();
        let epoch = self.epoch.load(Ordering::Acquire);
        let known = image.brokers.get(&self.id()).filter(|known| known.epoch == epoch)?;
        (epoch != NO_EPOCH).then(|| Joining {
            cluster_id: Some(self.identity.cluster_id.clone()),
            broker_id: Some(self.id()),
            quorum_dir: self.identity.voter.directory_id,
            rack: known.rack.clone(),
            listeners: known.listeners.clone(),
            supported: self.identity.supported.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_not_heard_for_a_session_asks_now_and_then() {
        let (patience, second) = (Duration::from_secs(9), 1_000_000_000);
        let mut silence = Silence::default();
        let mut due = |at: u64| silence.due(at * second, patience);
        assert_eq!([due(100), due(109), due(110), due(111)], [None, None, Some(1), None]);
        assert_eq!([due(112), due(113), due(114)], [Some(2), None, Some(3)]);
        silence.ends();
        let mut due = |at: u64| silence.due(at * second, patience);
        assert_eq!([due(116), due(125), due(126)], [None, None, Some(4)]);
    }
}
