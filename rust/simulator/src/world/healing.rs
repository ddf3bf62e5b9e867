//! The end of a run: the faults stop, and the cluster has to come to rest.

use super::{CHAOS_MS, Client, Event, HEALING_MS, Host, Outcome, Work, World};
use crate::checker::history;
use crate::checker::logs::check_log;
use crate::controller::WORK_PARTITIONS;
use crate::message::Node;
use kafkalite_broker::metadata::PartitionImage;
use kafkalite_protocol::Offset;
use std::collections::BTreeSet;

/// How often is looked whether the cluster is at rest, ms.
const LOOK_MS: u64 = 60;

impl World {
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.faults.heal();
        self.network.heal();
        self.paused_ms.fill(0);
        for (_, client) in &mut self.clients {
            match client {
                Client::Producer(producer) => producer.stop(),
                Client::Admin(admin) => admin.stop(),
                Client::Reader(_) | Client::Member(_) => {}
            }
        }
        self.schedule.after(LOOK_MS, Event::Look);
    }

    /// Whether the run is over: the cluster is at rest, or should have been for long.
    pub(super) fn look(&mut self) -> bool {
        let missing = self.missing();
        let late = self.schedule.now_ms() > CHAOS_MS + HEALING_MS;
        match missing {
            None => true,
            Some(missing) if late => {
                self.checker.report("not-healed", missing);
                true
            }
            Some(_) => {
                self.schedule.after(LOOK_MS, Event::Look);
                false
            }
        }
    }

    /// What keeps the cluster from being at rest.
    fn missing(&self) -> Option<String> {
        for partition in self.settings.all() {
            if let Some(missing) = self.missing_of(partition) {
                return Some(format!("partition {partition}: {missing}"));
            }
        }
        for host in &self.hosts {
            let Host::Up(process) = host else { return Some("a broker is down".to_owned()) };
            if process.told() != self.controller.image().offset {
                return Some("a broker's image is old".to_owned());
            }
        }
        let mut owned = Vec::new();
        let mut generations = BTreeSet::new();
        for (number, client) in &self.clients {
            match client {
                Client::Producer(producer) if !producer.is_idle() => {
                    return Some(format!("producer {number} waits for an answer"));
                }
                Client::Reader(reader)
                    if Some(reader.position()) != self.readable_end(reader.partition()) =>
                {
                    return Some(format!("reader {number} stands at {}", reader.position().0));
                }
                Client::Member(member) => match member.settled() {
                    Some((generation, partitions)) => {
                        generations.insert(generation);
                        owned.extend(partitions);
                    }
                    None => return Some(format!("member {number} has no assignment")),
                },
                _ => {}
            }
        }
        owned.sort_unstable();
        let all: Vec<i32> = (0..WORK_PARTITIONS).collect();
        let settled = generations.len() == 1 && owned == all;
        (!settled).then(|| format!("the group has {owned:?} in {generations:?}"))
    }

    fn readable_end(&self, partition: usize) -> Option<Offset> {
        let leader = self.controller.partition(partition)?.leader;
        let replica = self.broker(leader.max(1))?.replicas().get(partition)?;
        Some(replica.high_watermark())
    }

    fn missing_of(&self, partition: usize) -> Option<String> {
        let Some(now) = self.controller.partition(partition) else {
            return Some("it is gone".to_owned());
        };
        if now.is_moving() {
            let PartitionImage { replicas, adding_replicas, removing_replicas, isr, .. } = &now;
            return Some(format!(
                "{replicas:?} has {adding_replicas:?} added and {removing_replicas:?} removed, in \
                 sync {isr:?}"
            ));
        }
        if now.leader == -1 || now.isr.len() < now.replicas.len() {
            return Some(format!("leader {}, in sync {:?}", now.leader, now.isr));
        }
        let mut ends = BTreeSet::new();
        for (broker, host) in (1..).zip(&self.hosts) {
            let Host::Up(process) = host else { return Some("a broker is down".to_owned()) };
            let replica = &process.replicas()[partition];
            if replica.is_here() != now.replicas.contains(&broker) {
                return Some(format!("broker {broker} has or lacks a replica"));
            }
            if replica.is_here() {
                ends.insert(replica.log().end());
            }
        }
        let group = partition == self.settings.group_partition();
        // The members of the group go on committing.
        let differs = ends.len() > 1 || self.readable_end(partition) != ends.first().copied();
        (!group && differs).then(|| format!("the logs end at {ends:?}"))
    }

    /// The last look at everything.
    pub(super) fn close(mut self, at_rest: bool) -> Outcome {
        let is_clean = self.checker.is_clean();
        self.with_io(Node::Controller, |world, io| {
            for (_, client) in &mut world.clients {
                if let Client::Producer(producer) = client {
                    producer.close(io);
                }
            }
        });
        self.checker.history.drained = at_rest && is_clean;
        for partition in self.settings.all() {
            let checker = &mut self.checker;
            let retained_to = checker.logs.retained_to(partition).0;
            checker.history.retained_to.insert(partition, retained_to);
            let forgotten_to = checker.logs.restarted_to(partition).0;
            checker.history.forgotten_to.insert(partition, forgotten_to);
        }
        let mut violations = self.checker.found();
        if !at_rest && is_clean {
            let told = format!("{} steps", self.trace.steps());
            violations.push(crate::checker::Violation::new("not-healed", told));
        }
        violations.extend(history::check(&self.checker.history));
        for host in &self.hosts {
            let Host::Up(process) = host else { continue };
            for replica in process.replicas() {
                let log = replica.log();
                violations.extend(check_log(log.base(), log.batches()));
            }
            if at_rest && is_clean && process.image().topics != self.controller.image().topics {
                let told = "a broker's image is not the controller's".to_owned();
                violations.push(crate::checker::Violation::new("image-differs", told));
            }
        }
        let work = Work {
            polls: self.checker.history.polls.len() as u64,
            commits: self.checker.groups.acknowledged,
            changes: self.checker.topics.acknowledged,
            moves: self.checker.topics.moves,
        };
        Outcome {
            violations,
            steps: self.trace.steps(),
            hash: self.trace.hash(),
            faults: self.faults.enabled().to_vec(),
            work,
            lines: self.trace.into_lines(),
        }
    }
}
