//! This broker among others: the quorum that it belongs to, and who is alive.
//!
//! A single broker has no company, and nothing here runs. When the first other one asks to join,
//! its metadata log becomes the first voter of a quorum, while it serves. From then on a thread
//! holds the connections to the other brokers, and every broker tells the leader that it is alive.
//! Source: the roles of Kafka's `BrokerLifecycleManager` and `BrokerHeartbeatManager`; the way in
//! is ours.

mod deaths;
mod duties;
pub mod figures;
pub mod join;
mod leaving;
mod member;
mod membership;
pub mod peers;
mod refusing;
mod registering;
mod sessions;
mod settings;
mod unclean;
mod upkeep;
mod voters;
mod watch;
mod way_back;

use crate::clock::Clock;
use crate::metadata::controller::{Done, Joined, Joining, OnAnswer};
use crate::metadata::metadata_log::delete_log;
use crate::metadata::quorum::{Accepted, RaftOptions};
use crate::metadata::{
    ApiError, Controller, MetadataError, MetadataImage, MetadataQuorum, QuorumOfRaft,
    SupportedFeatures,
};
use bytes::Bytes;
use duties::Duty;
use figures::Desk;
use join::is_nowhere;
use kafkalite_connection::CutLinks;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::broker_heartbeat::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse,
};
use kafkalite_quorum::{Endpoint, QuorumOptions, Status, Timing, VoterId};
use member::Member;
use parking_lot::Mutex;
use peers::Peers;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

pub use settings::ClusterSettings;
pub use voters::VoterRequest;

/// Between two looks of the leader at its cluster, at most.
const TURN: Duration = Duration::from_millis(250);
/// How long a stop waits until the cluster knows of it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The broker has no epoch: it does not serve.
const NO_EPOCH: i64 = -1;

/// Who this broker is to the others.
#[derive(Clone)]
pub struct Identity {
    /// The cluster's id.
    pub cluster_id: String,
    /// This broker, and the directory that holds its part of the quorum.
    pub voter: VoterId,
    /// Where the others reach it.
    pub at: Endpoint,
    /// The listener of brokers; empty for the first one.
    pub listener: String,
    /// `DATA_DIR/__cluster_metadata-0`.
    pub metadata_dir: PathBuf,
    /// The levels of features that it supports.
    pub supported: SupportedFeatures,
    /// Which of the others it cannot reach, if a test says so.
    pub links: Option<Arc<CutLinks>>,
}

impl Identity {
    /// Where the log of the quorum is.
    #[must_use]
    pub fn quorum_dir(&self) -> PathBuf {
        self.metadata_dir.join(QUORUM)
    }

    fn options(&self) -> QuorumOptions {
        QuorumOptions {
            cluster_id: self.cluster_id.clone(),
            me: self.voter,
            at: self.at.clone(),
            dir: self.quorum_dir(),
            timing: Timing::default(),
        }
    }
}

/// The directory of the quorum, in that of the metadata log.
pub const QUORUM: &str = "quorum";

/// This broker and its cluster.
pub struct Cluster {
    identity: Identity,
    controller: Arc<Controller>,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    settings: ClusterSettings,
    member: Mutex<Option<Arc<Member>>>,
    /// Held by the change from one broker to several.
    changing_over: Mutex<()>,
    /// The epoch in which this broker serves.
    epoch: AtomicI64,
    desk: Desk,
}

impl Cluster {
    /// A broker without company.
    pub fn alone(
        identity: Identity,
        controller: Arc<Controller>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        settings: ClusterSettings,
    ) -> Arc<Self> {
        let epoch = AtomicI64::new(NO_EPOCH);
        let (member, changing_over) = (Mutex::default(), Mutex::default());
        let desk = Desk::default();
        Arc::new(Self {
            identity,
            controller,
            storage,
            clock,
            settings,
            member,
            changing_over,
            epoch,
            desk,
        })
    }

