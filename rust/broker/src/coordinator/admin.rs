//! Describing and listing groups.

use std::collections::HashSet;
use std::sync::Arc;

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_groups::DescribedGroup;
use kafkalite_protocol::messages::list_groups::ListedGroup;

use super::group_coordinator::{GroupCoordinator, Load};
use super::group_state::State;
use super::offsets_topic::OffsetsTopic;

impl GroupCoordinator {
    /// A group as it is. One that is not there is `Dead`, and from version 6 of the request on
    /// also GROUP_ID_NOT_FOUND.
    pub fn describe(&self, group_id: &str, version: i16) -> DescribedGroup {
        let missing = |error: ErrorCode, message: Option<String>| DescribedGroup {
            group_id: group_id.to_owned(),
            error_code: error as i16,
            error_message: message,
            ..DescribedGroup::default()
        };
        let described = match self.group(group_id) {
            Ok(group) => group.map(|group| group.look(|inner| inner.state.describe())),
            Err(error) => return missing(error, None),
        };
        match described.filter(|group| group.group_state != State::Dead.name()) {
            Some(described) => described,
            None => {
                let group = if version >= 6 {
                    let message = format!("Group {group_id} not found.");
                    missing(ErrorCode::GroupIdNotFound, Some(message))
                } else {
                    missing(ErrorCode::None, None)
                };
                DescribedGroup { group_state: State::Dead.name().to_owned(), ..group }
            }
        }
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
        let is_on_its_way = |load: &Load| matches!(load, Load::Pending | Load::Loading);
        let is_loading = self.loads.read().iter().any(is_on_its_way)
            || (self.loads.read().is_empty() && self.around.topic.partition_count() > 0);
        let error = if is_loading { ErrorCode::CoordinatorLoadInProgress } else { ErrorCode::None };
        let groups = self.all_groups();
        let listed = groups.iter().map(|group| group.look(|inner| inner.state.list()));
        let wanted = listed.filter(|group| {
            group.group_state != State::Dead.name()
                && is_wanted(&states, &group.group_state)
                && is_wanted(&types, &group.group_type)
        });
        (error, wanted.collect())
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
        self.around.timer.schedule(interval_ms.unwrap_or(1).max(1), Box::new(expire));
    }

    /// `__consumer_offsets` as the broker gave it.
    pub fn offsets_topic(&self) -> &dyn OffsetsTopic {
        &*self.around.topic
    }
}
