//! One member of a consumer group: the classic group protocol as its client sees it.
//!
//! Pure: time is handed in, requests come out as [`Action`]s, their answers come back as calls.
//! ```text
//!            wish                 joined             synced
//!   Outside ------> Joining ----------> Syncing ----------> Stable
//!      ^               ^   rebalance, new wish, lost generation |
//!      |               +----------------------------------------+
//!      +---- unsubscribed, closed, or asked for no records for max.poll.interval.ms
//! ```
//! Changes of partitions are [`GroupEvent`]s, one at a time. The member goes on only after the user
//! has seen the event ([`GroupMember::acknowledge`]). So no partition is given up while one of its
//! records is being processed. Heartbeats go on meanwhile.
//!
//! Eager members give up everything before they join; cooperative ones keep what they own, and join
//! once more when they gave up what moved.
//! Source: Kafka's `AbstractCoordinator` and `ConsumerCoordinator`; KIP-62, KIP-345, KIP-394,
//! KIP-429.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafkalite_connection::Backoff;
use kafkalite_protocol::ErrorCode;

use crate::consumer::assignors::protocol::NO_GENERATION;
use crate::consumer::assignors::{Assignor, MemberSubscription, PartitionCounts};
use crate::topic_partition::TopicPartition;

mod answers;
mod assignment;
#[cfg(test)]
mod tests;

pub use answers::{Joined, JoinedMember};

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The group's name.
    pub group_id: String,
    /// A static member's name.
    pub instance_id: Option<String>,
    /// The assignors it offers, the most wanted first.
    pub assignors: Vec<Assignor>,
    /// How long a coordinator may take to answer before another is looked for.
    pub session_timeout: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// Without a call of the user for so long, it leaves.
    pub max_poll_interval: Duration,
    /// Waits after failures.
    pub retry_backoff: Backoff,
    /// Where it stands.
    pub rack: Option<String>,
}

/// Something that changes hands, for the user to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// These are about to be given up, and may be committed for the last time.
    Revoke(Vec<TopicPartition>),
    /// These are ours now.
    Assign(Vec<TopicPartition>),
    /// Another member may have these already: nothing can be committed for them.
    Lost(Vec<TopicPartition>),
}

/// The request that a member sends next. Each is answered by the call that its doc names.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask for the coordinator: [`GroupMember::coordinator_found`] or `coordinator_failed`.
    FindCoordinator,
    /// Join with these protocols: [`GroupMember::joined`] or `join_failed`.
    Join {
        /// Empty for a new member.
        member_id: String,
        /// Assignor and subscription, the most wanted first.
        protocols: Vec<(&'static str, Bytes)>,
        /// Why, for the broker's log.
        reason: String,
    },
    /// We lead: say how many partitions these topics have: [`GroupMember::counted`].
    CountPartitions(BTreeSet<Arc<str>>),
    /// Hand in assignments, none unless we lead: [`GroupMember::synced`] or `sync_failed`.
    Sync {
        /// The assignor's name.
        protocol: String,
        /// Member id and its assignment.
        assignments: Vec<(String, Bytes)>,
    },
    /// [`GroupMember::heartbeat_answered`].
    Heartbeat,
    /// Leave the group; the answer is ignored.
    Leave {
        /// Who leaves.
        member_id: String,
        /// Why, for the broker's log.
        reason: String,
    },
    /// Nothing to do until then, or until something happens.
    Wait(Option<Instant>),
}

/// Who a member is to its coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group's generation.
    pub generation: i32,
    /// The member's id.
    pub member_id: String,
    /// Its name, if it is static.
    pub instance_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not in a group, and not about to be.
    Outside,
    /// About to join: waits for events to be seen, then sends Join.
    Preparing,
    /// Join is under way.
    Joining,
    /// The leader counts partitions.
    Counting,
    /// Assignments are ready to be handed in.
    Assigned,
    /// Sync is under way.
    Syncing,
    /// It has its partitions.
    Stable,
    /// It left because the user did not come back in time; the next call brings it back.
    Asleep,
    /// It cannot be a member any more.
    Failed,
}

