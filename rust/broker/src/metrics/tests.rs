//! Histograms put durations where they belong, and everything registered is enumerated.

use super::*;

fn request(connection_id: u64, correlation_id: i32) -> RecentRequest {
    RecentRequest {
        api_key: 3,
        api_version: 12,
        correlation_id,
        client_id: None,
        connection_id,
        peer: ([127, 0, 0, 1], 1).into(),
        received_ns: 0,
        started_ns: 0,
        handled_ns: None,
        answered_ns: None,
        taken_ns: None,
        sent_ns: None,
    }
}

#[test]
fn the_ring_keeps_the_last_requests_and_notes_the_right_one() {
    let metrics = Metrics::remembering(3);
    let recent = metrics.recent().expect("it remembers three");
    for correlation_id in 0..5 {
        recent.push(request(u64::from(correlation_id == 3), correlation_id));
    }
    recent.note(1, 3, |entry| entry.sent_ns = Some(7));
    recent.note(1, 4, |entry| entry.sent_ns = Some(8));
    let sent: Vec<_> = recent.all().iter().map(|e| (e.correlation_id, e.sent_ns)).collect();
    assert_eq!(sent, [(2, None), (3, Some(7)), (4, None)]);
    assert!(Metrics::new().recent().is_none());
}

#[test]
fn a_duration_falls_below_its_buckets_upper_bound_and_not_below_the_one_before() {
    for ns in [0u64, 1, 2, 3, 4, 1_000, 1_023, 1_024, (1 << 40) - 1] {
        let histogram = Histogram::default();
        histogram.record(ns);
        let snapshot = histogram.snapshot();
        let bucket = snapshot.buckets.iter().position(|&n| n == 1).expect("one was recorded");
        let upper = HistogramSnapshot::upper_bound_ns(bucket).expect("not the last bucket");
        assert!(ns < upper, "{ns} ns in bucket {bucket}");
        if bucket > 0 {
            let lower = HistogramSnapshot::upper_bound_ns(bucket - 1).expect("not the last");
            assert!(ns >= lower, "{ns} ns in bucket {bucket}");
        }
    }
}

#[test]
fn durations_beyond_the_last_power_are_counted_in_the_last_bucket() {
    let histogram = Histogram::default();
    histogram.record(u64::MAX >> 1);
    assert_eq!(histogram.snapshot().buckets[BUCKETS - 1], 1);
    assert_eq!(HistogramSnapshot::upper_bound_ns(BUCKETS - 1), None);
}

#[test]
fn a_quantile_lies_within_a_factor_of_two() {
    let histogram = Histogram::default();
    for ns in 1..=10_000u64 {
        histogram.record(ns);
    }
    let snapshot = histogram.snapshot();
    for (q, truth) in [(0.5, 5_000u64), (0.99, 9_900), (1.0, 10_000)] {
        let got = snapshot.quantile_ns(q);
        assert!(got >= truth / 2 && got <= truth * 2, "q {q}: {got} for {truth}");
    }
    assert_eq!(Histogram::default().snapshot().quantile_ns(0.5), 0);
}

#[test]
fn snapshots_are_added_and_subtracted_bucket_by_bucket() {
    let histogram = Histogram::default();
    [1, 1_000].iter().for_each(|ns| histogram.record(*ns));
    let before = histogram.snapshot();
    [1_000, 1_000_000].iter().for_each(|ns| histogram.record(*ns));
    let since = histogram.snapshot().since(&before);
    assert_eq!((since.count, since.sum_ns), (2, 1_001_000));
    assert_eq!(before.plus(&since), histogram.snapshot());
    assert_eq!(before.since(&before), HistogramSnapshot::default());
}

#[test]
fn every_recorded_stage_is_enumerated_once_under_its_api() {
    let metrics = Metrics::new();
    metrics.record(Stage::Local, 0, 10);
    metrics.record(Stage::Local, 0, 30);
    metrics.record(Stage::Remote, 1, 5);
    metrics.record(Stage::Total, i16::MAX, 1);
    metrics.record(Stage::Total, -1, 1);
    let mut seen = Vec::new();
    metrics.for_each_stage(|api, stage, h| seen.push((api, stage.name(), h.count, h.sum_ns)));
    assert_eq!(seen, [(0, "local", 2, 40), (1, "remote", 1, 5), (127, "total", 2, 2)]);
}

#[test]
fn counters_times_gauges_and_computed_values_are_enumerated_with_their_labels() {
    let metrics = Metrics::new();
    metrics.counter("a", "", vec![]).add(3);
    metrics.gauge("b", "", vec![("lane", "normal".into())]).set(-2);
    metrics.time("t", "", vec![]).add_ns(1_500_000_000);
    let kept = Arc::new(7);
    metrics.computed("c", "", vec![], &kept, |kept| *kept);
    let mut seen = Vec::new();
    metrics.for_each_scalar(|name, _, labels, value| {
        seen.push((name.to_owned(), labels.len(), value));
    });
    let expected = [
        ("a".to_owned(), 0, Value::Counter(3)),
        ("b".to_owned(), 1, Value::Gauge(-2)),
        ("t".to_owned(), 0, Value::Seconds(1.5)),
        ("c".to_owned(), 0, Value::Gauge(7)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_stages_of_a_request_that_is_answered_before_its_handler_returns_add_up() {
    let mut early = request(1, 1);
    early.handled_ns = Some(50_000);
    early.answered_ns = Some(10_000);
    early.sent_ns = Some(60_000);
    let times = early.times(60_000);
    let stages = [times.handler_ms, times.waited_ms, times.sending_ms];
    assert_eq!(stages, [Some(0.01), Some(0.0), Some(0.05)]);
    assert_eq!(times.total_ms, Some(0.06));
}
