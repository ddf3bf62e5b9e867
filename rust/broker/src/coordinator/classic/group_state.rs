//! The classic group protocol as a pure state machine: events and the time go in, actions come out.
//!
//! ```text
//!           join                    all joined, or time is up          the leader's SyncGroup is
//! stored
//!  Empty ────────> PreparingRebalance ──────────> CompletingRebalance ──────────> Stable
//!    ^                │     ^                        │                              │
//!    └────────────────┘     └────────────────────────┴──────────────────────────────┘
//!      nobody joined          a member joins, leaves, fails or changes its metadata
//! ```
//! It promises: every join and sync is answered exactly once. An answer carries the generation it
//! belongs to. The leader is a member. Assignments are those that were stored. The whole group has
//! one deadline ([`Action::WakeAt`]). A heartbeat only moves a number, and [`GroupState::wake`]
//! finds the sessions that are really over.
//! Source: Kafka's `ClassicGroup` and `GroupMetadataManager`; KIP-345, KIP-394, KIP-814.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::group_records::{GroupMetadataValue, MemberMetadata};
use kafkalite_protocol::messages::join_group::JoinGroupResponse;
use kafkalite_protocol::messages::sync_group::SyncGroupResponse;

use super::member::{Member, Protocol, Token};
use super::subscription::subscribed_topics;
use crate::coordinator::runtime::Now;

mod describe;
mod join;
mod known_protocols;
mod leave;
mod load;
mod rebalance;
mod static_member;
mod sync;
#[cfg(test)]
mod tests;
mod timers;

pub use describe::{MissingMember, Rebalance};
pub use join::JoinContext;
pub(in crate::coordinator::classic) use join::asked_weight;
use known_protocols::KnownProtocols;
pub(in crate::coordinator::classic) use known_protocols::weight;
pub(in crate::coordinator::classic) use rebalance::response_error;

/// The member id of who has none yet.
pub const UNKNOWN_MEMBER_ID: &str = "";
/// The protocol type of consumers; their metadata tells which topics they read.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";
/// About what an id costs that was given out and not used yet, beside itself.
const PENDING_BYTES: usize = 256;
/// How long a new member's JoinGroup may wait before the member is given up (Kafka: 5 minutes).
pub const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 300_000;

/// The bounds of every group, from the broker's configuration.
#[derive(Clone, Debug)]
pub struct GroupLimits {
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: i32,
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No members; offsets may be there.
    Empty,
    /// Members are asked to join again.
    PreparingRebalance,
    /// The generation is fixed; the leader's assignment is awaited.
    CompletingRebalance,
    /// Every member knows its assignment.
    Stable,
    /// Removed.
    Dead,
}

impl State {
    /// Kafka's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// Names one append, to be handed back with its outcome.
pub type AppendId = u64;

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answer a parked JoinGroup.
    AnswerJoin {
        /// Whom.
        token: Token,
        /// With what.
        response: JoinGroupResponse,
    },
    /// Answer a parked SyncGroup.
    AnswerSync {
        /// Whom.
        token: Token,
        /// With what.
        response: SyncGroupResponse,
    },
    /// Store the group's record, then call [`GroupState::append_result`].
    Append {
        /// To be handed back.
        id: AppendId,
        /// What to store.
        value: GroupMetadataValue,
    },
    /// Call [`GroupState::wake`] at that monotonic time, instead of any earlier wish.
    WakeAt(i64),
}

/// What happens when an append is done.
#[derive(Debug)]
enum PendingAppend {
    /// Nothing: an empty generation may be lost, because it has no members.
    Empty,
    /// The leader's assignment.
    Assignment { generation: i32, assignment: HashMap<String, Bytes> },
    /// A static member came back under a new id in a stable group.
    StaticMember(static_member::Replacement),
}

/// What the join phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinPhase {
    /// A new group: newcomers prolong the wait, `remaining_ms` at most.
    Initial { delay_ms: i32, remaining_ms: i32 },
    /// Members to come back.
    Rebalance,
}

/// About how much memory an id costs that was given out.
fn pending_weight(member_id: &str) -> usize {
    PENDING_BYTES + member_id.len()
}

