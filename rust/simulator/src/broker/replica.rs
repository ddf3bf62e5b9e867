//! One partition on one simulated broker: production's `PartitionState` beside a log in memory.
//!
//! The state knows leader, epochs, high watermark, and which replicas are in sync or should be. Who
//! waits for an append is a plain model here.

use super::leading::Proposal;
use crate::checker::logs::View;
use crate::controller::DIRECTORY;
use crate::io::{Io, Settings};
use crate::log::MemoryLog;
use crate::message::Node;
use crate::planted::Planted;
use kafkalite_broker::metadata::PartitionImage;
use kafkalite_broker::partitions::{CommitStatus, FollowerFetch, PartitionState};
use kafkalite_log::{LogConfig, LogEnd, Role};
use kafkalite_protocol::{LeaderEpoch, Offset};
use std::collections::BTreeMap;

/// A producer's append that waits for the high watermark.
pub struct Waiting {
    /// Where it begins.
    pub base: Offset,
    /// Where it ends.
    pub end: Offset,
    /// The epoch in which it was appended.
    pub epoch: LeaderEpoch,
    /// The number of its timer.
    pub timer: u64,
    /// The client.
    pub client: Node,
    /// Its request.
    pub id: u64,
}

/// One partition on one broker.
pub struct Replica {
    pub(super) me: i32,
    /// Whether this broker has a replica; without one the rest stands empty.
    is_here: bool,
    /// How often that changed in this process.
    stay: u32,
    pub(super) partition: usize,
    pub(super) settings: Settings,
    pub(super) log: MemoryLog,
    pub(super) state: PartitionState,
    pub(super) image: Option<PartitionImage>,
    /// The high watermark as it is on the disk.
    checkpoint: Offset,
    pub(super) proposal: Option<Proposal>,
    /// The last fetch of each follower.
    pub(super) last_fetches: BTreeMap<i32, FollowerFetch>,
    pub(super) waiting: Vec<Waiting>,
}

impl Replica {
    /// A replica whose log is on the disk of broker `me`.
    #[must_use]
    pub fn open(me: i32, partition: usize, settings: Settings, disk: Disk) -> Self {
        let Disk { is_here, mut log, checkpoint } = disk;
        let mut end = log.reopen();
        if !is_here {
            end = log.take_role(Role::Gone);
        }
        let checkpoint = checkpoint.min(end.offset).max(log.start());
        let mut state = PartitionState::new(me, DIRECTORY, end, checkpoint);
        state.set_rules(settings.flush_messages, settings.min_isr);
        Self {
            me,
            is_here,
            stay: 0,
            partition,
            settings,
            state,
            log,
            image: None,
            checkpoint,
            proposal: None,
            last_fetches: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// What a crash leaves; with `loses_power` without what was not flushed.
    #[must_use]
    pub fn crash(self, loses_power: bool) -> Disk {
        let Self { is_here, mut log, checkpoint, .. } = self;
        if loses_power {
            log.lose_power();
        }
        Disk { is_here, log, checkpoint }
    }

    /// Whether this broker has a replica of the partition.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.is_here
    }

    /// Which of the broker's replicas of the partition this is, one after another.
    #[must_use]
    pub fn stay(&self) -> u32 {
        self.stay
    }

    /// Whether the metadata do not name its log directory, as far as this broker knows.
    #[must_use]
    pub fn waits_for_note(&self) -> bool {
        self.is_here && self.image.is_some() && self.state.unassigned_directory().is_some()
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &MemoryLog {
        &self.log
    }

    /// What readers may see the end of.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.state.high_watermark()
    }

    /// Whether this broker leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.state.is_leader()
    }