    /// A broker of a cluster. It takes part in the quorum from now on; see [`Self::register`].
    ///
    /// # Errors
    /// The log of the quorum cannot be used, or the system has no thread.
    pub fn member(
        identity: Identity,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        settings: ClusterSettings,
    ) -> Result<Arc<Self>, MetadataError> {
        let peers = start_peers(&identity)?;
        let dir = identity.metadata_dir.clone();
        let (controller, raft) = Controller::member(&dir, clock.clone(), |publisher| {
            let options = raft_options(&identity, &storage, publisher, &peers);
            Ok(QuorumOfRaft::start(options)?)
        })?;
        let this = Self::alone(identity, Arc::new(controller), storage, clock, settings);
        this.run(Member::new(raft, peers, &this.settings));
        Ok(this)
    }

    /// The control plane of this broker.
    pub const fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// The levels of features that this broker supports.
    pub const fn supported(&self) -> &SupportedFeatures {
        &self.identity.supported
    }

    /// Whether the broker belongs to a quorum of several, or of one that may grow.
    pub fn has_company(&self) -> bool {
        self.member.lock().is_some()
    }

    fn running(&self) -> Option<Arc<Member>> {
        self.member.lock().clone()
    }

    fn run(self: &Arc<Self>, member: Arc<Member>) {
        let (this, runtime) = (Arc::downgrade(self), member.peers.runtime().clone());
        let told = Arc::downgrade(&member);
        self.controller.watch(Box::new(move |before, after| {
            if let Some(member) = told.upgrade().filter(|_| before.brokers != after.brokers) {
                member.looks.notify_one();
            }
        }));
        let (told, led) = (Arc::downgrade(&member), Mutex::new(None));
        // A new leader fences at once those that died with the former one.
        member.raft.watch(move |status| {
            let leader = status.leader.map(|(id, _)| id);
            if std::mem::replace(&mut *led.lock(), leader) != leader
                && let Some(member) = told.upgrade()
            {
                member.looks.notify_one();
            }
        });
        *self.member.lock() = Some(member);
        drop(runtime.spawn(turns(this)));
    }

    /// The broker serves in `epoch` from now on. The other brokers send it clients.
    pub fn serve(&self, epoch: i64) {
        self.epoch.store(epoch, Ordering::Release);
        if self.has_company() {
            self.fence_self(false, Done::new(|_| ()));
        }
    }

    fn fence_self(&self, fenced: bool, done: OnAnswer<()>) {
        let epoch = self.controller.image().brokers.get(&self.id()).map(|broker| broker.epoch);
        match epoch {
            Some(epoch) => self.controller.fence(self.id(), epoch, fenced, done),
            None => done.tell(Err(ErrorCode::BrokerIdNotRegistered.into())),
        }
    }

    const fn id(&self) -> i32 {
        self.identity.voter.node_id
    }

    /// Ends what runs; to be called after the controller was stopped.
    pub fn stop(&self) {
        // Not in one line: the thread that is waited for takes this lock too.
        let member = self.member.lock().take();
        if let Some(member) = member {
            member.peers.stop();
        }
    }

    /// Answers a call of a voter; `None` is for a broker without a quorum.
    pub fn answer(&self, request: Bytes, done: impl FnOnce(Option<Bytes>) + Send + 'static) {
        match self.running() {
            Some(member) => member.raft.answer(request, |answer| done(Some(answer))),
            None => done(None),
        }
    }

    /// Takes records that another broker decided.
    pub fn accept(
        &self,
        cluster_id: &str,
        expected: i64,
        batch: Bytes,
        done: impl FnOnce(Accepted) + Send + 'static,
    ) {
        let member = self.running().filter(|_| *cluster_id == *self.identity.cluster_id);
        match member {
            Some(member) => member.raft.accept(expected, batch, done),
            None => done(Accepted::NotLeader),
        }
    }

    /// A broker tells that it is alive.
    pub fn heartbeat(&self, request: &BrokerHeartbeatRequest) -> BrokerHeartbeatResponse {
        let refused = |error: ErrorCode| {
            let error_code = error.code();
            BrokerHeartbeatResponse { error_code, is_fenced: true, ..Default::default() }
        };
        let Some(member) = self.running() else { return refused(ErrorCode::NotController) };
        if !Member::leads(&member.raft.raft_status()) {
            return refused(ErrorCode::NotController);
        }
        let image = self.controller.image();
        let Some(broker) = image.brokers.get(&request.broker_id) else {
            return refused(ErrorCode::BrokerIdNotRegistered);
        };
        if broker.epoch != request.broker_epoch {
            return refused(ErrorCode::StaleBrokerEpoch);
        }
        member.sessions.lock().heard(broker.id, self.clock.monotonic_ns());
        BrokerHeartbeatResponse {
            is_caught_up: request.current_metadata_offset >= broker.epoch,
            is_fenced: broker.fenced,
            ..Default::default()
        }
    }

