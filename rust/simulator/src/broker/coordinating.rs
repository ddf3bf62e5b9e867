//! The group's coordinator on a simulated broker: production's `GroupCoordinator` with its runtime,
//! which loads and unloads the group as the leader of its partition changes.
//!
//! The runtime appends to the log at once. So the broker lends the replica of the group's partition
//! to a [`Desk`] whenever it calls the coordinator, and takes it back afterwards. Answers and reads
//! of the log end in queues, which the broker empties after every call.

use super::replica::Replica;
use crate::checker::Checker;
use crate::controller::WORK;
use crate::io::Io;
use crate::message::{GroupAnswer, GroupRequest, Node};
use crate::planted::Planted;
use bytes::{Bytes, BytesMut};
use kafkalite_broker::clock::{Clock, ManualClock};
use kafkalite_broker::coordinator::runtime::{
    Appended, CoordinatorLog, LedPartition, OnSettled, TopicFacts,
};
use kafkalite_broker::coordinator::{
    Commit, Committer, GroupCoordinator, GroupCoordinatorConfig, GroupCoordinatorParts,
    JoinContext, Load, OffsetsTopic,
};
use kafkalite_broker::metadata::{MetadataImage, Publisher};
use kafkalite_broker::partitions::CommitStatus;
use kafkalite_broker::purgatory::Timer;
use kafkalite_log::LogEnd;
use kafkalite_protocol::messages::join_group::JoinGroupResponse;
use kafkalite_protocol::messages::leave_group::LeaveGroupResponse;
use kafkalite_protocol::messages::sync_group::SyncGroupResponse;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The one group of a run.
pub const GROUP: &str = "group";
/// How long the coordinator waits for one of its appends, ms.
const COMMIT_MS: u64 = 200;
/// Batches in one read at the most.
const BATCHES_READ: usize = 12;

/// Where the coordinators of a process find the replica of the group's partition.
pub struct Desk {
    planted: Option<Planted>,
    publisher: Arc<Publisher>,
    /// While a coordinator runs.
    replica: Mutex<Option<Replica>>,
    /// Ends of appends that are not in the partition's state yet.
    ends: Mutex<VecDeque<LogEnd>>,
    watches: Mutex<Vec<(Offset, LeaderEpoch, OnSettled)>>,
    /// Reads of the log that wait for their turn.
    loads: Mutex<VecDeque<Load>>,
    /// Where the records end that were read last.
    loaded_end: Mutex<Offset>,
}

impl Desk {
    /// A desk without the replica.
    #[must_use]
    pub fn new(planted: Option<Planted>, publisher: &Arc<Publisher>) -> Arc<Self> {
        Arc::new(Self {
            planted,
            publisher: Arc::clone(publisher),
            replica: Mutex::default(),
            ends: Mutex::default(),
            watches: Mutex::default(),
            loads: Mutex::default(),
            loaded_end: Mutex::default(),
        })
    }

    /// The topic that has this name by the broker's image.
    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.publisher.image().topic(topic).map(|topic| topic.id)
    }

    /// Lends the replica.
    pub fn put(&self, replica: Option<Replica>) {
        *self.replica.lock() = replica;
    }

    /// Takes it back.
    #[must_use]
    pub fn take(&self) -> Option<Replica> {
        self.replica.lock().take()
    }

    /// The next end of an append that has to be reported.
    #[must_use]
    pub fn take_end(&self) -> Option<LogEnd> {
        self.ends.lock().pop_front()
    }

    /// The log is gone, or another one: its ends are no news any more.
    pub fn forget_log(&self) {
        self.ends.lock().clear();
    }

    /// The next read of the log.
    #[must_use]
    pub fn take_load(&self) -> Option<Load> {
        self.loads.lock().pop_front()
    }

    /// A load that has more to read.
    pub fn put_load_back(&self, load: Load) {
        self.loads.lock().push_front(load);
    }

    /// Whether the log has to be read.
    #[must_use]
    pub fn has_loads(&self) -> bool {
        !self.loads.lock().is_empty()
    }

    /// Those who wait no longer. The replica is here.
    #[must_use]
    pub fn take_settled(&self) -> Vec<OnSettled> {
        let watches = std::mem::take(&mut *self.watches.lock());
        let is_pending = |end, epoch| self.status(end, epoch) == CommitStatus::Pending;
        let (pending, settled): (Vec<_>, Vec<_>) =
            watches.into_iter().partition(|(end, epoch, _)| is_pending(*end, *epoch));
        self.watches.lock().extend(pending);
        settled.into_iter().map(|(.., settled)| settled).collect()
    }

    fn status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        let replica = self.replica.lock();
        let Some(replica) = replica.as_ref() else { return CommitStatus::Pending };
        let is_read = end <= *self.loaded_end.lock();
        match (replica.state.commit_status(end, epoch), self.planted) {
            (CommitStatus::Pending, Some(Planted::LoadedUncommitted)) if is_read => {
                CommitStatus::Committed
            }
            (CommitStatus::Lost(_), Some(Planted::CommitAnsweredByDeposedCoordinator)) => {
                match replica.high_watermark() >= end {
                    true => CommitStatus::Committed,
                    false => CommitStatus::Pending,
                }
            }
            (status, _) => status,
        }
    }
}

