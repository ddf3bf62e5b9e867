//! What a leader learns of its followers from their fetches, and which of them are in sync.
//!
//! Source: Kafka's `Partition.updateFollowerFetchState`, `maybeExpandIsr` and `maybeShrinkIsr`.

use super::{FetchReader, Partition};
use crate::fetch_sessions::FetchTarget;
use crate::metadata::{BrokerImage, MetadataImage};
use crate::partitions::partition_state::{FollowerEnd, FollowerFetch, IsrProposal, LeaderEnd};
use crate::purgatory::Unsafe;
use kafkalite_log::LogError;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The brokers as the newest image has them, for all partitions of this broker.
#[derive(Default)]
pub struct KnownBrokers(RwLock<Arc<BTreeMap<i32, BrokerImage>>>);

impl KnownBrokers {
    /// Follows an image. Whether other brokers serve now, or the same ones in other lives.
    pub fn follow_image(&self, image: &MetadataImage) -> bool {
        let before = std::mem::replace(&mut *self.0.write(), Arc::clone(&image.brokers));
        let lives = |brokers: &BTreeMap<i32, BrokerImage>| -> Vec<_> {
            brokers.values().map(|one| (one.id, one.epoch, one.fenced)).collect()
        };
        !Arc::ptr_eq(&before, &image.brokers) && lives(&before) != lives(&image.brokers)
    }

    /// Whether a broker serves, in the life with this epoch.
    pub fn lives(&self, id: i32, epoch: i64) -> bool {
        self.0.read().get(&id).is_some_and(|known| known.epoch == epoch && !known.fenced)
    }

    /// Whether a broker serves in this rack.
    pub fn serves_in(&self, id: i32, rack: &str) -> bool {
        let is_there = |known: &BrokerImage| !known.fenced && known.rack.as_deref() == Some(rack);
        self.0.read().get(&id).is_some_and(is_there)
    }
}

impl Partition {
    /// A follower fetches what `target` says: what is before is on its disk, if its log did not
    /// part from this one. Returns the in-sync replicas to propose, if it has caught up.
    ///
    /// # Errors
    /// Why nothing is known of the follower now: the fetch is refused here, or its log parted from
    /// this one.
    pub fn follower_fetched(
        &self,
        target: &FetchTarget,
        fetch: &FollowerFetch,
    ) -> Result<Option<IsrProposal>, ErrorCode> {
        let plan = self.plan(target, FetchReader::Follower(fetch.id))?;
        if plan.is_diverging() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let (moved, has_deleted, went_back, proposal) = {
            let mut state = self.state.lock();
            // The plan may be of an epoch that is over: the log can be another one by now.
            state.check_leader(LeaderEpoch(target.current_leader_epoch.max(-1)))?;
            let lives = |id, epoch| self.brokers.lives(id, epoch);
            let (started, ended) = (state.follower_start(fetch.id), state.follower_end(fetch.id));
            let moved = state.follower_fetched(fetch, self.max_lag_ms, lives);
            self.publish(&state);
            let has_deleted = state.follower_start(fetch.id) != started;
            let went_back = state.follower_end(fetch.id) < ended;
            (moved, has_deleted, went_back, state.expand_isr())
        };
        // It may be a fetch that came late, on a connection that its follower gave up. The
        // follower's session does not look at a quiet partition: now it does, once.
        if moved.is_some() || went_back {
            self.tell_everyone();
        } else if has_deleted {
            // Deletions of records wait there.
            self.produce_waiters.check();
        }
        Ok(proposal)
    }

    /// Looks at which followers keep up. Returns the in-sync replicas to propose, if they change.
    pub fn look_at_followers(&self, now_ms: u64) -> Option<IsrProposal> {
        let waiters = &self.fetch_waiters;
        let quiet_ms = |id| waiters.caught_up_ms(id).and_then(|ms| u64::try_from(ms).ok());
        let (moved, proposal) = {
            let mut state = self.state.lock();
            if !state.is_leader() || !state.has_followers() {
                return None;
            }
            let lives = |id, epoch| self.brokers.lives(id, epoch);
            let moved = state.look_at_lag((now_ms, self.max_lag_ms), quiet_ms, lives);
            self.publish(&state);
            let shrunk = state.shrink_isr(now_ms, self.max_lag_ms);
            (moved, shrunk.or_else(|| state.expand_isr()))
        };
        if moved.is_some() {
            self.tell_everyone();
        }
        proposal
    }

    /// Where the logs of all replicas on brokers that are alive start, at least: what is before was
    /// deleted everywhere. -1 as long as one of them is not known.
    ///
    /// # Errors
    /// This broker does not lead it, or its log directory failed.
    pub fn low_watermark(&self, is_alive: impl Fn(i32) -> bool) -> Result<Offset, ErrorCode> {
        if self.is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let start = self.log_start_offset();
        let state = self.state.lock();
        state.check_leader(LeaderEpoch::UNKNOWN)?;
        Ok(state.lowest_start(start, is_alive))
    }

    /// What a batch that ends at `end` lacks yet.
    #[must_use]
    pub fn lacking(&self, end: Offset) -> Unsafe {
        let state = self.state.lock();
        Unsafe {
            topic: self.topic_name(),
            partition: self.index(),
            end_offset: end.0,
            high_watermark: state.high_watermark().0,
            leader_end: state.local_end().0,
            is_under_min: state.is_under_min(),
            followers: state.lacking(end),
        }
    }

    /// The controller refused the proposal, and will refuse it again.
    pub fn isr_refused(&self, proposal: &IsrProposal) {
        let moved = {
            let mut state = self.state.lock();
            let moved = state.isr_refused(proposal);
            self.publish(&state);
            moved
        };
        if moved.is_some() {
            self.tell_everyone();
        }
    }

    /// Whether the newest image has a replica among those in sync.
    #[must_use]
    pub fn is_in_sync(&self, id: i32) -> bool {
        self.state.lock().is_in_sync(id)
    }

    /// Whether this broker leads it.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.state.lock().is_leader()
    }

    /// How far its followers are, all at one moment: `each` is called with every one of them.
    /// `None` if this broker does not lead it.
    pub fn replication(&self, each: impl FnMut(FollowerEnd)) -> Option<LeaderEnd> {
        self.state.lock().replication(each)
    }

    /// Whether this broker leads it and others follow.
    #[must_use]
    pub fn is_led_with_followers(&self) -> bool {
        let state = self.state.lock();
        state.is_leader() && state.has_followers()
    }

    /// The leader's log starts at `start`: records before it go here as well, as far as they are
    /// committed.
    ///
    /// # Errors
    /// A full or failing disk.
    pub fn follow_log_start(&self, start: Offset, now_ms: i64) -> Result<(), LogError> {
        let start = start.min(self.high_watermark());
        if start > self.log_start_offset() {
            self.log.delete_records(start, now_ms)?;
            self.fetch_waiters.check();
        }
        Ok(())
    }
}
