//! Reads and writes the checkpoint files of a log directory: offsets of each partition.
//!
//! Kafka's files name partitions by topic and index alone, and a name may be given again. A file of
//! our own beside them has the topic id of each entry, and an entry of another topic of the name is
//! ignored. This file is written after the checkpoint that it guards. So after a crash no entry
//! counts for another topic. At worst an entry is ignored that no client relies on yet.
//!
//! Read once at the start. A damaged file is not believed: recovery then scans more than it would
//! have to, and says so. One that the disk does not give is an error: what it says still holds.
//! Source: Kafka's `LogManager` and its `OffsetCheckpointFile`s.

use kafkalite_log::checkpoint::{
    CLEANER_FILE, CheckpointTopics, HIGH_WATERMARK_FILE, LOG_START_FILE, PartitionOffsets,
    RECOVERY_POINT_FILE, TOPIC_IDS_FILE, forget_clean_shutdown, read_clean_shutdown, read_offsets,
    read_topic_ids, write_clean_shutdown, write_offsets, write_topic_ids,
};
use kafkalite_log::{LogDir, LogError, OpenState};
use kafkalite_protocol::{Offset, Uuid};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

mod noted;

pub use noted::Noted;
use noted::guard;

/// The checkpoints of one log directory.
pub struct Checkpoints {
    directory: Arc<LogDir>,
    /// The broker's epoch in the life that ended cleanly.
    clean_epoch: Option<i64>,
    /// The files as the last run left them.
    found: Mutex<Noted>,
    /// What was written last; one at a time replaces a file, with what holds then.
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    offsets: HashMap<Checkpoint, PartitionOffsets>,
    /// Files whose last write failed.
    unknown: HashSet<Checkpoint>,
    topics: CheckpointTopics,
    /// The file of topics is missing: it has to be there before the first checkpoint is.
    topics_are_unwritten: bool,
}

/// One entry of a checkpoint: whose it is, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The partition's index in its topic.
    pub index: i32,
    /// The offset that is noted.
    pub offset: Offset,
}

/// Which of the files is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checkpoint {
    /// Everything below is on disk.
    RecoveryPoint,
    /// The first offset.
    LogStart,
    /// The high watermark.
    HighWatermark,
    /// Everything below is compacted.
    Cleaner,
}

impl Checkpoint {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::RecoveryPoint, Self::LogStart, Self::HighWatermark, Self::Cleaner];

    /// Those that name every partition that ever had a record. The cleaner's is written by itself.
    pub(super) const OF_REPLICAS: [Self; 3] =
        [Self::RecoveryPoint, Self::LogStart, Self::HighWatermark];

    const fn file(self) -> &'static str {
        match self {
            Self::RecoveryPoint => RECOVERY_POINT_FILE,
            Self::LogStart => LOG_START_FILE,
            Self::HighWatermark => HIGH_WATERMARK_FILE,
            Self::Cleaner => CLEANER_FILE,
        }
    }
}

impl Checkpoints {
    /// Reads the checkpoints. The note of a clean stop stays until [`Self::begin`].
    ///
    /// # Errors
    /// The disk fails.
    pub fn read(directory: Arc<LogDir>) -> Result<Self, LogError> {
        let storage = directory.storage().as_ref();
        let mut clean = true;
        let mut offsets = HashMap::new();
        for which in Checkpoint::ALL {
            let read = match read_offsets(storage, &directory.path().join(which.file())) {
                Err(error @ LogError::BadFile { .. }) => {
                    tracing::error!(%error, "a checkpoint is not believed, logs are checked whole");
                    // How far logs are compacted has nothing to do with how they were left.
                    clean &= which == Checkpoint::Cleaner;
                    PartitionOffsets::new()
                }
                read => read?,
            };
            offsets.insert(which, read);
        }
        let topics = match read_topic_ids(storage, &directory.path().join(TOPIC_IDS_FILE)) {
            Err(error @ LogError::BadFile { .. }) => {
                tracing::error!(%error, "no checkpoint is believed, logs are checked whole");
                clean = false;
                Some(CheckpointTopics::new())
            }
            read => read?,
        };
        let clean_epoch = read_clean_shutdown(storage, directory.path())?.filter(|_| clean);
        // What is on the disk already need not be written once more.
        let written = Written { topics: topics.clone().unwrap_or_default(), ..Written::default() };
        let found = Mutex::new(Noted { offsets, topics });
        Ok(Self { directory, clean_epoch, found, written: Mutex::new(written) })
    }

    /// The logs here may change from now on, so a crash is unclean. A start that fails before this
    /// call leaves the note of the clean stop to the next one.
    ///
    /// # Errors
    /// The disk is full or fails: then nothing here may change.
    pub fn begin(&self) -> Result<(), LogError> {
        forget_clean_shutdown(self.directory.storage().as_ref(), self.directory.path())
    }

    /// The broker's epoch in its last life, if that one left every log here complete.
    #[must_use]
    pub const fn clean_epoch(&self) -> Option<i64> {
        self.clean_epoch
    }

