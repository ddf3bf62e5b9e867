//! A broker that starts makes itself known to its cluster.

use super::Cluster;
use crate::metadata::MetadataError;
use crate::metadata::controller::Registration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(250);

impl Cluster {
    /// Registers this broker until the cluster has taken it in, and answers with its epoch.
    ///
    /// # Errors
    /// The cluster did not within `timeout_ms`, or the broker stops.
    pub fn register(&self, broker: &Registration, timeout_ms: u64) -> Result<i64, MetadataError> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut attempts = 0_u32;
        loop {
            let (told, heard) = mpsc::sync_channel(1);
            let done = move |answer| _ = told.send(answer);
            self.controller.register(broker.clone(), Box::new(done));
            match heard.recv_timeout(left()) {
                Ok(Ok(epoch)) => return Ok(epoch),
                Ok(Err(error)) => {
                    if attempts.is_multiple_of(20) {
                        let why = error.message.unwrap_or_else(|| error.code.name().to_owned());
                        tracing::info!(why, "waiting for the cluster to register");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "the broker stops".to_owned();
                    return Err(MetadataError::Offline { reason });
                }
            }
            attempts += 1;
            if left().is_zero() {
                return Err(MetadataError::NotRegistered { timeout_ms });
            }
            std::thread::sleep(RETRY.min(left()));
        }
    }
}
