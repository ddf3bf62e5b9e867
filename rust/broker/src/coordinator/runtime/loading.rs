//! How a context comes to its state: reads the log to its end, and waits until that is committed.
//!
//! Not only to the high watermark: a leader that is new learns late how far that is, and would go
//! back to older commits. And not before all of it is committed: what was read could be lost again,
//! and a member would hold an assignment that the next coordinator gives to another one.

use std::sync::Arc;

use kafkalite_protocol::{ErrorCode, Offset};

use super::StateMachine;
use super::context::{Context, Item, Phase};
use super::replay::Replay;
use crate::error::panics;
use crate::partitions::CommitStatus;

/// Between the first two attempts, in ms; then twice as long, and so on.
const FIRST_RETRY_MS: u64 = 1_000;
/// Between any two of them.
const LAST_RETRY_MS: u64 = 60_000;

impl<S: StateMachine> Context<S> {
    /// Begins to load: at once if there is nothing to read, else on the thread for that.
    pub fn begin(&self) {
        let (start, end) = self.log.bounds();
        if start >= end {
            return self.load();
        }
        let Some(me) = self.me.upgrade() else { return };
        let load = Box::new(move || Arc::as_ref(&me).load());
        if let Err(error) = (self.shared.config.execute)(load) {
            tracing::error!(%error, "no thread to load a coordinator");
            self.load_failed(ErrorCode::UnknownServerError);
        }
    }

    fn load(&self) {
        let (start, end) = self.log.bounds();
        // A partition that is neither loaded nor tried again would be loading for ever.
        let read = panics::contain("loading a coordinator", || self.read(start, end));
        match (read.unwrap_or(Err(ErrorCode::UnknownServerError)), self.log.commit_status(start)) {
            (Ok(state), _) => self.push(Item::Loaded(Box::new(state), end)),
            // A follower may truncate what is read: that is no damage.
            (Err(_), CommitStatus::Lost(error)) | (Err(error), _) => self.load_failed(error),
        }
    }

    fn read(&self, start: Offset, end: Offset) -> Result<S, ErrorCode> {
        let config = &self.shared.config;
        let mut replay = Replay::new(config.topic, (self.shared.new_state)());
        let mut from = None;
        while from.unwrap_or(start) < end {
            if self.phase() == Phase::Closed {
                return Err(ErrorCode::NotCoordinator);
            }
            let bytes = self.log.read(from, end)?;
            if bytes.is_empty() {
                break;
            }
            from = replay.read(&bytes, from)?;
        }
        Ok(replay.into_state())
    }

    /// Takes the state in when all of its records are committed.
    pub(super) fn settle_load(&self, state: Box<S>, end: Offset) {
        match self.log.commit_status(end) {
            CommitStatus::Committed => {
                tracing::debug!(
                    topic = self.shared.config.topic,
                    partition = self.index,
                    epoch = self.epoch.0,
                    "coordinator is loaded"
                );
                self.activate(*state);
            }
            CommitStatus::Pending => self.watch(end, Item::Loaded(state, end)),
            CommitStatus::Lost(error) => self.load_failed(error),
        }
    }

    /// Tries again after a while. The reason is logged once, as long as it stays the same.
    fn load_failed(&self, error: ErrorCode) {
        if matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition) {
            // The epoch is over; another one has a context of its own.
            return self.close();
        }
        let is_damaged = error == ErrorCode::CorruptMessage;
        let (is_news, attempts) = {
            let mut inner = self.inner.lock();
            if matches!(inner.phase, Phase::Closed | Phase::Active) {
                return;
            }
            inner.phase = if is_damaged { Phase::Damaged } else { Phase::Failed };
            let is_news = inner.failed.0.replace(error) != Some(error);
            inner.failed.1 += 1;
            (is_news, inner.failed.1)
        };
        if is_news {
            let (topic, partition) = (self.shared.config.topic, self.index);
            let error = error.name();
            tracing::error!(topic, partition, error, "coordinator cannot be loaded");
        }
        if !is_damaged {
            let wait_ms = FIRST_RETRY_MS.saturating_mul(1 << (attempts - 1).min(16));
            self.later(wait_ms.min(LAST_RETRY_MS), Self::begin);
        }
    }
}
