//! Which node and cluster this broker is, before its directories are opened.
//!
//! `meta.properties` says so from the second start on. A new directory makes a cluster of its own,
//! or joins one: then another broker says so.

use super::directories::{METADATA, absolute};
use super::{Environment, StartError, system};
use crate::cluster::QUORUM;
use crate::cluster::join::{JoinError, is_nowhere, join};
use crate::config::{BrokerConfig, parse_host_port};
use crate::meta_properties;
use crate::metadata::controller::{Joined, Joining};
use crate::metadata::records::ListenerRecord;
use crate::network::Listener;
use kafkalite_connection::HostPort;
use kafkalite_log::LogError;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::Uuid;
use kafkalite_quorum::Endpoint;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of a node whose id is known.
pub(super) struct Settled {
    pub(super) config: BrokerConfig,
    /// The answer of the cluster to a new directory.
    joined: Option<New>,
}

struct New {
    cluster_id: String,
    path: PathBuf,
    directory_id: Uuid,
}

impl Settled {
    /// Finds out, and joins a cluster if that is asked for.
    pub(super) fn new(
        config: &BrokerConfig,
        environment: &Environment,
        listeners: &[Listener],
    ) -> Result<Self, StartError> {
        let storage = environment.storage.as_ref();
        let mut paths = config.data_dirs.iter().map(|path| absolute(path));
        let known = paths.clone().find_map(|path| meta_properties::read(storage, &path));
        let config = match &known {
            Some(known) if !config.names_node() => config.of_node(known.node_id, "meta.properties"),
            _ => Ok(config.clone()),
        }?;
        let place = config.join.as_deref().map(place).transpose()?;
        let place = place.filter(|place| !is_self(place, listeners));
        let (Some(place), Some(path)) = (place, paths.next()) else {
            return Ok(Self { config, joined: None });
        };
        let quorum = |path: &PathBuf| path.join(METADATA).join(QUORUM).exists();
        let mut all = config.data_dirs.iter().map(|path| absolute(path));
        if known.is_some() && all.any(|path| quorum(&path)) {
            return Ok(Self { config, joined: None });
        }
        if is_nowhere(&endpoint(&config, listeners)) {
            return Err(JoinError::NoAddress.into());
        }
        let directory_id = match &known {
            Some(known) => known.directory_id,
            None => Uuid::from_random(random()?),
        };
        let joining = Joining {
            cluster_id: known.as_ref().map(|known| known.cluster_id.clone()),
            broker_id: config.names_node().then_some(config.node_id),
            quorum_dir: directory_id,
            rack: config.broker_rack.clone(),
            listeners: advertised(&config, listeners),
            supported: environment.supported.clone(),
        };
        let timeout = Duration::from_millis(config.registration_timeout_ms);
        let Joined { cluster_id, broker_id } = join(&place, &joining, timeout)?;
        if known.is_some() {
            let mut paths = config.data_dirs.iter().map(|path| absolute(path).join(METADATA));
            let error = match paths.any(|path| path.exists()) {
                true => JoinError::HasMetadata { cluster_id },
                false => JoinError::LostMetadata { cluster_id },
            };
            return Err(error.into());
        }
        tracing::info!(cluster_id, node_id = broker_id, "joined a cluster");
        let config = config.of_node(broker_id, "the cluster that was joined")?;
        Ok(Self { config, joined: Some(New { cluster_id, path, directory_id }) })
    }

    /// The cluster of a new directory, if it is known.
    pub(super) fn cluster_id(&self) -> Option<String> {
        let joined = self.joined.as_ref().map(|joined| joined.cluster_id.clone());
        joined.or_else(|| self.config.cluster_id.clone())
    }

    /// Marks a new directory as one of a quorum. So a crash between this and the first word of the
    /// leader never leaves one that begins a cluster of its own.
    pub(super) fn prepare(&self, disk: &dyn Storage, paths: &[PathBuf]) -> Result<(), StartError> {
        let joined = self.joined.as_ref().filter(|joined| paths.contains(&joined.path));
        let Some(joined) = joined else { return Ok(()) };
        let metadata = joined.path.join(METADATA);
        for path in [&joined.path, &metadata, &metadata.join(QUORUM)] {
            disk.create_dir(path).map_err(|error| LogError::io(path.as_path(), error))?;
        }
        for path in [&metadata, &joined.path] {
            disk.sync_dir(path).map_err(|error| LogError::io(path.as_path(), error))?;
        }
        Ok(())
    }

    /// The random numbers of a new directory: for the id of a cluster, and for its own.
    pub(super) fn random(&self, path: &Path) -> Result<[u8; 32], StartError> {
        let mut numbers = [0; 32];
        getrandom::fill(&mut numbers)
            .map_err(|error| system("the random numbers")(std::io::Error::other(error)))?;
        if let Some(joined) = self.joined.as_ref().filter(|joined| joined.path == path) {
            numbers[16..].copy_from_slice(&joined.directory_id.0);
        }
        Ok(numbers)
    }
}

fn random() -> Result<[u8; 16], StartError> {
    let mut numbers = [0; 16];
    getrandom::fill(&mut numbers)
        .map_err(|error| system("the random numbers")(std::io::Error::other(error)))?;
    Ok(numbers)
}

fn place(text: &str) -> Result<HostPort, StartError> {
    let place = parse_host_port(text).filter(|(host, port)| !host.is_empty() && *port != 0);
    let place = place.ok_or_else(|| JoinError::Address(text.to_owned()))?;
    Ok(HostPort { host: place.0, port: place.1 })
}

/// Whether `place` is one of our own: this is the broker that begins the cluster.
fn is_self(place: &HostPort, listeners: &[Listener]) -> bool {
    let ip = |host: &str| match host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        other => other.parse().ok(),
    };
    listeners.iter().map(Listener::address).any(|own| {
        own.port() == place.port && ip(&place.host).is_some_and(|asked| asked == own.ip())
    })
}

/// Where the voters of the quorum reach this broker.
pub(super) fn endpoint(config: &BrokerConfig, listeners: &[Listener]) -> Endpoint {
    let all = advertised(config, listeners);
    let wanted = config.inter_broker_listener_name.as_deref();
    let named =
        all.iter().find(|one| wanted.is_some_and(|name| one.name.eq_ignore_ascii_case(name)));
    let one = named.or_else(|| all.first());
    one.map(|one| Endpoint { host: one.host.clone(), port: one.port }).unwrap_or_default()
}

/// Where clients of each listener are sent: what `advertised.listeners` says of it, or where it
/// listens.
pub(super) fn advertised(config: &BrokerConfig, listeners: &[Listener]) -> Vec<ListenerRecord> {
    let address = |listener: &Listener| {
        let bound = listener.address();
        let mut advertised = config.advertised_listeners.iter();
        let told = advertised.find(|told| *told.name == **listener.name());
        ListenerRecord {
            name: listener.name().to_string(),
            host: told.map_or_else(|| bound.ip().to_string(), |told| told.host.clone()),
            port: told.map(|told| told.port).filter(|port| *port != 0).unwrap_or(bound.port()),
        }
    };
    listeners.iter().map(address).collect()
}
