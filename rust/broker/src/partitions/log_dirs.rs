//! The directories of `log.dirs`: which of them holds a partition, and which gets a new one.
//!
//! A partition stays where its files are; a new one goes where the fewest are. A directory whose
//! disk fails takes its own partitions with it and no others.
//!
//! The metadata note the log directory of each replica. A replica that was never noted is made
//! where there is room. One that is missing where the note says is an error, never an empty log
//! that begins at offset 0. A log that an operator carried to another log directory is found there,
//! and the note follows it.
//!
//! Of a partition that an earlier release made, nothing is noted at first. It is an error if a
//! checkpoint names its records, or if a directory is away that may hold them.
//!
//! The name of a partition's directory proves nothing: the topic id in it shows its topic. A
//! directory of another topic is put aside as a stray, and so is one without an id that is not
//! empty.
//! Source: Kafka's `LogManager.nextLogDirs`, KIP-112, KIP-858.

use super::checkpoints::{Checkpoint, Checkpoints, Entry};
use crate::metadata::CLUSTER_METADATA_TOPIC;
use crate::metadata::image::Assignment;
use kafkalite_log::checkpoint::read_topic_id;
use kafkalite_log::storage::DirEntry;
use kafkalite_log::{LogDir, LogError};
use kafkalite_protocol::{Offset, Uuid};
use parking_lot::Mutex;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One directory, its id, its checkpoints, and how many partitions it holds.
pub struct LogDirectory {
    id: Uuid,
    checkpoints: Checkpoints,
    partitions: AtomicUsize,
}

impl LogDirectory {
    /// Its files: locks and logs.
    #[must_use]
    pub fn log_dir(&self) -> &Arc<LogDir> {
        self.checkpoints.directory()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.log_dir().path()
    }

    /// The id that the metadata know it by.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub(super) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Total and usable bytes of its file system.
    #[must_use]
    pub fn disk_space(&self) -> Option<(i64, i64)> {
        let stat = rustix::fs::statvfs(self.path()).ok()?;
        let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).ok();
        Some((bytes(stat.f_blocks)?, bytes(stat.f_bavail)?))
    }
}

/// What the directory of a deleted partition ends with, as in Kafka.
pub(super) const DELETED: &str = "-delete";

/// All of them.
pub struct LogDirs {
    here: Vec<LogDirectory>,
    /// Those of `log.dirs` that could not be used at the start.
    lost: Vec<PathBuf>,
    /// One that held partitions once is not here.
    incomplete: bool,
    /// Directories of replicas that were moved away before this start, to be removed.
    left: Mutex<Vec<(PathBuf, Arc<LogDir>)>>,
}

/// Where a partition is.
pub(super) struct Place<'a> {
    pub directory: &'a LogDirectory,
    /// The topic id in its files, if they have one.
    pub stored: Option<Uuid>,
}

impl LogDirs {
    /// The directories that are `here` with their ids, one at least, and those that were `lost`.
    /// `incomplete` says that some directory was known once and is not among the former.
    #[must_use]
    pub fn new(here: Vec<(Uuid, Checkpoints)>, lost: Vec<PathBuf>, incomplete: bool) -> Self {
        let directory = |(id, checkpoints)| LogDirectory {
            id,
            checkpoints,
            partitions: AtomicUsize::default(),
        };
        let (here, left) = (here.into_iter().map(directory).collect(), Mutex::default());
        Self { here, lost, incomplete, left }
    }

    /// Those that could be used at the start; some may be offline by now.
    pub fn iter(&self) -> impl Iterator<Item = &LogDirectory> {
        self.here.iter()
    }

    /// Those that could not.
    #[must_use]
    pub fn lost(&self) -> &[PathBuf] {
        &self.lost
    }

    /// Lets another broker have them.
    pub fn unlock(&self) {
        self.here.iter().for_each(|directory| directory.log_dir().unlock());
    }

    /// The place of this directory among [`Self::iter`].
    pub(super) fn position(&self, log_dir: &Arc<LogDir>) -> usize {
        let found = self.here.iter().position(|one| Arc::ptr_eq(one.log_dir(), log_dir));
        found.expect("a log was opened in one of these")
    }

    /// The directory of [`Self::iter`] that is this one.
    pub(super) fn directory(&self, log_dir: &Arc<LogDir>) -> &LogDirectory {
        &self.here[self.position(log_dir)]
    }