    /// Takes a broker into the cluster. The first one turns this broker into the first voter.
    pub fn join(self: &Arc<Self>, joining: Joining, done: OnAnswer<Joined>) {
        let known = match self.controller.may_join(&joining) {
            Ok(known) => known,
            Err(error) => return done.tell(Err(error)),
        };
        if self.has_company() {
            if let Some(joined) = known {
                // A broker that is not heard asks again and again: no change for each time.
                return done.tell(Ok(joined));
            }
            return self.controller.join(joining, done);
        }
        if is_nowhere(&self.identity.at) {
            let id = self.id();
            let message = format!("broker {id} has no address for other brokers: set --advertise");
            return done.tell(Err(ApiError::new(ErrorCode::InvalidRequest, message)));
        }
        let this = Arc::clone(self);
        let change_over = move || match this.change_over() {
            Ok(()) => this.controller.join(joining, done),
            Err(error) => done.tell(Err(error)),
        };
        let spawned = std::thread::Builder::new().name("change-over".to_owned()).spawn(change_over);
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread to take in a broker");
        }
    }

    /// Makes the metadata log of this broker the first voter's.
    fn change_over(self: &Arc<Self>) -> Result<(), ApiError> {
        let _one_at_a_time = self.changing_over.lock();
        if self.has_company() {
            return Ok(());
        }
        let peers = start_peers(&self.identity)?;
        let (identity, storage) = (self.identity.clone(), Arc::clone(&self.storage));
        let (raft_told, raft) = mpsc::sync_channel(1);
        let connected = Arc::clone(&peers);
        let start = move |image: &Arc<MetadataImage>, publisher: &Arc<_>| {
            let at = identity.at.clone();
            let options = raft_options(&identity, &storage, publisher, &connected);
            let raft = QuorumOfRaft::begin(options, at, image)?;
            if let Err(error) = delete_log(storage.as_ref(), &identity.metadata_dir) {
                tracing::warn!(%error, "the log of the single broker stays until the next start");
            }
            let _ = raft_told.send(Arc::clone(&raft));
            Ok(raft as Arc<dyn MetadataQuorum>)
        };
        let (told, heard) = mpsc::sync_channel(1);
        let told = Done::new(move |result| _ = told.send(result));
        self.controller.change_over(Box::new(start), told);
        let stopped = |_| ApiError::from(ErrorCode::UnknownServerError);
        heard.recv().map_err(stopped)??;
        let raft = raft.recv().map_err(stopped)?;
        tracing::info!("this broker is the first voter of a cluster");
        self.run(Member::new(raft, peers, &self.settings));
        Ok(())
    }

    /// What the leader does now and then.
    fn lead(&self, member: &Arc<Member>, status: &Status) {
        let (image, now_ns) = (self.controller.image(), self.clock.monotonic_ns());
        let (over, is_deaf) = {
            let mut sessions = member.sessions.lock();
            sessions.lead(status.term);
            sessions.heard(self.id(), now_ns);
            (sessions.over(&image, now_ns), sessions.is_deaf(self.id(), now_ns))
        };
        let heir = || membership::heir(&image, status);
        if let Some(voter) = (is_deaf && !over.is_empty()).then(heir).flatten() {
            tracing::warn!(%voter, "no heartbeat comes here, and voters answer: one is to lead");
            return member.take(membership::Step::HandOver(voter));
        }
        let epoch = member.raft.epoch(status.term);
        if (image.controller_id != self.id() || image.epoch < epoch)
            && let Some(done) = member.begins(status.term, Duty::BeginEpoch)
        {
            self.controller.begin_epoch(self.id(), epoch, Done::of_leader(status.term, done));
        }
        for (broker_id, epoch) in over {
            self.fence_other(member, status.term, (broker_id, epoch), "it sends no heartbeats");
        }
        self.look_for_unclean(member, &image, status.term);
        let times = (now_ns, self.clock.wall_ms());
        let away = member.watch.lock().look(&image, status, times);
        let listener = &self.identity.listener;
        if let Some(step) = membership::next_step(&image, status, listener, &away) {
            member.take(step);
        }
        self.look_after_partitions(member, status.term);
    }

    /// Fences another broker in this life, as the leader of `term`.
    fn fence_other(
        &self,
        member: &Arc<Member>,
        term: u64,
        (broker_id, epoch): (i32, i64),
        why: &str,
    ) {
        if let Some(done) = member.begins(term, Duty::Fence(broker_id, epoch)) {
            tracing::warn!(broker_id, why, "a broker is fenced");
            self.controller.fence(broker_id, epoch, true, Done::of_leader(term, done));
        }
    }

    /// The heartbeat that is due, and where to send it.
    fn heartbeat_due(
        &self,
        member: &Arc<Member>,
        status: &Status,
    ) -> Option<(Endpoint, BrokerHeartbeatRequest)> {
        let broker_epoch = self.epoch.load(Ordering::Acquire);
        let (leader, at) = status.leader.clone()?;
        let image = self.controller.image();
        let broker = image.brokers.get(&self.id()).filter(|_| broker_epoch != NO_EPOCH)?;
        // Looked at behind the image: a stop that fences this broker takes the epoch away first.
        if broker.fenced
            && broker.epoch == self.epoch.load(Ordering::Acquire)
            && let Some(done) = member.begins(status.term, Duty::Serve)
        {
            self.fence_self(false, Done::new(done));
        }
        let request = BrokerHeartbeatRequest {
            broker_id: self.id(),
            broker_epoch,
            current_metadata_offset: image.offset,
            want_fence: false,
            want_shut_down: false,
        };
        (leader != status.me).then_some((at, request))
    }
}

