//! Opening logs and closing them: one by one while the broker runs, many at once when it starts and
//! stops.
//!
//! At a start each directory has `num.recovery.threads.per.data.dir` threads, as disks are what a
//! scan after a crash waits for. New logs and a clean stop are all fsyncs, which a disk takes
//! together: there the number of threads is our own.
//!
//! A log may not open for lack of descriptors or space, or because of a bug that panics. It answers
//! with a storage error and is tried again after a while. Until it opens, what the checkpoints say
//! of it stays in them, and its directory's stop does not count as clean.
//! Source: Kafka's `LogManager.loadLogs` and `shutdown`.

use super::{Partition, ReplicaManager, Slot};
use crate::error::panics;
use crate::metadata::image::Assignment;
use crate::metadata::{MetadataImage, TopicImage};
use crate::partitions::checkpoints::Checkpoint;
use crate::partitions::log_dirs::Place;
use crate::partitions::topic_settings::TopicSettings;
use kafkalite_log::checkpoint::write_topic_id;
use kafkalite_log::{CommitLog, LogError, OpenState};
use kafkalite_protocol::Uuid;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The outcomes of logs that are opened before their partitions exist, by topic and partition.
pub(super) type Opened = HashMap<(Uuid, i32), Result<Arc<CommitLog>, String>>;

/// Threads that make new logs, or close those of one directory.
const SYNCING_THREADS: usize = 16;

/// Between the first two attempts at a log, in ms; then twice as long, and so on.
const FIRST_RETRY_MS: u64 = 1_000;
/// Between any two of them.
const LAST_RETRY_MS: u64 = 60_000;

/// How long to wait before the next of so many attempts, in ms.
pub(super) fn retry_wait_ms(attempts: u32) -> u64 {
    FIRST_RETRY_MS.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(LAST_RETRY_MS)
}

/// A log that did not open.
#[derive(Debug)]
pub(super) struct Unopened {
    why: String,
    attempts: u32,
    /// When it is tried again, in ms of monotonic time.
    retry_at_ms: u64,
}

impl Unopened {
    /// One that is to be opened at `now_ms` of monotonic time.
    pub(super) fn new(why: String, now_ms: u64) -> Self {
        Self { why, attempts: 0, retry_at_ms: now_ms }
    }
}

impl ReplicaManager {
    /// Opens what was there before the broker started, the logs of all directories side by side.
    pub(super) fn open_existing(&self, image: &MetadataImage) {
        for dir in self.dirs.iter() {
            dir.settle_checkpoints(|topic| image.topic(topic).map(|topic| topic.id));
            self.clear_away(dir, image);
        }
        let local = self.config.local_id;
        let mut queues: Vec<Vec<(&Arc<TopicImage>, i32)>> =
            self.dirs.iter().map(|_| Vec::new()).collect();
        for topic in image.topics.iter() {
            for (index, partition) in (0..).zip(&topic.partitions) {
                if partition.replicas.contains(&local) {
                    let name = format!("{}-{index}", topic.name);
                    let mut dirs = self.dirs.iter();
                    // One that is nowhere is a matter of a moment, whichever thread finds that out.
                    let place = dirs.position(|dir| dir.path().join(&name).is_dir());
                    queues[place.unwrap_or(0)].push((topic, index));
                }
            }
        }
        let threads = self.config.recovery_threads.min(self.config.max_threads);
        in_parallel(&queues, threads, |(topic, index)| {
            let log = self.try_to_open(topic, *index, true);
            self.opened.lock().insert((topic.id, *index), log);
        });
    }

