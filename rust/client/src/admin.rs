//! The admin client: topics, configs, records, groups, offsets and brokers, described and changed.
//!
//! A call is tried again while its error says that trying helps, up to its time limit; of several
//! things those alone that failed so. A change that an attempt without an answer may have made is
//! looked for when the next attempt is refused for it (`doubtful`). Calls about several things
//! return one result for each, in the order in which they were asked for. A thing that is named
//! twice is asked for once.
//! Source: Kafka's `Admin` interface.

mod brokers;
mod config_values;
mod configs;
mod controller;
mod doubtful;
mod features;
mod group_offsets;
mod groups;
mod log_dirs;
mod offsets;
mod quorum;
mod reassignments;
mod topics;

use crate::config::ClientConfig;
use crate::error::ClientError;
use kafkalite_connection::Cluster;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::Request;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

pub use brokers::{BrokerDescription, ClusterDescription};
pub use configs::{ConfigChange, ConfigEntry, ConfigOperation, ConfigResource, ConfigSynonym};
pub use features::{FeatureLevels, FeatureMetadata, UpgradeType};
pub use group_offsets::{CommittedOffset, PartitionLag};
pub use groups::{GroupDescription, GroupListing, MemberDescription};
pub use log_dirs::{LogDirDescription, Replica, ReplicaDescription};
pub use offsets::{EARLIEST, LATEST, ListedOffset, MAX_TIMESTAMP};
pub use quorum::{QuorumDescription, QuorumReplica};
pub use reassignments::Reassignment;
pub use topics::{CreatedTopic, NewTopic, TopicDescription};

/// A result for each of several things, in the order in which they were asked for.
pub type Each<K, T> = Vec<(K, Result<T, ClientError>)>;

/// An admin client; clones are the same one.
#[derive(Clone)]
pub struct Admin {
    cluster: Cluster,
    /// `default.api.timeout.ms`.
    api_timeout: Duration,
}

impl Admin {
    /// One for the cluster that `config` names. No I/O happens.
    pub fn new(config: &ClientConfig) -> Self {
        let cluster = Cluster::new(config.connection.clone());
        Self { cluster, api_timeout: config.api_timeout }
    }

    /// Refuses a cluster whose brokers serve only versions of `R` before `from`.
    async fn check_serves<R: Request>(&self, from: i16) -> Result<(), ClientError> {
        let connection = self.cluster.any_connection().await?;
        match connection.versions().served(R::API_KEY) {
            Some(range) if range.max < from => Err(ClientError::UnsupportedVersion {
                address: connection.address().to_owned(),
                api: R::API_KEY.name(),
                needed: format!("versions {from}-{}", R::VERSIONS.max),
                served: Some(format!("versions {}-{}", range.min, range.max)),
            }),
            _ => Ok(()),
        }
    }

