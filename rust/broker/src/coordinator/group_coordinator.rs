//! The coordinator of all groups of this broker: finds the group, hands it the event.
//!
//! A group lives in one partition of `__consumer_offsets`. Until that partition is loaded the
//! answer is COORDINATOR_LOAD_IN_PROGRESS; while there is no such partition, NOT_COORDINATOR.
//! Source: Kafka's `GroupCoordinatorService`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::messages::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberResponse,
};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use parking_lot::{Mutex, RwLock};

use super::group::{Answer, Effect, Group, GroupTimer, Inner, Surroundings};
use super::group_state::{GroupLimits, GroupState, JoinContext, Now, asked_weight};
use super::offsets::GroupOffsets;
use super::offsets_topic::{OffsetsTopic, partition_of};
use crate::clock::Clock;

use kafkalite_protocol::compression::Codec;

/// What the broker's configuration says about groups.
#[derive(Clone, Debug)]
pub struct GroupCoordinatorConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: i32,
    /// `offset.metadata.max.bytes`, counted as Kafka does: in UTF-16 units.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `offsets.topic.compression.codec`
    pub codec: Codec,
    /// `kafkalite.group.memory.bytes`
    pub memory_bytes: usize,
}

impl Default for GroupCoordinatorConfig {
    /// Kafka's defaults, for tests.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 604_800_000,
            offsets_retention_check_interval_ms: 600_000,
            codec: Codec::None,
            memory_bytes: 256 << 20,
        }
    }
}

/// How far a partition of `__consumer_offsets` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Not read yet.
    Pending,
    /// Being read.
    Loading,
    /// Its groups are here.
    Active,
    /// It could not be read, its log is not open: tried again whenever a coordinator is looked for.
    Failed,
    /// It cannot be read to its end, and will not be until the broker starts again. As in Kafka,
    /// this broker does not coordinate its groups.
    Damaged,
}

/// Groups by id. A dead one stays until its end is stored: whoever came next under the same id
/// could otherwise be overtaken in the log by the tombstones.
pub(super) type Groups = Arc<RwLock<BTreeMap<Arc<str>, Arc<Group>>>>;

/// Everything about groups on this broker.
pub struct GroupCoordinator {
    pub(super) config: GroupCoordinatorConfig,
    pub(super) around: Arc<Surroundings>,
    pub(super) groups: Groups,
    /// One entry for each partition of `__consumer_offsets`.
    pub(super) loads: RwLock<Vec<Load>>,
    /// Held by who loads, so that nobody reads a partition twice.
    pub(super) loading: Mutex<()>,
    /// Held by who makes `__consumer_offsets`, before `loading`.
    pub(super) making: Mutex<()>,
}

impl GroupCoordinator {
    /// A coordinator that knows no group yet; see [`Self::load_all`].
    pub fn new(
        config: GroupCoordinatorConfig,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn GroupTimer>,
        topic: Arc<dyn OffsetsTopic>,
    ) -> Self {
        let codec = config.codec;
        Self {
            config,
            around: Arc::new(Surroundings {
                clock,
                timer,
                topic,
                codec,
                held_bytes: AtomicUsize::new(0),
            }),
            groups: Groups::default(),
            loads: RwLock::new(Vec::new()),
            loading: Mutex::new(()),
            making: Mutex::new(()),
        }
    }

    pub(super) fn limits(&self) -> GroupLimits {
        GroupLimits {
            initial_rebalance_delay_ms: self.config.initial_rebalance_delay_ms,
            max_size: self.config.max_size,
        }
    }

    /// The partition a group lives in, if it is loaded.
    pub(super) fn active_partition(&self, group_id: &str) -> Result<i32, ErrorCode> {
        let loads = self.loads.read();
        // Before the first look at the topic nothing is known, not even how many partitions it has.
        let count = match i32::try_from(loads.len()) {
            Ok(count) if count > 0 => count,
            _ if self.around.topic.partition_count() > 0 => {
                return Err(ErrorCode::CoordinatorLoadInProgress);
            }
            _ => return Err(ErrorCode::NotCoordinator),
        };
        let partition = partition_of(group_id, count);
        match loads.get(usize::try_from(partition).unwrap_or(0)) {
            Some(Load::Active) => Ok(partition),
            Some(Load::Failed | Load::Damaged) => Err(ErrorCode::NotCoordinator),
            _ => Err(ErrorCode::CoordinatorLoadInProgress),
        }
    }

    /// Whether the groups of this group's partition are here.
    pub fn coordinates(&self, group_id: &str) -> bool {
        self.active_partition(group_id).is_ok()
    }

    /// The group, if there is one.
    pub(super) fn group(&self, group_id: &str) -> Result<Option<Arc<Group>>, ErrorCode> {
        self.active_partition(group_id)?;
        Ok(self.groups.read().get(group_id).cloned())
    }

    /// Runs `event` on the group, which is made if need be. `unsaved`: it then stores itself.
    pub(super) fn on_group_or_new<R>(
        &self,
        group_id: &str,
        unsaved: bool,
        event: impl FnOnce(&mut Inner, Now) -> R,
    ) -> Result<R, ErrorCode> {
        let partition = self.active_partition(group_id)?;
        Ok(self.group_or_new(group_id, partition, unsaved).run(event))
    }

    fn group_or_new(&self, group_id: &str, partition: i32, unsaved: bool) -> Arc<Group> {
        if let Some(group) = self.groups.read().get(group_id) {
            return Arc::clone(group);
        }
        let mut groups = self.groups.write();
        if let Some(group) = groups.get(group_id) {
            return Arc::clone(group);
        }
        let id: Arc<str> = Arc::from(group_id);
        let state = GroupState::new(Arc::clone(&id), self.limits(), self.around.now(), unsaved);
        let around = Arc::clone(&self.around);
        let group = Group::new(state, GroupOffsets::default(), partition, around);
        groups.insert(id, Arc::clone(&group));
        group
    }

