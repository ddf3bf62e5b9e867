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
            ring.push(Offset(end), Position(i as u32 * 10), 10);
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
