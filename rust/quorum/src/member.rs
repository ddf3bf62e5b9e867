//! One voter or learner, on any runtime: openraft between its disk, its state and the others.

use crate::disk::Disk;
use crate::error::QuorumError;
use crate::journal::{self, Journal};
use crate::log_store::LogStore;
use crate::membership::{MembershipChange, Wanted, changed};
use crate::network::{Addresses, Network, Transport};
use crate::server::Server;
use crate::snapshots::Snapshots;
use crate::state_machine::{Machine, StateMachine};
use crate::types::{
    Applied, CommittedLeaderId, Endpoint, LogId, Membership, Payload, Proposal, SnapshotMeta,
    State, StoredMembership, Types, VoterId,
};
use bytes::Bytes;
use kafkalite_log::frames::io_error;
use kafkalite_log::storage::Storage;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader, LinearizableReadError, RaftError};
use openraft::raft::{Precondition, ReadPolicy, TransferLeaderRequest};
use openraft::type_config::alias::WatchReceiverOf;
use openraft::{ChangeMembers, Config, Instant, Raft, RaftMetrics, ServerState, SnapshotPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Result<T> = std::result::Result<T, QuorumError>;

/// Who a voter is, where it keeps its log, and how it reaches the others.
#[derive(Clone)]
pub struct MemberOptions {
    /// The cluster's id; a message that names another one is refused.
    pub cluster_id: Arc<str>,
    /// This voter.
    pub me: VoterId,
    /// The directory of its log; it exists.
    pub dir: PathBuf,
    /// How long elections and heartbeats take.
    pub timing: Timing,
    /// How much is kept, and how much is sent at once.
    pub limits: Limits,
}

/// How much a voter keeps of its log, and sends at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The least that is applied between two snapshots, in bytes of payload.
    pub snapshot_after_bytes: u64,
    /// The entries between two looks at whether a snapshot is due.
    pub snapshot_check_entries: u64,
    /// The entries below a snapshot that are kept for those who are a little behind.
    pub kept_entries: u64,
    /// What the journal grows before a new one takes its place, in bytes.
    pub roll_bytes: u64,
    /// Bytes of a snapshot in one message.
    pub chunk_bytes: usize,
    /// How long each of these messages may take, with all that the receiver does before it answers.
    pub chunk_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            snapshot_after_bytes: 1 << 20,
            snapshot_check_entries: 64,
            kept_entries: 500,
            roll_bytes: 1 << 20,
            chunk_bytes: 1 << 20,
            chunk_timeout_ms: 10_000,
        }
    }
}

/// How soon the loss of a leader is noticed. All voters should have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats of a leader, in ms.
    pub heartbeat_ms: u64,
    /// The least that a voter waits for a heartbeat before it stands for election, in ms. Each wait
    /// is drawn between this and twice this.
    pub election_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 100, election_ms: 500 }
    }
}

/// How the quorum stands, as far as this voter knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This voter.
    pub me: VoterId,
    /// Who leads.
    pub leader: Option<(VoterId, Endpoint)>,
    /// The newest term.
    pub term: u64,
    /// The offset that the next record gets, here.
    pub end: i64,
    /// The voters.
    pub voters: Vec<MemberStatus>,
    /// The learners.
    pub learners: Vec<MemberStatus>,
    /// Why this voter has stopped, if it has.
    pub stopped: Option<String>,
}

/// How one voter or learner stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which one.
    pub id: VoterId,
    /// Where it is.
    pub at: Endpoint,
    /// The index of the last entry that it has; only the leader knows.
    pub matched: Option<u64>,
    /// The offset behind the last record that it has; only the leader knows.
    pub end: Option<i64>,
    /// How long ago it answered the leader, in ms; only the leader knows.
    pub answered_ms_ago: Option<u64>,
}

/// A voter or learner that runs.
pub struct Member<C: Types> {
    server: Server<C>,
    network: Network,
    log: LogStore,
    machine: Machine,
}

