//! The quorum of several voters: [`kafkalite_quorum`] between controllers and publishers.
//!
//! ```text
//!  propose --> this voter leads? --yes--> Quorum --> journals of a majority
//!                  | no                                   v committed
//!                  +--> Forward --> the leader    Machine --> Publisher
//! ```
//! Every broker decides its changes itself, on its own image. The records name the offset that they
//! were decided upon. So they count directly behind it or never, whichever broker proposes them.

mod behind;

use super::{MetadataQuorum, OnOutcome, Outcome, Proposal, QuorumMember, QuorumStatus};
use crate::metadata::controller::fitting;
use crate::metadata::error::MetadataError;
use crate::metadata::image::MetadataImage;
use crate::metadata::metadata_log::{image_bytes, image_of};
use crate::metadata::publisher::Publisher;
use crate::metadata::records::RecordsBatch;
use behind::{PATIENCE, settled_here};
use bytes::Bytes;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::{Reader, Writer};
use kafkalite_quorum::{
    Committed, Endpoint, MakeBytes, MemberStatus, MembershipChange, Proposal as Payload, Quorum,
    QuorumError, QuorumOptions, State, StateMachine, Status, Transport, VoterId,
};
use parking_lot::RwLock;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How long a proposal waits for a leader.
const LEADER_WAIT: Duration = Duration::from_secs(30);
/// Between two looks for one.
const RETRY: Duration = Duration::from_millis(50);

/// Bytes of records that another broker may propose at once. A broker that starts changes all of
/// its replicas in one batch, with some 150 bytes for each.
const MAX_BATCH_BYTES: usize = 64 << 20;

/// The answer to records that were sent to a broker.
#[derive(Debug)]
pub enum Accepted {
    /// It led, and this is the outcome.
    Outcome(Outcome),
    /// It does not lead, or is not ready; the records never count.
    NotLeader,
}

/// The result of sending records to another broker.
#[derive(Debug)]
pub enum Forwarded {
    /// The broker answered.
    Answered(Accepted),
    /// The broker was not reached: it never saw the records.
    Unreached(String),
}

/// The way of a proposal to the leader.
pub trait Forward: Send + Sync + 'static {
    /// Sends records that were decided at offset `expected` to the broker at `to`.
    fn forward(
        &self,
        to: &Endpoint,
        expected: i64,
        batch: Bytes,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send>>;
}

/// What a voter needs.
pub struct RaftOptions {
    /// Who it is, and where its log is.
    pub quorum: QuorumOptions,
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// Gets every committed batch.
    pub publisher: Arc<Publisher>,
    /// The way to the other voters.
    pub transport: Arc<dyn Transport>,
    /// The way of proposals to the leader.
    pub forward: Arc<dyn Forward>,
    /// Where proposals wait.
    pub runtime: Handle,
}

/// A voter or learner of a quorum.
pub struct QuorumOfRaft {
    shared: Arc<Shared>,
    runtime: Handle,
}

struct Shared {
    quorum: RwLock<Arc<Quorum>>,
    /// What it takes to start it again.
    options: QuorumOptions,
    storage: Arc<dyn Storage>,
    transport: Arc<dyn Transport>,
    /// It was stopped, and is not started again.
    is_over: AtomicBool,
    /// What is added to a term: epochs go on where those of the single broker ended.
    first_epoch: Arc<AtomicI32>,
    publisher: Arc<Publisher>,
    forward: Arc<dyn Forward>,
}

/// What the first voter begins with: `image`, and the epochs after its own.
fn first_state(image: &MetadataImage) -> State {
    State { end: image.offset + 1, bytes: state_bytes(image.epoch, image).into() }
}

fn state_bytes(first_epoch: i32, image: &MetadataImage) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i32(first_epoch);
    let mut bytes = writer.into_bytes().to_vec();
    bytes.extend(image_bytes(image));
    bytes
}

impl QuorumOfRaft {
    /// Makes the log of the first voter, with `image` to begin with, and takes part.
    ///
    /// # Errors
    /// There is one already, or what [`Self::start`] fails with; nothing of it is left then, if the
    /// disk allows.
    pub fn begin(
        options: RaftOptions,
        at: Endpoint,
        image: &MetadataImage,
    ) -> Result<Arc<Self>, QuorumError> {
        let (storage, quorum) = (Arc::clone(&options.storage), options.quorum.clone());
        let formed = Quorum::form(&storage, &quorum.dir, quorum.me, at, &first_state(image));
        let begun = formed.and_then(|()| Self::start(options));
        if let Err(error) = &begun
            && !matches!(error, QuorumError::Exists { .. })
        {
            // A snapshot that has its name would be in force at the next start, without what the
            // old log got since.
            clear(storage.as_ref(), &quorum.dir);
        }
        begun
    }

