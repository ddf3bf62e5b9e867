//! Which brokers hold a new partition.
//!
//! Striped: each partition starts one broker further on, so leaders and followers spread evenly.

use super::super::error::ApiError;
use super::super::image::{MetadataImage, UNASSIGNED};
use super::super::records::PartitionRecord;
use kafkalite_protocol::ErrorCode;

/// Places partitions `first..first + count`, each on `replication_factor` brokers.
///
/// # Errors
/// `INVALID_REPLICATION_FACTOR`: there are fewer brokers than that.
pub fn place(
    image: &MetadataImage,
    first: i32,
    count: i32,
    replication_factor: i16,
) -> Result<Vec<PartitionRecord>, ApiError> {
    let brokers: Vec<i32> = image.brokers.keys().copied().collect();
    let wanted = usize::try_from(replication_factor).unwrap_or(0);
    if wanted > brokers.len() || wanted == 0 {
        let message = format!(
            "Unable to replicate the partition {replication_factor} time(s): The target \
             replication factor of {replication_factor} cannot be reached because only {} \
             broker(s) are registered or some brokers have all their log directories cordoned.",
            brokers.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
    }
    let replicas = |partition: i32| {
        let start = partition as usize;
        (start..start + wanted).map(|at| brokers[at % brokers.len()]).collect()
    };
    Ok((first..first.saturating_add(count)).map(|index| new_partition(replicas(index))).collect())
}

/// A new, empty partition: all replicas are in sync, the first one leads, and each broker may
/// choose the directory of its replica.
pub fn new_partition(replicas: Vec<i32>) -> PartitionRecord {
    PartitionRecord {
        leader: replicas.first().copied().unwrap_or(-1),
        isr: replicas.clone(),
        directories: vec![UNASSIGNED; replicas.len()],
        replicas,
        ..PartitionRecord::default()
    }
}

/// Whether a partition can be put where the request says.
///
/// # Errors
/// `INVALID_REPLICA_ASSIGNMENT`.
pub fn validate_assignment(
    image: &MetadataImage,
    replicas: &[i32],
    replication_factor: Option<usize>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse(
            "The manual partition assignment includes an empty replica list.".to_owned(),
        );
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    for (at, id) in sorted.iter().enumerate() {
        if !image.brokers.contains_key(id) {
            return refuse(format!(
                "The manual partition assignment includes broker {id}, but no such broker is \
                 registered."
            ));
        }
        if at > 0 && sorted[at - 1] == *id {
            return refuse(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
    }
    match replication_factor {
        Some(expected) if expected != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is \
             not consistent with previous partitions, which have {expected} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}
