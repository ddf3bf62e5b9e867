//! `/faults`, `/clock`, `/snapshots`, `/forks`: test control. A broker that is not under test
//! refuses every command.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use tokio::sync::Semaphore;

use super::asked::Asked;
use super::{AdminApi, Answer, PathParts, failed};
use crate::admin_http::Refusal;
use crate::test_control::{Refused, TestControl};

/// A command: a path with a method, and what obeys it.
pub(super) struct Command {
    /// Below `/api/v1`.
    pub path: &'static str,
    pub method: Method,
    pub obey: fn(&Arc<TestControl>, &Asked, &[u8]) -> Answer,
}

/// How a client sends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
}

/// Every command.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        path: "/faults",
        method: Method::Get,
        obey: |control, _, _| Ok(control.list_faults()),
    },
    Command {
        path: "/faults",
        method: Method::Post,
        obey: |control, _, body| control.add_fault(body).map_err(refusal),
    },
    Command {
        path: "/faults",
        method: Method::Delete,
        obey: |control, _, _| Ok(control.clear_faults()),
    },
    Command { path: "/clock", method: Method::Get, obey: |control, _, _| Ok(control.show_clock()) },
    Command {
        path: "/clock/advance",
        method: Method::Post,
        obey: |control, _, body| control.advance_clock(body).map_err(refusal),
    },
    Command {
        path: "/snapshots",
        method: Method::Get,
        obey: |control, _, _| control.list_snapshots().map_err(refusal),
    },
    Command {
        path: "/snapshots",
        method: Method::Post,
        obey: |control, _, body| control.take_snapshot_as(body).map_err(refusal),
    },
    Command {
        path: "/snapshots/{id}",
        method: Method::Delete,
        obey: |control, asked, _| control.remove_snapshot(id(asked)?).map_err(refusal),
    },
    Command { path: "/forks", method: Method::Get, obey: |control, _, _| Ok(control.list_forks()) },
    Command {
        path: "/forks",
        method: Method::Post,
        obey: |control, _, body| control.add_fork(body).map_err(refusal),
    },
    Command {
        path: "/forks/{id}",
        method: Method::Delete,
        obey: |control, asked, _| control.remove_fork(id(asked)?).map_err(refusal),
    },
    Command {
        path: "/faults/{id}",
        method: Method::Get,
        obey: |control, asked, _| control.show_fault(id(asked)?).map_err(refusal),
    },
    Command {
        path: "/faults/{id}",
        method: Method::Delete,
        obey: |control, asked, _| control.remove_fault(id(asked)?).map_err(refusal),
    },
];

fn id(asked: &Asked) -> Result<u64, Refusal> {
    let text = asked.part("id");
    text.parse().map_err(|_| {
        let why = format!("{text:?} is no number");
        let hint = "GET /api/v1/faults, /snapshots and /forks list what there is.";
        Refusal::new(StatusCode::BAD_REQUEST, "the id cannot be read", why, hint)
    })
}

fn refusal(refused: Refused) -> Refusal {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
    Refusal::new(status, refused.what, refused.why, refused.hint)
}

/// Adds the commands to a router.
pub(super) fn mount(mut router: Router, api: &Arc<AdminApi>, turns: &Arc<Semaphore>) -> Router {
    for command in COMMANDS {
        let (api, turns) = (Arc::clone(api), Arc::clone(turns));
        let handle = move |path: PathParts, RawQuery(query): RawQuery, body: Bytes| {
            let asked = Asked::new(command.path, &[], path.ok(), query.as_deref());
            obey(command, Arc::clone(&api), Arc::clone(&turns), asked, body)
        };
        let method: MethodRouter = match command.method {
            Method::Get => get(handle),
            Method::Post => post(handle),
            Method::Delete => delete(handle),
        };
        router = router.route(command.path, method);
    }
    router
}

/// Obeys on a blocking thread, in its turn.
async fn obey(
    command: &'static Command,
    api: Arc<AdminApi>,
    turns: Arc<Semaphore>,
    asked: Result<Asked, Refusal>,
    body: Bytes,
) -> Response {
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let Some(control) = api.control.clone() else {
        return refusal(Refused::off()).into_response();
    };
    let Ok(turn) = turns.acquire_owned().await else {
        return failed("the broker stops").into_response();
    };
    let work = tokio::task::spawn_blocking(move || {
        let answer = (command.obey)(&control, &asked, &body);
        drop(turn);
        answer
    });
    let status = match command.method {
        Method::Post => StatusCode::CREATED,
        Method::Get | Method::Delete => StatusCode::OK,
    };
    match work.await {
        Ok(Ok(body)) => {
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => failed("its handler panicked").into_response(),
    }
}