    /// Makes the logs of new partitions of these topics, side by side: each waits for the disk.
    pub(super) fn open_new(&self, topics: &[&Arc<TopicImage>]) {
        let mut new: Vec<(&Arc<TopicImage>, i32)> = Vec::new();
        {
            let (maps, opened) = (self.maps.read(), self.opened.lock());
            for topic in topics {
                let there = maps.by_id.get(&topic.id).map_or(&[][..], |topic| &topic.partitions);
                let there = there.iter().map(Some).chain(std::iter::repeat(None));
                for ((index, partition), slot) in (0..).zip(&topic.partitions).zip(there) {
                    let is_new = matches!(slot, None | Some(Slot::Elsewhere));
                    let is_here = partition.replicas.contains(&self.config.local_id);
                    if is_here && is_new && !opened.contains_key(&(topic.id, index)) {
                        new.push((topic, index));
                    }
                }
            }
        }
        in_parallel(&[new], SYNCING_THREADS.min(self.config.max_threads), |(topic, index)| {
            let log = self.try_to_open(topic, *index, true);
            self.opened.lock().insert((topic.id, *index), log);
        });
    }

    /// Opens a partition's log, if that is not done.
    pub(super) fn open(&self, topic: &TopicImage, index: i32, settings: &TopicSettings) -> Slot {
        let opened = {
            let mut waiting = self.opened.lock();
            let opened = waiting.remove(&(topic.id, index));
            if waiting.is_empty() {
                // A start had room for all logs of the broker here.
                waiting.shrink_to_fit();
            }
            opened
        };
        let opened = opened.unwrap_or_else(|| self.try_to_open(topic, index, true));
        self.take_in(topic, index, opened, settings)
    }

    /// Makes the partition of a log that opened; of another one notes when to try again. The
    /// reason is said once, as long as it stays the same.
    fn take_in(
        &self,
        topic: &TopicImage,
        index: i32,
        opened: Result<Arc<CommitLog>, String>,
        settings: &TopicSettings,
    ) -> Slot {
        let mut unopened = self.unopened.lock();
        let before = unopened.remove(&(topic.id, index));
        let why = match opened {
            Ok(log) => {
                drop(unopened);
                return Slot::Here(Arc::new(self.partition(topic, index, settings, log)));
            }
            Err(why) => why,
        };
        if before.as_ref().is_none_or(|before| before.why != why) {
            let (topic, error) = (&topic.name, &why);
            tracing::error!(%topic, partition = index, %error, "log does not open; tried again");
        }
        let attempts = before.map_or(0, |before| before.attempts) + 1;
        let wait_ms = retry_wait_ms(attempts);
        let retry_at_ms = self.config.clock.monotonic_ms().saturating_add(wait_ms);
        unopened.insert((topic.id, index), Unopened { why, attempts, retry_at_ms });
        drop(unopened);
        self.look_at_deadlines();
        Slot::Unopened
    }

    /// When a log that did not open is tried next, in ms of monotonic time.
    pub fn next_retry_ms(&self) -> Option<u64> {
        self.unopened.lock().values().map(|unopened| unopened.retry_at_ms).min()
    }

    /// Tries to open the logs again that did not open and whose time has come.
    pub fn retry_unopened(&self) {
        let (any_opened, any_unassigned) = self.reopen_due();
        if any_unassigned {
            self.propose_assignments();
        }
        if let Some(hear) = self.on_opened.get().filter(|_| any_opened) {
            hear();
        }
    }

    /// Calls `hear` whenever logs open that did not open at first. Only the first call has an
    /// effect.
    pub fn on_opened(&self, hear: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_opened.set(Box::new(hear));
    }