/// One group.
#[derive(Debug)]
pub struct GroupState {
    group_id: Arc<str>,
    limits: GroupLimits,
    state: State,
    previous_state: State,
    state_timestamp_ms: Option<i64>,
    generation: i32,
    protocol_type: Option<String>,
    protocol_name: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Instance id -> member id.
    static_members: BTreeMap<String, String>,
    /// Ids that were given out and have not joined yet -> when they are forgotten.
    pending_joins: BTreeMap<String, i64>,
    /// Members that know the generation and have not asked for their assignment.
    pending_syncs: BTreeSet<String>,
    awaiting_joins: usize,
    /// Protocol name -> how many members know it.
    known_protocols: KnownProtocols,
    /// About what the ids and names of members cost, and ids that were given out.
    text_bytes: usize,
    /// Bytes of the assignments that members hold.
    assigned_bytes: usize,
    new_member_added: bool,
    join_phase: Option<(i64, JoinPhase)>,
    sync_deadline_ms: Option<i64>,
    subscribed_topics: Option<BTreeSet<String>>,
    /// Its first record is not written yet.
    unsaved: bool,
    wake_at_ms: Option<i64>,
    appends: HashMap<AppendId, PendingAppend>,
    next_append: AppendId,
    actions: Vec<Action>,
}

impl GroupState {
    /// A new group. `unsaved`: it was made by a join, which stores it.
    pub fn new(group_id: Arc<str>, limits: GroupLimits, now: Now, unsaved: bool) -> Self {
        Self {
            group_id,
            limits,
            state: State::Empty,
            previous_state: State::Dead,
            state_timestamp_ms: Some(now.wall_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_joins: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            awaiting_joins: 0,
            known_protocols: KnownProtocols::default(),
            text_bytes: 0,
            assigned_bytes: 0,
            new_member_added: false,
            join_phase: None,
            sync_deadline_ms: None,
            subscribed_topics: None,
            unsaved,
            wake_at_ms: None,
            appends: HashMap::new(),
            next_append: 0,
            actions: Vec::new(),
        }
    }

    /// What is to be done since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The group's id.
    pub fn group_id(&self) -> &Arc<str> {
        &self.group_id
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Its generation; 0 before the first.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// `consumer`, `connect`, ...; `None` for a group that only stores offsets.
    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// When it came into its state, in ms since 1970; `None` if an old record does not tell.
    pub fn state_timestamp_ms(&self) -> Option<i64> {
        self.state_timestamp_ms
    }

    /// The topics its members read, as far as their metadata can be read.
    pub fn subscribed_topics(&self) -> Option<&BTreeSet<String>> {
        self.subscribed_topics.as_ref()
    }

    /// Whether its members are consumers.
    pub fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether a member reads `topic`, or might.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer_group(),
        }
    }

    /// Whether it has no members and no pending joins.
    pub fn is_deserted(&self) -> bool {
        self.state == State::Empty && self.pending_joins.is_empty()
    }

