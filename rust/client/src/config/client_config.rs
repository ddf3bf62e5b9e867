//! What every client needs to reach its cluster.

use super::address::parse_server;
use super::key::ClientKind;
use super::values::{Values, parse};
use crate::error::ClientError;
use kafkalite_connection::{Backoff, ConnectionConfig};
use std::collections::BTreeMap;
use std::time::Duration;

/// The keys that every client has, as values.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Which client it is for.
    pub kind: ClientKind,
    /// How it reaches its cluster; at least one of `bootstrap.servers`. Asking for a topic may
    /// create it as `allow.auto.create.topics` says, always for producers, never for admin clients.
    pub connection: ConnectionConfig,
    /// `default.api.timeout.ms`; for a producer `max.block.ms`.
    pub api_timeout: Duration,
    /// What the user should know of, though nothing is wrong.
    pub warnings: Vec<String>,
}

impl ClientConfig {
    /// Reads the configuration of an admin client, or of any other that has no keys of its own.
    pub fn from_pairs(
        kind: ClientKind,
        pairs: &BTreeMap<String, String>,
    ) -> Result<Self, ClientError> {
        Self::from_values(&parse(kind, pairs)?)
    }

    /// The same from values that were checked.
    pub fn from_values(values: &Values) -> Result<Self, ClientError> {
        let servers = values.list("bootstrap.servers");
        if servers.is_empty() {
            let hint = "pass bootstrap_servers=\"localhost:9092\".";
            return Err(Values::wrong("bootstrap.servers", "is missing", Some(hint)));
        }
        let servers = servers.into_iter().map(parse_server).collect::<Result<Vec<_>, _>>()?;
        let backoff = |initial, max| Backoff { initial: values.ms(initial), max: values.ms(max) };
        let (api_timeout, max_idle, auto_create) = match values.kind() {
            ClientKind::Producer => {
                (values.ms("max.block.ms"), values.ms("metadata.max.idle.ms"), true)
            }
            ClientKind::Consumer => {
                let allowed = values.flag("allow.auto.create.topics");
                (values.ms("default.api.timeout.ms"), Duration::MAX, allowed)
            }
            ClientKind::Admin => (values.ms("default.api.timeout.ms"), Duration::ZERO, false),
        };
        let connection = ConnectionConfig {
            bootstrap_servers: servers,
            client_id: values.text("client.id").unwrap_or_default().to_owned(),
            request_timeout: values.ms("request.timeout.ms"),
            bootstrap_timeout: values.ms("kafkalite.bootstrap.timeout.ms"),
            setup_timeout: backoff(
                "socket.connection.setup.timeout.ms",
                "socket.connection.setup.timeout.max.ms",
            ),
            reconnect_backoff: backoff("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
            retry_backoff: backoff("retry.backoff.ms", "retry.backoff.max.ms"),
            metadata_max_age: values.ms("metadata.max.age.ms"),
            metadata_max_idle: max_idle,
            rebootstrap: values.text("metadata.recovery.strategy") == Some("rebootstrap"),
            connections_max_idle: values
                .unless_minus_one("connections.max.idle.ms")
                .map(Duration::from_millis),
            send_buffer: values.unless_minus_one("send.buffer.bytes").map(|n| n as usize),
            receive_buffer: values.unless_minus_one("receive.buffer.bytes").map(|n| n as usize),
            response_max_bytes: values.count("kafkalite.response.max.bytes"),
            allow_auto_create_topics: auto_create,
        };
        let warnings = values.warnings.clone();
        Ok(Self { kind: values.kind(), connection, api_timeout, warnings })
    }
}
