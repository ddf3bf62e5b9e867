//! What the replicas of a partition must never show.
//!
//! - `mark-went-back`: a high watermark, or a leader's log end, fell within one leader epoch
//! - `mark-beyond-end`: a high watermark is above its own log's end
//! - `ahead-of-replica`: a leader's high watermark is above the log end of a replica in sync
//! - `replicas-differ`: a batch below one replica's high watermark has other bytes elsewhere
//! - `committed-lost`: a broker began to lead without a record that was committed
//! - `two-leaders`: two brokers acknowledged in one leader epoch
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
    epoch: LeaderEpoch,
    leads: bool,
    high_watermark: Offset,
    end: Offset,
    /// Batches that were compared with the committed ones, and the digest of the last of them.
    verified: (usize, u64),
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
            let same = (old.incarnation, old.epoch) == (view.incarnation, view.epoch);
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
        let verified = self.verify(view, old.map_or((0, 0), |old| old.verified));
        let marks = Marks {
            incarnation: view.incarnation,
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
        let held = view.log.batches().get(last).map(|batch| batch.digest);
        if held != Some(committed[last].digest) {
            let end = committed[last].end.0;
            let told = format!("it leads without all committed records, which end at {end}");
            self.report("committed-lost", view, &told);
        }
    }

    /// Compares the batches below the high watermark with those that are committed.
    fn verify(&mut self, view: &View<'_>, verified: (usize, u64)) -> (usize, u64) {
        let batches = view.log.batches();
        let (mut at, last) = verified;
        if at > 0 && batches.get(at - 1).map(|batch| batch.digest) != Some(last) {
            at = 0;
        }
        let mut differs = None;
        let committed = self.committed.entry(view.partition).or_default();
        while let Some(batch) = batches.get(at).filter(|batch| batch.end() <= view.high_watermark) {
            match committed.get(at) {
                None => {
                    let (digest, epoch, end) = (batch.digest, view.epoch, batch.end());
                    committed.push(Committed { digest, epoch, end });
                }
                Some(one) if one.digest != batch.digest => differs = Some(batch.base()),
                Some(_) => {}
            }
            at += 1;
        }
        if let Some(base) = differs {
            let told = format!("the batch at {} is another one than elsewhere", base.0);
            self.report("replicas-differ", view, &told);
        }
        let last = at.checked_sub(1).and_then(|last| batches.get(last));
        (at, last.map_or(0, |batch| batch.digest))
    }

    /// A leader's high watermark stands at most at the log end of `other`, a replica that the
    /// controller counts as in sync.
    pub fn compare(&mut self, leader: &View<'_>, other: i32, other_end: Offset) {
        if leader.high_watermark > other_end {
            let told = format!("the log of broker {other}, in sync, ends at {}", other_end.0);
            self.report("ahead-of-replica", leader, &told);
        }
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

/// Looks at all bytes of a log.
#[must_use]
pub fn check_log(batches: &[StoredBatch]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut next = Offset::ZERO;
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
