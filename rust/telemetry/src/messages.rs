//! The part of OpenTelemetry's messages that clients of Kafka fill.
//!
//! Every list is a list of bytes: an embedded message and bytes look the same on the wire. So an
//! element costs 32 bytes until it is decoded by itself, however large its struct is, and elements
//! beyond a bound are never decoded.
//! Source: `opentelemetry/proto/metrics/v1/metrics.proto`, `common.proto` and `resource.proto`.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct MetricsData {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub resource_metrics: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub resource: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub scope_metrics: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub attributes: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub metrics: Vec<Bytes>,
}

/// Of its kinds of data, a client sends the first two.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub gauge: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub sum: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub histogram: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub exponential_histogram: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "11")]
    pub summary: Option<Bytes>,
}

/// The points of any kind of data; the other fields are those of a sum.
#[derive(Clone, PartialEq, Message)]
pub struct Points {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub data_points: Vec<Bytes>,
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// The temporality of a sum since the last push.
pub const DELTA: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct NumberDataPoint {
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    #[prost(sfixed64, optional, tag = "6")]
    pub as_int: Option<i64>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub attributes: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A plain value; lists and maps are left out.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    pub int_value: Option<i64>,
    #[prost(double, optional, tag = "4")]
    pub double_value: Option<f64>,
}
