//! What shows the rooms to people and programs outside: pages of metrics, the admin API.

use super::Broker;
use crate::admin_api::AdminApi;
use crate::figures::Figures;
use crate::handlers::Rooms;
use std::sync::Arc;

pub(super) fn figures(rooms: &Rooms, local_id: i32) -> Arc<Figures> {
    Arc::new(Figures {
        local_id,
        controller: rooms.controller.clone(),
        partitions: rooms.partitions.clone(),
        groups: rooms.groups.clone(),
        client_metrics: rooms.client_metrics.clone(),
        clock: rooms.clock.clone(),
    })
}

impl Broker {
    /// The admin API, for the admin port. It keeps the rooms as long as it is there.
    pub fn admin_api(&self) -> axum::Router {
        let rooms = &self.rooms;
        let api = AdminApi {
            local_id: rooms.config().node_id,
            config: rooms.config.clone(),
            clock: rooms.clock.clone(),
            controller: rooms.controller.clone(),
            partitions: rooms.partitions.clone(),
            groups: rooms.groups.clone(),
            client_metrics: rooms.client_metrics.clone(),
            metrics: rooms.metrics.clone(),
            requests: rooms.requests.clone(),
            connections: self.network.connections().clone(),
            control: self.control.clone(),
            started_ns: self.started_ns,
        };
        api.router()
    }
}
