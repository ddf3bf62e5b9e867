//! Which logs `flush.ms` wants on the disk. Pure.

use std::collections::{HashMap, HashSet};

/// Since when each log, by key, has records that are not known to be on the disk; wall time in ms.
#[derive(Clone, Debug, Default)]
pub struct FlushAges(HashMap<u64, i64>);

impl FlushAges {
    /// Looks at all logs with records that are not flushed: key and `flush.ms` of each. Those that
    /// waited for so long are to be flushed now.
    pub fn overdue(
        &mut self,
        now_ms: i64,
        unflushed: impl Iterator<Item = (u64, i64)>,
    ) -> HashSet<u64> {
        let mut overdue = HashSet::new();
        let mut waiting = HashMap::new();
        for (key, flush_ms) in unflushed.filter(|(_, flush_ms)| *flush_ms != i64::MAX) {
            let since_ms = self.0.get(&key).copied().unwrap_or(now_ms);
            if now_ms.saturating_sub(since_ms) < flush_ms {
                waiting.insert(key, since_ms);
            } else {
                overdue.insert(key);
            }
        }
        self.0 = waiting;
        overdue
    }
}
