//! ListConfigResources: what has configs. Version 0 asked for client metrics subscriptions only.
//!
//! Source: Kafka's `KafkaApis.handleListConfigResources`, KIP-1142.

use super::{Call, Rooms};
use crate::metadata::{ConfigResourceType, MetadataImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

const ALL: [ConfigResourceType; 5] = [
    ConfigResourceType::Group,
    ConfigResourceType::ClientMetrics,
    ConfigResourceType::BrokerLogger,
    ConfigResourceType::Broker,
    ConfigResourceType::Topic,
];

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ListConfigResourcesRequest>) {
    let Call { request, reply } = call;
    let known = |code: &i8| ALL.iter().copied().find(|one| one.code() == *code);
    let types: Option<Vec<_>> = match reply.version {
        0 => Some(vec![ConfigResourceType::ClientMetrics]),
        _ if request.resource_types.is_empty() => Some(ALL.to_vec()),
        _ => request.resource_types.iter().map(known).collect(),
    };
    let Some(types) = types else {
        let error_code = ErrorCode::UnsupportedVersion.code();
        let refusal = ListConfigResourcesResponse { error_code, ..Default::default() };
        return reply.send(&refusal);
    };
    let image = rooms.controller.image();
    let config_resources =
        ALL.iter().filter(|one| types.contains(one)).flat_map(|one| list(&image, *one)).collect();
    reply.send(&ListConfigResourcesResponse { config_resources, ..Default::default() });
}

fn list(image: &MetadataImage, resource_type: ConfigResourceType) -> Vec<ConfigResource> {
    let names: Vec<String> = match resource_type {
        ConfigResourceType::Topic => image.topics.iter().map(|one| one.name.to_string()).collect(),
        ConfigResourceType::Broker | ConfigResourceType::BrokerLogger => {
            image.brokers.keys().map(i32::to_string).collect()
        }
        ConfigResourceType::Group | ConfigResourceType::ClientMetrics => {
            let owners = image.configs.keys();
            let owners = owners.filter(|owner| owner.resource_type == resource_type);
            owners.map(|owner| owner.name.clone()).collect()
        }
    };
    let resource_type = resource_type.code();
    let resource = |resource_name| ConfigResource { resource_name, resource_type };
    names.into_iter().map(resource).collect()
}
