//! Snapshots: a copy of all that a broker keeps on its disk, to begin again from.
//!
//! A snapshot is a folder in each log directory, `.kafkalite-snapshots/ID`. It holds what a log
//! directory holds after a clean stop. A broker that starts on a copy of it has the topics,
//! records, offsets and groups of that moment. The list of snapshots is what the folders say, so
//! they outlive a restart.
//!
//! The order makes a snapshot consistent. First the image of the metadata is taken: it never
//! changes. Then each log of the image is copied. Those of internal topics are first, and only then
//! the others are looked up. What is made after the image is left out; if a topic of the image is
//! deleted meanwhile, all begins again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kafkalite_log::LogError;
use kafkalite_log::storage::UnsyncedStorage;
use serde::{Deserialize, Serialize};

use super::TestControl;
use super::refusal::Refused;
use crate::handlers::Rooms;
use crate::meta_properties;
use crate::metadata::metadata_log::write_image;
use crate::metadata::{CLUSTER_METADATA_TOPIC, MetadataError, MetadataImage};

/// The folder of snapshots in a log directory. It is no name of a partition.
pub(super) const FOLDER: &str = ".kafkalite-snapshots";

/// What a folder ends with that is not complete.
const UNFINISHED: &str = ".unfinished";

/// What the folder of a fork ends with.
pub(super) const FORK: &str = ".fork";

/// How often a snapshot is tried because topics are deleted meanwhile, at most.
const MOST_TRIES: u32 = 100;
/// The same where no topic is deleted, and a log is closed nevertheless.
const MOST_TRIES_OF_CLOSED: u32 = 10;
/// After this time no other try begins.
const MOST_TIME: Duration = Duration::from_secs(30);
/// Each pause between two tries is so much longer than the last: all of them are 25 s.
const PAUSE: Duration = Duration::from_millis(5);

/// The members of a command that has none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A snapshot as its maker sees it.
#[derive(Serialize)]
pub(super) struct Told {
    id: u64,
    /// A folder for each log directory, in the order of `log.dirs`.
    directories: Vec<String>,
}

/// All snapshots, oldest first.
#[derive(Serialize)]
pub(super) struct List {
    snapshots: Vec<Told>,
}

