//! An operator who moves partitions between brokers, alters that, and cancels it.

use super::clients::DATA;
use super::watch::key;
use super::world::{Event, World, watched};
use kafkalite_broker::metadata::PartitionImage;
use kafkalite_broker::metadata::controller::{Reassignment, reassign};

impl World {
    /// Begins, alters or cancels a move of some partition, now and then.
    pub(super) fn operate(&mut self) {
        if self.healed {
            return;
        }
        let again = self.chaos.between(20, 250);
        self.schedule.after(again, Event::Reassign);
        let all: Vec<(&str, i32)> = watched(self.settings.partitions).collect();
        let image = self.shared.quorum.image();
        let Some((topic, partition)) = self.chaos.pick(&all).copied() else { return };
        let Some(now) = image.partition(topic, partition) else { return };
        let replicas = self.target(now);
        if !self.keeps_records(now, replicas.as_deref()) {
            return;
        }
        let number = replicas.iter().flatten();
        let number = number.fold(1, |hash, id| hash * 8 + u64::from(id.unsigned_abs()));
        self.note(&[18, u64::from(partition.unsigned_abs()), number], || {
            format!("{topic}-{partition} moves to {replicas:?}")
        });
        let asked = Reassignment { topic: topic.into(), partition, replicas };
        self.shared.quorum.decide(|image| reassign(image, &[asked], true).0);
    }

    /// Where the partition is to be; `None` cancels.
    fn target(&mut self, now: &PartitionImage) -> Option<Vec<i32>> {
        if now.is_moving() && self.chaos.chance(300) {
            return None;
        }
        let mut ids: Vec<i32> = self.hosts.iter().map(|host| host.id).collect();
        let turn = self.chaos.below(ids.len() as u64);
        ids.rotate_left(usize::try_from(turn).unwrap_or(0));
        let most = ids.len() as u64;
        // Replicas that left come back.
        let count = if self.chaos.chance(500) { most } else { self.chaos.between(1, most) };
        ids.truncate(usize::try_from(count).unwrap_or(1));
        Some(ids)
    }

    /// Whether every replica stays that may have committed records, as long as one lost some. An
    /// operator who removes the others loses them, in Kafka too.
    fn keeps_records(&self, now: &PartitionImage, target: Option<&[i32]>) -> bool {
        let stays = |id: &i32| match target {
            Some(target) => target.contains(id),
            None => !now.adding_replicas.contains(id),
        };
        let mut holders = now.isr.iter().chain(&now.elr);
        self.bereft.is_none() || holders.all(|id| Some(*id) == self.bereft || stays(id))
    }

    /// Tells the history where logs began again. They know no producer of what was before.
    pub(super) fn note_restarts(&mut self) {
        let image = self.shared.quorum.image();
        let Some(id) = image.topic(DATA).map(|topic| topic.id) else { return };
        for index in 0..self.settings.partitions {
            let place = usize::try_from(index).unwrap_or(0);
            let restarted_to = self.watch.restarted_to(key(id, index));
            self.history.forgotten_to.insert(place, restarted_to);
        }
    }

    /// What is not as it should be when all replicas of a partition are where they belong.
    pub(super) fn misplaced(
        &self,
        (topic, index): (&str, i32),
        now: &PartitionImage,
    ) -> Option<String> {
        if now.is_moving() {
            return Some(format!("{topic}-{index} moves: {now:?}"));
        }
        let is_wrong = |id: i32, has: bool| now.replicas.contains(&id) != has;
        let mut hosts = self.hosts.iter();
        let wrong = hosts.find(|host| is_wrong(host.id, host.partition(topic, index).is_some()))?;
        Some(format!("broker {} has or lacks {topic}-{index}", wrong.id))
    }
}
