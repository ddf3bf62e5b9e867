//! The wheel against a sorted map, and the edges of its levels.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn expired(wheel: &mut TimingWheel<u32>, now_ms: u64) -> Vec<u32> {
    let mut values = Vec::new();
    wheel.advance(now_ms, |value| values.push(value));
    values
}

#[test]
fn an_entry_expires_at_its_deadline_and_not_a_millisecond_before() {
    let spans = [1, 2, 511, 512, 513, 262_143, 262_144, 262_145, 134_217_728, 200_000_000];
    for start in [0, 1, 511, 512, 262_143, 1_000_003] {
        for span in spans {
            let mut wheel = TimingWheel::new(start);
            wheel.insert(start + span, 7);
            assert!(expired(&mut wheel, start + span - 1).is_empty(), "{start} + {span}");
            assert_eq!(expired(&mut wheel, start + span), [7], "{start} + {span}");
            assert!(wheel.is_empty());
        }
    }
}

#[test]
fn a_deadline_in_the_past_expires_at_the_next_millisecond() {
    let mut wheel = TimingWheel::new(1_000);
    wheel.insert(10, 1);
    assert_eq!(wheel.next_event_ms(), Some(1_001));
    assert_eq!(expired(&mut wheel, 1_001), [1]);
}

#[test]
fn an_empty_wheel_has_no_next_event() {
    let mut wheel = TimingWheel::new(0);
    assert_eq!(wheel.next_event_ms(), None);
    let id = wheel.insert(5_000, 1);
    assert!(wheel.next_event_ms().is_some_and(|ms| ms <= 5_000));
    assert_eq!(wheel.cancel(id), Some(1));
    assert_eq!(wheel.next_event_ms(), None);
}

#[test]
fn a_stale_id_cancels_nothing() {
    let mut wheel = TimingWheel::new(0);
    let first = wheel.insert(10, 1);
    assert_eq!(expired(&mut wheel, 10), [1]);
    let second = wheel.insert(20, 2);
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.cancel(second), Some(2));
    assert_eq!(wheel.cancel(second), None);
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Cancel(usize),
    Advance(u64),
    /// Sleep as the owner would: until the next event.
    AdvanceToNext,
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![0..4u64, 500..530u64, 0..600_000u64, 262_000..262_300u64, 0..300_000_000u64]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => span().prop_map(Step::Insert),
        2 => any::<usize>().prop_map(Step::Cancel),
        2 => span().prop_map(Step::Advance),
        2 => Just(Step::AdvanceToNext),
    ]
}

proptest! {
    #[test]
    fn the_wheel_behaves_as_a_sorted_map(
        start in prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from)],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut wheel = TimingWheel::new(start);
        let mut model: BTreeMap<(u64, u32), TimerId> = BTreeMap::new();
        let mut now_ms = start;
        for (value, step) in (0u32..).zip(steps) {
            let to_ms = match step {
                Step::Insert(span) => {
                    let id = wheel.insert(now_ms + span, value);
                    model.insert(((now_ms + span).max(now_ms + 1), value), id);
                    continue;
                }
                Step::Cancel(nth) => {
                    let count = model.len().max(1);
                    if let Some((&key, &id)) = model.iter().nth(nth % count) {
                        prop_assert_eq!(wheel.cancel(id), Some(key.1));
                        model.remove(&key);
                    }
                    continue;
                }
                Step::Advance(span) => now_ms + span,
                Step::AdvanceToNext => wheel.next_event_ms().unwrap_or(now_ms),
            };
            prop_assert!(wheel.next_event_ms().is_none_or(|event| event > now_ms));
            now_ms = to_ms;
            let mut got = expired(&mut wheel, now_ms);
            let later = model.split_off(&(now_ms + 1, 0));
            let mut due: Vec<u32> = model.into_keys().map(|(_, value)| value).collect();
            model = later;
            got.sort_unstable();
            due.sort_unstable();
            prop_assert_eq!(got, due);
            prop_assert_eq!(wheel.len(), model.len());
            let earliest = model.keys().next().map(|key| key.0);
            prop_assert_eq!(wheel.next_event_ms().is_some(), earliest.is_some());
            if let (Some(event), Some(earliest)) = (wheel.next_event_ms(), earliest) {
                prop_assert!(event <= earliest);
            }
        }
    }
}
