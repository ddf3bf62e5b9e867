//! What runs in a broker that has company.

use super::duties::Duties;
use super::membership::Step;
use super::peers::Peers;
use super::refusing::RefusingBrokers;
use super::sessions::Sessions;
use super::settings::ClusterSettings;
use super::upkeep::Rounds;
use super::watch::{Restarts, Watch};
use super::way_back::Silence;
use crate::metadata::QuorumOfRaft;
use kafkalite_quorum::{QuorumError, Status};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tokio::sync::Notify;

/// The quorum, the connections, and what a leader notes.
pub(super) struct Member {
    pub raft: Arc<QuorumOfRaft>,
    pub peers: Arc<Peers>,
    pub sessions: Mutex<Sessions>,
    pub watch: Mutex<Watch>,
    pub rounds: Mutex<Rounds>,
    pub silence: Mutex<Silence>,
    pub duties: Duties,
    restarts: Mutex<Restarts>,
    /// Whether a change of the membership is under way.
    changing: AtomicBool,
    /// Whether the voter is being started again.
    restarting: AtomicBool,
    /// Brokers came or went, another voter leads, or a change ended: the next look does not wait
    /// for its turn.
    pub looks: Notify,
    /// The offset of the last image in which no unclean election was due.
    pub clean_until: AtomicI64,
    /// Brokers whose end a task waits for.
    pub watched: Mutex<BTreeSet<i32>>,
    /// Those of them whose ports refuse connections.
    pub refusing: Mutex<RefusingBrokers>,
}

impl Member {
    /// Nothing is known of the others yet.
    pub fn new(
        raft: Arc<QuorumOfRaft>,
        peers: Arc<Peers>,
        settings: &ClusterSettings,
    ) -> Arc<Self> {
        Arc::new(Self {
            raft,
            peers,
            sessions: Mutex::new(Sessions::new(settings.limits())),
            watch: Mutex::default(),
            rounds: Mutex::default(),
            silence: Mutex::default(),
            duties: Duties::default(),
            restarts: Mutex::default(),
            changing: AtomicBool::new(false),
            restarting: AtomicBool::new(false),
            looks: Notify::new(),
            clean_until: AtomicI64::new(-1),
            watched: Mutex::default(),
            refusing: Mutex::default(),
        })
    }

    /// Starts a voter again that stopped for its disk.
    pub fn mend(self: &Arc<Self>, status: &Status, now_ns: u64) {
        let is_due = self.restarts.lock().due(status.stopped.is_some(), now_ns);
        if !is_due || self.restarting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (this, why) = (Arc::clone(self), status.stopped.clone());
        let restart = move || {
            match this.raft.restart() {
                Ok(()) => tracing::warn!(?why, "the quorum had stopped here, and runs again"),
                Err(error) => tracing::error!(%error, "the quorum does not start here"),
            }
            // A change that was under way has no answer any more.
            this.changing.store(false, Ordering::Release);
            this.restarting.store(false, Ordering::Release);
        };
        let spawned = std::thread::Builder::new().name("quorum-restart".to_owned()).spawn(restart);
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread to start the quorum again");
            self.restarting.store(false, Ordering::Release);
        }
    }

    /// Takes one step of the leader.
    pub fn take(self: &Arc<Self>, step: Step) {
        if self.changing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (this, told) = (Arc::clone(self), format!("{step:?}"));
        // A lead that is handed on ends a little later.
        let is_change = matches!(step, Step::Change(_));
        let done = move |result: Result<(), QuorumError>| {
            let is_done = is_change && result.is_ok();
            match result {
                Ok(()) => tracing::info!(change = told, "the quorum has changed"),
                // A learner is not far enough yet, or a change before this one is not committed.
                Err(error) => tracing::debug!(change = told, %error, "the quorum did not change"),
            }
            this.changing.store(false, Ordering::Release);
            if is_done {
                this.looks.notify_one();
            }
        };
        match step {
            Step::Change(change) => self.raft.change(change, done),
            Step::HandOver(to) => self.raft.transfer(to, done),
        }
    }

    /// Whether this broker leads the quorum.
    pub fn leads(status: &Status) -> bool {
        status.leader.as_ref().is_some_and(|(id, _)| *id == status.me)
    }
}
