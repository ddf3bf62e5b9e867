//! One rule a test.

use super::*;

fn batches(request: &Outgoing) -> Vec<(i32, i32)> {
    let of = |sent: &ProduceBatch| {
        let batch = RecordBatch::parse(&sent.bytes).unwrap();
        (sent.partition, batch.header().base_sequence)
    };
    request.batches.iter().map(of).collect()
}

fn world() -> World {
    World::new(settings(), 2, 200)
}

/// Appends full batches of one partition.
fn fill(world: &mut World, partition: u32, batches: usize) {
    let before = world.accumulator.follow("t", Uuid::ZERO, 2).queues()[partition as usize].load();
    while world.accumulator.follow("t", Uuid::ZERO, 2).queues()[partition as usize].load()
        < before + batches as u32
    {
        world.append(partition);
    }
}

/// A batch of one record of partition 0, which leaves if it may.
fn send(world: &mut World) {
    world.append(0);
    world.advance(5);
}

/// Both partitions have a record that was written: brokers know their sequences.
fn begun() -> World {
    let mut world = world();
    world.append(0);
    world.append(1);
    world.settle();
    world
}

#[test]
fn a_request_has_one_batch_of_each_partition_and_five_are_on_their_way() {
    let mut world = begun();
    fill(&mut world, 0, 8);
    fill(&mut world, 1, 2);
    world.plan();
    let sent: Vec<_> = world.requests[&1].iter().map(batches).collect();
    assert_eq!(sent.len(), 5);
    let mut first: Vec<_> = sent[0].clone();
    first.sort_unstable();
    assert_eq!(first.iter().map(|batch| batch.0).collect::<Vec<_>>(), [0, 1]);
    let of_zero: Vec<_> = sent.iter().flatten().filter(|b| b.0 == 0).map(|b| b.1).collect();
    assert!(of_zero.is_sorted() && of_zero[0] == 1 && of_zero.len() == 5, "{of_zero:?}");
    world.deliver(1);
    world.respond(1);
    assert_eq!(world.requests[&1].len(), 5, "an answer makes room for one more");
}

#[test]
fn the_first_batch_of_a_partition_arrives_before_the_second_leaves() {
    let mut world = world();
    fill(&mut world, 0, 4);
    world.plan();
    assert_eq!(world.requests[&1].len(), 1);
    world.deliver(1);
    world.respond(1);
    assert!(world.requests[&1].len() >= 2);
}

#[test]
fn a_request_is_not_larger_than_its_limit() {
    let mut world = World::new(Settings { max_request_size: 250, ..settings() }, 2, 200);
    fill(&mut world, 0, 2);
    fill(&mut world, 1, 2);
    world.plan();
    for request in &world.requests[&1] {
        let size: usize = request.batches.iter().map(|sent| sent.bytes.len()).sum();
        assert!(size <= 250, "{size} bytes");
    }
    assert_eq!(world.requests[&1].len(), 2);
}

#[test]
fn what_lingers_stays_until_its_time_or_a_flush() {
    let mut world = world();
    world.append(0);
    let plan = world.plan();
    assert!(world.requests.is_empty());
    assert_eq!(plan.linger_at, Some(world.now() + settings().linger));
    let flush = world.accumulator.flush();
    world.plan();
    assert_eq!(world.requests[&1].len(), 1);
    drop(flush);
}

#[test]
fn a_batch_that_failed_goes_first_and_alone() {
    let mut world = begun();
    fill(&mut world, 0, 3);
    world.plan();
    world.logs[0].refuse_next = Some(ErrorCode::NotEnoughReplicas);
    for _ in 0..3 {
        world.deliver(1);
        world.respond(1);
    }
    assert!(world.requests[&1].is_empty(), "all three were refused, and wait");
    fill(&mut world, 0, 1);
    world.advance(500);
    let sent: Vec<_> = world.requests[&1].iter().map(batches).collect();
    assert_eq!(sent, [[(0, 1)]], "the first goes first, the others wait for it");
    world.settle();
    check_all(&world);
}

