use super::*;

fn index() -> TimeIndex {
    let mut index = TimeIndex::default();
    index.push(1_000, 10);
    index.push(2_000, 20);
    index
}

#[test]
fn lookup_starts_before_the_first_batch_that_can_hold_the_timestamp() {
    for (timestamp, from) in [(0, 0), (1_000, 0), (1_001, 10), (2_000, 10), (2_001, 20)] {
        let found = index().floor(timestamp).map_or(0, |entry| entry.1);
        assert_eq!(found, from, "timestamp {timestamp}");
    }
}

#[test]
fn a_timestamp_that_does_not_rise_adds_no_entry() {
    let mut index = index();
    index.push(2_000, 30);
    index.push(1_500, 30);
    index.push(-1, 30);
    assert_eq!((index.entries.len(), index.last()), (2, Some((2_000, 20))));
}

#[test]
fn trim_drops_a_tail_of_zeros() {
    let mut index = index();
    for _ in 0..10 {
        index.entries.push([0; 12]);
    }
    index.trim();
    assert_eq!(index.last(), Some((2_000, 20)));
}
