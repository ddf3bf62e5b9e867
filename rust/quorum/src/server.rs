//! Calls of the other voters: bytes in, an answer out, whatever the bytes are.
//!
//! openraft trusts its peers, and panics on what no sound one sends. So each request is checked
//! here before openraft sees it.

use crate::codec::{
    decode, encode, entries_in, kind_of, log_id_in, log_id_out, malformed, snapshot_in, vote_in,
    vote_out, voter_in,
};
use crate::error::QuorumError;
use crate::network::{
    ACCEPTED, APPEND, APPENDED, Addresses, CONFLICT, ENVELOPE, HIGHER_VOTE, LOG_NOT_FLUSHED, MOVED,
    PRE_VOTE, SNAPSHOT, TRANSFER, VOTE, VOTE_CHANGED,
};
use crate::state_machine::Machine;
use crate::types::{
    Endpoint, LogId, Snapshot, SnapshotMeta, State, Types, Vote, VoterId, next_index,
};
use bytes::Bytes;
use kafkalite_protocol::Reader;
use kafkalite_protocol::messages::quorum_records as wire;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    VoteRequest,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The most that a state may take as bytes.
const MAX_STATE_BYTES: i64 = 1 << 30;

type Result<T> = std::result::Result<T, QuorumError>;

/// A snapshot that is on its way here.
struct Incoming {
    vote: Vote,
    meta: SnapshotMeta,
    total: usize,
    bytes: Vec<u8>,
}

/// A snapshot of which every piece is there.
type Whole = Option<(SnapshotMeta, Vec<u8>)>;

/// Answers for one voter.
pub struct Server<C: Types> {
    pub cluster_id: Arc<str>,
    pub me: VoterId,
    pub raft: Raft<C, Machine>,
    incoming: Mutex<Option<Incoming>>,
    addresses: Addresses,
}

fn stopped(error: impl std::fmt::Display) -> QuorumError {
    QuorumError::Stopped(error.to_string())
}

impl<C: Types> Server<C> {
    pub fn new(
        cluster_id: Arc<str>,
        me: VoterId,
        raft: Raft<C, Machine>,
        addresses: Addresses,
    ) -> Self {
        Self { cluster_id, me, raft, incoming: Mutex::new(None), addresses }
    }

    /// The answer to `request`, which may be anything.
    pub async fn answer(&self, request: Bytes) -> Bytes {
        let mut answer = wire::QuorumAnswerRecord::default();
        match self.body(request).await {
            Ok(body) => answer.body = body,
            Err(error) => {
                tracing::debug!(%error, "a call of a voter was refused");
                answer.error = 1;
                answer.message = error.to_string();
            }
        }
        encode(ENVELOPE, &answer)
    }

    async fn body(&self, request: Bytes) -> Result<Bytes> {
        let (ENVELOPE, reader) = kind_of(request)? else {
            return malformed("not a request");
        };
        let request: wire::QuorumRequestRecord = decode(reader)?;
        if request.cluster_id != *self.cluster_id {
            return malformed(format!("this is cluster {}", self.cluster_id));
        }
        if voter_in(&request.receiver) != self.me {
            return malformed(format!("this is voter {}", self.me));
        }
        let sender = voter_in(&request.sender);
        let (kind, reader) = kind_of(request.body)?;
        match kind {
            VOTE | PRE_VOTE => self.vote(kind, reader).await,
            APPEND => self.append(reader).await,
            SNAPSHOT => self.snapshot(reader).await,
            TRANSFER => self.transfer(reader).await,
            MOVED => self.moved(sender, reader),
            unknown => malformed(format!("a request of kind {unknown}")),
        }
    }

    /// A voter is somewhere else than the membership says.
    fn moved(&self, sender: VoterId, reader: Reader) -> Result<Bytes> {
        let wire::QuorumMovedRecord { host, port } = decode(reader)?;
        let membership = Arc::clone(&self.raft.metrics().borrow_watched().membership_config);
        let Some(known) = membership.get_node(&sender) else {
            return malformed(format!("{sender} does not belong to the quorum"));
        };
        self.addresses.moved(sender, known.clone(), Endpoint { host, port });
        Ok(encode(MOVED, &wire::QuorumMovedAnswerRecord::default()))
    }

    async fn vote(&self, kind: u16, reader: Reader) -> Result<Bytes> {
        let request: wire::QuorumVoteRequestRecord = decode(reader)?;
        let vote = vote_in(&request.vote)?;
        if vote.is_committed() {
            return malformed("a candidate that was elected already");
        }
        let mut rpc = VoteRequest::new(vote, log_id_in(&request.last_log_id)?);
        rpc.leadership_transfer = request.leadership_transfer;
        let answer = match kind {
            VOTE => self.raft.vote(rpc).await,
            _ => self.raft.pre_vote(rpc).await,
        };
        let answer = answer.map_err(stopped)?;
        let answer = wire::QuorumVoteAnswerRecord {
            vote: vote_out(&answer.vote),
            is_granted: answer.vote_granted,
            last_log_id: log_id_out(answer.last_log_id.as_ref()),
        };
        Ok(encode(kind, &answer))
    }

