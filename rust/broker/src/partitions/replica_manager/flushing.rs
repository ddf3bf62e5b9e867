//! Putting on the disk what appends asked for, until it is there.
//!
//! A flush that finds the disk full is tried again, because acknowledgements wait for it. A
//! producer that sends its batch again appends nothing, so it would start no other flush.

use super::ReplicaManager;
use kafkalite_log::LogError;

/// Between two attempts, in ms.
const RETRY_MS: u64 = 1_000;

impl ReplicaManager {
    /// Flushes the log of the partition with this key, if there is one.
    pub fn flush(&self, key: u64) {
        let Some(partition) = self.by_key(key) else { return };
        match partition.flush() {
            // Deleted meanwhile.
            Ok(()) | Err(LogError::Closed { .. }) => {}
            Err(error) => {
                tracing::error!(log = %partition.log().path().display(), %error, "flush failed");
                if !partition.is_offline() {
                    let due_ms = self.config.clock.monotonic_ms().saturating_add(RETRY_MS);
                    self.unflushed.lock().insert(key, due_ms);
                    self.look_at_deadlines();
                }
            }
        }
    }

    /// When a flush that failed is tried next, in ms of monotonic time.
    pub fn next_flush_ms(&self) -> Option<u64> {
        self.unflushed.lock().values().copied().min()
    }

    /// Has the flushes tried again that failed and whose time has come.
    pub fn flush_again(&self) {
        let now_ms = self.config.clock.monotonic_ms();
        let due =
            self.unflushed.lock().extract_if(|_, due_ms| *due_ms <= now_ms).collect::<Vec<_>>();
        due.into_iter().for_each(|(key, _)| self.committer.commit(key));
    }
}
