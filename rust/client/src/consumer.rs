//! A consumer: what its callers see.
//!
//! Three tasks on the client's own thread do the work: `positions` finds out where to read,
//! `fetcher` fetches ahead, `group` keeps the membership. Callers take what was fetched, decode it
//! on their own thread, and see each change of partitions. No partition is given up while a caller
//! works on it, as long as the caller comes back within `max.poll.interval.ms`.
//!
//! Calls that ask a broker something are futures (`calls`): a thread waits for them with
//! [`Runtime::begin`], an event loop in its own way.
//! Source: Kafka's `KafkaConsumer`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::ConsumerConfig;
use crate::consumer::assignors::Assignor;
use crate::consumer::cursor::{Cursor, Position};
use crate::consumer::fetched::buffer::Waker;
use crate::consumer::group_state::{Action, GroupEvent, GroupMember, MemberConfig};
use crate::consumer::record_block::RecordView;
use crate::consumer::subscription::{Status, Subscription, Wish};
use crate::error::ClientError;
use crate::runtime::Runtime;
use crate::topic_partition::TopicPartition;

mod assignors;
pub mod calls;
pub mod commits;
mod coordinating;
pub mod cursor;
mod due;
mod fetched;
mod fetcher;
mod group;
pub mod group_state;
mod handout;
mod lease;
pub(crate) mod missing;
mod offsets;
pub(crate) mod positions;
pub mod record_block;
mod shared;
pub mod subscription;
#[cfg(test)]
pub(crate) mod tests;
pub mod topic_pattern;

pub use due::{Claim, Due};
pub use handout::Limits;
pub use lease::{Lease, Single};
pub use shared::Shared;

/// What a caller gets.
#[derive(Debug)]
pub enum Next<'a> {
    /// Records, handed out as far as the caller keeps them.
    Records(Lease<'a>),
    /// Something changes hands: [`Consumer::finish_event`] when the caller has seen it.
    Event(GroupEvent),
    /// Nothing came in time.
    Nothing,
}

/// A consumer of one cluster.
pub struct Consumer {
    shared: Arc<Shared>,
    runtime: Runtime,
    handout: Mutex<handout::Handout>,
}

impl Consumer {
    /// A consumer that reads nothing yet; no I/O happens.
    ///
    /// # Errors
    /// If the system gives it no thread.
    pub fn new(config: ConsumerConfig) -> Result<Self, ClientError> {
        let member = member_config(&config).map(|config| GroupMember::new(config, Instant::now()));
        let shared = Shared::new(config, member);
        let runtime = Runtime::start("kafka consumer")?;
        runtime.spawn(positions::run(Arc::clone(&shared)))?;
        runtime.spawn(fetcher::run(Arc::clone(&shared)))?;
        if shared.member.is_some() {
            runtime.spawn(group::run(Arc::clone(&shared)))?;
        }
        if shared.config.auto_commit {
            runtime.spawn(calls::commit_from_time_to_time(Arc::clone(&shared)))?;
        }
        Ok(Self { shared, runtime, handout: Mutex::default() })
    }

    /// How it was configured.
    #[must_use]
    pub fn config(&self) -> &ConsumerConfig {
        &self.shared.config
    }

