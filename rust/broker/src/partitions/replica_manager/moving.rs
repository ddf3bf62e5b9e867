//! Moves replicas into other log directories of this broker, while they serve.
//!
//! ```text
//! copying --caught up--> in the files of the copy --noted--> the directory before is removed
//! ```
//! A thread of its own copies, so that no request waits for it. The log goes on in the copy's files
//! at once. Nothing is acknowledged from then on before the metadata note the new directory, as
//! for a new replica. The directory before keeps its name for so long. So whichever of the two
//! disks fails, no acknowledged record is missed without an error.
//!
//! If the new disk fails before the note, the replica goes back to the directory before.
//!
//! A copy that a stop interrupted is never served: it is removed, and the move begins again.
//! Source: Kafka's `ReplicaManager.alterReplicaLogDirs`, `ReplicaAlterLogDirsThread`; KIP-113, 858.

use super::{Partition, ReplicaManager};
use crate::error::log_error_code;
use crate::partitions::checkpoints::{Checkpoint, Entry};
use crate::partitions::log_dirs::{DELETED, LogDirectory};
use kafkalite_log::checkpoint::write_topic_id;
use kafkalite_log::move_notes::MoveNote;
use kafkalite_log::{FutureLog, LeftLog, LogDir, LogError};
use kafkalite_protocol::{ErrorCode, Offset, Uuid};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

mod going_back;
mod resuming;

/// What the directory of a copy ends with, as in Kafka.
pub(super) const FUTURE: &str = "-future";
/// Copied in one turn, at most.
const TURN_BYTES: u64 = 1 << 20;
/// After so many bytes what was copied is put on the disk: the last flush, under the lock of
/// appends, is small.
const FLUSH_BYTES: u64 = 64 << 20;
/// Between two attempts to copy what cannot be copied now, in ms.
pub(super) const RETRY_MS: u64 = 100;

type Key = (Uuid, i32);

/// Replicas that move.
#[derive(Default)]
pub(super) struct Moves {
    /// By topic and partition.
    running: Mutex<BTreeMap<Key, Arc<Move>>>,
    /// Those that the last stop interrupted, and their directories.
    interrupted: Mutex<Vec<(Key, Uuid)>>,
    /// One request at a time.
    altering: Mutex<()>,
}

/// One replica that moves.
struct Move {
    id: Uuid,
    partition: Arc<Partition>,
    /// The place of its new directory among all.
    target: usize,
    copy: FutureLog,
    stage: Mutex<Stage>,
    /// While the replica may be looked for in two directories, checkpoints of both have it.
    twice: Mutex<Option<Twice>>,
    /// When the next turn is, in ms of monotonic time.
    due_ms: Mutex<u64>,
}

enum Stage {
    /// So many bytes were copied since the last flush.
    Copying(u64),
    /// The log is in its new directory. With another directory to move to after that.
    Noting(LeftLog, Option<usize>),
    Ended,
}

/// The places of two directories, and the recovery point that the checkpoints of each have unless
/// the log is there.
type Twice = [(usize, Offset); 2];

/// A copy that will take the place of a replica.
pub struct FutureReplica {
    /// Of which partition.
    pub partition: Arc<Partition>,
    /// The log directory that it is in.
    pub log_dir: Arc<LogDir>,
    /// Bytes of its segments.
    pub size_bytes: u64,
    /// How many offsets it is behind.
    pub offset_lag: i64,
}

impl Moves {
    fn all(&self) -> Vec<Arc<Move>> {
        self.running.lock().values().cloned().collect()
    }

    fn get(&self, key: Key) -> Option<Arc<Move>> {
        self.running.lock().get(&key).cloned()
    }

    fn forget(&self, of: &Arc<Move>) {
        // Another move of the replica may have begun since.
        self.running.lock().retain(|_, known| !Arc::ptr_eq(known, of));
    }

    /// Whether a replica that was in the directory at `place` may have to go back there.
    pub(super) fn left(&self, place: usize) -> bool {
        self.all().iter().any(|one| one.twice.lock().is_some_and(|[from, _]| from.0 == place))
    }

    /// Adds to the entries for each directory those of replicas that may be found in two.
    pub(super) fn note_twice(&self, which: Checkpoint, noted: &mut [Vec<Entry>]) {
        for one in self.all() {
            let Some(twice) = *one.twice.lock() else { continue };
            let partition = &one.partition;
            for (place, recovery_point) in twice {
                let offset = match which {
                    Checkpoint::RecoveryPoint => recovery_point,
                    Checkpoint::LogStart => partition.log_start_offset(),
                    Checkpoint::HighWatermark => partition.high_watermark(),
                    Checkpoint::Cleaner => partition.log().cleaned_to(),
                };
                let (topic, (topic_id, index)) = (partition.topic_name(), one.key());
                let entry = Entry { topic, topic_id, index, offset };
                if !noted[place].iter().any(|it| (it.topic_id, it.index) == one.key()) {
                    noted[place].push(entry);
                }
            }
        }
    }
}

