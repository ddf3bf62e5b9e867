#![allow(clippy::unwrap_used)]
use super::*;
use crate::clock::ManualClock;
use crate::metadata::ConfigResource;
use kafkalite_protocol::compression::compress;
use kafkalite_telemetry::Number;

const MAX_BYTES: usize = 1_000;
const NONE: ErrorCode = ErrorCode::None;

/// A room, its clock, and the metadata that its requests see.
struct Fixture {
    clock: Arc<ManualClock>,
    image: MetadataImage,
    room: Arc<ClientMetrics>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(0));
        let room = ClientMetrics::new(clock.clone(), &Metrics::new());
        Self { clock, image: MetadataImage::default(), room }
    }

    /// A room with a subscription of everything each second.
    fn with_all_metrics() -> Self {
        let mut fixture = Self::new();
        fixture.subscribe("all", &[("metrics", "*"), ("interval.ms", "1000")]);
        fixture
    }

    fn subscribe(&mut self, name: &str, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        self.image.replace_configs(&ConfigResource::client_metrics(name), configs.collect());
        self.image.offset += 1;
    }

    fn wait_ms(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    fn ask(&self, id: Uuid) -> Result<Granted, ErrorCode> {
        self.room.subscriptions(&self.image, id, client("app", 1))
    }

    fn push(&self, granted: &Granted, metrics: &[u8]) -> ErrorCode {
        self.push_as(Push { metrics: Bytes::copy_from_slice(metrics), ..push(granted) })
    }

    fn push_as(&self, push: Push) -> ErrorCode {
        self.room.push(&self.image, MAX_BYTES, client("app", 1), push)
    }

    /// What the client last reported: each metric and what is shown of it.
    fn reported(&self, granted: &Granted) -> Vec<(String, f64)> {
        let report = self.room.find(granted.instance_id).unwrap().report.unwrap();
        let series = report.series.iter();
        series.map(|one| (one.point.metric.clone(), one.current().as_f64())).collect()
    }
}

fn client(id: &str, connection_id: u64) -> Client {
    let peer = "127.0.0.1:4711".parse().unwrap();
    Client::new(Some(id), Some(("librdkafka", "2.5.0")), peer, connection_id)
}

fn push(granted: &Granted) -> Push {
    Push {
        instance_id: granted.instance_id,
        subscription_id: granted.subscription_id,
        is_terminating: false,
        compression_type: 0,
        metrics: Bytes::new(),
    }
}

/// An embedded message, or bytes, of protobuf.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

/// A report of one number under each of these names: a gauge, or with `delta` a difference.
fn report(metrics: &[(&str, i64)], delta: bool) -> Vec<u8> {
    let metric = |(name, value): &(&str, i64)| {
        let mut point = vec![6 << 3 | 1];
        point.extend_from_slice(&value.to_le_bytes());
        let mut data = field(1, &point);
        if delta {
            data.extend_from_slice(&[2 << 3, 1, 3 << 3, 1]);
        }
        let metric = [field(1, name.as_bytes()), field(if delta { 7 } else { 5 }, &data)];
        field(2, &metric.concat())
    };
    let metrics: Vec<u8> = metrics.iter().flat_map(metric).collect();
    field(1, &field(2, &metrics))
}

#[test]
fn without_a_subscription_nothing_is_asked_for() {
    let fixture = Fixture::new();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    assert_eq!((granted.asked.metrics.len(), granted.asked.interval_ms), (0, 300_000));
    assert!(!granted.instance_id.is_zero());
    let other = fixture.ask(Uuid::ZERO).unwrap();
    assert_ne!((other.instance_id, other.subscription_id), (granted.instance_id, 0));
}

#[test]
fn subscriptions_that_match_are_united() {
    let mut fixture = Fixture::new();
    fixture.subscribe("a", &[("metrics", "x.,y."), ("interval.ms", "2000")]);
    fixture.subscribe("b", &[("metrics", "y.,z."), ("match", "client_id=app")]);
    fixture.subscribe("c", &[("metrics", "*"), ("match", "client_id=other")]);
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    assert_eq!(
        (&granted.asked.metrics[..], granted.asked.interval_ms),
        (&["x.".to_owned(), "y.".to_owned(), "z.".to_owned()][..], 2_000)
    );
    let other = fixture.room.subscriptions(&fixture.image, Uuid::ZERO, client("other", 2));
    assert_eq!(other.unwrap().asked.metrics, ["*"]);
}

