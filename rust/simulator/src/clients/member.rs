//! A member of the group: joins, shares partitions out if it leads, processes and commits.

use super::Guess;
use crate::broker::{GROUP, assigned_partitions};
use crate::controller::WORK_PARTITIONS;
use crate::io::{Io, Tick};
use crate::message::{GroupAnswer, GroupRequest, Message, Node};
use bytes::Bytes;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::BTreeMap;

const SESSION_MS: i32 = 300;
const REBALANCE_MS: i32 = 400;
/// A request without an answer is given up after this, ms; a JoinGroup waits for others.
const REQUEST_MS: u64 = 150;
const JOIN_MS: u64 = 700;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Joining,
    Syncing(Vec<(String, Vec<i32>)>),
    AskingOffsets,
    Stable,
}

/// What a member held in a generation.
struct Held {
    generation: i32,
    topic: Uuid,
    offsets: Vec<(i32, i64)>,
}

/// One member.
pub struct Member {
    id: String,
    generation: i32,
    phase: Phase,
    /// Partition -> the offset it processes next.
    owned: BTreeMap<i32, i64>,
    coordinator: Option<i32>,
    /// Request, and when it is given up.
    in_flight: Option<(u64, u64)>,
    /// The number of its connection; it begins a new one where an answer did not come.
    connection: u32,
    /// The topic whose partitions it owns, and the offset of the image that told it so.
    topic: Option<(Uuid, i64)>,
    /// What it held in an earlier generation, for a commit that comes too late.
    former: Option<Held>,
    commits_late: bool,
    next_id: u64,
    turn: u64,
    /// It stands still until then.
    paused_until_ms: u64,
}