/// Makes the log of the first voter of a cluster in `dir`, with `state` to begin with.
///
/// This is the one way in which a quorum comes into being: every other voter learns from it.
///
/// # Errors
/// The directory has a log already, or the disk refuses.
pub fn form(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    (me, at): (VoterId, Endpoint),
    state: &State,
) -> Result<()> {
    let snapshots = Snapshots::new(Arc::clone(storage), dir);
    if journal::is_in(storage.as_ref(), dir)? || snapshots.newest()?.is_some() {
        return Err(QuorumError::Exists { path: dir.to_owned() });
    }
    let first = LogId::new(CommittedLeaderId::new(0), 0);
    let membership = Membership::new(vec![BTreeSet::from([me])], BTreeMap::from([(me, at)]));
    let membership = membership.map_err(|error| QuorumError::Membership(error.to_string()))?;
    let last_membership = StoredMembership::new(Some(first), membership);
    // A snapshot is in place or it is not: there is no half of a cluster.
    snapshots.write(&SnapshotMeta { last_log_id: Some(first), last_membership }, state)
}

/// Deletes what was still being written when this voter's process died.
fn sweep(disk: &dyn Storage, dir: &Path) -> Result<()> {
    for entry in disk.list(dir).map_err(io_error("read", dir))? {
        let path = dir.join(&entry.name);
        if path.extension().is_some_and(|end| end == "tmp") {
            disk.remove_file(&path).map_err(io_error("delete", &path))?;
        }
    }
    Ok(())
}

fn config(options: &MemberOptions, is_alone: bool) -> Result<Config> {
    let Timing { heartbeat_ms, election_ms } = options.timing;
    let config = Config {
        cluster_name: options.cluster_id.to_string(),
        heartbeat_interval: heartbeat_ms,
        election_timeout_min: election_ms,
        election_timeout_max: 2 * election_ms,
        enable_pre_vote: Some(true),
        // A leader that hears no majority keeps silent now and then. So voters that hear it through
        // a one-way partition elect another leader.
        quorum_loss_probe_interval: Some(5 * election_ms),
        // What a restarted leader sent before it was on its own disk may be with others. Only who
        // never had others goes on in its old term.
        enable_leader_restore: Some(is_alone),
        // The state machine decides by bytes; it is asked as often as this.
        snapshot_policy: SnapshotPolicy::LogsSinceLast(options.limits.snapshot_check_entries),
        max_in_snapshot_log_to_keep: options.limits.kept_entries,
        install_snapshot_timeout: 60_000,
        backoff: "50ms,100ms,200ms ..500ms".to_owned(),
        ..Config::default()
    };
    config.validate().map_err(|error| QuorumError::Malformed(error.to_string()))
}

impl<C: Types> Member<C> {
    /// Opens the log in `options.dir` and takes part. Without a log it belongs to no
    /// quorum yet, and waits until a leader makes it a learner.
    ///
    /// # Errors
    /// The disk refuses, or what is on it is damaged.
    pub async fn open(
        options: MemberOptions,
        storage: Arc<dyn Storage>,
        disk: Disk,
        machine: Box<dyn StateMachine>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        sweep(storage.as_ref(), &options.dir)?;
        // A name that is there may be so in memory only, if the fsync behind its rename failed.
        storage.sync_dir(&options.dir).map_err(io_error("fsync", &options.dir))?;
        let snapshots = Snapshots::new(Arc::clone(&storage), &options.dir);
        let limits = options.limits;
        let after = limits.snapshot_after_bytes;
        let machine = Machine::open(machine, snapshots, disk.clone(), after)?;
        let (journal, state) = Journal::open(storage, &options.dir, limits.roll_bytes)?;
        let reached = machine.last_applied();
        if let Some(first) = state.first_above(reached.as_ref()) {
            return Err(QuorumError::Hole { path: options.dir, first });
        }
        let is_alone = is_alone(&machine, &state.memberships(), options.me);
        let leads_on = is_alone && state.vote.is_some_and(|vote| vote.is_committed());
        let log = LogStore::new(journal, state, disk);
        let MemberOptions { cluster_id, me, .. } = options.clone();
        let addresses = Addresses::default();
        let network = Network {
            cluster_id: Arc::clone(&cluster_id),
            me,
            transport,
            limits,
            addresses: addresses.clone(),
        };
        let config = Arc::new(config(&options, is_alone)?);
        let raft =
            Raft::<C, Machine>::new(me, config, network.clone(), log.clone(), machine.clone());
        let raft = raft.await.map_err(|error| QuorumError::Stopped(error.to_string()))?;
        if is_alone && !leads_on {
            // There is no other voter to wait for.
            raft.trigger().elect(false).await.map_err(stopped)?;
        }
        let server = Server::new(cluster_id, me, raft, addresses);
        Ok(Self { server, network, log, machine })
    }

