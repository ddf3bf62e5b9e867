//! A replica that leads: appends, reads, and the proposals of in-sync replicas.

use super::replica::Replica;
use crate::io::Io;
use crate::log::Appended;
use crate::message::{AlterPartition, Fetch, Fetched};
use crate::planted::Planted;
use bytes::Bytes;
use kafkalite_broker::error::log_error_code;
use kafkalite_broker::metadata::controller::IsrMember;
use kafkalite_broker::partitions::{FollowerFetch, IsrProposal, PartitionState};
use kafkalite_log::{Agreement, CopyEnd, Role};
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// A follower that was away for longer than this leaves the in-sync set, ms. As in Kafka it is
/// longer than a session: a broker that restarts at once may still count as one that keeps up.
const LAG_MS: u64 = 220;
/// A proposal without an answer is sent again after this, ms.
const PROPOSAL_MS: u64 = 90;
/// Batches in one answer at the most.
const BATCHES_READ: usize = 6;

/// Brokers here know of no other one's life: the controller refuses those that do not serve.
const fn is_served(_: i32, _: i64) -> bool {
    true
}

/// A proposal of in-sync replicas whose outcome is not known.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// As the state knows it.
    pub what: IsrProposal,
    /// The request that carried it last.
    pub id: u64,
    sent_ms: u64,
}

impl Replica {
    /// Serves a fetch: of a consumer below the high watermark, of a follower to the log's end.
    pub fn read(&mut self, reader: Option<i32>, fetch: &Fetch, io: &mut Io<'_>) -> Fetched {
        let (epoch, log_start) = (self.epoch(), self.log.start());
        let told = |error: ErrorCode, high_watermark: Offset| Fetched {
            partition: fetch.partition,
            error,
            epoch,
            high_watermark,
            log_start,
            diverging: None,
            batches: Bytes::new(),
        };
        if !self.is_here() {
            return told(ErrorCode::NotLeaderOrFollower, Offset(-1));
        }
        let claimed = match io.has(Planted::EpochFenceDropped) {
            true => LeaderEpoch::UNKNOWN,
            false => fetch.claimed,
        };
        if let Err(error) = self.state.check_leader(claimed) {
            return told(error, Offset(-1));
        }
        if fetch.last_fetched != LeaderEpoch::UNKNOWN {
            let start = match io.has(Planted::DeletedRecordsTrusted) {
                true => fetch.offset,
                false => fetch.log_start,
            };
            let copy = CopyEnd { start, end: fetch.offset, epoch: fetch.last_fetched };
            match self.log.agreement(&copy) {
                Agreement::UnknownEpoch => return told(ErrorCode::OffsetOutOfRange, Offset(-1)),
                Agreement::Parts(end) => {
                    let diverging = Some((end.epoch, end.end_offset));
                    return Fetched { diverging, ..told(ErrorCode::None, self.high_watermark()) };
                }
                Agreement::Agrees => {}
            }
        }
        if fetch.offset > self.log.end() || fetch.offset < log_start {
            return told(ErrorCode::OffsetOutOfRange, Offset(-1));
        }
        let end = match (reader, fetch.broker_epoch) {
            (Some(follower), Some(broker_epoch)) => {
                self.note_follower(follower, broker_epoch, fetch, io.now_ms);
                self.log.end()
            }
            _ => self.high_watermark(),
        };
        let batches = self.log.read(fetch.offset, end, BATCHES_READ);
        if let (Some(follower), Some(broker_epoch)) = (reader, fetch.broker_epoch)
            && io.has(Planted::HighWatermarkPastFollower)
        {
            let all = Fetch { offset: self.log.end(), ..*fetch };
            self.note_follower(follower, broker_epoch, &all, io.now_ms);
        }
        Fetched { batches, ..told(ErrorCode::None, self.high_watermark()) }
    }

    fn note_follower(&mut self, id: i32, broker_epoch: i64, fetch: &Fetch, now_ms: u64) {
        let Fetch { offset, log_start, .. } = *fetch;
        let fetch = FollowerFetch { id, broker_epoch, offset, log_start, now_ms };
        self.state.follower_fetched(&fetch, LAG_MS, is_served);
        self.last_fetches.insert(id, fetch);
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
        self.state.look_at_lag((io.now_ms, LAG_MS), |_| None, is_served);
        if io.has(Planted::OldBrokerEpochAccepted) {
            // The network brings them again, maybe after a restart of the follower.
            for fetch in self.last_fetches.values() {
                self.state.follower_fetched(fetch, LAG_MS, is_served);
            }
        }
        match &mut self.proposal {
            Some(proposal) if io.now_ms < proposal.sent_ms + PROPOSAL_MS => return None,
            Some(proposal) => (proposal.sent_ms, proposal.id) = (io.now_ms, id),
            None => {
                let what = match io.has(Planted::JoiningReplicaNotCounted) {
                    // The state knows nothing of it.
                    true => wanted(&mut self.state.clone(), io.now_ms)?,
                    false => wanted(&mut self.state, io.now_ms)?,
                };
                self.proposal = Some(Proposal { what, id, sent_ms: io.now_ms });
            }
        }
        let what = &self.proposal.as_ref()?.what;
        let with_mine = |member: &IsrMember| match member.id == self.me {
            true => IsrMember { broker_epoch: my_epoch, ..*member },
            false => *member,
        };
        Some(AlterPartition {
            partition: self.partition,
            leader_epoch: what.leader_epoch,
            partition_epoch: what.partition_epoch,
            isr: what.isr.iter().map(with_mine).collect(),
        })
    }

    /// The controller refused the proposal.
    pub fn refused(&mut self) {
        if let Some(proposal) = self.proposal.take() {
            self.state.isr_refused(&proposal.what);
        }
    }
}

/// The in-sync replicas as they should be, if they are others. One change at a time.
fn wanted(state: &mut PartitionState, now_ms: u64) -> Option<IsrProposal> {
    state.expand_isr().or_else(|| state.shrink_isr(now_ms, LAG_MS))
}
