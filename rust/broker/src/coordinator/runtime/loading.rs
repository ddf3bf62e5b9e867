//! How a context comes to its state: reads the log to its end, and waits until that is committed.
//!
//! The high watermark is no good end for a load: a new leader learns it late, and would go back to
//! older commits. All records that were read have to be committed before the load counts. Otherwise
//! they could be lost, and the next coordinator would give a member's assignment to another member.

use std::sync::Arc;

use kafkalite_protocol::{ErrorCode, Offset};

use super::context::{Context, Item, Phase};
use super::replay::Replay;
use super::{Load, StateMachine};
use crate::error::panics;
use crate::partitions::CommitStatus;

/// Between the first two attempts, in ms; then twice as long, and so on.
const FIRST_RETRY_MS: u64 = 1_000;
/// Between any two of them.
const LAST_RETRY_MS: u64 = 60_000;

/// How far a log was read.
struct Reading<S> {
    start: Offset,
    end: Offset,
    /// Where the next read begins; `None` is the log's start.
    from: Option<Offset>,
    replay: Replay<S>,
}

impl<S: StateMachine> Reading<S> {
    fn new(context: &Context<S>) -> Self {
        let (start, end) = context.log.bounds();
        let shared = &context.shared;
        let replay = Replay::new(shared.config.topic, (shared.new_state)());
        Self { start, end, from: None, replay }
    }

    fn is_at_end(&self) -> bool {
        self.from.unwrap_or(self.start) >= self.end
    }
}

/// A load of this context, which was not begun.
fn load<S: StateMachine>(context: Arc<Context<S>>) -> Load {
    let mut reading = None;
    Box::new(move || context.read_on(&mut reading))
}

impl<S: StateMachine> Context<S> {
    /// Begins to load: at once if there is nothing to read, else on the thread for that.
    pub fn begin(&self) {
        let (start, end) = self.log.bounds();
        let Some(me) = self.me.upgrade() else { return };
        let mut load = load(me);
        if start >= end {
            while load() {}
            return;
        }
        if let Err(error) = (self.shared.config.execute)(load) {
            tracing::error!(%error, "no thread to load a coordinator");
            self.load_failed(ErrorCode::UnknownServerError);
        }
    }

    /// Reads on; whether there is more to read.
    fn read_on(&self, reading: &mut Option<Reading<S>>) -> bool {
        // A partition that is neither loaded nor tried again would never finish loading.
        let read = panics::contain("loading a coordinator", || self.read(reading));
        match read.unwrap_or(Err(ErrorCode::UnknownServerError)) {
            Ok(None) => return true,
            Ok(Some(Reading { replay, end, .. })) => {
                self.push(Item::Loaded(Box::new(replay.into_state()), end));
            }
            Err(error) => self.load_failed(match self.log.commit_status(Offset::ZERO) {
                // A follower may truncate what is read: that is no damage.
                CommitStatus::Lost(over) => over,
                CommitStatus::Pending | CommitStatus::Committed => error,
            }),
        }
        false
    }

    /// Takes in what one read gives. All of it is given back when there is no more.
    fn read(&self, reading: &mut Option<Reading<S>>) -> Result<Option<Reading<S>>, ErrorCode> {
        let mut now = reading.take().unwrap_or_else(|| Reading::new(self));
        if now.is_at_end() {
            return Ok(Some(now));
        }
        if self.phase() == Phase::Closed {
            return Err(ErrorCode::NotCoordinator);
        }
        let bytes = self.log.read(now.from, now.end)?;
        if bytes.is_empty() {
            return Ok(Some(now));
        }
        now.from = now.replay.read(&bytes, now.from)?;
        *reading = Some(now);
        Ok(None)
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
