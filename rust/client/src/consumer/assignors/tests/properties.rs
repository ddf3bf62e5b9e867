//! Random groups: what is dealt is complete, even, near to what was, and never held twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const TOPICS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug)]
struct Group {
    counts: PartitionCounts,
    members: Vec<MemberSubscription>,
}

fn group(max_members: usize, max_partitions: i32) -> impl Strategy<Value = Group> {
    let counts = prop::collection::vec(0..=max_partitions, TOPICS.len());
    let wants = prop::collection::vec(1..8_usize, 1..=max_members);
    (counts, wants).prop_map(|(counts, wants)| Group {
        counts: TOPICS.iter().map(|topic| Arc::from(*topic)).zip(counts).collect(),
        members: wants
            .into_iter()
            .enumerate()
            .map(|(id, bits)| {
                let topics: Vec<_> =
                    (0..3).filter(|bit| bits >> bit & 1 == 1).map(|bit| TOPICS[bit]).collect();
                member(&format!("m{id}"), &topics)
            })
            .collect(),
    })
}

impl Group {
    fn wanted(&self) -> BTreeSet<TopicPartition> {
        let topics = subscribed_topics(&self.counts, &self.members);
        topics
            .into_iter()
            .flat_map(|(topic, count)| {
                (0..count).map(move |partition| TopicPartition::new(topic.clone(), partition))
            })
            .collect()
    }

    fn readers(&self, partition: &TopicPartition) -> Vec<usize> {
        let wants = |index: &usize| self.members[*index].topics.contains(&partition.topic);
        (0..self.members.len()).filter(wants).collect()
    }

    /// The least sum of squares of all ways to deal, by trying each.
    fn least_squares(&self) -> usize {
        let mut best: BTreeSet<Vec<usize>> = BTreeSet::from([vec![0; self.members.len()]]);
        for partition in self.wanted() {
            let readers = self.readers(&partition);
            best = best
                .into_iter()
                .flat_map(|loads| {
                    readers.clone().into_iter().map(move |reader| {
                        let mut loads = loads.clone();
                        loads[reader] += 1;
                        loads
                    })
                })
                .collect();
        }
        best.iter().map(|loads| squares(loads.iter().copied())).min().unwrap_or(0)
    }
}

fn squares(loads: impl Iterator<Item = usize>) -> usize {
    loads.map(|load| load * load).sum()
}

fn check_complete(group: &Group, got: &Assignments) -> Result<(), TestCaseError> {
    let dealt: Vec<_> = got.values().flatten().cloned().collect();
    prop_assert_eq!(dealt.len(), group.wanted().len());
    prop_assert_eq!(dealt.into_iter().collect::<BTreeSet<_>>(), group.wanted());
    for member in &group.members {
        let own = got.get(&member.member_id);
        prop_assert!(own.is_some_and(|own| own.iter().all(|p| member.topics.contains(&p.topic))));
    }
    Ok(())
}

/// Gives members random pasts, some of them lies.
fn with_past(mut group: Group, past: &[(usize, usize, i32)]) -> Group {
    let all: Vec<TopicPartition> = TOPICS
        .iter()
        .flat_map(|topic| (0..4).map(move |number| TopicPartition::new(*topic, number)))
        .collect();
    let mut last: BTreeMap<usize, (BTreeSet<TopicPartition>, i32)> = BTreeMap::new();
    for (who, what, generation) in past {
        let entry = last.entry(who % group.members.len()).or_default();
        entry.0.insert(all[what % all.len()].clone());
        entry.1 = *generation;
    }
    for (who, (partitions, generation)) in last {
        let partitions: Vec<_> = partitions.into_iter().collect();
        group.members[who].user_data = Some(sticky_data(&partitions, generation));
        group.members[who].owned = partitions;
        group.members[who].generation = generation;
    }
    group
}

fn past() -> impl Strategy<Value = Vec<(usize, usize, i32)>> {
    prop::collection::vec((0..8_usize, 0..12_usize, 0..3_i32), 0..10)
}

