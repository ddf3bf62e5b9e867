//! The cluster and its brokers.

use super::Admin;
use crate::error::ClientError;
use kafkalite_connection::{HostPort, NodeId};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::describe_cluster::DescribeClusterRequest;
use kafkalite_protocol::messages::metadata::MetadataRequest;
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

impl Admin {
    /// The cluster's id, controller and brokers.
    pub async fn describe_cluster(
        &self,
        limit: Option<Duration>,
    ) -> Result<ClusterDescription, ClientError> {
        let deadline = self.deadline(limit);
        self.retry("describing the cluster", deadline, || self.describe_cluster_once()).await
    }

    async fn describe_cluster_once(&self) -> Result<ClusterDescription, ClientError> {
        let told = self.cluster.at_some(|connection| async move {
            if !connection.serves(ApiKey::DescribeCluster) {
                return Ok(None);
            }
            let answer = connection.send(|_| DescribeClusterRequest {
                include_fenced_brokers: true,
                ..DescribeClusterRequest::default()
            });
            Ok(Some(answer.await?.1))
        });
        let Some(response) = told.await? else { return self.describe_by_metadata().await };
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
        let (_, response) = self.cluster.send_to_some(move |_| request.clone()).await?;
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
