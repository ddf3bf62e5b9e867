//! Opens the directories of `log.dirs`, and the metadata log in the first of them.
//!
//! The first must be usable: it says which cluster this is. Another one whose disk fails is left
//! out, and its partitions with it; one that is somebody else's is refused, whichever it is.
//! Source: Kafka's `LogManager.createAndValidateLogDirs` and `MetaPropertiesEnsemble`.

use super::{StartError, system};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::meta_properties::{self, MetaProperties, MetaPropertiesError};
use crate::metadata::Controller;
use crate::metadata::controller::ControllerOptions;
use crate::metadata::records::ListenerRecord;
use crate::network::Listener;
use crate::partitions::{Checkpoints, LogDirs};
use kafkalite_log::storage::Storage;
use kafkalite_log::{LogDir, LogError};
use kafkalite_protocol::Uuid;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What stands in the directories.
pub(super) struct Directories {
    pub(super) controller: Arc<Controller>,
    pub(super) log_dirs: LogDirs,
}

/// Opens them all.
pub(super) fn open(
    config: &BrokerConfig,
    storage: &Arc<dyn Storage>,
    listeners: &[Listener],
    clock: Arc<dyn Clock>,
) -> Result<Directories, StartError> {
    let limit = getrlimit(Resource::Nofile).current;
    let files = open_segments(config.open_segments_max, limit) / config.data_dirs.len().max(1);
    let files = files.max(1);
    let mut here: Vec<Checkpoints> = Vec::new();
    let mut ids = Vec::new();
    let mut lost = Vec::new();
    let mut cluster_id = config.cluster_id.clone();
    for path in config.data_dirs.iter().map(|path| absolute(path)) {
        let opened = open_one(config, storage, &path, files, cluster_id.as_deref());
        match opened {
            Ok((checkpoints, meta)) => {
                cluster_id = Some(meta.cluster_id);
                ids.push(meta.directory_id);
                here.push(checkpoints);
            }
            Err(error) if here.is_empty() || !is_failing_disk(&error) => return Err(error),
            Err(error) => {
                tracing::error!(log_dir = %path.display(), "log directory is offline: {error}");
                lost.push(path);
            }
        }
    }
    let Some(first) = here.first() else {
        return Err(system("the log")(std::io::Error::other("log.dirs names no directory")));
    };
    let options = ControllerOptions {
        node_id: config.node_id,
        cluster_id: cluster_id.unwrap_or_default(),
        dir: first.directory().path().join("__cluster_metadata-0"),
        listeners: advertised(config, listeners),
        rack: config.broker_rack.clone(),
        log_dirs: ids.clone(),
        min_insync_replicas: config.min_insync_replicas,
    };
    let controller = Arc::new(Controller::open(options, storage.clone(), clock)?);
    let image = controller.image();
    let known = image.brokers.get(&config.node_id).map(|broker| &broker.log_dirs[..]);
    let away: Vec<&Uuid> =
        known.unwrap_or_default().iter().filter(|known| !ids.contains(known)).collect();
    if !away.is_empty() {
        let hint = "its partitions answer KAFKA_STORAGE_ERROR until it is back in log.dirs.";
        tracing::error!(directory_ids = ?away, hint, "a log directory is not here any more");
    }
    let log_dirs = LogDirs::new(here, lost, !away.is_empty());
    Ok(Directories { controller, log_dirs })
}

/// Segments kept open: as many as are asked for, and no more than half of the files that the
/// process may open, for connections want some as well.
fn open_segments(asked: usize, limit: Option<u64>) -> usize {
    let half = limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
    asked.min(half)
}

fn open_one(
    config: &BrokerConfig,
    storage: &Arc<dyn Storage>,
    path: &Path,
    max_open_files: usize,
    cluster_id: Option<&str>,
) -> Result<(Checkpoints, MetaProperties), StartError> {
    let log_dir = LogDir::open(path, storage.clone(), max_open_files)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| system("the random numbers")(std::io::Error::other(error)))?;
    let node_id = config.node_id;
    let meta =
        meta_properties::load_or_create(storage.as_ref(), path, node_id, cluster_id, random)?;
    Ok((Checkpoints::read(log_dir)?, meta))
}

/// Not a directory of somebody else's, and not one that another broker has.
fn is_failing_disk(error: &StartError) -> bool {
    matches!(
        error,
        StartError::Log(LogError::Io { .. })
            | StartError::MetaProperties(MetaPropertiesError::Log(LogError::Io { .. }))
    )
}

/// Where clients of each listener are sent: what `advertised.listeners` says of it, or where it
/// listens.
fn advertised(config: &BrokerConfig, listeners: &[Listener]) -> Vec<ListenerRecord> {
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

/// An absolute path, so that a later change of the working directory changes nothing.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker with more partitions than half of its descriptors could not accept a connection.
    #[test]
    fn segments_leave_half_of_the_descriptors_to_others() {
        for (asked, limit, expected) in
            [(4_096, Some(256), 128), (4_096, Some(1 << 20), 4_096), (4_096, None, 4_096)]
        {
            assert_eq!(open_segments(asked, limit), expected);
        }
    }
}
