//! Calls to the other voters: what openraft asks for, as bytes on a [`Transport`].
//!
//! Every request names its cluster, its sender and its receiver. So a voter that comes up at the
//! address of another one, or of its own former life, refuses what is meant for the other.

use crate::codec::{
    decode, encode, entry_out, kind_of, log_id_in, log_id_out, snapshot_out, vote_in, vote_out,
    voter_out,
};
use crate::error::QuorumError;
use crate::member::Limits;
use crate::types::{Endpoint, Snapshot, State, Types, Vote, VoterId};
use bytes::Bytes;
use kafkalite_protocol::messages::quorum_records as wire;
use kafkalite_protocol::messages::{Versioned, Wire};
use openraft::RPCTypes;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::TypeConfigExt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Kinds of requests, and of the answers to them.
pub const VOTE: u16 = 1;
pub const PRE_VOTE: u16 = 2;
pub const APPEND: u16 = 3;
pub const SNAPSHOT: u16 = 4;
pub const TRANSFER: u16 = 5;
pub const MOVED: u16 = 6;
/// What a request and an answer are wrapped in.
pub const ENVELOPE: u16 = 0;

/// Answers to an append.
pub const APPENDED: i8 = 0;
pub const CONFLICT: i8 = 1;
pub const HIGHER_VOTE: i8 = 2;
/// Answers to a transfer of leadership.
pub const ACCEPTED: i8 = 0;
pub const VOTE_CHANGED: i8 = 1;
pub const LOG_NOT_FLUSHED: i8 = 2;

/// What a call is about. A large snapshot must not stand before a heartbeat, so each lane of a
/// voter wants a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Votes and entries.
    Log,
    /// Heartbeats.
    Heartbeat,
    /// Snapshots.
    Snapshot,
}

/// The answer to a call, or why there is none.
pub type Answer = Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;

/// The way to the other voters.
pub trait Transport: Send + Sync + 'static {
    /// Sends `request` to the voter at `to`, where [`Quorum::answer`](crate::Quorum::answer) makes
    /// the answer. The quorum itself gives up after a while, and drops the call.
    fn call(&self, to: &Endpoint, lane: Lane, request: Bytes) -> Answer;
}

/// The pace at which entries reach another voter at least, in bytes a millisecond.
const SLOWEST_PACE: u64 = 1_024;

/// How long a voter may take to answer so many bytes, beside what it may take for none. A timeout
/// for heartbeats would end every attempt to send it more than the network carries in that time.
#[must_use]
pub fn time_for(bytes: usize) -> Duration {
    Duration::from_millis(bytes as u64 / SLOWEST_PACE)
}

/// How long a voter waits until another one knows of its new address.
const MOVED_TIMEOUT: Duration = Duration::from_secs(1);

/// Where voters said that they are by now: what the membership said then, and what they said.
#[derive(Clone, Default)]
pub struct Addresses(Arc<Mutex<BTreeMap<VoterId, (Endpoint, Endpoint)>>>);

impl Addresses {
    /// `voter`, which the membership has at `known`, is at `now`.
    pub fn moved(&self, voter: VoterId, known: Endpoint, now: Endpoint) {
        self.0.lock().insert(voter, (known, now));
    }

    /// Where a voter is that the membership has at `known`. A newer membership counts more than
    /// what the voter said before it.
    fn of(&self, voter: VoterId, known: &Endpoint) -> Endpoint {
        let told = self.0.lock();
        let moved = told.get(&voter).filter(|(before, _)| before == known);
        moved.map_or(known, |(_, now)| now).clone()
    }
}

/// Whose calls these are.
#[derive(Clone)]
pub struct Network {
    pub cluster_id: Arc<str>,
    pub me: VoterId,
    pub transport: Arc<dyn Transport>,
    pub limits: Limits,
    pub addresses: Addresses,
}