    /// Removes the group: waiting requests are answered with `error`.
    pub fn kill(&mut self, now: Now, error: ErrorCode) {
        self.transition(now, State::Dead);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            self.fail_join(&id, UNKNOWN_MEMBER_ID.to_owned(), error);
            self.fail_sync(&id, error);
        }
        self.join_phase = None;
        self.sync_deadline_ms = None;
        for id in std::mem::take(&mut self.pending_joins).into_keys() {
            self.text_bytes -= pending_weight(&id);
        }
        for member in self.members.values_mut() {
            member.deadline_ms = None;
        }
    }

    /// An empty group that was killed is there again: its end could not be stored.
    pub fn revive(&mut self) {
        if self.state == State::Dead && self.members.is_empty() {
            self.state = State::Empty;
        }
    }

    fn transition(&mut self, now: Now, state: State) {
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp_ms = Some(now.wall_ms);
    }

    fn max_size(&self) -> usize {
        usize::try_from(self.limits.max_size).unwrap_or(0)
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// The longest rebalance timeout of any member, in ms.
    fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    fn have_all_joined(&self) -> bool {
        self.members.len() == self.awaiting_joins && self.pending_joins.is_empty()
    }

    /// UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless the ids belong together and are known.
    fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(existing) if existing != member_id => {
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// About the memory that members, their assignments and given-out ids cost.
    pub fn held_bytes(&self) -> usize {
        self.known_protocols.bytes() + self.text_bytes + self.assigned_bytes
    }

    /// What a member holds from now on.
    fn assign(&mut self, member_id: &str, assignment: Bytes) {
        if let Some(member) = self.members.get_mut(member_id) {
            self.assigned_bytes -= member.assignment.len();
            self.assigned_bytes += assignment.len();
            member.assignment = assignment;
        }
    }

    /// About what one member costs of it.
    pub fn held_by(&self, member_id: &str) -> usize {
        let of = |member: &Member| weight(&member.protocols) + member.weight_of_texts();
        self.members.get(member_id).map_or(0, of)
    }

    /// Whether a member of that type with those protocols fits in.
    fn supports_protocols(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.is_known_to_all(name))
    }

    fn is_known_to_all(&self, protocol: &str) -> bool {
        self.known_protocols.known_by(protocol) == self.members.len()
    }

    /// The protocol with the most votes among those that all members know.
    fn select_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member.vote(|name| self.is_known_to_all(name))?;
            *votes.entry(vote).or_default() += 1;
        }
        let most = votes.values().copied().max()?;
        // Equal votes: the leader's preference decides, so that the choice does not hop about.
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        leader
            .and_then(|leader| leader.vote(|name| votes.get(name) == Some(&most)))
            .or_else(|| votes.iter().find(|(_, count)| **count == most).map(|(name, _)| *name))
            .map(str::to_owned)
    }

    fn insert_member(&mut self, member: Member) {
        if self.leader.is_none() {
            self.leader = Some(member.member_id.clone());
        }
        self.known_protocols.add(&member.protocols);
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members.insert(instance_id.clone(), member.member_id.clone());
        }
        self.awaiting_joins += usize::from(member.awaiting_join.is_some());
        self.forget_pending_join(&member.member_id);
        self.text_bytes += member.weight_of_texts();
        self.assigned_bytes += member.assignment.len();
        self.members.insert(member.member_id.clone(), member);
    }

    /// Takes a member or a pending id out; whatever it waits for is answered.
    fn remove_member(&mut self, member_id: &str) {
        self.fail_join(member_id, UNKNOWN_MEMBER_ID.to_owned(), ErrorCode::UnknownMemberId);
        self.fail_sync(member_id, ErrorCode::UnknownMemberId);
        if let Some(member) = self.members.remove(member_id) {
            self.known_protocols.remove(&member.protocols);
            self.text_bytes -= member.weight_of_texts();
            self.assigned_bytes -= member.assignment.len();
            if let Some(instance_id) = &member.group_instance_id {
                self.static_members.remove(instance_id);
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.forget_pending_join(member_id);
        self.pending_syncs.remove(member_id);
    }

    /// An id that was given out joins within its session, or is forgotten at `deadline`.
    fn expect_join(&mut self, member_id: String, deadline: i64) {
        self.text_bytes += pending_weight(&member_id);
        self.pending_joins.insert(member_id, deadline);
        self.arm(deadline);
    }

    fn forget_pending_join(&mut self, member_id: &str) {
        if self.pending_joins.remove(member_id).is_some() {
            self.text_bytes -= pending_weight(member_id);
        }
    }

    fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer_group() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscribed_topics(&member.metadata(protocol))?);
        }
        Some(topics)
    }

    fn append(&mut self, value: GroupMetadataValue, pending: PendingAppend) {
        let id = self.next_append;
        self.next_append += 1;
        self.appends.insert(id, pending);
        self.actions.push(Action::Append { id, value });
    }

    /// The record to store, each member with what `assignment` says.
    fn record(&self, assignment: impl Fn(&Member) -> Bytes) -> GroupMetadataValue {
        let protocol = self.protocol_name.clone();
        let members = self.members.values().map(|member| MemberMetadata {
            member_id: member.member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: member.metadata(protocol.as_deref().unwrap_or_default()),
            assignment: assignment(member),
        });
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            leader: self.leader.clone(),
            current_state_timestamp: self.state_timestamp_ms.unwrap_or(-1),
            members: members.collect(),
            protocol,
        }
    }

    /// The record of an append is committed, or could not be: `error` says why.
    pub fn append_result(&mut self, now: Now, id: AppendId, error: Option<ErrorCode>) {
        match self.appends.remove(&id) {
            Some(PendingAppend::Assignment { generation, assignment }) => {
                self.assignment_stored(now, generation, &assignment, error);
            }
            Some(PendingAppend::StaticMember(replacement)) => {
                self.replacement_stored(now, replacement, error);
            }
            Some(PendingAppend::Empty) | None => {}
        }
    }
}
