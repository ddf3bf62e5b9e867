//! Starts, ends and misfortunes of brokers, and the decisions of the controller about them.

use super::clients::{Client, DATA};
use super::faults::Fault;
use super::host::Host;
use super::planted::Planted;
use super::quorum::Proposed;
use super::world::{CHAOS_MS, Event, World, watched};
use crate::checker::Violation;
use crate::faulty_storage;
use kafkalite_broker::metadata::controller::{OFFSETS_TOPIC, fence};
use kafkalite_broker::metadata::quorum::Outcome;
use kafkalite_broker::metadata::records::{
    ConfigResource, CreateTopicRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord,
    TopicConfig,
};
use kafkalite_broker::metadata::{MetadataError, MetadataImage};
use kafkalite_protocol::Uuid;
use std::path::PathBuf;

/// A broker that is silent for so long is fenced, ms.
const SESSION_MS: u64 = 200;
/// EIO.
const EIO: i32 = 5;

impl World {
    pub(super) fn begin(&mut self) {
        let min = self.settings.min_isr.to_string();
        let cluster = ConfigResource::cluster();
        let min = MetadataRecord::set_config(&cluster, "min.insync.replicas", Some(&min));
        self.shared.quorum.decide(|_| vec![min]);
        let ids: Vec<i32> = self.hosts.iter().map(|host| host.id).collect();
        for id in ids {
            self.start(id);
            self.resume(id, 1);
        }
        let topics =
            vec![self.topic(DATA, self.settings.partitions, 1), self.topic(OFFSETS_TOPIC, 1, 2)];
        self.shared.quorum.decide(|_| topics);
        for number in 0..self.clients.len() {
            let delay = self.nodes.between(20, 60);
            self.schedule.after(delay, Event::Client(number));
        }
        let first = self.faults.pause_ms;
        self.schedule.after(first, Event::Fault);
        if Fault::Reassign.is_in(&self.faults) {
            self.schedule.after(first, Event::Reassign);
        }
        self.schedule.after(CHAOS_MS, Event::Heal);
    }

    /// A topic with a replica on each broker.
    fn topic(&self, name: &str, partitions: i32, id: u128) -> MetadataRecord {
        let ids: Vec<i32> = self.hosts.iter().map(|host| host.id).collect();
        let partition = |index: i32| {
            let mut replicas = ids.clone();
            replicas.rotate_left(usize::try_from(index).unwrap_or(0) % ids.len());
            PartitionRecord {
                leader: replicas[0],
                leader_epoch: 0,
                partition_epoch: 0,
                isr: replicas.clone(),
                directories: replicas.iter().map(|_| Uuid::ZERO).collect(),
                replicas,
                ..PartitionRecord::default()
            }
        };
        let set = |name: &str, value: String| TopicConfig { name: name.to_owned(), value };
        let mut configs = vec![
            set("retention.ms", "-1".to_owned()),
            set("segment.bytes", self.settings.segment_bytes.to_string()),
        ];
        if self.settings.flushes {
            configs.push(set("flush.messages", "1".to_owned()));
        }
        MetadataRecord::CreateTopic(CreateTopicRecord {
            name: name.to_owned(),
            topic_id: Uuid(id.to_be_bytes()),
            partitions: (0..partitions).map(partition).collect(),
            configs,
        })
    }

    fn is_alive(&self, id: i32) -> bool {
        let now_ms = self.now_ms();
        self.hosts
            .iter()
            .any(|one| one.id == id && one.running.is_some() && one.paused_ms <= now_ms)
    }

    /// Fences a broker in its present life, or ends that, and elects leaders.
    fn set_fenced(&self, id: i32, fenced: bool) {
        let epoch = self.epoch(id);
        self.shared.quorum.decide(|image| fence(image, id, epoch, fenced));
        if self.shared.planted == Some(Planted::UncleanLeaderElected) {
            self.shared.quorum.decide(|image| self.unclean(image));
        }
    }

