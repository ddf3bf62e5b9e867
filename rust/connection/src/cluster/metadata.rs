//! Asking for metadata: one task at a time works through the schedule; callers wait for tickets.

use super::schedule::{Batch, Next, Told, Wanted};
use super::{Cluster, ClusterImage, Inner, TopicImage};
use crate::address::HostPort;
use crate::connection::Connection;
use crate::error::ConnectionError;
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// From this version on, that of Kafka 2.4, leader epochs can be relied upon.
const EPOCHS_FROM: i16 = 9;

/// Kafka's code for "begin again with the bootstrap servers" (KIP-1102).
const REBOOTSTRAP: ErrorCode = ErrorCode::RebootstrapRequired;

/// The results of the batches of questions, by their tickets.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// The last one that has its answer.
    good: u64,
    /// The last one that failed, and the reason.
    failed: Option<(u64, ConnectionError)>,
}

impl Answered {
    /// The result of the batch with this ticket; `None` before it has one. A good answer to a later
    /// batch answers this one as well. A failure of a later one says nothing of it.
    fn result(&self, ticket: u64) -> Option<Result<(), ConnectionError>> {
        if self.good >= ticket {
            return Some(Ok(()));
        }
        let (failed, error) = self.failed.as_ref()?;
        (*failed >= ticket).then(|| Err(error.clone()))
    }
}

impl Cluster {
    /// Asks for `wanted` and returns the image that answers it; an error is that of the way to the
    /// cluster. Whether a topic is known stands in the image.
    pub async fn refresh(&self, wanted: Wanted) -> Result<Arc<ClusterImage>, ConnectionError> {
        self.enter();
        let mut answered = self.0.answered.subscribe();
        let ticket = self.want(wanted);
        loop {
            let result = answered.borrow_and_update().result(ticket);
            if let Some(result) = result {
                return result.map(|()| self.image());
            }
            answered.changed().await.expect("this cluster holds the sender");
        }
    }

    /// The image once it has all these topics, or the one that answers the request for them. A
    /// request in flight may answer this one too, so no caller waits for the next.
    pub async fn look_up(&self, names: &[&str]) -> Result<Arc<ClusterImage>, ConnectionError> {
        let mut images = self.images();
        let asked = self.refresh(Wanted::Topics(names.iter().map(ToString::to_string).collect()));
        tokio::pin!(asked);
        loop {
            images.borrow_and_update();
            let image = self.image();
            if names.iter().all(|name| image.topic(name).is_some()) {
                return Ok(image);
            }
            tokio::select! {
                told = &mut asked => return told,
                _ = images.changed() => {}
            }
        }
    }

    /// Asks for everything known once more, soon, and does not wait for it.
    pub fn request_refresh(&self) {
        self.enter();
        self.want(Wanted::Known);
    }

    /// Adds a wish and starts the task that works through the schedule.
    fn want(&self, wanted: Wanted) -> u64 {
        let (ticket, start) = {
            let mut schedule = self.0.schedule.lock();
            let ticket = schedule.want(wanted);
            // Without a runtime the task cannot start; the next call with one starts it.
            let start = !schedule.driven && self.0.runtime.get().is_some();
            schedule.driven |= start;
            (ticket, start)
        };
        self.0.wanted.notify_one();
        if start && let Some(runtime) = self.0.runtime.get() {
            runtime.spawn(drive(Arc::clone(&self.0)));
        }
        ticket
    }
}

/// Works through the schedule until nothing is wanted.
async fn drive(inner: Arc<Inner>) {
    let cluster = Cluster(inner);
    loop {
        let next = {
            let mut schedule = cluster.0.schedule.lock();
            let next = schedule.next(Instant::now());
            schedule.driven = next != Next::Idle;
            next
        };
        match next {
            Next::Idle => return,
            Next::At(due) => {
                tokio::select! {
                    () = tokio::time::sleep_until(due.into()) => {}
                    () = cluster.0.wanted.notified() => {}
                }
            }
            Next::Ask(batch) => {
                let error = cluster.ask(&batch).await.err();
                let image = cluster.image();
                cluster.0.schedule.lock().answered(&batch, Instant::now(), |name| match &error {
                    Some(_) => Told::Nothing,
                    None if is_served(&image, name) => Told::Good,
                    None => Told::NotYet,
                });
                cluster.0.answered.send_modify(|answered| match error {
                    None => answered.good = batch.ticket,
                    Some(error) => answered.failed = Some((batch.ticket, error)),
                });
                cluster.keep_fresh();
            }
        }
    }
}

/// Whether a topic, or every one that is known, has a leader for each of its partitions.
fn is_served(image: &ClusterImage, name: Option<&str>) -> bool {
    let led = |topic: &TopicImage| topic.partitions.iter().all(|each| each.leader.is_some());
    match name {
        Some(name) => image.peek(name).is_some_and(led),
        None => image.topics().all(|topic| led(topic)),
    }
}

