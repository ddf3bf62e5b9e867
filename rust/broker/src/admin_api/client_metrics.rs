//! `/client-metrics`: the clients that report metrics of themselves (KIP-714), what they report,
//! and the subscriptions that ask them to.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use kafkalite_protocol::{ErrorCode, Uuid};
use kafkalite_telemetry::{Number, PointKind};
use serde::Serialize;

use super::asked::{Asked, MOST, Search};
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;
use crate::client_metrics::{InstanceView, Series};
use crate::config::describe_client_metrics;
use crate::metadata::{ConfigResourceType, MetadataImage};

#[derive(Serialize)]
struct ClientMetrics {
    broker_id: i32,
    /// Clients that are remembered.
    total: usize,
    /// Of the whole cluster; at most [`MOST`] of them.
    subscriptions: Vec<Subscription>,
    clients: Vec<Client>,
    /// What `after` has to be for the next page.
    next: Option<String>,
}

#[derive(Serialize)]
struct Subscription {
    name: String,
    /// Key -> value; keys that are not set have their defaults.
    configs: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Client {
    instance_id: String,
    client_id: Option<String>,
    software: String,
    software_version: String,
    peer: String,
    /// Prefixes of metrics that it is asked for; `*` is all.
    requested_metrics: Vec<String>,
    push_interval_ms: u32,
    subscription_id: i32,
    /// Its last push said that it ends.
    terminating: bool,
    /// Pushes that were taken.
    pushes: u64,
    /// What its last request got; `None`: no error.
    last_error: Option<&'static str>,
    last_request_ms_ago: u64,
    /// When its last report came, in ms since 1970; `None`: there is none.
    reported_ms: Option<i64>,
    /// Values in its last report, and values that are not kept.
    metrics: usize,
    omitted: usize,
}

#[derive(Serialize)]
struct Described {
    broker_id: i32,
    client: Client,
    /// What holds for the whole report.
    labels: BTreeMap<String, String>,
    /// Values of the report that fit the search.
    total: usize,
    metrics: Vec<Metric>,
    /// What `after` has to be for the next page.
    next: Option<usize>,
}

#[derive(Serialize)]
struct Metric {
    name: String,
    labels: BTreeMap<String, String>,
    kind: &'static str,
    /// As it was pushed; `None`: infinite, or no number.
    value: Option<serde_json::Number>,
    /// Of a delta: the sum of all deltas that this broker received.
    total: Option<serde_json::Number>,
}

/// `GET /client-metrics`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let after = asked.text("after").map(id).transpose()?.unwrap_or(Uuid::ZERO);
    let wants = |view: &InstanceView| is_wanted(view, &search);
    // One more than the page has says that there is a next one.
    let mut found = api.client_metrics.list(after, limit + 1, wants);
    let has_more = found.len() > limit;
    found.truncate(limit);
    json(&ClientMetrics {
        broker_id: api.local_id,
        total: api.client_metrics.count(),
        subscriptions: subscriptions(&api.controller.image()),
        next: found.last().filter(|_| has_more).map(|last| last.instance_id.to_string()),
        clients: found.iter().map(client).collect(),
    })
}

/// `GET /client-metrics/{id}`
pub(super) fn describe(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let after = asked.number("after", 0..=usize::MAX)?.unwrap_or(0);
    let view = api.client_metrics.find(id(asked.part("id"))?).ok_or_else(|| {
        let hint = "GET /api/v1/client-metrics lists the clients.";
        let why = "no client with this id has asked or pushed lately";
        Refusal::new(StatusCode::NOT_FOUND, "the client is not known", why, hint)
    })?;
    let report = view.report.as_deref();
    let fits = |series: &&Series| search.is_empty() || search.wants(&series.point.metric);
    let fitting: Vec<&Series> =
        report.map(|report| report.series.iter().filter(fits).collect()).unwrap_or_default();
    let shown = fitting.iter().skip(after).take(limit);
    let end = after.saturating_add(limit);
    json(&Described {
        broker_id: api.local_id,
        labels: report.map(|report| report.labels.iter().cloned().collect()).unwrap_or_default(),
        total: fitting.len(),
        metrics: shown.map(|series| metric(series)).collect(),
        next: (end < fitting.len()).then_some(end),
        client: client(&view),
    })
}

fn id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::parse(text).ok_or_else(|| {
        let why = "it is not an id of a client: 22 characters of base64";
        let hint = "GET /api/v1/client-metrics lists the clients.";
        Refusal::new(StatusCode::BAD_REQUEST, "the request is refused", why, hint)
    })
}

fn subscriptions(image: &MetadataImage) -> Vec<Subscription> {
    let all = image.configs.iter();
    let all = all.filter(|(owner, _)| owner.resource_type == ConfigResourceType::ClientMetrics);
    let described = all.take(MOST).map(|(owner, configs)| {
        let keys = describe_client_metrics(configs).into_iter();
        let configs = keys.map(|key| (key.name.into_owned(), key.value.unwrap_or_default()));
        Subscription { name: owner.name.clone(), configs: configs.collect() }
    });
    described.collect()
}

fn is_wanted(view: &InstanceView, search: &Search) -> bool {
    search.is_empty()
        || search.wants(view.client.id.as_deref().unwrap_or_default())
        || search.wants(&view.client.software)
        || search.wants(&view.client.peer.to_string())
        || search.wants(&view.instance_id.to_string())
}

fn client(view: &InstanceView) -> Client {
    let report = view.report.as_deref();
    Client {
        instance_id: view.instance_id.to_string(),
        client_id: view.client.id.clone(),
        software: view.client.software.clone(),
        software_version: view.client.software_version.clone(),
        peer: view.client.peer.to_string(),
        requested_metrics: view.asked.metrics.clone(),
        push_interval_ms: view.asked.interval_ms,
        subscription_id: view.subscription_id,
        terminating: view.is_terminating,
        pushes: view.pushes,
        last_error: (view.last_error != ErrorCode::None).then(|| view.last_error.name()),
        last_request_ms_ago: view.last_seen_ms_ago,
        reported_ms: report.map(|report| report.wall_ms),
        metrics: report.map_or(0, |report| report.series.len()),
        omitted: report.map_or(0, |report| report.omitted),
    }
}

fn metric(series: &Series) -> Metric {
    Metric {
        name: series.point.metric.clone(),
        labels: series.point.labels.iter().cloned().collect(),
        kind: match series.point.kind {
            PointKind::Gauge => "gauge",
            PointKind::Sum => "sum",
            PointKind::Delta => "delta",
        },
        value: number(series.point.value),
        total: series.total.and_then(number),
    }
}

fn number(number: Number) -> Option<serde_json::Number> {
    match number {
        Number::Int(int) => Some(int.into()),
        Number::Double(double) => serde_json::Number::from_f64(double),
    }
}