    /// A partition is in the directory from now on, or no longer.
    pub(super) fn count(&self, log_dir: &Arc<LogDir>, comes: bool) {
        let count = &self.here[self.position(log_dir)].partitions;
        if comes {
            count.fetch_add(1, Ordering::Relaxed)
        } else {
            count.fetch_sub(1, Ordering::Relaxed)
        };
    }

    /// Where partition `index` of the topic is, or will be. `assigned` is what the metadata say of
    /// it. What another topic left there is put aside, and so is a log that was begun and never
    /// written where there is a second one. The directories of `full` have no room for a new log:
    /// what was begun there does not count.
    pub(super) fn place(
        &self,
        topic: &str,
        topic_id: Uuid,
        index: i32,
        assigned: Assignment,
        full: &[Uuid],
    ) -> Result<Place<'_>, LogError> {
        let name = &*format!("{topic}-{index}");
        if let Some(found) = self.find(name, topic_id, assigned, full)? {
            return Ok(found);
        }
        // Looked at after the search: a directory that fails meanwhile was not searched.
        let online = || self.here.iter().filter(|directory| !directory.log_dir().is_offline());
        let all_here = !self.incomplete && online().count() == self.here.len();
        match assigned {
            Assignment::Directory(id) => {
                let noted = online().find(|directory| directory.id == id);
                return Err(noted.map_or_else(|| self.away(), |noted| missing(noted, name)));
            }
            Assignment::Unknown if !all_here => return Err(self.away()),
            Assignment::Unknown => self.check_never_written(topic, topic_id, index)?,
            Assignment::Unassigned => {}
        }
        let with_room = online().filter(|directory| !full.contains(&directory.id));
        let fewest = with_room.min_by_key(|directory| directory.partitions.load(Ordering::Relaxed));
        let directory = fewest.ok_or_else(|| self.away())?;
        // What is noted of a log that was here before says nothing about the new one.
        for noted in online() {
            let forgotten = noted.checkpoints().forget(topic, topic_id, index);
            forgotten.map_err(|error| noted.log_dir().judge(error))?;
        }
        Ok(Place { directory, stored: None })
    }

    /// Where the files of a partition are that are believed to be its own.
    fn find(
        &self,
        name: &str,
        topic_id: Uuid,
        assigned: Assignment,
        full: &[Uuid],
    ) -> Result<Option<Place<'_>>, LogError> {
        let mut found = Vec::new();
        for directory in self.here.iter().filter(|directory| !directory.log_dir().is_offline()) {
            let path = directory.path().join(name);
            if !directory.has_directory(&path)?
                || (full.contains(&directory.id) && !directory.was_written(name)?)
            {
                continue;
            }
            let stored = read_topic_id(directory.log_dir().storage().as_ref(), &path);
            let stored = stored.map_err(|error| directory.log_dir().judge(error))?;
            let is_new = assigned == Assignment::Unassigned;
            if let Some(stranger) = stored.filter(|stored| *stored != topic_id) {
                directory.put_aside(name, &stranger.to_string())?;
            } else if stored.is_none() && is_new && directory.holds_records(name)? {
                directory.put_aside(name, "unknown")?;
            } else {
                found.push(Place { directory, stored });
            }
        }
        if found.len() > 1 {
            found = self.without_moved(found, name, topic_id, assigned)?;
        }
        if found.len() > 1 {
            found = only_written(found, name, assigned)?;
        }
        let Some(place) = found.pop() else { return Ok(None) };
        let is_elsewhere = match assigned {
            Assignment::Directory(id) => id != place.directory.id,
            Assignment::Unknown | Assignment::Unassigned => false,
        };
        // A disk may fail while a log is made there. The log is made and noted on another one then,
        // and what was begun on the first is not that log.
        let is_believed = !is_elsewhere
            || (place.directory.has_segment(name)?
                && self.is_newest(place.directory, name, assigned)?);
        if is_believed && (self.here.len() + self.lost.len() > 1 || self.incomplete) {
            self.settle_move(place.directory, name)?;
        }
        Ok(is_believed.then_some(place))
    }

    /// Refuses a partition that is missing although a checkpoint says that it had records. An empty
    /// log in its place would hide the loss, and as a leader would spread it.
    fn check_never_written(&self, topic: &str, topic_id: Uuid, index: i32) -> Result<(), LogError> {
        let had_records = |directory: &&LogDirectory| {
            let noted = |which| directory.checkpoints().noted(which, topic, topic_id, index);
            Checkpoint::OF_REPLICAS.into_iter().any(|which| noted(which).is_some())
        };
        let Some(directory) = self.here.iter().find(had_records) else { return Ok(()) };
        let path = directory.path().join(format!("{topic}-{index}"));
        let reason = "the directory is missing, and checkpoints say that the partition had \
                      records; put it back, or make it empty to begin again without them";
        Err(LogError::BadFile { path: path.into(), reason: reason.to_owned() })
    }

    /// The error of a log that may be in a directory that is not here.
    fn away(&self) -> LogError {
        let offline = self.here.iter().find(|directory| directory.log_dir().is_offline());
        let offline = offline.map(|directory| directory.path().to_owned());
        let taken_out = || PathBuf::from("(a directory that is no longer in log.dirs)");
        let path = offline.or_else(|| self.lost.first().cloned()).unwrap_or_else(taken_out);
        LogError::Offline { path: path.into() }
    }
}

