//! Who waits for one thing to move: for a partition, a group's log, a fetch session.
//!
//! A [`WatchList`] holds two kinds. A [`Waiting`] operation is asked again whenever the thing
//! moves, and goes when it is completed; purgatory puts it there. A [`PartitionSubscription`]
//! belongs to a fetch session and stays. Each move marks the partition dirty for that session, and
//! asks the operations that wait at the session's [`SessionNotifier`]. So one check of a
//! partition's list reaches the sessions as well.

use std::any::Any;

mod session_notifier;
mod watch_list;

pub use session_notifier::{PartitionSubscription, SessionNotifier};
pub use watch_list::WatchList;

/// An operation in a [`WatchList`]. The room that put it there finds its own type again.
pub trait Waiting: Any + Send + Sync {
    /// `bytes` more became readable: is it worth calling `complete_if_satisfied` now?
    fn add_bytes(&self, bytes: u64) -> bool;

    /// Completes the operation if it need not wait any longer. Returns whether it did.
    fn complete_if_satisfied(&self) -> bool;

    /// Ends the wait because the broker stops.
    fn stop(&self);
}
