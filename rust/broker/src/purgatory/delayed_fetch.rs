//! A fetch that waits for records.
//!
//! It stops waiting when
//! - case A: `min_bytes` can be read below each partition's high watermark (a follower: log end
//!   offset)
//! - case B: a partition has an error to report, or a diverging epoch
//! - case C: a partition's fetch offset lies on an older segment: what is there will not grow
//! - case D: it asks for no partition at all
//!
//! At the deadline it answers with what there is. There is one read path: a fetch that need not
//! wait is one that is satisfied at the first look. Source: Kafka's `DelayedFetch`.

use super::{Completion, DelayedOperation};
use crate::fetch_sessions::FetchTarget;
use crate::replication::{FetchReader, Fetched, Partition};
use kafkalite_log::FileSlice;
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One partition of a fetch, found or not.
pub struct Wanted {
    /// What is asked for.
    pub target: FetchTarget,
    /// The partition, or why there is none.
    pub partition: Result<Arc<Partition>, ErrorCode>,
}

/// How much, how long, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Fewer bytes are worth waiting.
    pub min_bytes: u64,
    /// Most bytes of the whole answer; its first batch is whole even so.
    pub max_bytes: u64,
    /// Longest wait.
    pub max_wait_ms: u64,
    /// How far the reader may read.
    pub reader: FetchReader,
}

type Answer = Box<dyn FnOnce(Arc<DelayedFetch>) + Send>;

/// The waiting request.
pub struct DelayedFetch {
    wanted: Vec<Wanted>,
    limits: FetchLimits,
    /// Bytes that were still missing at the last full look; appends count it down.
    missing: AtomicU64,
    answer: Mutex<Option<Answer>>,
}

impl DelayedFetch {
    /// Holds the request back; `answer` gets it when it need wait no longer, and reads.
    pub fn new(
        wanted: Vec<Wanted>,
        limits: FetchLimits,
        answer: impl FnOnce(Arc<Self>) + Send + 'static,
    ) -> Self {
        let answer = Mutex::new(Some(Box::new(answer) as Answer));
        Self { wanted, limits, missing: AtomicU64::new(0), answer }
    }

    /// The purgatory keys of its partitions.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        let found = self.wanted.iter().filter_map(|wanted| wanted.partition.as_ref().ok());
        found.map(|partition| partition.key()).collect()
    }

    /// What [`DelayedFetch::read`] reads of files itself, before it knows the ranges to answer.
    #[must_use]
    pub fn lookup_ranges(&self) -> Vec<FileSlice> {
        let found = self.wanted.iter().filter_map(|wanted| {
            wanted.partition.as_ref().ok().map(|partition| (partition, &wanted.target))
        });
        found.filter_map(|(partition, target)| partition.lookup_range(target)).collect()
    }

    /// What there is of each partition, in order.
    #[must_use]
    pub fn read(&self) -> Vec<(FetchTarget, Fetched)> {
        let mut left = self.limits.max_bytes;
        let mut nothing_yet = true;
        let mut all = Vec::with_capacity(self.wanted.len());
        for Wanted { target, partition } in &self.wanted {
            let most = left.min(u64::try_from(target.max_bytes).unwrap_or(0));
            let fetched = match partition {
                Ok(partition) => partition.read(target, most, nothing_yet, self.limits.reader),
                Err(error) => Fetched::refused(*error),
            };
            left = left.saturating_sub(u64::from(fetched.bytes));
            nothing_yet &= fetched.bytes == 0;
            all.push((target.clone(), fetched));
        }
        all
    }
}

impl DelayedOperation for DelayedFetch {
    fn is_satisfied(&self) -> bool {
        if self.wanted.is_empty() || self.limits.min_bytes == 0 {
            return true;
        }
        // Before the look, not after it: bytes that another thread adds meanwhile must count, and
        // counting them twice only makes for a look too many.
        self.missing.store(self.limits.min_bytes, Ordering::Relaxed);
        let mut readable = 0;
        for Wanted { target, partition } in &self.wanted {
            let Ok(partition) = partition else { return true };
            match partition.readable(target, self.limits.reader) {
                Ok(now) if now.will_not_grow => return true,
                Ok(now) => readable += now.bytes.min(u64::try_from(target.max_bytes).unwrap_or(0)),
                Err(_) => return true,
            }
        }
        self.add_bytes(readable);
        readable >= self.limits.min_bytes
    }

    fn complete(self: Arc<Self>, _how: Completion) {
        let answer = self.answer.lock().take();
        if let Some(answer) = answer {
            answer(self);
        }
    }

    fn timeout_ms(&self) -> u64 {
        self.limits.max_wait_ms
    }

    fn add_bytes(&self, bytes: u64) -> bool {
        let missing = self.missing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |missing| {
            Some(missing.saturating_sub(bytes))
        });
        missing.is_ok_and(|missing| missing <= bytes)
    }
}
