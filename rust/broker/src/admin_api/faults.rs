//! `/faults`, `/clock`, `/snapshots`, `/forks`, `/recordings`, `/explain`: test control. A broker
//! that is not under test refuses every command.

use std::sync::Arc;

use axum::http::StatusCode;

use super::AdminApi;
use super::asked::Asked;
use super::commands::{Command, Method, Obey};
use crate::admin_http::Refusal;
use crate::test_control::{Page, Refused, TestControl};

/// The parameter that says of which life of the broker a fault or a recording is.
const LIFE: &str = "life";

/// Commands that see faults and end them. None waits for a room that a fault may stall.
pub(super) const ENDS: &[Command<Obey<TestControl>>] = &[
    Command {
        path: "/faults",
        method: Method::Get,
        query: &[],
        obey: |control, _, _| Ok(control.list_faults()),
    },
    Command {
        path: "/faults",
        method: Method::Delete,
        query: &[],
        obey: |control, _, _| Ok(control.clear_faults()),
    },
    Command {
        path: "/faults/{id}",
        method: Method::Get,
        query: &[LIFE],
        obey: |control, asked, _| control.show_fault(id(asked)?, asked.text(LIFE)).map_err(refusal),
    },
    Command {
        path: "/faults/{id}",
        method: Method::Delete,
        query: &[LIFE],
        obey: |control, asked, _| {
            control.remove_fault(id(asked)?, asked.text(LIFE)).map_err(refusal)
        },
    },
];

/// Commands that look at the broker, or change what test control alone keeps. None waits for
/// another command.
pub(super) const AT_ONCE: &[Command<Obey<TestControl>>] = &[
    Command {
        path: "/faults",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.add_fault(body).map_err(refusal),
    },
    Command {
        path: "/clock",
        method: Method::Get,
        query: &[],
        obey: |control, _, _| Ok(control.show_clock()),
    },
    Command {
        path: "/snapshots",
        method: Method::Get,
        query: &[],
        obey: |control, _, _| control.list_snapshots().map_err(refusal),
    },
    Command {
        path: "/forks",
        method: Method::Get,
        query: &[],
        obey: |control, _, _| Ok(control.list_forks()),
    },
    Command {
        path: "/forks/{id}",
        method: Method::Delete,
        query: &[],
        obey: |control, asked, _| control.remove_fork(id(asked)?).map_err(refusal),
    },
    Command {
        path: "/explain",
        method: Method::Get,
        query: &["client_id"],
        obey: |control, asked, _| control.explain(asked.text("client_id")).map_err(refusal),
    },
    Command {
        path: "/recordings",
        method: Method::Get,
        query: &[],
        obey: |control, _, _| Ok(control.list_recordings()),
    },
    Command {
        path: "/recordings",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.add_recording(body).map_err(refusal),
    },
    Command {
        path: "/recordings/{id}",
        method: Method::Get,
        query: &["limit", "after", LIFE],
        obey: |control, asked, _| {
            control.read_recording(id(asked)?, &page(asked)?).map_err(refusal)
        },
    },
    Command {
        path: "/recordings/{id}/stop",
        method: Method::Post,
        query: &[LIFE],
        obey: |control, asked, _| {
            control.end_recording(id(asked)?, asked.text(LIFE)).map_err(refusal)
        },
    },
    Command {
        path: "/recordings/{id}",
        method: Method::Delete,
        query: &[LIFE],
        obey: |control, asked, _| {
            control.remove_recording(id(asked)?, asked.text(LIFE)).map_err(refusal)
        },
    },
];

/// The other commands. They may wait: for the log, for the controller, for one another.
pub(super) const WAITING: &[Command<Obey<TestControl>>] = &[
    Command {
        path: "/clock/advance",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.advance_clock(body).map_err(refusal),
    },
    Command {
        path: "/snapshots",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.take_snapshot_as(body).map_err(refusal),
    },
    Command {
        path: "/snapshots/{id}",
        method: Method::Delete,
        query: &[],
        obey: |control, asked, _| control.remove_snapshot(id(asked)?).map_err(refusal),
    },
    Command {
        path: "/forks",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.add_fork(body).map_err(refusal),
    },
    Command {
        path: "/leaders/move",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.move_leader_as(body).map_err(refusal),
    },
    Command {
        path: "/leaders/shuffle",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.shuffle_leaders_as(body).map_err(refusal),
    },
    Command {
        path: "/coordinators/move",
        method: Method::Post,
        query: &[],
        obey: |control, _, body| control.move_coordinator_as(body).map_err(refusal),
    },
];

fn page(asked: &Asked) -> Result<Page, Refusal> {
    let after = asked.number("after", 0..=u64::MAX)?.unwrap_or(0);
    let life = asked.text(LIFE).map(str::to_owned);
    Ok(Page { after, limit: Some(asked.limit()?), life })
}

fn id(asked: &Asked) -> Result<u64, Refusal> {
    let text = asked.part("id");
    text.parse().map_err(|_| {
        let why = format!("{text:?} is no number");
        let hint = "GET /api/v1/faults, /snapshots, /forks and /recordings list what there is.";
        Refusal::new(StatusCode::BAD_REQUEST, "the id cannot be read", why, hint)
    })
}

fn refusal(refused: Refused) -> Refusal {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
    Refusal::new(status, refused.what, refused.why, refused.hint)
}

/// The test control of a broker that is under test.
pub(super) fn control(api: &Arc<AdminApi>) -> Result<Arc<TestControl>, Refusal> {
    api.control.clone().ok_or_else(|| refusal(Refused::off()))
}
