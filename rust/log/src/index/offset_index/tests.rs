use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn index() -> OffsetIndex {
    let mut index = OffsetIndex::default();
    index.push(104, Position(4_096));
    index.push(109, Position(8_192));
    index
}

#[test]
fn lookup_finds_the_last_batch_that_ends_at_or_before_the_target() {
    for (target, position) in
        [(0, 0), (103, 0), (104, 4_096), (108, 4_096), (109, 8_192), (u32::MAX, 8_192)]
    {
        assert_eq!(index().lookup(target), Position(position), "target {target}");
    }
}

#[test]
fn truncate_to_drops_the_target_and_what_follows() {
    for (target, last) in [(110, Some(109)), (109, Some(104)), (105, Some(104)), (104, None)] {
        let mut index = index();
        index.truncate_to(target);
        assert_eq!(index.last().map(|last| last.0), last, "target {target}");
    }
}

#[test]
fn trim_drops_a_tail_of_zeros() {
    let mut index = index();
    for _ in 0..100 {
        index.entries.push([0; 8]);
    }
    index.trim(10_000);
    assert_eq!(index.last(), Some((109, Position(8_192))));
}

#[test]
fn trim_drops_entries_beyond_the_log() {
    let mut index = index();
    index.trim(8_192);
    assert_eq!(index.last(), Some((104, Position(4_096))));
}

proptest! {
    #[test]
    fn lookup_agrees_with_a_sorted_map(
        entries in prop::collection::btree_map(any::<u32>(), 0_u32..1 << 30, 0..200),
        targets in prop::collection::vec(any::<u32>(), 1..50),
    ) {
        let mut index = OffsetIndex::default();
        for (relative, position) in &entries { index.push(*relative, Position(*position)); }
        let map: &BTreeMap<u32, u32> = &entries;
        for target in targets.into_iter().chain(map.keys().copied()) {
            let expected = map.range(..=target).next_back().map_or(0, |(_, position)| *position);
            prop_assert_eq!(index.lookup(target), Position(expected));
        }
    }
}
