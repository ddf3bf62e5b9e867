//! What a consumer's tasks and its callers share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_connection::{Cluster, ClusterImage};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::config::{AutoOffsetReset, ConsumerConfig};
use crate::consumer::fetched::buffer::FetchBuffer;
use crate::consumer::group_state::{GroupEvent, GroupMember};
use crate::consumer::subscription::{EARLIEST, LATEST, LeaderAndEpoch, Status, Subscription, Wish};
use crate::error::ClientError;

/// Most errors that are kept until a call takes them.
const MAX_ERRORS: usize = 16;

/// Both sides of a consumer hold it.
pub struct Shared {
    /// How it was configured.
    pub(crate) config: ConsumerConfig,
    /// The cluster it reads from.
    pub(crate) cluster: Cluster,
    /// What it reads.
    pub(crate) subscription: Mutex<Subscription>,
    /// What was fetched.
    pub(crate) buffer: FetchBuffer,
    /// Its place in its group; `None` without one.
    pub(crate) member: Option<Mutex<GroupMember>>,
    /// Tells the task that finds positions to look again.
    pub(crate) settle: Notify,
    /// Tells the task that fetches to look again.
    pub(crate) fetch: Notify,
    /// Tells the task of the group to look again.
    pub(crate) group: Notify,
    /// Commits go out one after the other, so that none overtakes a later one.
    pub(crate) commits: tokio::sync::Mutex<()>,
    /// How many commits of partitions that were taken away by hand are under way.
    pub(crate) last_commits: watch::Sender<usize>,
    /// Told whenever positions were looked for.
    pub(crate) settled: watch::Sender<u64>,
    errors: Mutex<VecDeque<ClientError>>,
    called: AtomicBool,
    /// Whether a listener wants to see changes of partitions.
    listened_to: AtomicBool,
    /// Partitions were lost, and the user made no call since that reads.
    lost: AtomicBool,
    closed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(config: ConsumerConfig, member: Option<GroupMember>) -> Arc<Self> {
        Arc::new(Self {
            cluster: Cluster::new(config.client.connection.clone()),
            config,
            subscription: Mutex::default(),
            buffer: FetchBuffer::default(),
            member: member.map(Mutex::new),
            settle: Notify::new(),
            fetch: Notify::new(),
            group: Notify::new(),
            commits: tokio::sync::Mutex::default(),
            last_commits: watch::Sender::new(0),
            settled: watch::Sender::new(0),
            errors: Mutex::default(),
            called: AtomicBool::new(false),
            listened_to: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Something about partitions changed: all tasks look again.
    pub(crate) fn look_again(&self) {
        self.settle.notify_one();
        self.fetch.notify_one();
    }

    /// Where partitions without a committed offset begin; `None` for nowhere.
    pub(crate) fn reset_timestamp(&self) -> Option<i64> {
        match self.config.auto_offset_reset {
            AutoOffsetReset::Earliest => Some(EARLIEST),
            AutoOffsetReset::Latest => Some(LATEST),
            AutoOffsetReset::None => None,
        }
    }

    /// What a partition begins with that was assigned just now.
    pub(crate) fn start(&self) -> Status {
        if self.config.group_id.is_some() {
            return Status::Committed;
        }
        self.reset_timestamp().map_or(Status::NoPosition, |timestamp| Status::Reset { timestamp })
    }

    /// Tells the next caller of `error`; the same is not told twice in a row.
    pub(crate) fn report(&self, error: ClientError) {
        self.keep(error);
        self.buffer.call_attention();
    }

    fn keep(&self, error: ClientError) {
        tracing::debug!(%error, "kept for the next call");
        let mut errors = self.errors.lock();
        if errors.back() != Some(&error) && errors.len() < MAX_ERRORS {
            errors.push_back(error);
        }
    }

    /// Tells the next caller of errors that `find` has of partitions and topics that are read now.
    /// They are kept before anything else is asked for, and would count as errors of that.
    pub(crate) fn report_of_read(&self, find: impl FnOnce(&mut Subscription) -> Vec<ClientError>) {
        let mut subscription = self.subscription.lock();
        let found = find(&mut subscription);
        let is_news = !found.is_empty();
        found.into_iter().for_each(|error| self.keep(error));
        drop(subscription);
        if is_news {
            self.buffer.call_attention();
        }
    }

    /// Whether waiting does not mend an error: a final refusal, or that no broker was ever reached.
    /// Other errors are tried again.
    pub(crate) fn is_final(&self, error: &ClientError) -> bool {
        let no_broker = matches!(error, ClientError::NoBrokerReachable { .. });
        !error.retriable() || (no_broker && !self.cluster.was_reached())
    }

    /// Keeps for the next caller an error that waiting does not mend.
    pub(crate) fn report_unless_passing(&self, error: impl Into<ClientError>) {
        let error = error.into();
        if self.is_final(&error) {
            self.report(error);
        }
    }

    /// An error for the next caller.
    pub(crate) fn take_error(&self) -> Option<ClientError> {
        self.errors.lock().pop_front()
    }

    /// The user called just now. Costs one store, because it is called for every record.
    pub(crate) fn called(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    /// Whether the user called since this was last asked.
    pub(crate) fn was_called(&self) -> bool {
        self.called.swap(false, Ordering::Relaxed)
    }

    /// Whether the user wants to see events.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.listened_to.load(Ordering::Acquire)
    }

    pub(crate) fn set_listened_to(&self, listened_to: bool) {
        self.listened_to.store(listened_to, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Callers that wait return. Whether it was open.
    pub(crate) fn close(&self) -> bool {
        let was_open = !self.closed.swap(true, Ordering::AcqRel);
        self.buffer.call_attention();
        was_open
    }

    /// Whether what the last call handed out is of a membership that was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The user reads on, and the lost partitions belong to other members.
    pub(crate) fn reads_on(&self) {
        self.lost.store(false, Ordering::Release);
    }

    pub(crate) fn check_open(&self) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed { what: "the consumer".to_owned() });
        }
        Ok(())
    }

    /// When to try again what failed just now.
    pub(crate) fn retry_at(&self) -> Instant {
        Instant::now()
            + self.config.client.connection.retry_backoff.after(1).max(Duration::from_millis(1))
    }

    /// Makes a change of partitions real, once the listener has seen it; `member` is the one that
    /// the change came from.
    pub(crate) fn apply(&self, event: &GroupEvent, member: &GroupMember) {
        let mut subscription = self.subscription.lock();
        match event {
            // The user may have asked for something else meanwhile.
            GroupEvent::Assign(partitions) => {
                if subscription.wish().is_by_group() {
                    let held = partitions.iter().map(|one| (one.clone(), member.tenure(one)));
                    subscription.add_held(held, self.start());
                    // At once: nothing is committed for a topic that was made again meanwhile.
                    see_image(&mut subscription, &self.cluster.image(), self.start());
                }
            }
            GroupEvent::Revoke(partitions) => subscription.remove(partitions),
            GroupEvent::Lost(partitions) => {
                subscription.remove(partitions);
                self.lost.store(true, Ordering::Release);
            }
        }
        let lost = self.has_lost();
        drop(subscription);
        if lost {
            // The short way from record to record ends here.
            self.buffer.call_attention();
        }
        self.look_again();
    }

    /// Whether partitions come from metadata: topics without a group.
    pub(crate) fn reads_alone(&self) -> bool {
        self.member.is_none()
            && matches!(self.subscription.lock().wish(), Wish::Topics(_) | Wish::Pattern(_))
    }

    /// The topics that a pattern stands for now.
    pub(crate) fn matching(
        &self,
        image: &ClusterImage,
        filter: &(dyn Fn(&str) -> bool + Send + Sync),
    ) -> Vec<Arc<str>> {
        let hidden = self.config.exclude_internal_topics;
        let topics =
            image.topics().filter(|topic| !(hidden && topic.internal) && filter(&topic.name));
        topics.map(|topic| Arc::from(topic.name.as_str())).collect()
    }
}

/// Compares what is assigned with the cluster as it is known now.
pub(crate) fn see_image(subscription: &mut Subscription, image: &ClusterImage, start: Status) {
    subscription.see_topics(|name| image.topic(name).map(|topic| topic.id), start);
    subscription.see_leaders(|partition| {
        let (node, epoch) = image.leader(&partition.topic, partition.partition)?;
        Some(LeaderAndEpoch { node, epoch: epoch.0 })
    });
}

/// Sleeps until then; without a time it never wakes.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