    /// Opens the log and takes part.
    ///
    /// # Errors
    /// The disk refuses, what is on it is damaged, or the system has no thread.
    pub fn start(options: RaftOptions) -> Result<Arc<Self>, QuorumError> {
        let RaftOptions { quorum: options, storage, publisher, transport, forward, runtime } =
            options;
        let first_epoch = Arc::new(AtomicI32::new(0));
        let machine = Machine::new(&first_epoch, &publisher);
        let quorum =
            Quorum::start(options.clone(), Arc::clone(&storage), machine, Arc::clone(&transport))?;
        let (quorum, is_over) = (RwLock::new(Arc::new(quorum)), AtomicBool::new(false));
        let shared = Shared {
            quorum,
            options,
            storage,
            transport,
            is_over,
            first_epoch,
            publisher,
            forward,
        };
        Ok(Arc::new(Self { shared: Arc::new(shared), runtime }))
    }

    /// Starts a voter again that stopped because its disk failed. It finds what it had. Not for a
    /// thread that runs futures.
    ///
    /// # Errors
    /// The disk still refuses.
    pub fn restart(&self) -> Result<(), QuorumError> {
        let shared = &self.shared;
        let before = shared.quorum();
        before.stop();
        if shared.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let machine = Machine::new(&shared.first_epoch, &shared.publisher);
        let (options, storage) = (shared.options.clone(), Arc::clone(&shared.storage));
        let quorum = Quorum::start(options, storage, machine, Arc::clone(&shared.transport))?;
        *shared.quorum.write() = Arc::new(quorum);
        if shared.is_over.load(Ordering::Acquire) {
            shared.quorum().stop();
        }
        Ok(())
    }

    /// How the quorum stands.
    pub fn raft_status(&self) -> Status {
        self.shared.quorum().status()
    }

    /// The epoch of the leader of `term`.
    pub fn epoch(&self, term: u64) -> i32 {
        epoch(&self.shared.first_epoch, term)
    }

    /// Answers a call of another voter. `done` is dropped uncalled if this one stops first.
    pub fn answer(&self, request: Bytes, done: impl FnOnce(Bytes) + Send + 'static) {
        self.shared.quorum().answer(request, done);
    }

    /// Begins one change of the membership.
    pub fn change(
        &self,
        change: MembershipChange,
        done: impl FnOnce(Result<(), QuorumError>) + Send + 'static,
    ) {
        self.shared.quorum().change(change, done);
    }

    /// Asks the voter `to` to lead in this one's place.
    pub fn transfer(
        &self,
        to: VoterId,
        done: impl FnOnce(Result<(), QuorumError>) + Send + 'static,
    ) {
        self.shared.quorum().transfer(to, done);
    }

    /// Tells `watcher` how the quorum stands, now and after changes.
    pub fn watch(&self, watcher: impl Fn(Status) + Send + Sync + 'static) {
        self.shared.quorum().watch(watcher);
    }

    /// The process of the quorum's leader is gone; with `stands` this voter asks for the lead.
    pub fn leader_is_gone(&self, leader: VoterId, stands: bool) {
        self.shared.quorum().leader_is_gone(leader, stands);
    }

    /// Takes records that another broker decided at offset `expected`, if this voter leads.
    pub fn accept(
        &self,
        expected: i64,
        batch: Bytes,
        done: impl FnOnce(Accepted) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        drop(self.runtime.spawn(async move { done(shared.accept(expected, batch).await) }));
    }
}

impl MetadataQuorum for QuorumOfRaft {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        let shared = Arc::clone(&self.shared);
        drop(self.runtime.spawn(async move {
            let outcome = shared.decided(proposal).await;
            done(settled_here(&shared.publisher, outcome, PATIENCE).await);
        }));
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn published(&self, _: &Arc<MetadataImage>) {}