#[test]
fn a_client_pushes_once_in_each_interval() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    let throttled = ErrorCode::ThrottlingQuotaExceeded;
    // The first push after a question may come at any time: clients spread them.
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, b""), NONE);
    assert_eq!(fixture.push(&granted, b""), throttled);
    assert_eq!(fixture.ask(granted.instance_id).unwrap_err(), throttled);
    fixture.wait_ms(999);
    assert_eq!(fixture.push(&granted, b""), throttled);
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, b""), NONE);
    fixture.wait_ms(1_000);
    assert_eq!(fixture.ask(granted.instance_id).unwrap().subscription_id, granted.subscription_id);
}

#[test]
fn a_changed_subscription_counts_at_once() {
    let mut fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, &report(&[("m", 1)], false)), NONE);
    fixture.subscribe("all", &[("metrics", "m"), ("interval.ms", "500")]);
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, b""), ErrorCode::UnknownSubscriptionId);
    // What was reported is of another question.
    assert!(fixture.room.find(granted.instance_id).unwrap().report.is_none());
    let changed = fixture.ask(granted.instance_id).unwrap();
    assert_eq!(
        (&changed.asked.metrics[..], changed.asked.interval_ms),
        (&["m".to_owned()][..], 500)
    );
    assert_ne!(changed.subscription_id, granted.subscription_id);
}

/// The version of the image counts, not the order in which threads come.
#[test]
fn an_older_image_changes_nothing() {
    let mut fixture = Fixture::with_all_metrics();
    let older = fixture.image.clone();
    fixture.subscribe("all", &[("metrics", "m")]);
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    let late = fixture.room.subscriptions(&older, granted.instance_id, client("app", 1));
    assert_eq!(late.unwrap_err(), ErrorCode::ThrottlingQuotaExceeded);
    assert_eq!(fixture.room.find(granted.instance_id).unwrap().asked.metrics, ["m"]);
}

#[test]
fn each_mistake_has_its_error() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    for (mistake, error) in [
        (Push { instance_id: Uuid::ZERO, ..push(&granted) }, ErrorCode::InvalidRequest),
        (Push { instance_id: ONE, ..push(&granted) }, ErrorCode::InvalidRequest),
        (Push { subscription_id: 0, ..push(&granted) }, ErrorCode::UnknownSubscriptionId),
        (Push { compression_type: 5, ..push(&granted) }, ErrorCode::UnsupportedCompressionType),
        (Push { compression_type: -1, ..push(&granted) }, ErrorCode::UnsupportedCompressionType),
        (
            Push { metrics: vec![0; MAX_BYTES + 1].into(), ..push(&granted) },
            ErrorCode::TelemetryTooLarge,
        ),
        (Push { metrics: b"\xff"[..].into(), ..push(&granted) }, ErrorCode::InvalidRecord),
        (
            Push { metrics: b"x"[..].into(), compression_type: 4, ..push(&granted) },
            ErrorCode::InvalidRecord,
        ),
    ] {
        fixture.wait_ms(1_000);
        let words = format!("{mistake:?}");
        assert_eq!(fixture.push_as(mistake), error, "{words}");
        assert!(fixture.room.find(granted.instance_id).unwrap().report.is_none());
    }
}

/// After these errors a client asks again at once.
#[test]
fn a_client_with_the_wrong_subscription_may_ask_at_once() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    for mistake in [
        Push { subscription_id: 0, ..push(&granted) },
        Push { compression_type: 9, ..push(&granted) },
    ] {
        fixture.wait_ms(1_000);
        assert_ne!(fixture.push_as(mistake), NONE);
        assert!(fixture.ask(granted.instance_id).is_ok());
        assert!(fixture.ask(granted.instance_id).is_err());
    }
}

#[test]
fn a_client_that_ends_pushes_early_and_once() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, b""), NONE);
    let last = || Push { is_terminating: true, ..push(&granted) };
    assert_eq!(fixture.push_as(last()), NONE);
    assert!(fixture.room.find(granted.instance_id).unwrap().is_terminating);
    assert_eq!(fixture.push_as(last()), ErrorCode::InvalidRequest);
}

#[test]
fn a_new_connection_begins_again() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    fixture.wait_ms(1);
    assert_eq!(fixture.push(&granted, &report(&[("m", 1)], false)), NONE);
    let push = push(&granted);
    assert_eq!(fixture.room.push(&fixture.image, MAX_BYTES, client("app", 2), push), NONE);
    assert_eq!(fixture.room.count(), 1);
    assert_eq!(fixture.reported(&granted), [("m".to_owned(), 1.0)]);
}