impl Told {
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

/// Why a copy is not made.
pub(super) enum Failure {
    Log(LogError),
    Metadata(MetadataError),
    Io(PathBuf, io::Error),
    /// A topic was deleted meanwhile.
    Deleted,
    /// The broker stops.
    Stopped,
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<MetadataError> for Failure {
    fn from(error: MetadataError) -> Self {
        Self::Metadata(error)
    }
}

impl Failure {
    /// Nothing, if all that failed is that a file was not there.
    fn unless_missing(self) -> Result<(), Self> {
        match self {
            Self::Io(_, error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => Err(other),
        }
    }

    pub(super) fn refused(self) -> Refused {
        let what = "there is no snapshot".to_owned();
        let why = match self {
            Self::Stopped => return Refused::not_running(),
            Self::Deleted => {
                let why = "a topic was deleted during every try".to_owned();
                let hint = "take it while no topics are deleted.".to_owned();
                return Refused { status: 500, what, why, hint };
            }
            Self::Log(error) => error.to_string(),
            Self::Metadata(error) => error.to_string(),
            Self::Io(path, error) => format!("{}: {error}", path.display()),
        };
        let hint = "look at the disk and at the broker's log.".to_owned();
        Refused { status: 500, what, why, hint }
    }
}

/// The folders of one snapshot.
pub(super) fn folders(roots: &[PathBuf], name: &str) -> Vec<PathBuf> {
    roots.iter().map(|root| root.join(FOLDER).join(name)).collect()
}

fn told(roots: &[PathBuf], id: u64) -> Told {
    let paths = folders(roots, &id.to_string());
    Told { id, directories: paths.iter().map(|path| path.display().to_string()).collect() }
}

/// The snapshots that are complete, oldest first: the last folder of each gets its name last.
fn ids(roots: &[PathBuf]) -> Vec<u64> {
    let Some(last) = roots.last() else { return Vec::new() };
    // No folder: no snapshot was taken yet.
    let entries = std::fs::read_dir(last.join(FOLDER)).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// Refuses a snapshot that is not there.
pub(super) fn known(roots: &[PathBuf], id: u64) -> Result<(), Refused> {
    if ids(roots).contains(&id) {
        return Ok(());
    }
    let (what, why) = (format!("there is no snapshot {id}"), "it was deleted, or never taken");
    let hint = "GET /api/v1/snapshots lists the snapshots.".to_owned();
    Err(Refused { status: 404, what, why: why.to_owned(), hint })
}

/// Removes what an earlier life of the broker left: snapshots that it did not end, and forks.
fn sweep(roots: &[PathBuf], forks: &[u64]) -> Result<(), Failure> {
    let folders = roots.iter().filter_map(|root| std::fs::read_dir(root.join(FOLDER)).ok());
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let fork = name.strip_suffix(FORK).and_then(|id| id.parse().ok());
        name.ends_with(UNFINISHED) || fork.is_some_and(|fork| !forks.contains(&fork))
    };
    let paths = folders.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    remove(&paths.filter(is_left).collect::<Vec<_>>())
}

pub(super) fn remove(paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        let removed = std::fs::remove_dir_all(path);
        let removed = removed.map_err(|error| Failure::Io(path.clone(), error));
        removed.or_else(Failure::unless_missing)?;
    }
    Ok(())
}

/// Writes all that belongs to `image` into `to`, a folder for each of `roots`.
fn copy(
    rooms: &Rooms,
    image: &MetadataImage,
    roots: &[PathBuf],
    to: &[PathBuf],
) -> Result<(), Failure> {
    let metadata = format!("{CLUSTER_METADATA_TOPIC}-0");
    let now_ms = rooms.clock.wall_ms();
    for (root, to) in roots.iter().zip(to) {
        let failed = |error| Failure::Io(to.clone(), error);
        std::fs::create_dir_all(to).map_err(failed)?;
        let identity = meta_properties::FILE;
        std::fs::copy(root.join(identity), to.join(identity)).map_err(failed)?;
        if root.join(&metadata).is_dir() {
            write_image(&UnsyncedStorage, &to.join(&metadata), image, now_ms)?;
        }
    }
    let newest = || rooms.controller.image();
    rooms.partitions.copy_to(to, rooms.config().node_id, (image, &newest), now_ms)?;
    Ok(())
}

/// Copies the newest state. What an earlier try left is removed.
fn copy_newest(rooms: &Rooms, roots: &[PathBuf], to: &[PathBuf]) -> Result<(), Failure> {
    remove(to)?;
    let image = rooms.controller.image();
    let copied = copy(rooms, &image, roots, to);
    if let Err(Failure::Log(LogError::Closed { .. })) = copied
        && image.topics.deleted_in(&rooms.controller.image().topics).next().is_some()
    {
        return Err(Failure::Deleted);
    }
    copied
}

/// Copies until no topic is deleted meanwhile. `pause` is what each pause is longer than the last.
fn copy_again(
    mut copy: impl FnMut() -> Result<(), Failure>,
    is_over: impl Fn() -> bool,
    pause: Duration,
) -> Result<(), Failure> {
    let (began, mut tries, mut closed) = (Instant::now(), 0, 0);
    loop {
        tries += 1;
        let copied = copy();
        match copied {
            Err(Failure::Deleted) => {}
            // It is opened again, or does not open at all.
            Err(Failure::Log(LogError::Closed { .. })) => closed += 1,
            _ => return copied,
        }
        if is_over() {
            return Err(Failure::Stopped);
        }
        let is_last = tries >= MOST_TRIES || closed >= MOST_TRIES_OF_CLOSED;
        if is_last || began.elapsed() > MOST_TIME {
            return copied;
        }
        std::thread::sleep(pause * tries);
    }
}

fn name(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::rename(from, to).map_err(|error| Failure::Io(to.to_owned(), error))
}

impl TestControl {
    /// The rooms of a broker whose state is its own, and its log directories.
    pub(super) fn alone(&self) -> Result<(Arc<Rooms>, Vec<PathBuf>), Refused> {
        let rooms = self.rooms().ok_or_else(Refused::not_running)?;
        if rooms.cluster.has_company() {
            let why = "the broker is one of a cluster, and the others keep their state";
            let hint = "use a broker without others: kafkalite.Broker(), kafkalite dev.";
            return Err(Refused::bad("there is no snapshot", why, hint));
        }
        let roots = rooms.partitions.dirs().iter().map(|dir| dir.path().to_owned()).collect();
        Ok((rooms, roots))
    }

