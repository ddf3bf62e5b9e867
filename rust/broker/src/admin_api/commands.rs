//! Paths that do something: how a client sends a command, and who obeys it.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};
use tokio::sync::Semaphore;

use super::asked::Asked;
use super::{AdminApi, Answer, PathParts, failed};
use crate::admin_http::Refusal;

/// A path with a method, and what obeys it.
pub(super) struct Command<T: 'static> {
    /// Below `/api/v1`.
    pub path: &'static str,
    pub method: Method,
    /// The parameters that its query may have.
    pub query: &'static [&'static str],
    pub obey: fn(&Arc<T>, &Asked, &[u8]) -> Answer,
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
pub(super) fn mount<T: Send + Sync>(
    mut router: Router,
    commands: &'static [Command<T>],
    whom: fn(&Arc<AdminApi>) -> Result<Arc<T>, Refusal>,
    api: &Arc<AdminApi>,
    turns: &Arc<Semaphore>,
) -> Router {
    for command in commands {
        let (api, turns) = (Arc::clone(api), Arc::clone(turns));
        let handle = move |path: PathParts, RawQuery(query): RawQuery, body: Bytes| {
            let asked = Asked::new(command.path, command.query, path.ok(), query.as_deref());
            let asked = asked.and_then(|asked| Ok((asked, whom(&api)?)));
            obey(command, Arc::clone(&turns), asked, body)
        };
        let method: MethodRouter = match command.method {
            Method::Get => get(handle),
            Method::Post => post(handle),
            Method::Patch => patch(handle),
            Method::Delete => delete(handle),
        };
        router = router.route(command.path, method);
    }
    router
}

/// Obeys on a blocking thread, in its turn.
async fn obey<T: Send + Sync>(
    command: &'static Command<T>,
    turns: Arc<Semaphore>,
    asked: Result<(Asked, Arc<T>), Refusal>,
    body: Bytes,
) -> Response {
    let (asked, whom) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let Ok(turn) = turns.acquire_owned().await else {
        return failed("the broker stops").into_response();
    };
    let work = tokio::task::spawn_blocking(move || {
        let answer = (command.obey)(&whom, &asked, &body);
        drop(turn);
        answer
    });
    let status = match command.method {
        Method::Post => StatusCode::CREATED,
        Method::Get | Method::Patch | Method::Delete => StatusCode::OK,
    };
    match work.await {
        Ok(Ok(body)) => {
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => failed("its handler panicked").into_response(),
    }
}