impl Cluster {
    /// Asks any broker for a batch, and another one while it does not answer. Where the way fails
    /// it goes on for as long as the cluster may take to be reached.
    async fn ask(&self, batch: &Batch) -> Result<(), ConnectionError> {
        let deadline = Instant::now() + self.0.config.bootstrap_timeout;
        let mut failures = 0;
        loop {
            tokio::time::sleep(self.0.config.retry_backoff.after(failures)).await;
            failures += 1;
            let (cluster, batch) = (self.clone(), Arc::new(batch.clone()));
            let ask = move |connection: Arc<Connection>| {
                let (cluster, batch) = (cluster.clone(), Arc::clone(&batch));
                async move { cluster.ask_over(&connection, &batch).await }
            };
            let first = match self.doubted_connection() {
                Some(open) => open,
                None => self.any_connection().await?,
            };
            match self.at_some_from(first, ask).await {
                Err(error) if error.code() == Some(REBOOTSTRAP) && Instant::now() < deadline => {
                    self.0.change_image(ClusterImage::without_brokers);
                    self.disconnect();
                }
                Err(error) if error.is_transport() && Instant::now() < deadline => {
                    tracing::debug!(%error, "metadata from another broker");
                }
                result => return result,
            }
        }
    }

    /// A living connection to a broker that others contradicted, see [`ClusterImage::doubted`].
    fn doubted_connection(&self) -> Option<Arc<Connection>> {
        let image = self.image();
        image.doubted(Instant::now()).find_map(|node| self.0.pool.living(node))
    }

    /// Asks one broker for a batch. A connection whose answer is of no use ends.
    async fn ask_over(
        &self,
        connection: &Connection,
        batch: &Batch,
    ) -> Result<(), ConnectionError> {
        let result = self.ask_parts(connection, batch).await;
        if result.as_ref().is_err_and(ConnectionError::is_transport) {
            connection.close("its answer was of no use");
        }
        result
    }

    /// Whether topics may be created is said once for a whole request, so those that may are asked
    /// for by themselves.
    async fn ask_parts(
        &self,
        connection: &Connection,
        batch: &Batch,
    ) -> Result<(), ConnectionError> {
        let image = self.image();
        let mut names: BTreeSet<&str> = batch.topics.iter().map(String::as_str).collect();
        if batch.known {
            names.extend(image.topics().map(|topic| topic.name.as_str()));
        }
        let creates = self.0.config.allow_auto_create_topics && !batch.all;
        let (new, others): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| creates && image.may_be_created(name));
        let mut asked = Vec::new();
        if !others.is_empty() || new.is_empty() {
            let all = batch.all;
            asked.push(connection.send(|version| request(&others, all, false, version)));
        }
        if !new.is_empty() {
            asked.push(connection.send(|version| request(&new, false, true, version)));
        }
        for reply in asked {
            let (version, response) = reply.await?;
            self.take(batch, connection, version, response)?;
        }
        Ok(())
    }

    /// Makes the next image of an answer.
    fn take(
        &self,
        batch: &Batch,
        from: &Connection,
        version: i16,
        mut response: MetadataResponse,
    ) -> Result<(), ConnectionError> {
        ConnectionError::check(response.error_code, None, || "Metadata".to_owned())?;
        if version < EPOCHS_FROM {
            forget_epochs(&mut response);
        }
        if response.brokers.is_empty() {
            let about = "the answer lists no broker".to_owned();
            return Err(ConnectionError::refused(ErrorCode::BrokerNotAvailable, about));
        }
        let leads_there = |broker: &&MetadataResponseBroker| {
            HostPort::from_wire(&broker.host, broker.port).is_some_and(|it| from.leads_to(&it))
        };
        let teller = response.brokers.iter().find(leads_there).map(|broker| broker.node_id);
        let mut wrong = None;
        self.0.change_image(|image| {
            let next = image.after(response, batch.all, teller, Instant::now());
            next.map_err(|why| wrong = Some(why)).ok()
        });
        if let Some(why) = wrong {
            let address = "an answer to Metadata".to_owned();
            return Err(ConnectionError::MalformedResponse { address, why });
        }
        self.adopt_bootstrap_connection();
        Ok(())
    }

    /// Starts the task that asks again when what is known is `metadata.max.age.ms` old.
    fn keep_fresh(&self) {
        let age = self.0.config.metadata_max_age;
        let kept = self.0.keeper.swap(true, Ordering::Relaxed);
        if !kept && !age.is_zero() {
            tokio::spawn(keep(Arc::downgrade(&self.0), age));
        }
    }
}

/// A question about these topics, or about all.
fn request(names: &[&str], all: bool, creates: bool, version: i16) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).to_owned()),
        ..MetadataRequestTopic::default()
    };
    // In version 0 an empty list means all.
    let all = all || (version == 0 && names.is_empty());
    MetadataRequest {
        topics: (!all).then(|| names.iter().map(topic).collect()),
        allow_auto_topic_creation: creates,
        ..MetadataRequest::default()
    }
}

/// Leaves out the leader epochs, of which a broker before [`EPOCHS_FROM`] may tell old ones as new.
fn forget_epochs(response: &mut MetadataResponse) {
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.leader_epoch = LeaderEpoch::UNKNOWN.0;
    }
}

/// Asks again every `age`, for topics that callers still use; ends with the cluster.
async fn keep(inner: Weak<Inner>, age: Duration) {
    loop {
        tokio::time::sleep(age).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.change_image(|image| image.used(inner.config.metadata_max_idle, Instant::now()));
        Cluster(inner).want(Wanted::Known);
    }
}