    /// Whether any log opened, and whether its replica waits to be assigned to its log directory.
    fn reopen_due(&self) -> (bool, bool) {
        let now_ms = self.config.clock.monotonic_ms();
        let _following = self.following.lock();
        let due: Vec<(Uuid, i32)> = {
            let unopened = self.unopened.lock();
            let due = unopened.iter().filter(|(_, one)| one.retry_at_ms <= now_ms);
            due.map(|(which, _)| *which).collect()
        };
        let mut topics = HashSet::new();
        for (id, index) in due {
            let topic = self.maps.read().by_id.get(&id).map(|topic| topic.image.clone());
            let Some(topic) = topic else { continue };
            // What did not open once is not believed to be as a clean stop left it.
            let opened = self.try_to_open(&topic, index, false);
            let settings = (self.config.settings)(&topic);
            let slot = self.take_in(&topic, index, opened, &settings);
            if let Slot::Here(partition) = &slot {
                let place = usize::try_from(index).unwrap_or(usize::MAX);
                if let Some(image) = topic.partitions.get(place) {
                    partition.follow_image(image);
                }
                tracing::info!(topic = %topic.name, partition = index, "log is open at last");
                self.maps.write().put(id, place, slot);
                topics.insert(id);
            }
        }
        self.remove_left();
        (!topics.is_empty(), self.follow_unassigned(topics))
    }

    /// Opens a log; a panic in there is a reason why it does not open.
    fn try_to_open(
        &self,
        topic: &TopicImage,
        index: i32,
        may_be_clean: bool,
    ) -> Result<Arc<CommitLog>, String> {
        let open = || self.open_log(topic, index, may_be_clean);
        match panics::contain("opening a log", open) {
            Some(opened) => opened.map(Arc::new).map_err(|error| error.to_string()),
            None => Err("opening it panicked".to_owned()),
        }
    }

    fn open_log(
        &self,
        topic: &TopicImage,
        index: i32,
        may_be_clean: bool,
    ) -> Result<CommitLog, LogError> {
        let name = format!("{}-{index}", topic.name);
        let partition = topic.partition(index);
        let assigned = partition.map(|partition| partition.assignment(self.config.local_id));
        let assigned = assigned.unwrap_or(Assignment::Unassigned);
        let is_new = assigned == Assignment::Unassigned;
        let (mut full, mut refused) = (Vec::new(), None);
        loop {
            let place = {
                // New logs are made side by side, and go where the fewest are.
                let _placing = is_new.then(|| self.placing.lock());
                let place = self.dirs.place(&topic.name, topic.id, index, assigned, &full);
                // No directory has room.
                let place = place.map_err(|error| refused.unwrap_or(error))?;
                self.dirs.count(place.directory.log_dir(), true);
                place
            };
            let opened = self.open_at(&place, &name, topic, index, may_be_clean);
            let Err(error) = opened else { return opened };
            self.dirs.count(place.directory.log_dir(), false);
            let id = place.directory.id();
            let is_full = matches!(error, LogError::DiskFull { .. });
            if !is_new || !is_full || full.contains(&id) {
                return Err(error);
            }
            full.push(id);
            refused = Some(error);
        }
    }

    fn open_at(
        &self,
        place: &Place<'_>,
        name: &str,
        topic: &TopicImage,
        index: i32,
        may_be_clean: bool,
    ) -> Result<CommitLog, LogError> {
        let settings = (self.config.settings)(topic);
        let log_dir = place.directory.log_dir();
        if place.stored != Some(topic.id) {
            // Before any other file: records never lie in a directory without a topic id.
            let (storage, path) = (log_dir.storage().as_ref(), log_dir.path().join(name));
            let made = storage.create_dir(&path).map_err(|error| LogError::io(&path, error));
            let owned = made.and_then(|()| write_topic_id(storage, &path, topic.id));
            // On a disk that fails here the log is not made: it is tried on another one.
            owned.map_err(|error| log_dir.judge(error))?;
        }
        let noted = place.directory.checkpoints().open_state(&topic.name, topic.id, index);
        let state = OpenState { clean: noted.clean && may_be_clean, ..noted };
        let now_ms = self.config.clock.wall_ms();
        let (log, report) = CommitLog::open(log_dir, name, settings.log.clone(), state, now_ms)?;
        self.producer_ids.saw(report.greatest_producer_id.unwrap_or(-1));
        if report.truncated_bytes > 0 || report.lost_below_recovery_point {
            tracing::warn!(log = name, ?report, "log was cut back to its last whole batch");
        }
        if settings.log.flush_messages <= 1 {
            // What survived a kill in the page cache only may be read now, so it must survive a
            // power cut.
            log.flush()?;
        }
        Ok(log)
    }

