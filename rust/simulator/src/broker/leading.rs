//! A replica that leads: appends, reads, and the proposals of in-sync replicas.

use super::replica::Replica;
use crate::io::Io;
use crate::log::Appended;
use crate::message::{AlterPartition, Fetch, Fetched};
use crate::planted::Planted;
use bytes::Bytes;
use kafkalite_broker::error::log_error_code;
use kafkalite_broker::partitions::IsrProposal;
use kafkalite_log::Role;
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// A follower that was away for longer than this leaves the in-sync set, ms. As in Kafka it is
/// longer than a session: a broker that restarts at once may still count as one that keeps up.
const LAG_MS: u64 = 220;
/// A proposal without an answer is sent again after this, ms.
const PROPOSAL_MS: u64 = 90;
/// Batches in one answer at the most.
const BATCHES_READ: usize = 6;

/// What a leader knows of a follower.
#[derive(Clone, Copy, Debug)]
pub struct Follower {
    broker_epoch: i64,
    end: Offset,
    /// When it last had everything that the leader had at the time of its fetch, ms.
    caught_up_ms: u64,
    /// When it fetched last, and where the leader's log ended then.
    fetched: (u64, Offset),
}

/// A proposal of in-sync replicas whose outcome is not known.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// As the state knows it.
    pub what: IsrProposal,
    /// The request that carried it last.
    pub id: u64,
    /// The set with the broker epochs of its members.
    isr: Vec<(i32, i64)>,
    sent_ms: u64,
}

impl Follower {
    /// A follower of which nothing is known but that a leader began at `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        let unknown = Offset(-1);
        Self {
            broker_epoch: -1,
            end: unknown,
            caught_up_ms: now_ms,
            fetched: (now_ms, Offset(i64::MAX)),
        }
    }
}

impl Replica {
    /// Serves a fetch: of a consumer below the high watermark, of a follower to the log's end.
    pub fn read(&mut self, reader: Option<i32>, fetch: &Fetch, io: &mut Io<'_>) -> Fetched {
        let epoch = self.epoch();
        let told = |error: ErrorCode, high_watermark: Offset| Fetched {
            partition: fetch.partition,
            error,
            epoch,
            high_watermark,
            diverging: None,
            batches: Bytes::new(),
        };
        let claimed = match io.has(Planted::EpochFenceDropped) {
            true => LeaderEpoch::UNKNOWN,
            false => fetch.claimed,
        };
        if let Err(error) = self.state.check_leader(claimed) {
            return told(error, Offset(-1));
        }
        if fetch.last_fetched != LeaderEpoch::UNKNOWN {
            match self.log.end_of_epoch(fetch.last_fetched) {
                None => return told(ErrorCode::OffsetOutOfRange, Offset(-1)),
                Some(known)
                    if known.epoch < fetch.last_fetched || known.end_offset < fetch.offset =>
                {
                    let diverging = Some((known.epoch, known.end_offset));
                    return Fetched { diverging, ..told(ErrorCode::None, self.high_watermark()) };
                }
                Some(_) => {}
            }
        }
        if fetch.offset > self.log.end() {
            return told(ErrorCode::OffsetOutOfRange, Offset(-1));
        }
        let end = match (reader, fetch.broker_epoch) {
            (Some(follower), Some(broker_epoch)) => {
                self.note_follower(follower, broker_epoch, fetch.offset, io.now_ms);
                self.log.end()
            }
            _ => self.high_watermark(),
        };
        let batches = self.log.read(fetch.offset, end, BATCHES_READ);
        if let (Some(follower), true) = (reader, io.has(Planted::HighWatermarkPastFollower)) {
            self.state.follower_fetched(follower, self.log.end(), false);
        }
        Fetched { batches, ..told(ErrorCode::None, self.high_watermark()) }
    }

    fn note_follower(&mut self, id: i32, broker_epoch: i64, offset: Offset, now_ms: u64) {
        let end = self.log.end();
        let Some(follower) = self.followers.get_mut(&id) else { return };
        if follower.broker_epoch > broker_epoch {
            return;
        }
        if offset >= end {
            follower.caught_up_ms = now_ms;
        } else if offset >= follower.fetched.1 {
            follower.caught_up_ms = follower.caught_up_ms.max(follower.fetched.0);
        }
        (follower.broker_epoch, follower.end, follower.fetched) =
            (broker_epoch, offset, (now_ms, end));
        self.state.follower_fetched(id, offset, self.is_joining(id, now_ms));
    }

