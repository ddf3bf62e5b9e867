use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn it_behaves_like_a_sorted_map(
        steps in prop::collection::vec((0_u8..3, 0_u16..600), 0..2_000),
    ) {
        let mut map = SharedMap::default();
        let mut model = BTreeMap::new();
        for (step, (action, key)) in steps.into_iter().enumerate() {
            if action == 0 {
                prop_assert_eq!(map.remove(&key), model.remove(&key));
            } else {
                prop_assert_eq!(map.insert(key, step), model.insert(key, step));
            }
            prop_assert_eq!(map.len(), model.len());
            prop_assert_eq!(map.get(&key), model.get(&key));
        }
        prop_assert!(map.iter().eq(model.iter()));
        for key in [0, 1, 300, 599, 700] {
            prop_assert!(map.iter_from(&key).eq(model.range(key..)), "from {}", key);
        }
    }
}

#[test]
fn a_copy_keeps_what_it_was_and_shares_the_rest() {
    let mut map = SharedMap::default();
    for key in 0..1_000 {
        map.insert(key, key);
    }
    let before = map.clone();
    map.insert(500, -1);
    assert_eq!((before.get(&500), map.get(&500)), (Some(&500), Some(&-1)));
    let pairs = before.pages.iter().zip(&map.pages);
    assert_eq!(pairs.filter(|(old, new)| !Arc::ptr_eq(old, new)).count(), 1);
}

proptest! {
    #[test]
    fn differences_are_what_changed_between_two_copies(
        first in prop::collection::vec((0_u8..3, 0_u16..600), 0..1_000),
        second in prop::collection::vec((0_u8..3, 0_u16..600), 0..20),
    ) {
        let mut map = SharedMap::default();
        let mut apply = |steps: Vec<(u8, u16)>, round: usize| {
            for (step, (action, key)) in steps.into_iter().enumerate() {
                if action == 0 {
                    map.remove(&key);
                } else {
                    map.insert(key, (key, round, step));
                }
            }
            map.clone()
        };
        let (before, after) = (apply(first, 0), apply(second, 1));
        let keys: std::collections::BTreeSet<_> =
            before.iter().chain(after.iter()).map(|(key, _)| *key).collect();
        let pairs = keys.iter().map(|key| (before.get(key), after.get(key)));
        let expected: Vec<_> = pairs.filter(|(old, new)| old != new).collect();
        prop_assert_eq!(before.differences(&after, |old, new| old == new), expected);
    }
}

#[test]
fn comparing_a_copy_with_one_change_looks_at_one_page() {
    let mut map = SharedMap::default();
    for key in 0..10_000 {
        map.insert(key, key);
    }
    let before = map.clone();
    map.insert(5_000, -1);
    let looked_at = std::cell::Cell::new(0);
    let same = |old: &i32, new: &i32| {
        looked_at.set(looked_at.get() + 1);
        old == new
    };
    assert_eq!(before.differences(&map, same), [(Some(&5_000), Some(&-1))]);
    assert!(looked_at.get() <= PAGE, "{} entries", looked_at.get());
}