    /// The answer to a call of another voter.
    pub async fn answer(&self, request: Bytes) -> Bytes {
        self.server.answer(request).await
    }

    /// Makes a proposal count, and returns the offset of its last record. Only the leader does.
    ///
    /// # Errors
    /// `Overtaken` and `NotLeader`: it does not count and never will. `Unknown` and `Stopped`: it
    /// may count yet.
    pub async fn propose(&self, proposal: Proposal) -> Result<i64> {
        let expected = proposal.expected;
        match self.server.raft.client_write(proposal).await {
            Ok(written) => match written.data {
                Applied::Counts(offset) => Ok(offset),
                Applied::Overtaken(found) => Err(QuorumError::Overtaken { expected, found }),
                Applied::Nothing => Err(QuorumError::Unknown("an empty entry".to_owned())),
            },
            Err(error) => Err(write_error(error)),
        }
    }

    /// Returns `expected` if it is the offset of the last record that counts. Only the leader
    /// knows: it hears from a majority that it leads, and applies what counted before.
    ///
    /// # Errors
    /// `Overtaken`: more records count, or fewer. `NotLeader`: another voter may know.
    pub async fn confirm(&self, expected: i64) -> Result<i64> {
        let heard = self.server.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
        heard.map_err(read_error)?;
        match self.machine.end() - 1 {
            found if found == expected => Ok(expected),
            found => Err(QuorumError::Overtaken { expected, found }),
        }
    }

    /// Makes one change of the membership. Only the leader does, and one at a time.
    ///
    /// # Errors
    /// `Membership` and `NotLeader`: nothing changes. `Unknown` and `Stopped`: it may change yet.
    pub async fn change(&self, change: MembershipChange) -> Result<()> {
        let metrics = self.server.raft.metrics().borrow_watched().clone();
        let before = Arc::clone(&metrics.membership_config);
        let after = changed(&metrics, change)?;
        let unchanged =
            Precondition::LastMembershipLogId { last_membership_log_id: *before.log_id() };
        let raft = &self.server.raft;
        let appended = match after {
            Wanted::Membership(after) => {
                raft.append_membership(after, Payload::Blank, [unchanged]).await
            }
            Wanted::Address(nodes) => {
                raft.change_membership_if(ChangeMembers::SetNodes(nodes), true, [unchanged]).await
            }
        };
        appended.map(|_| ()).map_err(write_error)
    }

    /// Asks `to` to lead in this voter's place; it may refuse, and then this one leads on.
    ///
    /// # Errors
    /// This voter does not lead, or `to` is not a voter.
    pub async fn transfer(&self, to: VoterId) -> Result<()> {
        let metrics = self.server.raft.metrics().borrow_watched().clone();
        if metrics.state != ServerState::Leader {
            return Err(QuorumError::NotLeader { leader: leader(&metrics) });
        }
        if !metrics.membership_config.voter_ids().any(|id| id == to) {
            return Err(QuorumError::Membership(format!("{to} is not a voter")));
        }
        self.server.raft.trigger().transfer_leader(to).await.map_err(stopped)
    }

    /// Says to the others that this voter is at `at`, if the membership has it elsewhere: no leader
    /// reaches it before they know. Whom it takes for the leader says nothing, as it may be the
    /// leader of its former life.
    pub async fn say_where(&self, at: &Endpoint) {
        let membership = Arc::clone(&self.server.raft.metrics().borrow_watched().membership_config);
        if membership.get_node(&self.server.me).is_none_or(|known| known == at) {
            return;
        }
        for (id, place) in membership.nodes().filter(|(id, _)| **id != self.server.me) {
            self.network.say_where::<C>(*id, place, at).await;
        }
    }

    /// The process of `leader` is known to be gone: this voter gives back the lease in which it
    /// grants no vote. With `stands` it begins a Pre-Vote, which moves no term unless a majority
    /// has given back the lease, too.
    ///
    /// # Errors
    /// This voter has stopped.
    pub async fn leader_is_gone(&self, leader: VoterId, stands: bool) -> Result<()> {
        let metrics = self.server.raft.metrics().borrow_watched().clone();
        let me = self.server.me;
        if metrics.current_leader != Some(leader) || leader == me {
            return Ok(());
        }
        // What a leader sends that hands its lead to another voter: the lease of its term ends.
        let elsewhere = TransferLeaderRequest::new(metrics.vote, leader, None);
        let given_back = self.server.raft.handle_transfer_leader(elsewhere).await;
        // It is refused to the voter that is named only, and that is not this one.
        let _ = given_back.map_err(stopped)?;
        let is_voter = metrics.membership_config.voter_ids().any(|id| id == me);
        match stands && is_voter {
            true => self.server.raft.trigger().elect(true).await.map_err(stopped),
            false => Ok(()),
        }
    }

