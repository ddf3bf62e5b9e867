//! `meta.properties`: whose data directory this is.
//!
//! Made at the first start (there is no format step) and checked at every later one: a directory of
//! another node or cluster is refused. Kafka's own format, version 1.
//! Source: Kafka's `MetaProperties`.

use kafkalite_log::LogError;
use kafkalite_log::storage::{Durability, Storage, read_file, replace_file};
use kafkalite_protocol::Uuid;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Its name in a log directory.
pub const FILE: &str = "meta.properties";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// 22 characters.
    pub cluster_id: String,
    /// `node.id`
    pub node_id: i32,
    /// The directory's own id.
    pub directory_id: Uuid,
}

/// Why a data directory is not this broker's.
#[derive(Debug, thiserror::Error)]
pub enum MetaPropertiesError {
    /// It belongs to another node.
    #[error("{} belongs to node {found}, this is node {expected}", path.display())]
    Node {
        /// The file.
        path: PathBuf,
        /// The node it names.
        found: i32,
        /// The node that starts.
        expected: i32,
    },
    /// It belongs to another cluster.
    #[error("{} belongs to cluster {found}, not to {expected}", path.display())]
    Cluster {
        /// The file.
        path: PathBuf,
        /// The cluster it names.
        found: String,
        /// The cluster that is configured.
        expected: String,
    },
    /// It cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Whether `directory` was used before: the file is there.
#[must_use]
pub fn is_there(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// What the file in `directory` says; `None` if it is not there or cannot be read.
#[must_use]
pub fn read(storage: &dyn Storage, directory: &Path) -> Option<MetaProperties> {
    let bytes = read_file(storage, &directory.join(FILE)).ok()?;
    parse(&bytes)
}

/// Reads the file in `directory`, or makes it for `node_id`.
///
/// `random` is drawn by the caller: 16 bytes for the cluster id and 16 for the directory id.
///
/// # Errors
/// The directory is another node's or cluster's, the file is damaged, the disk refuses.
pub fn load_or_create(
    storage: &dyn Storage,
    directory: &Path,
    node_id: i32,
    cluster_id: Option<&str>,
    random: [u8; 32],
) -> Result<MetaProperties, MetaPropertiesError> {
    let path = directory.join(FILE);
    let bytes = match read_file(storage, &path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (first, second) = random.split_at(16);
            let id = |bytes: &[u8]| Uuid::from_random(bytes.try_into().unwrap_or_default());
            let made = MetaProperties {
                cluster_id: cluster_id.map_or_else(|| id(first).to_string(), str::to_owned),
                node_id,
                directory_id: id(second),
            };
            write(storage, &path, &made)?;
            return Ok(made);
        }
        Err(error) => return Err(LogError::io(path, error).into()),
    };
    let found = parse(&bytes).ok_or_else(|| LogError::BadFile {
        path: path.as_path().into(),
        reason: "it is no meta.properties of version 1".to_owned(),
    })?;
    if found.node_id != node_id {
        return Err(MetaPropertiesError::Node { path, found: found.node_id, expected: node_id });
    }
    match cluster_id {
        Some(expected) if expected != found.cluster_id => Err(MetaPropertiesError::Cluster {
            path,
            found: found.cluster_id,
            expected: expected.to_owned(),
        }),
        _ => Ok(found),
    }
}

fn parse(bytes: &[u8]) -> Option<MetaProperties> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    (value("version")? == "1").then_some(())?;
    Some(MetaProperties {
        cluster_id: value("cluster.id")?.to_owned(),
        node_id: value("node.id")?.parse().ok()?,
        directory_id: Uuid::parse(value("directory.id")?)?,
    })
}

fn write(storage: &dyn Storage, path: &Path, made: &MetaProperties) -> Result<(), LogError> {
    let text = format!(
        "#\ncluster.id={}\ndirectory.id={}\nnode.id={}\nversion=1\n",
        made.cluster_id, made.directory_id, made.node_id
    );
    replace_file(storage, path, text.as_bytes(), Durability::Disk)
        .map_err(|error| LogError::io(path, error))
}

#[cfg(test)]
mod tests;