    /// The leader epoch it knows.
    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.state.leader_epoch()
    }

    /// The replica for the checker.
    #[must_use]
    pub fn view(&self, incarnation: u32) -> View<'_> {
        View {
            broker: self.me,
            incarnation,
            stay: self.stay,
            partition: self.partition,
            epoch: self.epoch(),
            leads: self.leads(),
            high_watermark: self.high_watermark(),
            log: &self.log,
        }
    }

    /// Follows the control plane: the log takes its role before the state does. Whether this broker
    /// began to lead, or ceased to.
    pub fn follow(&mut self, image: &PartitionImage, io: &Io<'_>) -> bool {
        let newest = self.image.as_ref().map_or(-1, |known| known.partition_epoch);
        if image.partition_epoch <= newest {
            return false;
        }
        let led = self.leads().then(|| self.epoch());
        let is_replica = image.replicas.contains(&self.me);
        if is_replica != self.is_here {
            self.begin_again(is_replica);
        }
        if !is_replica {
            self.image = Some(image.clone());
            return led.is_some();
        }
        let role = self.state.new_role(image);
        let log_end = role.map(|role| self.log.take_role(role));
        if io.has(Planted::HighWatermarkMovesBelowMin) {
            self.state.set_rules(self.settings.flush_messages, 1);
        }
        self.state.follow_image(image, log_end);
        // A newer partition epoch shows the outcome of the proposal.
        self.proposal = None;
        self.image = Some(image.clone());
        led != self.leads().then(|| self.epoch())
    }

    /// A replica that leaves deletes its log, and one that comes begins with an empty one. Those
    /// that wait find another replica, which never led what they wait for.
    fn begin_again(&mut self, is_here: bool) {
        let disk = Disk { is_here, ..Disk::default() };
        let next = Self::open(self.me, self.partition, self.settings, disk);
        let before = std::mem::replace(self, next);
        (self.stay, self.waiting) = (before.stay + 1, before.waiting);
    }

    /// Tells the state where the log ended after an append.
    pub fn report(&mut self, end: LogEnd) {
        self.state.log_ended(end);
    }

    /// Cuts the log back to `offset`.
    pub fn truncate_to(&mut self, offset: Offset) {
        let end = self.log.truncate_to(offset);
        self.state.log_ended(end);
        self.checkpoint = self.checkpoint.min(end.offset);
    }

    /// Puts what is not there yet on the disk, before a follower says that it holds it.
    pub fn make_durable(&mut self) {
        if self.log.log_end().durable < self.log.end() {
            let durable = self.log.flush();
            self.state.flushed(durable);
        }
    }

    /// Puts the log on the disk.
    pub fn flush(&mut self) {
        let durable = self.log.flush();
        self.state.flushed(durable);
    }

    /// Puts the high watermark on the disk.
    pub fn note_high_watermark(&mut self) {
        self.checkpoint = self.high_watermark();
    }

    /// Puts the log's start on the disk.
    pub fn note_log_start(&mut self) {
        self.log.note_start();
    }

    /// As [`Self::note_high_watermark`], but notes where the log ends: only a planted bug does.
    pub fn note_log_end(&mut self) {
        self.checkpoint = self.log.end();
    }

    /// Deletes what retention lets go. The group's log has none.
    pub fn retain(&mut self, incarnation: u32, now_ms: i64, io: &mut Io<'_>) {
        let retention_ms = self.settings.retention_ms;
        if retention_ms < 0 || self.partition == self.settings.group_partition() {
            return;
        }
        let believed = match io.has(Planted::RetentionByAnotherPolicy) {
            true => retention_ms / 2,
            false => retention_ms,
        };
        let config =
            LogConfig { retention_ms: believed, retention_bytes: -1, ..LogConfig::default() };
        let high_watermark = match io.has(Planted::RetentionPassesHighWatermark) {
            true => self.log.end(),
            false => self.high_watermark(),
        };
        let gone = self.log.retain(&config, now_ms, high_watermark);
        io.checker.logs.retained(&self.view(incarnation), &gone, now_ms, retention_ms);
    }

    /// The leader's log starts at `start`: what is before it and committed goes here as well.
    pub fn follow_log_start(&mut self, start: Offset) {
        self.log.delete_below(start.min(self.high_watermark()));
    }

    /// Drops every record, as the leader's log begins behind them all.
    pub fn restart_at(&mut self, start: Offset) {
        let end = self.log.restart(start);
        self.state.log_restarted(end);
        self.checkpoint = start;
    }

    /// Takes those out who need not wait any longer, each with how its append stands.
    pub fn settle(&mut self, io: &Io<'_>) -> Vec<(Waiting, CommitStatus)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut settled = Vec::new();
        let mut waiting = Vec::new();
        for one in std::mem::take(&mut self.waiting) {
            let forgets_epoch = io.has(Planted::CommitAcrossEpochs);
            let status = match self.state.commit_status(one.end, one.epoch) {
                CommitStatus::Lost(_) if forgets_epoch => match self.high_watermark() >= one.end {
                    true => CommitStatus::Committed,
                    false => CommitStatus::Pending,
                },
                status => status,
            };
            match status {
                CommitStatus::Pending => waiting.push(one),
                status => settled.push((one, status)),
            }
        }
        self.waiting = waiting;
        settled
    }
}

/// What is left of a replica when its broker is down.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Whether there is a replica.
    pub is_here: bool,
    /// The log.
    pub log: MemoryLog,
    /// The high watermark of the last checkpoint.
    pub checkpoint: Offset,
}