    /// Writes a snapshot soon, however little was applied since the last.
    #[cfg(test)]
    pub async fn snapshot(&self) -> Result<()> {
        self.machine.want_snapshot();
        self.server.raft.trigger().snapshot().await.map_err(stopped)
    }

    /// How the quorum stands.
    pub fn status(&self) -> Status {
        let metrics = self.server.raft.metrics().borrow_watched().clone();
        let member = |(id, at): (&VoterId, &Endpoint)| {
            let matched = metrics.replication.as_ref().and_then(|all| all.get(id));
            let matched = matched.and_then(|log_id| log_id.as_ref().map(LogId::index));
            let answered = metrics.heartbeat.as_ref().and_then(|all| all.get(id));
            let answered = answered.and_then(|at| at.as_ref());
            MemberStatus {
                id: *id,
                at: at.clone(),
                matched,
                end: matched.map(|index| self.machine.end_at(index)),
                answered_ms_ago: answered.map(|at| at.elapsed().as_millis() as u64),
            }
        };
        let voters: BTreeSet<_> = metrics.membership_config.voter_ids().collect();
        let nodes = metrics.membership_config.nodes();
        let (voters, learners): (Vec<_>, Vec<_>) = nodes.partition(|(id, _)| voters.contains(*id));
        Status {
            me: self.server.me,
            leader: leader(&metrics),
            term: metrics.current_term,
            end: self.machine.end(),
            voters: voters.into_iter().map(member).collect(),
            learners: learners.into_iter().map(member).collect(),
            stopped: metrics.running_state.err().map(|fatal| fatal.to_string()),
        }
    }

    /// Every change of what [`Self::status`] says, from now on.
    pub fn changes(&self) -> Changes<C> {
        Changes(self.server.raft.metrics())
    }

    /// Ends the voter; what is being written is finished.
    pub async fn stop(&self) {
        if let Err(error) = self.server.raft.shutdown().await {
            tracing::warn!(%error, "the quorum did not end well");
        }
        self.log.close().await;
    }
}

/// See [`Member::changes`].
pub struct Changes<C: Types>(WatchReceiverOf<C, RaftMetrics<C>>);

impl<C: Types> Changes<C> {
    /// Waits for the next change; an error when the voter has ended.
    pub async fn next(&mut self) -> Result<()> {
        self.0.changed().await.map_err(stopped)
    }
}

fn stopped(error: impl std::fmt::Display) -> QuorumError {
    QuorumError::Stopped(error.to_string())
}

/// Whether `me` is the whole membership, and no other one is in the log.
fn is_alone(machine: &Machine, in_log: &[Membership], me: VoterId) -> bool {
    let stored = machine.membership();
    let only_me = |membership: &Membership| {
        let mut nodes = membership.nodes().map(|(id, _)| *id);
        nodes.next() == Some(me) && nodes.next().is_none()
    };
    only_me(stored.membership()) && in_log.iter().all(only_me)
}

pub fn leader<C: Types>(metrics: &RaftMetrics<C>) -> Option<(VoterId, Endpoint)> {
    let id = metrics.current_leader?;
    let at = metrics.membership_config.get_node(&id)?;
    Some((id, at.clone()))
}

fn not_leader<C: Types>(forward: ForwardToLeader<C>) -> QuorumError {
    QuorumError::NotLeader { leader: forward.leader_id.zip(forward.leader_node) }
}

fn read_error<C: Types>(error: RaftError<C, LinearizableReadError<C>>) -> QuorumError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => not_leader(forward),
        // Another voter may lead by now.
        RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => {
            QuorumError::NotLeader { leader: None }
        }
        RaftError::Fatal(fatal) => stopped(fatal),
    }
}

fn write_error<C: Types>(error: RaftError<C, ClientWriteError<C>>) -> QuorumError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => not_leader(forward),
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) => {
            QuorumError::Unknown("another leader took over".to_owned())
        }
        RaftError::APIError(error) => QuorumError::Membership(error.to_string()),
        RaftError::Fatal(fatal) => stopped(fatal),
    }
}