    /// The first replica that is alive and not the leader leads, in sync or not.
    fn unclean(&self, image: &MetadataImage) -> Vec<MetadataRecord> {
        let alone = |index: i32| {
            let now = image.partition(DATA, index)?;
            let outside = now.replicas.iter().find(|id| !now.isr.contains(id))?;
            let id = image.topic(DATA)?.id;
            self.is_alive(*outside).then(|| {
                MetadataRecord::PartitionChange(PartitionChangeRecord {
                    topic_id: id,
                    partition_index: index,
                    partition: PartitionRecord {
                        leader: *outside,
                        leader_epoch: now.leader_epoch.0 + 1,
                        partition_epoch: now.partition_epoch + 1,
                        isr: vec![*outside],
                        replicas: now.replicas.clone(),
                        directories: now.directories.clone(),
                        ..PartitionRecord::default()
                    },
                })
            })
        };
        (0..self.settings.partitions).filter_map(alone).collect()
    }

    /// Starts a broker that does not run.
    pub(super) fn start(&mut self, id: i32) {
        let place = usize::try_from(id - 1).unwrap_or(0);
        if self.hosts[place].running.is_some() {
            return;
        }
        if let Err(error) = self.hosts[place].start(&self.shared) {
            let told = format!("broker {id}: {error}");
            return self.found.push(Violation::new("does-not-start", told));
        }
        let (life, serves) = (self.hosts[place].life, self.nodes.between(2, 15));
        self.note(&[10, id as u64, u64::from(life)], || format!("broker {id} starts: {life}"));
        self.schedule.after(1, Event::Turn(id, life));
        self.schedule.after(serves, Event::Resume(id, life));
        self.after_step(id);
    }

    /// A broker's process is gone, and its power if `power` says so.
    pub(super) fn died(&mut self, id: i32, power: Option<()>) {
        let place = usize::try_from(id - 1).unwrap_or(0);
        let mut rng = self.chaos.clone();
        let host = &mut self.hosts[place];
        if host.running.is_none() {
            return;
        }
        let life = host.life;
        host.paused_ms = 0;
        host.kill(&self.shared.quorum, power.map(|()| &mut rng));
        self.chaos = rng;
        self.work.ends += 1;
        if power.is_some() && !self.settings.flushes {
            self.bereft = Some(id);
            // No other one may lose anything until this one has it all again.
            self.hosts.iter().for_each(Host::spare);
        }
        let (fence, again) = (SESSION_MS, self.chaos.between(20, 500));
        self.schedule.after(fence, Event::Fence(id, life));
        self.schedule.after(again, Event::Start(id));
        self.note(&[11, id as u64], || format!("broker {id} is gone, power cut: {power:?}"));
    }

    /// The controller notices that a broker is silent.
    pub(super) fn fence(&mut self, id: i32, life: u32) {
        if self.is_alive(id) || self.host(id).life != life {
            return;
        }
        self.set_fenced(id, true);
        self.note(&[12, id as u64], || format!("broker {id} is fenced"));
    }

    fn epoch(&self, id: i32) -> i64 {
        self.shared.quorum.image().brokers.get(&id).map_or(-1, |broker| broker.epoch)
    }

    /// A broker that starts, or stood still, serves from now on.
    pub(super) fn resume(&mut self, id: i32, life: u32) {
        if self.host(id).life != life || !self.is_alive(id) {
            return;
        }
        self.set_fenced(id, false);
        self.note(&[13, id as u64], || format!("broker {id} serves"));
    }