impl Network {
    /// Tells a voter where this one is. A voter that is away hears it the next time.
    pub async fn say_where<C: Types>(&self, to: VoterId, place: &Endpoint, at: &Endpoint) {
        let peer =
            Peer { network: self.clone(), target: to, at: place.clone(), lane: Lane::Heartbeat };
        let Endpoint { host, port } = at.clone();
        let moved = wire::QuorumMovedRecord { host, port };
        let call = peer.call::<C, _, wire::QuorumMovedAnswerRecord>(
            (MOVED, RPCTypes::Vote),
            &moved,
            MOVED_TIMEOUT,
        );
        if let Err(error) = call.await {
            tracing::debug!(%to, %error, "a voter does not know of the new address yet");
        }
    }
}

impl<C: Types> RaftNetworkFactory<C> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: VoterId, node: &Endpoint) -> Peer {
        Peer { network: self.clone(), target, at: node.clone(), lane: Lane::Log }
    }

    async fn new_heartbeat_client(&mut self, target: VoterId, node: &Endpoint) -> Peer {
        Peer { network: self.clone(), target, at: node.clone(), lane: Lane::Heartbeat }
    }

    async fn new_snapshot_client(&mut self, target: VoterId, node: &Endpoint) -> Peer {
        Peer { network: self.clone(), target, at: node.clone(), lane: Lane::Snapshot }
    }
}

/// The way to one voter, in one lane.
pub struct Peer {
    network: Network,
    target: VoterId,
    at: Endpoint,
    lane: Lane,
}

impl Peer {
    async fn call<C: Types, Q: Versioned, A: Versioned + Wire>(
        &self,
        (kind, action): (u16, RPCTypes),
        request: &Q,
        ttl: Duration,
    ) -> Result<A, RPCError<C>> {
        let Network { cluster_id, me, transport, addresses, .. } = &self.network;
        let at = addresses.of(self.target, &self.at);
        let request = wire::QuorumRequestRecord {
            cluster_id: cluster_id.to_string(),
            sender: voter_out(*me),
            receiver: voter_out(self.target),
            body: encode(kind, request),
        };
        let call = transport.call(&at, self.lane, encode(ENVELOPE, &request));
        let answered = C::timeout(ttl, call).await;
        let Ok(answer) = answered else {
            let (id, target) = (*me, self.target);
            return Err(RPCError::Timeout(Timeout { action, id, target, timeout: ttl }));
        };
        let unreachable = |reason| RPCError::Unreachable(Unreachable::from_string(reason));
        let answer = answer.map_err(unreachable)?;
        open_answer(kind, answer).map_err(|error| unreachable(error.to_string()))
    }
}

/// The record in an answer to a request of `kind`.
fn open_answer<A: Versioned + Wire>(kind: u16, answer: Bytes) -> Result<A, QuorumError> {
    let malformed = |reason: String| QuorumError::Malformed(reason);
    let (ENVELOPE, reader) = kind_of(answer)? else {
        return Err(malformed("not an answer".to_owned()));
    };
    let answer: wire::QuorumAnswerRecord = decode(reader)?;
    if answer.error != 0 {
        return Err(malformed(format!("refused: {}", answer.message)));
    }
    match kind_of(answer.body)? {
        (found, reader) if found == kind => decode(reader),
        (found, _) => Err(malformed(format!("an answer of kind {found} to one of {kind}"))),
    }
}

fn bad_answer<C: Types>(error: QuorumError) -> RPCError<C> {
    RPCError::Network(NetworkError::from_string(error.to_string()))
}

impl Peer {
    async fn ask_vote<C: Types>(
        &self,
        kind: u16,
        rpc: VoteRequest<C>,
        option: &RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        let request = wire::QuorumVoteRequestRecord {
            vote: vote_out(&rpc.vote),
            last_log_id: log_id_out(rpc.last_log_id.as_ref()),
            leadership_transfer: rpc.leadership_transfer,
        };
        let answer: wire::QuorumVoteAnswerRecord =
            self.call((kind, RPCTypes::Vote), &request, option.soft_ttl()).await?;
        let vote = vote_in(&answer.vote).map_err(bad_answer)?;
        let last_log_id = log_id_in(&answer.last_log_id).map_err(bad_answer)?;
        Ok(VoteResponse::new(vote, last_log_id, answer.is_granted))
    }
}