/// The group's partition in one leader epoch.
struct GroupLog {
    desk: Arc<Desk>,
    epoch: LeaderEpoch,
}

impl CoordinatorLog for GroupLog {
    fn bounds(&self) -> (Offset, Offset) {
        let replica = self.desk.replica.lock();
        let end = match self.desk.planted {
            Some(Planted::LoadedToHighWatermark) => replica.as_ref().map(Replica::high_watermark),
            _ => replica.as_ref().map(|replica| replica.log().end()),
        };
        let end = end.unwrap_or(Offset::ZERO);
        *self.desk.loaded_end.lock() = end;
        (Offset::ZERO, end)
    }

    fn read(&self, from: Option<Offset>, to: Offset) -> Result<Bytes, ErrorCode> {
        let from = from.unwrap_or(Offset::ZERO);
        let replica = self.desk.replica.lock();
        let batches = replica.as_ref().map_or(&[][..], |replica| replica.log().batches());
        let wanted = batches.iter().filter(|batch| batch.end() > from && batch.end() <= to);
        let mut bytes = BytesMut::new();
        let is_left_out =
            from > Offset::ZERO && self.desk.planted == Some(Planted::LoadSkipsABatch);
        let wanted = wanted.skip(usize::from(is_left_out));
        wanted.take(BATCHES_READ).for_each(|batch| bytes.extend_from_slice(&batch.bytes));
        Ok(bytes.freeze())
    }

    fn max_batch_bytes(&self) -> usize {
        usize::MAX
    }

    fn append(&self, batch: Bytes) -> Result<Appended, ErrorCode> {
        let is_unfenced = self.desk.planted == Some(Planted::DemotedLeaderAppends);
        let appended = {
            let mut replica = self.desk.replica.lock();
            let replica = replica.as_mut().ok_or(ErrorCode::NotLeaderOrFollower)?;
            replica.append(&batch, self.epoch, is_unfenced)?
        };
        self.desk.ends.lock().extend(appended.log_end);
        let status = self.desk.status(appended.end, self.epoch);
        Ok(Appended { base: appended.base, end: appended.end, status })
    }

    fn commit_status(&self, end: Offset) -> CommitStatus {
        self.desk.status(end, self.epoch)
    }

    fn watch(&self, end: Offset, settled: OnSettled) {
        self.desk.watches.lock().push((end, self.epoch, settled));
    }
}

/// Who leads the group's partition, as the replica knows.
struct GroupTopic(Arc<Desk>);

impl OffsetsTopic for GroupTopic {
    fn facts(&self) -> Option<TopicFacts> {
        let replica = self.0.replica.lock();
        let replica = replica.as_ref()?;
        let epoch = replica.epoch();
        let log = || Arc::new(GroupLog { desk: Arc::clone(&self.0), epoch });
        let led = replica.leads().then(|| LedPartition { epoch, opening: 0, log: log() });
        Some(TopicFacts { id: Uuid([1; 16]), partitions: vec![led] })
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.0.id_of(topic)
    }
}

/// What the checker learns when an answer leaves the coordinator.
#[derive(Clone, Debug)]
enum Fact {
    None,
    Joined {
        generation: i32,
    },
    Assigned {
        generation: i32,
        member: String,
        partitions: Vec<i32>,
    },
    Committed {
        generation: i32,
        topic: Uuid,
        offsets: Vec<(i32, i64)>,
    },
    /// Partition, offset, and the topic that it was committed for.
    Fetched {
        topic: Option<Uuid>,
        offsets: Vec<(i32, i64, String)>,
    },
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

/// The coordinator of a process.
pub struct Coordination {
    /// The newest leader epoch in which it coordinates, or did.
    epoch: LeaderEpoch,
    coordinator: GroupCoordinator,
    desk: Arc<Desk>,
    answers: Answers,
    /// The newest generation that a member got.
    generation: i32,
}

impl Coordination {
    /// A coordinator that has read nothing yet.
    #[must_use]
    pub fn new(desk: &Arc<Desk>, clock: Arc<ManualClock>, timer: Arc<Timer>) -> Self {
        let mut config = GroupCoordinatorConfig {
            min_session_timeout_ms: 10,
            commit_timeout_ms: COMMIT_MS,
            ..GroupCoordinatorConfig::default()
        };
        config.groups.initial_rebalance_delay_ms = 40;
        let clock: Arc<dyn Clock> = clock;
        let loads = Arc::clone(desk);
        let parts = GroupCoordinatorParts {
            clock,
            timer,
            topic: Arc::new(GroupTopic(Arc::clone(desk))),
            execute: Box::new(move |load| {
                loads.loads.lock().push_back(load);
                Ok(())
            }),
        };
        let coordinator = GroupCoordinator::new(config, parts);
        let (epoch, desk) = (LeaderEpoch::UNKNOWN, Arc::clone(desk));
        Self { epoch, coordinator, desk, answers: Answers::default(), generation: -1 }
    }

