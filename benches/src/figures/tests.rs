use super::{Histogram, Spread, lowest_of, slot};

#[test]
fn every_slot_begins_where_the_one_before_it_ends() {
    for value in (0..10_000).chain([u64::from(u32::MAX), u64::MAX / 2, u64::MAX]) {
        let lowest = lowest_of(slot(value));
        assert!(lowest <= value, "{value} lies below its slot {lowest}");
        assert!(value - lowest <= value / 64, "{value} is too far from {lowest}");
    }
}

#[test]
fn quantiles_are_exact_for_small_values_and_the_maximum_always_is() {
    let mut histogram = Histogram::default();
    (1..=100).for_each(|value| histogram.record(value));
    histogram.record(1_000_003);
    assert_eq!(histogram.total(), 101);
    assert_eq!(histogram.quantile_ns(0.5), 51);
    assert_eq!(histogram.max_ns(), 1_000_003);
    assert_eq!(histogram.quantile_ns(0.0), 1);
}

#[test]
fn a_spread_is_the_median_with_both_ends() {
    let cases = [
        (vec![], [0.0, 0.0, 0.0]),
        (vec![3.0], [3.0, 3.0, 3.0]),
        (vec![9.0, 1.0, 2.0], [2.0, 1.0, 9.0]),
        (vec![4.0, 1.0, 2.0, 9.0], [3.0, 1.0, 9.0]),
    ];
    for (values, [median, min, max]) in cases {
        assert_eq!(Spread::of(&values), Spread { median, min, max }, "{values:?}");
    }
}