/// The error of a log that is not in the directory that the metadata name.
fn missing(directory: &LogDirectory, name: &str) -> LogError {
    let reason = "the directory of a partition is missing; put it back, or make it empty to begin \
                  again without the records";
    let path = directory.path().join(name);
    LogError::BadFile { path: path.into(), reason: reason.to_owned() }
}

/// Whether it is TOPIC-PARTITION, and not the metadata log.
#[must_use]
pub fn is_partition_name(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(topic, index)| {
        topic != CLUSTER_METADATA_TOPIC
            && !topic.is_empty()
            && index.bytes().all(|byte| byte.is_ascii_digit())
            && index.parse::<i32>().is_ok()
    })
}

/// Of several places of one partition the one that was written, or else the one that was noted. A
/// disk may fail while a new log is made there, and the log is made on another one then.
///
/// If several were written, the one that is noted counts: it has served last. A disk that was away
/// comes back with what the replica was before it was copied from its leader. The others are put
/// aside, and not deleted.
fn only_written<'a>(
    mut found: Vec<Place<'a>>,
    name: &str,
    assigned: Assignment,
) -> Result<Vec<Place<'a>>, LogError> {
    found.sort_by_key(|place| assigned == Assignment::Directory(place.directory.id));
    let (mut written, mut begun) = (Vec::new(), Vec::new());
    for place in found {
        let is_written = place.directory.was_written(name)?;
        if is_written { written.push(place) } else { begun.push(place) }
    }
    if written.is_empty() {
        written.extend(begun.pop());
    }
    let is_assigned =
        written.last().is_some_and(|last| assigned == Assignment::Directory(last.directory.id));
    if is_assigned && let Some(served) = written.pop() {
        for left in written.drain(..) {
            let [at, unused] = [&served, &left].map(|place| place.directory.path().join(name));
            let (served, unused) = (at.display(), unused.display());
            tracing::warn!(%served, %unused, "a log is in two directories: the noted one counts");
            begun.push(left);
        }
        written.push(served);
    }
    if let [one, other, ..] = &written[..] {
        let [path, twice] = [one, other].map(|place| place.directory.path().join(name));
        let reason = format!("the same partition is at {}, too", twice.display());
        return Err(LogError::BadFile { path: path.into(), reason });
    }
    for place in begun {
        place.directory.put_aside(name, "unused")?;
    }
    Ok(written)
}

/// What the directory `name` of a partition is called when the topic has left it, as in Kafka; at
/// most 255 bytes.
fn left_name(name: &str, id: impl Display, suffix: &str) -> String {
    let suffix = format!(".{id}{suffix}");
    // The index stays whole: it is what tells the partitions of a topic from each other.
    let (topic, index) = name.rsplit_once('-').unwrap_or((name, ""));
    let room = 254 - suffix.len() - index.len();
    format!("{}-{index}{suffix}", &topic[..topic.floor_char_boundary(room)])
}

mod moved;

