//! The group's coordinator on a simulated broker: production's `GroupCoordinator`, one for each
//! leader epoch of the group's partition.
//!
//! Production hands its appends to a trait and its answers to closures. Here both end in queues,
//! which the broker empties after every call.

use crate::checker::groups::Groups;
use crate::io::Io;
use crate::log::StoredBatch;
use crate::message::{GroupAnswer, GroupRequest, Node};
use crate::planted::Planted;
use bytes::{Bytes, BytesMut};
use kafkalite_broker::clock::{Clock, ManualClock};
use kafkalite_broker::coordinator::{
    AppendDone, AppendLate, Commit, Committer, GroupCoordinator, GroupCoordinatorConfig,
    JoinContext, OffsetsTopic,
};
use kafkalite_broker::purgatory::Timer;
use kafkalite_protocol::messages::join_group::JoinGroupResponse;
use kafkalite_protocol::messages::sync_group::SyncGroupResponse;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The one group of a run.
pub const GROUP: &str = "group";
/// The topic whose partitions its members share.
const WORK: &str = "work";

/// A batch of the coordinator's on its way to the log.
pub struct GroupAppend {
    /// The batch.
    pub batch: Bytes,
    /// Called with the outcome.
    pub done: AppendDone,
    /// Called if that takes too long.
    pub late: AppendLate,
}

/// The log beneath the coordinator.
#[derive(Default)]
struct GroupLog {
    /// What a load reads.
    batches: Mutex<Vec<StoredBatch>>,
    appends: Mutex<VecDeque<GroupAppend>>,
}

impl OffsetsTopic for GroupLog {
    fn partition_count(&self) -> i32 {
        1
    }

    fn id_of(&self, _topic: &str) -> Option<Uuid> {
        None
    }

    fn create(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn append(&self, _partition: i32, batch: Bytes, done: AppendDone, late: AppendLate) {
        self.appends.lock().push_back(GroupAppend { batch, done, late });
    }

    fn read(&self, _partition: i32, from: Option<Offset>) -> Result<Bytes, ErrorCode> {
        let from = from.unwrap_or(Offset::ZERO);
        let batches = self.batches.lock();
        let mut bytes = BytesMut::new();
        for batch in batches.iter().filter(|batch| batch.end() > from).take(16) {
            bytes.extend_from_slice(&batch.bytes);
        }
        Ok(bytes.freeze())
    }
}

/// What the checker learns when an answer leaves the coordinator.
#[derive(Clone, Debug)]
enum Fact {
    None,
    Joined { generation: i32 },
    Assigned { generation: i32, member: String, partitions: Vec<i32> },
    Committed { generation: i32, offsets: Vec<(i32, i64)> },
    Fetched(Vec<(i32, i64)>),
}

/// An answer for a client.
pub struct Answered {
    /// The client.
    pub to: Node,
    /// Its request.
    pub id: u64,
    /// The answer.
    pub answer: GroupAnswer,
    fact: Fact,
}

type Answers = Arc<Mutex<VecDeque<Answered>>>;

/// The coordinator in one leader epoch.
pub struct Coordination {
    epoch: LeaderEpoch,
    coordinator: GroupCoordinator,
    log: Arc<GroupLog>,
    answers: Answers,
    /// The newest generation that a member was told of.
    generation: i32,
    /// Where the records end that it was loaded from; 0 before.
    loaded_end: Offset,
    is_loaded: bool,
}

impl Coordination {
    /// A coordinator that has read nothing yet.
    #[must_use]
    pub fn new(epoch: LeaderEpoch, clock: Arc<ManualClock>, timer: Arc<Timer>) -> Self {
        let log = Arc::new(GroupLog::default());
        let config = GroupCoordinatorConfig {
            min_session_timeout_ms: 10,
            initial_rebalance_delay_ms: 40,
            ..GroupCoordinatorConfig::default()
        };
        let clock: Arc<dyn Clock> = clock;
        let topic = Arc::clone(&log);
        let coordinator = GroupCoordinator::new(config, clock, timer, topic);
        let (answers, generation, loaded_end) = (Answers::default(), -1, Offset::ZERO);
        Self { epoch, coordinator, log, answers, generation, loaded_end, is_loaded: false }
    }

    /// The leader epoch it coordinates in.
    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Whether the group was read back.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// Reads the group back from the batches of its partition.
    pub fn load(&mut self, batches: &[StoredBatch], io: &mut Io<'_>) {
        self.is_loaded = true;
        self.loaded_end = batches.last().map_or(Offset::ZERO, StoredBatch::end);
        *self.log.batches.lock() = batches.to_vec();
        if let Err(error) = self.coordinator.load_all() {
            io.checker.report("cannot-load", format!("{error:?}"));
        }
        self.log.batches.lock().clear();
    }

    /// Its epoch is over: who waits is told so.
    pub fn stop(&self) {
        self.coordinator.stop();
    }

    /// Takes what was asked of the log.
    #[must_use]
    pub fn take_append(&self) -> Option<GroupAppend> {
        self.log.appends.lock().pop_front()
    }

