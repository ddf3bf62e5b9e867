//! Opens the directories of `log.dirs`, and the metadata log in one of them.
//!
//! The first must be usable. The first that was used before says which cluster this is. Another one
//! whose disk fails is left out, and its partitions with it; a directory of another cluster or node
//! is refused in any position.
//!
//! The metadata log stays in the directory that was the first one when it was made. Where there are
//! partitions and no metadata log nothing starts: a new one would call all of them strays.
//! Source: Kafka's `LogManager.createAndValidateLogDirs` and `MetaPropertiesEnsemble`.

use super::joining::{Settled, advertised, endpoint};
use super::{Environment, StartError, system};
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterSettings, Identity, QUORUM};
use crate::config::BrokerConfig;
use crate::meta_properties::{self, MetaProperties, MetaPropertiesError};
use crate::metadata::controller::{ControllerOptions, Registration};
use crate::metadata::metadata_log::delete_log;
use crate::metadata::{Controller, MetadataError};
use crate::network::Listener;
use crate::partitions::{Checkpoints, LogDirs, is_partition_name};
use kafkalite_log::checkpoint::PARTITION_METADATA_FILE;
use kafkalite_log::storage::Storage;
use kafkalite_log::{LogDir, LogError};
use kafkalite_protocol::Uuid;
use kafkalite_quorum::VoterId;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What stands in the directories.
pub(super) struct Directories {
    pub(super) cluster: Arc<Cluster>,
    pub(super) log_dirs: LogDirs,
    /// The epoch of this broker's registration.
    pub(super) broker_epoch: i64,
}

/// Directories of a broker that may have to be registered yet.
pub(super) struct Opened {
    pub(super) cluster: Arc<Cluster>,
    broker: Registration,
    here: Vec<(Uuid, Checkpoints)>,
    lost: Vec<PathBuf>,
}

