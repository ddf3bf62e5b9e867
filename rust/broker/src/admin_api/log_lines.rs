//! `/log`: the last lines of the log of the broker's process.

use axum::http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;
use crate::metrics::{KeptLine, kept_lines};

/// Levels, the gravest first.
const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

#[derive(Serialize)]
struct Log {
    broker_id: i32,
    /// The process keeps lines. A program that embeds the broker may have a log of its own.
    kept: bool,
    lines: Vec<Line>,
    /// What `after` has to be for the lines that come next.
    next: Option<u64>,
}

#[derive(Serialize)]
struct Line {
    number: u64,
    timestamp_ms: i64,
    level: &'static str,
    target: String,
    message: String,
}

/// `GET /log`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let after = asked.number("after", 0..=u64::MAX)?;
    let most = level(asked)?;
    let is_wanted = |line: &KeptLine| {
        let place = LEVELS.iter().position(|level| *level == line.level);
        place.is_some_and(|place| place <= most)
            && (search.wants(&line.message) || search.wants(&line.target))
    };
    let lines = kept_lines().lines(after, limit, is_wanted);
    json(&Log {
        broker_id: api.local_id,
        kept: kept_lines().is_filled(),
        next: lines.last().map(|last| last.number).or(after),
        lines: lines.into_iter().map(line).collect(),
    })
}

fn level(asked: &Asked) -> Result<usize, Refusal> {
    let Some(name) = asked.text("level") else { return Ok(LEVELS.len()) };
    let place = LEVELS.iter().position(|level| level.eq_ignore_ascii_case(name));
    place.ok_or_else(|| {
        let why = format!("{name:?} is not a level");
        let hint = "give error, warn, info, debug or trace.";
        Refusal::new(StatusCode::BAD_REQUEST, "the parameter level cannot be read", why, hint)
    })
}

fn line(line: KeptLine) -> Line {
    let KeptLine { number, wall_ms, level, target, message } = line;
    Line { number, timestamp_ms: wall_ms, level, target, message }
}
