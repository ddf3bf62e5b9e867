//! Fetches ahead of the program: one fetch in flight for each broker, at once followed by the next.
//!
//! One task does it all. For each broker that leads wanted partitions it keeps a fetch session, a
//! connection of its own and at most one request in flight. The connection is its own because a
//! fetch waits, and would delay requests behind it. What comes in goes into the `buffer` undecoded,
//! bounded in bytes; callers decode. A fetch names all partitions of its broker that can be read:
//! one that was left out would wait while the fetch waits for records of the others.
//! A leader may name a replica in the rack of this client. That one is asked for
//! `metadata.max.age.ms`, as long as it brings records, and then the leader again (KIP-392).
//! Source: Kafka's `Fetcher`; KIP-74, KIP-227, KIP-392, KIP-516.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_connection::{Connection, ConnectionError, Lane, NodeId};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::fetch::{FetchRequest, FetchResponse};
use tokio::task::JoinSet;

use crate::consumer::shared::{Shared, sleep_until};
use crate::error::ClientError;

mod response;
pub mod session;

use session::{FetchSession, SessionRequest, Wanted};

/// Topics go by id from this version on.
const BY_ID_FROM: i16 = 13;
/// With so many fetches' worth of one partition in the buffer, its node has a rest.
const FETCHES_AHEAD: usize = 4;
/// A broker that answers at once with nothing is not asked again sooner.
const SHORTEST_FETCH: Duration = Duration::from_millis(1);

/// What is known of one broker.
#[derive(Default)]
struct Node {
    connection: Option<Arc<Connection>>,
    session: FetchSession,
    busy: bool,
    failures: u32,
    not_before: Option<Instant>,
}

/// What came of something that was under way.
enum Landed {
    Connected(Result<Arc<Connection>, ConnectionError>),
    Fetched { result: Result<(i16, FetchResponse), ConnectionError>, began: Instant },
}

struct Fetcher {
    shared: Arc<Shared>,
    nodes: HashMap<NodeId, Node>,
    flights: JoinSet<(NodeId, Landed)>,
}

/// Fetches until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut fetcher = Fetcher { shared, nodes: HashMap::new(), flights: JoinSet::new() };
    loop {
        let wake = fetcher.dispatch();
        let shared = Arc::clone(&fetcher.shared);
        tokio::select! {
            () = shared.fetch.notified() => {}
            Some(landed) = fetcher.flights.join_next() => {
                if let Ok((node, landed)) = landed {
                    fetcher.land(node, landed);
                }
            }
            () = sleep_until(wake) => {}
        }
    }
}

/// Drops what takes room without use: stale records. If only paused partitions have records, those
/// go too. Otherwise callers could wait without end for partitions that find no room.
fn make_room(shared: &Shared) {
    if !shared.buffer.has_open() && shared.subscription.lock().rewind_paused() {
        // A caller may have some of it in hand, and lets go when it looks.
        shared.buffer.call_attention();
    }
    shared.buffer.drop_stale();
}

impl Fetcher {
    /// Sends what can be sent; when to look again, if nothing happens before.
    fn dispatch(&mut self) -> Option<Instant> {
        let shared = Arc::clone(&self.shared);
        let config = &shared.config;
        if shared.buffer.bytes() >= config.fetch_buffer_max_bytes {
            make_room(&shared);
        }
        if shared.buffer.bytes() >= config.fetch_buffer_max_bytes {
            return None;
        }
        let now = Instant::now();
        let enough = FETCHES_AHEAD * config.max_partition_fetch_bytes.max(1) as usize;
        let (wishes, mut wake) = {
            let subscription = shared.subscription.lock();
            (subscription.fetchable(now, enough), subscription.next_due(now))
        };
        let mut by_node: HashMap<NodeId, Vec<Wanted>> = HashMap::new();
        for wish in wishes {
            by_node.entry(wish.node).or_default().push(Wanted {
                topic_id: wish.topic_id,
                cursor: wish.cursor,
                from: wish.from,
                leader_epoch: wish.leader.epoch,
                at_leader: wish.node == wish.leader.node,
                may_be_sent_away: wish.may_be_sent_away,
                is_new: wish.is_new,
            });
        }
        for (id, wanted) in by_node {
            let node = self.nodes.entry(id).or_default();
            if node.busy {
                continue;
            }
            if let Some(at) = node.not_before.filter(|at| *at > now) {
                wake = Some(wake.map_or(at, |wake| wake.min(at)));
                continue;
            }
            node.busy = true;
            let living = node.connection.as_ref().filter(|open| !open.is_closed()).cloned();
            match living {
                Some(connection) => self.fetch(id, &connection, wanted),
                None => self.connect(id),
            }
        }
        wake
    }

