//! The groups of one partition of `__consumer_offsets`: the state that the runtime brings back and
//! lets write.
//!
//! A group answers and plans with the members' requests, before its records are in the log. The
//! contents of a group's record count only at a load; otherwise only the outcome of its append
//! counts. Offsets are replayed: reads see those that are committed, decisions see the newest.
//! Source: Kafka's `GroupCoordinatorShard`, and the replay of `GroupMetadataManager` and
//! `OffsetMetadataManager`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalite_protocol::messages::group_records::GroupMetadataValue;
use kafkalite_protocol::{DecodeError, ErrorCode, Offset, Uuid};

use super::group::Group;
use super::group_state::{GroupLimits, GroupState, State};
use super::offsets::GroupOffsets;
use crate::coordinator::group_record::{self, GroupRecord};
use crate::coordinator::runtime::{Effects, Now, StateMachine, StoredRecord};

/// What the broker's configuration says about the groups of a partition.
#[derive(Clone, Debug)]
pub struct GroupsConfig {
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: i32,
    /// `offset.metadata.max.bytes`, counted as Kafka does: in UTF-16 units.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `kafkalite.group.memory.bytes`
    pub memory_bytes: usize,
}

/// The id of the topic that has this name now. Called under the lock of a partition: it takes no
/// lock itself.
pub type IdOf = Box<dyn Fn(&str) -> Option<Uuid> + Send + Sync>;

/// What the groups of all partitions share.
pub struct GroupsShared {
    /// The configuration.
    pub config: GroupsConfig,
    /// An offset that was committed for another topic of the name says nothing about this one.
    pub id_of: IdOf,
    /// About the memory that the members of all groups cost.
    pub held_bytes: Arc<AtomicUsize>,
}

impl GroupsShared {
    /// Whether members may cost so much more.
    pub fn has_memory_for(&self, bytes: usize) -> bool {
        let held = self.held_bytes.load(Ordering::Relaxed);
        held.saturating_add(bytes) <= self.config.memory_bytes
    }
}

/// What the records read so far say: the last one of a key counts.
#[derive(Default)]
struct Staged {
    groups: BTreeMap<String, GroupMetadataValue>,
    offsets: BTreeMap<String, GroupOffsets>,
}

/// The groups of one partition.
pub struct Groups {
    pub(super) shared: Arc<GroupsShared>,
    /// Until the partition is loaded.
    staged: Option<Staged>,
    /// A dead group stays until its end is committed.
    pub(super) by_id: BTreeMap<Arc<str>, Group>,
    /// Where offsets lie that are not committed yet, in the order of the log.
    uncommitted: VecDeque<(Offset, Arc<str>, Arc<str>, i32)>,
}

impl Groups {
    /// No groups yet.
    pub fn new(shared: Arc<GroupsShared>) -> Self {
        let staged = Some(Staged::default());
        Self { shared, staged, by_id: BTreeMap::new(), uncommitted: VecDeque::new() }
    }

    fn limits(&self) -> GroupLimits {
        let config = &self.shared.config;
        GroupLimits {
            initial_rebalance_delay_ms: config.initial_rebalance_delay_ms,
            max_size: config.max_size,
        }
    }

    /// Runs `event` on a group, and takes over what follows from it; `None` if there is no such
    /// group.
    pub(super) fn on_group<R>(
        &mut self,
        group_id: &str,
        effects: &mut Effects<Self>,
        event: impl FnOnce(&mut Group, &mut Effects<Self>) -> R,
    ) -> Option<R> {
        let group = self.by_id.get_mut(group_id)?;
        let result = event(group, effects);
        group.collect(effects);
        Some(result)
    }

