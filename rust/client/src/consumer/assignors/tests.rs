use super::protocol::*;
use super::*;

mod properties;

fn counts(topics: &[(&str, i32)]) -> PartitionCounts {
    topics.iter().map(|(topic, count)| (Arc::from(*topic), *count)).collect()
}

fn member(id: &str, topics: &[&str]) -> MemberSubscription {
    MemberSubscription {
        member_id: id.to_owned(),
        topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
        generation: NO_GENERATION,
        version: 3,
        ..MemberSubscription::default()
    }
}

fn partitions(text: &str) -> Vec<TopicPartition> {
    text.split_whitespace()
        .map(|one| {
            let (topic, number) = one.rsplit_once('-').expect("the tests write topic-partition");
            TopicPartition::new(topic, number.parse().expect("the tests write numbers"))
        })
        .collect()
}

fn text(assignments: &Assignments) -> Vec<String> {
    assignments
        .iter()
        .map(|(id, partitions)| {
            let words: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            format!("{id}: {}", words.join(" "))
        })
        .collect()
}

/// The same members as they join the next round: with what they got, under cooperative rules.
fn next_round(members: &[MemberSubscription], got: &Assignments) -> Vec<MemberSubscription> {
    members
        .iter()
        .map(|member| {
            let mut member = member.clone();
            if let Some(partitions) = got.get(&member.member_id) {
                member.owned = partitions.clone();
                member.generation += 1;
            }
            member
        })
        .collect()
}

#[test]
fn range_cuts_each_topic_and_gives_the_first_members_one_more() {
    let members = [member("b", &["x", "y"]), member("a", &["x", "y"]), member("c", &["x"])];
    let got = Assignor::Range.assign(&counts(&[("x", 4), ("y", 3)]), &members);
    assert_eq!(text(&got), ["a: x-0 x-1 y-0 y-1", "b: x-2 y-2", "c: x-3"]);
}

#[test]
fn static_members_come_before_others_and_in_the_order_of_their_names() {
    let mut members = [member("a", &["x"]), member("b", &["x"]), member("c", &["x"])];
    members[1].instance_id = Some("2".to_owned());
    members[2].instance_id = Some("1".to_owned());
    for assignor in [Assignor::Range, Assignor::RoundRobin] {
        let got = assignor.assign(&counts(&[("x", 2)]), &members);
        assert_eq!(text(&got), ["a: ", "b: x-1", "c: x-0"], "{assignor:?}");
    }
}

#[test]
fn round_robin_deals_over_topics_and_passes_over_who_does_not_want_one() {
    let members = [member("a", &["x"]), member("b", &["x", "y"]), member("c", &["x", "y"])];
    let got = Assignor::RoundRobin.assign(&counts(&[("x", 2), ("y", 3)]), &members);
    assert_eq!(text(&got), ["a: x-0", "b: x-1 y-1", "c: y-0 y-2"]);
}

#[test]
fn topics_that_do_not_exist_or_that_no_member_wants_are_left_out() {
    let members = [member("a", &["x", "gone"])];
    for assignor in Assignor::ALL {
        let got = assignor.assign(&counts(&[("other", 3), ("x", 1)]), &members);
        assert_eq!(text(&got), ["a: x-0"], "{assignor:?}");
    }
}

#[test]
fn a_first_sticky_assignment_deals_in_turn() {
    let members = [member("a", &["x", "y"]), member("b", &["x", "y"])];
    let got = Assignor::Sticky.assign(&counts(&[("x", 3), ("y", 2)]), &members);
    assert_eq!(text(&got), ["a: x-0 x-2 y-1", "b: x-1 y-0"]);
}

#[test]
fn a_sticky_member_keeps_what_its_data_says_it_had() {
    let mut members = [member("a", &["x"]), member("b", &["x"]), member("c", &["x"])];
    members[0].user_data = Some(sticky_data(&partitions("x-1 x-3 x-5"), 4));
    members[1].user_data = Some(sticky_data(&partitions("x-0 x-2 x-4"), 4));
    let got = Assignor::Sticky.assign(&counts(&[("x", 6)]), &members);
    assert_eq!(text(&got), ["a: x-1 x-3", "b: x-0 x-2", "c: x-4 x-5"]);
}

#[test]
fn of_two_claims_the_newer_generation_counts_and_equal_ones_cancel_each_other() {
    for (generations, expected) in [
        ((3, 4), ["a: x-1", "b: x-0"]),
        ((4, 3), ["a: x-0", "b: x-1"]),
        ((4, 4), ["a: x-0", "b: x-1"]),
    ] {
        let mut members = [member("a", &["x"]), member("b", &["x"])];
        members[0].user_data = Some(sticky_data(&partitions("x-0"), generations.0));
        members[1].user_data = Some(sticky_data(&partitions("x-0"), generations.1));
        let got = Assignor::Sticky.assign(&counts(&[("x", 2)]), &members);
        assert_eq!(text(&got), expected, "{generations:?}");
    }
}