/// An event that the user looks at.
#[derive(Debug)]
struct Shown {
    event: GroupEvent,
    /// The generation it belongs to was lost meanwhile.
    stale: bool,
}

/// A member of a group.
#[derive(Debug)]
pub struct GroupMember {
    config: MemberConfig,
    phase: Phase,
    wanted: BTreeSet<Arc<str>>,
    coordinator_known: bool,
    heartbeat_in_flight: bool,
    member_id: String,
    generation: i32,
    /// What it holds: what it was assigned and the user has seen.
    owned: BTreeSet<TopicPartition>,
    /// What it had last, for the sticky assignor, which gives all up before it joins.
    last: (Vec<TopicPartition>, i32),
    /// See [`GroupMember::tenure`].
    tenures: BTreeMap<TopicPartition, u64>,
    /// The generation of the last assignment, unless the membership was lost since.
    assigned_in: i32,
    leading: Option<Vec<MemberSubscription>>,
    protocol: String,
    assignments: Vec<(String, Bytes)>,
    /// What the last assignment was made of: if it changes, the leader asks for a new one.
    counted: Option<PartitionCounts>,
    events: VecDeque<GroupEvent>,
    showing: Option<Shown>,
    skip_assignment: bool,
    rejoin_reason: Option<String>,
    retry_at: Option<Instant>,
    failures: u32,
    last_heartbeat: Instant,
    last_answer: Instant,
    last_poll: Instant,
    failure: Option<ErrorCode>,
}

