//! The larger faults: what dies, stands still, is cut off or moved, and when.

use super::{Client, Event, Host, MEMBERS, World};
use crate::broker::Broker;
use crate::faults::Fault;
use crate::message::Node;

impl World {
    /// Lets one fault happen, and decides when the next one does.
    pub(super) fn next_fault(&mut self) {
        if self.healed {
            return;
        }
        let pause_ms = self.chaos.between(20, 2 * self.faults.pause_ms);
        self.schedule.after(pause_ms, Event::Fault);
        let kinds = self.faults.large();
        // All are drawn in any case, so that the kinds disturb each other little.
        let broker = i32::try_from(self.chaos.between(1, self.hosts.len() as u64)).unwrap_or(1);
        let is_short = self.chaos.chance(300);
        let for_ms = self.chaos.between(5, if is_short { 40 } else { 700 });
        let how = self.chaos.word();
        let Some(kind) = self.chaos.pick(&kinds).copied() else { return };
        let text = || format!("fault: {kind:?}, broker {broker}, {for_ms} ms");
        let words = [30, kind as u64, u64::from(broker.unsigned_abs()), for_ms];
        self.trace.step(self.schedule.now_ms(), &words, text);
        match kind {
            Fault::Kill => self.crash(broker, for_ms, false),
            Fault::PowerCut => self.crash(broker, for_ms, true),
            Fault::Pause => {
                let until_ms = self.schedule.now_ms() + for_ms;
                self.paused_ms[Self::at(broker)] = until_ms;
            }
            Fault::Cut => self.cut(broker, how),
            Fault::ClockJump => {
                if let Some(process) = self.broker(broker) {
                    let by_ms = i64::try_from(how % 7_200_000).unwrap_or(0) - 3_600_000;
                    process.jump(by_ms);
                }
            }
            Fault::MoveLeader => {
                let partition = usize::try_from(how).unwrap_or(0) % (self.settings.partitions + 1);
                self.with_io(Node::Controller, |world, io| {
                    let how = usize::try_from(how >> 8).unwrap_or(0);
                    world.controller.move_leader(partition, how, io);
                });
            }
            Fault::ControllerRestart => {
                self.with_io(Node::Controller, |world, io| world.controller.restart(io));
            }
            Fault::Member => self.trouble_member(for_ms, how),
            Fault::Drop
            | Fault::Duplicate
            | Fault::Delay
            | Fault::Corrupt
            | Fault::Proposal
            | Fault::ClockDrift
            | Fault::Reassign => {}
        }
    }

    /// Some links of a broker fail, or links that failed work again.
    fn cut(&mut self, broker: i32, how: u64) {
        if how.is_multiple_of(3) {
            self.network.heal();
            return;
        }
        let me = Node::Broker(broker);
        let brokers = (1..=self.settings.brokers).map(Node::Broker);
        let clients = self.clients.iter().map(|(number, _)| Node::Client(*number));
        let others: Vec<Node> = brokers.chain(clients).chain([Node::Controller]).collect();
        for (bit, other) in others.into_iter().enumerate() {
            // All links, or a choice of them; in both directions, or in one.
            if how & 8 == 0 || how >> (16 + bit) & 1 == 1 {
                if how & 48 != 16 {
                    self.network.cut(me, other);
                }
                if how & 48 != 32 {
                    self.network.cut(other, me);
                }
            }
        }
    }

    fn trouble_member(&mut self, for_ms: u64, how: u64) {
        let number = MEMBERS + u32::try_from(how % 3).unwrap_or(0);
        let until_ms = self.schedule.now_ms() + for_ms;
        self.with_io(Node::Client(number), |world, io| {
            let Some(Client::Member(member)) = world.client(number) else { return };
            match how >> 8 & 3 {
                0 => member.die(),
                1 => member.leave(io),
                _ => member.pause(until_ms),
            }
        });
    }

    /// Whether a fault leaves a copy of every record that Kafka promises to keep. With
    /// `flush.messages` each does. Otherwise one broker at a time may lose what it did not flush.
    /// Meanwhile all others run, are in sync, and one alone is too few to commit. No other process
    /// dies before the broker is back. A restart after a kill counts as one that may have lost
    /// records.
    fn may_crash(&self, broker: i32, loses_power: bool) -> bool {
        if self.settings.flush_messages {
            return true;
        }
        if self.bereft.is_some() {
            return false;
        }
        let all_in_sync = |partition: usize| {
            let now = self.controller.partition(partition);
            now.is_some_and(|now| now.isr.len() == now.replicas.len() && now.isr.len() > 1)
        };
        let mut others = (1..=self.settings.brokers).filter(|id| *id != broker);
        let is_safe = self.settings.min_isr > 1
            && others.all(|id| self.controller.is_live(id) && self.broker(id).is_some())
            && !self.controller.is_about_to_move()
            && self.settings.all().all(all_in_sync);
        !loses_power || is_safe
    }

    fn crash(&mut self, broker: i32, for_ms: u64, loses_power: bool) {
        self.note_return();
        let at = Self::at(broker);
        if matches!(self.hosts[at], Host::Down(_)) || !self.may_crash(broker, loses_power) {
            return;
        }
        let host = std::mem::replace(&mut self.hosts[at], Host::Down(Vec::new()));
        if let Host::Up(process) = host {
            self.hosts[at] = Host::Down(process.crash(loses_power));
        }
        if loses_power && !self.settings.flush_messages {
            self.bereave(Some(broker));
        }
        self.incarnations[at] += 1;
        self.paused_ms[at] = 0;
        self.schedule.after(for_ms, Event::Restart(broker));
    }

    fn bereave(&mut self, broker: Option<i32>) {
        self.bereft = broker;
        self.controller.bereave(broker);
    }

    /// A broker that lost records counts again once it is in sync everywhere.
    fn note_return(&mut self) {
        let Some(broker) = self.bereft else { return };
        let Some(process) = self.broker(broker) else { return };
        let known = |partition: usize| {
            let now = self.controller.partition(partition);
            let replica = &process.replicas()[partition];
            now.is_some_and(|now| match now.replicas.contains(&broker) {
                true => replica.epoch() == now.leader_epoch && now.isr.contains(&broker),
                false => !replica.is_here(),
            })
        };
        if self.controller.is_live(broker) && self.settings.all().all(known) {
            self.bereave(None);
        }
    }

    pub(super) fn restart(&mut self, broker: i32) {
        let at = Self::at(broker);
        self.with_io(Node::Broker(broker), |world, io| {
            let Host::Down(disks) = &mut world.hosts[at] else { return };
            let disks = std::mem::take(disks);
            let incarnation = world.incarnations[at];
            let process = Broker::start(broker, incarnation, world.settings, disks, io);
            world.hosts[at] = Host::Up(Box::new(process));
        });
    }
}
