//! One process of a simulated broker.
//!
//! Production's machines in it: `PartitionState`, `Fetcher`, `GroupCoordinator` with `GroupState`,
//! `Publisher` with `MetadataImage`, `Timer` over `TimingWheel`, `GroupCommit`, the log manager's
//! `Rounds`, the validation of batches. A plain model joins them: one event at a time comes in, and
//! what follows from it goes out.

mod coordinating;
mod following;
mod keeping;
mod leading;
mod publishing;
mod replica;
mod requests;

pub use coordinating::{GROUP, assigned_partitions};
pub use replica::{Disk, Replica};

use crate::io::{Io, Settings, Tick};
use crate::message::{Message, Node};
use crate::planted::Planted;
use bytes::Bytes;
use coordinating::{Coordination, Desk};
use following::Following;
use kafkalite_broker::clock::{Clock, ManualClock};
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_broker::partitions::{FlushAges, GroupCommit, Rounds};
use kafkalite_broker::purgatory::Timer;
use kafkalite_log::LogEnd;
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use parking_lot::Mutex;
use publishing::Metadata;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The wall time at which every run begins, ms since 1970.
pub const WALL_MS: i64 = 1_700_000_000_000;

/// An append that has waited for long enough.
#[derive(Clone, Copy, Debug)]
struct Expired {
    timer: u64,
    partition: usize,
    deadline_ms: u64,
}

/// A produce that was admitted by its leader's epoch and is not appended yet.
struct Admitted {
    client: Node,
    id: u64,
    partition: usize,
    batch: Bytes,
    acks_all: bool,
    epoch: LeaderEpoch,
}

/// A broker's process.
pub struct Broker {
    id: i32,
    incarnation: u32,
    settings: Settings,
    metadata: Metadata,
    /// Its broker epoch; `None` until it is registered.
    epoch: Option<i64>,
    replicas: Vec<Replica>,
    /// What follows each leader.
    following: BTreeMap<i32, Following>,
    timer: Arc<Timer>,
    /// When the next tick of the timer comes.
    timer_tick_ms: Option<u64>,
    next_timer: u64,
    expired: Arc<Mutex<Vec<Expired>>>,
    /// Who puts the logs on the disk that an acknowledgement waits for.
    committer: Arc<GroupCommit>,
    /// When each chore of the log manager is due.
    rounds: Rounds,
    flush_ages: FlushAges,
    started_ms: u64,
    clock: Arc<ManualClock>,
    clock_ms: u64,
    next_id: u64,
    admitted: BTreeMap<u64, Admitted>,
    desk: Arc<Desk>,
    coordination: Coordination,
    /// A tick goes on with its loads.
    is_loading: bool,
    /// Coordinators that do not hear that their epoch is over; only a planted bug keeps them.
    deposed: Vec<Coordination>,
}

impl Broker {
    /// Starts a process over the disks of its partitions.
    #[must_use]
    pub fn start(
        id: i32,
        incarnation: u32,
        settings: Settings,
        disks: Vec<Disk>,
        io: &mut Io<'_>,
    ) -> Self {
        let open = |(partition, disk)| Replica::open(id, partition, settings, disk);
        let clock = Arc::new(ManualClock::new(WALL_MS));
        // A log may have records that a kill left unflushed: as production does, all are named.
        let committer = GroupCommit::new();
        settings.all().for_each(|partition| committer.commit(partition as u64));
        let timer_clock: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        io.after(0, Tick::Heartbeat);
        io.after(30, Tick::Replicas);
        io.after(0, Tick::Chores);
        if settings.flush_messages {
            io.after(50, Tick::Flush);
        }
        io.after(1, Tick::Follow);
        let metadata = Metadata::new();
        let desk = Desk::new(io.planted, metadata.publisher());
        let timer = Timer::without_thread(timer_clock);
        let coordination = Coordination::new(&desk, Arc::clone(&clock), Arc::clone(&timer));
        Self {
            id,
            incarnation,
            settings,
            metadata,
            epoch: None,
            replicas: disks.into_iter().enumerate().map(open).collect(),
            following: BTreeMap::new(),
            timer,
            timer_tick_ms: None,
            next_timer: 0,
            expired: Arc::default(),
            committer,
            rounds: keeping::rounds(io.now_ms),
            flush_ages: FlushAges::default(),
            started_ms: io.now_ms,
            clock,
            clock_ms: io.now_ms,
            next_id: 0,
            admitted: BTreeMap::new(),
            desk,
            coordination,
            is_loading: false,
            deposed: Vec::new(),
        }
    }