fn moves(group: &Group, got: &Assignments) -> usize {
    let kept = |member: &MemberSubscription| {
        member.owned.iter().filter(|one| got[&member.member_id].contains(one)).count()
    };
    group.members.iter().map(|member| member.owned.len() - kept(member)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_eager_assignor_deals_each_wanted_partition_once(
        group in group(6, 9), past in past(),
    ) {
        let group = with_past(group, &past);
        for assignor in [Assignor::Range, Assignor::RoundRobin, Assignor::Sticky] {
            check_complete(&group, &assignor.assign(&group.counts, &group.members))?;
        }
    }

    #[test]
    fn sticky_is_as_even_as_the_best_of_all_ways(group in group(3, 3), past in past()) {
        let group = with_past(group, &past);
        let got = Assignor::Sticky.assign(&group.counts, &group.members);
        prop_assert_eq!(squares(got.values().map(Vec::len)), group.least_squares());
    }

    #[test]
    fn sticky_leaves_its_own_result_alone(group in group(6, 6)) {
        let first = Assignor::Sticky.assign(&group.counts, &group.members);
        let mut again = group.clone();
        for member in &mut again.members {
            member.user_data = Some(sticky_data(&first[&member.member_id], 1));
        }
        prop_assert_eq!(first, Assignor::Sticky.assign(&again.counts, &again.members));
    }

    #[test]
    fn a_member_that_leaves_or_comes_moves_no_more_than_its_share(
        members in 1..6_usize, partitions in 1..20_i32,
    ) {
        let all: Vec<_> = (0..=members).map(|id| member(&format!("m{id}"), &["x"])).collect();
        let counts = counts(&[("x", partitions)]);
        let few = Group { counts: counts.clone(), members: all[..members].to_vec() };
        let first = Assignor::Sticky.assign(&counts, &few.members);
        let mut grown = Group { counts: counts.clone(), members: all.clone() };
        for member in &mut grown.members {
            member.owned = first.get(&member.member_id).cloned().unwrap_or_default();
            member.user_data = Some(sticky_data(&member.owned, 1));
        }
        let second = Assignor::Sticky.assign(&counts, &grown.members);
        prop_assert_eq!(moves(&grown, &second), second[&format!("m{members}")].len());
        let mut shrunk = Group { counts: counts.clone(), members: all[..members].to_vec() };
        for member in &mut shrunk.members {
            member.owned = second[&member.member_id].clone();
            member.user_data = Some(sticky_data(&member.owned, 2));
        }
        prop_assert_eq!(moves(&shrunk, &Assignor::Sticky.assign(&counts, &shrunk.members)), 0);
    }

    #[test]
    fn cooperative_rounds_never_give_what_another_holds_and_settle_evenly(
        group in group(3, 3), past in past(),
    ) {
        let mut group = with_past(group, &past);
        let mut settled = false;
        for _ in 0..4 {
            let got = Assignor::CooperativeSticky.assign(&group.counts, &group.members);
            for (id, partitions) in &got {
                for other in group.members.iter().filter(|other| other.member_id != *id) {
                    // The one exception: an older claim loses against the newest one's holder.
                    let holder = group.members.iter().find(|one| one.member_id == *id);
                    for partition in partitions.iter().filter(|one| other.owned.contains(one)) {
                        prop_assert!(holder.is_some_and(|one| one.owned.contains(partition)));
                    }
                }
            }
            settled = group.members.iter().all(|one| one.owned == got[&one.member_id]);
            group.members = next_round(&group.members, &got);
            if settled {
                check_complete(&group, &got)?;
                prop_assert_eq!(squares(got.values().map(Vec::len)), group.least_squares());
                break;
            }
        }
        prop_assert!(settled, "after four rounds members still give things up");
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = Bytes::from(bytes);
        let _ = decode_subscription("m", None, bytes.clone());
        let _ = decode_assignment(bytes.clone());
        let _ = read_sticky_data(Some(&bytes));
        let _ = read_cooperative_data(Some(&bytes));
    }
}
