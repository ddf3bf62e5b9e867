//! The only member of a group: it joins, commits rising offsets, and reads them back.
//!
//! After a request without an answer it joins again, under another id. So a commit that is late
//! belongs to a former member, and is refused.

use super::{DATA, Io, UnderWay, answer};
use bytes::Bytes;
use kafkalite_broker::metadata::controller::OFFSETS_TOPIC;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafkalite_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestTopic};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

const GROUP: &str = "g";
/// The member is static (KIP-345): a former life under another id never holds up the group.
const INSTANCE: &str = "i";

fn instance() -> Option<String> {
    Some(INSTANCE.to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Joining,
    Syncing,
    Heartbeating,
    Committing,
    Fetching,
}

/// The member.
pub struct Member {
    state: State,
    member_id: String,
    generation: i32,
    coordinator: i32,
    under_way: UnderWay,
    /// The greatest offset that was ever asked to be committed.
    most: i64,
    /// The greatest that a coordinator acknowledged.
    floor: i64,
    /// Commits that were acknowledged.
    pub commits: u64,
}

impl Default for Member {
    fn default() -> Self {
        let (member_id, under_way) = Default::default();
        let (generation, coordinator, most, floor) = (-1, -1, -1, -1);
        let (state, commits) = (State::Joining, 0);
        Self { state, member_id, generation, coordinator, under_way, most, floor, commits }
    }
}

impl Member {
    pub(super) fn tick(&mut self, io: &mut Io<'_>) {
        if self.under_way.waits(io.now_ms) {
            return;
        }
        if self.under_way.asked.take().is_some() {
            self.member_id.clear();
            self.state = State::Joining;
        }
        let Some((leader, _)) = io.leader(OFFSETS_TOPIC, 0) else { return };
        if leader != self.coordinator {
            (self.coordinator, self.state) = (leader, State::Joining);
            self.member_id.clear();
        }
        match self.state {
            State::Joining => self.join(io),
            State::Syncing => self.sync(io),
            State::Heartbeating => {
                let request = HeartbeatRequest {
                    group_id: GROUP.to_owned(),
                    generation_id: self.generation,
                    member_id: self.member_id.clone(),
                    group_instance_id: instance(),
                };
                self.under_way.send(leader, &request, 3, io);
            }
            State::Committing => self.commit(io),
            State::Fetching => {
                let partition_indexes = vec![0];
                let name = DATA.to_owned();
                let topics = vec![OffsetFetchRequestTopic { name, partition_indexes }];
                let request = OffsetFetchRequest {
                    group_id: GROUP.to_owned(),
                    topics: Some(topics),
                    require_stable: true,
                    ..Default::default()
                };
                self.under_way.send(leader, &request, 7, io);
            }
        }
    }

    fn join(&mut self, io: &mut Io<'_>) {
        let protocol = JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(&[0; 10]),
        };
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: 500,
            member_id: self.member_id.clone(),
            group_instance_id: instance(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        self.under_way.send(self.coordinator, &request, 5, io);
    }

    fn sync(&mut self, io: &mut Io<'_>) {
        let member_id = self.member_id.clone();
        let assignment = Bytes::from_static(&[0; 10]);
        let own = SyncGroupRequestAssignment { member_id: member_id.clone(), assignment };
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: self.generation,
            member_id,
            group_instance_id: instance(),
            assignments: vec![own],
            ..Default::default()
        };
        self.under_way.send(self.coordinator, &request, 3, io);
    }

    fn commit(&mut self, io: &mut Io<'_>) {
        self.most += 1;
        let partition = OffsetCommitRequestPartition {
            partition_index: 0,
            committed_offset: self.most,
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: DATA.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: instance(),
            topics: vec![topic],
            ..Default::default()
        };
        self.under_way.send(self.coordinator, &request, 7, io);
    }

    pub(super) fn receive(&mut self, id: u64, bytes: Option<Bytes>, io: &mut Io<'_>) {
        let Some(version) = self.under_way.take(id) else { return };
        let next = match self.state {
            State::Joining => self.joined(version, bytes),
            State::Syncing => {
                let told = answer::<SyncGroupRequest>(version, bytes);
                told.filter(|told| told.error_code == 0).map(|_| State::Fetching)
            }
            State::Heartbeating => {
                let told = answer::<HeartbeatRequest>(version, bytes);
                told.filter(|told| told.error_code == 0).map(|_| State::Committing)
            }
            State::Committing => {
                let told = answer::<OffsetCommitRequest>(version, bytes);
                let told = told.as_ref().and_then(|told| told.topics.first()?.partitions.first());
                told.filter(|told| told.error_code == 0).map(|_| {
                    (self.floor, self.commits) = (self.most, self.commits + 1);
                    State::Fetching
                })
            }
            State::Fetching => self.fetched(version, bytes, io),
        };
        if next.is_none() {
            self.member_id.clear();
        }
        self.state = next.unwrap_or(State::Joining);
    }

    fn joined(&mut self, version: i16, bytes: Option<Bytes>) -> Option<State> {
        let told = answer::<JoinGroupRequest>(version, bytes)?;
        if told.error_code != 0 {
            return None;
        }
        (self.member_id, self.generation) = (told.member_id, told.generation_id);
        Some(State::Syncing)
    }

    fn fetched(&mut self, version: i16, bytes: Option<Bytes>, io: &mut Io<'_>) -> Option<State> {
        let told = answer::<OffsetFetchRequest>(version, bytes)?;
        let told = told.topics.first()?.partitions.first()?;
        if told.error_code != 0 {
            return None;
        }
        let (found, floor, most) = (told.committed_offset, self.floor, self.most);
        if found < floor {
            io.report("commit-lost", format!("{found} was fetched after {floor} was committed"));
        }
        if found > most {
            io.report("commit-made-up", format!("{found} was fetched, {most} was the last one"));
        }
        self.floor = self.floor.max(found);
        let beats = io.rng.chance(300);
        Some(if beats { State::Heartbeating } else { State::Committing })
    }
}