    /// What its calls are made of; see `calls`.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The thread that carries its calls.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn check(&self) -> Result<(), ClientError> {
        self.runtime.check_fork()?;
        self.shared.check_open()
    }

    /// Whether the caller wants to see every [`GroupEvent`]; otherwise it sees only partitions that
    /// are given up.
    pub fn set_listened_to(&self, listened_to: bool) {
        self.shared.set_listened_to(listened_to);
    }

    /// Reads these topics, shared with the group if there is one.
    ///
    /// # Errors
    /// If partitions were assigned by hand.
    pub fn subscribe(&self, wish: Wish) -> Result<(), ClientError> {
        self.check()?;
        let mut subscription = self.shared.subscription.lock();
        if matches!(subscription.wish(), Wish::Assigned) {
            let why = "partitions were assigned by hand: unsubscribe first".to_owned();
            return Err(ClientError::IllegalState { why });
        }
        let named = match &wish {
            Wish::Topics(topics) => topics.clone(),
            _ => BTreeSet::new(),
        };
        subscription.set_wish(wish);
        drop(subscription);
        self.shared.cluster.named(named.iter().map(|name| &**name));
        self.shared.called();
        self.shared.look_again();
        self.shared.group.notify_one();
        Ok(())
    }

    /// Reads exactly these partitions, without the group's help. With automatic commits, the
    /// processed records of removed partitions are committed in the background. If such a partition
    /// is assigned again, reading goes on from there.
    ///
    /// # Errors
    /// If topics are subscribed to.
    pub fn assign(&self, partitions: &BTreeSet<TopicPartition>) -> Result<(), ClientError> {
        self.check()?;
        self.finish();
        let mut subscription = self.shared.subscription.lock();
        if subscription.wish().is_by_group() {
            let why = "topics are subscribed to: unsubscribe first".to_owned();
            return Err(ClientError::IllegalState { why });
        }
        subscription.set_wish(Wish::Assigned);
        let due = Due::taken_away(&subscription, |one| !partitions.contains(one));
        let commits = self.shared.config.auto_commit && self.shared.config.group_id.is_some();
        let last = if commits && !due.is_empty() {
            self.runtime.spawn(calls::commit_taken_away(&self.shared, due)).map(drop)
        } else {
            Ok(())
        };
        subscription.keep_only(partitions, self.shared.start());
        drop(subscription);
        self.shared.cluster.named(partitions.iter().map(|one| &*one.topic));
        self.shared.look_again();
        last
    }

    /// Reads nothing any more, and leaves the group. The caller has seen what is given up, and
    /// committed what it wanted.
    ///
    /// # Errors
    /// After a fork, or when it is closed.
    pub fn unsubscribe(&self) -> Result<(), ClientError> {
        self.check()?;
        let goodbye = self.give_everything_up("unsubscribed");
        if let Some(Action::Leave { member_id, reason }) = goodbye {
            let shared = Arc::clone(&self.shared);
            let deadline = Instant::now() + shared.config.client.connection.request_timeout;
            self.runtime
                .spawn(async move { group::leave(&shared, member_id, reason, deadline).await })?;
        }
        Ok(())
    }

    fn give_everything_up(&self, reason: &str) -> Option<Action> {
        let mut subscription = self.shared.subscription.lock();
        subscription.set_wish(Wish::Nothing);
        subscription.keep_only(&BTreeSet::new(), Status::NoPosition);
        drop(subscription);
        self.shared.buffer.clear();
        let goodbye = self.shared.member.as_ref().and_then(|member| member.lock().leave(reason));
        self.shared.group.notify_one();
        self.shared.look_again();
        goodbye
    }

    /// Waits until `deadline` for records, or for something that the caller must see.
    ///
    /// What the last call handed out is done when this one begins.
    ///
    /// # Errors
    /// What keeps it from reading and does not pass by itself; calling again goes on.
    pub fn next(&self, limits: Limits, deadline: Instant) -> Result<Next<'_>, ClientError> {
        self.check()?;
        // Another thread may be in a call: it has its turn first, and we may come too late.
        let Some(mut handout) = self.handout.try_lock_until(deadline) else {
            return Ok(Next::Nothing);
        };
        handout.finish();
        loop {
            self.shared.check_open()?;
            self.check_wish()?;
            self.shared.called();
            self.shared.reads_on();
            self.shared.buffer.take_attention();
            if let Some(event) = self.look_at_group()? {
                return Ok(Next::Event(event));
            }
            let lease = handout.take(&self.shared, limits)?;
            if !lease.is_empty() {
                return Ok(Next::Records(lease));
            }
            self.check_positions()?;
            if Instant::now() >= deadline {
                return Ok(Next::Nothing);
            }
            self.shared.buffer.wait_until(deadline);
        }
    }

    /// The next record if it lies ready: the short way for callers that go record by record.
    ///
    /// Where `make` fails, or the record is not kept, it stays the next one. `make` may call the
    /// consumer. `None` as well if that goes elsewhere: then the record is not handed out.
    pub fn next_decoded<T, E>(
        &self,
        make: impl FnOnce(&Cursor, RecordView<'_>) -> Result<T, E>,
    ) -> Option<Result<(T, Single<'_>), E>> {
        if self.runtime.check_fork_cheaply().is_err() || self.shared.buffer.has_attention() {
            return None;
        }
        self.shared.called();
        let (slice, taken) = self.handout.try_lock()?.take_decoded()?;
        let single = Single::new(&self.shared, taken);
        match make(slice.block.cursor(), slice.block.get(slice.from)) {
            Ok(made) => single.is_wanted().then_some(Ok((made, single))),
            Err(error) => {
                // It goes back by itself where another caller reads at this moment.
                if let Some(mut handout) = self.handout.try_lock() {
                    handout.put_back(&slice, single);
                }
                Some(Err(error))
            }
        }
    }

    /// What was handed out is done, as when the next call begins. It waits for no call that is
    /// under way on another thread, or around this one: what that has taken is not handed out yet.
    pub fn finish(&self) {
        self.shared.subscription.lock().finish();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Calls `waker` once when [`Consumer::next`] has something to say.
    pub fn wake_when_ready(&self, waker: Waker) {
        self.shared.buffer.wake_when_ready(waker);
    }

    /// Errors, and changes of partitions. A caller without a listener sees only partitions that are
    /// given up, so that it can commit first.
    fn look_at_group(&self) -> Result<Option<GroupEvent>, ClientError> {
        if let Some(error) = self.shared.take_error() {
            return Err(error);
        }
        let Some(member) = &self.shared.member else { return Ok(None) };
        let mut member = member.lock();
        if member.is_asleep() {
            self.shared.group.notify_one();
        }
        let event = member.show_event();
        if let Some(event @ GroupEvent::Assign(_)) = &event {
            // The partition is ours before the listener runs, so that the listener can seek in it.
            self.shared.apply(event, &member);
        }
        if let Some(code) = member.failure().filter(|_| event.is_none()) {
            let about = format!("membership in group {}", member.config().group_id);
            return Err(ClientError::broker(code, about));
        }
        drop(member);
        if let Some(GroupEvent::Revoke(gone) | GroupEvent::Lost(gone)) = &event {
            self.shared.subscription.lock().hold(gone);
            // What of these waits to be decoded no longer keeps its node from being asked.
            self.shared.fetch.notify_one();
        }
        Ok(event)
    }

    /// A caller without a subscription would never get a record.
    fn check_wish(&self) -> Result<(), ClientError> {
        match self.shared.subscription.lock().wish() {
            Wish::Nothing => {
                let why = "nothing is read: subscribe or assign first".to_owned();
                Err(ClientError::IllegalState { why })
            }
            Wish::Assigned | Wish::Topics(_) | Wish::Pattern(_) => Ok(()),
        }
    }

    /// Partitions without a position to read from are an error, in every call.
    fn check_positions(&self) -> Result<(), ClientError> {
        let lost = self.shared.subscription.lock().without_position();
        if lost.is_empty() {
            return Ok(());
        }
        let partitions = lost.iter().map(ToString::to_string).collect();
        Err(ClientError::NoOffset { partitions })
    }

    /// The caller has seen `event`: it takes effect.
    pub fn finish_event(&self, event: &GroupEvent) {
        let Some(member) = &self.shared.member else { return };
        let mut member = member.lock();
        if !matches!(event, GroupEvent::Assign(_)) {
            self.shared.apply(event, &member);
        }
        member.acknowledge();
        self.shared.group.notify_one();
    }

    /// The partitions it reads.
    #[must_use]
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.shared.subscription.lock().assigned()
    }

    /// The topics it subscribed to by name.
    #[must_use]
    pub fn subscription(&self) -> Vec<Arc<str>> {
        match self.shared.subscription.lock().wish() {
            Wish::Topics(topics) => topics.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// The partitions that are paused.
    #[must_use]
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.shared.subscription.lock().paused()
    }

    /// Stops or goes on reading partitions.
    ///
    /// # Errors
    /// If one of them is not assigned; the others are changed.
    pub fn set_paused(
        &self,
        partitions: &[TopicPartition],
        paused: bool,
    ) -> Result<(), ClientError> {
        self.for_assigned(partitions, |subscription, one| subscription.set_paused(one, paused))
    }

    /// Goes to a position.
    ///
    /// # Errors
    /// If the partition is not assigned, or the offset is negative.
    pub fn seek(&self, partition: &TopicPartition, to: Position) -> Result<(), ClientError> {
        if to.offset < 0 {
            let why = format!("{} is negative", to.offset);
            return Err(ClientError::InvalidArgument { what: "offset".to_owned(), why });
        }
        let partitions = std::slice::from_ref(partition);
        self.for_assigned(partitions, |subscription, one| subscription.seek(one, to))
    }

    /// Goes to a timestamp, or an end.
    ///
    /// # Errors
    /// If one of the partitions is not assigned; the others are moved.
    pub fn seek_to(&self, partitions: &[TopicPartition], time: i64) -> Result<(), ClientError> {
        self.for_assigned(partitions, |subscription, one| subscription.seek_to(one, time))
    }

    fn for_assigned(
        &self,
        partitions: &[TopicPartition],
        change: impl Fn(&mut Subscription, &TopicPartition) -> bool,
    ) -> Result<(), ClientError> {
        self.check()?;
        let mut subscription = self.shared.subscription.lock();
        let strange: Vec<_> = partitions
            .iter()
            .filter(|one| !change(&mut subscription, one))
            .map(ToString::to_string)
            .collect();
        drop(subscription);
        self.shared.look_again();
        self.shared.buffer.call_attention();
        if strange.is_empty() {
            return Ok(());
        }
        let why = format!("not assigned to this consumer: {}", strange.join(", "));
        Err(ClientError::IllegalState { why })
    }

    /// Records between what was handed out and the end of what can be read, as the last fetch told
    /// it; `None` before the first fetch.
    #[must_use]
    pub fn lag(&self, partition: &TopicPartition) -> Option<i64> {
        let subscription = self.shared.subscription.lock();
        let state = subscription.get(partition)?;
        let marks = state.watermarks()?;
        let end = if self.shared.config.isolation_level.code() == 1 {
            marks.last_stable
        } else {
            marks.high
        };
        Some((end - state.handed_out()?.offset).max(0))
    }

    /// Commits what was handed out, leaves the group unless it is a static member, and ends the
    /// thread. It takes `timeout` at most. With `abandon` the records of the last call are not
    /// committed.
    ///
    /// # Errors
    /// If the last commit failed; the consumer is closed anyway.
    pub fn close(&self, timeout: Duration, abandon: bool) -> Result<(), ClientError> {
        self.close_patiently(timeout, abandon, || false)
    }

    /// The same, where the caller may lose patience: `hurried` is asked now and then, and once it
    /// says so nothing is waited for any more.
    ///
    /// # Errors
    /// As of [`Consumer::close`].
    pub fn close_patiently(
        &self,
        timeout: Duration,
        abandon: bool,
        mut hurried: impl FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.runtime.check_fork()?;
        if !self.shared.close() {
            return Ok(());
        }
        let mut deadline = Instant::now() + timeout;
        if !abandon {
            self.finish();
        }
        let committed = if self.shared.config.auto_commit {
            let last = calls::commit_last(Arc::clone(&self.shared), None, deadline);
            self.runtime.call_patiently(last, &mut deadline, &mut hurried)
        } else {
            Ok(())
        };
        // Commits in the background go out first.
        let out = calls::all_commits_out(Arc::clone(&self.shared));
        let _ = self.runtime.call_patiently(out, &mut deadline, &mut hurried);
        let goodbye = self.give_everything_up("the consumer was closed");
        if let Some(Action::Leave { member_id, reason }) = goodbye {
            let shared = Arc::clone(&self.shared);
            let left = async move {
                group::leave(&shared, member_id, reason, deadline).await;
                Ok(())
            };
            // Without a goodbye the session's end does it.
            let _ = self.runtime.call_patiently(left, &mut deadline, &mut hurried);
        }
        self.shared.cluster.disconnect();
        self.runtime.shutdown(deadline.saturating_duration_since(Instant::now()));
        committed
    }
}

fn member_config(config: &ConsumerConfig) -> Option<MemberConfig> {
    let assignors = config.assignors.iter().filter_map(|name| Assignor::from_name(name));
    Some(MemberConfig {
        group_id: config.group_id.clone()?,
        instance_id: config.group_instance_id.clone(),
        assignors: assignors.collect(),
        session_timeout: config.session_timeout,
        heartbeat_interval: config.heartbeat_interval,
        max_poll_interval: config.max_poll_interval,
        retry_backoff: config.client.connection.retry_backoff,
        rack: Some(config.client_rack.clone()).filter(|rack| !rack.is_empty()),
    })
}
