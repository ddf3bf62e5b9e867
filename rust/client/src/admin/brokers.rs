//! The cluster and its brokers.

use super::{Admin, Each, side_by_side};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::{HostPort, NodeId, Wanted};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::describe_cluster::DescribeClusterRequest;
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribeLogDirsRequest, DescribeLogDirsResponse,
};
use kafkalite_protocol::messages::metadata::MetadataRequest;
use std::sync::Arc;
use std::time::Duration;

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its id.
    pub id: NodeId,
    /// As it advertises itself.
    pub place: HostPort,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
    /// Whether the controller keeps it out of the cluster's work.
    pub fenced: bool,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub cluster_id: Option<String>,
    /// The broker that takes changes of metadata, or stands for the controllers that do.
    pub controller: Option<NodeId>,
    /// By id.
    pub brokers: Vec<BrokerDescription>,
}

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

    /// The cluster's id, controller and brokers.
    pub async fn describe_cluster(
        &self,
        limit: Option<Duration>,
    ) -> Result<ClusterDescription, ClientError> {
        let deadline = self.deadline(limit);
        self.retry("describing the cluster", deadline, || self.describe_cluster_once()).await
    }

    async fn describe_cluster_once(&self) -> Result<ClusterDescription, ClientError> {
        let connection = self.cluster.any_connection().await?;
        if !connection.serves(ApiKey::DescribeCluster) {
            return self.describe_by_metadata().await;
        }
        let answer = connection.send(|_| DescribeClusterRequest {
            include_fenced_brokers: true,
            ..DescribeClusterRequest::default()
        });
        let (_, response) = answer.await?;
        let message = response.error_message.as_deref();
        ClientError::check(response.error_code, message, || "describing the cluster".to_owned())?;
        let told = response.brokers.into_iter();
        let brokers = told.filter_map(|broker| {
            let place = HostPort::from_wire(&broker.host, broker.port)?;
            let (id, rack, fenced) = (broker.broker_id, broker.rack, broker.is_fenced);
            Some(BrokerDescription { id, place, rack, fenced })
        });
        Ok(described(Some(response.cluster_id), response.controller_id, brokers.collect()))
    }

    /// For brokers before Kafka 2.8.
    async fn describe_by_metadata(&self) -> Result<ClusterDescription, ClientError> {
        let request = MetadataRequest {
            topics: Some(vec![]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let (_, response) = self.cluster.send_any(|_| request).await?;
        let told = response.brokers.into_iter();
        let brokers = told.filter_map(|broker| {
            let place = HostPort::from_wire(&broker.host, broker.port)?;
            Some(BrokerDescription { id: broker.node_id, place, rack: broker.rack, fenced: false })
        });
        Ok(described(response.cluster_id, response.controller_id, brokers.collect()))
    }
}

fn described(
    cluster_id: Option<String>,
    controller: NodeId,
    mut brokers: Vec<BrokerDescription>,
) -> ClusterDescription {
    brokers.sort_by_key(|broker| broker.id);
    ClusterDescription { cluster_id, controller: Some(controller).filter(|id| *id >= 0), brokers }
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