#[test]
fn reports_come_in_every_codec() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    for (value, codec) in (1..).zip(Codec::ALL) {
        fixture.wait_ms(1_000);
        let metrics = compress(codec, &report(&[("m", value)], false)).unwrap().into();
        let compression_type = codec.id().cast_signed();
        assert_eq!(fixture.push_as(Push { metrics, compression_type, ..push(&granted) }), NONE);
        assert_eq!(fixture.reported(&granted), [("m".to_owned(), value as f64)]);
    }
}

#[test]
fn a_push_that_grows_too_large_is_refused() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    for (length, error) in [
        (MAX_INFLATION * MAX_BYTES + 1, ErrorCode::TelemetryTooLarge),
        (MAX_INFLATION * MAX_BYTES - 10, NONE),
    ] {
        fixture.wait_ms(1_000);
        // A field of bytes that no message here knows.
        let metrics = compress(Codec::Zstd, &field(15, &vec![0; length])).unwrap().into();
        let push = Push { metrics, compression_type: 4, ..push(&granted) };
        assert_eq!(fixture.push_as(push), error, "{length}");
    }
}

#[test]
fn differences_are_added_up() {
    let fixture = Fixture::with_all_metrics();
    let granted = fixture.ask(Uuid::ZERO).unwrap();
    let shown = |all: &[(&str, f64)]| -> Vec<(String, f64)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    for (pushed, delta, expected) in [
        (&[("a", 2), ("b", 5)][..], true, shown(&[("a", 2.0), ("b", 5.0)])),
        (&[("a", 3)], true, shown(&[("a", 5.0), ("b", 5.0)])),
        (&[("b", 1), ("a", 0)], true, shown(&[("b", 6.0), ("a", 5.0)])),
        // Another kind under the same name begins again.
        (&[("a", 1)], false, shown(&[("a", 1.0), ("b", 6.0)])),
    ] {
        fixture.wait_ms(1_000);
        assert_eq!(fixture.push(&granted, &report(pushed, delta)), NONE);
        assert_eq!(fixture.reported(&granted), expected);
    }
    let report = fixture.room.reports().pop().unwrap();
    assert_eq!(report.series[1].point.value, Number::Int(0));
}

#[test]
fn silent_clients_are_forgotten() {
    let mut fixture = Fixture::with_all_metrics();
    let brief = fixture.ask(Uuid::ZERO).unwrap();
    fixture.subscribe("all", &[("metrics", "*"), ("interval.ms", "30000")]);
    let long = fixture.ask(Uuid::ZERO).unwrap();
    fixture.wait_ms(60_000);
    assert_eq!(fixture.room.count(), 1);
    assert!(fixture.room.find(brief.instance_id).is_none());
    fixture.wait_ms(30_000);
    assert!(fixture.room.find(long.instance_id).is_none());
}

#[test]
fn clients_and_memory_are_bounded() {
    let fixture = Fixture::with_all_metrics();
    let first = fixture.ask(Uuid::ZERO).unwrap();
    for _ in 0..instances::MAX_INSTANCES {
        fixture.ask(Uuid::ZERO).unwrap();
    }
    assert_eq!(fixture.room.count(), instances::MAX_INSTANCES);
    assert!(fixture.room.find(first.instance_id).is_none());
    let listed = fixture.room.list(Uuid::ZERO, 3, |_| true);
    let next = fixture.room.list(listed[1].instance_id, 1, |_| true);
    assert_eq!(next[0].instance_id, listed[2].instance_id);
}

#[test]
fn the_oldest_reports_make_room_for_new_ones() {
    let fixture = Fixture::with_all_metrics();
    let names: Vec<String> = (0..4_000).map(|i| format!("{i:>0200}")).collect();
    let metrics: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let large = report(&metrics, false);
    let grant = |_| fixture.ask(Uuid::ZERO).unwrap();
    let granted: Vec<Granted> = (0..40).map(grant).collect();
    fixture.wait_ms(1);
    for one in &granted {
        let push = Push { metrics: large.clone().into(), ..push(one) };
        assert_eq!(fixture.room.push(&fixture.image, 1 << 20, client("app", 1), push), NONE);
    }
    let kept = |one: &Granted| fixture.room.find(one.instance_id).unwrap().report.is_some();
    assert!(!kept(&granted[0]) && kept(&granted[39]));
    let bytes: usize = fixture.room.reports().iter().map(|report| report.bytes).sum();
    assert!(bytes <= 32 << 20, "{bytes}");
    let report = fixture.room.find(granted[39].instance_id).unwrap().report.unwrap();
    assert_eq!(report.series.len() + report.omitted, 4_000);
}