    /// The cluster it asks.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// When a call with this time limit ends; without one it has `default.api.timeout.ms`.
    fn deadline(&self, limit: Option<Duration>) -> Instant {
        let limit = limit.unwrap_or(self.api_timeout);
        let now = Instant::now();
        // A limit beyond what the clock can count is a year.
        now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 24 * 3_600))
    }

    /// Tries until success, a final error or `deadline`.
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
            self.note_late(&last);
            failures += 1;
            let wait = self.cluster.config().retry_backoff.after(failures);
            if Instant::now() + wait >= deadline {
                let after_ms = began.elapsed().as_millis() as u64;
                let late = ClientError::Timeout { what: what.to_owned(), after_ms };
                return Err(last.unwrap_or(late));
            }
            if last.as_ref().and_then(ClientError::code) == Some(ErrorCode::NotController) {
                self.look_for_controller().await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Tries all `keys` together, until each has its result or `deadline` comes. Keys with a
    /// passing error are tried again. An attempt returns a result for each of its keys. Its outer
    /// error says that the cluster was not reached, so no key has a result.
    async fn each<K, T, F>(
        &self,
        what: &str,
        deadline: Instant,
        keys: Vec<K>,
        mut attempt: impl FnMut(Vec<K>) -> F,
    ) -> Result<Each<K, T>, ClientError>
    where
        K: Clone + Eq + Hash + std::fmt::Display,
        F: Future<Output = Result<Each<K, T>, ClientError>>,
    {
        let began = Instant::now();
        let keys = named_once(&keys);
        let mut results: HashMap<K, Result<T, ClientError>> = HashMap::new();
        let mut pending = keys.clone();
        let mut failures = 0;
        loop {
            let tried = tokio::time::timeout_at(deadline.into(), attempt(pending.clone())).await;
            match tried {
                Ok(Ok(each)) => results.extend(each),
                Ok(Err(error)) if !self.helps(&error) => return Err(error),
                Ok(Err(error)) => results.extend(failed(&pending, &error)),
                Err(_) => {
                    let after_ms = began.elapsed().as_millis() as u64;
                    let late = ClientError::Timeout { what: what.to_owned(), after_ms };
                    results.extend(failed(&pending, &late));
                }
            }
            let passes = |key: &K| match results.get(key) {
                Some(Err(error)) => self.helps(error),
                Some(Ok(_)) | None => false,
            };
            pending.retain(passes);
            self.note_late(results.values().filter_map(|result| result.as_ref().err()));
            failures += 1;
            let wait = self.cluster.config().retry_backoff.after(failures);
            if pending.is_empty() || Instant::now() + wait >= deadline {
                break;
            }
            let mut errors = results.values().filter_map(|result| result.as_ref().err());
            if errors.any(|error| error.code() == Some(ErrorCode::NotController)) {
                self.look_for_controller().await;
            }
            tokio::time::sleep(wait).await;
        }
        Ok(complete(results, Some(&keys)))
    }

    /// Whether the same may succeed if it is tried again soon.
    fn helps(&self, error: &ClientError) -> bool {
        use ErrorCode as E;
        match error {
            ClientError::NoBrokerReachable { .. } => self.cluster.was_reached(),
            error if doubtful::is_unanswered(error) => true,
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
            _ => false,
        }
    }
}

/// The same error for each.
fn failed<K: Clone, T>(keys: &[K], error: &ClientError) -> Each<K, T> {
    keys.iter().map(|key| (key.clone(), Err(error.clone()))).collect()
}

/// The results of the `asked` keys, in that order, with an error for each key without an answer.
/// `None` asks for all keys, so all results are returned.
fn complete<K, T>(
    results: impl IntoIterator<Item = (K, Result<T, ClientError>)>,
    asked: Option<&[K]>,
) -> Each<K, T>
where
    K: Clone + Eq + Hash + std::fmt::Display,
{
    let Some(asked) = asked else { return results.into_iter().collect() };
    let mut told: HashMap<K, _> = results.into_iter().collect();
    let result = |key: &K| {
        let missing = || Err(ClientError::left_out("the cluster", key));
        (key.clone(), told.remove(key).unwrap_or_else(missing))
    };
    named_once(asked).iter().map(result).collect()
}

/// Each thing once, where it is first named.
fn named_once<K: Clone + Eq + Hash>(keys: &[K]) -> Vec<K> {
    let mut seen = HashSet::new();
    keys.iter().filter(|key| seen.insert(*key)).cloned().collect()
}

/// Milliseconds until `deadline`, as requests carry them: a broker gives up no later than we do.
fn timeout_ms(deadline: Instant) -> i32 {
    let left = deadline.saturating_duration_since(Instant::now());
    i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
}

/// Refuses a list that names something twice, where each comes with something of its own.
fn no_duplicates<K: Eq + Hash + std::fmt::Display>(
    what: &str,
    keys: &[K],
) -> Result<(), ClientError> {
    let mut seen = HashSet::new();
    match keys.iter().find(|key| !seen.insert(*key)) {
        None => Ok(()),
        Some(key) => {
            let why = format!("{key} is named twice");
            Err(ClientError::InvalidArgument { what: what.to_owned(), why })
        }
    }
}

/// Runs futures side by side; results come in the order in which they end.
async fn side_by_side<F, T>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    futures.into_iter().collect::<tokio::task::JoinSet<T>>().join_all().await
}

#[cfg(test)]
mod tests;