    fn status(&self) -> QuorumStatus {
        let status = self.raft_status();
        let member = |one: &MemberStatus| QuorumMember {
            node_id: one.id.node_id,
            directory_id: one.id.directory_id,
            end: if one.id == status.me { status.end } else { one.end.unwrap_or(-1) },
            answered_ms_ago: if one.id == status.me { Some(0) } else { one.answered_ms_ago },
        };
        let members = |all: &[MemberStatus]| all.iter().map(member).collect();
        QuorumStatus {
            leader_id: status.leader.as_ref().map_or(-1, |(id, _)| id.node_id),
            leader_epoch: self.epoch(status.term),
            high_watermark: status.end,
            voters: members(&status.voters),
            observers: members(&status.learners),
        }
    }

    fn stop(&self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.quorum().stop();
    }
}

fn clear(disk: &dyn Storage, dir: &Path) {
    let left = disk.list(dir).unwrap_or_default();
    let removed = left.iter().try_for_each(|entry| disk.remove_file(&dir.join(&entry.name)));
    if let Err(error) = removed.and_then(|()| disk.sync_dir(dir)) {
        let hint = "delete this directory before the next start";
        tracing::error!(dir = %dir.display(), %error, hint, "a half-made quorum is left");
    }
}

fn epoch(first_epoch: &AtomicI32, term: u64) -> i32 {
    let term = i32::try_from(term).unwrap_or(i32::MAX);
    first_epoch.load(Ordering::Relaxed).saturating_add(term)
}

fn no_controller(reason: impl Into<String>) -> Outcome {
    Outcome::Rejected(MetadataError::NoController { reason: reason.into() })
}

fn unknown(reason: String) -> Outcome {
    Outcome::Unknown(MetadataError::NoController { reason })
}

impl Shared {
    /// The voter as it runs now.
    fn quorum(&self) -> Arc<Quorum> {
        Arc::clone(&self.quorum.read())
    }