    /// The directory they are in.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDir> {
        &self.directory
    }

    /// Takes over the checkpoints of a release that did not note the topic ids of their entries.
    /// This comes before any change in the directory. `owner` gives the topic of the partition of
    /// this name and index whose files are here, if any. Other entries are ignored.
    pub(super) fn settle(&self, owner: impl Fn(&str, i32) -> Option<Uuid>) {
        let mut found = self.found.lock();
        if found.topics.is_some() {
            return;
        }
        let mut topics = CheckpointTopics::new();
        for (which, offsets) in &mut found.offsets {
            offsets.retain(|(topic, index), _| {
                let owner = owner(topic, *index);
                topics.extend(owner.map(|owner| (guard(*which, topic), owner)));
                owner.is_some()
            });
        }
        let mut written = self.written.lock();
        written.topics.clone_from(&topics);
        written.topics_are_unwritten = true;
        // Where there is no checkpoint, the first one is soon enough.
        let has_some = found.offsets.values().any(|offsets| !offsets.is_empty());
        if let Err(error) = has_some.then(|| self.write_missing(&mut written)).transpose() {
            tracing::error!(%error, "topic ids of checkpoints are not written");
        }
        found.topics = Some(topics);
    }

    /// Writes the file of topics if it is missing. Without it, the next start would take all
    /// entries for those of an earlier release.
    fn write_missing(&self, written: &mut Written) -> Result<(), LogError> {
        if written.topics_are_unwritten {
            let path = self.directory.path().join(TOPIC_IDS_FILE);
            write_topic_ids(self.directory.storage().as_ref(), &path, &written.topics)?;
            written.topics_are_unwritten = false;
        }
        Ok(())
    }

    /// What the last run noted of a partition of the topic with this name and id.
    #[must_use]
    pub fn noted(
        &self,
        which: Checkpoint,
        topic: &str,
        topic_id: Uuid,
        index: i32,
    ) -> Option<Offset> {
        self.found.lock().noted(which, topic, topic_id, index)
    }

    /// Forgets all notes of a partition whose log is about to be created again, in the files first.
    /// The log before may have been one of the same topic. After a crash what was noted of it would
    /// count for the new one. Entries of another topic of the name do not count in any case.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(super) fn forget(&self, topic: &str, topic_id: Uuid, index: i32) -> Result<(), LogError> {
        let key = (topic.to_owned(), index);
        let mut found = self.found.lock();
        let mut written = self.written.lock();
        for which in Checkpoint::ALL {
            let found = found.offsets.entry(which).or_default();
            // After a write that failed it is not known what stands in the file. The next one puts
            // everything right.
            let is_known = !written.unknown.contains(&which);
            let counts = written.topics.get(&guard(which, topic)) == Some(&topic_id);
            let there = written.offsets.get(&which).unwrap_or(found);
            if is_known && counts && there.contains_key(&key) {
                let mut rest = there.clone();
                rest.remove(&key);
                self.replace(&mut written, which, rest)?;
            }
            found.remove(&key);
        }
        Ok(())
    }

    /// Has [`Self::noted`] give what the entry says, in place of what the last run noted. The file
    /// gets it at its next write.
    pub(super) fn note(&self, which: Checkpoint, entry: &Entry) {
        self.found.lock().note(which, entry);
    }

    /// What is known of a partition before its log is opened.
    #[must_use]
    pub fn open_state(&self, topic: &str, topic_id: Uuid, index: i32) -> OpenState {
        let of = |which| self.noted(which, topic, topic_id, index).unwrap_or_default();
        OpenState {
            clean: self.clean_epoch.is_some(),
            recovery_point: of(Checkpoint::RecoveryPoint),
            log_start_offset: of(Checkpoint::LogStart),
            cleaned_to: of(Checkpoint::Cleaner),
        }
    }

    /// Writes one of the files, unless it has these entries already. The file is on the disk when
    /// this returns, and so are the topic ids of its entries.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(&self, which: Checkpoint, entries: &[Entry]) -> Result<(), LogError> {
        let (offsets, topics) = noted::contents(which, entries);
        let mut written = self.written.lock();
        self.write_missing(&mut written)?;
        let storage = self.directory.storage().as_ref();
        if written.offsets.get(&which) != Some(&offsets) {
            self.replace(&mut written, which, offsets)?;
        }
        // Ids of removed topics do no harm: they are never given again.
        let is_noted = topics.iter().all(|(name, id)| written.topics.get(name) == Some(id));
        if is_noted {
            return Ok(());
        }
        let all = noted::with_those_of(which, &written.topics, topics);
        write_topic_ids(storage, &self.directory.path().join(TOPIC_IDS_FILE), &all)?;
        written.topics = all;
        Ok(())
    }

    fn replace(
        &self,
        written: &mut Written,
        which: Checkpoint,
        offsets: PartitionOffsets,
    ) -> Result<(), LogError> {
        let (storage, path) = (self.directory.storage(), self.directory.path().join(which.file()));
        written.offsets.remove(&which);
        written.unknown.insert(which);
        write_offsets(storage.as_ref(), &path, &offsets)?;
        written.offsets.insert(which, offsets);
        written.unknown.remove(&which);
        Ok(())
    }

    /// Notes a clean stop; to be written last.
    ///
    /// # Errors
    /// The disk is full or fails; then the next start checks every log.
    pub fn note_clean_stop(&self, broker_epoch: i64) -> Result<(), LogError> {
        write_clean_shutdown(self.directory.storage().as_ref(), self.directory.path(), broker_epoch)
    }
}

#[cfg(test)]
mod tests;