impl Move {
    fn key(&self) -> Key {
        (self.partition.topic_id(), self.partition.index())
    }

    fn name(&self) -> String {
        format!("{}-{}", self.partition.topic(), self.partition.index())
    }

    fn is_noted(&self) -> bool {
        self.partition.unassigned_directory().is_none()
    }
}

impl ReplicaManager {
    /// Has a replica move into the log directory `to`; it is copied later. A move to another
    /// directory that runs ends. It ends, too, if the replica is in `to` already.
    ///
    /// # Errors
    /// - as [`ReplicaManager::find_by_name`]
    /// - `KafkaStorageError`: the disk of `to` is full or fails
    pub fn move_replica(
        &self,
        topic: &str,
        index: i32,
        to: &LogDirectory,
    ) -> Result<(), ErrorCode> {
        let _altering = self.moves.altering.lock();
        let partition = self.find_by_name(topic, index)?;
        self.move_partition(&partition, self.dirs.position(to.log_dir()))
    }

    /// For a caller that has the lock `altering`.
    fn move_partition(&self, partition: &Arc<Partition>, to: usize) -> Result<(), ErrorCode> {
        if let Some(running) = self.moves.get((partition.topic_id(), partition.index())) {
            let mut stage = running.stage.lock();
            match &mut *stage {
                Stage::Copying(_) if running.target == to => return Ok(()),
                Stage::Copying(_) => {
                    self.abandon(&running, &mut stage, "another one was asked for")
                }
                Stage::Noting(_, next) => {
                    *next = (running.target != to).then_some(to);
                    return Ok(());
                }
                Stage::Ended => {}
            }
        }
        if self.dirs.position(&partition.log().log_dir()) == to {
            return Ok(());
        }
        self.begin_move(partition, to).map_err(|error| log_error_code(&error))
    }

    fn begin_move(&self, partition: &Arc<Partition>, to: usize) -> Result<(), LogError> {
        let dir = self.dirs.iter().nth(to).expect("a place among the directories");
        let id = random_id()?;
        let name = format!("{}-{}", partition.topic(), partition.index());
        let name = dir.free_name(&name, hex(id), FUTURE);
        let copy = self.begin_copy(partition, dir, &name);
        let copy = copy.inspect_err(|_| self.clear_begun(dir, &name))?;
        // The move outlives the broker from here on.
        let synced = dir.log_dir().storage().sync_dir(dir.path());
        let synced = synced.map_err(|error| LogError::io(dir.path(), error));
        let started = Arc::new(Move {
            id,
            partition: partition.clone(),
            target: to,
            copy,
            stage: Mutex::new(Stage::Copying(0)),
            twice: Mutex::new(None),
            due_ms: Mutex::new(0),
        });
        if let Err(error) = synced {
            self.abandon(&started, &mut started.stage.lock(), "its directory is not on the disk");
            return Err(dir.log_dir().judge(error));
        }
        let (log, to) = (partition.log().path(), dir.path().display());
        tracing::info!(log = %log.display(), %to, "replica moves to another log directory");
        let gone = {
            // Under the lock: a replica that goes now looks here afterwards.
            let mut running = self.moves.running.lock();
            running.insert(started.key(), started.clone());
            !self.is_here(partition)
        };
        if gone {
            self.end_move(partition.topic_id(), partition.index());
        }
        self.look_at_deadlines();
        Ok(())
    }

    fn begin_copy(
        &self,
        partition: &Arc<Partition>,
        dir: &LogDirectory,
        name: &str,
    ) -> Result<FutureLog, LogError> {
        let (storage, path) = (dir.log_dir().storage().as_ref(), dir.path().join(name));
        let made = storage.create_dir(&path).map_err(|error| LogError::io(&path, error));
        let owned = made.and_then(|()| write_topic_id(storage, &path, partition.topic_id()));
        owned.map_err(|error| dir.log_dir().judge(error))?;
        let now_ms = self.config.clock.wall_ms();
        FutureLog::begin(partition.log(), dir.log_dir(), name, now_ms)
    }

    fn is_here(&self, partition: &Arc<Partition>) -> bool {
        self.by_key(partition.key()).is_some()
    }

