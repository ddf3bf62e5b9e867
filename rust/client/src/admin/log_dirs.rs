//! The log directories of brokers: what they hold, and replicas that move between them.

use super::{Admin, Each, complete, no_duplicates, side_by_side};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::{NodeId, Wanted};
use kafkalite_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribeLogDirsRequest, DescribeLogDirsResponse,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A replica in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDescription {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Its segments, in bytes.
    pub size: i64,
    /// How far it is behind the high watermark, or behind the replica it will replace.
    pub lag: i64,
    /// Whether it will replace another when it has caught up.
    pub future: bool,
}

/// A directory of a broker that holds replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirDescription {
    /// Where it is.
    pub path: String,
    /// What is wrong with it.
    pub error: Option<ClientError>,
    /// Of its volume, in bytes, where the broker tells.
    pub total_bytes: Option<i64>,
    /// Of its volume, in bytes, where the broker tells.
    pub usable_bytes: Option<i64>,
    /// What it holds.
    pub replicas: Vec<ReplicaDescription>,
}

/// One replica of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Of which partition.
    pub partition: TopicPartition,
    /// On which broker.
    pub node: NodeId,
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on broker {}", self.partition, self.node)
    }
}

impl Admin {
    /// The directories of brokers; of all for `None`.
    pub async fn describe_log_dirs(
        &self,
        brokers: Option<Vec<NodeId>>,
        limit: Option<Duration>,
    ) -> Result<Each<NodeId, Vec<LogDirDescription>>, ClientError> {
        let deadline = self.deadline(limit);
        let brokers = match brokers {
            Some(brokers) => brokers,
            None => {
                let known = self.retry("describing directories", deadline, || async {
                    Ok(self.cluster.refresh(Wanted::Brokers).await?)
                });
                known.await?.brokers().map(|broker| broker.id).collect()
            }
        };
        self.each("describing directories", deadline, brokers, |brokers| async move {
            let asked = brokers.into_iter().map(|node| {
                let cluster = self.cluster.clone();
                let request = DescribeLogDirsRequest { topics: None };
                async move {
                    let answer = cluster.send(node, |_| request).await.map_err(ClientError::from);
                    (node, answer.and_then(|(_, response)| log_dirs(response, node)))
                }
            });
            Ok(side_by_side(asked).await)
        })
        .await
    }

    /// Has replicas move into other log directories of their brokers, named by their paths; one
    /// that is there already stays. The copies are made after the answer. Asked once: an error is
    /// not tried again.
    pub async fn alter_replica_log_dirs(
        &self,
        targets: Vec<(Replica, String)>,
        limit: Option<Duration>,
    ) -> Result<Each<Replica, ()>, ClientError> {
        const WHAT: &str = "moving replicas between directories";
        let asked: Vec<Replica> = targets.iter().map(|(replica, _)| replica.clone()).collect();
        no_duplicates(WHAT, &asked)?;
        let mut nodes: BTreeMap<NodeId, Vec<(Replica, String)>> = BTreeMap::new();
        for (replica, path) in targets {
            nodes.entry(replica.node).or_default().push((replica, path));
        }
        let began = std::time::Instant::now();
        let asked_of = nodes.into_iter().map(|(node, targets)| {
            let cluster = self.cluster.clone();
            async move {
                let request = AlterReplicaLogDirsRequest { dirs: by_path(&targets) };
                let answer = cluster.send(node, |_| request).await.map_err(ClientError::from);
                match answer {
                    Ok((_, response)) => altered(response, node),
                    Err(error) => {
                        let failed = targets.into_iter().map(|it| (it.0, Err(error.clone())));
                        failed.collect()
                    }
                }
            }
        });
        let deadline = self.deadline(limit);
        let answers = tokio::time::timeout_at(deadline.into(), side_by_side(asked_of)).await;
        let answers = answers.map_err(|_| {
            let after_ms = began.elapsed().as_millis() as u64;
            ClientError::Timeout { what: WHAT.to_owned(), after_ms }
        })?;
        Ok(complete(answers.into_iter().flatten(), Some(&asked)))
    }
}

/// The request's tree: paths, topics, partitions.
fn by_path(targets: &[(Replica, String)]) -> Vec<AlterReplicaLogDir> {
    let mut paths: BTreeMap<&str, BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
    for (Replica { partition, .. }, path) in targets {
        let topics = paths.entry(path).or_default();
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let topic = |(name, partitions): (&str, Vec<i32>)| AlterReplicaLogDirTopic {
        name: name.to_owned(),
        partitions,
    };
    let dir = |(path, topics): (&str, BTreeMap<&str, Vec<i32>>)| AlterReplicaLogDir {
        path: path.to_owned(),
        topics: topics.into_iter().map(topic).collect(),
    };
    paths.into_iter().map(dir).collect()
}

fn altered(response: AlterReplicaLogDirsResponse, node: NodeId) -> Each<Replica, ()> {
    let mut results = Vec::new();
    for topic in response.results {
        let name: Arc<str> = topic.topic_name.into();
        for told in topic.partitions {
            let partition = TopicPartition::new(Arc::clone(&name), told.partition_index);
            let replica = Replica { partition, node };
            let result = ClientError::check(told.error_code, None, || replica.to_string());
            results.push((replica, result));
        }
    }
    results
}

fn log_dirs(
    response: DescribeLogDirsResponse,
    node: NodeId,
) -> Result<Vec<LogDirDescription>, ClientError> {
    ClientError::check(response.error_code, None, || format!("directories of broker {node}"))?;
    let known = |bytes: i64| Some(bytes).filter(|bytes| *bytes >= 0);
    let dirs = response.results.into_iter().map(|dir| {
        let mut replicas = Vec::new();
        for topic in dir.topics {
            let name: Arc<str> = topic.name.into();
            replicas.extend(topic.partitions.into_iter().map(|told| ReplicaDescription {
                partition: TopicPartition::new(Arc::clone(&name), told.partition_index),
                size: told.partition_size,
                lag: told.offset_lag,
                future: told.is_future_key,
            }));
        }
        let error = ClientError::check(dir.error_code, None, || dir.log_dir.clone()).err();
        let (total_bytes, usable_bytes) = (known(dir.total_bytes), known(dir.usable_bytes));
        LogDirDescription { path: dir.log_dir, error, total_bytes, usable_bytes, replicas }
    });
    Ok(dirs.collect())
}