fn check_all(world: &World) {
    for (partition, log) in world.logs.iter().enumerate() {
        let offsets = world.offsets(partition as i32);
        assert_eq!(offsets.len(), log.values.len());
        let in_order = offsets.iter().zip(0..).all(|(sent, at)| sent.1 == Some(at));
        assert!(in_order, "{offsets:?}");
    }
}

#[test]
fn a_new_leader_is_asked_at_once() {
    let mut world = world();
    world.append(0);
    world.advance(10);
    world.leaders[0] = led(2, 0);
    world.deliver(1);
    world.leaders[0] = led(1, 0);
    world.respond(1);
    assert!(world.requests[&1].is_empty(), "the same leader is given time");
    assert!(world.dispatch.take_refresh(), "the leader must be looked up");
    world.leaders[0] = led(2, 1);
    world.plan();
    assert_eq!(world.requests[&2].len(), 1);
    world.settle();
    check_all(&world);
}

#[test]
fn a_refused_record_raises_the_epoch_and_the_rest_goes_on() {
    let mut world = world();
    world.logs[0].refuse_next = Some(ErrorCode::InvalidRecord);
    world.append(0);
    world.advance(10);
    world.deliver(1);
    world.respond(1);
    world.append(0);
    world.settle();
    assert_eq!(world.offsets(0), [(0, None), (1, Some(0))]);
    assert_eq!(world.logs[0].producers[&1].epoch, 1);
}

/// The answer to the first batch was lost, the second was refused, and the third did not follow. A
/// new epoch at that moment wrote the first batch again.
#[test]
fn a_batch_that_may_be_written_keeps_its_number_whatever_became_of_those_behind_it() {
    let mut world = begun();
    send(&mut world);
    world.leaders[0] = led(2, 1);
    send(&mut world);
    send(&mut world);
    assert_eq!((world.requests[&1].len(), world.requests[&2].len()), (1, 2));
    world.logs[0].refuse_next = Some(ErrorCode::InvalidRecord);
    world.deliver(2);
    world.deliver(2);
    world.leaders[0] = led(1, 2);
    world.disconnect(1, 1);
    world.respond(2);
    world.respond(2);
    world.settle();
    let written = world.offsets(0).into_iter().filter_map(|(value, offset)| Some((offset?, value)));
    let values = world.logs[0].values.iter().copied();
    assert!(written.eq((0..).zip(values)), "{:?}", world.logs[0].values);
}

/// The new topic knows no sequence and takes any. A batch was refused by the former topic while the
/// next one was written to the new topic, before it.
#[test]
fn what_goes_to_a_topic_that_was_made_again_waits_for_what_went_to_the_former_one() {
    let mut world = begun();
    send(&mut world);
    world.logs[0].make_again();
    world.learn();
    send(&mut world);
    send(&mut world);
    assert_eq!(world.requests[&1].len(), 1, "the one to the former topic");
    world.settle();
    assert_eq!((&*world.logs[0].former[0], &*world.logs[0].values), (&[0][..], &[2, 3, 4][..]));
}

/// The broker knows only the newest five: an older one that was sent again always looked like a
/// gap.
#[test]
fn no_batch_is_sent_that_would_make_the_broker_forget_one_without_an_answer() {
    let mut world = begun();
    send(&mut world);
    world.deliver(1);
    world.leaders[0] = led(2, 1);
    for _ in 0..8 {
        send(&mut world);
        world.deliver(2);
        world.respond(2);
    }
    world.disconnect(1, 0);
    world.settle();
    check_all(&world);
    assert_eq!(world.logs[0].producers[&1].epoch, 0, "nothing was lost");
}

