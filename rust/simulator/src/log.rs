//! The commit log of one partition in memory: Kafka's offsets and epochs, and a disk that forgets.
//!
//! Batches are the bytes of the wire. The leader epochs, the producers and the view of a batch are
//! those of production (`kafkalite_log`, `kafkalite_protocol`), and so is retention's decision.
//! Segments are groups of batches; indexes and files are left out. Roles and versions follow
//! `CommitLog`: an append names the role it relies on, and every end that leaves the log has a
//! version. A power cut takes away what was not flushed, a kill takes nothing.

use crate::trace::Hash;
use bytes::{Bytes, BytesMut};
use kafkalite_log::{
    Agreement, CopyEnd, DurableEnd, EpochEnd, LeaderEpochs, LogConfig, LogEnd, LogError,
    ProducerState, Role, SegmentExtent, SegmentTimes, retention_bound,
};
use kafkalite_protocol::record_batch::{BatchHeader, Batches, HEADER_LENGTH, RecordBatch};
use kafkalite_protocol::{LeaderEpoch, Offset};

/// One batch in a log.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// Its header, as it was written.
    pub header: BatchHeader,
    /// All of it.
    pub bytes: Bytes,
    /// A hash of its bytes.
    pub digest: u64,
}

impl StoredBatch {
    fn new(header: BatchHeader, bytes: Bytes) -> Self {
        let mut hash = Hash::default();
        hash.add_bytes(&bytes);
        Self { header, bytes, digest: hash.0 }
    }

    /// Offset of the first record.
    #[must_use]
    pub fn base(&self) -> Offset {
        self.header.base_offset
    }

    /// The offset after the last record.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.header.next_offset()
    }
}

/// What a leader's append did.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Offset of the first record; of the one that is there already if it was sent again.
    pub base: Offset,
    /// The offset after the last record.
    pub end: Offset,
    /// Where the log ends now; `None` if the batch was in it already.
    pub log_end: Option<LogEnd>,
}

/// Why a follower does not take what its leader sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not whole batches, or a CRC is wrong.
    Corrupt,
    /// A batch does not begin where the log ends.
    NotContiguous,
    /// A batch is of a newer epoch than the one that was asked for, or an older one than the log.
    WrongEpoch,
    /// The replica has another role by now.
    WrongRole,
}

/// What a follower checks; a planted bug leaves one out.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// The CRC of each batch.
    pub crc: bool,
    /// The epoch of each batch.
    pub epochs: bool,
}

/// Batches in a segment.
const SEGMENT_BATCHES: usize = 3;

/// One partition's log on one broker.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    start: Offset,
    /// The start as the checkpoint has it.
    noted_start: Offset,
    /// From the first segment's base on: some may lie before the start.
    batches: Vec<StoredBatch>,
    /// Where each segment begins; the last one is active.
    segments: Vec<Offset>,
    epochs: LeaderEpochs,
    producers: ProducerState,
    /// The producers of the deleted batches, as a snapshot keeps them.
    deleted_producers: ProducerState,
    flushed: Offset,
    role: Role,
    version: u64,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self {
            start: Offset::ZERO,
            noted_start: Offset::ZERO,
            batches: Vec::new(),
            segments: vec![Offset::ZERO],
            epochs: LeaderEpochs::default(),
            producers: ProducerState::default(),
            deleted_producers: ProducerState::default(),
            flushed: Offset::ZERO,
            role: Role::Follower(LeaderEpoch::UNKNOWN),
            version: 0,
        }
    }
}