    /// Closes every log, and notes of each directory that did not fail that the next start need not
    /// check its logs.
    ///
    /// # Errors
    /// A disk refuses; then the next start checks what is there.
    pub fn close(&self, broker_epoch: i64) -> Result<(), LogError> {
        let mut queues: Vec<Vec<Arc<Partition>>> = self.dirs.iter().map(|_| Vec::new()).collect();
        for partition in self.all() {
            queues[self.dirs.position(&partition.log().log_dir())].push(partition);
        }
        let failed: Mutex<HashMap<usize, LogError>> = Mutex::default();
        in_parallel(&queues, SYNCING_THREADS.min(self.config.max_threads), |partition| {
            let log = partition.log();
            let panicked = || LogError::io(&*log.path(), io::Error::other("closing it panicked"));
            let closed = panics::contain("closing a log", || log.close(true));
            let closed = closed.unwrap_or_else(|| Err(panicked()));
            if let Err(error) = closed {
                let place = self.dirs.position(&partition.log().log_dir());
                failed.lock().entry(place).or_insert(error);
            }
        });
        let mut outcomes: Vec<Result<(), LogError>> = self.dirs.iter().map(|_| Ok(())).collect();
        for (place, error) in failed.into_inner() {
            outcomes[place] = Err(error);
        }
        for which in Checkpoint::OF_REPLICAS {
            for (outcome, written) in outcomes.iter_mut().zip(self.write_checkpoints(which)) {
                *outcome = std::mem::replace(outcome, Ok(())).and(written);
            }
        }
        let unopened = self.unopened_names();
        let noted = self.dirs.iter().zip(outcomes).enumerate();
        let noted = noted.map(|(place, (dir, outcome))| match outcome {
            Ok(()) if dir.log_dir().is_offline() => Ok(()),
            Ok(()) if self.moves.left(place) => {
                // It was not closed there, and counts if the next start is without its new disk.
                let log_dir = dir.path().display();
                tracing::info!(%log_dir, "a replica is leaving; the next start checks all here");
                Ok(())
            }
            Ok(()) if unopened.iter().any(|name| dir.path().join(name).exists()) => {
                let log_dir = dir.path().display();
                tracing::warn!(%log_dir, "a log did not open; the next start checks all here");
                Ok(())
            }
            outcome => outcome.and_then(|()| dir.checkpoints().note_clean_stop(broker_epoch)),
        });
        noted.fold(Ok(()), Result::and)
    }

    /// What the directories of partitions are called that did not open.
    fn unopened_names(&self) -> Vec<String> {
        let maps = self.maps.read();
        let unopened = self.unopened.lock();
        let name = |(id, index): &(Uuid, i32)| {
            maps.by_id.get(id).map(|topic| format!("{}-{index}", topic.image.name))
        };
        unopened.keys().filter_map(name).collect()
    }
}

/// Does `act` with every item, on `threads` threads for each queue. A panic costs its item.
fn in_parallel<T: Sync>(queues: &[Vec<T>], threads: usize, act: impl Fn(&T) + Sync) {
    let next: Vec<AtomicUsize> = queues.iter().map(|_| AtomicUsize::new(0)).collect();
    let work = |place: usize| {
        while let Some(item) = queues[place].get(next[place].fetch_add(1, Ordering::Relaxed)) {
            panics::contain("opening or closing a log", || act(item));
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        for (place, queue) in queues.iter().enumerate() {
            // This thread counts for one where there is one directory.
            let own = usize::from(queues.len() == 1);
            for _ in own..threads.min(queue.len()) {
                let builder = std::thread::Builder::new().name("log-opener".to_owned());
                // A system that gives no more threads makes it slower.
                drop(builder.spawn_scoped(scope, move || work(place)));
            }
        }
        (0..queues.len()).for_each(work);
    });
}
