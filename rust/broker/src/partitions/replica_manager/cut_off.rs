//! Leaders here that cannot commit, while the controller does not hear this broker.
//!
//! The controller has fenced this broker by then, and another one may lead. Such a leader takes no
//! records and sends its clients away. One whose replicas in sync still fetch leads on. They would
//! follow the other leader if there was one.

use super::ReplicaManager;
use std::sync::atomic::Ordering;

impl ReplicaManager {
    /// Looks which leaders here can commit. `silence_ms` is there while the controller does not
    /// hear this broker: how long a replica in sync may be silent then.
    pub fn look_at_silence(&self, silence_ms: Option<u64>) {
        let was_unheard = self.is_unheard.swap(silence_ms.is_some(), Ordering::AcqRel);
        if silence_ms.is_none() && !was_unheard {
            return;
        }
        let now_ms = self.config.clock.monotonic_ms();
        self.all().iter().for_each(|partition| partition.look_at_silence(now_ms, silence_ms));
    }
}
