//! Which broker looks after a group or a transactional id.

use super::Cluster;
use crate::address::{HostPort, NodeId};
use crate::error::ConnectionError;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::find_coordinator::{
    FindCoordinatorRequest, FindCoordinatorResponse,
};
use std::collections::HashMap;
use std::time::Instant;

/// What is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoordinatorKind {
    /// A consumer group.
    Group = 0,
    /// A transactional id.
    Transaction = 1,
}

/// Those that are known.
pub type Coordinators = HashMap<(CoordinatorKind, String), NodeId>;

/// From this version on several keys are asked for at once.
const BATCHED_FROM: i16 = 4;

impl Cluster {
    /// The coordinator of `key`, asked for while it is not available, `request.timeout.ms` at most.
    pub async fn coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
    ) -> Result<NodeId, ConnectionError> {
        if let Some(known) = self.0.coordinators.lock().get(&(kind, key.to_owned())) {
            return Ok(*known);
        }
        let deadline = Instant::now() + self.0.config.request_timeout;
        let mut failures = 0;
        loop {
            let error = match self.find_coordinator(kind, key).await {
                Ok((node, place)) => {
                    self.0.change_image(|image| image.with_broker(node, place));
                    self.0.coordinators.lock().insert((kind, key.to_owned()), node);
                    return Ok(node);
                }
                Err(error) => error,
            };
            failures += 1;
            let wait = self.0.config.retry_backoff.after(failures);
            let unreachable = matches!(error, ConnectionError::NoBrokerReachable { .. });
            if unreachable || !error.is_retriable() || Instant::now() + wait >= deadline {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Forgets who looks after `key`: the next call asks again, and another broker first. The one
    /// that was known may be cut off, and would name itself.
    pub fn forget_coordinator(&self, kind: CoordinatorKind, key: &str) {
        let known = self.0.coordinators.lock().remove(&(kind, key.to_owned()));
        if let Some(node) = known {
            self.suspect(node);
        }
    }

    async fn find_coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
    ) -> Result<(NodeId, HostPort), ConnectionError> {
        let wanted = key.to_owned();
        let request = move |version| FindCoordinatorRequest {
            key: if version < BATCHED_FROM { wanted.clone() } else { String::new() },
            key_type: kind as i8,
            coordinator_keys: if version < BATCHED_FROM { vec![] } else { vec![wanted.clone()] },
        };
        let (version, response) = self.send_to_some(request).await?;
        let told =
            Told::of(version, response, key).ok_or_else(|| ConnectionError::MalformedResponse {
                address: "an answer to FindCoordinator".to_owned(),
                why: format!("it says nothing of {key}"),
            })?;
        let about = || format!("the coordinator of {key}");
        ConnectionError::check(told.error_code, told.error_message.as_deref(), about)?;
        let place = HostPort::from_wire(&told.host, told.port);
        let place = place
            .filter(|_| told.node_id >= 0)
            .ok_or_else(|| ConnectionError::refused(ErrorCode::CoordinatorNotAvailable, about()))?;
        Ok((told.node_id, place))
    }
}

/// The same in every version.
struct Told {
    error_code: i16,
    error_message: Option<String>,
    node_id: NodeId,
    host: String,
    port: i32,
}

impl Told {
    fn of(version: i16, response: FindCoordinatorResponse, key: &str) -> Option<Self> {
        if version < BATCHED_FROM {
            return Some(Self {
                error_code: response.error_code,
                error_message: response.error_message,
                node_id: response.node_id,
                host: response.host,
                port: response.port,
            });
        }
        let told = response.coordinators.into_iter().find(|told| told.key == key)?;
        Some(Self {
            error_code: told.error_code,
            error_message: told.error_message,
            node_id: told.node_id,
            host: told.host,
            port: told.port,
        })
    }
}