#[test]
fn records_that_the_broker_names_fail_with_its_words() {
    let mut world = world();
    for _ in 0..3 {
        world.append(0);
    }
    world.advance(10);
    let request = world.requests.get_mut(&1).unwrap().pop_front().unwrap();
    let refused = Answer {
        code: ErrorCode::InvalidRecord,
        record_errors: vec![(1, Some("no key".to_owned()))],
        ..answer(Ok(0))
    };
    world.dispatch.answered(request.id, vec![Some(refused)], world.now());
    let words: Vec<_> = world
        .sent
        .iter()
        .map(|sent| sent.handle.result(sent.index, 0).unwrap().unwrap_err().to_string())
        .collect();
    assert!(!words[0].contains("no key") && words[1].contains("no key"), "{words:?}");
    assert!(words.iter().all(|text| text.contains("INVALID_RECORD")), "{words:?}");
}

#[test]
fn a_batch_too_large_is_halved_until_it_fits() {
    let mut world = World::new(settings(), 1, 2_000);
    world.logs[0].max_batch_records = Some(3);
    for _ in 0..20 {
        world.append(0);
    }
    world.settle();
    check_all(&world);
    assert_eq!(world.logs[0].producers[&1].epoch, 0, "nothing was lost");
}

/// Its number is another one since the batch before it was lost. It failed as a whole.
#[test]
fn a_batch_with_a_new_number_is_halved_if_it_was_too_large_under_the_old_one() {
    let mut world = begun();
    for _ in 0..3 {
        world.append(0);
        send(&mut world);
    }
    assert_eq!(world.requests[&1].len(), 3);
    world.logs[0].refuse_next = Some(ErrorCode::InvalidRecord);
    world.deliver(1);
    world.deliver(1);
    world.logs[0].max_batch_records = Some(1);
    world.deliver(1);
    (0..3).for_each(|_| world.respond(1));
    world.settle();
    let fates: Vec<_> = world.offsets(0).into_iter().map(|(_, offset)| offset).collect();
    assert_eq!(fates, [Some(0), None, None, Some(1), Some(2), Some(3), Some(4)]);
}

/// The batch was written and the answer lost. Then the topic's limit was lowered: the halves were
/// refused as too late for their numbers, and written again with new ones.
#[test]
fn halves_of_a_batch_that_is_written_are_not_written_again() {
    let mut world = begun();
    for _ in 0..4 {
        world.append(0);
    }
    world.advance(5);
    world.disconnect(1, 1);
    world.logs[0].max_batch_records = Some(2);
    world.append(0);
    world.settle();
    let values = &world.logs[0].values;
    assert_eq!(values, &[0, 2, 3, 4, 5, 6]);
    let fates: Vec<_> = world.offsets(0).into_iter().map(|(_, offset)| offset).collect();
    assert_eq!(fates, [Some(0), None, None, None, None, Some(5)], "their fate is not known");
}

#[test]
fn halves_of_a_batch_that_never_arrived_are_written() {
    let mut world = begun();
    for _ in 0..4 {
        world.append(0);
    }
    world.advance(5);
    world.disconnect(1, 0);
    world.logs[0].max_batch_records = Some(2);
    world.settle();
    check_all(&world);
}

#[test]
fn one_record_too_large_fails_and_lets_others_pass() {
    let mut world = World::new(settings(), 1, 2_000);
    world.logs[0].max_batch_records = Some(0);
    world.append(0);
    world.advance(10);
    world.deliver(1);
    world.respond(1);
    world.logs[0].max_batch_records = None;
    world.append(0);
    world.settle();
    assert_eq!(world.offsets(0), [(0, None), (1, Some(0))]);
}

#[test]
fn what_takes_too_long_fails_with_what_went_wrong_last() {
    let mut world = world();
    world.append(0);
    world.advance(10);
    world.disconnect(1, 0);
    world.advance(121_000);
    let sent = &world.sent[0];
    let error = sent.handle.result(sent.index, 0).unwrap().unwrap_err();
    assert!(matches!(&*error, ClientError::DeliveryTimeout { after_ms: 120_000, .. }));
    assert!(error.to_string().contains("NETWORK_EXCEPTION"), "{error}");
}

