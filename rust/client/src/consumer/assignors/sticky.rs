//! Sticky and cooperative-sticky: balanced, and members keep what they had where they can.
//!
//! A member's claim to a partition counts under three conditions. The topic still has the
//! partition, and the member still wants the topic. No other member claims the partition in the
//! same or a newer generation. If two members claim a partition in one generation, it belongs to
//! neither (KIP-341).
//! Source: Kafka's `AbstractStickyAssignor`; the balancing itself is in `balance`.

use std::collections::{BTreeMap, BTreeSet};

use super::balance::balance;
use super::protocol::{NO_GENERATION, read_cooperative_data, read_sticky_data};
use super::{Assignments, MemberSubscription, PartitionCounts, TopicPartition};

/// What one member claims to have owned.
struct Claim {
    partitions: Vec<TopicPartition>,
    generation: i32,
}

/// Partition -> index of the member it belongs to.
type Owners = BTreeMap<TopicPartition, usize>;

pub(super) fn assign(counts: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let claims = members.iter().map(|member| {
        // Eager members own nothing any more when they join: what they had is in their data.
        let (partitions, generation) = read_sticky_data(member.user_data.as_ref());
        Claim { partitions, generation }
    });
    let owners = owners(counts, members, &claims.collect::<Vec<_>>());
    named(members, balance(counts, members, &owners))
}

pub(super) fn assign_cooperatively(
    counts: &PartitionCounts,
    members: &[MemberSubscription],
) -> Assignments {
    let claims: Vec<_> = members
        .iter()
        .map(|member| Claim {
            partitions: member.owned.clone(),
            generation: match member.generation {
                NO_GENERATION => read_cooperative_data(member.user_data.as_ref()),
                generation => generation,
            },
        })
        .collect();
    let owners = owners(counts, members, &claims);
    let mut assigned = balance(counts, members, &owners);
    withhold_what_others_hold(&mut assigned, &claims, &owners);
    named(members, assigned)
}

/// A partition that moves goes to no member in this round: its owner finds it missing, gives it up
/// and joins again. A claim counts however old it is, because the member may be reading the
/// partition.
fn withhold_what_others_hold(
    assigned: &mut [Vec<TopicPartition>],
    claims: &[Claim],
    owners: &Owners,
) {
    let mut holders: BTreeMap<&TopicPartition, BTreeSet<usize>> = BTreeMap::new();
    for (member, claim) in claims.iter().enumerate() {
        for partition in &claim.partitions {
            holders.entry(partition).or_default().insert(member);
        }
    }
    for (member, partitions) in assigned.iter_mut().enumerate() {
        partitions.retain(|partition| {
            owners.get(partition) == Some(&member)
                || holders
                    .get(partition)
                    .is_none_or(|holders| holders.iter().all(|holder| *holder == member))
        });
    }
}

fn owners(counts: &PartitionCounts, members: &[MemberSubscription], claims: &[Claim]) -> Owners {
    // Of the newest claim: its generation, and its member unless there are several.
    let mut newest: BTreeMap<&TopicPartition, (i32, Option<usize>)> = BTreeMap::new();
    for (index, (member, claim)) in members.iter().zip(claims).enumerate() {
        for partition in claim.partitions.iter().collect::<BTreeSet<_>>() {
            let exists = counts.get(&partition.topic).copied().unwrap_or(0) > partition.partition;
            if !exists || partition.partition < 0 || !member.topics.contains(&partition.topic) {
                continue;
            }
            let entry = newest.entry(partition).or_insert((claim.generation, Some(index)));
            if claim.generation > entry.0 {
                *entry = (claim.generation, Some(index));
            } else if claim.generation == entry.0 && entry.1 != Some(index) {
                entry.1 = None;
            }
        }
    }
    newest
        .into_iter()
        .filter_map(|(partition, (_, member))| Some((partition.clone(), member?)))
        .collect()
}

fn named(members: &[MemberSubscription], assigned: Vec<Vec<TopicPartition>>) -> Assignments {
    members.iter().map(|member| member.member_id.clone()).zip(assigned).collect()
}