    /// The outcome of a proposal.
    pub(super) fn propose(&mut self, proposed: Proposed) {
        let Proposed { broker, life, proposal, done } = proposed;
        let rate = if self.healed { 0 } else { self.faults.proposals };
        let misfortune = self.network.chance(rate).then(|| self.network.below(3));
        let offline = || MetadataError::Offline { reason: "as the seed wants it".to_owned() };
        let outcome = match misfortune {
            Some(0) => Outcome::Rejected(offline()),
            Some(1) => Outcome::Unknown(offline()),
            Some(_) => match self.shared.quorum.commit(proposal) {
                Outcome::Committed(_) => Outcome::Unknown(offline()),
                other => other,
            },
            None => self.shared.quorum.commit(proposal),
        };
        let told = match &outcome {
            Outcome::Committed(offset) => u64::try_from(*offset).unwrap_or(0),
            Outcome::Rejected(_) => 1 << 40,
            Outcome::Unknown(_) => 1 << 41,
        };
        self.note(&[14, broker as u64, told], || format!("a proposal of broker {broker}: {told}"));
        let host = self.host(broker);
        if host.life == life && host.running.is_some() {
            done(outcome);
            self.after_step(broker);
        }
    }

    /// Whether every broker runs and every partition has all replicas in sync.
    fn is_whole(&self) -> bool {
        let image = self.shared.quorum.image();
        let whole = |(topic, index): (&str, i32)| {
            let now = image.partition(topic, index);
            now.is_some_and(|now| now.isr.len() == now.replicas.len())
        };
        self.hosts.iter().all(|host| self.is_alive(host.id))
            && watched(self.settings.partitions).all(whole)
    }

    /// The next misfortune.
    pub(super) fn fault(&mut self) {
        if self.healed {
            return;
        }
        let mean = self.faults.pause_ms;
        let next = self.chaos.between(mean / 4, mean * 2);
        self.schedule.after(next, Event::Fault);
        let kinds = Fault::EVENTS.into_iter().filter(|kind| kind.is_in(&self.faults));
        let kinds: Vec<Fault> = kinds.collect();
        let ids: Vec<i32> = self.hosts.iter().map(|host| host.id).collect();
        let (kind, id) = (self.chaos.pick(&kinds).copied(), self.chaos.pick(&ids).copied());
        let (Some(kind), Some(id)) = (kind, id) else { return };
        if self.bereft.is_some() && self.is_whole() {
            self.bereft = None;
        }
        self.flip_planted_bit(id);
        if !self.is_alive(id) {
            return;
        }
        let is_fragile = self.bereft.is_some();
        self.note(&[15, kind as u64, id as u64], || format!("{kind:?} at broker {id}"));
        match kind {
            Fault::Kill if !is_fragile => self.died(id, None),
            Fault::PowerCut if self.may_lose_power() => self.died(id, Some(())),
            Fault::TornWrite if !is_fragile => {
                self.plan(id, faulty_storage::Fault::Crash);
            }
            Fault::DiskError if !is_fragile => self.plan(id, faulty_storage::Fault::Fail(EIO)),
            Fault::DiskFull => self.plan(id, faulty_storage::Fault::Full),
            Fault::Pause => self.pause(id),
            Fault::Restart if !is_fragile => self.stop(id),
            Fault::MoveLeader => self.move_leader(id),
            _ => {}
        }
    }

    /// With `flush.messages=1` always. Without it one broker at a time loses records, while all
    /// others have them.
    fn may_lose_power(&self) -> bool {
        let image = self.shared.quorum.image();
        let is_shared = watched(self.settings.partitions).all(|(topic, index)| {
            image.partition(topic, index).is_some_and(|now| now.isr.len() > 1)
        });
        let is_shared = is_shared && self.is_whole() && self.bereft.is_none();
        self.settings.flushes || is_shared
    }

    fn plan(&mut self, id: i32, fault: faulty_storage::Fault) {
        let after = self.chaos.below(30);
        let disk = &self.host(id).disk;
        disk.plan(disk.changes() + after, fault);
    }

    fn pause(&mut self, id: i32) {
        let ms = self.chaos.between(50, 600);
        let now_ms = self.now_ms();
        let host = self.host(id);
        host.paused_ms = now_ms + ms;
        let life = host.life;
        self.schedule.after(SESSION_MS, Event::Fence(id, life));
        self.schedule.after(ms, Event::Resume(id, life));
    }

