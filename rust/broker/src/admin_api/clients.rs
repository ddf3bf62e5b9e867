//! `/clients`: the connections to this broker, those of other brokers among them.

use serde::Serialize;

use super::asked::{Asked, MOST, Search};
use super::{AdminApi, Answer, json};
use crate::clock::NS_PER_MS;
use crate::network::OpenConnection;

#[derive(Serialize)]
struct Clients {
    broker_id: i32,
    /// Connections that are open.
    total: usize,
    connections: Vec<Client>,
    /// What `after` has to be for the next page.
    next: Option<u64>,
}

#[derive(Serialize)]
struct Client {
    id: u64,
    peer: String,
    listener: String,
    /// `None` before its first request.
    client_id: Option<String>,
    /// `None`: it did not tell.
    software: Option<String>,
    software_version: Option<String>,
    open_ms: u64,
    requests: u64,
    /// `None` before its first request.
    last_request_ms_ago: Option<u64>,
}

/// `GET /clients`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let mut after = asked.number("after", 0..=u64::MAX)?.unwrap_or(0);
    let mut found = Vec::new();
    // One more than the page has says that there is a next one.
    while found.len() <= limit {
        let some = api.connections.after(after, MOST);
        let Some(last) = some.last() else { break };
        after = last.context.connection_id;
        found.extend(some.into_iter().filter(|one| is_wanted(one, &search)));
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let now_ns = api.clock.monotonic_ns();
    json(&Clients {
        broker_id: api.local_id,
        total: api.connections.count(),
        connections: found.iter().map(|one| row(one, now_ns)).collect(),
        next: found.last().filter(|_| has_more).map(|last| last.context.connection_id),
    })
}

fn is_wanted(connection: &OpenConnection, search: &Search) -> bool {
    let (context, client) = (&connection.context, &connection.context.client);
    search.is_empty()
        || search.wants(client.id().unwrap_or_default())
        || search.wants(client.software().map_or("", |(name, _)| name))
        || search.wants(&context.peer.to_string())
        || search.wants(&context.listener)
}

fn row(connection: &OpenConnection, now_ns: u64) -> Client {
    let (context, client) = (&connection.context, &connection.context.client);
    let ms_since = |ns: u64| now_ns.saturating_sub(ns) / NS_PER_MS;
    let (software, software_version) = client.software().unzip();
    Client {
        id: context.connection_id,
        peer: context.peer.to_string(),
        listener: context.listener.to_string(),
        client_id: client.id().map(str::to_owned),
        software: software.map(str::to_owned),
        software_version: software_version.map(str::to_owned),
        open_ms: ms_since(connection.opened_ns),
        requests: client.requests(),
        last_request_ms_ago: (client.requests() > 0).then(|| ms_since(client.last_request_ns())),
    }
}