    fn connect(&mut self, id: NodeId) {
        let cluster = self.shared.cluster.clone();
        self.flights.spawn(async move {
            (id, Landed::Connected(cluster.connection_on(id, Lane::Fetch).await))
        });
    }

    fn fetch(&mut self, id: NodeId, connection: &Connection, wanted: Vec<Wanted>) {
        let config = &self.shared.config;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let version = connection.version::<FetchRequest>().unwrap_or(0);
        let ids_allowed = version >= BY_ID_FROM;
        // A fetch names its rack once for all of its partitions.
        let has_rack = wanted.iter().all(|one| one.may_be_sent_away);
        let told = node.session.next(wanted, ids_allowed, config.max_partition_fetch_bytes);
        let most = if told.by_id { i16::MAX } else { BY_ID_FROM - 1 };
        let timeout = config.client.connection.request_timeout + config.fetch_max_wait;
        let request = |_| self.request(told, has_rack);
        let reply = connection.send_with(most, timeout, request);
        let began = Instant::now();
        self.flights.spawn(async move { (id, Landed::Fetched { result: reply.await, began }) });
    }

    fn request(&self, told: SessionRequest, has_rack: bool) -> FetchRequest {
        let config = &self.shared.config;
        FetchRequest {
            max_wait_ms: config.fetch_max_wait.as_millis().min(i32::MAX as u128) as i32,
            min_bytes: config.fetch_min_bytes,
            max_bytes: config.fetch_max_bytes,
            isolation_level: config.isolation_level.code(),
            session_id: told.session_id,
            session_epoch: told.session_epoch,
            topics: told.topics,
            forgotten_topics_data: told.forgotten,
            rack_id: if has_rack { config.client_rack.clone() } else { String::new() },
            ..FetchRequest::default()
        }
    }

    fn land(&mut self, id: NodeId, landed: Landed) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.busy = false;
        match landed {
            Landed::Connected(Ok(connection)) => {
                node.failures = 0;
                node.connection = Some(connection);
            }
            Landed::Connected(Err(error)) | Landed::Fetched { result: Err(error), .. } => {
                self.failed(id, error.into());
            }
            Landed::Fetched { result: Ok((_, response)), began } => {
                self.answered(id, response, began);
            }
        }
    }

    fn failed(&mut self, id: NodeId, error: ClientError) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.connection = None;
        self.shared.subscription.lock().avoid_nearby(id, Instant::now());
        node.session.restart();
        node.failures += 1;
        let wait = self.shared.config.client.connection.retry_backoff.after(node.failures);
        node.not_before = Some(Instant::now() + wait);
        self.shared.cluster.request_refresh();
        self.shared.report_unless_passing(error);
    }

    fn answered(&mut self, id: NodeId, response: FetchResponse, began: Instant) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let code = ErrorCode::from_code(response.error_code);
        match code {
            ErrorCode::None => {}
            // The broker lost the session: the next fetch says everything again, at once.
            ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch => {
                return node.session.restart();
            }
            code => {
                let about = format!("fetch from broker {id}");
                return self.failed(id, ClientError::broker(code, about));
            }
        }
        node.failures = 0;
        node.not_before = None;
        node.session.answered(response.session_id);
        let empty = response.responses.is_empty();
        response::take(&self.shared, &node.session, response);
        let now = Instant::now();
        if empty && now.saturating_duration_since(began) < SHORTEST_FETCH {
            node.not_before = Some(now + SHORTEST_FETCH);
        }
    }
}