    fn stop(&mut self, id: i32) {
        self.set_fenced(id, true);
        let epoch = self.epoch(id);
        let quorum = self.shared.quorum.clone();
        let host = self.host(id);
        host.stop(&quorum, epoch);
        self.work.ends += 1;
        self.note(&[17, id as u64], || format!("broker {id} is stopped"));
        let again = self.chaos.between(20, 300);
        self.schedule.after(again, Event::Start(id));
    }

    /// Broker `id` leads the first partition, if it is in sync.
    fn move_leader(&mut self, id: i32) {
        let image = self.shared.quorum.image();
        let (Some(topic), Some(now)) = (image.topic(DATA), image.partition(DATA, 0)) else {
            return;
        };
        if now.leader == id || !now.isr.contains(&id) || !image.is_alive(id) {
            return;
        }
        let partition = PartitionRecord {
            leader: id,
            leader_epoch: now.leader_epoch.0 + 1,
            partition_epoch: now.partition_epoch + 1,
            isr: now.isr.clone(),
            replicas: now.replicas.clone(),
            directories: now.directories.clone(),
            elr: now.elr.clone(),
            adding_replicas: now.adding_replicas.clone(),
            removing_replicas: now.removing_replicas.clone(),
            ..PartitionRecord::default()
        };
        let record = PartitionChangeRecord { topic_id: topic.id, partition_index: 0, partition };
        self.shared.quorum.decide(|_| vec![MetadataRecord::PartitionChange(record)]);
    }

    /// Flips a bit of a record on the disk of a broker, and has it start again.
    fn flip_planted_bit(&mut self, id: i32) {
        if self.shared.planted != Some(Planted::BitFlipped) || !self.is_alive(id) {
            return;
        }
        let directory = self.host(id).directory.join(format!("{DATA}-0"));
        let logs = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut logs: Vec<PathBuf> = logs.map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        let Some(log) = logs.first() else { return };
        let Ok(mut bytes) = std::fs::read(log) else { return };
        if bytes.len() > 80 {
            bytes[75] ^= 1;
            // A file that is not there any more is not damaged.
            let _ = std::fs::write(log, bytes);
            self.died(id, None);
        }
    }

    /// Faults are over: every broker runs, and what stands still goes on.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.note(&[16], || "faults are over".to_owned());
        let now_ms = self.now_ms();
        let ids: Vec<i32> = self.hosts.iter().map(|host| host.id).collect();
        for id in ids {
            let host = self.host(id);
            host.spare();
            let life = host.life;
            if host.paused_ms > now_ms {
                host.paused_ms = now_ms;
                self.resume(id, life);
            }
            self.start(id);
        }
        self.schedule.after(20, Event::Look);
    }

    /// A broker whose only disk failed stops, and starts again.
    pub(super) fn end_if_offline(&mut self, id: i32) {
        let host = self.host(id);
        let is_offline = host.running.as_ref().is_some_and(|one| {
            let dirs = one.broker.rooms().partitions.dirs();
            dirs.iter().all(|dir| dir.log_dir().is_offline())
        });
        if is_offline {
            self.died(id, None);
        }
    }

    /// How far all readers are, for the administrator.
    pub(super) fn tell_admin(&mut self) {
        let read_to = |index: usize| {
            let readers = self.clients.iter().filter_map(|client| match client {
                Client::Reader(one) if usize::try_from(one.partition()) == Ok(index) => {
                    Some(one.position())
                }
                _ => None,
            });
            readers.min().unwrap_or(0)
        };
        let partitions = usize::try_from(self.settings.partitions).unwrap_or(0);
        let known: Vec<i64> = (0..partitions).map(read_to).collect();
        for client in &mut self.clients {
            if let Client::Admin(admin) = client {
                admin.read_to.clone_from(&known);
            }
        }
    }
}