/// Runs a broker's turns until the broker is gone.
async fn turns(cluster: Weak<Cluster>) {
    let Some(settings) = cluster.upgrade().map(|this| this.settings) else { return };
    let (period, turns_per_beat) = settings.turns();
    let mut turn = 0_u32;
    let mut times = tokio::time::interval(period);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(member) = cluster.upgrade().and_then(|this| this.running()) else { return };
        let is_turn = tokio::select! {
            _ = times.tick() => true,
            () = member.looks.notified() => false,
        };
        let Some(this) = cluster.upgrade() else { return };
        let status = member.raft.raft_status();
        match Member::leads(&status) {
            true => this.lead(&member, &status),
            false => {
                member.sessions.lock().follow();
                member.watch.lock().follow();
                member.rounds.lock().follow();
            }
        }
        this.look_for_deaths(&member, &status);
        if !is_turn {
            continue;
        }
        member.mend(&status, this.clock.monotonic_ns());
        turn = turn.wrapping_add(1);
        if !turn.is_multiple_of(turns_per_beat) {
            continue;
        }
        if let Some((at, request)) = this.heartbeat_due(&member, &status) {
            this.tell_alive(&member, at, request);
        }
        this.look_for_the_way_back(&member, &status);
    }
}

fn start_peers(identity: &Identity) -> Result<Arc<Peers>, MetadataError> {
    let (node_id, links) = (identity.voter.node_id, identity.links.clone());
    let started = Peers::start(&identity.cluster_id, node_id, links);
    started.map_err(|source| MetadataError::Io {
        action: "start the threads of",
        path: identity.metadata_dir.clone(),
        source,
    })
}

fn raft_options(
    identity: &Identity,
    storage: &Arc<dyn Storage>,
    publisher: &Arc<crate::metadata::Publisher>,
    peers: &Arc<Peers>,
) -> RaftOptions {
    RaftOptions {
        quorum: identity.options(),
        storage: Arc::clone(storage),
        publisher: Arc::clone(publisher),
        transport: peers.clone(),
        forward: peers.clone(),
        runtime: peers.runtime().clone(),
    }
}
