//! What a client says of itself: metrics in OpenTelemetry's `MetricsData`, decoded within bounds.
//!
//! The bytes come from a socket. Decoding costs at most 34 times their length for a moment
//! ([`messages`]), and what is kept is bounded by [`Bounds`]. What is beyond a bound is counted and
//! left out, not refused: a client of Kafka that is refused never pushes again.
//! Source: KIP-714; the protobuf files of OpenTelemetry, whose decoder is prost (ADR 0081).

mod messages;

use bytes::Bytes;
use messages::{
    DELTA, KeyValue, Metric, MetricsData, NumberDataPoint, Points, Resource, ResourceMetrics,
    ScopeMetrics,
};
use prost::{DecodeError, Message};
use thiserror::Error;

/// How much of one report is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Points.
    pub points: usize,
    /// Labels of one point, and of the client as a whole.
    pub labels: usize,
    /// Bytes of a name or of a label's value; longer ones are cut.
    pub text_bytes: usize,
    /// Memory of all points.
    pub kept_bytes: usize,
}

/// Names and values, each name once, in the order of the names.
pub type Labels = Vec<(String, String)>;

/// What a client reported at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What holds for all of it, such as the group of a consumer.
    pub labels: Labels,
    /// The points, in the order of the payload.
    pub points: Vec<Point>,
    /// Points that are not kept: beyond the bound, without a number, or of another kind.
    pub omitted: usize,
}

/// The value of a metric under some labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The metric, such as `org.apache.kafka.consumer.poll.idle.ratio.avg`.
    pub metric: String,
    /// What tells it from other points of the metric.
    pub labels: Labels,
    /// What the number is.
    pub kind: PointKind,
    /// The number.
    pub value: Number,
}

impl Point {
    /// The memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.metric.capacity() + bytes_of(&self.labels)
    }
}

/// The memory that labels take.
#[must_use]
pub fn bytes_of(labels: &Labels) -> usize {
    let label = |(name, value): &(String, String)| {
        size_of::<(String, String)>() + name.capacity() + value.capacity()
    };
    labels.iter().map(label).sum()
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// A value that goes up and down.
    Gauge,
    /// A total since the client began.
    Sum,
    /// What was added since the last report.
    Delta,
}

/// A number as it was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// A fraction; it may be infinite or not a number.
    Double(f64),
}

impl Number {
    /// The number as a fraction; large whole numbers lose digits.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Double(double) => double,
        }
    }

    /// The sum. Whole numbers stay whole, and stop at the greatest.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Self::Int(one.saturating_add(other)),
            _ => Self::Double(self.as_f64() + other.as_f64()),
        }
    }
}

/// The payload is no `MetricsData`.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("the metrics are not MetricsData of OpenTelemetry: {0}")]
pub struct Undecodable(#[from] DecodeError);

impl Report {
    /// Reads an uncompressed payload.
    ///
    /// # Errors
    /// A part within the bounds that is not what OpenTelemetry says.
    pub fn decode(payload: Bytes, bounds: &Bounds) -> Result<Self, Undecodable> {
        let mut report = Self::default();
        let mut room = *bounds;
        for one in MetricsData::decode(payload)?.resource_metrics {
            let ResourceMetrics { resource, scope_metrics } = ResourceMetrics::decode(one)?;
            if let Some(resource) = resource {
                let attributes = Resource::decode(resource)?.attributes;
                add_labels(&mut report.labels, attributes, bounds)?;
            }
            for scope in scope_metrics {
                for metric in ScopeMetrics::decode(scope)?.metrics {
                    report.add(Metric::decode(metric)?, &mut room)?;
                }
            }
        }
        Ok(report)
    }

    fn add(&mut self, metric: Metric, room: &mut Bounds) -> Result<(), Undecodable> {
        let name = cut(metric.name, room);
        let other = [metric.histogram, metric.exponential_histogram, metric.summary];
        for data in other.into_iter().flatten() {
            self.omitted += Points::decode(data)?.data_points.len();
        }
        if let Some(gauge) = metric.gauge {
            let points = Points::decode(gauge)?.data_points;
            self.add_points(&name, PointKind::Gauge, points, room)?;
        }
        if let Some(sum) = metric.sum {
            let sum = Points::decode(sum)?;
            // A sum that may fall is a value that goes up and down.
            let kind = match (sum.aggregation_temporality, sum.is_monotonic) {
                (DELTA, _) => PointKind::Delta,
                (_, true) => PointKind::Sum,
                (_, false) => PointKind::Gauge,
            };
            self.add_points(&name, kind, sum.data_points, room)?;
        }
        Ok(())
    }

    fn add_points(
        &mut self,
        metric: &str,
        kind: PointKind,
        points: Vec<Bytes>,
        room: &mut Bounds,
    ) -> Result<(), Undecodable> {
        for point in points {
            if room.points == 0 {
                self.omitted += 1;
                continue;
            }
            let point = NumberDataPoint::decode(point)?;
            let value = match (point.as_int, point.as_double) {
                (Some(int), _) => Number::Int(int),
                (None, Some(double)) => Number::Double(double),
                (None, None) => {
                    self.omitted += 1;
                    continue;
                }
            };
            let mut labels = Labels::new();
            add_labels(&mut labels, point.attributes, room)?;
            let point = Point { metric: metric.to_owned(), labels, kind, value };
            match room.kept_bytes.checked_sub(point.bytes()) {
                Some(left) => {
                    room.kept_bytes = left;
                    room.points -= 1;
                    self.points.push(point);
                }
                None => self.omitted += 1,
            }
        }
        Ok(())
    }
}

/// Adds labels while there is room; the first value of a name stays.
fn add_labels(labels: &mut Labels, more: Vec<Bytes>, bounds: &Bounds) -> Result<(), Undecodable> {
    for one in more {
        if labels.len() >= bounds.labels {
            return Ok(());
        }
        let KeyValue { key, value } = KeyValue::decode(one)?;
        let value = value.unwrap_or_default();
        let text = value.string_value;
        let text = text.or_else(|| value.int_value.map(|int| int.to_string()));
        let text = text.or_else(|| value.double_value.map(|double| double.to_string()));
        let text = text.or_else(|| value.bool_value.map(|truth| truth.to_string()));
        let text = cut(text.unwrap_or_default(), bounds);
        let key = cut(key, bounds);
        if let Err(at) = labels.binary_search_by(|(name, _)| name.cmp(&key)) {
            labels.insert(at, (key, text));
        }
    }
    Ok(())
}

/// The text, or as much of it as is kept, between two characters. It keeps no more memory than the
/// bound: a short text has that of a long one if a client sends its field twice.
fn cut(mut text: String, bounds: &Bounds) -> String {
    text.truncate(text.floor_char_boundary(bounds.text_bytes));
    if text.capacity() > bounds.text_bytes {
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests;
