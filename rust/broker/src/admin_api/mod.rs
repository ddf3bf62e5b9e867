//! The admin API, version 1: what the broker knows, as JSON over HTTP.
//!
//! | file | answers |
//! |---|---|
//! | `overview` | the broker at a glance, and what is wrong with it |
//! | `topics` | topics, their partitions and segments |
//! | `messages` | records of a partition |
//! | `groups` | groups, their members, offsets and lag |
//! | `clients` | connections |
//! | `client_metrics` | what clients report of themselves (KIP-714), and who is asked for what |
//! | `config` | keys of the broker and of topics, and where their values come from |
//! | `cluster` | brokers and the controller quorum |
//! | `replication` | partitions that move or lack a replica, and how far their followers are |
//! | `live` | a stream of what the stages of the data plane do, from `stages` |
//! | `requests` | single requests with the time of each stage |
//! | `log_lines` | the last lines of the log |
//! | `faults` | commands of test control, if the broker is under test |
//! | `brokers` | figures of another broker, or of all; `sums` adds them up, `lag` completes it |
//! | `changes` | changes of topics, keys, records and groups, if the broker allows them |
//!
//! [`ROUTES`] is the list of what is served, and `openapi.json` describes it: a test compares the
//! two. `admin_http` decides who may ask. A handler takes one image of the metadata, and reads the
//! other rooms through what they show to all. Lists come in pages of at most
//! [`asked::MOST`] rows. Handlers run on the few blocking threads of the admin port. Neither a
//! thread of the data plane nor a health probe waits for them. A change that waits for replicas
//! holds none of these threads.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, RawQuery};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::admin_http::{BLOCKING_THREADS, PAGE_THREADS, Refusal};
use crate::client_metrics::ClientMetrics;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::cluster::figures::Told;
use crate::config::BrokerConfig;
use crate::coordinator::GroupCoordinator;
use crate::metadata::Controller;
use crate::metrics::Metrics;
use crate::network::OpenConnections;
use crate::partitions::ReplicaManager;
use crate::request_queue::RequestQueue;
use crate::test_control::TestControl;
use asked::Asked;
pub use brokers::Heard;
use brokers::Sum;
use commands::{Command, Obey};

mod asked;
mod brokers;
mod changes;
mod client_metrics;
mod clients;
mod cluster;
mod commands;
mod config;
mod faults;
mod field;
mod groups;
mod lag;
mod live;
mod log_lines;
mod messages;
mod overview;
mod replication;
mod requests;
mod segments;
mod stages;
mod sums;
#[cfg(test)]
mod tests;
mod topics;

/// What the API looks into.
pub struct AdminApi {
    /// Which broker this is.
    pub local_id: i32,
    /// The configuration in force.
    pub config: Arc<ArcSwap<BrokerConfig>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The control plane.
    pub controller: Arc<Controller>,
    /// The other brokers.
    pub cluster: Arc<Cluster>,
    /// When they answered.
    pub heard: Heard,
    /// The replicas on this broker.
    pub partitions: Arc<ReplicaManager>,
    /// The groups it coordinates.
    pub groups: Arc<GroupCoordinator>,
    /// What clients report of themselves.
    pub client_metrics: Arc<ClientMetrics>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Runs requests of Kafka's protocol.
    pub requests: Arc<RequestQueue>,
    /// Who is connected.
    pub connections: Arc<OpenConnections>,
    /// Faults on purpose, if the broker is under test.
    pub control: Option<Arc<TestControl>>,
    /// When the broker began to serve, on the monotonic clock.
    pub started_ns: u64,
}

/// Blocking threads that the commands of test control take turns on, and what they are.
///
/// A command may wait for what a fault holds up: so what ends faults has a thread of its own. What
/// says why a client waits has two more, one for the end of a fork, which takes a while.
const TURNS_OF_TESTS: [(&[Command<Obey<TestControl>>], usize); 3] =
    [(faults::WAITING, 1), (faults::AT_ONCE, 2), (faults::ENDS, 1)];

/// Blocking threads that reads and steps of changes take turns on.
const TURNS: usize = BLOCKING_THREADS - PAGE_THREADS - 4;

/// The body of an answer, or why there is none.
type Answer = Result<Vec<u8>, Refusal>;

/// One path of the API.
struct Route {
    /// Below `/api/v1`.
    path: &'static str,
    /// The parameters that its query may have.
    query: &'static [&'static str],
    answer: fn(&AdminApi, &Asked) -> Answer,
    /// How the answers of several brokers become one; without it a broker answers for itself.
    sum: Option<Sum>,
}

impl Route {
    const fn own(
        path: &'static str,
        query: &'static [&'static str],
        answer: fn(&AdminApi, &Asked) -> Answer,
    ) -> Self {
        Self { path, query, answer, sum: None }
    }

    /// Its query has [`asked::BROKER`].
    const fn of_all(
        path: &'static str,
        query: &'static [&'static str],
        answer: fn(&AdminApi, &Asked) -> Answer,
        sum: Sum,
    ) -> Self {
        Self { path, query, answer, sum: Some(sum) }
    }
}