    /// The replica goes: so do all of its directories.
    pub(super) fn end_move(&self, topic: Uuid, index: i32) {
        let Some(running) = self.moves.get((topic, index)) else { return };
        let mut stage = running.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Ended) {
            Stage::Copying(bytes) => {
                *stage = Stage::Copying(bytes);
                self.abandon(&running, &mut stage, "the replica is deleted");
            }
            Stage::Noting(left, _) => {
                self.leave(&running, &left);
            }
            Stage::Ended => {}
        }
        self.moves.forget(&running);
    }

    /// Ends a copy that is not to take the place of its log.
    fn abandon(&self, running: &Arc<Move>, stage: &mut Stage, why: &str) {
        *stage = Stage::Ended;
        *running.twice.lock() = None;
        let (log, path) = (running.partition.log(), running.partition.log().path());
        tracing::info!(log = %path.display(), why, "replica does not move");
        let dir = self.dirs.iter().nth(running.target).expect("a place among the directories");
        let name = dir.free_name(&running.name(), hex(running.id), DELETED);
        match running.copy.abandon(log, &name) {
            Ok(path) => self.remove_later(path.to_path_buf(), dir.log_dir().storage(), 0),
            Err(error) => tracing::warn!(%error, "the copy of a log stays until the next start"),
        }
        // It says nothing without a copy that says the same.
        let log_dir = log.log_dir();
        let removed = MoveNote::Leaving.remove(log_dir.storage().as_ref(), &path);
        if let Err(error) = removed.map_err(|error| log_dir.judge(error)) {
            tracing::warn!(%error, "the note of a move stays");
        }
        // Last: the next move must not begin before compaction may go on.
        self.moves.forget(running);
    }

    /// Removes the directory that a replica was in. Whether that is done, or its disk failed: the
    /// notes of the move tell the next start which of the two counts.
    fn leave(&self, running: &Arc<Move>, left: &LeftLog) -> bool {
        let dir = self.dirs.directory(left.log_dir());
        let name = dir.free_name(&running.name(), running.partition.topic_id(), DELETED);
        match left.rename_and_close(&name) {
            Ok(path) => {
                let delay_ms = running.partition.log_config().file_delete_delay_ms;
                let delay_ms = u64::try_from(delay_ms).unwrap_or(0);
                self.remove_later(path.to_path_buf(), left.log_dir().storage(), delay_ms);
                let log = running.partition.log();
                let storage = log.log_dir().storage().clone();
                if let Err(error) = MoveNote::Arrival.remove(storage.as_ref(), &log.path()) {
                    tracing::warn!(%error, "the note of a move stays");
                }
            }
            Err(error) => {
                tracing::error!(%error, "the directory before a move stays");
                if !left.log_dir().is_offline() {
                    return false;
                }
            }
        }
        *running.twice.lock() = None;
        true
    }

    /// When the next turn of a move is due, in ms of monotonic time.
    pub fn next_move_ms(&self) -> Option<u64> {
        let due = |one: &Arc<Move>| match one.stage.try_lock().as_deref() {
            Some(Stage::Noting(left, _)) => {
                (one.is_noted() || one.is_to_go_back(left)).then(|| *one.due_ms.lock())
            }
            _ => Some(*one.due_ms.lock()),
        };
        self.moves.all().iter().filter_map(due).min()
    }

    /// The image changed: replicas that moved may be noted by now.
    pub(super) fn look_at_moves(&self) {
        if self.is_moving() {
            self.look_at_deadlines();
        }
    }

    /// Whether any replica moves.
    pub(super) fn is_moving(&self) -> bool {
        !self.moves.running.lock().is_empty()
    }

    /// Copies some more of each replica that moves and is due. To be called by one thread.
    pub fn move_some(&self) {
        let now_ms = self.config.clock.monotonic_ms();
        for running in self.moves.all() {
            if *running.due_ms.lock() <= now_ms {
                self.turn(&running, now_ms);
            }
        }
    }

    fn turn(&self, running: &Arc<Move>, now_ms: u64) {
        let mut stage = running.stage.lock();
        let moved = match &mut *stage {
            Stage::Copying(unflushed) => self.copy_some(running, unflushed, now_ms),
            Stage::Noting(..) if running.is_noted() => {
                let Stage::Noting(left, next) = std::mem::replace(&mut *stage, Stage::Ended) else {
                    return;
                };
                if !self.leave(running, &left) {
                    *running.due_ms.lock() = now_ms.saturating_add(RETRY_MS);
                    *stage = Stage::Noting(left, next);
                    return;
                }
                self.moves.forget(running);
                drop(stage);
                self.forget_deleted(&Checkpoint::ALL);
                self.move_on(running, next);
                return;
            }
            Stage::Noting(left, _) if running.is_to_go_back(left) => {
                drop(stage);
                self.go_back(running);
                return;
            }
            Stage::Noting(..) | Stage::Ended => return,
        };
        match moved {
            Ok(None) => return,
            Ok(Some(left)) => *stage = Stage::Noting(left, None),
            Err(error) => {
                tracing::error!(%error, "a replica cannot be moved");
                self.abandon(running, &mut stage, "a disk failed or is full");
                return;
            }
        }
        drop(stage);
        // Under no lock of the move: a thread that deletes the replica holds `following` and
        // waits for the move.
        let any = {
            let _following = self.following.lock();
            self.follow_unassigned([running.partition.topic_id()])
        };
        if any {
            self.propose_assignments();
        }
    }

    /// Another directory was asked for when it was too late to end the move.
    fn move_on(&self, running: &Arc<Move>, next: Option<usize>) {
        let Some(next) = next else { return };
        let _altering = self.moves.altering.lock();
        if let Err(code) = self.move_partition(&running.partition, next) {
            tracing::error!(code = code.name(), log = running.name(), "replica does not move on");
        }
    }

    /// Copies some more, and has the log go on in the copy's files when all is there. What it left
    /// then.
    fn copy_some(
        &self,
        running: &Arc<Move>,
        unflushed: &mut u64,
        now_ms: u64,
    ) -> Result<Option<LeftLog>, LogError> {
        let (log, throttle) = (running.partition.log(), &self.throttles.log_dirs);
        let now_ns = self.config.clock.monotonic_ns();
        if throttle.is_exceeded(now_ns) {
            *running.due_ms.lock() = now_ms.saturating_add(RETRY_MS);
            return Ok(None);
        }
        let most = throttle.bytes_per_second().unwrap_or(TURN_BYTES).clamp(1, TURN_BYTES);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let copied = running.copy.copy(log, most, self.config.clock.wall_ms())?;
        throttle.record(copied, now_ns);
        *unflushed += copied;
        if *unflushed >= FLUSH_BYTES {
            running.copy.flush()?;
            *unflushed = 0;
        }
        // The rest is copied without a look at the limit.
        if copied.max(running.copy.bytes_behind(log)) >= u64::from(most) {
            return Ok(None);
        }
        // Nothing comes of a log that ends with a gap; its next batch follows the gap.
        let ends_here = copied > 0 || running.copy.lag(log) == 0;
        if ends_here && running.is_noted() && !self.notes_fail() {
            let taken = self.take_over(running)?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
        *running.due_ms.lock() = now_ms.saturating_add(if copied == 0 { RETRY_MS } else { 0 });
        Ok(None)
    }

    fn take_over(&self, running: &Arc<Move>) -> Result<Option<LeftLog>, LogError> {
        let Move { partition, copy, .. } = &**running;
        let (log, target) = (partition.log(), running.target);
        copy.flush()?;
        let dirs = [self.dirs.position(&log.log_dir()), target];
        let durable = [log.durable_offset(), copy.durable_offset()];
        *running.twice.lock() = Some([(dirs[0], durable[0]), (dirs[1], durable[1])]);
        for which in Checkpoint::ALL {
            let written = self.write_checkpoints(which).into_iter().nth(target);
            written.expect("a place among the directories")?;
        }
        let [from, to] = dirs.map(|place| self.dirs.iter().nth(place).expect("a directory"));
        // Before the first record is only in the new directory.
        partition.moves_to(to.id());
        let now_ms = self.config.clock.wall_ms();
        let taken = log.take_over(copy, &running.name(), running.id, now_ms);
        let Ok(Some(left)) = taken else {
            *running.twice.lock() = None;
            partition.stays_in(from.id());
            return taken;
        };
        self.dirs.count(to.log_dir(), true);
        self.dirs.count(from.log_dir(), false);
        // A start after a crash goes by the producers that were noted at the end of the copy.
        if let Err(error) = self.checkpoint(Checkpoint::RecoveryPoint) {
            tracing::warn!(%error, "checkpoints are not written");
        }
        tracing::info!(log = %log.path().display(), "replica moved to another log directory");
        Ok(Some(left))
    }

    /// The copies that will take the places of replicas.
    #[must_use]
    pub fn future_replicas(&self) -> Vec<FutureReplica> {
        let is_future = |one: &Arc<Move>| {
            let log_dir = one.partition.log().log_dir();
            !Arc::ptr_eq(&log_dir, &one.copy.log_dir())
        };
        let future = |one: Arc<Move>| FutureReplica {
            partition: one.partition.clone(),
            log_dir: one.copy.log_dir(),
            size_bytes: one.copy.size_bytes(),
            offset_lag: one.copy.lag(one.partition.log()),
        };
        self.moves.all().into_iter().filter(is_future).map(future).collect()
    }
}

fn random_id() -> Result<Uuid, LogError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| LogError::io("/dev/urandom", std::io::Error::other(error.to_string())))?;
    Ok(Uuid::from_random(bytes))
}

/// As Kafka writes it in the name of a directory.
fn hex(id: Uuid) -> String {
    id.0.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
