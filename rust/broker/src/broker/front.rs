//! The listeners, and what stands behind them before the rooms are there.

use super::{StartError, system};
use crate::cluster::Cluster;
use crate::config::{BrokerConfig, RequestInline};
use crate::error::HandlerError;
use crate::handlers::{self, Rooms};
use crate::io_threads::IoThreads;
use crate::network::{Listener, ListenerConfig, Network, NetworkConfig, NetworkParts};
use crate::partitions::LogManager;
use crate::purgatory::Timer;
use crate::request_queue::{Audience, InlineMode, Request};
use crate::test_control::TestControl;
use std::sync::{Arc, OnceLock, Weak};

/// Where requests go: into the rooms, or while these are not there yet, to the quorum.
#[derive(Default)]
pub(super) struct Doors {
    pub(super) rooms: OnceLock<Weak<Rooms>>,
    pub(super) cluster: OnceLock<Weak<Cluster>>,
    /// Faults on purpose, if the broker is under test.
    pub(super) control: Option<Arc<TestControl>>,
}

impl Doors {
    /// The log manager is there.
    pub(super) fn open_logs(&self, log_manager: &LogManager) {
        if let Some(control) = &self.control {
            control.open_logs(log_manager.doing_due());
        }
    }

    /// The rooms are there.
    pub(super) fn open(&self, rooms: &Arc<Rooms>, timer: &Arc<Timer>) {
        self.rooms.get_or_init(|| Arc::downgrade(rooms));
        if let Some(control) = &self.control {
            control.open(rooms, timer);
        }
    }

    /// The network is there.
    pub(super) fn open_network(&self, network: &Network) {
        if let Some(control) = &self.control {
            let open = Arc::clone(network.connections());
            control.open_network(Box::new(move || {
                let all = open.after(0, usize::MAX);
                all.into_iter().map(|one| one.context).collect()
            }));
        }
    }

    pub(super) fn run(&self, request: Request) -> Result<(), HandlerError> {
        if let Some(rooms) = self.rooms.get().and_then(Weak::upgrade) {
            return match &self.control {
                Some(control) => control.run(&rooms, request),
                None => handlers::run(&rooms, request),
            };
        }
        match self.cluster.get().and_then(Weak::upgrade) {
            Some(cluster) => handlers::run_early(&cluster, request),
            None => Ok(()),
        }
    }
}

/// The listeners, and the threads behind them once they are open.
pub(super) enum Front {
    Bound(Vec<Listener>),
    Open(Network, IoThreads),
}

impl Front {
    pub(super) fn open(
        self,
        config: &BrokerConfig,
        parts: &NetworkParts,
    ) -> Result<Self, StartError> {
        let (network, io_threads) = self.opened(config, parts)?;
        Ok(Self::Open(network, io_threads))
    }

    pub(super) fn opened(
        self,
        config: &BrokerConfig,
        parts: &NetworkParts,
    ) -> Result<(Network, IoThreads), StartError> {
        let listeners = match self {
            Self::Open(network, io_threads) => return Ok((network, io_threads)),
            Self::Bound(listeners) => listeners,
        };
        let (queue, count) = (parts.queue.clone(), config.num_io_threads);
        let io_threads = IoThreads::start(count, queue, &parts.clock, &parts.metrics)
            .map_err(system("the I/O threads"))?;
        let network = Network::start(network_config(config), listeners, parts.clone())
            .map_err(system("the network threads"))?;
        Ok((network, io_threads))
    }
}

/// What the configuration says about the network.
pub(super) fn network_config(config: &BrokerConfig) -> NetworkConfig {
    let listeners = config.listeners.iter().map(|listener| ListenerConfig {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
        audience: match config.inter_broker_listener() == Some(listener.name.as_str()) {
            true => Audience::Brokers,
            false => Audience::Clients,
        },
    });
    NetworkConfig {
        listeners: listeners.collect(),
        network_threads: config.num_network_threads,
        backlog: config.socket_listen_backlog_size,
        max_frame_bytes: config.socket_request_max_bytes,
        send_buffer_bytes: config.socket_send_buffer_bytes,
        receive_buffer_bytes: config.socket_receive_buffer_bytes,
        max_connections: config.max_connections,
        max_connections_per_ip: config.max_connections_per_ip,
        max_idle_ms: config.connections_max_idle_ms.unwrap_or(u64::MAX),
        half_frame_timeout_ms: config.frame_deadline_ms,
        half_frame_min_bytes_per_s: config.frame_min_bytes_per_second,
        half_frame_bytes: config.memory_budget_bytes,
        inline: match config.request_inline {
            RequestInline::Auto => InlineMode::Auto,
            RequestInline::Never => InlineMode::Never,
            RequestInline::Always => InlineMode::Always,
        },
        inline_max_bytes: config.request_inline_max_bytes,
        sendfile_min_bytes: config.fetch_sendfile_min_bytes,
    }
}
