//! Who belongs to the controller quorum, by who belongs to the cluster.
//!
//! Pure: the leader compares image and quorum now and then, and makes one change at a time.

use crate::metadata::{BrokerImage, MetadataImage};
use kafkalite_quorum::{Endpoint, MemberStatus, MembershipChange, Status, VoterId};

/// Voters of a cluster, as soon as it has as many brokers.
const VOTERS: usize = 3;

/// Where the voters reach a broker, on the listener of this name or else on its first.
pub fn endpoint(broker: &BrokerImage, listener: &str) -> Endpoint {
    let (host, port) = broker.endpoint(listener);
    Endpoint { host: host.to_owned(), port }
}

/// The next change that brings the quorum closer to the cluster.
pub fn next_change(
    image: &MetadataImage,
    status: &Status,
    listener: &str,
) -> Option<MembershipChange> {
    let members = || status.voters.iter().chain(&status.learners);
    let belongs = |id: &VoterId| {
        let broker = image.brokers.get(&id.node_id);
        broker.is_some_and(|broker| broker.quorum_dir == id.directory_id)
    };
    // A wiped disk makes another voter: its former life goes before the new one comes.
    let gone = members().find(|one| !belongs(&one.id) && one.id != status.me);
    if let Some(gone) = gone.filter(|one| may_go(status, one)) {
        return Some(MembershipChange::Remove(gone.id));
    }
    let voter =
        |broker: &BrokerImage| VoterId { node_id: broker.id, directory_id: broker.quorum_dir };
    let mut known = image.brokers.values().filter(|broker| !broker.quorum_dir.is_zero());
    let missing = known.find(|broker| !members().any(|one| one.id == voter(broker)));
    if let Some(missing) = missing {
        return Some(MembershipChange::AddLearner(voter(missing), endpoint(missing, listener)));
    }
    let moved = status.learners.iter().find(|one| {
        let broker = image.brokers.get(&one.id.node_id);
        broker.is_some_and(|broker| endpoint(broker, listener) != one.at)
    });
    if let Some(moved) = moved {
        return Some(MembershipChange::Remove(moved.id));
    }
    // Only one that serves: a voter that is away makes the majority harder to find.
    let ready = status.learners.iter().find(|one| image.is_alive(one.id.node_id));
    let ready = ready.filter(|_| status.voters.len() < VOTERS);
    ready.map(|one| MembershipChange::Promote(one.id))
}

/// A voter may go if others are left.
fn may_go(status: &Status, member: &MemberStatus) -> bool {
    status.voters.len() > 1 || status.voters.iter().all(|voter| voter.id != member.id)
}

#[cfg(test)]
mod tests;
