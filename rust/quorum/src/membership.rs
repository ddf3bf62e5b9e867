//! Changes of who belongs to the quorum, one voter at a time.

use crate::error::QuorumError;
use crate::member::leader;
use crate::types::{Endpoint, Membership, Types, VoterId};
use openraft::RaftMetrics;
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, QuorumError>;

/// A learner this far behind is not yet made a voter: a change that waits for it would stand still.
const MAX_LAG: u64 = 64;

/// A change of who belongs to the quorum. Each one moves one voter at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// A learner: it has the log, and no vote.
    AddLearner(VoterId, Endpoint),
    /// A learner that has caught up becomes a voter.
    Promote(VoterId),
    /// A voter becomes a learner: it keeps the log, and has no vote.
    Demote(VoterId),
    /// A voter or a learner is somewhere else by now.
    Move(VoterId, Endpoint),
    /// A voter or a learner leaves, and gets no more entries.
    Remove(VoterId),
}

/// What openraft is asked for.
pub enum Wanted {
    /// The whole membership.
    Membership(Membership),
    /// Nothing but another address: who votes stays as it is.
    Address(BTreeMap<VoterId, Endpoint>),
}

/// The membership after `change`.
pub fn changed<C: Types>(metrics: &RaftMetrics<C>, change: MembershipChange) -> Result<Wanted> {
    let refused = |reason: String| Err(QuorumError::Membership(reason));
    let Some(replication) = metrics.replication.as_ref() else {
        return Err(QuorumError::NotLeader { leader: leader(metrics) });
    };
    let present = &metrics.membership_config;
    let mut voters: BTreeSet<_> = present.voter_ids().collect();
    let mut nodes: BTreeMap<_, _> = present.nodes().map(|(id, at)| (*id, at.clone())).collect();
    match change {
        MembershipChange::AddLearner(id, at) => {
            if let Some(before) = nodes.insert(id, at) {
                return refused(format!("{id} is there, at {}:{}", before.host, before.port));
            }
        }
        MembershipChange::Promote(id) => {
            if !nodes.contains_key(&id) || !voters.insert(id) {
                return refused(format!("{id} is not a learner"));
            }
            let has = replication.get(&id).and_then(|log_id| *log_id);
            let has = crate::types::next_index(has.as_ref());
            let lag = metrics.last_log_index.map_or(0, |last| (last + 1).saturating_sub(has));
            if lag > MAX_LAG {
                return refused(format!("{id} is {lag} entries behind"));
            }
        }
        MembershipChange::Demote(id) => {
            if !voters.remove(&id) {
                return refused(format!("{id} is not a voter"));
            }
        }
        MembershipChange::Move(id, at) => {
            return match nodes.get(&id) {
                Some(before) if *before != at => Ok(Wanted::Address(BTreeMap::from([(id, at)]))),
                _ => refused(format!("{id} is not there, or has that address")),
            };
        }
        MembershipChange::Remove(id) => {
            voters.remove(&id);
            if nodes.remove(&id).is_none() {
                return refused(format!("{id} is not there"));
            }
        }
    }
    let wanted = Membership::new(vec![voters], nodes);
    wanted.map(Wanted::Membership).map_err(|error| QuorumError::Membership(error.to_string()))
}
