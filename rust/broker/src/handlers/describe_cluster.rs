//! DescribeCluster: the brokers, the controller and the cluster's id.
//!
//! Source: Kafka's `AuthHelper.computeDescribeClusterResponse`, KIP-700, KIP-919 for the kind of
//! endpoint.

use super::authorized_operations::{Resource, answer};
use super::endpoint::endpoint;
use super::{Call, Rooms};
use crate::metadata::BrokerImage;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeClusterRequest>) {
    let Call { request, reply } = call;
    if let Some((error, message)) = refusal(request.endpoint_type) {
        return reply.send(&DescribeClusterResponse {
            error_code: error.code(),
            error_message: Some(message),
            ..DescribeClusterResponse::default()
        });
    }
    let image = rooms.controller.image();
    let is_told = |broker: &&BrokerImage| request.include_fenced_brokers || !broker.fenced;
    let brokers = image.brokers.values().filter(is_told).map(|broker| {
        let (host, port) = endpoint(rooms, &reply.context, broker);
        let (broker_id, rack) = (broker.id, broker.rack.clone());
        DescribeClusterBroker { broker_id, host, port, rack, is_fenced: broker.fenced }
    });
    let response = DescribeClusterResponse {
        cluster_id: image.cluster_id.to_string(),
        controller_id: image.controller_id,
        brokers: brokers.collect(),
        cluster_authorized_operations: answer(
            request.include_cluster_authorized_operations,
            Resource::Cluster,
        ),
        ..DescribeClusterResponse::default()
    };
    reply.send(&response);
}

/// This endpoint describes brokers only.
fn refusal(endpoint_type: i8) -> Option<(ErrorCode, String)> {
    match endpoint_type {
        BROKERS => None,
        CONTROLLERS => {
            let message = "The request was sent to an endpoint of type BROKER, but we wanted an \
                           endpoint of type CONTROLLER";
            Some((ErrorCode::MismatchedEndpointType, message.to_owned()))
        }
        other => {
            let message = format!("Unsupported endpoint type {other}");
            Some((ErrorCode::UnsupportedEndpointType, message))
        }
    }
}
