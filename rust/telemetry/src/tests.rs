use super::messages::AnyValue;
use super::*;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { points: 3, labels: 2, text_bytes: 8, kept_bytes: 10_000 };

fn bytes(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn label(key: &str, value: AnyValue) -> Bytes {
    bytes(&KeyValue { key: key.to_owned(), value: Some(value) })
}

fn text(value: &str) -> AnyValue {
    AnyValue { string_value: Some(value.to_owned()), ..AnyValue::default() }
}

fn int(value: i64, attributes: Vec<Bytes>) -> Bytes {
    bytes(&NumberDataPoint { as_int: Some(value), as_double: None, attributes })
}

fn points(data_points: Vec<Bytes>) -> Bytes {
    bytes(&Points { data_points, ..Points::default() })
}

fn sum(data_points: Vec<Bytes>, aggregation_temporality: i32, is_monotonic: bool) -> Bytes {
    bytes(&Points { data_points, aggregation_temporality, is_monotonic })
}

fn payload(resource: Vec<Bytes>, metrics: &[Metric]) -> Bytes {
    let metrics = metrics.iter().map(bytes).collect();
    let resource = bytes(&Resource { attributes: resource });
    let scopes = vec![bytes(&ScopeMetrics { metrics })];
    let all = ResourceMetrics { resource: Some(resource), scope_metrics: scopes };
    bytes(&MetricsData { resource_metrics: vec![bytes(&all)] })
}

fn metric(name: &str) -> Metric {
    Metric { name: name.to_owned(), ..Metric::default() }
}

#[test]
fn gauges_and_sums_are_read_with_their_labels() {
    let double = bytes(&NumberDataPoint { as_double: Some(0.5), ..NumberDataPoint::default() });
    let labelled = vec![
        label("topic", text("orders")),
        label("node", AnyValue { int_value: Some(-7), ..AnyValue::default() }),
    ];
    let payload = payload(
        vec![label("group", text("g"))],
        &[
            Metric { gauge: Some(points(vec![double])), ..metric("g") },
            Metric { sum: Some(sum(vec![int(3, labelled)], 1, true)), ..metric("d") },
            Metric { sum: Some(sum(vec![int(4, vec![])], 2, true)), ..metric("s") },
        ],
    );
    let report = Report::decode(payload, &BOUNDS).expect("a good payload");
    let labels = |all: &[(&str, &str)]| -> Labels {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(report.labels, labels(&[("group", "g")]));
    let point = |metric: &str, of: &[(&str, &str)], kind, value| Point {
        metric: metric.to_owned(),
        labels: labels(of),
        kind,
        value,
    };
    let expected = [
        point("g", &[], PointKind::Gauge, Number::Double(0.5)),
        point("d", &[("node", "-7"), ("topic", "orders")], PointKind::Delta, Number::Int(3)),
        point("s", &[], PointKind::Sum, Number::Int(4)),
    ];
    assert_eq!((&report.points[..], report.omitted), (&expected[..], 0));
}

#[test]
fn what_is_beyond_a_bound_is_counted_and_left_out() {
    let many = |count| points((0..count).map(|i| int(i, vec![])).collect());
    let payload = payload(
        vec![label("a", text("1")), label("b", text("2")), label("c", text("3"))],
        &[
            Metric { gauge: Some(many(2)), ..metric("12345678ä") },
            Metric { histogram: Some(many(5)), ..metric("h") },
            Metric { gauge: Some(points(vec![Bytes::new()])), ..metric("without a number") },
            Metric { gauge: Some(many(4)), ..metric("1234567ä") },
        ],
    );
    let report = Report::decode(payload, &BOUNDS).expect("a good payload");
    let names: Vec<&str> = report.points.iter().map(|point| point.metric.as_str()).collect();
    assert_eq!(names, ["12345678", "12345678", "1234567"]);
    assert_eq!(report.omitted, 5 + 1 + 3);
    assert_eq!(report.labels.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn points_are_kept_while_there_is_memory_for_them() {
    let long = vec![label("topic", text("orders-1"))];
    let all = points(vec![int(1, long.clone()), int(2, long), int(3, vec![])]);
    let payload = payload(vec![], &[Metric { gauge: Some(all), ..metric("m") }]);
    let room = size_of::<Point>() * 2 + size_of::<(String, String)>() + 20;
    let report = Report::decode(payload, &Bounds { kept_bytes: room, ..BOUNDS });
    let report = report.expect("a good payload");
    let values: Vec<Number> = report.points.iter().map(|point| point.value).collect();
    assert_eq!((values, report.omitted), (vec![Number::Int(1), Number::Int(3)], 1));
    assert!(report.points.iter().map(Point::bytes).sum::<usize>() <= room);
}

/// A field that comes twice is read into the memory of the first, which may be large.
#[test]
fn a_text_keeps_no_more_memory_than_its_bound() {
    let twice = |text: &str, long: &str| {
        let one = |value: &str| KeyValue { key: value.to_owned(), value: None }.encode_to_vec();
        Bytes::from([one(long), one(text)].concat())
    };
    let long = "x".repeat(100_000);
    let all = points(vec![int(1, vec![twice("b", &long)])]);
    let payload = payload(vec![twice("a", &long)], &[Metric { gauge: Some(all), ..metric("m") }]);
    let report = Report::decode(payload, &BOUNDS).expect("a good payload");
    let labels = report.labels.iter().chain(&report.points[0].labels);
    let kept: Vec<_> = labels.map(|(name, _)| (name.as_str(), name.capacity())).collect();
    assert!(kept.iter().all(|(_, bytes)| *bytes <= BOUNDS.text_bytes), "{kept:?}");
    assert_eq!(kept.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn what_is_no_payload_is_refused() {
    for damaged in [&b"\xff"[..], b"\x0a\x05ab", b"\x0a\x02\x12\x01", b"\x0a\x04\x12\x02\x12\xff"] {
        assert!(Report::decode(Bytes::from_static(damaged), &BOUNDS).is_err(), "{damaged:?}");
    }
    assert_eq!(Report::decode(Bytes::new(), &BOUNDS), Ok(Report::default()));
}

#[test]
fn whole_numbers_stay_whole_and_do_not_overflow() {
    assert_eq!(Number::Int(i64::MAX).plus(Number::Int(1)), Number::Int(i64::MAX));
    assert_eq!(Number::Int(1).plus(Number::Double(0.5)), Number::Double(1.5));
}

proptest! {
    /// Any bytes are read or refused, and never keep more than the bounds.
    #[test]
    fn any_bytes_end_well(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(report) = Report::decode(bytes.into(), &BOUNDS) {
            prop_assert!(report.points.len() <= BOUNDS.points);
        }
    }

    /// A good payload with one byte changed ends well too, and so does its beginning.
    #[test]
    fn a_damaged_payload_ends_well(at in 0usize..200, byte in any::<u8>(), end in 0usize..200) {
        let point = int(1, vec![label("topic", text("orders"))]);
        let good = payload(vec![], &[Metric { gauge: Some(points(vec![point])), ..metric("m") }]);
        let mut damaged = good.to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        let _ = Report::decode(damaged.into(), &BOUNDS);
        let _ = Report::decode(good.slice(..end.min(good.len())), &BOUNDS);
    }
}
