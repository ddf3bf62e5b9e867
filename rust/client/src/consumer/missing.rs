//! Partitions that a program names and that are not there.

use std::collections::BTreeSet;
use std::time::Instant;

use kafkalite_connection::{Cluster, ClusterImage, Wanted};

use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// `NoPartition`, if `image` knows the topic and it has no such partition.
pub fn lacks(image: &ClusterImage, partition: &TopicPartition) -> Option<ClientError> {
    let topic = image.topic(&partition.topic)?;
    let count = topic.partitions.len();
    topic.partition(partition.partition).is_none().then(|| ClientError::NoPartition {
        topic: partition.topic.to_string(),
        count,
        partition: partition.partition,
    })
}

/// Refuses partitions that are not there, after one more look: a topic may have got more.
///
/// # Errors
/// - case A: `NoPartition`, as brokers told just now
/// - case B: what [`Cluster::topic`] fails with
pub async fn check_partitions(
    cluster: &Cluster,
    partitions: &[TopicPartition],
    deadline: Instant,
) -> Result<(), ClientError> {
    let names: BTreeSet<&str> = partitions.iter().map(|one| &*one.topic).collect();
    for name in names {
        cluster.topic(name, deadline).await?;
    }
    let missing = |image: &ClusterImage| {
        let lacked = |one: &&TopicPartition| lacks(image, one).is_some();
        partitions.iter().filter(lacked).map(|one| one.topic.to_string()).collect::<Vec<_>>()
    };
    let names = missing(&cluster.image());
    if names.is_empty() {
        return Ok(());
    }
    let asked = tokio::time::timeout_at(deadline.into(), cluster.refresh(Wanted::Topics(names)));
    // Late, what is known by then has to do.
    let image = asked.await.unwrap_or_else(|_| Ok(cluster.image()))?;
    partitions.iter().find_map(|one| lacks(&image, one)).map_or(Ok(()), Err)
}
