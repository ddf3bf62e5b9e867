//! Whatever fails, and in whatever order answers come: records stay in order, none is written
//! twice, and what was reported is what is there.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Append(u32, u8),
    Advance(u64),
    Deliver(NodeId),
    Respond(NodeId),
    Disconnect(NodeId, usize),
    MoveLeader(u32),
    Refuse(u32, ErrorCode),
    /// No batch of the partition may have more records from now on.
    Limit(u32, Option<i32>),
    MakeAgain(u32),
    Learn,
}

fn step(definite: bool) -> impl Strategy<Value = Step> {
    let node = || 1..=2_i32;
    let partition = || 0..2_u32;
    let retriable = proptest::sample::select(vec![
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::CorruptMessage,
    ]);
    let lost =
        proptest::sample::select(vec![ErrorCode::InvalidRecord, ErrorCode::InvalidTimestamp]);
    let often = prop_oneof![
        (partition(), 1..6_u8).prop_map(|(p, n)| Step::Append(p, n)),
        (1..200_u64).prop_map(Step::Advance),
        node().prop_map(Step::Deliver),
        node().prop_map(Step::Respond),
    ];
    let seldom = prop_oneof![
        (node(), 0..4_usize).prop_map(|(n, taken)| Step::Disconnect(n, taken)),
        partition().prop_map(Step::MoveLeader),
        (partition(), retriable).prop_map(|(p, code)| Step::Refuse(p, code)),
        partition().prop_map(Step::MakeAgain),
        Just(Step::Learn),
    ];
    let failures = prop_oneof![
        (partition(), lost).prop_map(|(p, code)| Step::Refuse(p, code)),
        (400..1_200_u64).prop_map(Step::Advance),
        (partition(), proptest::option::of(0..6_i32)).prop_map(|(p, most)| Step::Limit(p, most)),
    ];
    let failing_weight = u32::from(definite);
    prop_oneof![12 => often, 3 => seldom, failing_weight => failures]
}

/// Takes the steps, then settles. `limit` is the most records that a batch of partition 1 may have.
fn run(world: &mut World, limit: Option<i32>, steps: &[Step]) {
    world.logs[1].max_batch_records = limit;
    for step in steps {
        match *step {
            Step::Append(partition, count) => {
                for _ in 0..count {
                    world.append(partition);
                }
                world.plan();
            }
            Step::Advance(ms) => world.advance(ms),
            Step::Deliver(node) => world.deliver(node),
            Step::Respond(node) => world.respond(node),
            Step::Disconnect(node, taken) => world.disconnect(node, taken),
            Step::MoveLeader(partition) => {
                let leader = &mut world.leaders[partition as usize];
                (leader.node, leader.epoch) = (3 - leader.node, leader.epoch + 1);
            }
            Step::Refuse(partition, code) => {
                world.logs[partition as usize].refuse_next = Some(code);
            }
            Step::Limit(partition, most) => {
                world.logs[partition as usize].max_batch_records = most;
            }
            Step::MakeAgain(partition) => world.logs[partition as usize].make_again(),
            Step::Learn => world.learn(),
        }
    }
    for log in &mut world.logs {
        log.refuse_next = None;
    }
    world.settle();
}

fn check(world: &World, everything: bool) {
    for (partition, log) in world.logs.iter().enumerate() {
        let lives: Vec<_> = log.former.iter().chain([&log.values]).collect();
        for values in &lives {
            assert!(values.is_sorted_by(|a, b| a < b), "out of order, or twice: {values:?}");
        }
        for (value, offset) in world.offsets(partition as i32) {
            match offset {
                Some(offset) => {
                    let is_there = |life: &&Vec<u64>| life.get(offset as usize) == Some(&value);
                    assert!(lives.iter().any(is_there), "{value} at {offset}");
                }
                None => assert!(!everything, "{value} failed"),
            }
        }
    }
    assert_eq!(world.accumulator.memory().used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_that_can_be_retried_loses_repeats_or_reorders_a_record(
        limit in proptest::option::of(1..6_i32),
        steps in proptest::collection::vec(step(false), 1..120)
    ) {
        let mut world = World::new(settings(), 2, 200);
        run(&mut world, limit, &steps);
        check(&world, true);
    }

    #[test]
    fn what_is_given_up_leaves_order_and_uniqueness_of_the_rest_intact(
        limit in proptest::option::of(1..6_i32),
        steps in proptest::collection::vec(step(true), 1..120)
    ) {
        let timeout = Duration::from_millis(1_500);
        let mut world = World::new(Settings { delivery_timeout: timeout, ..settings() }, 2, 200);
        run(&mut world, limit, &steps);
        check(&world, false);
    }

    #[test]
    fn one_in_flight_keeps_order_without_idempotence(
        limit in proptest::option::of(1..6_i32),
        steps in proptest::collection::vec(step(false), 1..120)
    ) {
        let settings = Settings { idempotent: false, max_in_flight: 1, ..settings() };
        let mut world = World::new(settings, 2, 200);
        run(&mut world, limit, &steps);
        for (partition, log) in world.logs.iter().enumerate() {
            // Repeated batches are possible, records out of order within what is new are not.
            let mut newest = None;
            for value in &log.values {
                if newest.is_none_or(|newest| *value > newest) {
                    newest = Some(*value);
                }
            }
            let lives: Vec<_> = log.former.iter().chain([&log.values]).collect();
            for (value, offset) in world.offsets(partition as i32) {
                let offset = offset.unwrap() as usize;
                assert!(lives.iter().any(|life| life.get(offset) == Some(&value)));
            }
        }
    }
}