    /// Takes the answers, and tells the checker of each. The high watermark is that of the group's
    /// partition.
    pub fn take_answers(&mut self, groups: &mut Groups, high_watermark: Offset) -> Vec<Answered> {
        let answers: Vec<Answered> = self.answers.lock().drain(..).collect();
        let epoch = self.epoch.0;
        for answered in &answers {
            if matches!(answered.fact, Fact::Assigned { .. } | Fact::Fetched(_)) {
                groups.answered(epoch, self.loaded_end, high_watermark);
            }
            match &answered.fact {
                Fact::None => {}
                Fact::Joined { generation } => self.generation = self.generation.max(*generation),
                Fact::Assigned { generation, member, partitions } => {
                    groups.assigned(epoch, *generation, member, partitions);
                }
                Fact::Committed { generation, offsets } => {
                    for (partition, offset) in offsets {
                        groups.committed(epoch, *generation, *partition, *offset);
                    }
                }
                Fact::Fetched(offsets) => {
                    for (partition, offset) in offsets {
                        groups.fetched(epoch, *partition, *offset);
                    }
                }
            }
        }
        answers
    }

    /// A member's request.
    pub fn receive(&self, from: Node, id: u64, request: GroupRequest, io: &mut Io<'_>) {
        let answers = Arc::clone(&self.answers);
        let tell = move |answer: GroupAnswer, fact: Fact| {
            answers.lock().push_back(Answered { to: from, id, answer, fact });
        };
        match request {
            GroupRequest::Join(join) => {
                let context = JoinContext {
                    version: 5,
                    client_id: format!("{from:?}"),
                    client_host: "/0".to_owned(),
                    uuid: io.rng.word().to_string(),
                };
                let answer = move |response: JoinGroupResponse| {
                    let fact = match response.error_code {
                        0 => Fact::Joined { generation: response.generation_id },
                        _ => Fact::None,
                    };
                    tell(GroupAnswer::Join(response), fact);
                };
                self.coordinator.join(context, join, Box::new(answer));
            }
            GroupRequest::Sync(sync) => {
                let (generation, member) = (sync.generation_id, sync.member_id.clone());
                let answer = move |response: SyncGroupResponse| {
                    let partitions = assigned_partitions(&response.assignment);
                    let fact = match response.error_code {
                        0 => Fact::Assigned { generation, member, partitions },
                        _ => Fact::None,
                    };
                    tell(GroupAnswer::Sync(response), fact);
                };
                self.coordinator.sync(&sync, Box::new(answer));
            }
            GroupRequest::Heartbeat(heartbeat) => {
                let response = self.coordinator.heartbeat(&heartbeat);
                tell(GroupAnswer::Error(response.error_code), Fact::None);
            }
            GroupRequest::Leave(leave) => {
                let response = self.coordinator.leave(&leave);
                tell(GroupAnswer::Error(response.error_code), Fact::None);
            }
            GroupRequest::Commit { member_id, generation, offsets } => {
                self.commit(member_id, generation, offsets, io, tell);
            }
            GroupRequest::FetchOffsets(partitions) => {
                let (answer, fact) = self.fetch_offsets(&partitions);
                tell(answer, fact);
            }
        }
    }

    fn commit(
        &self,
        member_id: String,
        generation: i32,
        offsets: Vec<(i32, i64)>,
        io: &Io<'_>,
        tell: impl FnOnce(GroupAnswer, Fact) + Send + 'static,
    ) {
        let named = match io.has(Planted::OldGenerationCommits) {
            true => self.generation,
            false => generation,
        };
        let who = Committer {
            group_id: GROUP.to_owned(),
            generation: named,
            member_id,
            group_instance_id: None,
            retention_time_ms: -1,
            version: 9,
        };
        let commit = |(partition, offset): &(i32, i64)| Commit {
            topic: WORK.to_owned(),
            topic_id: Uuid::ZERO,
            partition: *partition,
            offset: *offset,
            leader_epoch: -1,
            metadata: None,
        };
        let commits = offsets.iter().map(commit).collect();
        let answer = move |errors: Vec<ErrorCode>| {
            let error = errors.iter().find(|error| !error.is_none()).copied();
            let fact = match error {
                None => Fact::Committed { generation, offsets },
                Some(_) => Fact::None,
            };
            tell(GroupAnswer::Error(error.unwrap_or(ErrorCode::None) as i16), fact);
        };
        self.coordinator.commit(&who, commits, Box::new(answer));
    }

    fn fetch_offsets(&self, partitions: &[i32]) -> (GroupAnswer, Fact) {
        let wanted = [(WORK.to_owned(), partitions.to_vec())];
        match self.coordinator.fetch(GROUP, Some(&wanted)) {
            Err(error) => (GroupAnswer::Error(error as i16), Fact::None),
            Ok(found) => {
                let known: Vec<(i32, i64)> = found
                    .iter()
                    .flat_map(|(_, partitions)| partitions.iter())
                    .map(|(partition, value)| (*partition, value.offset))
                    .collect();
                let offset = |partition: &i32| {
                    let found = known.iter().find(|(index, _)| index == partition);
                    (*partition, found.map_or(-1, |(_, offset)| *offset))
                };
                let offsets: Vec<(i32, i64)> = partitions.iter().map(offset).collect();
                (GroupAnswer::Offsets(offsets.clone()), Fact::Fetched(offsets))
            }
        }
    }
}

/// The partitions in an assignment, as the members of the simulator write it.
#[must_use]
pub fn assigned_partitions(assignment: &[u8]) -> Vec<i32> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(-1, i32::from_be_bytes);
    assignment.chunks(4).map(number).collect()
}