impl MemoryLog {
    /// The offset the next record gets.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.batches.last().map_or(self.start, StoredBatch::end)
    }

    /// Where the first segment begins: at the start, or before it.
    #[must_use]
    pub fn base(&self) -> Offset {
        self.segments[0]
    }

    /// The first offset there is.
    #[must_use]
    pub fn start(&self) -> Offset {
        self.start
    }

    /// The end for those who count it, with a version of its own.
    pub fn log_end(&mut self) -> LogEnd {
        self.version += 1;
        LogEnd {
            offset: self.end(),
            durable: self.flushed,
            epoch: self.role.epoch(),
            version: self.version,
        }
    }

    /// Puts everything on the disk.
    pub fn flush(&mut self) -> DurableEnd {
        self.flushed = self.end();
        self.version += 1;
        DurableEnd { offset: self.flushed, version: self.version }
    }

    /// Whether there are records that are not on the disk.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        self.flushed < self.end()
    }

    /// All batches on the disk: some may lie before the start.
    #[must_use]
    pub fn batches(&self) -> &[StoredBatch] {
        &self.batches
    }

    /// The newest leader epoch; -1 if there is none.
    #[must_use]
    pub fn latest_epoch(&self) -> LeaderEpoch {
        self.epochs.latest().unwrap_or(LeaderEpoch::UNKNOWN)
    }

    /// The largest epoch up to `epoch`, and where it ends here.
    #[must_use]
    pub fn end_of_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.end_offset_for(epoch, self.end())
    }

    /// Whether another copy of this log holds what this one does.
    #[must_use]
    pub fn agreement(&self, copy: &CopyEnd) -> Agreement {
        self.epochs.agreement(copy, self.end())
    }

    /// Takes a role over. A leader's epoch begins at the log's end; an epoch that this replica led
    /// without a record is forgotten by a follower.
    pub fn take_role(&mut self, role: Role) -> LogEnd {
        let end = self.end();
        match role {
            Role::Leader(epoch) => {
                self.epochs.assign(epoch, end);
            }
            Role::Follower(_) | Role::Gone => {
                self.epochs.truncate_from_end(end);
            }
        }
        self.role = role;
        self.log_end()
    }

    /// What the replica is to this log.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Appends one batch as the leader of `epoch`: offset and epoch are written into it.
    ///
    /// # Errors
    /// What the producer state refuses.
    pub fn append_as_leader(
        &mut self,
        batch: &Bytes,
        mut header: BatchHeader,
        epoch: LeaderEpoch,
    ) -> Result<Appended, LogError> {
        if let Some(there) = self.producers.check(&header)? {
            let (base, end) = (there.base_offset, there.last_offset.plus(1));
            return Ok(Appended { base, end, log_end: None });
        }
        (header.base_offset, header.leader_epoch) = (self.end(), epoch);
        let mut bytes = BytesMut::from(&batch[..]);
        bytes[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        self.push(StoredBatch::new(header, bytes.freeze()));
        let log_end = Some(self.log_end());
        Ok(Appended { base: header.base_offset, end: header.next_offset(), log_end })
    }

    /// Appends what the leader of `epoch` sent; offsets and epochs are kept. All or nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn append_as_follower(
        &mut self,
        bytes: &Bytes,
        epoch: LeaderEpoch,
        checks: Checks,
    ) -> Result<LogEnd, Refusal> {
        let mut next = self.end();
        let mut oldest = self.latest_epoch();
        let mut taken = Vec::new();
        let mut batches = Batches::new(bytes);
        for batch in &mut batches {
            let batch = batch.map_err(|_| Refusal::Corrupt)?;
            if checks.crc && batch.verify_crc().is_err() {
                return Err(Refusal::Corrupt);
            }
            if batch.base_offset() != next {
                return Err(Refusal::NotContiguous);
            }
            let batch_epoch = batch.header().leader_epoch;
            if checks.epochs && (batch_epoch > epoch || batch_epoch < oldest) {
                return Err(Refusal::WrongEpoch);
            }
            oldest = batch_epoch;
            next = batch.last_offset().plus(1);
            taken.push(StoredBatch::new(*batch.header(), Bytes::copy_from_slice(batch.bytes())));
        }
        if !batches.rest().is_empty() {
            return Err(Refusal::Corrupt);
        }
        taken.into_iter().for_each(|batch| self.push(batch));
        Ok(self.log_end())
    }

    fn push(&mut self, batch: StoredBatch) {
        self.epochs.assign(batch.header.leader_epoch, batch.base());
        self.producers.note(&batch.header);
        let active = self.segments.last().copied().unwrap_or_default();
        let first = self.batches.partition_point(|one| one.base() < active);
        if self.batches.len() - first >= SEGMENT_BATCHES {
            self.segments.push(batch.base());
        }
        self.batches.push(batch);
    }

    /// Deletes the segments that retention lets go, and returns their batches.
    pub fn retain(
        &mut self,
        config: &LogConfig,
        now_ms: i64,
        high_watermark: Offset,
    ) -> Vec<StoredBatch> {
        let end = self.end();
        let ends = self.segments.iter().skip(1).copied().chain([end]);
        let spans: Vec<(Offset, Offset)> = self.segments.iter().copied().zip(ends).collect();
        let within = |at: usize| {
            let (base, end): (Offset, Offset) = spans[at];
            self.batches.iter().filter(move |batch| batch.base() >= base && batch.end() <= end)
        };
        let size = |at| within(at).map(|batch| batch.bytes.len() as i64).sum::<i64>();
        let extents = (0..spans.len()).map(|at| SegmentExtent { end: spans[at].1, size: size(at) });
        let extents: Vec<SegmentExtent> = extents.collect();
        let times = |at: usize| {
            let newest = within(at).map(|batch| batch.header.max_timestamp).max();
            let newest_ms = newest.unwrap_or_default();
            // Nothing in memory says when it was written: a record of the future stays.
            Ok::<_, LogError>(SegmentTimes { newest_ms, modified_ms: now_ms })
        };
        let bound = retention_bound(&extents, times, config, now_ms, high_watermark);
        let Ok(Some(bound)) = bound else { return Vec::new() };
        if bound == end && spans.last().is_some_and(|(base, _)| *base < end) {
            self.segments.push(end);
        }
        self.delete_below(bound)
    }

    /// Moves the log's start up to `start`, and returns the batches that go with it. The segment
    /// that holds it stays whole: a crash brings its records back, if the start is not noted.
    pub fn delete_below(&mut self, start: Offset) -> Vec<StoredBatch> {
        let (before, start) = (self.start, start.max(self.start));
        let holds = self.segments.partition_point(|base| *base <= start).saturating_sub(1);
        self.segments.drain(..holds);
        let base = self.segments[0];
        let gone = self.batches.partition_point(|batch| batch.end() <= base);
        (self.start, self.flushed) = (start, self.flushed.max(start));
        self.epochs.truncate_from_start(start);
        let gone: Vec<StoredBatch> = self.batches.drain(..gone).collect();
        for batch in &gone {
            self.deleted_producers.note(&batch.header);
        }
        gone.into_iter().filter(|batch| batch.base() >= before).collect()
    }

    /// Puts the start on the disk.
    pub fn note_start(&mut self) {
        self.noted_start = self.start;
    }

    /// Drops every record; the next one gets `start`.
    pub fn restart(&mut self, start: Offset) -> LogEnd {
        self.batches.clear();
        self.deleted_producers = ProducerState::default();
        (self.start, self.noted_start) = (start, start);
        (self.flushed, self.segments) = (start, vec![start]);
        self.rebuild();
        self.log_end()
    }

    /// The batches from `from` up to `end`, `most` of them at the most, in one piece. A batch that
    /// reaches beyond `end` is left out.
    #[must_use]
    pub fn read(&self, from: Offset, end: Offset, most: usize) -> Bytes {
        let first = self.batches.partition_point(|batch| batch.end() <= from);
        let within = self.batches[first..].iter().take(most).take_while(|batch| batch.end() <= end);
        let mut bytes = BytesMut::new();
        within.for_each(|batch| bytes.extend_from_slice(&batch.bytes));
        bytes.freeze()
    }

    /// Cuts off every record from `offset` on.
    pub fn truncate_to(&mut self, offset: Offset) -> LogEnd {
        if offset < self.start {
            return self.restart(offset);
        }
        let keep = self.batches.partition_point(|batch| batch.end() <= offset);
        if keep < self.batches.len() {
            self.batches.truncate(keep);
            let end = self.end();
            self.segments.retain(|base| *base < end);
            if self.segments.is_empty() {
                self.segments.push(end);
            }
            self.rebuild();
        }
        self.epochs.truncate_from_end(offset);
        self.flushed = self.flushed.min(self.end());
        self.log_end()
    }

    /// The power goes: what was not flushed is lost.
    pub fn lose_power(&mut self) {
        self.truncate_to(self.flushed);
    }

    /// A start from the disk: state beside the batches is rebuilt from them.
    pub fn reopen(&mut self) -> LogEnd {
        self.start = self.segments[0].max(self.noted_start);
        self.rebuild();
        self.role = Role::Follower(LeaderEpoch::UNKNOWN);
        self.version = 0;
        self.log_end()
    }

    fn rebuild(&mut self) {
        self.epochs = LeaderEpochs::default();
        self.producers = self.deleted_producers.clone();
        for batch in &self.batches {
            self.epochs.assign(batch.header.leader_epoch, batch.base());
            self.producers.note(&batch.header);
        }
        self.epochs.truncate_from_start(self.start);
    }
}

/// The values of the records in `bytes`, each with its offset, up to the first damaged batch.
#[must_use]
pub fn values(bytes: &Bytes) -> Vec<(Offset, u64)> {
    let sound = Batches::new(bytes).map_while(Result::ok);
    let sound = sound.take_while(|batch| batch.verify_crc().is_ok());
    sound.flat_map(|batch| batch_values(&batch)).collect()
}

fn batch_values(batch: &RecordBatch<'_>) -> Vec<(Offset, u64)> {
    // Batches of the simulator are not compressed: the cap bounds nothing here.
    let Ok(records) = batch.records(1 << 20) else { return Vec::new() };
    let number = |value: &[u8]| value.try_into().map_or(u64::MAX, u64::from_be_bytes);
    let record = records.iter().map_while(Result::ok);
    record.map(|record| (record.offset, record.value.map_or(u64::MAX, number))).collect()
}