    /// The process ends at once; what is on its disks remains.
    #[must_use]
    pub fn crash(self, loses_power: bool) -> Vec<Disk> {
        self.replicas.into_iter().map(|replica| replica.crash(loses_power)).collect()
    }

    /// Which process of its broker this is.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Its replicas, by partition.
    #[must_use]
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// What it knows of the cluster.
    #[must_use]
    pub fn image(&self) -> Arc<MetadataImage> {
        self.metadata.publisher().image()
    }

    /// The last record of the metadata that replicas and coordinator have followed.
    #[must_use]
    pub fn told(&self) -> i64 {
        self.metadata.told()
    }

    /// Sets its wall clock; monotonic time goes on.
    pub fn jump(&self, by_ms: i64) {
        self.clock.set_wall_ms(self.clock.wall_ms() + by_ms);
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn keep_time(&mut self, now_ms: u64) {
        self.clock.advance_ms(now_ms - self.clock_ms);
        self.clock_ms = now_ms;
    }

    /// A message came in.
    pub fn receive(&mut self, from: Node, id: u64, message: Message, io: &mut Io<'_>) {
        self.keep_time(io.now_ms);
        match message {
            Message::Registered(epoch) => {
                self.epoch = self.epoch.or(Some(epoch));
                self.send_heartbeat(io);
            }
            Message::Metadata(batches) => self.take_metadata(&batches, io),
            Message::Altered(partition, answer) => self.altered(partition, id, answer),
            message => self.serve(from, id, message, io),
        }
        self.settle(io);
    }

    /// A tick came.
    pub fn tick(&mut self, tick: Tick, io: &mut Io<'_>) {
        self.keep_time(io.now_ms);
        match tick {
            Tick::Heartbeat => {
                self.send_heartbeat(io);
                let pause = io.rng.between(25, 45);
                io.after(pause, Tick::Heartbeat);
            }
            Tick::Follow => {
                self.ask_leaders(io);
                let pause = io.rng.between(4, 10);
                io.after(pause, Tick::Follow);
            }
            Tick::Replicas => {
                self.propose(io);
                self.assign_replicas(io);
                let pause = io.rng.between(30, 60);
                io.after(pause, Tick::Replicas);
            }
            Tick::Flush => {
                let replicas = &mut self.replicas;
                self.committer.turn(|partition: u64| {
                    let at = usize::try_from(partition).unwrap_or(0);
                    replicas.get_mut(at).into_iter().for_each(Replica::flush);
                });
            }
            Tick::Chores => self.keep_logs(io),
            // Settling turns the timer.
            Tick::Timer => self.timer_tick_ms = None,
            Tick::Append(number) => self.append(number, io),
            Tick::Report { partition, stay, .. } if self.replicas[partition].stay() != stay => {}
            Tick::Report { partition, end, .. } => {
                let replica = &mut self.replicas[partition];
                let version = match io.has(Planted::LateAppendUndoesTruncation) {
                    true => replica.log.log_end().version,
                    false => end.version,
                };
                replica.report(LogEnd { version, ..end });
            }
            Tick::Load => self.load(io),
            Tick::Publish => self.publish(io),
            Tick::Tell => {
                self.tell(io);
                self.publish(io);
            }
            Tick::Proposal(_) | Tick::Sessions | Tick::Client => {}
        }
        self.settle(io);
    }

    /// Registers, or says that this broker lives and how much of the metadata it has.
    fn send_heartbeat(&mut self, io: &mut Io<'_>) {
        let id = self.new_id();
        let offset = self.metadata.told();
        let message = match self.epoch {
            None => Message::Register,
            Some(epoch) => Message::Heartbeat { epoch, offset },
        };
        io.send(Node::Controller, id, message);
    }

    fn follow(
        &mut self,
        partition: usize,
        image: &kafkalite_broker::metadata::PartitionImage,
        io: &mut Io<'_>,
    ) {
        let stay = self.replicas[partition].stay();
        let changed = self.replicas[partition].follow(image, io);
        if partition == self.settings.group_partition() && self.replicas[partition].stay() != stay {
            self.desk.forget_log();
        }
        self.follow_leader(partition);
        if changed && partition == self.settings.group_partition() {
            self.change_coordinator(io);
        }
    }

    /// Runs `act` while the coordinator has the replica of the group's partition, the last one.
    fn lend<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        self.desk.put(self.replicas.pop());
        let result = act(self);
        self.replicas.extend(self.desk.take());
        result
    }

