//! The configuration of a consumer.

use super::client_config::ClientConfig;
use super::key::ClientKind;
use super::values::{Values, parse};
use crate::error::ClientError;
use kafkalite_protocol::nearest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where to begin without a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first record there is.
    Earliest,
    /// At the next record that is written.
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// Which records of transactions are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All.
    ReadUncommitted,
    /// Those of committed transactions, up to the first open one.
    ReadCommitted,
}

impl IsolationLevel {
    /// As Fetch and ListOffsets spell it.
    pub const fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// The assignors there are, by the names members tell each other.
pub const ASSIGNORS: &[&str] = &["range", "roundrobin", "sticky", "cooperative-sticky"];

/// A consumer's keys, as values.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// What every client has.
    pub client: ClientConfig,
    /// `group.id`.
    pub group_id: Option<String>,
    /// `group.instance.id`.
    pub group_instance_id: Option<String>,
    /// `partition.assignment.strategy`: names out of [`ASSIGNORS`], at least one.
    pub assignors: Vec<String>,
    /// `auto.offset.reset`.
    pub auto_offset_reset: AutoOffsetReset,
    /// `enable.auto.commit`; never without a group.
    pub auto_commit: bool,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval: Duration,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`.
    pub max_poll_interval: Duration,
    /// `max.poll.records`.
    pub max_poll_records: usize,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: i32,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait: Duration,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: i32,
    /// `max.partition.fetch.bytes`.
    pub max_partition_fetch_bytes: i32,
    /// `isolation.level`.
    pub isolation_level: IsolationLevel,
    /// `check.crcs`.
    pub check_crcs: bool,
    /// `client.rack`.
    pub client_rack: String,
    /// `exclude.internal.topics`.
    pub exclude_internal_topics: bool,
    /// `kafkalite.fetch.buffer.max.bytes`.
    pub fetch_buffer_max_bytes: usize,
    /// `kafkalite.batch.max.bytes`.
    pub batch_max_bytes: usize,
}

impl ConsumerConfig {
    /// Reads a consumer's configuration.
    pub fn from_pairs(pairs: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        let values = parse(ClientKind::Consumer, pairs)?;
        let client = ClientConfig::from_values(&values)?;
        let text = |name: &str| values.text(name).map(str::to_owned);
        let bytes = |name: &str| i32::try_from(values.number(name)).unwrap_or(i32::MAX);
        let group_id = text("group.id");
        if values.is_set("group.instance.id") && group_id.is_none() {
            let why = "needs a group.id";
            return Err(Values::wrong("group.instance.id", why, None));
        }
        Ok(Self {
            auto_commit: values.flag("enable.auto.commit") && group_id.is_some(),
            group_id,
            group_instance_id: text("group.instance.id"),
            assignors: assignors(&values)?,
            auto_offset_reset: match values.text("auto.offset.reset") {
                Some("earliest") => AutoOffsetReset::Earliest,
                Some("none") => AutoOffsetReset::None,
                _ => AutoOffsetReset::Latest,
            },
            auto_commit_interval: values.ms("auto.commit.interval.ms"),
            session_timeout: values.ms("session.timeout.ms"),
            heartbeat_interval: heartbeat_interval(&values)?,
            max_poll_interval: values.ms("max.poll.interval.ms"),
            max_poll_records: values.count("max.poll.records"),
            fetch_min_bytes: bytes("fetch.min.bytes"),
            fetch_max_wait: values.ms("fetch.max.wait.ms"),
            fetch_max_bytes: bytes("fetch.max.bytes"),
            max_partition_fetch_bytes: bytes("max.partition.fetch.bytes"),
            isolation_level: match values.text("isolation.level") {
                Some("read_committed") => IsolationLevel::ReadCommitted,
                _ => IsolationLevel::ReadUncommitted,
            },
            check_crcs: values.flag("check.crcs"),
            client_rack: text("client.rack").unwrap_or_default(),
            exclude_internal_topics: values.flag("exclude.internal.topics"),
            fetch_buffer_max_bytes: values.count("kafkalite.fetch.buffer.max.bytes"),
            batch_max_bytes: values.count("kafkalite.batch.max.bytes"),
            client,
        })
    }
}

/// Names as members tell them; Java's class names are understood too.
fn assignors(values: &Values) -> Result<Vec<String>, ClientError> {
    let key = "partition.assignment.strategy";
    let mut names = Vec::new();
    for given in values.list(key) {
        let short = given.rsplit('.').next().unwrap_or(given).trim_end_matches("Assignor");
        let name = match short {
            "CooperativeSticky" | "cooperative_sticky" => "cooperative-sticky".to_owned(),
            "RoundRobin" | "round-robin" | "round_robin" => "roundrobin".to_owned(),
            other => other.to_ascii_lowercase(),
        };
        if !ASSIGNORS.contains(&name.as_str()) {
            let hint = nearest(&name, ASSIGNORS.iter().copied());
            let hint = hint.map(|name| format!("did you mean {name}?"));
            let why = format!("`{given}` is not one of {}", ASSIGNORS.join(", "));
            return Err(Values::wrong(key, why, hint.as_deref()));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Err(Values::wrong(key, "names no assignor", None));
    }
    Ok(names)
}

/// Less than the session's timeout, else no heartbeat comes in time. A default that does not fit a
/// shorter session gives way.
fn heartbeat_interval(values: &Values) -> Result<Duration, ClientError> {
    let key = "heartbeat.interval.ms";
    let (interval, session) = (values.ms(key), values.ms("session.timeout.ms"));
    if interval < session {
        return Ok(interval);
    }
    if values.is_set(key) {
        let why = "must be less than session.timeout.ms";
        return Err(Values::wrong(key, why, Some("a third of it is usual.")));
    }
    Ok(session / 3)
}
