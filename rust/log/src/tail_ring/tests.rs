use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn lookup_agrees_with_a_scan_of_the_last_batches(
        sizes in prop::collection::vec(1_i64..5, 0..3_000), clear_at in 0_usize..4_000,
    ) {
        let mut ring = TailRing::new();
        let mut all: Vec<(i64, i64, u32)> = Vec::new();
        let mut end = 0;
        for (i, size) in sizes.iter().enumerate() {
            if i == clear_at { ring.clear(); all.clear(); }
            ring.push(Offset(end), Position(i as u32 * 10), 10, 0);
            all.push((end, end + size, i as u32 * 10));
            end += size;
        }
        let known = &all[all.len().saturating_sub(CAPACITY)..];
        for offset in (0..end).step_by(3) {
            let batch = known.get(known.partition_point(|batch| batch.1 <= offset));
            let expected = batch.filter(|batch| batch.0 <= offset).map(|batch| batch.2);
            let found = ring.lookup(Offset(offset)).map(|found| found.position.0);
            prop_assert_eq!(found, expected, "offset {}", offset);
        }
    }
}

#[test]
fn a_batch_is_said_to_be_no_younger_than_it_is_and_not_much_older() {
    let mut ring = TailRing::new();
    let mut written = Vec::new();
    // Every second for a minute, then a pause, then the clock is set back by ten minutes.
    let seconds = (0..60).chain(3_600..3_610).chain(3_000..3_020);
    for (offset, second) in (0..).zip(seconds) {
        ring.push(Offset(offset), Position(0), 1, second * 1_000);
        written.push(second * 1_000);
        for (offset, &at_ms) in (0..).zip(&written) {
            let said = ring.lookup(Offset(offset)).expect("all are known").written_ms;
            if let Some(said) = said {
                assert!(said <= at_ms, "batch {offset}, second {second}");
            }
            if at_ms / 1_000 > second - MARK_MS / 1_000 && at_ms / 1_000 <= second {
                let said = said.expect("it was just written");
                assert!(at_ms - said <= MARK_MS, "batch {offset}, second {second}");
            }
        }
    }
    ring.clear();
    ring.push(Offset(0), Position(0), 1, 5);
    assert_eq!(ring.lookup(Offset(0)).and_then(|found| found.written_ms), Some(5));
}
