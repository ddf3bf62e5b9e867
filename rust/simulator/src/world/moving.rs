//! An operator who moves partitions between brokers, and does not always wait for the end.

use super::{Event, World};
use crate::message::Node;

impl World {
    /// Begins, alters or cancels a move, or has the first replica lead, now and then. Half of the
    /// moves are taken back a moment later.
    pub(super) fn operate(&mut self) {
        if self.healed {
            return;
        }
        let again = self.chaos.between(20, 300);
        self.schedule.after(again, Event::Operate);
        let how = self.chaos.word();
        let draw = |shift: u32, below: usize| {
            usize::try_from(how >> shift & 0xff).unwrap_or(0) % below.max(1)
        };
        let partition = draw(0, self.settings.partitions + 1);
        let Some(now) = self.controller.partition(partition) else { return };
        let stays = |id: &i32| !now.removing_replicas.contains(id);
        let before: Vec<i32> = now.replicas.iter().copied().filter(stays).collect();
        let brokers = 1..=self.settings.brokers;
        let others: Vec<i32> = brokers.filter(|id| !before.contains(id)).collect();
        let other = others.get(draw(8, others.len())).copied();
        let at = draw(16, before.len());
        let mut target = before.clone();
        match (draw(24, 10), other) {
            (0, _) => return self.reassign(partition, None),
            (1, _) => {
                return self.with_io(Node::Controller, |world, io| {
                    world.controller.prefer_leader(partition, io);
                });
            }
            (2, _) => target.rotate_left(at),
            (3 | 4, Some(other)) => target.push(other),
            (5 | 6, Some(other)) => target[at] = other,
            _ if target.len() > 1 => drop(target.remove(at)),
            (_, Some(other)) => target.push(other),
            _ => {}
        }
        self.reassign(partition, Some(target));
        if draw(32, 2) == 0 {
            let pause_ms = 1 + draw(40, 120) as u64;
            self.schedule.after(pause_ms, Event::Reassign(partition, before));
        }
    }

    pub(super) fn reassign(&mut self, partition: usize, replicas: Option<Vec<i32>>) {
        let text = || format!("partition {partition} moves to {replicas:?}");
        let target = replicas.iter().flatten();
        let number = target.fold(1, |hash, id| hash * 8 + u64::from(id.unsigned_abs()));
        self.trace.step(self.schedule.now_ms(), &[31, partition as u64, number], text);
        self.with_io(Node::Controller, |world, io| {
            world.controller.reassign(partition, replicas, io);
        });
    }
}