impl<C: Types> RaftNetworkV2<C> for Peer {
    type SnapshotData = State;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let request = wire::QuorumAppendRequestRecord {
            vote: vote_out(&rpc.vote),
            previous: log_id_out(rpc.prev_log_id.as_ref()),
            entries: rpc.entries.iter().map(entry_out).collect(),
            committed: log_id_out(rpc.leader_commit.as_ref()),
        };
        let action = (APPEND, RPCTypes::AppendEntries);
        let bytes = request.entries.iter().map(|entry| entry.payload.len()).sum();
        let ttl = option.soft_ttl() + time_for(bytes);
        let answer: wire::QuorumAppendAnswerRecord = self.call(action, &request, ttl).await?;
        match answer.outcome {
            APPENDED => Ok(AppendEntriesResponse::Success),
            // Nothing conflicts with the beginning of the log.
            CONFLICT if rpc.prev_log_id.is_some() => Ok(AppendEntriesResponse::Conflict),
            HIGHER_VOTE => {
                Ok(AppendEntriesResponse::HigherVote(vote_in(&answer.vote).map_err(bad_answer)?))
            }
            other => Err(bad_answer(QuorumError::Malformed(format!("append outcome {other}")))),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<C>,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_vote(VOTE, rpc, &option).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<C>,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_vote(PRE_VOTE, rpc, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let mut cancel = std::pin::pin!(cancel);
        let send = self.send_snapshot(vote, snapshot);
        let mut send = std::pin::pin!(send);
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(closed) = cancel.as_mut().poll(context) {
                return std::task::Poll::Ready(Err(StreamingError::Closed(closed)));
            }
            send.as_mut().poll(context)
        })
        .await
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<C>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<C>, RPCError<C>> {
        let request = wire::QuorumTransferRequestRecord {
            vote: vote_out(rpc.from_leader()),
            target: voter_out(*rpc.to_node_id()),
            last_log_id: log_id_out(rpc.last_log_id()),
        };
        let action = (TRANSFER, RPCTypes::TransferLeader);
        let answer: wire::QuorumTransferAnswerRecord =
            self.call(action, &request, option.soft_ttl()).await?;
        let actual_vote = vote_in(&answer.vote).map_err(bad_answer)?;
        let actual_log = log_id_in(&answer.last_log_id).map_err(bad_answer)?;
        Ok(match answer.outcome {
            ACCEPTED => Ok(()),
            VOTE_CHANGED => Err(TransferLeaderError::VoteChanged {
                expected: *rpc.from_leader(),
                actual: actual_vote,
            }),
            _ => Err(TransferLeaderError::LogNotFlushed {
                expected: rpc.last_log_id().copied(),
                actual: actual_log,
            }),
        })
    }
}

impl Peer {
    /// Sends a snapshot piece by piece. A piece that is lost costs its own timeout only.
    async fn send_snapshot<C: Types>(
        &self,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let head = snapshot_out(&snapshot.meta, snapshot.snapshot.end);
        let bytes = snapshot.snapshot.bytes;
        let ttl = Duration::from_millis(self.network.limits.chunk_timeout_ms);
        let mut position = 0;
        loop {
            let end = bytes.len().min(position + self.network.limits.chunk_bytes);
            let request = wire::QuorumSnapshotChunkRecord {
                vote: vote_out(&vote),
                snapshot: head.clone(),
                total: bytes.len() as i64,
                position: position as i64,
                data: bytes.slice(position..end),
            };
            let action = (SNAPSHOT, RPCTypes::InstallSnapshot);
            let answer: wire::QuorumSnapshotAnswerRecord = self.call(action, &request, ttl).await?;
            let other = vote_in(&answer.vote).map_err(bad_answer)?;
            if other > vote || end == bytes.len() && answer.received == end as i64 {
                return Ok(SnapshotResponse::new(other));
            }
            if answer.received != end as i64 {
                let reason = "the receiver of a snapshot lost its place";
                return Err(NetworkError::from_string(reason).into());
            }
            position = end;
        }
    }
}
