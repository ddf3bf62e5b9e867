//! Finds out that the process of a broker is gone, sooner than a missing heartbeat tells.
//!
//! Every broker of a cluster watches every other one that serves. A connection ends with its
//! process, and the port of a dead process refuses the next one. What a broker leads that refused
//! once has no leader in the answers of this broker for a moment (`refusing`). A broker that
//! refused twice is taken for gone. The leader of the quorum fences it. If it led the quorum, a
//! voter does not wait for its heartbeats any more.
//! A network that swallows packets refuses nothing. There missing heartbeats decide.

use super::peers::{Reach, is_refused};
use super::{Cluster, Member, TURN, membership};
use crate::metadata::MetadataImage;
use kafkalite_quorum::{Endpoint, Status};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two attempts to reach a broker.
const AGAIN: Duration = Duration::from_millis(50);
/// A broker is taken for gone with this refusal in a row: between two lies a moment.
const REFUSALS: u32 = 2;
/// Voters take turns in standing for election: every so many refusals it is the next one's.
const REFUSALS_PER_VOTER: u32 = 4;

impl Cluster {
    /// Has the brokers watched whose death this broker is to notice.
    pub(super) fn look_for_deaths(self: &Arc<Self>, member: &Arc<Member>, status: &Status) {
        let image = self.controller.image();
        let alive = image.alive_brokers().map(|broker| broker.id);
        let leader = status.leader.iter().map(|(leader, _)| leader.node_id);
        for broker_id in alive.chain(leader).filter(|id| *id != self.id()) {
            if member.watched.lock().insert(broker_id) {
                drop(tokio::spawn(watch(Arc::downgrade(self), broker_id)));
            }
        }
    }

    /// Where a broker is that is watched; `None`, once, if it is not to be watched any more.
    fn watched(&self, broker_id: i32) -> Option<(Arc<Member>, Endpoint)> {
        let member = self.running()?;
        let status = member.raft.raft_status();
        let at = match status.leader {
            Some((leader, at)) if leader.node_id == broker_id => Some(at),
            _ => {
                let image = self.controller.image();
                let broker = image.brokers.get(&broker_id).filter(|broker| !broker.fenced);
                broker.map(|broker| membership::endpoint(broker, &self.identity.listener))
            }
        };
        if at.is_none() {
            member.watched.lock().remove(&broker_id);
        }
        Some((member, at?))
    }

    /// The brokers that are alive in `image`, although their ports refuse connections since a
    /// moment ago. They lead nothing.
    pub fn gone(&self, image: &MetadataImage) -> Vec<i32> {
        let Some(member) = self.running() else { return Vec::new() };
        let now_ns = self.clock.monotonic_ns();
        member.refusing.lock().gone(image, now_ns)
    }

    /// A broker took a connection, or did not; `refusals` are those in a row.
    fn reached(&self, member: &Arc<Member>, broker_id: i32, is_reached: bool, refusals: u32) {
        let image = self.controller.image();
        if let Some(broker) = image.brokers.get(&broker_id) {
            let (life, now_ns) = ((broker_id, broker.epoch), self.clock.monotonic_ns());
            member.refusing.lock().reached(life, refusals > 0, now_ns);
        }
        let status = member.raft.raft_status();
        if !Member::leads(&status) {
            if let Some((leader, _)) = status.leader.filter(|(id, _)| id.node_id == broker_id)
                && refusals >= REFUSALS
            {
                let others = status.voters.iter().map(|voter| voter.id).filter(|id| *id != leader);
                let before = others.filter(|id| *id < status.me).count();
                let stands = refusals >= REFUSALS + REFUSALS_PER_VOTER * before as u32;
                member.raft.leader_is_gone(leader, stands);
            }
            return;
        }
        let Some(broker) = image.brokers.get(&broker_id) else { return };
        let is_gone = {
            let mut sessions = member.sessions.lock();
            sessions.reached(broker_id, is_reached, self.clock.monotonic_ns());
            refusals >= REFUSALS && sessions.is_gone(broker_id, broker.epoch)
        };
        if is_gone {
            let why = "its port refuses connections";
            self.fence_other(member, status.term, (broker_id, broker.epoch), why);
        }
    }
}

async fn watch(cluster: Weak<Cluster>, broker_id: i32) {
    let (mut refusals, mut has_ended) = (0_u32, false);
    loop {
        let watched = cluster.upgrade().and_then(|this| this.watched(broker_id));
        let Some((member, at)) = watched else { return };
        // The pool would wait before it tries again.
        let reach = match (has_ended || refusals > 0) && is_refused(&at).await {
            true => Reach::Refused,
            false => member.peers.reach(&at).await,
        };
        refusals = if matches!(reach, Reach::Refused) { refusals.saturating_add(1) } else { 0 };
        let Some(this) = cluster.upgrade() else { return };
        this.reached(&member, broker_id, matches!(reach, Reach::Open(_)), refusals);
        drop((this, member));
        match reach {
            // Its end is an error of no interest; now and then the role of this broker is asked.
            Reach::Open(connection) => {
                has_ended = tokio::time::timeout(TURN, connection.closed()).await.is_ok();
            }
            Reach::Refused | Reach::Silent => {
                has_ended = false;
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
