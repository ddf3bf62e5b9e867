//! The disk that a replica moved to fails before the metadata note it: the replica goes back.
//!
//! The directory before has every record that was acknowledged, and all that followers have. The
//! log is opened there as after a start. What came since is lost with the disk; it was not
//! acknowledged.

use super::{Move, Stage, Twice};
use crate::partitions::checkpoints::{Checkpoint, Entry};
use crate::partitions::replica_manager::ReplicaManager;
use crate::partitions::replica_manager::opening::Unopened;
use kafkalite_log::LeftLog;
use std::sync::Arc;

impl Move {
    /// Whether the disk with the newest records failed, and the one before did not.
    pub(super) fn is_to_go_back(&self, left: &LeftLog) -> bool {
        let is_lost = self.partition.log().log_dir().is_offline();
        is_lost && !left.log_dir().is_offline() && !self.is_noted()
    }

    /// What the checkpoint `which` is to say of the log in the directory before.
    fn entry(&self, which: Checkpoint, twice: Twice) -> Entry {
        let partition = &self.partition;
        let offset = match which {
            Checkpoint::RecoveryPoint => twice[0].1,
            Checkpoint::LogStart => partition.log_start_offset(),
            Checkpoint::HighWatermark => partition.high_watermark(),
            Checkpoint::Cleaner => partition.log().cleaned_to(),
        };
        let (topic, (topic_id, index)) = (partition.topic_name(), self.key());
        Entry { topic, topic_id, index, offset }
    }
}

impl ReplicaManager {
    /// Opens the log in the directory before. Not to be called under a lock.
    pub(super) fn go_back(&self, running: &Arc<Move>) {
        {
            // No image comes meanwhile. Otherwise the metadata could note the new directory, and a
            // record be acknowledged that is only there.
            let _following = self.following.lock();
            let mut stage = running.stage.lock();
            let Stage::Noting(left, _) = &*stage else { return };
            let Some(twice) = *running.twice.lock() else { return };
            if !running.is_to_go_back(left) || !self.is_here(&running.partition) {
                return;
            }
            let log = running.partition.log().path();
            let to = left.log_dir().path().display();
            tracing::error!(log = %log.display(), %to, "replica goes back: its new disk failed");
            running.partition.give_up();
            left.close();
            // A checkpoint that is written meanwhile has it in the one directory or in the other.
            let _writing = self.checkpointing.lock();
            // What was noted of it at the last start is old by now.
            let before = self.dirs.directory(left.log_dir()).checkpoints();
            for which in Checkpoint::ALL {
                before.note(which, &running.entry(which, twice));
            }
            self.dirs.count(&running.partition.log().log_dir(), false);
            let (topic, index) = running.key();
            self.maps.write().take_out(topic, index);
            let now_ms = self.config.clock.monotonic_ms();
            let why = "the disk that it moved to failed".to_owned();
            self.unopened.lock().insert(running.key(), Unopened::new(why, now_ms));
            *stage = Stage::Ended;
            *running.twice.lock() = None;
            self.moves.forget(running);
            self.follow_unassigned([topic]);
        }
        self.retry_unopened();
    }
}
