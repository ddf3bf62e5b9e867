//! The most even way to deal partitions to members that want different topics, near to the one
//! that was.
//!
//! Even means: the sum of the squares of the members' counts is minimal. A path moves partitions
//! from member to member, each step to a member that wants the partition's topic. An assignment is
//! even exactly if no path leads to a member that has at least two fewer. So members keep their
//! partitions, free partitions go to the member with the fewest, and then such paths are walked,
//! the shortest first. An even assignment is left alone.
//! Source: the promise of Kafka's `AbstractStickyAssignor`, which looks at single steps only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{MemberSubscription, PartitionCounts, TopicPartition};

/// Deals out every partition of the subscribed topics; one list for each member, sorted.
pub(super) fn balance(
    counts: &PartitionCounts,
    members: &[MemberSubscription],
    owners: &BTreeMap<TopicPartition, usize>,
) -> Vec<Vec<TopicPartition>> {
    let mut table = Table::new(counts, members, owners);
    table.deal_free_partitions();
    while let Some(path) = table.improving_path() {
        table.walk(&path);
    }
    table.undo_needless_moves();
    table.into_lists()
}

/// A topic's partition takes a step from one member to the next.
#[derive(Clone, Copy)]
struct Step {
    topic: usize,
    from: usize,
    to: usize,
}

struct Table {
    names: Vec<Arc<str>>,
    /// Of each topic: who wants it, in the order in which members are dealt to.
    readers: Vec<Vec<usize>>,
    /// Of each topic, by partition: whose it was.
    before: Vec<Vec<Option<usize>>>,
    /// Of each topic, by member: what it has of it.
    held: Vec<BTreeMap<usize, Vec<i32>>>,
    load: Vec<usize>,
}

