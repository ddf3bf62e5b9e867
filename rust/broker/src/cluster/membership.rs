//! Who belongs to the controller quorum, by who belongs to the cluster.
//!
//! Pure: the leader compares image and quorum now and then, and takes one step at a time.

use crate::metadata::{BrokerImage, MetadataImage, Voting};
use kafkalite_quorum::{Endpoint, MemberStatus, MembershipChange, Status, VoterId};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Voters of a cluster, as soon as it has as many brokers.
const VOTERS: usize = 3;

/// A voter that answered the leader within this time is there, in ms.
const ANSWERED_MS: u64 = 1_000;

/// What the leader does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One change of the membership.
    Change(MembershipChange),
    /// The leader itself is to lose its vote. This voter leads first, and takes it away.
    HandOver(VoterId),
}

/// Where the voters reach a broker, on the listener of this name or else on its first.
pub fn endpoint(broker: &BrokerImage, listener: &str) -> Endpoint {
    let (host, port) = broker.endpoint(listener);
    Endpoint { host: host.to_owned(), port }
}

/// The next step that brings the quorum closer to the cluster. `away` are voters whose brokers are
/// away for too long.
pub fn next_step(
    image: &MetadataImage,
    status: &Status,
    listener: &str,
    away: &BTreeSet<VoterId>,
) -> Option<Step> {
    let view = View { image, status };
    view.without_vote()
        .or_else(|| view.missing_or_moved(listener).map(Step::Change))
        .or_else(|| view.replacement(away).map(Step::Change))
}

/// The voter that is to lead in place of a leader that hears no broker, if voters answer what it
/// sends. Then its own threads or disks hang. It must not fence the others: they could not end
/// that, as it hears no proposals either.
pub fn heir(image: &MetadataImage, status: &Status) -> Option<VoterId> {
    let answers = |one: &&MemberStatus| {
        let is_here = one.answered_ms_ago.is_some_and(|ms| ms <= ANSWERED_MS);
        one.id != status.me && is_here && image.is_alive(one.id.node_id)
    };
    status.voters.iter().filter(answers).max_by_key(|one| one.matched).map(|one| one.id)
}

#[derive(Clone, Copy)]
struct View<'a> {
    image: &'a MetadataImage,
    status: &'a Status,
}

impl<'a> View<'a> {
    fn members(self) -> impl Iterator<Item = &'a MemberStatus> {
        self.status.voters.iter().chain(&self.status.learners)
    }

    /// The broker that keeps the log of a member, unless its directory is another one by now.
    fn broker(self, id: VoterId) -> Option<&'a BrokerImage> {
        let broker = self.image.brokers.get(&id.node_id);
        broker.filter(|broker| broker.quorum_dir == id.directory_id)
    }

    fn is_alive(self, id: VoterId) -> bool {
        id == self.status.me || self.broker(id).is_some_and(|broker| !broker.fenced)
    }

    /// A member that is to go. A wiped disk makes another voter: its former life goes before the
    /// new one comes.
    fn without_vote(self) -> Option<Step> {
        let is_voter = |id: VoterId| self.status.voters.iter().any(|one| one.id == id);
        let may_go = |id: &VoterId| !is_voter(*id) || self.status.voters.len() > 1;
        let ids = || self.members().map(|one| one.id).filter(may_go);
        let is_kept = |id: VoterId| self.broker(id).is_none_or(|it| it.voting != Voting::Never);
        let gone = ids().find(|id| self.broker(*id).is_none());
        let gone = gone.or_else(|| ids().find(|id| is_voter(*id) && !is_kept(*id)))?;
        if gone == self.status.me {
            let others = self.status.voters.iter().filter(|one| one.id != gone);
            let next = others.filter(|one| self.is_alive(one.id) && is_kept(one.id));
            return next.max_by_key(|one| one.matched).map(|one| Step::HandOver(one.id));
        }
        Some(Step::Change(match self.broker(gone) {
            None => MembershipChange::Remove(gone),
            Some(_) => MembershipChange::Demote(gone),
        }))
    }

    fn missing_or_moved(self, listener: &str) -> Option<MembershipChange> {
        let voter =
            |broker: &BrokerImage| VoterId { node_id: broker.id, directory_id: broker.quorum_dir };
        let mut known = self.image.brokers.values().filter(|broker| !broker.quorum_dir.is_zero());
        let missing = known.find(|broker| !self.members().any(|one| one.id == voter(broker)));
        if let Some(missing) = missing {
            return Some(MembershipChange::AddLearner(voter(missing), endpoint(missing, listener)));
        }
        self.members().find_map(|one| {
            let at = endpoint(self.broker(one.id)?, listener);
            (at != one.at).then_some(MembershipChange::Move(one.id, at))
        })
    }

    /// A learner becomes a voter where one is missing, or where an operator said so. To replace a
    /// voter that is away, it becomes a learner first, while a majority is alive.
    fn replacement(self, away: &BTreeSet<VoterId>) -> Option<MembershipChange> {
        // Only one that serves: a voter that is away makes the majority harder to find.
        let ready = |wanted: Voting| {
            self.status.learners.iter().filter(move |one| {
                let voting = self.broker(one.id).map(|broker| broker.voting);
                self.is_alive(one.id) && voting == Some(wanted)
            })
        };
        let first = |wanted: Voting| {
            ready(wanted).min_by_key(|one| (Reverse(one.matched), one.id)).map(|one| one.id)
        };
        let needed = || first(Voting::IfNeeded);
        let voters = &self.status.voters;
        // Two voters are worse than one: the loss of either stops the quorum.
        let makes_three = voters.len() + ready(Voting::IfNeeded).count() >= VOTERS;
        let chosen = first(Voting::Always);
        let chosen = chosen.or_else(|| needed().filter(|_| voters.len() < VOTERS && makes_three));
        if let Some(chosen) = chosen {
            return Some(MembershipChange::Promote(chosen));
        }
        let replaced = voters.iter().map(|one| one.id).find(|id| away.contains(id))?;
        let left = || voters.iter().filter(|one| one.id != replaced);
        let alive = left().filter(|one| self.is_alive(one.id)).count();
        let has_majority = 2 * alive > left().count();
        (has_majority && needed().is_some()).then_some(MembershipChange::Demote(replaced))
    }
}

#[cfg(test)]
mod tests;
