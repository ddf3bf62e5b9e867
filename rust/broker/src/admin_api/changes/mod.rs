//! Changes of the cluster over HTTP: topics, keys, records, offsets of groups.
//!
//! | file | changes |
//! |---|---|
//! | `topics` | topics and their partitions |
//! | `configs` | keys of topics and brokers |
//! | `records` | appends a record |
//! | `offsets` | where a group reads on, and groups |
//!
//! A change is a request of Kafka's protocol that this broker asks of itself (`request`). So it
//! obeys the rules of every other client, goes to the controller like its requests, and counts in
//! the same figures. At most 16 are under way at a time ([`Places`](super::commands::Places)).
//! Without `kafkalite.console.write` each change is refused.

use std::sync::Arc;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use super::AdminApi;
use super::commands::{Command, Make, Method};
use crate::admin_http::Refusal;

mod configs;
mod offsets;
mod records;
mod request;
mod topics;

/// Every change.
pub(super) const COMMANDS: &[Command<Make>] = &[
    Command {
        path: "/topics",
        method: Method::Post,
        query: &[],
        obey: |change| Box::pin(topics::create(change)),
    },
    Command {
        path: "/topics/{name}",
        method: Method::Delete,
        query: &["id"],
        obey: |change| Box::pin(topics::delete(change)),
    },
    Command {
        path: "/topics/{name}/partitions",
        method: Method::Post,
        query: &[],
        obey: |change| Box::pin(topics::add_partitions(change)),
    },
    Command {
        path: "/topics/{name}/config",
        method: Method::Patch,
        query: &[],
        obey: |change| Box::pin(configs::of_topic(change)),
    },
    Command {
        path: "/topics/{name}/messages",
        method: Method::Post,
        query: &[],
        obey: |change| Box::pin(records::append(change)),
    },
    Command {
        path: "/config",
        method: Method::Patch,
        query: &[],
        obey: |change| Box::pin(configs::of_brokers(change)),
    },
    Command {
        path: "/groups/{id}/offsets",
        method: Method::Post,
        query: &[],
        obey: |change| Box::pin(offsets::reset(change)),
    },
    Command {
        path: "/groups/{id}",
        method: Method::Delete,
        query: &[],
        obey: |change| Box::pin(offsets::delete_group(change)),
    },
];

/// The API, if it may change anything.
pub(super) fn allowed(api: &Arc<AdminApi>) -> Result<Arc<AdminApi>, Refusal> {
    if api.config.load().console_write {
        return Ok(Arc::clone(api));
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "the change is refused",
        "the admin API of this broker is for reading",
        "start the broker with --console-write, or kafkalite.console.write=true.",
    ))
}

/// The body of a request. An unknown member is an error: it would have no effect.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let hint = "send JSON as GET /api/v1/openapi.json describes it.";
        bad("the body cannot be read", error.to_string(), hint)
    })
}

fn bad(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what, why, hint)
}