    /// As [`Self::on_group`]; the group is made if need be. `unsaved`: it then stores itself.
    pub(super) fn on_group_or_new<R>(
        &mut self,
        now: Now,
        group_id: &str,
        unsaved: bool,
        effects: &mut Effects<Self>,
        event: impl FnOnce(&mut Group, &mut Effects<Self>) -> R,
    ) -> R {
        let (limits, account) = (self.limits(), &self.shared.held_bytes);
        let group = self.by_id.entry(Arc::from(group_id)).or_insert_with_key(|id| {
            let state = GroupState::new(Arc::clone(id), limits, now, unsaved);
            Group::new(state, GroupOffsets::default(), Arc::clone(account))
        });
        let result = event(group, effects);
        group.collect(effects);
        result
    }

    fn insert(&mut self, state: GroupState, offsets: GroupOffsets) {
        let id = Arc::clone(state.group_id());
        let group = Group::new(state, offsets, Arc::clone(&self.shared.held_bytes));
        self.by_id.insert(id, group);
    }

    /// The ids of all groups that are there.
    pub(super) fn ids(&self) -> Vec<Arc<str>> {
        let alive = self.by_id.iter().filter(|(_, group)| group.state.state() != State::Dead);
        alive.map(|(id, _)| Arc::clone(id)).collect()
    }
}

impl Staged {
    fn take(&mut self, at: Offset, record: GroupRecord) {
        match record {
            GroupRecord::Group(group, Some(value)) => {
                self.groups.insert(group, value);
            }
            GroupRecord::Group(group, None) => {
                self.groups.remove(&group);
            }
            GroupRecord::Offset(key, value) => {
                let offsets = self.offsets.entry(key.group.to_string()).or_default();
                offsets.store(&key.topic, key.partition, at, value);
                if offsets.is_empty() {
                    self.offsets.remove(&*key.group);
                }
            }
        }
    }
}

impl StateMachine for Groups {
    type Record = GroupRecord;
    /// The id of a group.
    type Timer = Arc<str>;

    fn encode(record: &GroupRecord) -> StoredRecord {
        group_record::stored(record)
    }

    fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<GroupRecord>, DecodeError> {
        group_record::parse(key, value)
    }

    fn replay(&mut self, at: Offset, record: GroupRecord, is_committed: bool) {
        if let Some(staged) = &mut self.staged {
            return staged.take(at, record);
        }
        // What a group stores of itself it knows already.
        let GroupRecord::Offset(key, value) = record else { return };
        let Some(group) = self.by_id.get_mut(&*key.group) else { return };
        if is_committed {
            group.offsets.store(&key.topic, key.partition, at, value);
        } else {
            group.offsets.add_uncommitted(&key.topic, key.partition, at, value);
            let id = Arc::clone(group.state.group_id());
            self.uncommitted.push_back((at, id, key.topic, key.partition));
        }
    }

    fn on_committed(&mut self, end: Offset) {
        while self.uncommitted.front().is_some_and(|(at, ..)| *at < end) {
            let Some((at, id, topic, partition)) = self.uncommitted.pop_front() else { return };
            if let Some(group) = self.by_id.get_mut(&id) {
                group.offsets.commit(&topic, partition, at);
            }
        }
    }

    fn on_loaded(&mut self, now: Now, effects: &mut Effects<Self>) {
        let Some(Staged { groups, mut offsets }) = self.staged.take() else { return };
        for (id, value) in groups {
            let own = offsets.remove(&id).unwrap_or_default();
            self.insert(GroupState::load(Arc::from(id), self.limits(), now, &value), own);
        }
        // Offsets without a group: a client commits without being a member.
        for (id, own) in offsets {
            self.insert(GroupState::new(Arc::from(id), self.limits(), now, false), own);
        }
        for id in self.ids() {
            self.on_group(&id, effects, |group, _| group.state.loaded(now));
            self.remove_former(&id, effects);
        }
    }

    fn on_timer(&mut self, now: Now, group_id: Arc<str>, effects: &mut Effects<Self>) {
        self.on_group(&group_id, effects, |group, _| group.state.wake(now));
    }

    fn on_unloaded(&mut self, now: Now, effects: &mut Effects<Self>) {
        for group in self.by_id.values_mut() {
            group.state.kill(now, ErrorCode::NotCoordinator);
            group.collect(effects);
        }
    }
}
