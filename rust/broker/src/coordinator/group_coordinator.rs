//! The coordinator of all groups of this broker: takes each request to the partition of
//! `__consumer_offsets` that its group lives in.
//!
//! Until that partition is loaded the answer is COORDINATOR_LOAD_IN_PROGRESS; while this broker
//! does not lead it, NOT_COORDINATOR.
//! Source: Kafka's `GroupCoordinatorService`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::describe_groups::DescribedGroup;
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use kafkalite_protocol::messages::list_groups::ListedGroup;
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::Mutex;

use super::classic::group_state::{Rebalance, State};
use super::classic::{
    Commit, Committed, Committer, Groups, GroupsConfig, GroupsShared, JoinContext, TopicPartition,
    refused_join, refused_leave, refused_sync,
};
use super::offsets_topic::OffsetsTopic;
use super::runtime::{Answer, CoordinatorTimer, ExecuteLoad, Phase, Runtime, RuntimeConfig};
use crate::clock::Clock;
use crate::metadata::MetadataImage;
use crate::metadata::controller::OFFSETS_TOPIC;

/// What the broker's configuration says about groups.
#[derive(Clone, Debug)]
pub struct GroupCoordinatorConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `offsets.commit.timeout.ms`
    pub commit_timeout_ms: u64,
    /// `offsets.topic.compression.codec`
    pub codec: Codec,
    /// What holds within each partition.
    pub groups: GroupsConfig,
}

impl Default for GroupCoordinatorConfig {
    /// Kafka's defaults, for tests.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            offsets_retention_check_interval_ms: 600_000,
            commit_timeout_ms: 5_000,
            codec: Codec::None,
            groups: GroupsConfig {
                initial_rebalance_delay_ms: 3_000,
                max_size: i32::MAX,
                offset_metadata_max_bytes: 4_096,
                offsets_retention_ms: 604_800_000,
                memory_bytes: 256 << 20,
            },
        }
    }
}

/// What the coordinator stands on.
pub struct GroupCoordinatorParts {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Wakes groups at their deadlines.
    pub timer: Arc<dyn CoordinatorTimer>,
    /// `__consumer_offsets`, and the topics that groups read.
    pub topic: Arc<dyn OffsetsTopic>,
    /// Where partitions are read.
    pub execute: ExecuteLoad,
}

/// Everything about groups on this broker.
pub struct GroupCoordinator {
    config: GroupCoordinatorConfig,
    timer: Arc<dyn CoordinatorTimer>,
    topic: Arc<dyn OffsetsTopic>,
    runtime: Runtime<Groups>,
}

impl GroupCoordinator {
    /// A coordinator that knows no partition yet; see [`Self::follow`].
    pub fn new(config: GroupCoordinatorConfig, parts: GroupCoordinatorParts) -> Self {
        let GroupCoordinatorParts { clock, timer, topic, execute } = parts;
        let ids = Arc::clone(&topic);
        let shared = Arc::new(GroupsShared {
            config: config.groups.clone(),
            id_of: Box::new(move |name| ids.id_of(name)),
            held_bytes: Arc::new(AtomicUsize::new(0)),
        });
        let runtime_config = RuntimeConfig {
            topic: OFFSETS_TOPIC,
            clock,
            timer: Arc::clone(&timer),
            execute,
            codec: config.codec,
            commit_timeout_ms: config.commit_timeout_ms,
        };
        let new_state = Box::new(move || Groups::new(Arc::clone(&shared)));
        Self { config, timer, topic, runtime: Runtime::new(runtime_config, new_state) }
    }

    /// Looks at who leads `__consumer_offsets`, and loads or unloads its partitions. Those that
    /// hold nothing are loaded when this returns. To be called whenever a log was opened.
    pub fn follow(&self) {
        self.runtime.follow(|| self.topic.facts());
    }