    async fn append(&self, reader: Reader) -> Result<Bytes> {
        let request: wire::QuorumAppendRequestRecord = decode(reader)?;
        let vote = leader_vote_in(&request.vote)?;
        let prev_log_id = log_id_in(&request.previous)?;
        let entries = entries_in(request.entries)?;
        if let Some(first) = entries.first() {
            let follows = first.log_id.index() == next_index(prev_log_id.as_ref());
            if !follows || prev_log_id.is_some_and(|previous| first.log_id < previous) {
                return malformed(format!("entry {} behind {prev_log_id:?}", first.log_id));
            }
        }
        let leader_commit = log_id_in(&request.committed)?;
        let last = entries.last().map(|entry| entry.log_id);
        for log_id in [prev_log_id, last, leader_commit].into_iter().flatten() {
            is_of_term(&log_id, &vote)?;
        }
        let rpc = AppendEntriesRequest { vote, prev_log_id, entries, leader_commit };
        let answer = self.raft.append_entries(rpc).await.map_err(stopped)?;
        let (outcome, vote) = match answer {
            AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_) => {
                (APPENDED, vote)
            }
            AppendEntriesResponse::Conflict => (CONFLICT, vote),
            AppendEntriesResponse::HigherVote(vote) => (HIGHER_VOTE, vote),
        };
        let vote = vote_out(&vote);
        Ok(encode(APPEND, &wire::QuorumAppendAnswerRecord { outcome, vote }))
    }

    async fn snapshot(&self, reader: Reader) -> Result<Bytes> {
        let request: wire::QuorumSnapshotChunkRecord = decode(reader)?;
        let vote = leader_vote_in(&request.vote)?;
        let (meta, end) = snapshot_in(&request.snapshot)?;
        let Some(last) = meta.last_log_id else { return malformed("a snapshot of nothing") };
        is_of_term(&last, &vote)?;
        if !(0..=MAX_STATE_BYTES).contains(&request.total) {
            return malformed(format!("a state of {} bytes", request.total));
        }
        let (received, whole) = self.receive(vote, meta, &request)?;
        let mut known = vote;
        if let Some((meta, bytes)) = whole {
            let committed = self.raft.metrics().borrow_watched().local_committed;
            if committed.is_some_and(|at| last > at && last.index() <= at.index()) {
                return malformed(format!("snapshot {last} against what is committed"));
            }
            let snapshot = Snapshot { meta, snapshot: State { end, bytes: bytes.into() } };
            let answer = self.raft.install_full_snapshot(vote, snapshot).await;
            known = answer.map_err(stopped)?.vote;
        }
        let answer =
            wire::QuorumSnapshotAnswerRecord { vote: vote_out(&known), received: received as i64 };
        Ok(encode(SNAPSHOT, &answer))
    }

    /// Takes a piece of a snapshot. Memory grows with what arrives, not with what is announced.
    fn receive(
        &self,
        vote: Vote,
        meta: SnapshotMeta,
        request: &wire::QuorumSnapshotChunkRecord,
    ) -> Result<(usize, Whole)> {
        let total = usize::try_from(request.total).unwrap_or(usize::MAX);
        let mut slot = self.incoming.lock();
        if request.position == 0 {
            let bytes = Vec::new();
            *slot = Some(Incoming { vote, meta, total, bytes });
        } else if !slot
            .as_ref()
            .is_some_and(|at| at.vote == vote && at.meta == meta && at.total == total)
        {
            return Ok((0, None));
        }
        let Some(incoming) = slot.as_mut() else { return Ok((0, None)) };
        if request.position != incoming.bytes.len() as i64 {
            return Ok((incoming.bytes.len(), None));
        }
        if request.data.len() > total - incoming.bytes.len() {
            *slot = None;
            return malformed("more of a snapshot than was announced");
        }
        incoming.bytes.extend_from_slice(&request.data);
        let received = incoming.bytes.len();
        if received < total {
            return Ok((received, None));
        }
        Ok((received, slot.take().map(|incoming| (incoming.meta, incoming.bytes))))
    }

    async fn transfer(&self, reader: Reader) -> Result<Bytes> {
        let request: wire::QuorumTransferRequestRecord = decode(reader)?;
        let vote = leader_vote_in(&request.vote)?;
        let (target, last) = (voter_in(&request.target), log_id_in(&request.last_log_id)?);
        let rpc = TransferLeaderRequest::new(vote, target, last);
        let answer = self.raft.handle_transfer_leader(rpc).await.map_err(stopped)?;
        let (outcome, vote, last) = match answer {
            Ok(()) => (ACCEPTED, vote, last),
            Err(TransferLeaderError::VoteChanged { actual, .. }) => (VOTE_CHANGED, actual, last),
            Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
                (LOG_NOT_FLUSHED, vote, actual)
            }
        };
        let (vote, last_log_id) = (vote_out(&vote), log_id_out(last.as_ref()));
        Ok(encode(TRANSFER, &wire::QuorumTransferAnswerRecord { outcome, vote, last_log_id }))
    }
}

/// The vote of a leader that a quorum elected.
fn leader_vote_in(vote: &wire::QuorumVote) -> Result<Vote> {
    match vote_in(vote)? {
        vote if vote.is_committed() => Ok(vote),
        _ => malformed("a leader that was not elected"),
    }
}

/// No leader knows of entries from a later term than its own.
fn is_of_term(log_id: &LogId, vote: &Vote) -> Result<()> {
    match log_id.committed_leader_id().term <= vote.leader_id().term {
        true => Ok(()),
        false => malformed(format!("entry {log_id} of a later term than {vote}")),
    }
}
