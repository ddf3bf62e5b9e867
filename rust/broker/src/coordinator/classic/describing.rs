//! Describing and listing groups.

use kafkalite_protocol::messages::describe_groups::DescribedGroup;
use kafkalite_protocol::messages::list_groups::ListedGroup;

use super::group_state::{Rebalance, State};
use super::groups::Groups;
use crate::coordinator::runtime::Now;

impl Groups {
    /// A group as it is; `None` if there is none of that id.
    pub fn describe(&self, group_id: &str) -> Option<DescribedGroup> {
        let group = self.by_id.get(group_id)?;
        (group.state.state() != State::Dead).then(|| group.state.describe())
    }

    /// What a rebalance of a group waits for; `None` if there is none.
    pub fn rebalance(&self, group_id: &str, now: Now) -> Option<Rebalance> {
        self.by_id.get(group_id)?.state.rebalance(now)
    }

    /// All groups.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> {
        let alive = self.by_id.values().filter(|group| group.state.state() != State::Dead);
        alive.map(|group| group.state.list())
    }
}
