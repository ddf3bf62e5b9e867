//! Asking a group's coordinator again.

use std::time::Instant;

use kafkalite_connection::{Cluster, CoordinatorKind};
use kafkalite_protocol::ErrorCode;

use crate::error::ClientError;

/// Whether another try may go better.
pub fn may_pass(cluster: &Cluster, error: &ClientError) -> bool {
    // The member must join first; its group's task does.
    let rebalancing = error.code() == Some(ErrorCode::RebalanceInProgress);
    let no_broker = matches!(error, ClientError::NoBrokerReachable { .. });
    let unreachable = no_broker && !cluster.was_reached();
    let passes = error.retriable() || error.is_transport();
    passes && !rebalancing && !unreachable
}

/// Waits before another try, or fails if that cannot help or is too late. A coordinator that is
/// gone is looked for again.
///
/// # Errors
/// `error`.
pub async fn retry_or_fail(
    cluster: &Cluster,
    group: &str,
    error: ClientError,
    failures: &mut u32,
    deadline: Instant,
) -> Result<(), ClientError> {
    let moved = matches!(
        error.code(),
        Some(
            ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorNotAvailable
                // Its replicas do not take the change.
                | ErrorCode::RequestTimedOut
                // It is none of the cluster's brokers any more.
                | ErrorCode::BrokerNotAvailable
        )
    );
    if moved || error.is_transport() {
        cluster.forget_coordinator(CoordinatorKind::Group, group);
    }
    *failures += 1;
    let wait = cluster.config().retry_backoff.after(*failures);
    if !may_pass(cluster, &error) || Instant::now() + wait >= deadline {
        return Err(error);
    }
    tokio::time::sleep(wait).await;
    Ok(())
}
