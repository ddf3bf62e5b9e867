//! The process: what stands between a command line and a running broker, and between a signal and
//! a clean stop.
//!
//! [`main`] takes the words after `serve` and returns the exit code. 0 is success, 1 a refusal (a
//! locked directory, a taken port), 2 wrong usage or a bad configuration. Answers go to stdout,
//! talk to stderr. The commands that only read are in Python; their contents come from [`origins`],
//! [`adopt`] and [`inspect`]. Nothing here decides anything about Kafka.

use std::io::Write;

mod adopt;
mod embedded;
mod failure;
mod flags;
mod forks;
mod kept_lines;
mod links;
mod log_lines;
mod logging;
mod origins;
mod parent;
mod serve;
#[cfg(test)]
mod tests;

pub use crate::admin_http::api_name;
pub use crate::metrics::RecentRequest;
pub use crate::test_control::{Refused as ControlRefused, TestControl};
pub use adopt::adopt;
pub use embedded::Embedded;
pub use failure::Failure;
pub use kafkalite_log::inspect;
pub use kafkalite_log::{Adopted, LogError};
pub use links::Links;
pub use log_lines::{LogLine, forward_log, next_log_lines, stop_log};
pub use origins::{Origin, origins};

/// This release, as `--version` tells it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Called when the broker serves, with its addresses and the URL of metrics and health.
pub type OnReady<'a> = &'a dyn Fn(&str, Option<&str>);

/// Runs `serve` with these words; returns when the broker has stopped.
#[must_use]
pub fn main(words: &[String], ready: OnReady<'_>) -> i32 {
    match run(words, ready) {
        Ok(()) => 0,
        Err(failure) => {
            // A closed stderr cannot take the message.
            let _ = write!(std::io::stderr().lock(), "{failure}");
            failure.exit_code
        }
    }
}

fn run(words: &[String], ready: OnReady<'_>) -> Result<(), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match flags::parse(&words)? {
        flags::Parsed::Help => answer(flags::HELP),
        flags::Parsed::Version => answer(&format!("kafkalite {VERSION}\n")),
        flags::Parsed::Run(order) => serve::serve(&order, ready),
    }
}

/// Writes an answer to stdout. A reader that went away is no failure of ours; a full disk is.
fn answer(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::refused(
            "cannot write to stdout".to_owned(),
            error.to_string(),
            "look at where stdout leads to.",
        )),
        _ => Ok(()),
    }
}

/// Tells those who may listen on stdout. The broker serves whether or not anyone does.
fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
