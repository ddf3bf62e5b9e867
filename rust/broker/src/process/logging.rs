//! The process's log: lines for people on a terminal, JSON otherwise, always on stderr.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::kept_lines::Keep;

/// The targets of the library of the quorum begin so.
const QUORUM_LIBRARY: &str = "openraft";
/// Its functions that callers use. They log each failure that they return, and the caller reports
/// it: a call that a stop of the broker ends is no error.
const QUORUM_CALLS: &str = "openraft::raft";

/// Starts logging. `KAFKALITE_LOG` is a level, or levels by module: `warn`,
/// `info,kafkalite_broker::network=debug`. A process that logs already, as one that embeds us may,
/// keeps its own way.
pub fn start() {
    let wanted = std::env::var("KAFKALITE_LOG").unwrap_or_default();
    let filter = filter(&wanted);
    let terminal = std::io::stderr().is_terminal();
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = layer().with_writer(std::io::stderr);
    let lines = if terminal {
        lines.with_ansi(colours).with_target(false).boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    let kept = Keep::new().with_filter(filter.clone());
    let lines = lines.with_filter(filter);
    let already = tracing_subscriber::registry().with(lines).with(kept).try_init();
    drop(already);
}

/// What `wanted` lets through; what cannot be read counts as `info`.
pub(super) fn filter(wanted: &str) -> Targets {
    let info = || Targets::new().with_default(LevelFilter::INFO);
    let all = if wanted.is_empty() { info() } else { wanted.parse().unwrap_or_else(|_| info()) };
    // The library of the quorum tells each of its steps as `info`. Who wants them names it.
    match wanted.contains(QUORUM_LIBRARY) {
        true => all,
        false => all
            .with_target(QUORUM_LIBRARY, LevelFilter::ERROR)
            .with_target(QUORUM_CALLS, LevelFilter::OFF),
    }
}

/// Down to which level a program that embeds the broker gets the lines of a module.
pub(super) fn most_for(target: &str) -> LevelFilter {
    if target.starts_with(QUORUM_CALLS) {
        LevelFilter::OFF
    } else if target.starts_with(QUORUM_LIBRARY) {
        LevelFilter::ERROR
    } else {
        LevelFilter::TRACE
    }
}
