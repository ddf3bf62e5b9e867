//! Metrics and health over HTTP, beside the data plane and never in its way.
//!
//! | path | answer |
//! |---|---|
//! | `/` | what there is, for people |
//! | `/metrics` | figures of the broker, as Prometheus's text, or OpenMetrics for who asks for it |
//! | `/metrics/topics`, `/metrics/groups` | figures of each topic and partition, of each group |
//! | `/metrics/clients` | figures that clients report of themselves, added up |
//! | `/health/live` | 200 as long as the process answers |
//! | `/health/ready` | 200 while the broker serves, 503 when it is stopping |
//! | `/requests` | the last requests, as JSON; 404 if none are remembered |
//! | | these and the metrics only with the token from another machine |
//! | `/console` | the console, which asks the API |
//! | `/api/v1/...` | the API, which another room makes and `guard.rs` keeps from strangers |
//!
//! One thread with a runtime of its own serves them. So a scrape never waits for a Kafka request,
//! and a Kafka request never waits for a scrape. What has to wait for a disk runs on at most
//! [`BLOCKING_THREADS`] more, each kind of work on its own share of them. So a probe does not wait
//! for a disk. The port is bound separately, before the broker starts. Connections are few and
//! have deadlines (`listener.rs`). A host name that is not the broker's is answered with 421
//! (`host.rs`).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{Semaphore, oneshot};

use crate::clock::Clock;
use crate::metrics::Metrics;
pub use guard::may_ask;
use guard::{Guard, Peer};
use host::Names;
use listener::{BoundedListener, Limits};
pub use refusal::Refusal;
use text::Format;

mod console;
mod exposition;
mod guard;
mod host;
mod listener;
mod process_figures;
mod refusal;
mod requests;
#[cfg(test)]
mod tests;
mod text;

/// Threads for what has to wait for a disk, at most. They end when there is nothing to do.
pub const BLOCKING_THREADS: usize = 8;

/// So many of them are for pages of figures that take time: one for each of [`Pages`].
pub const PAGE_THREADS: usize = 2;

/// Where the API is.
const API: &str = "/api/v1";

/// What the port serves.
pub struct AdminParts {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// By which names the port may be called, beside addresses and `localhost`.
    pub names: Vec<String>,
    /// What clients of the API have to know; `None` leaves it to this machine.
    pub token: Option<String>,
    /// The API.
    pub api: Router,
}

