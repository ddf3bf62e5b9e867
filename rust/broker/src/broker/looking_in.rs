//! What shows the rooms to people and programs outside: pages of metrics, the admin API.

use super::Broker;
use crate::admin_api::{AdminApi, Heard};
use crate::figures::Figures;
use crate::handlers::Rooms;
use crate::network::OpenConnections;
use crate::test_control::TestControl;
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

/// The admin API. It answers other brokers also where this one has no admin port.
pub(super) fn admin_api(
    rooms: &Rooms,
    connections: &Arc<OpenConnections>,
    control: Option<&Arc<TestControl>>,
    started_ns: u64,
) -> Arc<AdminApi> {
    let api = Arc::new(AdminApi {
        local_id: rooms.config().node_id,
        config: rooms.config.clone(),
        clock: rooms.clock.clone(),
        controller: rooms.controller.clone(),
        cluster: rooms.cluster.clone(),
        heard: Heard::default(),
        partitions: rooms.partitions.clone(),
        groups: rooms.groups.clone(),
        client_metrics: rooms.client_metrics.clone(),
        metrics: rooms.metrics.clone(),
        requests: rooms.requests.clone(),
        connections: connections.clone(),
        control: control.cloned(),
        started_ns,
    });
    api.answer_brokers();
    api
}

impl Broker {
    /// The admin API, for the admin port. It keeps the rooms as long as it is there.
    pub fn admin_api(&self) -> axum::Router {
        self.api.router()
    }
}
