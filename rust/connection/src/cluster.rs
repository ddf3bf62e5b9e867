//! The cluster as a client sees it: brokers, topics, who leads what, and a connection to each.
//!
//! - `image` is what was last learned, swapped as a whole; reading it takes no lock
//! - `metadata` asks for it again: callers who want news share one request, and no topic is asked
//!   for more often than `retry.backoff.ms` allows
//! - `reach` finds any broker that answers; connections to brokers with an id are the pool's
//! - `coordinators` remembers which broker looks after which group
//! - `suspects` are brokers whose answers led nowhere: others are asked before them
//! - `silence` ends what waits for a broker that does not answer and was replaced
//!
//! A cluster is made without I/O; its futures run on a tokio runtime, that of the first call.

mod coordinators;
mod image;
mod metadata;
mod reach;
mod schedule;
mod silence;
mod suspects;

use crate::address::{HostPort, NodeId};
use crate::config::ConnectionConfig;
use crate::connection::Connection;
use crate::error::ConnectionError;
use crate::pool::{Lane, Pool};
use arc_swap::ArcSwap;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::Request;
use parking_lot::Mutex;
use schedule::Schedule;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

pub use coordinators::CoordinatorKind;
pub use image::{BrokerImage, ClusterImage, LeaderNews, PartitionImage, TopicImage};
pub use schedule::Wanted;
pub use silence::Silence;

/// One cluster; clones are the same one.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    config: Arc<ConnectionConfig>,
    image: ArcSwap<ClusterImage>,
    /// Held while a new image is made of the old one.
    image_change: Mutex<()>,
    /// Gets the generation of every new image.
    images: watch::Sender<u64>,
    pool: Pool,
    reach: reach::Reach,
    schedule: Mutex<Schedule>,
    /// The pending batch of the schedule grew.
    wanted: Notify,
    answered: watch::Sender<metadata::Answered>,
    coordinators: Mutex<coordinators::Coordinators>,
    suspects: Mutex<suspects::Suspects>,
    /// Where a test wants another one than usual.
    patience: OnceLock<Duration>,
    runtime: OnceLock<Handle>,
    /// Whether any broker ever answered.
    reached: AtomicBool,
    /// Whether the task that refreshes old metadata runs.
    keeper: AtomicBool,
}

impl Cluster {
    /// A cluster of which nothing is known but `bootstrap.servers`. No I/O happens.
    pub fn new(config: ConnectionConfig) -> Self {
        let config = Arc::new(config);
        Self(Arc::new(Inner {
            image: ArcSwap::from_pointee(ClusterImage::default()),
            image_change: Mutex::new(()),
            images: watch::Sender::new(0),
            pool: Pool::new(Arc::clone(&config)),
            reach: reach::Reach::new(),
            schedule: Mutex::new(Schedule::new(config.retry_backoff)),
            wanted: Notify::new(),
            answered: watch::Sender::default(),
            coordinators: Mutex::default(),
            suspects: Mutex::default(),
            patience: OnceLock::new(),
            runtime: OnceLock::new(),
            reached: AtomicBool::new(false),
            keeper: AtomicBool::new(false),
            config,
        }))
    }

    /// How it was configured.
    pub fn config(&self) -> &ConnectionConfig {
        &self.0.config
    }

    /// What was last learned of it.
    pub fn image(&self) -> Arc<ClusterImage> {
        self.0.image.load_full()
    }

    /// Told the generation of every new image.
    pub fn images(&self) -> watch::Receiver<u64> {
        self.0.images.subscribe()
    }

    /// Whether any broker has ever answered: until then `NoBrokerReachable` is worth reporting at
    /// once, later it is worth waiting.
    pub fn was_reached(&self) -> bool {
        self.0.reached.load(Ordering::Relaxed)
    }