impl GroupMember {
    /// A member that is in no group yet.
    #[must_use]
    pub fn new(config: MemberConfig, now: Instant) -> Self {
        Self {
            config,
            phase: Phase::Outside,
            wanted: BTreeSet::new(),
            coordinator_known: false,
            heartbeat_in_flight: false,
            member_id: String::new(),
            generation: NO_GENERATION,
            owned: BTreeSet::new(),
            last: (Vec::new(), NO_GENERATION),
            tenures: BTreeMap::new(),
            assigned_in: NO_GENERATION,
            leading: None,
            protocol: String::new(),
            assignments: Vec::new(),
            counted: None,
            events: VecDeque::new(),
            showing: None,
            skip_assignment: false,
            rejoin_reason: None,
            retry_at: None,
            failures: 0,
            last_heartbeat: now,
            last_answer: now,
            last_poll: now,
            failure: None,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &MemberConfig {
        &self.config
    }

    /// Whether all its assignors let members keep partitions while they join. With a mixed list the
    /// group must be eager, as in Kafka.
    #[must_use]
    pub fn is_cooperative(&self) -> bool {
        self.config.assignors.iter().all(|assignor| assignor.is_cooperative())
    }

    /// Its member id and generation, once it has them.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        (self.generation != NO_GENERATION).then(|| Membership {
            generation: self.generation,
            member_id: self.member_id.clone(),
            instance_id: self.config.instance_id.clone(),
        })
    }

    /// What it holds.
    #[must_use]
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    /// Whether it has its partitions and nothing is about to change.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Stable && self.rejoin_reason.is_none() && self.is_quiet()
    }

    /// Why it cannot be a member any more; only leaving ends that.
    #[must_use]
    pub fn failure(&self) -> Option<ErrorCode> {
        self.failure
    }

    /// Whether the user has something to see.
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.showing.is_none() && !self.events.is_empty()
    }

    /// Whether what comes next gives up partitions that the user may be working on.
    #[must_use]
    pub fn next_event_is_revoke(&self) -> bool {
        matches!(self.events.front(), Some(GroupEvent::Revoke(_)))
    }

    /// What the user sees next; nothing else happens to partitions until it was acknowledged.
    pub fn show_event(&mut self) -> Option<GroupEvent> {
        if self.showing.is_some() {
            return None;
        }
        let event = self.events.pop_front()?;
        self.showing = Some(Shown { event: event.clone(), stale: false });
        Some(event)
    }

    /// The user has seen the event.
    pub fn acknowledge(&mut self) {
        let Some(Shown { event, stale }) = self.showing.take() else { return };
        match event {
            GroupEvent::Assign(partitions) => {
                if stale && !partitions.is_empty() {
                    // A listener that saw these as assigned sees them as lost.
                    self.events.push_front(GroupEvent::Lost(partitions.clone()));
                }
                self.owned.extend(partitions);
            }
            GroupEvent::Revoke(partitions) | GroupEvent::Lost(partitions) => {
                self.owned.retain(|one| !partitions.contains(one));
                for event in &mut self.events {
                    if let GroupEvent::Lost(lost) = event {
                        lost.retain(|one| !partitions.contains(one));
                    }
                }
                self.events.retain(|event| *event != GroupEvent::Lost(Vec::new()));
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.showing.is_none()
    }

    /// The user called at `at`, the last time so far: it is alive.
    pub fn user_called(&mut self, at: Instant) {
        if at <= self.last_poll {
            return;
        }
        self.last_poll = at;
        if self.phase == Phase::Asleep {
            self.prepare("the consumer came back after max.poll.interval.ms");
        }
    }

    /// Whether only a call of the user brings it back.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.phase == Phase::Asleep
    }

    /// The user wants these topics. The first time it joins; when they change it joins again.
    pub fn want(&mut self, topics: BTreeSet<Arc<str>>, now: Instant) {
        let before = std::mem::replace(&mut self.wanted, topics);
        match self.phase {
            Phase::Outside => {
                self.last_poll = now;
                self.prepare("first join");
            }
            Phase::Failed | Phase::Asleep => {}
            _ if before != self.wanted => self.request_rejoin("subscribed topics changed"),
            _ => {}
        }
    }

    /// The cluster's topics changed. A leader asks for a new assignment if it would differ. Of a
    /// topic that is not there there are 0 partitions.
    pub fn see_counts(&mut self, count_of: impl Fn(&str) -> Option<i32>) {
        let Some(counted) = &self.counted else { return };
        let topics = counted.keys().cloned().chain(self.wanted.iter().cloned());
        let changed = topics.collect::<BTreeSet<_>>().into_iter().any(|topic| {
            // A topic that is not in sight may only be on its way.
            count_of(&topic).is_some_and(|count| counted.get(&topic).copied().unwrap_or(0) != count)
        });
        if changed && self.phase == Phase::Stable {
            self.counted = None;
            self.request_rejoin("the number of partitions changed");
        }
    }

    /// Joins again as soon as it can.
    pub fn request_rejoin(&mut self, reason: &str) {
        if !matches!(self.phase, Phase::Outside | Phase::Asleep | Phase::Failed) {
            self.rejoin_reason.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Ends the membership; sends Leave, unless it is static or had not joined.
    pub fn leave(&mut self, reason: &str) -> Option<Action> {
        let goodbye = self.goodbye(reason);
        self.phase = Phase::Outside;
        self.failure = None;
        self.forget_membership();
        self.member_id.clear();
        self.events.clear();
        self.showing = None;
        self.owned.clear();
        self.wanted.clear();
        self.rejoin_reason = None;
        goodbye
    }

    fn goodbye(&self, reason: &str) -> Option<Action> {
        // A static member that goes away is expected back: only its session's end frees its place.
        let somebody = !self.member_id.is_empty() && self.config.instance_id.is_none();
        somebody
            .then(|| Action::Leave { member_id: self.member_id.clone(), reason: reason.to_owned() })
    }

    /// What to do now.
    pub fn next(&mut self, now: Instant) -> Action {
        match self.phase {
            Phase::Outside | Phase::Asleep | Phase::Failed => return Action::Wait(None),
            Phase::Joining | Phase::Syncing | Phase::Counting => {
                // The user may not come back while the others wait only for this member.
                return Action::Wait(None);
            }
            Phase::Preparing | Phase::Assigned | Phase::Stable => {}
        }
        let poll_deadline = self.last_poll + self.config.max_poll_interval;
        if now >= poll_deadline {
            return self.fall_asleep();
        }
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            return Action::Wait(Some(at.min(poll_deadline)));
        }
        self.retry_at = None;
        if !self.coordinator_known {
            return Action::FindCoordinator;
        }
        if self.heartbeat_in_flight {
            return Action::Wait(Some(poll_deadline));
        }
        if self.phase == Phase::Assigned {
            self.phase = Phase::Syncing;
            return Action::Sync {
                protocol: self.protocol.clone(),
                assignments: std::mem::take(&mut self.assignments),
            };
        }
        if self.phase == Phase::Stable && self.rejoin_reason.is_some() && self.is_quiet() {
            self.prepare_rejoin();
        }
        if self.phase == Phase::Preparing && self.is_quiet() {
            return self.join();
        }
        self.heartbeat_or_wait(now, poll_deadline)
    }

    fn heartbeat_or_wait(&mut self, now: Instant, poll_deadline: Instant) -> Action {
        if self.generation == NO_GENERATION {
            return Action::Wait(Some(poll_deadline));
        }
        if now.saturating_duration_since(self.last_answer) >= self.config.session_timeout {
            // It does not answer: there may be another by now.
            self.coordinator_known = false;
            self.last_answer = now;
            return Action::FindCoordinator;
        }
        let due = self.last_heartbeat + self.config.heartbeat_interval;
        if now < due {
            return Action::Wait(Some(due.min(poll_deadline)));
        }
        self.last_heartbeat = now;
        self.heartbeat_in_flight = true;
        Action::Heartbeat
    }

    fn fall_asleep(&mut self) -> Action {
        let goodbye = self.goodbye("no call for max.poll.interval.ms");
        self.lose_generation();
        self.member_id.clear();
        self.phase = Phase::Asleep;
        goodbye.unwrap_or(Action::Wait(None))
    }

    fn join(&mut self) -> Action {
        self.phase = Phase::Joining;
        let reason = self.rejoin_reason.take().unwrap_or_else(|| "join".to_owned());
        Action::Join {
            member_id: self.member_id.clone(),
            protocols: self.protocols(),
            reason: reason.chars().take(255).collect(),
        }
    }

    /// Preparing a first join, or one after everything was lost.
    fn prepare(&mut self, reason: &str) {
        self.phase = Phase::Preparing;
        self.rejoin_reason = Some(reason.to_owned());
    }

    /// Preparing a join as a member: eager members give up everything first, cooperative ones what
    /// they do not want any more.
    fn prepare_rejoin(&mut self) {
        self.phase = Phase::Preparing;
        let cooperative = self.is_cooperative();
        let wanted = &self.wanted;
        let goes = |one: &&TopicPartition| !cooperative || !wanted.contains(&one.topic);
        let given_up: Vec<_> = self.owned.iter().filter(goes).cloned().collect();
        if !given_up.is_empty() {
            self.events.push_back(GroupEvent::Revoke(given_up));
        }
    }

    fn forget_membership(&mut self) {
        self.generation = NO_GENERATION;
        self.assigned_in = NO_GENERATION;
        self.tenures.clear();
        self.leading = None;
        self.counted = None;
        self.assignments.clear();
        self.heartbeat_in_flight = false;
    }

    /// Another member may have its partitions by now.
    fn lose_generation(&mut self) {
        self.forget_membership();
        // What was not seen yet was never held.
        self.events.clear();
        if let Some(shown) = &mut self.showing {
            shown.stale = true;
        }
        if !self.owned.is_empty() {
            self.events.push_back(GroupEvent::Lost(self.owned.iter().cloned().collect()));
        }
    }
}