    /// Whether a replica has caught up, and is about to be proposed.
    fn is_joining(&self, id: i32, now_ms: u64) -> bool {
        let is_in = self.image.as_ref().is_some_and(|image| image.isr.contains(&id));
        let follower = self.followers.get(&id);
        !is_in && follower.is_some_and(|one| one.caught_up_ms + LAG_MS >= now_ms)
    }

    /// Appends in `epoch`, which was the leader's when the request was admitted; with `is_unfenced`
    /// in whatever role the log has now.
    ///
    /// # Errors
    /// `NotLeaderOrFollower` if it is not any more; what the log refuses.
    pub fn append(
        &mut self,
        batch: &Bytes,
        epoch: LeaderEpoch,
        is_unfenced: bool,
    ) -> Result<Appended, ErrorCode> {
        let leads_on = self.log.role() == Role::Leader(epoch);
        if !leads_on && !is_unfenced {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let view = RecordBatch::parse(batch);
        let header = *view.map_err(|_| ErrorCode::CorruptMessage)?.header();
        let appended = self.log.append_as_leader(batch, header, epoch);
        appended.map_err(|error| log_error_code(&error))
    }

    /// A change of the in-sync replicas that is due, as a request of this id.
    pub fn propose(&mut self, id: u64, my_epoch: i64, io: &Io<'_>) -> Option<AlterPartition> {
        if !self.leads() {
            return None;
        }
        self.forget_late_joiners(io.now_ms);
        match &mut self.proposal {
            Some(proposal) if io.now_ms < proposal.sent_ms + PROPOSAL_MS => return None,
            Some(proposal) => (proposal.sent_ms, proposal.id) = (io.now_ms, id),
            None => {
                let isr = self.wanted_in_sync(my_epoch, io.now_ms)?;
                let ids: Vec<i32> = isr.iter().map(|(id, _)| *id).collect();
                let what = match io.has(Planted::JoiningReplicaNotCounted) {
                    true => self.untold_proposal(ids)?,
                    false => self.state.propose_isr(&ids)?,
                };
                self.proposal = Some(Proposal { what, id, isr, sent_ms: io.now_ms });
            }
        }
        let proposal = self.proposal.as_ref()?;
        Some(AlterPartition {
            partition: self.partition,
            leader_epoch: proposal.what.leader_epoch,
            partition_epoch: proposal.what.partition_epoch,
            isr: proposal.isr.clone(),
        })
    }

    /// A proposal that the state knows nothing of.
    fn untold_proposal(&self, isr: Vec<i32>) -> Option<IsrProposal> {
        let partition_epoch = self.image.as_ref()?.partition_epoch;
        Some(IsrProposal { leader_epoch: self.epoch(), partition_epoch, isr })
    }

    /// The controller refused the proposal finally.
    pub fn refused(&mut self) {
        if let Some(proposal) = self.proposal.take() {
            self.state.isr_refused(&proposal.what);
        }
    }

    /// A replica that stopped fetching just before it was proposed is not waited for.
    fn forget_late_joiners(&mut self, now_ms: u64) {
        let late = |one: &Follower| one.caught_up_ms + LAG_MS < now_ms;
        for (id, follower) in self.followers.iter().filter(|(_, one)| late(one)) {
            self.state.follower_fetched(*id, follower.end, false);
        }
    }

    /// The in-sync set as it should be, if it is another one. One change at a time.
    fn wanted_in_sync(&self, my_epoch: i64, now_ms: u64) -> Option<Vec<(i32, i64)>> {
        let image = self.image.as_ref()?;
        let keeps_up = |id: &i32| {
            *id == self.me
                || self.followers.get(id).is_some_and(|one| one.caught_up_ms + LAG_MS >= now_ms)
        };
        let has_all = |id: &i32| {
            let known = self.followers.get(id);
            known.is_some_and(|one| {
                one.end >= self.state.high_watermark() && one.end >= self.epoch_start
            })
        };
        let with_epoch = |id: i32| match id == self.me {
            true => (id, my_epoch),
            false => (id, self.followers.get(&id).map_or(-1, |one| one.broker_epoch)),
        };
        let outside = image.replicas.iter().find(|id| !image.isr.contains(id) && has_all(id));
        if let Some(joins) = outside.filter(|id| keeps_up(id)) {
            return Some(image.isr.iter().chain([joins]).map(|id| with_epoch(*id)).collect());
        }
        let stays: Vec<i32> = image.isr.iter().copied().filter(keeps_up).collect();
        let shrinks = stays.len() < image.isr.len();
        shrinks.then(|| stays.into_iter().map(with_epoch).collect())
    }
}
