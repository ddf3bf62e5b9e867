//! What a failure says: what, why, and a hint for what to do; and the exit code that goes with it.
//!
//! ```text
//! error: cannot listen on 127.0.0.1:9092
//!   another process listens there
//! hint: give another port with --listen, or stop that process.
//! ```

use std::fmt;
use std::io::ErrorKind;

use kafkalite_log::LogError;

use crate::broker::StartError;
use crate::config::ConfigError;
use crate::network::BindError;

/// The broker is refused what it needs.
pub const REFUSED: i32 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: i32 = 2;

/// Why a verb did not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub what: String,
    /// The cause, if `what` does not tell it already.
    pub why: Option<String>,
    /// What to do about it.
    pub hint: String,
    /// The process's exit code.
    pub exit_code: i32,
}

impl Failure {
    /// The words on the command line are wrong.
    pub fn usage(what: String, hint: String) -> Self {
        Self { what, why: None, hint, exit_code: USAGE }
    }

    /// Something that the broker needs is refused to it.
    pub fn refused(what: String, why: String, hint: &str) -> Self {
        Self { what, why: Some(why), hint: hint.to_owned(), exit_code: REFUSED }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "error: {}", self.what)?;
        if let Some(why) = &self.why {
            writeln!(out, "  {why}")?;
        }
        writeln!(out, "hint: {}", self.hint)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let why = match &error {
            ConfigError::Several(errors) => {
                let lines = errors.iter().map(|one| format!("{one}: {}", one.hint()));
                Some(lines.collect::<Vec<_>>().join("\n  "))
            }
            _ => None,
        };
        Self { what: error.to_string(), why, hint: error.hint(), exit_code: USAGE }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Bind(error) => bind(&error),
            StartError::Log(error) => log(&error),
            StartError::Topic { name, why } => Self {
                what: format!("cannot create topic {name}"),
                why: Some(why),
                hint: "give names of letters, digits, dots, dashes; and partitions from 1 on."
                    .to_owned(),
                exit_code: USAGE,
            },
            error if error.is_without_cluster() => Self::refused(
                "the broker does not start".to_owned(),
                error.to_string(),
                "start the other brokers of the cluster too, at the same time.",
            ),
            error if error.is_of_another_release() => Self::refused(
                "the broker does not start".to_owned(),
                error.to_string(),
                "install the release that the other brokers run, or a newer one.",
            ),
            other => Self::refused(
                "the broker does not start".to_owned(),
                other.to_string(),
                "give another directory with --data-dir, or mend this one.",
            ),
        }
    }
}

fn bind(error: &BindError) -> Failure {
    let (place, why, hint) = match error {
        BindError::PortTaken { host, port, .. } => (
            place(host, *port),
            "another process listens there".to_owned(),
            "give another port with --listen (0 lets the system choose), or stop that process.",
        ),
        BindError::NotPermitted { host, port, .. } => (
            place(host, *port),
            "ports below 1024 are for root".to_owned(),
            "take a port from 1024 on.",
        ),
        BindError::UnknownHost { host, source, .. } => (
            host.clone(),
            format!("that is no address of this machine: {source}"),
            "give --listen an address of this machine, 127.0.0.1 for instance.",
        ),
        BindError::Other { host, port, source, .. } => {
            (place(host, *port), source.to_string(), "give another address with --listen.")
        }
    };
    Failure::refused(format!("cannot listen on {place}"), why, hint)
}

fn place(host: &str, port: u16) -> String {
    let host = if host.is_empty() { "*" } else { host };
    format!("{host}:{port}")
}

/// Why a data directory cannot be used.
pub fn log(error: &LogError) -> Failure {
    match error {
        LogError::Locked { path } => Failure::refused(
            format!("cannot use the data directory {}", path.display()),
            "another broker has locked it".to_owned(),
            "stop that broker, or give another directory with --data-dir.",
        ),
        LogError::Io { path, source } if source.kind() == ErrorKind::PermissionDenied => {
            Failure::refused(
                format!("cannot write {}", path.display()),
                source.to_string(),
                "give a directory that this user may write with --data-dir.",
            )
        }
        other => Failure::refused(
            "cannot use the data directory".to_owned(),
            other.to_string(),
            "give another directory with --data-dir, or mend this one.",
        ),
    }
}