impl LogDirectory {
    /// What the directory `name` of a partition is to be called when its topic is gone, or its
    /// replica. A directory that is called so already, because the replica came and went before, is
    /// not replaced.
    pub(super) fn free_name(&self, name: &str, id: impl Display, suffix: &str) -> String {
        let mut free = left_name(name, &id, suffix);
        for again in 2.. {
            if !self.path().join(&free).exists() {
                break;
            }
            free = left_name(name, format_args!("{id}.{again}"), suffix);
        }
        free
    }

    /// Gives the directory `name` of a partition the name that it has when its topic is gone.
    pub(super) fn rename(
        &self,
        name: &str,
        id: impl Display,
        suffix: &str,
    ) -> Result<PathBuf, LogError> {
        let from = self.path().join(name);
        let to = self.path().join(self.free_name(name, &id, suffix));
        let storage = self.log_dir().storage();
        storage.rename(&from, &to).map_err(|error| self.failed(&from, error))?;
        storage.sync_dir(self.path()).map_err(|error| self.failed(self.path(), error))?;
        Ok(to)
    }

    /// Moves the directory `name` out of the way of the partition of that name.
    pub(super) fn put_aside(&self, name: &str, owner: &str) -> Result<(), LogError> {
        let to = self.rename(name, owner, "-stray")?;
        let from = self.path().join(name);
        tracing::warn!(from = %from.display(), to = %to.display(), "log moved out of the way");
        Ok(())
    }

    /// Whether `path` is a directory. A disk that fails to answer goes offline. Otherwise an
    /// existing partition would be created again elsewhere.
    fn has_directory(&self, path: &Path) -> Result<bool, LogError> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(found.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => match self.failed(path, error) {
                failure if failure.is_disk_failure() => Ok(false),
                error => Err(error),
            },
        }
    }

    /// What the directory `name` holds.
    fn entries(&self, name: &str) -> Result<Vec<DirEntry>, LogError> {
        let path = self.path().join(name);
        self.log_dir().storage().list(&path).map_err(|error| self.failed(&path, error))
    }

    /// Turns a failure of the kernel into an error, and takes the directory offline if its disk
    /// failed: a partition that waits for it can be made on another disk then.
    fn failed(&self, path: &Path, error: io::Error) -> LogError {
        self.log_dir().judge(LogError::io(path, error))
    }

    /// Whether there are records in the directory `name`.
    fn holds_records(&self, name: &str) -> Result<bool, LogError> {
        let entries = self.entries(name)?;
        Ok(entries.iter().any(|entry| entry.name.ends_with(".log") && entry.length > 0))
    }

    /// Whether the log in the directory `name` ever had a record. One whose records were all
    /// deleted does not begin at offset 0 any more.
    fn was_written(&self, name: &str) -> Result<bool, LogError> {
        let entries = self.entries(name)?;
        let first = "00000000000000000000.log";
        let is_written = |name: &str, length| length > 0 || name != first;
        Ok(entries
            .iter()
            .any(|entry| entry.name.ends_with(".log") && is_written(&entry.name, entry.length)))
    }

    /// Whether the log in the directory `name` was made to its end: it has a segment.
    fn has_segment(&self, name: &str) -> Result<bool, LogError> {
        let entries = self.entries(name)?;
        Ok(entries.iter().any(|entry| entry.name.ends_with(".log")))
    }

    /// Takes over the checkpoints of a release that did not note whose their entries are. `id_of`
    /// says which id the topic of a name has.
    pub(super) fn settle_checkpoints(&self, id_of: impl Fn(&str) -> Option<Uuid>) {
        let storage = self.log_dir().storage().as_ref();
        self.checkpoints.settle(|topic, index| {
            let id = id_of(topic)?;
            let path = self.path().join(format!("{topic}-{index}"));
            let is_its_own = match read_topic_id(storage, &path) {
                Ok(Some(stored)) => stored == id,
                Ok(None) => path.is_dir(),
                // It may be, and this is all that is known of it.
                Err(_) => true,
            };
            is_its_own.then_some(id)
        });
    }

    /// Writes one checkpoint with the offsets of the partitions here.
    pub(super) fn checkpoint(
        &self,
        which: Checkpoint,
        mut entries: Vec<Entry>,
    ) -> Result<(), LogError> {
        if self.log_dir().is_offline() {
            return Ok(());
        }
        entries.retain(|entry| entry.offset > Offset::ZERO);
        self.checkpoints.write(which, &entries)
    }
}
