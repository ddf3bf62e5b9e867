//! A report as it is kept, and totals of what came as differences.

use std::collections::HashMap;

use kafkalite_telemetry::{Labels, Number, Point, PointKind, Report, bytes_of};

use super::BOUNDS;

/// The last report of a client.
#[derive(Debug, Default, PartialEq)]
pub struct Received {
    /// When it came, in ms since 1970.
    pub wall_ms: i64,
    /// What holds for all of it.
    pub labels: Labels,
    /// What it says, in its order; what it does not say of earlier differences comes last.
    pub series: Vec<Series>,
    /// Points that are not kept.
    pub omitted: usize,
    /// The memory that the labels and the series take.
    pub bytes: usize,
}

/// A value under some labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The value as it was pushed.
    pub point: Point,
    /// Of a difference: the sum of all that this broker has received.
    pub total: Option<Number>,
}

impl Series {
    /// What to show of it: the value, or the sum of the differences.
    #[must_use]
    pub fn current(&self) -> Number {
        self.total.unwrap_or(self.point.value)
    }
}

impl Received {
    /// The report, behind the one before.
    pub(super) fn new(report: Report, before: Option<&Self>, wall_ms: i64) -> Self {
        let earlier = || before.iter().flat_map(|before| &before.series);
        let mut totals: HashMap<(&str, &Labels), Number> = HashMap::new();
        for series in earlier() {
            if let Some(total) = series.total {
                totals.insert(key(&series.point), total);
            }
        }
        let mut of_points = Vec::with_capacity(report.points.len());
        for point in &report.points {
            let before = totals.remove(&key(point));
            of_points.push(match (point.kind, before) {
                (PointKind::Delta, Some(before)) => Some(before.plus(point.value)),
                (PointKind::Delta, None) => Some(point.value),
                _ => None,
            });
        }
        // A counter that did not move may be missing: its total stays.
        let missing: Vec<&Series> =
            earlier().filter(|series| totals.contains_key(&key(&series.point))).collect();
        let Report { labels, points, omitted } = report;
        let bytes = bytes_of(&labels);
        let mut received = Self { wall_ms, labels, omitted, bytes, ..Self::default() };
        for (point, total) in points.into_iter().zip(of_points) {
            received.add(Series { point, total });
        }
        for series in missing {
            let point = Point { value: Number::Int(0), ..series.point.clone() };
            received.add(Series { point, total: series.total });
        }
        received
    }

    fn add(&mut self, series: Series) {
        let bytes = self.bytes + series.point.bytes();
        if self.series.len() < BOUNDS.points && bytes <= BOUNDS.kept_bytes {
            self.bytes = bytes;
            self.series.push(series);
        } else {
            self.omitted += 1;
        }
    }
}

/// What tells a series from others.
fn key(point: &Point) -> (&str, &Labels) {
    (&point.metric, &point.labels)
}