    /// The group's partition changed hands: the coordinator loads or unloads it.
    fn change_coordinator(&mut self, io: &mut Io<'_>) {
        if io.has(Planted::CommitAnsweredByDeposedCoordinator) {
            let (clock, timer) = (Arc::clone(&self.clock), Arc::clone(&self.timer));
            let next = Coordination::new(&self.desk, clock, timer);
            self.deposed.push(std::mem::replace(&mut self.coordination, next));
        }
        self.lend(|me| me.coordination.follow());
        self.load_later(io);
    }

    fn load_later(&mut self, io: &mut Io<'_>) {
        if self.desk.has_loads() && !std::mem::replace(&mut self.is_loading, true) {
            let pause = io.rng.between(0, 8);
            io.after(pause, Tick::Load);
        }
    }

    /// Reads the group's records on. The runtime serves the group once everything that was read is
    /// committed: a record that is read and lost again would let one generation have two
    /// assignments.
    fn load(&mut self, io: &mut Io<'_>) {
        self.is_loading = false;
        if let Some(mut load) = self.desk.take_load()
            && self.lend(|_| load())
        {
            self.desk.put_load_back(load);
        }
        if self.desk.has_loads() {
            return self.load_later(io);
        }
        let leads = self.replicas[self.settings.group_partition()].leads();
        if leads && !self.coordination.coordinates() {
            io.checker.report("cannot-load", "the group's partition".to_owned());
        }
    }

    /// The outcome of a proposal.
    fn altered(&mut self, partition: usize, id: u64, answer: Result<(), ErrorCode>) {
        let replica = &mut self.replicas[partition];
        if replica.proposal.as_ref().is_none_or(|proposal| proposal.id != id) {
            return;
        }
        // Anything else was taken, now or before, or was overtaken: the next image says so.
        if let Err(ErrorCode::IneligibleReplica | ErrorCode::InvalidRequest) = answer {
            replica.refused();
        }
    }

    fn propose(&mut self, io: &mut Io<'_>) {
        let Some(epoch) = self.epoch else { return };
        for partition in self.settings.all() {
            let id = self.new_id();
            if let Some(alter) = self.replicas[partition].propose(id, epoch, io) {
                io.send(Node::Controller, id, Message::AlterPartition(alter));
            }
        }
    }

    /// Has the controller note the log directory of replicas that it does not name.
    fn assign_replicas(&mut self, io: &mut Io<'_>) {
        let waits = |partition: &usize| self.replicas[*partition].waits_for_note();
        let waiting: Vec<usize> = self.settings.all().filter(waits).collect();
        if self.epoch.is_some() && !waiting.is_empty() {
            let id = self.new_id();
            io.send(Node::Controller, id, Message::AssignReplicas(waiting));
        }
    }
}