    /// Looks at who leads the group's partition. The replica is on the desk.
    pub fn follow(&mut self) {
        if let Some(replica) = &*self.desk.replica.lock()
            && replica.leads()
        {
            self.epoch = replica.epoch();
        }
        self.coordinator.follow();
    }

    /// Follows the image: offsets of topics that are deleted go. The replica is on the desk.
    pub fn follow_image(&self, before: &MetadataImage, after: &MetadataImage) {
        self.coordinator.follow_image(before, after);
    }

    /// Whether it coordinates the group, or is about to.
    #[must_use]
    pub fn coordinates(&self) -> bool {
        self.coordinator.coordinates(GROUP)
    }

    /// Takes the answers, and tells the checker of each. The high watermark is that of the group's
    /// partition.
    pub fn take_answers(&mut self, checker: &mut Checker, high_watermark: Offset) -> Vec<Answered> {
        let (groups, live) = (&mut checker.groups, checker.topics.live());
        let answers: Vec<Answered> = self.answers.lock().drain(..).collect();
        let epoch = self.epoch.0;
        for answered in &answers {
            if matches!(answered.fact, Fact::Assigned { .. } | Fact::Fetched { .. }) {
                groups.answered(epoch, *self.desk.loaded_end.lock(), high_watermark);
            }
            match &answered.fact {
                Fact::None => {}
                Fact::Joined { generation } => self.generation = self.generation.max(*generation),
                Fact::Assigned { generation, member, partitions } => {
                    groups.assigned(epoch, *generation, member, partitions);
                }
                Fact::Committed { generation, topic, offsets } => {
                    for (partition, offset) in offsets {
                        groups.committed(epoch, *generation, (*topic, *partition), *offset);
                    }
                }
                Fact::Fetched { topic: None, .. } => {}
                Fact::Fetched { topic: Some(topic), offsets } => {
                    for (partition, offset, committed_for) in offsets {
                        let place = (*topic, *partition);
                        if *offset >= 0 {
                            groups.told_offset(epoch, place, committed_for);
                        }
                        // The offsets of a deleted topic may be deleted too.
                        if live == Some(*topic) {
                            groups.fetched(epoch, place, *offset);
                        }
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
                self.coordinator.sync(sync, Box::new(answer));
            }
            GroupRequest::Heartbeat(heartbeat) => {
                let response = self.coordinator.heartbeat(&heartbeat);
                tell(GroupAnswer::Error(response.error_code), Fact::None);
            }
            GroupRequest::Leave(leave) => {
                let answer = move |response: LeaveGroupResponse| {
                    tell(GroupAnswer::Error(response.error_code), Fact::None);
                };
                self.coordinator.leave(leave, Box::new(answer));
            }
            GroupRequest::Commit { member_id, generation, topic, offsets } => {
                self.commit(member_id, generation, (topic, offsets), io, tell);
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
        (topic, offsets): (Uuid, Vec<(i32, i64)>),
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
            version: 10,
        };
        let topic_id = match io.has(Planted::CommitsWithoutTopicId) {
            true => Uuid::ZERO,
            false => topic,
        };
        let commit = |(partition, offset): &(i32, i64)| Commit {
            topic: WORK.into(),
            topic_id,
            partition: *partition,
            offset: *offset,
            leader_epoch: -1,
            metadata: Some(topic.to_string()),
        };
        let commits = offsets.iter().map(commit).collect();
        let answer = move |errors: Vec<ErrorCode>| {
            let error = errors.iter().find(|error| !error.is_none()).copied();
            let fact = match error {
                None => Fact::Committed { generation, topic, offsets },
                Some(_) => Fact::None,
            };
            tell(GroupAnswer::Error(error.unwrap_or(ErrorCode::None) as i16), fact);
        };
        self.coordinator.commit(who, commits, Box::new(answer));
    }

    fn fetch_offsets(&self, partitions: &[i32]) -> (GroupAnswer, Fact) {
        let wanted = [(WORK.to_owned(), partitions.to_vec())];
        match self.coordinator.fetch(GROUP, Some(&wanted)) {
            Err(error) => (GroupAnswer::Error(error as i16), Fact::None),
            Ok(found) => {
                let known: BTreeMap<i32, _> =
                    found.into_iter().flat_map(|(_, partitions)| partitions).collect();
                let told = |partition: &i32| match known.get(partition) {
                    Some(value) => (*partition, value.offset, value.metadata.clone()),
                    None => (*partition, -1, String::new()),
                };
                let told: Vec<(i32, i64, String)> = partitions.iter().map(told).collect();
                let offsets = told.iter().map(|(partition, offset, _)| (*partition, *offset));
                let fact = Fact::Fetched { topic: self.desk.id_of(WORK), offsets: told.clone() };
                (GroupAnswer::Offsets(offsets.collect()), fact)
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
