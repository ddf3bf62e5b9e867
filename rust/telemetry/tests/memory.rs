//! What a hostile payload costs while it is decoded.

#![allow(missing_docs)]

use bytes::Bytes;
use kafkalite_telemetry::{Bounds, Report};

#[path = "../../testing/counting.rs"]
mod counting;

use counting::peak_of;

const BOUNDS: Bounds = Bounds { points: 5_000, labels: 16, text_bytes: 256, kept_bytes: 1 << 20 };
const PAYLOAD_BYTES: usize = 1 << 20;

/// `inner` as field `number` of a message.
fn field(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = inner.len();
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(inner);
    out
}

/// Elements without content, two bytes each.
fn many(number: u8) -> Vec<u8> {
    [number << 3 | 2, 0].repeat(PAYLOAD_BYTES / 2)
}

#[test]
fn a_hostile_payload_costs_a_bounded_amount_of_memory() {
    lists_of_nothing_cost_a_bounded_multiple_of_their_length();
    a_report_keeps_no_more_than_its_bounds();
}

fn lists_of_nothing_cost_a_bounded_multiple_of_their_length() {
    let metric = |data: &[u8]| field(1, &field(2, &field(2, data)));
    let point = |data: &[u8]| metric(&field(5, &field(1, data)));
    for (what, payload) in [
        ("resources", many(1)),
        ("scopes", field(1, &many(2))),
        ("metrics", field(1, &field(2, &many(2)))),
        ("points", metric(&field(5, &many(1)))),
        ("points of histograms", metric(&field(9, &many(1)))),
        ("labels", point(&many(7))),
        ("labels of all", field(1, &field(1, &many(1)))),
        ("unknown fields", many(15)),
    ] {
        let payload = Bytes::from(payload);
        let (peak, report) = peak_of(|| Report::decode(payload.clone(), &BOUNDS));
        let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(report.points.len() <= BOUNDS.points, "{what}");
        // 16 for each byte of an element of 32 bytes, and as much again while the list grows.
        let most = 34 * PAYLOAD_BYTES;
        assert!(peak <= most, "{what}: {peak} bytes for {PAYLOAD_BYTES}");
    }
}

/// Every point has as many labels, and as long ones, as it may.
fn a_report_keeps_no_more_than_its_bounds() {
    let label = |name: u8| {
        let name = vec![b'a' + name; 300];
        field(7, &[field(1, &name), field(2, &field(1, &name))].concat())
    };
    let labels: Vec<u8> = (0..20).flat_map(label).collect();
    let mut point = vec![6 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0];
    point.extend_from_slice(&labels);
    let points = field(1, &point).repeat(500);
    let payload = Bytes::from(field(1, &field(2, &field(2, &field(5, &points)))));
    let report = Report::decode(payload, &BOUNDS).unwrap_or_else(|error| panic!("{error}"));
    let kept: usize = report.points.iter().map(kafkalite_telemetry::Point::bytes).sum();
    assert!(kept <= BOUNDS.kept_bytes, "{kept}");
    assert_eq!(report.points.len() + report.omitted, 500);
    let longest = report.points.iter().flat_map(|point| &point.labels).map(|(_, v)| v.len()).max();
    assert_eq!((report.points[0].labels.len(), longest), (16, Some(256)));
}