#[test]
fn cooperative_members_get_a_moving_partition_one_round_after_its_owner_lost_it() {
    let topics = counts(&[("x", 4)]);
    let mut members = [member("a", &["x"]), member("b", &["x"])];
    members[0].owned = partitions("x-0 x-1 x-2 x-3");
    members[0].generation = 7;
    let first = Assignor::CooperativeSticky.assign(&topics, &members);
    assert_eq!(text(&first), ["a: x-0 x-1", "b: "]);
    let second = Assignor::CooperativeSticky.assign(&topics, &next_round(&members, &first));
    assert_eq!(text(&second), ["a: x-0 x-1", "b: x-2 x-3"]);
}

#[test]
fn a_partition_that_two_cooperative_members_hold_is_withheld_until_both_gave_it_up() {
    let topics = counts(&[("x", 2)]);
    let mut members = [member("a", &["x"]), member("b", &["x"])];
    for member in &mut members {
        member.owned = partitions("x-0");
        member.generation = 2;
    }
    let first = Assignor::CooperativeSticky.assign(&topics, &members);
    assert!(first.values().all(|got| !got.contains(&TopicPartition::new("x", 0))), "{first:?}");
    let second = Assignor::CooperativeSticky.assign(&topics, &next_round(&members, &first));
    assert_eq!(second.values().map(Vec::len).sum::<usize>(), 2);
}

#[test]
fn a_cooperative_members_generation_may_stand_in_its_data_only() {
    let mut members = [member("a", &["x"]), member("b", &["x"])];
    for (member, generation) in members.iter_mut().zip([5, 6]) {
        member.owned = partitions("x-0");
        member.user_data = Some(cooperative_data(generation));
    }
    let got = Assignor::CooperativeSticky.assign(&counts(&[("x", 1)]), &members);
    assert_eq!(text(&got), ["a: ", "b: x-0"]);
}

#[test]
fn subscriptions_and_assignments_come_back_as_they_were() {
    let mut original = member("a", &["x", "y"]);
    original.owned = partitions("x-0 x-7 y-1");
    original.generation = 9;
    original.rack = Some("r".to_owned());
    original.user_data = Some(Bytes::from_static(b"data"));
    original.instance_id = Some("i".to_owned());
    let bytes = encode_subscription(&original);
    assert_eq!(decode_subscription("a", Some("i"), bytes), Ok(original.clone()));
    for version in 0..=3 {
        let bytes = encode_assignment(version, &original.owned);
        assert_eq!(bytes[..2], version.to_be_bytes());
        assert_eq!(decode_assignment(bytes), Ok(original.owned.clone()));
    }
}

#[test]
fn a_subscription_of_a_version_to_come_is_read_as_the_newest_known() {
    let mut bytes = encode_subscription(&member("a", &["x"])).to_vec();
    bytes[1] = 77;
    bytes.extend_from_slice(b"fields to come");
    assert_eq!(decode_subscription("a", None, bytes.into()), Ok(member("a", &["x"])));
}

#[test]
fn the_first_subscription_version_has_no_owned_partitions() {
    // Version 0, one topic "x", no user data.
    let bytes = Bytes::from_static(&[0, 0, 0, 0, 0, 1, 0, 1, b'x', 255, 255, 255, 255]);
    let expected = MemberSubscription { version: 0, ..member("a", &["x"]) };
    assert_eq!(decode_subscription("a", None, bytes), Ok(expected));
}

#[test]
fn bytes_that_lie_are_refused_and_lying_sticky_data_counts_as_none() {
    for cut in 0..encode_subscription(&member("a", &["topic"])).len() {
        let bytes = encode_subscription(&member("a", &["topic"])).slice(..cut);
        assert!(decode_subscription("a", None, bytes).is_err(), "{cut}");
    }
    let negative = encode_assignment(0, &partitions("x-0")).to_vec();
    let at = negative.len() - 8;
    let mut negative = negative;
    negative[at..at + 4].copy_from_slice(&(-5_i32).to_be_bytes());
    assert!(decode_assignment(negative.into()).is_err());
    assert_eq!(decode_assignment(Bytes::new()), Ok(Vec::new()));
    let lie = Bytes::from_static(&[0x7f, 255, 255, 255, 0, 1, b'x']);
    assert_eq!(read_sticky_data(Some(&lie)), (Vec::new(), NO_GENERATION));
    assert_eq!(read_cooperative_data(Some(&lie.slice(..3))), NO_GENERATION);
}

#[test]
fn sticky_data_is_read_with_and_without_a_generation() {
    let data = sticky_data(&partitions("x-0 y-3"), 12);
    assert_eq!(read_sticky_data(Some(&data)), (partitions("x-0 y-3"), 12));
    let old = data.slice(..data.len() - 4);
    assert_eq!(read_sticky_data(Some(&old)), (partitions("x-0 y-3"), NO_GENERATION));
}

#[test]
fn an_assignor_is_found_by_name_and_by_javas_class() {
    for assignor in Assignor::ALL {
        assert_eq!(Assignor::from_name(assignor.name()), Some(assignor));
    }
    let class = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    assert_eq!(Assignor::from_name(class), Some(Assignor::CooperativeSticky));
    assert_eq!(Assignor::from_name("uniform"), None);
}
