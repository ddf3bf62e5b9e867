//! What the leader of the quorum does for partitions without being asked. It gives them back to
//! their preferred leaders now and then, and grows the offsets topic with the cluster.
//!
//! [`Rounds`] is pure: times are monotonic, and handed in. A new leader begins with a whole
//! interval, as in Kafka.

use super::{Cluster, Member};
use crate::config::BrokerConfig;
use crate::metadata::controller::{Done, Growth, OFFSETS_TOPIC};
use std::sync::Arc;

/// What the configuration of this broker says about it.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep {
    /// Between two looks at who leads, in nanoseconds; `None` is never.
    balance_every_ns: Option<u64>,
    offsets_topic: Growth,
}

impl Upkeep {
    /// By `auto.leader.rebalance.enable` and the keys beside it.
    #[must_use]
    pub fn of(config: &BrokerConfig) -> Self {
        let every_ns = config.leader_imbalance_check_interval_s.saturating_mul(1_000_000_000);
        let replicas = usize::try_from(config.offsets_topic_replication_factor).unwrap_or(1);
        Self {
            balance_every_ns: config.auto_leader_rebalance_enable.then_some(every_ns),
            offsets_topic: Growth { topic: OFFSETS_TOPIC, replicas },
        }
    }
}

/// Which of it is due, for the leader of one term.
#[derive(Default)]
pub(super) struct Rounds {
    term: Option<u64>,
    /// When leaders are balanced next; `None` while that is under way.
    balance_ns: Option<u64>,
    is_growing: bool,
}

impl Rounds {
    /// This broker does not lead.
    pub fn follow(&mut self) {
        *self = Self::default();
    }

    /// This broker leads in `term`.
    fn lead(&mut self, term: u64, every_ns: u64, now_ns: u64) {
        if self.term != Some(term) {
            let balance_ns = Some(now_ns.saturating_add(every_ns));
            *self = Self { term: Some(term), balance_ns, is_growing: false };
        }
    }

    /// Whether to balance leaders now: the next answer is no until [`Self::balanced`].
    fn begins_to_balance(&mut self, now_ns: u64) -> bool {
        self.balance_ns.take_if(|due_ns| *due_ns <= now_ns).is_some()
    }

    /// Leaders were balanced in `term`, and are again at `next_ns`.
    fn balanced(&mut self, term: u64, next_ns: u64) {
        if self.term == Some(term) {
            self.balance_ns = Some(next_ns);
        }
    }
}

impl Cluster {
    /// One look of the leader of `term`.
    pub(super) fn look_after_partitions(&self, member: &Arc<Member>, term: u64) {
        let now_ns = self.clock.monotonic_ns();
        let every_ns = self.settings.upkeep.balance_every_ns;
        let is_due = {
            let mut rounds = member.rounds.lock();
            rounds.lead(term, every_ns.unwrap_or_default(), now_ns);
            every_ns.is_some() && rounds.begins_to_balance(now_ns)
        };
        if let Some(every_ns) = every_ns.filter(|_| is_due) {
            let (member, clock) = (Arc::clone(member), Arc::clone(&self.clock));
            let done = move |result: Result<bool, _>| {
                let now_ns = clock.monotonic_ns();
                // The rest has the next look: other changes come between.
                let wait_ns = if result.unwrap_or(false) { 0 } else { every_ns };
                member.rounds.lock().balanced(term, now_ns.saturating_add(wait_ns));
            };
            self.controller.prefer_leaders(Done::of_leader(term, done));
        }
        let growth = self.settings.upkeep.offsets_topic;
        if self.controller.may_grow(growth)
            && !std::mem::replace(&mut member.rounds.lock().is_growing, true)
        {
            tracing::info!(topic = growth.topic, replicas = growth.replicas, "the topic grows");
            let member = Arc::clone(member);
            let done = move |_| member.rounds.lock().is_growing = false;
            self.controller.grow(growth, Done::of_leader(term, done));
        }
    }
}

#[cfg(test)]
mod tests;
