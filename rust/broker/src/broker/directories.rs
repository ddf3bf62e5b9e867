//! Opens the directories of `log.dirs`, and the metadata log in one of them.
//!
//! The first must be usable. The first that was used before says which cluster this is. Another one
//! whose disk fails is left out, and its partitions with it; a directory of another cluster or node
//! is refused in any position.
//!
//! The metadata log stays in the directory that was the first one when it was made. Where there are
//! partitions and no metadata log nothing starts: a new one would call all of them strays.
//! Source: Kafka's `LogManager.createAndValidateLogDirs` and `MetaPropertiesEnsemble`.

use super::{StartError, system};
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::meta_properties::{self, MetaProperties, MetaPropertiesError};
use crate::metadata::Controller;
use crate::metadata::controller::ControllerOptions;
use crate::metadata::records::ListenerRecord;
use crate::network::Listener;
use crate::partitions::{Checkpoints, LogDirs, is_partition_name};
use kafkalite_log::checkpoint::PARTITION_METADATA_FILE;
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

/// Opens them all. Without a `controller` the metadata log in one of them is opened, too.
pub(super) fn open(
    config: &BrokerConfig,
    storage: &Arc<dyn Storage>,
    listeners: &[Listener],
    clock: Arc<dyn Clock>,
    controller: Option<Arc<Controller>>,
) -> Result<Directories, StartError> {
    let limit = getrlimit(Resource::Nofile).current;
    let files = open_segments(config.open_segments_max, limit) / config.data_dirs.len().max(1);
    let files = files.max(1);
    let mut here: Vec<(Uuid, Checkpoints)> = Vec::new();
    let mut lost = Vec::new();
    let paths: Vec<PathBuf> = config.data_dirs.iter().map(|path| absolute(path)).collect();
    let any_known = paths.iter().any(|path| meta_properties::is_there(path));
    // A new directory belongs to the cluster of the others, also where it is named first.
    let cluster_of = |path: &PathBuf| meta_properties::cluster_id(storage.as_ref(), path);
    let mut cluster_id = config.cluster_id.clone().or_else(|| paths.iter().find_map(cluster_of));
    for path in paths {
        let opened = open_one(config, storage, &path, files, cluster_id.as_deref());
        match opened {
            Ok((checkpoints, meta)) => {
                cluster_id = Some(meta.cluster_id);
                here.push((meta.directory_id, checkpoints));
            }
            Err(error) if here.is_empty() || !is_failing_disk(&error) => return Err(error),
            Err(error) => {
                tracing::error!(log_dir = %path.display(), "log directory is offline: {error}");
                lost.push(path);
            }
        }
    }
    let ids: Vec<Uuid> = here.iter().map(|(id, _)| *id).collect();
    let controller = match controller {
        Some(controller) => controller,
        None => {
            let options = ControllerOptions {
                node_id: config.node_id,
                cluster_id: cluster_id.unwrap_or_default(),
                dir: metadata_dir(&here, any_known && !lost.is_empty())?,
                listeners: advertised(config, listeners),
                rack: config.broker_rack.clone(),
                log_dirs: ids.clone(),
                min_insync_replicas: config.min_insync_replicas,
            };
            Arc::new(Controller::open(options, storage.clone(), clock)?)
        }
    };
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

/// Where the metadata log is, or will be. `may_be_away`: a directory that was used before cannot be
/// read, and may be the one that has it.
fn metadata_dir(here: &[(Uuid, Checkpoints)], may_be_away: bool) -> Result<PathBuf, StartError> {
    const NAME: &str = "__cluster_metadata-0";
    let failed = |why: String| system("the metadata log")(std::io::Error::other(why));
    let (mut found, mut with_partitions) = (None, None);
    for directory in here.iter().map(|(_, checkpoints)| checkpoints.directory()) {
        let storage = directory.storage();
        let list = |path: &Path| storage.list(path).map_err(|error| LogError::io(path, error));
        let entries = list(directory.path())?;
        let log = directory.path().join(NAME);
        let is_here = entries.iter().any(|entry| entry.name == NAME)
            && list(&log)?.iter().any(|entry| is_metadata(&entry.name));
        if let Some(other) = is_here.then(|| found.replace(log)).flatten() {
            let why = "there is another one; take the one away that is not in use";
            return Err(failed(format!("{}: {why}", other.display())));
        }
        let is_partition = |name: &str| {
            let path = directory.path().join(name).join(PARTITION_METADATA_FILE);
            is_partition_name(name) && path.exists()
        };
        if entries.iter().any(|entry| is_partition(&entry.name)) {
            with_partitions = Some(directory.path());
        }
    }
    if let Some(found) = found {
        return Ok(found);
    }
    let hint = format!("log.dirs has to name the directory that holds {NAME}");
    if let Some(path) = with_partitions {
        return Err(failed(format!("{} holds partitions; {hint}", path.display())));
    }
    if may_be_away {
        return Err(failed(format!("it may be in a directory that cannot be read; {hint}")));
    }
    let (_, first) =
        here.first().ok_or_else(|| failed("log.dirs names no directory".to_owned()))?;
    Ok(first.directory().path().join(NAME))
}

/// Whether a file is part of a metadata log that was begun.
fn is_metadata(name: &str) -> bool {
    [".log", ".checkpoint"].iter().any(|suffix| name.ends_with(suffix))
}

/// Number of segments kept open: the number asked for, but at most half of the process's limit of
/// open files. Connections need the rest.
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

/// A disk that fails, not a directory of another cluster, nor one that another broker has locked.
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