impl Table {
    fn new(
        counts: &PartitionCounts,
        members: &[MemberSubscription],
        owners: &BTreeMap<TopicPartition, usize>,
    ) -> Self {
        let topics = super::subscribed_topics(counts, members);
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|member| &members[*member].member_id);
        let wanted = |topic: &Arc<str>| {
            order.iter().copied().filter(|member| members[*member].topics.contains(topic)).collect()
        };
        let mut table = Self {
            readers: topics.keys().map(wanted).collect(),
            before: topics.values().map(|count| vec![None; (*count).max(0) as usize]).collect(),
            held: vec![BTreeMap::new(); topics.len()],
            names: topics.into_keys().collect(),
            load: vec![0; members.len()],
        };
        for (partition, member) in owners {
            let Ok(topic) = table.names.binary_search(&partition.topic) else { continue };
            table.before[topic][partition.partition as usize] = Some(*member);
            table.give(topic, partition.partition, *member);
        }
        table
    }

    fn give(&mut self, topic: usize, partition: i32, member: usize) {
        self.held[topic].entry(member).or_default().push(partition);
        self.load[member] += 1;
    }

    fn deal_free_partitions(&mut self) {
        let mut topics: Vec<usize> = (0..self.names.len()).collect();
        // Topics that few want come first: those that all want fill the gaps.
        topics.sort_by_key(|topic| self.readers[*topic].len());
        for topic in topics {
            for partition in 0..self.before[topic].len() {
                if self.before[topic][partition].is_some() {
                    continue;
                }
                let least = self.readers[topic].iter().copied().min_by_key(|one| self.load[*one]);
                if let Some(member) = least {
                    self.give(topic, partition as i32, member);
                }
            }
        }
    }

    /// A shortest path to a member with at least two fewer, from one of those that have most.
    fn improving_path(&self) -> Option<Vec<Step>> {
        let least = self.load.iter().copied().min()?;
        let mut givers: Vec<usize> =
            (0..self.load.len()).filter(|member| self.load[*member] >= least + 2).collect();
        givers.sort_by_key(|member| std::cmp::Reverse(self.load[*member]));
        givers.into_iter().find_map(|giver| self.path_from(giver))
    }

    fn path_from(&self, giver: usize) -> Option<Vec<Step>> {
        let mut reached: Vec<Option<Step>> = vec![None; self.load.len()];
        let mut topic_seen = vec![false; self.names.len()];
        let mut level = VecDeque::from([giver]);
        while !level.is_empty() {
            let mut next = VecDeque::new();
            for from in level {
                for (topic, seen) in topic_seen.iter_mut().enumerate() {
                    let has_some = self.held[topic].get(&from).is_some_and(|held| !held.is_empty());
                    if *seen || !has_some {
                        continue;
                    }
                    // Every member that wants the topic is reached now, from any member that has
                    // some of it.
                    *seen = true;
                    for to in self.readers[topic].iter().copied() {
                        if to != giver && reached[to].is_none() {
                            reached[to] = Some(Step { topic, from, to });
                            next.push_back(to);
                        }
                    }
                }
            }
            let taker = next.iter().copied().min_by_key(|member| self.load[*member]);
            match taker {
                Some(taker) if self.load[taker] + 2 <= self.load[giver] => {
                    return Some(steps_to(&reached, giver, taker));
                }
                _ => level = next,
            }
        }
        None
    }

    fn walk(&mut self, path: &[Step]) {
        for step in path {
            let before = &self.before[step.topic];
            let Some(held) = self.held[step.topic].get_mut(&step.from) else { continue };
            // Best of all is a partition that comes home, then one that is not at home here.
            let best = (0..held.len()).min_by_key(|index| {
                let home = before[held[*index] as usize];
                (home != Some(step.to), home == Some(step.from), std::cmp::Reverse(held[*index]))
            });
            let Some(best) = best else { continue };
            let partition = held.swap_remove(best);
            self.load[step.from] -= 1;
            self.give(step.topic, partition, step.to);
        }
    }

    /// Two members may each hold a partition that was the other's. Or a member holds a partition
    /// without an owner, while its own went elsewhere. They exchange the partitions, which leaves
    /// all counts as they are.
    fn undo_needless_moves(&mut self) {
        for topic in 0..self.names.len() {
            for partition in 0..self.before[topic].len() as i32 {
                let Some(home) = self.before[topic][partition as usize] else { continue };
                let Some(now) = self.holder(topic, partition) else { continue };
                if now == home {
                    continue;
                }
                let before = &self.before[topic];
                let strange = self.held[topic].get(&home).and_then(|held| {
                    held.iter().copied().find(|other| before[*other as usize] != Some(home))
                });
                let Some(strange) = strange else { continue };
                self.replace(topic, home, strange, partition);
                self.replace(topic, now, partition, strange);
            }
        }
    }

    fn holder(&self, topic: usize, partition: i32) -> Option<usize> {
        let mut holders = self.held[topic].iter();
        holders.find(|(_, held)| held.contains(&partition)).map(|(member, _)| *member)
    }

    fn replace(&mut self, topic: usize, member: usize, old: i32, new: i32) {
        let held = self.held[topic].entry(member).or_default();
        held.retain(|partition| *partition != old);
        held.push(new);
    }

    fn into_lists(self) -> Vec<Vec<TopicPartition>> {
        let mut lists = vec![Vec::new(); self.load.len()];
        for (name, held) in self.names.iter().zip(self.held) {
            for (member, mut partitions) in held {
                partitions.sort_unstable();
                let named =
                    partitions.into_iter().map(|one| TopicPartition::new(name.clone(), one));
                lists[member].extend(named);
            }
        }
        lists
    }
}

fn steps_to(reached: &[Option<Step>], giver: usize, taker: usize) -> Vec<Step> {
    let mut path = Vec::new();
    let mut at = taker;
    while at != giver {
        let Some(step) = reached[at] else { break };
        path.push(step);
        at = step.from;
    }
    path.reverse();
    path
}