/// Opens them all. A broker of a cluster takes part in its quorum from now on. With a controller in
/// the environment no metadata log is opened.
pub(super) fn open(
    settled: &Settled,
    listeners: &[Listener],
    environment: &Environment,
) -> Result<Opened, StartError> {
    let Environment { clock, storage, controller, links, supported } = environment;
    let config = &settled.config;
    let limit = getrlimit(Resource::Nofile).current;
    let files = open_segments(config.open_segments_max, limit) / config.data_dirs.len().max(1);
    let files = files.max(1);
    let mut here: Vec<(Uuid, Checkpoints)> = Vec::new();
    let mut lost = Vec::new();
    let paths: Vec<PathBuf> = config.data_dirs.iter().map(|path| absolute(path)).collect();
    let any_known = paths.iter().any(|path| meta_properties::is_there(path));
    // A new directory belongs to the cluster of the others, also where it is named first.
    let cluster_of = |path: &PathBuf| {
        meta_properties::read(storage.as_ref(), path).map(|found| found.cluster_id)
    };
    let known = || paths.iter().find_map(cluster_of);
    let mut cluster_id = settled.cluster_id().or_else(known);
    settled.prepare(storage.as_ref(), &paths)?;
    for path in paths {
        let opened = open_one(settled, storage, &path, files, cluster_id.as_deref());
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
    let dir = match controller {
        Some(_) => PathBuf::new(),
        None => metadata_dir(&here, any_known && !lost.is_empty())?,
    };
    let directory_id = holder(&here, &dir);
    let broker = Registration {
        broker_id: config.node_id,
        listeners: advertised(config, listeners),
        rack: config.broker_rack.clone(),
        log_dirs: here.iter().map(|(id, _)| *id).collect(),
        has_all_dirs: Some(lost.is_empty()),
        quorum_dir: directory_id,
        clean_epoch: clean_epoch(&here).filter(|_| lost.is_empty()),
        supported: supported.clone(),
        fenced: false,
    };
    let identity = Identity {
        cluster_id: cluster_id.unwrap_or_default(),
        voter: VoterId { node_id: config.node_id, directory_id },
        at: endpoint(config, listeners),
        listener: config.inter_broker_listener_name.clone().unwrap_or_default(),
        metadata_dir: dir,
        supported: supported.clone(),
        links: links.clone(),
    };
    let settings = ClusterSettings::of(config);
    let cluster = if let Some(controller) = controller {
        Cluster::alone(identity, controller.clone(), storage.clone(), clock.clone(), settings)
    } else if is_member(storage.as_ref(), &identity.metadata_dir)? {
        join_in(identity, storage, clock, settings)?
    } else {
        begin_alone(config, identity, broker.clone(), storage, clock)?
    };
    Ok(Opened { cluster, broker, here, lost })
}

impl Opened {
    /// How the broker registers.
    pub(super) fn registration(&self) -> &Registration {
        &self.broker
    }

    /// Waits until the cluster has taken this broker in, at most so long.
    pub(super) fn register(self, timeout_ms: u64) -> Result<Directories, StartError> {
        let Self { cluster, broker, here, lost } = self;
        let (broker_id, ids) = (broker.broker_id, broker.log_dirs.clone());
        if cluster.has_company() {
            let registered = cluster.register(&Registration { fenced: true, ..broker }, timeout_ms);
            registered.inspect_err(|_| stop(&cluster))?;
        }
        for (_, checkpoints) in &here {
            let log_dir = checkpoints.directory();
            if let Err(error) = checkpoints.begin().map_err(|error| log_dir.judge(error))
                && !log_dir.is_offline()
            {
                stop(&cluster);
                return Err(error.into());
            }
        }
        let image = cluster.controller().image();
        let broker = image.brokers.get(&broker_id);
        let known = broker.map(|broker| &broker.log_dirs[..]).unwrap_or_default();
        let away: Vec<&Uuid> = known.iter().filter(|known| !ids.contains(known)).collect();
        if !away.is_empty() {
            let hint = "a partition without another replica answers KAFKA_STORAGE_ERROR until it \
                        is back in log.dirs; the others are copied from their leaders.";
            tracing::error!(directory_ids = ?away, hint, "a log directory is not here any more");
        }
        let log_dirs = LogDirs::new(here, lost, !away.is_empty());
        let broker_epoch = broker.map_or(0, |broker| broker.epoch);
        Ok(Directories { cluster, log_dirs, broker_epoch })
    }
}

/// Ends what runs of a cluster already, as the broker does not start.
fn stop(cluster: &Cluster) {
    cluster.controller().stop();
    cluster.stop();
}

/// The id of the log directory that has the metadata log; zero if none has it.
fn holder(here: &[(Uuid, Checkpoints)], metadata_dir: &Path) -> Uuid {
    let holds = |one: &Checkpoints| metadata_dir.starts_with(one.directory().path());
    here.iter().find(|(_, one)| holds(one)).map_or(Uuid::ZERO, |(id, _)| *id)
}

/// The epoch of the life that left all directories complete.
fn clean_epoch(here: &[(Uuid, Checkpoints)]) -> Option<i64> {
    let mut epochs = here.iter().map(|(_, checkpoints)| checkpoints.clean_epoch());
    let first = epochs.next().flatten();
    first.filter(|_| epochs.all(|epoch| epoch == first))
}

/// A broker whose metadata log is its own.
fn begin_alone(
    config: &BrokerConfig,
    identity: Identity,
    broker: Registration,
    storage: &Arc<dyn Storage>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Cluster>, StartError> {
    let options = ControllerOptions {
        cluster_id: identity.cluster_id.clone(),
        dir: identity.metadata_dir.clone(),
        broker,
        min_insync_replicas: config.min_insync_replicas,
    };
    let controller = Controller::open(options, storage.clone(), clock.clone())?;
    let (controller, settings) = (Arc::new(controller), ClusterSettings::of(config));
    Ok(Cluster::alone(identity, controller, storage.clone(), clock.clone(), settings))
}

/// A broker that belongs to a quorum.
fn join_in(
    identity: Identity,
    storage: &Arc<dyn Storage>,
    clock: &Arc<dyn Clock>,
    settings: ClusterSettings,
) -> Result<Arc<Cluster>, StartError> {
    // A crash may have come between the first snapshot of the quorum and the end of the log before.
    delete_log(storage.as_ref(), &identity.metadata_dir)?;
    Ok(Cluster::member(identity, storage.clone(), clock.clone(), settings)?)
}

/// Whether the quorum in `dir` is in force, and not the log of a single broker.
fn is_member(disk: &dyn Storage, dir: &Path) -> Result<bool, StartError> {
    let list = |path: &Path| match disk.list(path) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => {
            let path = path.to_owned();
            Err(MetadataError::Io { action: "read", path, source })
        }
    };
    let Some(quorum) = list(&dir.join(QUORUM))? else { return Ok(false) };
    let is_log = |name: &str| name.ends_with(".snapshot") || name.ends_with(".raft");
    if quorum.iter().any(|entry| is_log(&entry.name)) {
        return Ok(true);
    }
    let before = list(dir)?.unwrap_or_default();
    Ok(!before.iter().any(|entry| is_metadata(&entry.name)))
}

/// The name of the metadata log in its directory.
pub(super) const METADATA: &str = "__cluster_metadata-0";

/// Where the metadata log is, or will be. `may_be_away`: a directory that was used before cannot be
/// read, and may be the one that has it.
fn metadata_dir(here: &[(Uuid, Checkpoints)], may_be_away: bool) -> Result<PathBuf, StartError> {
    const NAME: &str = METADATA;
    let failed = |why: String| system("the metadata log")(std::io::Error::other(why));
    let (mut found, mut with_partitions) = (None, None);
    for directory in here.iter().map(|(_, checkpoints)| checkpoints.directory()) {
        let storage = directory.storage();
        let list = |path: &Path| storage.list(path).map_err(|error| LogError::io(path, error));
        let entries = list(directory.path())?;
        let log = directory.path().join(NAME);
        let is_here = entries.iter().any(|entry| entry.name == NAME)
            && list(&log)?.iter().any(|entry| is_metadata(&entry.name) || entry.name == QUORUM);
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
    settled: &Settled,
    storage: &Arc<dyn Storage>,
    path: &Path,
    max_open_files: usize,
    cluster_id: Option<&str>,
) -> Result<(Checkpoints, MetaProperties), StartError> {
    let log_dir = LogDir::open(path, storage.clone(), max_open_files)?;
    let random = settled.random(path)?;
    let node_id = settled.config.node_id;
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

/// An absolute path, so that a later change of the working directory changes nothing.
pub(super) fn absolute(path: &Path) -> PathBuf {
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
