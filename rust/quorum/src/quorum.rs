//! The quorum as the broker sees it: a thread, and calls that never wait.

use crate::disk::Disk;
use crate::error::QuorumError;
use crate::member::{self, Limits, Member, MemberOptions, Status, Timing};
use crate::membership::MembershipChange;
use crate::network::Transport;
use crate::state_machine::StateMachine;
use crate::types::{Endpoint, Proposal, State, TokioTypes, VoterId};
use bytes::Bytes;
use kafkalite_log::storage::Storage;
use parking_lot::Mutex;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Between two calls of a voter that the others look for elsewhere.
const SAY_WHERE: Duration = Duration::from_secs(1);

/// Who a voter is, and where it keeps its log.
#[derive(Clone, Debug)]
pub struct QuorumOptions {
    /// The cluster's id.
    pub cluster_id: String,
    /// This voter.
    pub me: VoterId,
    /// Where the others reach it.
    pub at: Endpoint,
    /// The directory of its log; made if it is missing.
    pub dir: PathBuf,
    /// How long elections and heartbeats take.
    pub timing: Timing,
}

/// A voter or a learner that runs, until it is stopped or dropped.
pub struct Quorum {
    member: Arc<Member<TokioTypes>>,
    runtime: Handle,
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Quorum {
    /// Makes the log of the first voter of a cluster in `dir`, with `state` to begin with. Every
    /// other voter begins with an empty directory, and learns.
    ///
    /// # Errors
    /// The directory has a log already, or the disk refuses.
    pub fn form(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        me: VoterId,
        at: Endpoint,
        state: &State,
    ) -> Result<(), QuorumError> {
        make_dir(storage.as_ref(), dir)?;
        member::form(storage, dir, (me, at), state)
    }

    /// Opens the log and takes part.
    ///
    /// # Errors
    /// The disk refuses, what is on it is damaged, or the system has no thread.
    pub fn start(
        options: QuorumOptions,
        storage: Arc<dyn Storage>,
        machine: Box<dyn StateMachine>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, QuorumError> {
        let QuorumOptions { cluster_id, me, at, dir, timing } = options;
        make_dir(storage.as_ref(), &dir)?;
        let no_thread = |path: &Path| {
            let (action, path) = ("start the threads of", path.to_owned());
            move |source: io::Error| QuorumError::Io { action, path, source }
        };
        let disk = Disk::on_thread("quorum-disk").map_err(no_thread(&dir))?;
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(no_thread(&dir))?;
        let (cluster_id, limits) = (cluster_id.into(), Limits::default());
        let options = MemberOptions { cluster_id, me, dir: dir.clone(), timing, limits };
        let member = Member::open(options, storage, disk, machine, transport);
        let member = Arc::new(runtime.block_on(member)?);
        let (stop, stopped) = oneshot::channel();
        let (handle, inside) = (runtime.handle().clone(), Arc::clone(&member));
        let moving = Arc::clone(&member);
        let run = move || {
            drop(runtime.spawn(say_where(moving, at)));
            runtime.block_on(async {
                // An error says that the quorum was dropped.
                let _ = stopped.await;
                inside.stop().await;
            });
        };
        let thread = std::thread::Builder::new().name("quorum".to_owned()).spawn(run);
        let thread = thread.map_err(no_thread(&dir))?;
        let running = Mutex::new(Some(Running { stop, thread }));
        Ok(Self { member, runtime: handle, running })
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // What is spawned after the end is dropped, with the call that it would have made.
        drop(self.runtime.spawn(work));
    }

    /// Begins to make `proposal` count; `done` hears the offset of its last record. Never waits.
    /// After `Overtaken` and `NotLeader` the proposal never counts; after any other error it may.
    /// `done` is dropped uncalled if the quorum is stopped first.
    pub fn propose(
        &self,
        proposal: Proposal,
        done: impl FnOnce(Result<i64, QuorumError>) + Send + 'static,
    ) {
        let member = Arc::clone(&self.member);
        self.spawn(async move { done(member.propose(proposal).await) });
    }

    /// Asks whether `expected` is the offset of the last record that counts; `done` hears it again.
    /// Never waits. Any error but `Overtaken` says nothing about the records.
    pub fn confirm(
        &self,
        expected: i64,
        done: impl FnOnce(Result<i64, QuorumError>) + Send + 'static,
    ) {
        let member = Arc::clone(&self.member);
        self.spawn(async move { done(member.confirm(expected).await) });
    }

    /// Answers a call that another voter's [`Transport`] sent here.
    pub fn answer(&self, request: Bytes, done: impl FnOnce(Bytes) + Send + 'static) {
        let member = Arc::clone(&self.member);
        self.spawn(async move { done(member.answer(request).await) });
    }

    /// Begins one change of the membership.
    pub fn change(
        &self,
        change: MembershipChange,
        done: impl FnOnce(Result<(), QuorumError>) + Send + 'static,
    ) {
        let member = Arc::clone(&self.member);
        self.spawn(async move { done(member.change(change).await) });
    }

    /// Asks the voter `to` to lead in this one's place; [`Self::watch`] tells whether it does.
    pub fn transfer(
        &self,
        to: VoterId,
        done: impl FnOnce(Result<(), QuorumError>) + Send + 'static,
    ) {
        let member = Arc::clone(&self.member);
        self.spawn(async move { done(member.transfer(to).await) });
    }

    /// The process of `leader` is known to be gone. This voter waits for its heartbeats no longer,
    /// and with `stands` asks the others whether they would vote for it. Nothing happens if another
    /// voter leads by now.
    pub fn leader_is_gone(&self, leader: VoterId, stands: bool) {
        let member = Arc::clone(&self.member);
        self.spawn(async move {
            if let Err(error) = member.leader_is_gone(leader, stands).await {
                tracing::debug!(%error, "this voter does not stand for election");
            }
        });
    }

    /// How the quorum stands.
    pub fn status(&self) -> Status {
        self.member.status()
    }

    /// Tells `watcher` how the quorum stands, now and after changes, on the quorum's thread.
    pub fn watch(&self, watcher: impl Fn(Status) + Send + Sync + 'static) {
        let member = Arc::clone(&self.member);
        self.spawn(async move {
            let mut changes = member.changes();
            loop {
                watcher(member.status());
                if changes.next().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Ends the voter; what is being written is finished. Not for a call that the quorum makes.
    pub fn stop(&self) {
        let Some(Running { stop, thread }) = self.running.lock().take() else { return };
        // An error says that the thread is gone already.
        let _ = stop.send(());
        if thread.join().is_err() {
            tracing::error!("the quorum's thread panicked");
        }
    }
}

impl Drop for Quorum {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells the others where this voter is, for as long as they look for it elsewhere.
async fn say_where(member: Arc<Member<TokioTypes>>, at: Endpoint) {
    loop {
        tokio::time::sleep(SAY_WHERE).await;
        member.say_where(&at).await;
    }
}

fn make_dir(disk: &dyn Storage, dir: &Path) -> Result<(), QuorumError> {
    let path = dir.to_owned();
    let refused = |source| QuorumError::Io { action: "create", path, source };
    disk.create_dir(dir).map_err(refused)
}

#[cfg(test)]
mod tests;
