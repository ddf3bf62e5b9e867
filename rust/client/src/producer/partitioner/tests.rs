use super::*;
use std::collections::BTreeMap;

#[test]
fn murmur2_gives_what_kafkas_own_tests_expect() {
    // Source: the expectations of Kafka's UtilsTest for `Utils.murmur2`, as signed numbers.
    let cases: [(&[u8], i32); 6] = [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        (b"abc", 479_470_107),
    ];
    for (key, expected) in cases {
        assert_eq!(murmur2(key) as i32, expected, "{key:?}");
    }
}

#[test]
fn a_key_has_one_partition_whatever_its_sign() {
    assert_eq!(partition_of_key(b"21", 100), ((-973_932_308_i32 as u32) & 0x7fff_ffff) % 100);
    assert_eq!(partition_of_key(b"abc", 1), 0);
    assert_eq!(partition_of_key(b"", 7), (murmur2(b"") & 0x7fff_ffff) % 7);
}

#[test]
fn each_partitioner_knows_which_keys_decide() {
    let check = |partitioner, key: Option<&str>, expected| {
        assert_eq!(by_key(partitioner, key.map(str::as_bytes), 10), expected);
    };
    check(PartitionerKind::Murmur2, None, None);
    check(PartitionerKind::Murmur2, Some(""), Some(partition_of_key(b"", 10)));
    // CRC-32 of "123456789" is 0xcbf43926, the check value of the algorithm.
    check(PartitionerKind::ConsistentRandom, Some("123456789"), Some(0xcbf4_3926 % 10));
    check(PartitionerKind::ConsistentRandom, Some(""), None);
    check(PartitionerKind::ConsistentRandom, None, None);
    check(PartitionerKind::RoundRobin, Some("key"), None);
}

#[test]
fn by_turns_every_partition_gets_one() {
    let sticky = Sticky::new(1);
    let seen: Vec<_> = (0..6).map(|_| sticky.next_in_turn(3)).collect();
    assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
}

fn fill(sticky: &Sticky, batches: u32, count: u32) -> Vec<u32> {
    let mut seen = Vec::new();
    for _ in 0..batches {
        let partition = sticky.current(count);
        seen.push(partition);
        for _ in 0..9 {
            sticky.sent(partition, 10, false, 100, count);
            assert_eq!(sticky.current(count), partition, "it moved on before the batch was full");
        }
        sticky.sent(partition, 10, true, 100, count);
    }
    seen
}

#[test]
fn keyless_records_stick_for_a_batch_and_reach_every_partition() {
    let seen = fill(&Sticky::new(7), 400, 4);
    let mut counts = BTreeMap::new();
    for partition in seen {
        *counts.entry(partition).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(counts.values().all(|count| (60..=140).contains(count)), "{counts:?}");
}

#[test]
fn a_batch_that_does_not_end_is_left_after_twice_its_size() {
    let sticky = Sticky::new(3);
    let partition = sticky.current(1_000_000);
    for _ in 0..19 {
        sticky.sent(partition, 10, false, 100, 1_000_000);
        assert_eq!(sticky.current(1_000_000), partition);
    }
    sticky.sent(partition, 10, false, 100, 1_000_000);
    assert_ne!(sticky.current(1_000_000), partition);
}

#[test]
fn with_large_batches_it_moves_on_as_early_as_kafkas() {
    let sticky = Sticky::new(3);
    let partition = sticky.current(1_000_000);
    sticky.sent(partition, 16_383, true, 1_000_000, 1_000_000);
    assert_eq!(sticky.current(1_000_000), partition);
    sticky.sent(partition, 1, true, 1_000_000, 1_000_000);
    assert_ne!(sticky.current(1_000_000), partition);
}

#[test]
fn what_was_sent_elsewhere_does_not_move_it() {
    let sticky = Sticky::new(9);
    let partition = sticky.current(5);
    sticky.sent((partition + 1) % 5, 1_000, true, 100, 5);
    assert_eq!(sticky.current(5), partition);
}

#[test]
fn chances_follow_the_lengths_of_the_queues() {
    // Kafka's own example: lengths 0, 3, 1 give chances 4, 1, 3.
    let loads = Loads::from_queues(&[(0, 0), (1, 3), (2, 1)], 3).expect("the lengths differ");
    assert_eq!(loads.cumulative, [4, 5, 8]);
    let picked: Vec<_> = (0..8).map(|random| loads.pick(random)).collect();
    let expected = [0, 0, 0, 0, 1, 2, 2, 2].map(Some);
    assert_eq!(picked, expected);
}

#[test]
fn equal_queues_need_no_table_unless_a_partition_is_missing() {
    assert_eq!(Loads::from_queues(&[(0, 2), (1, 2)], 2), None);
    assert_eq!(Loads::from_queues(&[], 2), None);
    let without_one = Loads::from_queues(&[(0, 2), (2, 2)], 3).expect("partition 1 is missing");
    assert_eq!(without_one.partitions, [0, 2]);
    let sticky = Sticky::new(11);
    sticky.set_loads(Some(without_one));
    assert!(fill(&sticky, 50, 3).iter().all(|partition| *partition != 1));
}

#[test]
fn a_topic_that_shrank_is_not_sent_to_a_partition_that_is_gone() {
    let sticky = Sticky::new(1);
    while sticky.current(8) < 2 {
        sticky.sent(sticky.current(8), 1_000, true, 100, 8);
    }
    assert!(sticky.current(2) < 2);
}