const PAGE: &[&str] = &["limit", "after", "search"];
const PAGE_OF_ALL: &[&str] = &["limit", "after", "search", asked::BROKER];
const PART_OF_ALL: &[&str] = &["limit", "after", asked::BROKER];

/// Everything that is served.
const ROUTES: &[Route] = &[
    Route::of_all("/overview", &[asked::BROKER], overview::overview, sums::overview),
    Route::of_all("/topics", PAGE_OF_ALL, topics::list, sums::topics),
    Route::of_all("/topics/{name}", PART_OF_ALL, topics::describe, sums::topic),
    Route::own("/topics/{name}/config", &["search"], config::of_topic),
    Route::own(
        "/topics/{name}/partitions/{partition}/segments",
        &["limit", "after"],
        segments::list,
    ),
    Route::own("/topics/{name}/messages", messages::QUERY, messages::read),
    Route::of_all("/groups", PAGE_OF_ALL, groups::list, sums::groups),
    Route::of_all("/groups/{id}", PART_OF_ALL, groups::describe, sums::group),
    Route::of_all("/clients", PAGE_OF_ALL, clients::list, sums::clients),
    Route::own("/client-metrics", PAGE, client_metrics::list),
    Route::own("/client-metrics/{id}", PAGE, client_metrics::describe),
    Route::own("/config", &["search"], config::of_broker),
    Route::own("/cluster", &[], cluster::cluster),
    Route::of_all(
        "/cluster/partitions",
        &[replication::STATE, "limit", "after", asked::BROKER],
        replication::list,
        sums::partitions,
    ),
    Route::of_all("/requests", &["kind", "limit", asked::BROKER], requests::list, sums::requests),
    Route::own("/log", &["limit", "after", "level", "search"], log_lines::list),
    Route::own("/openapi.json", &[], openapi),
];

const OPENAPI: &str = include_str!("openapi.json");

fn openapi(_: &AdminApi, _: &Asked) -> Answer {
    Ok(OPENAPI.as_bytes().to_vec())
}

/// An answer as JSON.
fn json(answer: &impl Serialize) -> Answer {
    serde_json::to_vec(answer).map_err(|error| failed(&error.to_string()))
}

fn failed(why: &str) -> Refusal {
    let hint = "look into the broker's log, and report it as a bug.";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed", why, hint)
}

impl AdminApi {
    /// Answers the questions of other brokers from now on.
    pub fn answer_brokers(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.cluster.answer_figures(Box::new(move |question| match this.upgrade() {
            Some(api) => api.tell(&question),
            None => Told::nothing(),
        }));
    }

    /// The API as a router of the admin port.
    pub fn router(self: &Arc<Self>) -> Router {
        let api = Arc::clone(self);
        let turns = Arc::new(Semaphore::new(TURNS));
        let mut router = Router::new();
        for route in ROUTES {
            let (api, turns) = (Arc::clone(&api), Arc::clone(&turns));
            let handle = move |path: PathParts, RawQuery(query): RawQuery| {
                let asked = Asked::new(route.path, route.query, path.ok(), query.as_deref());
                answer(route, Arc::clone(&api), Arc::clone(&turns), asked)
            };
            router = router.route(route.path, get(handle));
        }
        let places = Arc::new(Semaphore::new(live::MOST_READERS));
        let streamed = Arc::clone(&api);
        let stream = move |path: PathParts, RawQuery(query): RawQuery| {
            let asked = Asked::new(live::PATH, live::QUERY, path.ok(), query.as_deref());
            std::future::ready(live::answer(Arc::clone(&streamed), &places, asked))
        };
        router = router.route(live::PATH, get(stream));
        for (commands, turns) in TURNS_OF_TESTS {
            let turns = Arc::new(Semaphore::new(turns));
            router = commands::mount(router, commands, faults::control, &api, &turns);
        }
        router = commands::mount_changes(router, changes::COMMANDS, changes::allowed, &api, &turns);
        router.fallback(unknown).method_not_allowed_fallback(not_allowed)
    }
}

/// Answers on a blocking thread.
async fn answer(
    route: &'static Route,
    api: Arc<AdminApi>,
    turns: Arc<Semaphore>,
    asked: Result<Asked, Refusal>,
) -> Response {
    let answer = match (asked, route.sum) {
        (Ok(asked), Some(sum)) => brokers::answer(route, sum, api, turns, asked).await,
        (Ok(asked), None) => commands::in_turn(turns, move || (route.answer)(&api, &asked)).await,
        (Err(refusal), _) => Err(refusal),
    };
    match answer {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// The parts of a path; an error if one is not UTF-8.
type PathParts = Result<RawPathParams, RawPathParamsRejection>;

const SEE: &str = "GET /api/v1/openapi.json lists what there is.";

async fn unknown() -> Refusal {
    let why = "the API has no such path";
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing here", why, SEE)
}

async fn not_allowed() -> Refusal {
    let why = "the path does not take this method";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the request is refused", why, SEE)
}
