//! What the replicas of a partition must never show.
//!
//! - `mark-went-back`: a high watermark, or a leader's log end, fell within one leader epoch
//! - `mark-beyond-end`: a high watermark is above its own log's end
//! - `ahead-of-replica`: a leader's high watermark is above the log end of a replica in sync
//! - `replicas-differ`: a batch below one replica's high watermark has other bytes elsewhere
//! - `committed-lost`: a broker began to lead without a record that was committed
//! - `two-leaders`: two brokers acknowledged in one leader epoch
//! - `retained-uncommitted`: retention took a record at or above the high watermark
//! - `retained-too-early`: retention took a record that the policy holds
//! - `bad-crc`, `offset-gap`, `epoch-went-back`: the bytes of a log are not sound

use super::Violation;
use crate::log::{MemoryLog, StoredBatch};
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{LeaderEpoch, Offset};
use std::collections::BTreeMap;

/// One replica as it stands after a step.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The broker.
    pub broker: i32,
    /// The broker's process: marks of one process are compared.
    pub incarnation: u32,
    /// Which of the broker's replicas, one after another: each begins empty.
    pub stay: u32,
    /// The partition.
    pub partition: usize,
    /// The replica's leader epoch.
    pub epoch: LeaderEpoch,
    /// Whether it leads.
    pub leads: bool,
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Its log.
    pub log: &'a MemoryLog,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    incarnation: u32,
    stay: u32,
    epoch: LeaderEpoch,
    leads: bool,
    high_watermark: Offset,
    end: Offset,
    /// Up to where batches were compared with the committed ones, and the digest of the last of
    /// them.
    verified: (Offset, u64),
}

/// A batch that was committed.
#[derive(Clone, Copy, Debug)]
struct Committed {
    digest: u64,
    /// The epoch of the replica that showed it first.
    epoch: LeaderEpoch,
    end: Offset,
}

/// What was seen of all replicas.
#[derive(Debug, Default)]
pub struct Logs {
    pub(super) found: Vec<Violation>,
    /// By partition: the batches that some replica had below its high watermark.
    committed: BTreeMap<usize, Vec<Committed>>,
    marks: BTreeMap<(i32, usize), Marks>,
    /// By partition: the end of what retention took anywhere.
    starts: BTreeMap<usize, Offset>,
    /// By partition: the end of what some replica dropped together with its producers.
    restarts: BTreeMap<usize, Offset>,
    acknowledged: BTreeMap<(usize, LeaderEpoch), i32>,
}

impl Logs {
    fn report(&mut self, kind: &'static str, view: &View<'_>, detail: &str) {
        let View { broker, partition, epoch, high_watermark, .. } = view;
        let (epoch, high_watermark, end) = (epoch.0, high_watermark.0, view.log.end().0);
        let detail = format!(
            "broker {broker}, partition {partition}, epoch {epoch}, high watermark \
             {high_watermark}, log end {end}: {detail}"
        );
        self.found.push(Violation::new(kind, detail));
    }

    /// Looks at a replica after a step of its broker.
    pub fn observe(&mut self, view: &View<'_>) {
        let key = (view.broker, view.partition);
        let end = view.log.end();
        let old = self.marks.get(&key).copied();
        if let Some(old) = old {
            let same =
                (old.incarnation, old.stay, old.epoch) == (view.incarnation, view.stay, view.epoch);
            if same && old.high_watermark == view.high_watermark && old.end == end {
                return;
            }
            if same && view.high_watermark < old.high_watermark {
                let told = format!("the high watermark was {}", old.high_watermark.0);
                self.report("mark-went-back", view, &told);
            }
            if same && old.leads && view.leads && end < old.end {
                self.report("mark-went-back", view, &format!("the log end was {}", old.end.0));
            }
        }
        if view.high_watermark > end {
            self.report("mark-beyond-end", view, "the high watermark is above the log end");
        }
        let begins = view.leads && old.is_none_or(|old| !old.leads || old.epoch != view.epoch);
        if begins {
            self.check_new_leader(view);
        }
        let verified = self.verify(view, old.map_or((Offset::ZERO, 0), |old| old.verified));
        let marks = Marks {
            incarnation: view.incarnation,
            stay: view.stay,
            epoch: view.epoch,
            leads: view.leads,
            high_watermark: view.high_watermark,
            end,
            verified,
        };
        self.marks.insert(key, marks);
    }

    /// A leader holds every record that was committed in an epoch before its own. A broker that
    /// stood still may begin to lead when others have led after it.
    fn check_new_leader(&mut self, view: &View<'_>) {
        let Some(committed) = self.committed.get(&view.partition) else { return };
        let Some(last) = committed.iter().rposition(|one| one.epoch < view.epoch) else { return };
        let end = committed[last].end;
        let held = batch_ending(view.log.batches(), end).map(|batch| batch.digest);
        // What retention took was committed.
        if held != Some(committed[last].digest) && view.log.start() < end {
            let end = committed[last].end.0;
            let told = format!("it leads without all committed records, which end at {end}");
            self.report("committed-lost", view, &told);
        }
    }

