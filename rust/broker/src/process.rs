//! The process: what stands between a command line and a running broker, and between a signal and
//! a clean stop.
//!
//! [`main`] takes the words after the program's name and returns its exit code: 0 done, 1 refused
//! (a locked directory, a taken port), 2 usage or a bad configuration. Answers go to stdout, talk
//! to stderr. Nothing here decides anything about Kafka.

use std::io::Write;

mod config_verbs;
mod embedded;
mod failure;
mod flags;
mod log_lines;
mod log_verbs;
mod logging;
mod serve;
#[cfg(test)]
mod tests;

pub use embedded::Embedded;
pub use failure::Failure;
pub use log_lines::{LogLine, forward_log, next_log_lines, stop_log};

/// This release, as `--version` tells it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const HELP: &str = "\
usage: kafkalite serve [FLAG]...          run a broker until SIGTERM or SIGINT
       kafkalite config list              every key with its type, default and meaning
       kafkalite config explain KEY       all there is to know about one key
       kafkalite log adopt DIR ...        take over a partition that Apache Kafka wrote
       kafkalite --version | --help

`kafkalite VERB --help` tells the flags of a verb.
";

/// Runs the verb that `args` begin with; for `serve` it returns when the broker has stopped.
#[must_use]
pub fn main(args: &[String]) -> i32 {
    match run(args) {
        Ok(()) => 0,
        Err(failure) => {
            // Whoever closed stderr does not want to know.
            let _ = write!(std::io::stderr().lock(), "{failure}");
            failure.exit_code
        }
    }
}

fn run(args: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["-h" | "--help" | "help", ..] => say(HELP),
        ["-V" | "--version", ..] => say(&format!("kafkalite {VERSION}\n")),
        ["serve", rest @ ..] => match flags::parse(rest)? {
            flags::Parsed::Help => say(flags::HELP),
            flags::Parsed::Version => say(&format!("kafkalite {VERSION}\n")),
            flags::Parsed::Run(order) => serve::serve(&order),
        },
        ["config", rest @ ..] => say(&config_verbs::run(rest)?),
        ["log", rest @ ..] => say(&log_verbs::run(rest)?),
        [other, ..] => Err(Failure::usage(
            format!("there is no verb {other}"),
            "`kafkalite --help` lists the verbs.".to_owned(),
        )),
    }
}

/// Writes an answer to stdout at once. A reader that went away is no failure of ours.
fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(())
}
