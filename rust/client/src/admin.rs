//! The admin client: topics, configs, records, groups, offsets and brokers, described and changed.
//!
//! A call is tried again while its error says that trying helps, up to its time limit; of several
//! things those alone that failed so. Calls about several things return one result for each, in the
//! order in which they were asked for.
//! Source: Kafka's `Admin` interface.

mod brokers;

use crate::cluster::{Cluster, Wanted};
use crate::error::ClientError;
use kafkalite_protocol::ErrorCode;
use std::future::Future;
use std::time::{Duration, Instant};

pub use brokers::{BrokerDescription, ClusterDescription};

/// An admin client; clones are the same one.
#[derive(Clone)]
pub struct Admin {
    cluster: Cluster,
}

impl Admin {
    /// One that asks `cluster`.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// The cluster it asks.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// When a call with this time limit ends; without one it has `default.api.timeout.ms`.
    fn deadline(&self, limit: Option<Duration>) -> Instant {
        let limit = limit.unwrap_or(self.cluster.config().api_timeout);
        let now = Instant::now();
        // A limit beyond what the clock can count is a year.
        now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 24 * 3_600))
    }

    /// Tries until it succeeds, fails for good, or `deadline` comes.
    async fn retry<F, T>(
        &self,
        what: &str,
        deadline: Instant,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let began = Instant::now();
        let mut failures = 0;
        let mut last = None;
        loop {
            match tokio::time::timeout_at(deadline.into(), attempt()).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) if !self.helps(&error) => return Err(error),
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
            failures += 1;
            let wait = self.cluster.config().retry_backoff.after(failures);
            if Instant::now() + wait >= deadline {
                let after_ms = began.elapsed().as_millis() as u64;
                let late = ClientError::Timeout { what: what.to_owned(), after_ms };
                return Err(last.unwrap_or(late));
            }
            if last.as_ref().and_then(ClientError::code) == Some(ErrorCode::NotController) {
                // Who it is now; what that fails with the next attempt will say.
                let _ = self.cluster.refresh(Wanted::Brokers).await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Whether the same may succeed if it is tried again soon.
    fn helps(&self, error: &ClientError) -> bool {
        use ErrorCode as E;
        match error {
            ClientError::NoBrokerReachable { .. } => self.cluster.was_reached(),
            ClientError::Broker { code, .. } => matches!(
                code,
                E::NotController
                    | E::BrokerNotAvailable
                    | E::LeaderNotAvailable
                    | E::NotLeaderOrFollower
                    | E::FencedLeaderEpoch
                    | E::UnknownLeaderEpoch
                    | E::OffsetNotAvailable
                    | E::ReplicaNotAvailable
                    | E::CoordinatorLoadInProgress
                    | E::CoordinatorNotAvailable
                    | E::NotCoordinator
                    | E::ThrottlingQuotaExceeded
                    | E::UnstableOffsetCommit
                    | E::KafkaStorageError
            ),
            error => error.is_transport(),
        }
    }
}