/// A port that is bound and not yet served.
#[derive(Debug)]
pub struct AdminListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl AdminListener {
    /// Binds `port` of `host`; port 0 lets the system choose.
    ///
    /// # Errors
    /// What the system says, `AddrInUse` for instance.
    pub fn bind(host: &str, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((host, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves `parts` on a thread of its own; ready from now on.
    ///
    /// # Errors
    /// The system refuses a thread or an event queue.
    pub fn start(self, parts: AdminParts) -> io::Result<AdminHttp> {
        self.start_within(Limits::default(), parts)
    }

    fn start_within(self, limits: Limits, parts: AdminParts) -> io::Result<AdminHttp> {
        let ready = Arc::new(AtomicBool::new(true));
        let router = router(parts, ready.clone());
        let (stop, stopped) = oneshot::channel();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.max_blocking_threads(BLOCKING_THREADS).thread_name("admin-http-work");
        let runtime = runtime.enable_io().enable_time().build()?;
        let listener = self.listener;
        let thread =
            std::thread::Builder::new().name("admin-http".to_owned()).spawn(move || {
                runtime.block_on(async {
                    let serving = serve(listener, limits, router);
                    tokio::select! {
                        served = serving => if let Err(error) = served {
                            tracing::error!(%error, "metrics and health are no longer served");
                        },
                        // Dropped or stopped: either way it is over.
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(AdminHttp { address: self.address, ready, stop: Some(stop), thread: Some(thread) })
    }
}

/// Metrics and health, being served. Dropping it stops them.
#[derive(Debug)]
pub struct AdminHttp {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminHttp {
    /// Where.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `/health/ready` tells from now on.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

impl Drop for AdminHttp {
    fn drop(&mut self) {
        // It is gone already if the thread failed; then there is nothing to stop.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    ready: Arc<AtomicBool>,
    pages: Pages,
}

/// The pages that take time: each is made once at a time. A disk that stands still holds up one
/// thread for each of them, however many clients ask. It holds up nothing else of the port.
#[derive(Clone)]
struct Pages {
    groups: Arc<Semaphore>,
    clients: Arc<Semaphore>,
}

impl Pages {
    fn new() -> Self {
        let one = || Arc::new(Semaphore::new(PAGE_THREADS / 2));
        Self { groups: one(), clients: one() }
    }
}

/// Kafka's name of an API, or its number if it has none here.
#[must_use]
pub fn api_name(api_key: i16) -> String {
    let known = kafkalite_protocol::ApiKey::from_i16(api_key);
    known.map_or_else(|| api_key.to_string(), |api| api.name().to_owned())
}

fn router(parts: AdminParts, ready_flag: Arc<AtomicBool>) -> Router {
    let AdminParts { metrics: of, clock, names, token, api } = parts;
    let of_figures = Guard::new(token);
    let guard = axum::middleware::from_fn_with_state(of_figures.clone(), guard::check);
    let of_figures = axum::middleware::from_fn_with_state(of_figures, guard::check_figures);
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/topics", get(topics))
        .route("/metrics/groups", get(groups))
        .route("/metrics/clients", get(clients))
        .route("/requests", get(last_requests))
        .route_layer(of_figures)
        .route("/", get(index))
        .route("/health/live", get(|| async { "live\n" }))
        .route("/health/ready", get(ready))
        .with_state(Shared { metrics: of, clock, ready: ready_flag, pages: Pages::new() })
        .merge(console::router())
        .nest(API, api.layer(guard))
        .fallback(nothing)
        .layer(axum::middleware::from_fn_with_state(Names::new(names), host::check))
}

async fn serve(listener: TcpListener, limits: Limits, router: Router) -> io::Result<()> {
    let router = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(BoundedListener::new(listener, limits)?, router).await
}

async fn nothing() -> Refusal {
    let (what, why) = ("there is nothing here", "the admin port has no such page");
    Refusal::new(StatusCode::NOT_FOUND, what, why, "GET / lists the pages.")
}

async fn index() -> impl IntoResponse {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(include_str!("admin_http/index.html")))
}

async fn metrics(State(shared): State<Shared>, headers: HeaderMap) -> impl IntoResponse {
    let format = Format::asked(&headers);
    figures(exposition::text(&shared.metrics, format), format)
}

async fn topics(State(shared): State<Shared>, headers: HeaderMap) -> impl IntoResponse {
    let format = Format::asked(&headers);
    figures(exposition::page(&shared.metrics, "topics", format), format)
}

async fn groups(State(shared): State<Shared>, headers: HeaderMap) -> impl IntoResponse {
    // Lag in seconds may have to wait for a disk, and a health probe must not.
    let turn = Arc::clone(&shared.pages.groups);
    aside(shared, "groups", turn, &headers).await
}

async fn clients(State(shared): State<Shared>, headers: HeaderMap) -> impl IntoResponse {
    // Many clients may report much.
    let turn = Arc::clone(&shared.pages.clients);
    aside(shared, "clients", turn, &headers).await
}

/// A page that takes time. The turn is taken before: a client that goes away while it waits leaves
/// nothing to do.
async fn aside(
    shared: Shared,
    name: &'static str,
    turn: Arc<Semaphore>,
    headers: &HeaderMap,
) -> Response {
    let format = Format::asked(headers);
    let Ok(turn) = turn.acquire_owned().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    };
    let page = move || {
        let page = exposition::page(&shared.metrics, name, format);
        drop(turn);
        page
    };
    match tokio::task::spawn_blocking(page).await {
        Ok(text) => figures(text, format).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn figures(text: Result<String, std::fmt::Error>, format: Format) -> impl IntoResponse {
    match text {
        Ok(text) => Ok(([(header::CONTENT_TYPE, format.content_type())], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn last_requests(State(shared): State<Shared>) -> impl IntoResponse {
    const NONE: &str = "no request is remembered: kafkalite.recent.requests is 0\n";
    let Some(recent) = shared.metrics.recent() else {
        return Err((StatusCode::NOT_FOUND, NONE.to_owned()));
    };
    match requests::json(&recent.all(), shared.clock.monotonic_ns()) {
        Ok(text) => Ok(([(header::CONTENT_TYPE, "application/json")], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    if shared.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    }
}