    /// JoinGroup. `answer` is called once, now or at the end of the join phase.
    pub fn join(
        &self,
        context: JoinContext,
        request: JoinGroupRequest,
        answer: Answer<JoinGroupResponse>,
    ) {
        let refuse = |error: ErrorCode| JoinGroupResponse {
            member_id: request.member_id.clone(),
            error_code: error as i16,
            ..JoinGroupResponse::default()
        };
        if request.group_id.is_empty() {
            return answer(refuse(ErrorCode::InvalidGroupId));
        }
        let timeout_ms = request.session_timeout_ms;
        let bounds = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !bounds.contains(&timeout_ms) {
            return answer(refuse(ErrorCode::InvalidSessionTimeout));
        }
        if !request.member_id.is_empty() {
            // Who has an id belongs to a group that is there.
            match self.group(&request.group_id) {
                Ok(Some(_)) => {}
                Ok(None) => return answer(refuse(ErrorCode::UnknownMemberId)),
                Err(error) => return answer(refuse(error)),
            }
        }
        // Weighed before a group is made for it, and again beside what the member has already.
        let asked = asked_weight(&context, &request);
        let too_much = ErrorCode::GroupMaxSizeReached;
        if request.member_id.is_empty() && !self.has_memory_for(asked) {
            return answer(refuse(too_much));
        }
        let mut answer = Some(answer);
        let joined = self.on_group_or_new(&request.group_id, true, |inner, now| {
            let more = asked.saturating_sub(inner.state.held_by(&request.member_id));
            let Some(answer) = answer.take() else { return };
            if more > 0 && !self.has_memory_for(more) {
                let response = refuse(too_much);
                return inner.push(Effect::Run(Box::new(move || answer(response))));
            }
            let token = inner.park_join(answer);
            inner.state.join(now, token, &context, &request);
        });
        if let (Err(error), Some(answer)) = (joined, answer) {
            answer(refuse(error));
        }
    }

    /// Whether members may cost so much more.
    fn has_memory_for(&self, bytes: usize) -> bool {
        let held = self.around.held_bytes.load(Ordering::Relaxed);
        held.saturating_add(bytes) <= self.config.memory_bytes
    }

    /// SyncGroup. `answer` is called once, now or when the leader's assignment is stored.
    pub fn sync(&self, request: &SyncGroupRequest, answer: Answer<SyncGroupResponse>) {
        let refuse = |error: ErrorCode| SyncGroupResponse {
            error_code: error as i16,
            ..SyncGroupResponse::default()
        };
        if request.group_id.is_empty() {
            return answer(refuse(ErrorCode::InvalidGroupId));
        }
        // Kafka refuses assignments that are too large for its log with the same error.
        let asked = request.assignments.iter().map(|one| one.assignment.len()).sum();
        if asked > 0 && !self.has_memory_for(asked) {
            return answer(refuse(ErrorCode::UnknownServerError));
        }
        match self.group(&request.group_id) {
            Ok(Some(group)) => group.run(|inner, _| {
                let token = inner.park_sync(answer);
                inner.state.sync(token, request);
            }),
            Ok(None) => answer(refuse(ErrorCode::UnknownMemberId)),
            Err(error) => answer(refuse(error)),
        }
    }

    /// Heartbeat.
    pub fn heartbeat(&self, request: &HeartbeatRequest) -> HeartbeatResponse {
        let error = if request.group_id.is_empty() {
            ErrorCode::InvalidGroupId
        } else {
            let instance_id = request.group_instance_id.as_deref();
            match self.group(&request.group_id) {
                Ok(Some(group)) => group.run(|inner, now| {
                    let (id, generation) = (&request.member_id, request.generation_id);
                    inner.state.heartbeat(now, id, instance_id, generation)
                }),
                Ok(None) => ErrorCode::UnknownMemberId,
                // Sessions only begin when loading ends, so the member is told that all is well.
                Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
                Err(error) => error,
            }
        };
        HeartbeatResponse { error_code: error as i16, ..HeartbeatResponse::default() }
    }

    /// LeaveGroup, in the form of version 3 and later.
    pub fn leave(&self, request: &LeaveGroupRequest) -> LeaveGroupResponse {
        let refuse = |error: ErrorCode| LeaveGroupResponse {
            error_code: error as i16,
            ..LeaveGroupResponse::default()
        };
        if request.group_id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let left = match self.group(&request.group_id) {
            Ok(Some(group)) => group.run(|inner, now| inner.state.leave(now, &request.members)),
            Ok(None) => Ok(request
                .members
                .iter()
                .map(|member| MemberResponse {
                    member_id: member.member_id.clone(),
                    group_instance_id: member.group_instance_id.clone(),
                    error_code: ErrorCode::UnknownMemberId as i16,
                })
                .collect()),
            Err(error) => Err(error),
        };
        match left {
            Ok(members) => LeaveGroupResponse { members, ..LeaveGroupResponse::default() },
            Err(error) => refuse(error),
        }
    }

    /// Answers everybody who waits with NOT_COORDINATOR: the broker stops, or the topic is gone.
    pub fn stop(&self) {
        let groups = std::mem::take(&mut *self.groups.write());
        self.loads.write().clear();
        for group in groups.values() {
            group.run(|inner, now| inner.state.kill(now, ErrorCode::NotCoordinator));
        }
    }
}
