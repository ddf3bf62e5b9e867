//! The process's log: lines for people on a terminal, JSON otherwise, always on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. `KAFKALITE_LOG` filters as `tracing` does: `warn`, `kafkalite_broker=debug`.
/// A process that logs already, as one that embeds us may, keeps its own way.
pub fn start() {
    let wanted = std::env::var("KAFKALITE_LOG").unwrap_or_default();
    let wanted = if wanted.is_empty() { "info" } else { wanted.as_str() };
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let already = if terminal {
        log.with_ansi(colours).with_target(false).try_init()
    } else {
        log.json().flatten_event(true).try_init()
    };
    drop(already);
}