impl Member {
    /// A member that has not joined.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: String::new(),
            generation: -1,
            phase: Phase::Joining,
            owned: BTreeMap::new(),
            coordinator: None,
            in_flight: None,
            connection: 0,
            topic: None,
            former: None,
            commits_late: false,
            next_id: 0,
            turn: 0,
            paused_until_ms: 0,
        }
    }

    /// The number of its connection.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// The process dies, and another begins.
    pub fn die(&mut self) {
        let (next_id, connection) = (self.next_id, self.connection + 1);
        *self = Self { next_id, connection, ..Self::new() };
    }

    /// Stands still for a while: nothing is sent, answers are read afterwards.
    pub fn pause(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms;
    }

    /// The generation and the partitions it owns, once it is settled in.
    #[must_use]
    pub fn settled(&self) -> Option<(i32, Vec<i32>)> {
        (self.phase == Phase::Stable)
            .then(|| (self.generation, self.owned.keys().copied().collect()))
    }

    /// Leaves the group, and starts again.
    pub fn leave(&mut self, io: &mut Io<'_>) {
        if let (Some(coordinator), false) = (self.coordinator, self.id.is_empty()) {
            let member = MemberIdentity { member_id: self.id.clone(), ..MemberIdentity::default() };
            let leave = LeaveGroupRequest {
                group_id: GROUP.to_owned(),
                members: vec![member],
                ..LeaveGroupRequest::default()
            };
            self.next_id += 1;
            let request = Message::Group(GroupRequest::Leave(leave));
            io.send(Node::Broker(coordinator), self.next_id, request);
        }
        let (next_id, connection) = (self.next_id, self.connection);
        *self = Self { next_id, connection, ..Self::new() };
    }

    /// The next coordinator may be a deposed one that does not know it, and answer with old
    /// offsets. So offsets are only asked for where the assignment came from.
    fn lose_coordinator(&mut self) {
        self.coordinator = None;
        if self.phase == Phase::AskingOffsets {
            self.join_again();
        }
    }

    fn join_again(&mut self) {
        if self.phase == Phase::Stable {
            let held = self.owned.iter().map(|(partition, at)| (*partition, *at)).collect();
            let generation = self.generation;
            self.former = self.topic.map(|(topic, _)| Held { generation, topic, offsets: held });
        }
        self.phase = Phase::Joining;
        self.owned.clear();
    }

    /// The topic is another one, by an image at least as new as all before. Its partitions are read
    /// from the offsets that the group committed.
    fn learn_topic(&mut self, topic: Option<(Uuid, i64)>) {
        let is_old = |known: i64| topic.is_none_or(|(_, offset)| offset < known);
        if self.topic.is_some_and(|(_, known)| is_old(known)) {
            return;
        }
        let is_same = self.topic.map(|known| known.0) == topic.map(|told| told.0);
        self.topic = topic.or(self.topic);
        if !is_same && self.phase == Phase::Stable && !self.owned.is_empty() {
            self.phase = Phase::AskingOffsets;
        }
    }

    /// Goes on. `topic` is the one that the group shares out, and the offset of the image of the
    /// broker that told so.
    pub fn tick(&mut self, guess: Guess, topic: Option<(Uuid, i64)>, io: &mut Io<'_>) {
        let pause = io.rng.between(10, 25);
        io.after(pause, Tick::Client);
        if io.now_ms < self.paused_until_ms {
            return;
        }
        if let Some((_, until_ms)) = self.in_flight {
            if io.now_ms < until_ms {
                return;
            }
            self.in_flight = None;
            self.connection += 1;
            self.lose_coordinator();
        }
        self.learn_topic(topic);
        self.coordinator = self.coordinator.or(guess.map(|(leader, _)| leader));
        let Some(coordinator) = self.coordinator else { return };
        let request = self.next_request(io);
        let limit_ms = if self.phase == Phase::Joining { JOIN_MS } else { REQUEST_MS };
        self.next_id += 1;
        self.in_flight = Some((self.next_id, io.now_ms + limit_ms));
        io.send(Node::Broker(coordinator), self.next_id, Message::Group(request));
    }

    fn next_request(&mut self, io: &mut Io<'_>) -> GroupRequest {
        match &self.phase {
            Phase::Joining => GroupRequest::Join(self.join_request()),
            Phase::Syncing(assignments) => {
                let bytes = |partitions: &Vec<i32>| {
                    let all: Vec<u8> =
                        partitions.iter().flat_map(|one| one.to_be_bytes()).collect();
                    Bytes::from(all)
                };
                let assignment = |(member, partitions): &(String, Vec<i32>)| {
                    let (member_id, assignment) = (member.clone(), bytes(partitions));
                    SyncGroupRequestAssignment { member_id, assignment }
                };
                GroupRequest::Sync(SyncGroupRequest {
                    group_id: GROUP.to_owned(),
                    generation_id: self.generation,
                    member_id: self.id.clone(),
                    assignments: assignments.iter().map(assignment).collect(),
                    ..SyncGroupRequest::default()
                })
            }
            Phase::AskingOffsets => {
                GroupRequest::FetchOffsets(self.owned.keys().copied().collect())
            }
            Phase::Stable => self.work(io),
        }
    }

    fn join_request(&self) -> JoinGroupRequest {
        let (name, metadata) = ("range".to_owned(), Bytes::new());
        JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            member_id: self.id.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![JoinGroupRequestProtocol { name, metadata }],
            ..JoinGroupRequest::default()
        }
    }

    /// Processes a few records, then commits or sends a heartbeat.
    fn work(&mut self, io: &mut Io<'_>) -> GroupRequest {
        self.turn += 1;
        for position in self.owned.values_mut() {
            *position += i64::try_from(io.rng.below(4)).unwrap_or(0);
        }
        let (member_id, generation) = (self.id.clone(), self.generation);
        // A thread of the program that took generation and offsets before the rebalance.
        if let Some(Held { generation, topic, offsets }) =
            self.former.take_if(|_| io.rng.chance(100))
        {
            self.commits_late = !offsets.is_empty() && generation < self.generation;
            if self.commits_late {
                return GroupRequest::Commit { member_id, generation, topic, offsets };
            }
        }
        if let Some((topic, _)) = self.topic
            && self.turn.is_multiple_of(2)
            && !self.owned.is_empty()
        {
            let offsets = self.owned.iter().map(|(partition, at)| (*partition, *at)).collect();
            return GroupRequest::Commit { member_id, generation, topic, offsets };
        }
        GroupRequest::Heartbeat(HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: generation,
            member_id,
            ..HeartbeatRequest::default()
        })
    }

    /// The answer to request `id`.
    pub fn receive(&mut self, id: u64, answer: GroupAnswer) {
        if self.in_flight.is_none_or(|(asked, _)| asked != id) {
            return;
        }
        self.in_flight = None;
        if std::mem::take(&mut self.commits_late) {
            return;
        }
        match answer {
            GroupAnswer::Join(response) if response.error_code == 0 => self.joined(response),
            GroupAnswer::Join(response)
                if response.error_code == ErrorCode::MemberIdRequired as i16 =>
            {
                self.id = response.member_id;
            }
            GroupAnswer::Join(response) => self.refused(response.error_code),
            GroupAnswer::Sync(response) if response.error_code == 0 => {
                let partitions = assigned_partitions(&response.assignment);
                self.owned = partitions.into_iter().map(|partition| (partition, 0)).collect();
                self.phase = match self.owned.is_empty() {
                    true => Phase::Stable,
                    false => Phase::AskingOffsets,
                };
            }
            GroupAnswer::Sync(response) => self.refused(response.error_code),
            GroupAnswer::Offsets(offsets) => {
                self.owned = offsets.into_iter().map(|(index, at)| (index, at.max(0))).collect();
                self.phase = Phase::Stable;
            }
            GroupAnswer::Error(0) => {}
            GroupAnswer::Error(code) => self.refused(code),
        }
    }

    fn joined(&mut self, response: JoinGroupResponse) {
        self.generation = response.generation_id;
        self.id = response.member_id;
        let mut shares: Vec<(String, Vec<i32>)> =
            response.members.into_iter().map(|member| (member.member_id, Vec::new())).collect();
        let count = shares.len();
        for partition in 0..WORK_PARTITIONS {
            if count > 0 {
                shares[usize::try_from(partition).unwrap_or(0) % count].1.push(partition);
            }
        }
        self.phase = Phase::Syncing(shares);
    }

    fn refused(&mut self, code: i16) {
        let is = |error: ErrorCode| code == error as i16;
        if is(ErrorCode::NotCoordinator) || is(ErrorCode::CoordinatorNotAvailable) {
            self.lose_coordinator();
        } else if is(ErrorCode::RebalanceInProgress) {
            self.join_again();
        } else if is(ErrorCode::UnknownMemberId)
            || is(ErrorCode::IllegalGeneration)
            || is(ErrorCode::GroupIdNotFound)
        {
            self.id.clear();
            self.join_again();
        } else if matches!(self.phase, Phase::Syncing(_)) && !is(ErrorCode::RequestTimedOut) {
            self.join_again();
        }
    }
}

impl Default for Member {
    fn default() -> Self {
        Self::new()
    }
}