    /// Looks for the leader until the proposal is decided, or for as long as a proposal may wait.
    async fn decided(&self, proposal: Proposal) -> Outcome {
        let Proposal { records, expected, level, timestamp_ms, term } = proposal;
        let base_offset = expected.saturating_add(1);
        let batch = RecordsBatch { base_offset, epoch: 0, timestamp_ms, records };
        let (count, bytes) = (batch.records.len() as u32, batch.encode(level));
        drop(batch);
        if let Some(term) = term {
            return self.as_leader(term, expected, count, bytes).await;
        }
        let until = Instant::now() + LEADER_WAIT;
        loop {
            let reason = match self.attempt(expected, count, bytes.clone()).await {
                Ok(outcome) => return outcome,
                Err(reason) => reason,
            };
            if Instant::now() >= until {
                return no_controller(reason);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The outcome of records that only the leader of `term` may propose, on this voter.
    async fn as_leader(&self, term: u64, expected: i64, count: u32, batch: Bytes) -> Outcome {
        let status = self.quorum().status();
        let leads = status.term == term && status.leader.is_some_and(|(id, _)| id == status.me);
        let outcome = if leads { self.lead(expected, count, batch).await } else { None };
        outcome.unwrap_or_else(|| no_controller(format!("this voter does not lead in term {term}")))
    }

    /// The outcome of the records; an error says why they never count.
    async fn attempt(&self, expected: i64, count: u32, batch: Bytes) -> Result<Outcome, String> {
        let status = self.quorum().status();
        if let Some(reason) = status.stopped {
            return Ok(no_controller(reason));
        }
        match status.leader {
            None => Err("no voter leads".to_owned()),
            Some((id, _)) if id == status.me => {
                self.lead(expected, count, batch).await.ok_or_else(|| "it led no more".to_owned())
            }
            Some((id, at)) => {
                let forwarded = tokio::select! {
                    forwarded = self.forward.forward(&at, expected, batch) => forwarded,
                    // It hangs, and another voter leads: it may have made the records count before.
                    () = self.leads_no_more(id) => {
                        return Ok(unknown(format!("{id} did not answer while it led")));
                    }
                };
                match forwarded {
                    // Records that count stand right behind those that they were decided upon.
                    Forwarded::Answered(Accepted::Outcome(Outcome::Committed(offset)))
                        if offset != expected.saturating_add(i64::from(count)) =>
                    {
                        Ok(unknown(format!("{id} committed {count} records up to {offset}")))
                    }
                    Forwarded::Answered(Accepted::Outcome(outcome)) => Ok(outcome),
                    Forwarded::Answered(Accepted::NotLeader) => Err(format!("{id} does not lead")),
                    Forwarded::Unreached(reason) => Err(reason),
                }
            }
        }
    }

    /// Waits until another voter leads, or none does.
    async fn leads_no_more(&self, id: VoterId) {
        while self.quorum().status().leader.is_some_and(|(leader, _)| leader == id) {
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Proposes on this voter; `None` if it does not lead, so that the records never count. A
    /// decision without records is confirmed: a leader that is cut off, or has just begun, may
    /// have decided on an old image.
    async fn lead(&self, expected: i64, records: u32, payload: Bytes) -> Option<Outcome> {
        let (told, heard) = oneshot::channel();
        let done = move |result| _ = told.send(result);
        match records {
            0 => self.quorum().confirm(expected, done),
            _ => self.quorum().propose(Payload { expected, records, payload }, done),
        }
        Some(match heard.await {
            Ok(Ok(offset)) => Outcome::Committed(offset),
            Ok(Err(QuorumError::Overtaken { expected, found })) => {
                Outcome::Rejected(MetadataError::Overtaken { expected, found })
            }
            Ok(Err(QuorumError::NotLeader { .. })) => return None,
            Ok(Err(error)) => Outcome::Unknown(error.into()),
            Err(_) => Outcome::Unknown(QuorumError::Stopped("it was stopped".to_owned()).into()),
        })
    }

    async fn accept(&self, expected: i64, bytes: Bytes) -> Accepted {
        let status = self.quorum().status();
        if status.leader.is_none_or(|(id, _)| id != status.me) {
            return Accepted::NotLeader;
        }
        let refused = |reason: String| {
            Accepted::Outcome(Outcome::Rejected(MetadataError::Refused { reason }))
        };
        if bytes.len() > MAX_BATCH_BYTES {
            return refused(format!("{} bytes of records", bytes.len()));
        }
        let image = self.publisher.image();
        if expected < image.offset {
            let error = MetadataError::Overtaken { expected, found: image.offset };
            return Accepted::Outcome(Outcome::Rejected(error));
        }
        if expected > image.offset {
            // Committed under another leader, and not yet here.
            return Accepted::NotLeader;
        }
        let batch = match RecordsBatch::decode(bytes.clone()) {
            Ok(batch) => batch,
            Err((offset, error)) => return refused(format!("record {offset}: {error:?}")),
        };
        let count = batch.records.len() as u32;
        // What does not fit would stop every voter.
        if let Err(error) = fitting(&image, batch.records) {
            return refused(error.to_string());
        }
        match self.lead(expected, count, bytes).await {
            Some(outcome) => Accepted::Outcome(outcome),
            None => Accepted::NotLeader,
        }
    }
}

/// What the committed records add up to.
struct Machine {
    image: Arc<MetadataImage>,
    first_epoch: Arc<AtomicI32>,
    publisher: Arc<Publisher>,
}

impl Machine {
    /// Nothing yet: the quorum tells what it has.
    fn new(first_epoch: &Arc<AtomicI32>, publisher: &Arc<Publisher>) -> Box<Self> {
        let (first_epoch, publisher) = (Arc::clone(first_epoch), Arc::clone(publisher));
        Box::new(Self { image: Arc::default(), first_epoch, publisher })
    }
}

impl StateMachine for Machine {
    fn apply(&mut self, committed: Committed) -> Result<(), String> {
        let Committed { base_offset, records, term, payload } = committed;
        let batch = RecordsBatch::decode(payload);
        let mut batch = batch.map_err(|(offset, error)| format!("record {offset}: {error:?}"))?;
        if batch.records.len() != records as usize {
            return Err(format!("{} records, not {records}", batch.records.len()));
        }
        batch.base_offset = base_offset;
        batch.epoch = epoch(&self.first_epoch, term);
        let image = self.image.with_batch(&batch).map_err(|error| error.to_string())?;
        self.image = Arc::new(image);
        self.publisher.committed(batch);
        Ok(())
    }

    fn snapshot(&self) -> MakeBytes {
        let (image, first_epoch) = (Arc::clone(&self.image), Arc::clone(&self.first_epoch));
        Box::new(move || state_bytes(first_epoch.load(Ordering::Relaxed), &image))
    }

    fn restore(&mut self, state: &State) -> Result<(), String> {
        let mut reader = Reader::new(state.bytes.clone());
        let first_epoch = reader.i32().map_err(|error| error.to_string())?;
        let image = image_of(state.end, state.bytes.slice(4..))?;
        self.first_epoch.store(first_epoch, Ordering::Relaxed);
        self.image = Arc::new(image);
        self.publisher.replace(Arc::clone(&self.image));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