#[test]
fn a_producer_that_is_refused_finally_fails_everything() {
    let mut world = world();
    world.append(0);
    world.advance(10);
    world.append(1);
    let why = ClientError::broker(ErrorCode::ClusterAuthorizationFailed, "InitProducerId");
    world.dispatch.fail_finally(why);
    world.plan();
    assert!(world.accumulator.is_idle());
    assert!(world.offsets(0)[0].1.is_none() && world.offsets(1)[0].1.is_none());
}

#[test]
fn the_last_epoch_is_followed_by_a_new_producer_id() {
    let mut world = world();
    world.identities = 1;
    world.dispatch.identified(Identity { producer_id: 1, epoch: i16::MAX });
    world.logs[0].refuse_next = Some(ErrorCode::InvalidRecord);
    for _ in 0..2 {
        world.append(0);
        world.advance(10);
    }
    world.settle();
    assert_eq!(world.logs[0].producers.keys().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn without_acks_a_record_is_delivered_when_it_left() {
    let mut world = World::new(Settings { idempotent: false, ..settings() }, 1, 200);
    world.append(0);
    world.advance(10);
    let request = world.requests.get_mut(&1).unwrap().pop_front().unwrap();
    world.dispatch.left(request.id);
    assert_eq!(world.offsets(0), [(0, Some(-1))]);
}

#[test]
fn short_queues_and_writable_partitions_are_preferred() {
    let mut world = World::new(settings(), 3, 200);
    fill(&mut world, 0, 3);
    world.dispatch.update_loads(|_, partition| partition != 2);
    let topic = world.accumulator.follow("t", Uuid::ZERO, 3);
    let picked: Vec<_> = (0..40)
        .map(|_| {
            let partition = topic.sticky().current(3);
            topic.sticky().sent(partition, 400, true, 200, 3);
            partition
        })
        .collect();
    assert!(!picked[1..].contains(&2));
    let of_one = picked.iter().filter(|partition| **partition == 1).count();
    assert!(of_one > 20, "{picked:?}");
}

#[test]
fn stamps_are_given_once_until_they_are_replaced() {
    let mut world = begun();
    fill(&mut world, 0, 2);
    world.plan();
    let before = world.dispatch.tracks[0].stamps();
    world.disconnect(1, 1);
    assert_eq!(world.dispatch.tracks[0].stamps(), before);
    world.settle();
    check_all(&world);
}

/// A leader that was cut off waited for its replicas until the request's timeout was over, 30 s,
/// though another broker led.
#[test]
fn what_a_silent_broker_got_is_taken_back_when_another_one_leads() {
    let mut world = World::new(settings(), 2, 1_000);
    world.append(0);
    *world.clock.lock() += Duration::from_millis(5);
    let plan = world.plan();
    assert_eq!(world.requests[&1].len(), 1);
    assert_eq!(plan.wake_at, Some(world.now() + Duration::from_secs(3)), "nothing else wakes it");
    *world.clock.lock() += Duration::from_millis(2_999);
    let plan = world.plan();
    assert_eq!((plan.silent, plan.replaced), (vec![], vec![]));
    world.leaders[0] = led(2, 1);
    assert_eq!(world.plan().replaced, vec![], "it is not silent for long");
    *world.clock.lock() += Duration::from_millis(1);
    let plan = world.plan();
    assert_eq!((plan.silent, plan.replaced), (vec![1], vec![1]));
    world.leaders[0] = led(1, 1);
    let plan = world.plan();
    assert_eq!((plan.silent, plan.replaced), (vec![], vec![]), "it leads on");
    world.leaders[0] = led(2, 2);
    world.disconnect(1, 0);
    world.settle();
    assert_eq!(world.offsets(0), [(0, Some(0))]);
}