    /// The topic `name`, asked for until it is known, every partition of it listed. It may be
    /// created by that, as configured.
    ///
    /// Fails with
    /// - case A: `NoBrokerReachable` at once when no broker was ever reached
    /// - case B: the broker's refusal at once where waiting cannot help
    /// - case C: what the last try said, `UNKNOWN_TOPIC_OR_PARTITION` for one, at `deadline`
    /// - case D: `Timeout` at `deadline`, if no broker answered for the topic
    pub async fn topic(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<Arc<TopicImage>, ConnectionError> {
        let began = Instant::now();
        loop {
            let names = [name];
            let asked = self.look_up(&names);
            let late = match tokio::time::timeout_at(deadline.into(), asked).await {
                Ok(Ok(image)) => match image.topic(name) {
                    Some(topic) => return Ok(Arc::clone(topic)),
                    None => Err(image.topic_error(name)),
                },
                Ok(Err(error)) => Err(error),
                Err(_) => Ok(()),
            };
            let error = match late {
                Err(error) if !error.is_retriable() => return Err(error),
                Err(error @ ConnectionError::NoBrokerReachable { .. }) if !self.was_reached() => {
                    return Err(error);
                }
                Err(error) => error,
                Ok(()) => self.0.image.load().refusal(name).unwrap_or_else(|| {
                    let after_ms = began.elapsed().as_millis() as u64;
                    let what = format!("the metadata of topic {name}");
                    ConnectionError::Timeout { what, after_ms }
                }),
            };
            if Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    /// The program names these topics, so a request for them may create them as configured, even
    /// after they were deleted. Without this call only topics that were never known are created. So
    /// a deleted topic does not come back because a client refreshes its metadata.
    pub fn named<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        self.0.change_image(|image| image.named(names));
    }

    /// The connection to a broker, made if there is none.
    pub async fn connection(&self, node: NodeId) -> Result<Arc<Connection>, ConnectionError> {
        self.connection_on(node, Lane::Data).await
    }

    /// The same on a lane: what waits long on one, a fetch, holds up nothing on another.
    pub async fn connection_on(
        &self,
        node: NodeId,
        lane: Lane,
    ) -> Result<Arc<Connection>, ConnectionError> {
        self.while_alive(node, self.connect(node, lane)).await
    }

    async fn connect(&self, node: NodeId, lane: Lane) -> Result<Arc<Connection>, ConnectionError> {
        self.enter();
        let place = match self.0.image.load().broker(node) {
            Some(broker) => broker.place.clone(),
            None => {
                // Another broker may lead its partitions now.
                let image = self.refresh(Wanted::Known).await?;
                let about = || format!("broker {node} of {} known ones", image.brokers().count());
                image.broker(node).map(|broker| broker.place.clone()).ok_or_else(|| {
                    ConnectionError::refused(ErrorCode::BrokerNotAvailable, about())
                })?
            }
        };
        let connection = self.0.pool.connection(node, lane, &place).await;
        match &connection {
            Ok(_) => self.0.reached.store(true, Ordering::Relaxed),
            // Perhaps it moved, or is gone.
            Err(_) => self.request_refresh(),
        }
        connection
    }

    /// The connection to any broker, that with the fewest requests under way; all known addresses
    /// are tried for `kafkalite.bootstrap.timeout.ms`, then it is `NoBrokerReachable`.
    pub async fn any_connection(&self) -> Result<Arc<Connection>, ConnectionError> {
        self.enter();
        let connection = self.reach_any().await?;
        self.0.reached.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// Sends a request to a broker and waits for its answer, `request.timeout.ms` at most, and no
    /// longer than it is in the cluster.
    pub async fn send<R: Request>(
        &self,
        node: NodeId,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(i16, R::Response), ConnectionError> {
        self.send_on(node, Lane::Data, self.0.config.request_timeout, build).await
    }

    /// The same on a lane, with a timeout of its own.
    pub async fn send_on<R: Request>(
        &self,
        node: NodeId,
        lane: Lane,
        timeout: Duration,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(i16, R::Response), ConnectionError> {
        let answer = async {
            let connection = self.connect(node, lane).await?;
            connection.send_with(i16::MAX, timeout, build).await
        };
        self.after(self.while_alive(node, answer).await)
    }

    /// Sends a request that must not be carried out twice to any broker, and waits as
    /// [`Cluster::send`]. Others are for [`Cluster::send_to_some`].
    pub async fn send_any<R: Request>(
        &self,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(i16, R::Response), ConnectionError> {
        let connection = self.any_connection().await?;
        let (image, answer) = (self.image(), connection.send(build));
        match image.brokers().find(|broker| connection.leads_to(&broker.place)) {
            Some(broker) => self.after(self.while_alive(broker.id, answer).await),
            None => self.after(answer.await),
        }
    }

    /// A connection that failed may mean that a broker is gone: look who leads now.
    fn after<T>(&self, result: Result<T, ConnectionError>) -> Result<T, ConnectionError> {
        if result.as_ref().is_err_and(ConnectionError::is_transport) {
            self.request_refresh();
        }
        result
    }

    /// Takes over what an answer said of a partition's leader (KIP-951); older epochs are ignored.
    pub fn learn_leader(&self, news: &LeaderNews<'_>) {
        self.0.change_image(|image| image.with_leader(news));
    }

    /// Closes all connections; calls under way fail with `Disconnected`. Later ones connect again.
    pub fn disconnect(&self) {
        self.0.pool.close_all();
        self.0.reach.forget();
    }

    /// Remembers the runtime of the first call, for calls that come from elsewhere.
    fn enter(&self) {
        if self.0.runtime.get().is_none()
            && let Ok(handle) = Handle::try_current()
        {
            let _ = self.0.runtime.set(handle);
        }
    }

    /// Where all configured addresses are.
    fn bootstrap(&self) -> &[HostPort] {
        &self.0.config.bootstrap_servers
    }
}

impl Inner {
    /// Makes a new image of the old one; `None` leaves it.
    fn change_image(&self, change: impl FnOnce(&ClusterImage) -> Option<ClusterImage>) {
        let changing = self.image_change.lock();
        let Some(next) = change(&self.image.load()) else { return };
        let generation = next.generation();
        self.image.store(Arc::new(next));
        drop(changing);
        self.images.send_replace(generation);
    }
}

#[cfg(test)]
mod tests;
