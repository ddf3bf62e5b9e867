//! Paths that do something: how a client sends a command, and who obeys it.
//!
//! A command of test control runs on a blocking thread from its beginning to its end. A change may
//! wait for replicas and for the controller. So it is a future, and each of its steps runs on a
//! blocking thread ([`in_turns`]): while it waits it holds none. Changes have places of their own,
//! [`Places`]. So neither reads nor probes wait for a change that waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use axum::Router;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::extract::rejection::BytesRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::asked::Asked;
use super::{AdminApi, Answer, PathParts, failed};
use crate::admin_http::Refusal;

/// A path with a method, and what obeys it.
pub(super) struct Command<F: 'static> {
    /// Below `/api/v1`.
    pub path: &'static str,
    pub method: Method,
    /// The parameters that its query may have.
    pub query: &'static [&'static str],
    pub obey: F,
}

/// What obeys on one thread.
pub(super) type Obey<T> = fn(&Arc<T>, &Asked, &[u8]) -> Answer;

/// What makes a change.
pub(super) type Make = fn(Change) -> Making;

/// A change under way.
pub(super) type Making = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A change as a client asked for it.
pub(super) struct Change {
    pub api: Arc<AdminApi>,
    pub asked: Asked,
    pub body: Bytes,
    /// Held until the last answer that the change waits for is there. The broker may still have
    /// its request when the client has gone.
    pub place: Arc<OwnedSemaphorePermit>,
}

/// Changes that may be under way at a time.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    /// Each waits for at most one answer, of one request.
    pub(super) const MOST: usize = 16;

    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(Self::MOST)))
    }

    fn take(&self) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
        let place = Arc::clone(&self.0).try_acquire_owned();
        place.map(Arc::new).map_err(|_| {
            let why =
                format!("{} other changes wait for the controller or for replicas", Self::MOST);
            let hint = "see which brokers are away or slow, then try again; nothing was changed.";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "the change is refused", why, hint)
        })
    }
}

/// How a client sends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

/// Adds commands to a router. `whom` finds what obeys, or says why the command is refused.
pub(super) fn mount<T: Send + Sync + 'static>(
    mut router: Router,
    commands: &'static [Command<Obey<T>>],
    whom: fn(&Arc<AdminApi>) -> Result<Arc<T>, Refusal>,
    api: &Arc<AdminApi>,
    turns: &Arc<Semaphore>,
) -> Router {
    for command in commands {
        let (api, turns) = (Arc::clone(api), Arc::clone(turns));
        let handle = move |path: PathParts, RawQuery(query): RawQuery, body: Body| {
            let asked = Asked::new(command.path, command.query, path.ok(), query.as_deref());
            let asked = asked.and_then(|asked| Ok((asked, whom(&api)?, whole(body)?)));
            let turns = Arc::clone(&turns);
            async move {
                let answer = match asked {
                    Ok((asked, whom, body)) => {
                        in_turn(turns, move || (command.obey)(&whom, &asked, &body))
                    }
                    Err(refusal) => return refusal.into_response(),
                };
                respond(command.method, answer.await)
            }
        };
        router = router.route(command.path, routed(command.method, handle));
    }
    router
}

/// Adds changes to a router. `whom` says why changes are refused.
pub(super) fn mount_changes(
    mut router: Router,
    changes: &'static [Command<Make>],
    whom: fn(&Arc<AdminApi>) -> Result<Arc<AdminApi>, Refusal>,
    api: &Arc<AdminApi>,
    turns: &Arc<Semaphore>,
) -> Router {
    let places = Places::new();
    for command in changes {
        let (api, turns, places) = (Arc::clone(api), Arc::clone(turns), places.clone());
        let handle = move |path: PathParts, RawQuery(query): RawQuery, body: Body| {
            let asked = Asked::new(command.path, command.query, path.ok(), query.as_deref());
            let change = asked.and_then(|asked| {
                let (api, body, place) = (whom(&api)?, whole(body)?, places.take()?);
                Ok(Change { api, asked, body, place })
            });
            let turns = Arc::clone(&turns);
            async move {
                match change {
                    Ok(change) => {
                        let made = in_turns(&turns, (command.obey)(change)).await;
                        respond(command.method, made)
                    }
                    Err(refusal) => refusal.into_response(),
                }
            }
        };
        router = router.route(command.path, routed(command.method, handle));
    }
    router
}

/// What a client sent; an error if it is too long, or does not come as HTTP says.
type Body = Result<Bytes, BytesRejection>;

fn whole(body: Body) -> Result<Bytes, Refusal> {
    body.map_err(|rejection| {
        let (status, why) = (rejection.status(), rejection.body_text());
        let hint = match status {
            StatusCode::PAYLOAD_TOO_LARGE => "send at most 2 MiB.",
            _ => "send the body as its headers say.",
        };
        Refusal::new(status, "the body cannot be read", why, hint)
    })
}

fn routed<H, X>(method: Method, handle: H) -> MethodRouter
where
    H: axum::handler::Handler<X, ()>,
    X: 'static,
{
    match method {
        Method::Get => get(handle),
        Method::Post => post(handle),
        Method::Patch => patch(handle),
        Method::Delete => delete(handle),
    }
}

fn respond(method: Method, answer: Answer) -> Response {
    let status = match method {
        Method::Post => StatusCode::CREATED,
        Method::Get | Method::Patch | Method::Delete => StatusCode::OK,
    };
    match answer {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Does `work` on a blocking thread. The turn is taken before: a client that goes away while it
/// waits leaves nothing to do.
pub(super) async fn in_turn<T: Send + 'static>(
    turns: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(turn) = turns.acquire_owned().await else {
        return Err(failed("the broker stops"));
    };
    let work = tokio::task::spawn_blocking(move || {
        let answer = work();
        drop(turn);
        answer
    });
    work.await.unwrap_or_else(|_| Err(failed("its handler panicked")))
}

/// Wakes who waits for the next step of a change.
struct NextStep(Notify);

impl Wake for NextStep {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Polls `making` on blocking threads, each time in a turn. Between two steps it holds neither a
/// turn nor a thread.
pub(super) async fn in_turns(turns: &Arc<Semaphore>, mut making: Making) -> Answer {
    let next = Arc::new(NextStep(Notify::new()));
    loop {
        let Ok(turn) = Arc::clone(turns).acquire_owned().await else {
            return Err(failed("the broker stops"));
        };
        let waker = Waker::from(Arc::clone(&next));
        let step = tokio::task::spawn_blocking(move || {
            let polled = making.as_mut().poll(&mut Context::from_waker(&waker));
            drop(turn);
            (polled, making)
        });
        match step.await {
            Ok((Poll::Ready(answer), _)) => return answer,
            Ok((Poll::Pending, rest)) => making = rest,
            Err(_) => return Err(failed("its handler panicked")),
        }
        next.0.notified().await;
    }
}
