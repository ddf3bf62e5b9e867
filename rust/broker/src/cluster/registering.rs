//! A broker that starts makes itself known to its cluster.

use super::{Cluster, join};
use crate::metadata::MetadataError;
use crate::metadata::controller::{Done, Joining, Registration};
use kafkalite_protocol::ErrorCode;
use kafkalite_quorum::Status;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(250);
/// Between two questions of a broker that is not registered.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Cluster {
    /// Registers this broker until the cluster has taken it in, and answers with its epoch.
    ///
    /// # Errors
    /// The cluster did not within `timeout_ms`, or the broker stops.
    pub fn register(
        self: &Arc<Self>,
        broker: &Registration,
        timeout_ms: u64,
    ) -> Result<i64, MetadataError> {
        let asking = self.running().map(|member| {
            let asking = ask_to_be_taken_in(Arc::downgrade(self), self.joining(broker));
            member.peers.runtime().spawn(asking)
        });
        let registered = self.try_to_register(broker, timeout_ms);
        if let Some(asking) = asking {
            asking.abort();
        }
        registered
    }

    fn joining(&self, broker: &Registration) -> Joining {
        Joining {
            cluster_id: Some(self.identity.cluster_id.clone()),
            broker_id: Some(self.id()),
            quorum_dir: self.identity.voter.directory_id,
            rack: broker.rack.clone(),
            listeners: broker.listeners.clone(),
            supported: broker.supported.clone(),
        }
    }

    fn try_to_register(
        &self,
        broker: &Registration,
        timeout_ms: u64,
    ) -> Result<i64, MetadataError> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let left = || deadline.saturating_duration_since(Instant::now());
        let (mut attempts, mut heard_last) = (0_u32, "no voter answered".to_owned());
        loop {
            let (told, heard) = mpsc::sync_channel(1);
            let done = move |answer| _ = told.send(answer);
            self.controller.register(broker.clone(), Done::new(done));
            match heard.recv_timeout(left()) {
                Ok(Ok(epoch)) => return Ok(epoch),
                Ok(Err(error)) => {
                    let is_final = error.code == ErrorCode::UnsupportedVersion;
                    let why = error.message.unwrap_or_else(|| error.code.name().to_owned());
                    if is_final {
                        return Err(MetadataError::Unsupported { why });
                    }
                    if attempts.is_multiple_of(20) {
                        tracing::info!(why, "waiting for the cluster to register");
                    }
                    heard_last = why;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "the broker stops".to_owned();
                    return Err(MetadataError::Offline { reason });
                }
            }
            attempts += 1;
            if left().is_zero() {
                return Err(MetadataError::NotRegistered { timeout_ms, why: heard_last });
            }
            std::thread::sleep(RETRY.min(left()));
        }
    }
}

/// A broker that is not registered for a while may have been unregistered. It is no member then and
/// gets no metadata, so it asks the members that it knows to take it in.
async fn ask_to_be_taken_in(cluster: Weak<Cluster>, joining: Joining) {
    for turn in 0.. {
        tokio::time::sleep(ASK_AGAIN).await;
        let Some(this) = cluster.upgrade() else { return };
        let Some(member) = this.running() else { return };
        let Status { me, voters, learners, .. } = member.raft.raft_status();
        let others: Vec<_> = voters.iter().chain(&learners).filter(|one| one.id != me).collect();
        let Some(other) = others.get(turn % others.len().max(1)) else { continue };
        if let Err(error) = member.peers.ask(&other.at, join::request(&joining)).await {
            tracing::debug!(%error, "a member of the cluster was not reached");
        }
    }
}
