//! A broker without a cluster asks one to take it in.

use super::peers::connection_config;
use crate::metadata::SupportedFeatures;
use crate::metadata::controller::{Joined, Joining};
use crate::metadata::records::{FeatureRange, ListenerRecord};
use kafkalite_connection::{Backoff, Connection, ConnectionError, HostPort};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::join_cluster::{
    JoinClusterRequest, JoinClusterResponse, JoinFeature, JoinListener,
};
use kafkalite_quorum::Endpoint;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// How long one question may take, with the first broker's change to a quorum of several.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two questions. Brokers that start together find each other soon.
const RETRY: Backoff =
    Backoff { initial: Duration::from_millis(10), max: Duration::from_millis(500) };
/// Between two lines in the log.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Why a broker does not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The cluster said no.
    #[error("the cluster at {address} refuses this broker: {why}")]
    Refused {
        /// Where it was asked.
        address: String,
        /// Its words.
        why: String,
    },
    /// The cluster's features are at levels that this release does not support.
    #[error("the cluster at {address} refuses this release of kafkalite: {why}")]
    Release {
        /// Where it was asked.
        address: String,
        /// Its words.
        why: String,
    },
    /// What is to be joined is no address.
    #[error("kafkalite.join wants HOST:PORT, not {0}")]
    Address(String),
    /// No broker answered, or the cluster was not ready.
    #[error(
        "the cluster at {address} did not answer within {} s \
         (initial.broker.registration.timeout.ms): {why}",
        timeout.as_secs_f32()
    )]
    Late {
        /// Where it was asked.
        address: String,
        /// How long.
        timeout: Duration,
        /// What was heard last.
        why: String,
    },
    /// The others could not reach this broker.
    #[error("a broker that joins a cluster needs an address for the others: set --advertise")]
    NoAddress,
    /// The directory was used by a broker of its own.
    #[error("the data directory has a metadata log of its own and cannot join {cluster_id}")]
    HasMetadata {
        /// The cluster that is to be joined.
        cluster_id: String,
    },
    /// The disk with the broker's part of the quorum was replaced, and another one was not.
    #[error(
        "the log directory with this broker's metadata is missing, and others of log.dirs were \
         used before: put it back, or empty the others as well and have all copied from \
         {cluster_id}"
    )]
    LostMetadata {
        /// The cluster that is to be joined.
        cluster_id: String,
    },
    /// The system refuses a thread or a socket.
    #[error("cannot ask the cluster: {0}")]
    System(#[from] std::io::Error),
}

/// Whether other brokers cannot reach `at`: it means the machine that asks.
#[must_use]
pub fn is_nowhere(at: &Endpoint) -> bool {
    at.host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified())
}

/// Asks the broker at `place` until it answers, at most so long.
///
/// # Errors
/// The cluster refuses this broker, or is not there.
pub fn join(place: &HostPort, joining: &Joining, timeout: Duration) -> Result<Joined, JoinError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = place.to_string();
        let (began, mut attempts) = (Instant::now(), 0);
        let mut told: Option<Instant> = None;
        loop {
            let why = match ask(place, joining).await {
                Ok(Answer::Joined(joined)) => return Ok(joined),
                Ok(Answer::Refused(why)) => return Err(JoinError::Refused { address, why }),
                Ok(Answer::Release(why)) => return Err(JoinError::Release { address, why }),
                Ok(Answer::Later(why)) => why,
                Err(error) => error.to_string(),
            };
            attempts += 1;
            let wait = RETRY.after(attempts);
            if began.elapsed() + wait >= timeout {
                return Err(JoinError::Late { address, timeout, why });
            }
            tell(&mut told, place, &why);
            tokio::time::sleep(wait).await;
        }
    })
}

fn tell(told: &mut Option<Instant>, place: &HostPort, why: &str) {
    if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
        tracing::info!(address = %place, why, "waiting for the cluster to join");
        *told = Some(Instant::now());
    }
}

enum Answer {
    Joined(Joined),
    Refused(String),
    Release(String),
    /// It may answer otherwise in a moment.
    Later(String),
}

async fn ask(place: &HostPort, joining: &Joining) -> Result<Answer, ConnectionError> {
    let config = connection_config();
    let connection = Connection::open(place, &config, Duration::from_secs(5)).await?;
    let request = request(joining);
    let answer = connection.send_with::<JoinClusterRequest>(0, ANSWER_TIMEOUT, |_| request);
    answer.await.map(|(_, answer)| read(answer))
}

/// The request of a broker that joins.
pub fn request(joining: &Joining) -> JoinClusterRequest {
    let listeners = joining.listeners.iter().map(|one| JoinListener {
        name: one.name.clone(),
        host: one.host.clone(),
        port: one.port,
    });
    let features = joining.supported.iter().map(|(name, range)| JoinFeature {
        name: name.to_owned(),
        min_level: range.min,
        max_level: range.max,
    });
    JoinClusterRequest {
        cluster_id: joining.cluster_id.clone(),
        node_id: joining.broker_id.unwrap_or(-1),
        directory_id: joining.quorum_dir,
        rack: joining.rack.clone(),
        listeners: listeners.collect(),
        features: features.collect(),
    }
}

/// The broker that joins, from its request.
pub fn joining(request: JoinClusterRequest) -> Joining {
    let listeners = request.listeners.into_iter();
    let listener = |JoinListener { name, host, port }| ListenerRecord { name, host, port };
    let range =
        |JoinFeature { name, min_level, max_level }| FeatureRange { name, min_level, max_level };
    let features: Vec<FeatureRange> = request.features.into_iter().map(range).collect();
    Joining {
        cluster_id: request.cluster_id,
        broker_id: (request.node_id >= 0).then_some(request.node_id),
        quorum_dir: request.directory_id,
        rack: request.rack,
        listeners: listeners.map(listener).collect(),
        supported: SupportedFeatures::registered(&features),
    }
}

fn read(answer: JoinClusterResponse) -> Answer {
    let JoinClusterResponse { error_code, error_message, cluster_id, node_id } = answer;
    if error_code == 0 {
        return Answer::Joined(Joined { cluster_id, broker_id: node_id });
    }
    let code = ErrorCode::from_code(error_code);
    let why = error_message.unwrap_or_else(|| code.name().to_owned());
    match code {
        ErrorCode::InconsistentClusterId | ErrorCode::InvalidRequest => Answer::Refused(why),
        ErrorCode::UnsupportedVersion => Answer::Release(why),
        // A former life of this broker, whose disk was wiped, may count as alive until its session
        // is over.
        _ => Answer::Later(why),
    }
}