    /// Compares the batches below the high watermark with those that are committed.
    fn verify(&mut self, view: &View<'_>, verified: (Offset, u64)) -> (Offset, u64) {
        let batches = view.log.batches();
        let (mut end, mut last) = verified;
        let is_there = batch_ending(batches, end).is_some_and(|batch| batch.digest == last);
        if !is_there && view.log.start() < end {
            (end, last) = (Offset::ZERO, 0);
        }
        let mut differs = None;
        let committed = self.committed.entry(view.partition).or_default();
        let first = batches.partition_point(|batch| batch.end() <= end);
        for batch in batches[first..].iter().take_while(|one| one.end() <= view.high_watermark) {
            let at = committed.partition_point(|one| one.end < batch.end());
            (end, last) = (batch.end(), batch.digest);
            match committed.get(at) {
                None => committed.push(Committed { digest: last, epoch: view.epoch, end }),
                Some(one) if one.digest != batch.digest => differs = Some(batch.base()),
                Some(_) => {}
            }
        }
        if let Some(base) = differs {
            let told = format!("the batch at {} is another one than elsewhere", base.0);
            self.report("replicas-differ", view, &told);
        }
        (end, last)
    }

    /// A leader's high watermark stands at most at the log end of `other`, a replica that the
    /// controller counts as in sync.
    pub fn compare(&mut self, leader: &View<'_>, other: i32, other_end: Offset) {
        if leader.high_watermark > other_end {
            let told = format!("the log of broker {other}, in sync, ends at {}", other_end.0);
            self.report("ahead-of-replica", leader, &told);
        }
    }

    /// Retention took these batches away from a replica, at `now_ms` of its broker's wall clock and
    /// by a policy that holds records for `retention_ms`.
    pub fn retained(
        &mut self,
        view: &View<'_>,
        gone: &[StoredBatch],
        now_ms: i64,
        retention_ms: i64,
    ) {
        for batch in gone {
            let (base, newest_ms) = (batch.base().0, batch.header.max_timestamp);
            if batch.end() > view.high_watermark {
                self.report("retained-uncommitted", view, &format!("the batch at {base} is gone"));
            }
            // One of the future may go if it was written long ago: when is not known here.
            if newest_ms <= now_ms && now_ms - newest_ms <= retention_ms {
                let told = format!("the batch at {base} is gone, {} ms old", now_ms - newest_ms);
                self.report("retained-too-early", view, &told);
            }
            let starts = self.starts.entry(view.partition).or_default();
            *starts = (*starts).max(batch.end());
        }
    }

    /// Below this retention took records from some replica.
    #[must_use]
    pub fn retained_to(&self, partition: usize) -> Offset {
        self.starts.get(&partition).copied().unwrap_or_default()
    }

    /// A replica dropped all its records, as the leader's log starts at `start`.
    pub fn restarted(&mut self, partition: usize, start: Offset) {
        let restarts = self.restarts.entry(partition).or_default();
        *restarts = (*restarts).max(start);
    }

    /// Below this some replica does not know which producer wrote what.
    #[must_use]
    pub fn restarted_to(&self, partition: usize) -> Offset {
        self.restarts.get(&partition).copied().unwrap_or_default()
    }

    /// A broker acknowledged a produce.
    pub fn acknowledged(&mut self, broker: i32, partition: usize, epoch: LeaderEpoch) {
        let first = *self.acknowledged.entry((partition, epoch)).or_insert(broker);
        if first != broker {
            let told = format!(
                "brokers {first} and {broker} acknowledged in partition {partition}, epoch {}",
                epoch.0
            );
            self.found.push(Violation::new("two-leaders", told));
        }
    }
}

/// The batch that ends at `end`.
fn batch_ending(batches: &[StoredBatch], end: Offset) -> Option<&StoredBatch> {
    let at = batches.binary_search_by_key(&end, StoredBatch::end);
    at.ok().map(|at| &batches[at])
}

/// Looks at all bytes of a log that begins at `start`.
#[must_use]
pub fn check_log(start: Offset, batches: &[StoredBatch]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut next = start;
    let mut epoch = LeaderEpoch::UNKNOWN;
    for stored in batches {
        let at = stored.base().0;
        match RecordBatch::parse(&stored.bytes) {
            Ok(batch) if batch.verify_crc().is_err() => {
                found.push(Violation::new("bad-crc", format!("the batch at {at}")));
            }
            Ok(_) => {}
            Err(error) => found.push(Violation::new("bad-crc", format!("{error} at {at}"))),
        }
        if stored.base() != next {
            found.push(Violation::new("offset-gap", format!("{} expected, {at} found", next.0)));
        }
        if stored.header.leader_epoch < epoch {
            let told = format!("{} after {} at {at}", stored.header.leader_epoch.0, epoch.0);
            found.push(Violation::new("epoch-went-back", told));
        }
        (next, epoch) = (stored.end(), stored.header.leader_epoch);
    }
    found
}
