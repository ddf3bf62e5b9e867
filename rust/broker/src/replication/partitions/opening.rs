//! Opening logs and closing them: one by one while the broker runs, many at once when it starts and
//! stops.
//!
//! At a start each directory has `num.recovery.threads.per.data.dir` threads, as disks are what a
//! scan after a crash waits for. A clean stop is all fsyncs, which a disk takes together: there the
//! number of threads is our own.
//! Source: Kafka's `LogManager.loadLogs` and `shutdown`.

use super::{Partition, Partitions};
use crate::error::panics;
use crate::metadata::{MetadataImage, TopicImage};
use crate::replication::checkpoints::Checkpoint;
use kafkalite_log::checkpoint::write_topic_id;
use kafkalite_log::{CommitLog, LogError, OpenState};
use kafkalite_protocol::Uuid;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Logs that were opened before their partitions are made, by topic and partition.
pub(super) type Opened = HashMap<(Uuid, i32), Result<CommitLog, LogError>>;

/// Threads that close the logs of one directory.
const CLOSING_THREADS: usize = 16;

impl Partitions {
    /// Opens what was there before the broker started, the logs of all directories side by side.
    pub(super) fn open_existing(&self, image: &MetadataImage) {
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
        let threads = self.config.recovery_threads;
        in_parallel(&queues, threads, |(topic, index)| {
            let log = self.open_log(topic, *index, true);
            self.opened.lock().insert((topic.id, *index), log);
        });
    }

    /// Opens a partition's log, if that is not done. One that cannot be opened is said once, and
    /// answers as a storage error.
    pub(super) fn open(&self, topic: &TopicImage, index: i32) -> Option<Arc<Partition>> {
        let opened = self.opened.lock().remove(&(topic.id, index));
        match opened.unwrap_or_else(|| self.open_log(topic, index, false)) {
            Ok(log) => {
                let settings = (self.config.settings)(topic);
                Some(Arc::new(self.partition(topic, index, &settings, log)))
            }
            Err(error) => {
                let topic = &topic.name;
                tracing::error!(%topic, partition = index, %error, "log does not open");
                None
            }
        }
    }

    fn open_log(
        &self,
        topic: &TopicImage,
        index: i32,
        existed: bool,
    ) -> Result<CommitLog, LogError> {
        let name = format!("{}-{index}", topic.name);
        let settings = (self.config.settings)(topic);
        let place = self.dirs.place(&name, topic.id, existed)?;
        let checkpoints = place.directory.checkpoints();
        let state = if existed {
            checkpoints.open_state(&topic.name, index)
        } else {
            // The checkpoints were read at the start: what they say under this name is of a topic
            // that was deleted since.
            OpenState { clean: checkpoints.was_clean(), ..OpenState::default() }
        };
        let log_dir = place.directory.log_dir();
        let now_ms = self.config.clock.wall_ms();
        let (log, report) = CommitLog::open(log_dir, &name, settings.log.clone(), state, now_ms)?;
        self.dirs.count(log_dir, true);
        let greatest = report.greatest_producer_id.unwrap_or(-1);
        self.greatest_producer_id.fetch_max(greatest, Ordering::AcqRel);
        if place.stored != Some(topic.id) {
            let path = log_dir.path().join(&name);
            write_topic_id(log_dir.storage().as_ref(), &path, topic.id)?;
        }
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
            queues[self.dirs.position(partition.log().log_dir())].push(partition);
        }
        let failed: Mutex<HashMap<usize, LogError>> = Mutex::default();
        in_parallel(&queues, CLOSING_THREADS, |partition| {
            if let Err(error) = partition.log().close(true) {
                let place = self.dirs.position(partition.log().log_dir());
                failed.lock().entry(place).or_insert(error);
            }
        });
        let mut outcomes: Vec<Result<(), LogError>> = self.dirs.iter().map(|_| Ok(())).collect();
        for (place, error) in failed.into_inner() {
            outcomes[place] = Err(error);
        }
        for which in [Checkpoint::RecoveryPoint, Checkpoint::LogStart, Checkpoint::HighWatermark] {
            for (outcome, written) in outcomes.iter_mut().zip(self.write_checkpoints(which)) {
                *outcome = std::mem::replace(outcome, Ok(())).and(written);
            }
        }
        let noted = self.dirs.iter().zip(outcomes).map(|(dir, outcome)| match outcome {
            Ok(()) if dir.log_dir().is_offline() => Ok(()),
            outcome => outcome.and_then(|()| dir.checkpoints().note_clean_stop(broker_epoch)),
        });
        noted.fold(Ok(()), Result::and)
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