    pub(super) fn take_snapshot(&self) -> Result<Told, Refused> {
        let (rooms, roots) = self.alone()?;
        let _copying = self.copying.lock();
        let id = self.new_id(&rooms, &roots);
        let unfinished = folders(&roots, &format!("{id}{UNFINISHED}"));
        let finished = folders(&roots, &id.to_string());
        let copy = || copy_newest(&rooms, &roots, &unfinished);
        let is_over = || self.commands.are_over();
        let mut taken = sweep(&roots, &self.fork_ids());
        taken = taken.and_then(|()| copy_again(copy, is_over, PAUSE));
        if self.commands.are_over() {
            taken = taken.and(Err(Failure::Stopped));
        }
        for (from, to) in unfinished.iter().zip(&finished) {
            taken = taken.and_then(|()| name(from, to));
        }
        if let Err(failure) = taken {
            for paths in [&unfinished, &finished] {
                if let Err(failure) = remove(paths) {
                    tracing::warn!(why = failure.refused().why, "a snapshot's folder stays");
                }
            }
            return Err(failure.refused());
        }
        Ok(told(&roots, id))
    }

    /// No snapshot had it before: the time in ms, or a greater number.
    pub(super) fn new_id(&self, rooms: &Rooms, roots: &[PathBuf]) -> u64 {
        let last = ids(roots).last().copied().unwrap_or(0);
        let last = last.max(self.last_snapshot.load(Ordering::Relaxed));
        let id = u64::try_from(rooms.clock.wall_ms()).unwrap_or(0).max(last + 1);
        self.last_snapshot.store(id, Ordering::Relaxed);
        id
    }

    pub(super) fn told_snapshots(&self) -> Result<List, Refused> {
        let (_, roots) = self.alone()?;
        Ok(List { snapshots: ids(&roots).into_iter().map(|id| told(&roots, id)).collect() })
    }

    pub(super) fn delete_snapshot(&self, id: u64) -> Result<Told, Refused> {
        let (_, roots) = self.alone()?;
        let _copying = self.copying.lock();
        known(&roots, id)?;
        let paths = folders(&roots, &id.to_string());
        let deleted = folders(&roots, &format!("{id}{UNFINISHED}"));
        // The name goes first: a program that copies the folder must not take a part for the whole.
        for (path, deleted) in paths.iter().zip(&deleted).rev() {
            name(path, deleted).or_else(Failure::unless_missing).map_err(Failure::refused)?;
        }
        remove(&deleted).map_err(Failure::refused)?;
        Ok(told(&roots, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it is tried, if each try fails so, and how that ends.
    fn tries(fail: impl Fn() -> Failure, is_over: bool) -> (u32, Refused) {
        let mut tries = 0;
        let copy = || {
            tries += 1;
            Err(fail())
        };
        let failure = copy_again(copy, || is_over, Duration::ZERO).expect_err("each try fails");
        (tries, failure.refused())
    }

    fn closed() -> Failure {
        Failure::Log(LogError::Closed { path: PathBuf::from("t-0").into() })
    }

    /// Ten tries were over in 100 ms, and the disk was blamed.
    #[test]
    fn a_snapshot_is_tried_for_long_while_topics_are_deleted() {
        let (often, refused) = tries(|| Failure::Deleted, false);
        assert_eq!((often, &*refused.why), (MOST_TRIES, "a topic was deleted during every try"));
        assert!(!refused.hint.contains("disk"), "{}", refused.hint);
        let mut left = MOST_TRIES - 1;
        let copy = || match left.checked_sub(1) {
            Some(fewer) => {
                left = fewer;
                Err(Failure::Deleted)
            }
            None => Ok(()),
        };
        assert!(copy_again(copy, || false, Duration::ZERO).is_ok());
    }

    #[test]
    fn a_snapshot_of_a_log_that_does_not_open_is_given_up_soon() {
        let (often, refused) = tries(closed, false);
        assert_eq!(often, MOST_TRIES_OF_CLOSED);
        assert!(refused.why.contains("t-0"), "{}", refused.why);
    }

    #[test]
    fn a_snapshot_is_not_tried_again_when_the_broker_stops() {
        assert_eq!(tries(|| Failure::Deleted, true), (1, Refused::not_running()));
    }
}