    /// Follows the control plane's image: leaders of `__consumer_offsets`, and topics that are
    /// deleted, whose offsets go.
    pub fn follow_image(&self, before: &MetadataImage, after: &MetadataImage) {
        let same = match (before.topic(OFFSETS_TOPIC), after.topic(OFFSETS_TOPIC)) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.follow();
        }
        let gone = before.topics.deleted_in(&after.topics);
        let mut deleted: HashMap<String, HashSet<Uuid>> = HashMap::new();
        for topic in gone {
            deleted.entry(topic.name.to_string()).or_default().insert(topic.id);
        }
        if deleted.is_empty() {
            return;
        }
        let deleted = Arc::new(deleted);
        self.runtime.step_all(move |turn| Groups::topics_deleted(turn, &deleted));
    }

    /// Whether `__consumer_offsets` is known here.
    pub fn knows_topic(&self) -> bool {
        self.runtime.knows_topic()
    }

    /// Whether this broker coordinates the group, or is about to.
    pub fn coordinates(&self, group_id: &str) -> bool {
        matches!(self.runtime.phase(group_id), Some(Phase::Active | Phase::Loading))
    }

    /// JoinGroup. `answer` is called once, now or at the end of the join phase.
    pub fn join(
        &self,
        context: JoinContext,
        request: JoinGroupRequest,
        answer: Answer<JoinGroupResponse>,
    ) {
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        let refused = if request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !timeouts.contains(&request.session_timeout_ms) {
            Some(ErrorCode::InvalidSessionTimeout)
        } else {
            None
        };
        if let Some(error) = refused {
            return answer(refused_join(&request.member_id, error));
        }
        let group_id = request.group_id.clone();
        self.runtime.step(&group_id, move |turn| match turn {
            Ok(turn) => Groups::join(turn, &context, &request, answer),
            Err(error) => answer(refused_join(&request.member_id, error)),
        });
    }

    /// SyncGroup. `answer` is called once, now or when the leader's assignment is stored.
    pub fn sync(&self, request: SyncGroupRequest, answer: Answer<SyncGroupResponse>) {
        if request.group_id.is_empty() {
            return answer(refused_sync(ErrorCode::InvalidGroupId));
        }
        let group_id = request.group_id.clone();
        self.runtime.step(&group_id, move |turn| match turn {
            Ok(turn) => Groups::sync(turn, &request, answer),
            Err(error) => answer(refused_sync(error)),
        });
    }

    /// Heartbeat.
    pub fn heartbeat(&self, request: &HeartbeatRequest) -> HeartbeatResponse {
        let group_id = &request.group_id;
        let error = if group_id.is_empty() {
            ErrorCode::InvalidGroupId
        } else {
            match self.runtime.look(group_id, |turn| Groups::heartbeat(turn, request)) {
                Ok(error) => error,
                // Sessions begin when loading ends, so the member gets no error until then.
                Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
                Err(error) => error,
            }
        };
        HeartbeatResponse { error_code: error.code(), ..HeartbeatResponse::default() }
    }

    /// LeaveGroup, in the form of version 3 and later.
    pub fn leave(&self, request: LeaveGroupRequest, answer: Answer<LeaveGroupResponse>) {
        if request.group_id.is_empty() {
            return answer(refused_leave(ErrorCode::InvalidGroupId));
        }
        let group_id = request.group_id.clone();
        self.runtime.step(&group_id, move |turn| match turn {
            Ok(turn) => Groups::leave(turn, &request, answer),
            Err(error) => answer(refused_leave(error)),
        });
    }

    /// Commits offsets; `answer` gets one error for each of `commits`, in order.
    pub fn commit(&self, who: Committer, commits: Vec<Commit>, answer: Answer<Vec<ErrorCode>>) {
        let group_id = who.group_id.clone();
        self.runtime.step(&group_id, move |turn| match turn {
            Ok(turn) => Groups::commit(turn, &who, commits, answer),
            Err(error) => answer(vec![error; commits.len()]),
        });
    }

    /// What a group has committed of `topics`, or of all with `None`.
    ///
    /// # Errors
    /// The group cannot be looked at here, or now.
    pub fn fetch(
        &self,
        group_id: &str,
        topics: Option<&[(String, Vec<i32>)]>,
    ) -> Result<Committed, ErrorCode> {
        self.runtime.look(group_id, |turn| turn.state.fetch(group_id, topics))
    }

    /// Removes offsets; `answer` gets one error for each of `partitions`, in order, or the one that
    /// stands for the whole group.
    pub fn delete_offsets(
        &self,
        group_id: &str,
        partitions: Vec<TopicPartition>,
        answer: Answer<Result<Vec<ErrorCode>, ErrorCode>>,
    ) {
        if group_id.is_empty() {
            return answer(Err(ErrorCode::InvalidGroupId));
        }
        let id = group_id.to_owned();
        self.runtime.step(group_id, move |turn| match turn {
            Ok(turn) => Groups::delete_offsets(turn, &id, partitions, answer),
            Err(error) => answer(Err(error)),
        });
    }

    /// Removes empty groups with their offsets; `answer` gets every id with its error.
    pub fn delete_groups(&self, group_ids: &[String], answer: Answer<Vec<(String, ErrorCode)>>) {
        let gathered = Gathered { results: Vec::new(), wanted: group_ids.len(), answer };
        if group_ids.is_empty() {
            return (gathered.answer)(Vec::new());
        }
        let gathered = Arc::new(Mutex::new(Some(gathered)));
        for group_id in group_ids {
            let one = gather(Arc::clone(&gathered), group_id.clone());
            let id = group_id.clone();
            self.runtime.step(group_id, move |turn| match turn {
                Ok(turn) => Groups::delete_group(turn, &id, one),
                Err(error) => one(error),
            });
        }
    }

    /// A group as it is. One that is not there is `Dead`, and from version 6 of the request on
    /// also GROUP_ID_NOT_FOUND.
    pub fn describe(&self, group_id: &str, version: i16) -> DescribedGroup {
        let missing = |error: ErrorCode, state: &str, message: Option<String>| DescribedGroup {
            group_id: group_id.to_owned(),
            error_code: error.code(),
            error_message: message,
            group_state: state.to_owned(),
            ..DescribedGroup::default()
        };
        match self.runtime.look(group_id, |turn| turn.state.describe(group_id)) {
            Ok(Some(described)) => described,
            Ok(None) if version >= 6 => {
                let message = format!("Group {group_id} not found.");
                missing(ErrorCode::GroupIdNotFound, State::Dead.name(), Some(message))
            }
            Ok(None) => missing(ErrorCode::None, State::Dead.name(), None),
            Err(error) => missing(error, "", None),
        }
    }

    /// What a rebalance of a group waits for; `None` if there is none, or not here.
    pub fn rebalance(&self, group_id: &str) -> Option<Rebalance> {
        let looked = self.runtime.look(group_id, |turn| turn.state.rebalance(group_id, turn.now));
        looked.ok().flatten()
    }

    /// All groups in one of `states` and of one of `types`, by name, upper and lower case alike; an
    /// empty filter lets everything through. With it COORDINATOR_LOAD_IN_PROGRESS while some groups
    /// are not here yet.
    pub fn list(&self, states: &[String], types: &[String]) -> (ErrorCode, Vec<ListedGroup>) {
        // There may be many groups, and a stranger chooses how long the filters are.
        let lower = |filter: &[String]| -> HashSet<String> {
            filter.iter().map(|name| name.to_ascii_lowercase()).collect()
        };
        let (states, types) = (lower(states), lower(types));
        let is_wanted = |filter: &HashSet<String>, value: &str| {
            filter.is_empty() || filter.contains(&value.to_ascii_lowercase())
        };
        let mut listed = Vec::new();
        let is_loading = self.runtime.look_all(|turn| {
            listed.extend(turn.state.list().filter(|group| {
                is_wanted(&states, &group.group_state) && is_wanted(&types, &group.group_type)
            }));
        });
        listed.sort_by(|one, other| one.group_id.cmp(&other.group_id));
        let error = if is_loading { ErrorCode::CoordinatorLoadInProgress } else { ErrorCode::None };
        (error, listed)
    }

    /// Removes offsets whose time is over, or whose topic is gone, and groups that have nothing
    /// left. Partitions that are not loaded are left out, so nothing expires before loading ends.
    pub fn expire(&self) {
        self.runtime.step_all(Groups::expire);
    }

    /// Expires offsets from now on every `offsets.retention.check.interval.ms`.
    pub fn start_expiry(self: &Arc<Self>) {
        let interval_ms = u64::try_from(self.config.offsets_retention_check_interval_ms);
        let me = Arc::downgrade(self);
        let expire = move || {
            if let Some(coordinator) = me.upgrade() {
                coordinator.expire();
                coordinator.start_expiry();
            }
        };
        self.timer.schedule(interval_ms.unwrap_or(1).max(1), Box::new(expire));
    }

    /// Answers all waiting requests with NOT_COORDINATOR and loads nothing any more, because the
    /// broker stops.
    pub fn stop(&self) {
        self.runtime.stop();
    }
}

/// What was said so far about several groups, and who wants to know.
struct Gathered {
    results: Vec<(String, ErrorCode)>,
    wanted: usize,
    answer: Answer<Vec<(String, ErrorCode)>>,
}

/// Takes one group's error in; the last one sends the answer.
fn gather(gathered: Arc<Mutex<Option<Gathered>>>, group_id: String) -> Answer<ErrorCode> {
    Box::new(move |error| {
        let mut place = gathered.lock();
        if let Some(all) = place.as_mut() {
            all.results.push((group_id, error));
        }
        let complete = place.take_if(|all| all.results.len() == all.wanted);
        drop(place);
        if let Some(all) = complete {
            (all.answer)(all.results);
        }
    })
}
