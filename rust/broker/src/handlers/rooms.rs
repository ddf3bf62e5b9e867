//! The rooms a handler may enter.

use super::init_producer_id::ProducerIds;
use crate::client_metrics::ClientMetrics;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cold_reads::ColdReads;
use crate::config::BrokerConfig;
use crate::coordinator::GroupCoordinator;
use crate::fetch_sessions::FetchSessions;
use crate::metadata::Controller;
use crate::metrics::{Counter, Metrics};
use crate::partitions::ReplicaManager;
use crate::purgatory::Purgatory;
use crate::replication::ReplicaFetchers;
use crate::request_queue::{Parked, RequestQueue};
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Built once by `broker.rs`; every handler gets it by reference.
pub struct Rooms {
    /// What the files, the environment and the flags said, and what was altered since.
    pub config: Arc<ArcSwap<BrokerConfig>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The control plane.
    pub controller: Arc<Controller>,
    /// This broker among others.
    pub cluster: Arc<Cluster>,
    /// The replicas on this broker.
    pub partitions: Arc<ReplicaManager>,
    /// What keeps those of them up that follow.
    pub fetchers: Arc<ReplicaFetchers>,
    /// The groups it coordinates.
    pub groups: Arc<GroupCoordinator>,
    /// What clients report of themselves.
    pub client_metrics: Arc<ClientMetrics>,
    /// Runs what must not run on the thread of a connection.
    pub requests: Arc<RequestQueue>,
    /// Memory of requests that wait.
    pub parked: Arc<Parked>,
    /// Fetches that wait for records.
    pub fetches: Arc<Purgatory>,
    /// Produces that wait for replicas or the disk.
    pub produces: Arc<Purgatory>,
    /// Requests that wait for a change of metadata.
    pub changes: Arc<Purgatory>,
    /// Reads what left the page cache before it is sent.
    pub cold_reads: Arc<ColdReads>,
    /// What clients know already.
    pub sessions: FetchSessions,
    /// Partitions that fetches looked at.
    pub looked_at: Counter,
    /// Ids for idempotent producers.
    pub producer_ids: Arc<ProducerIds>,
}

impl Drop for Rooms {
    /// The committer's thread holds the partitions: a broker whose start fails must not leave it.
    fn drop(&mut self) {
        self.partitions.committer().stop();
    }
}

impl Rooms {
    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<BrokerConfig> {
        self.config.load_full()
    }

    /// A random number; not for secrets.
    #[must_use]
    pub fn random_i32(&self) -> i32 {
        let mut bytes = [0; 4];
        // Without entropy at hand a session's id need only be free, and that is looked after.
        let _ = getrandom::fill(&mut bytes);
        i32::from_ne_bytes(bytes)
    }
}
