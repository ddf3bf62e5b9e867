//! The flags of `serve`.

use std::path::PathBuf;

use super::failure::Failure;
use crate::config::{Sources, parse_host_port, parse_listener};

/// The text of `serve --help`.
pub const HELP: &str = "\
usage: kafkalite serve [FLAG]...

Runs a Kafka broker until SIGTERM, SIGINT or SIGHUP. A second signal ends the broker at once.

  --listen HOST:PORT     Address to listen on (127.0.0.1:9092). Port 0 lets the system choose.
  --advertise HOST:PORT  Address that clients connect to, if it is not the listener's.
  --data-dir DIR         Directory of the records (kafkalite-data). Created if it is missing.
  --join HOST:PORT       Broker of the cluster to join with a new data directory.
  --admin-port N         Port of metrics and health on loopback (9644). 0 lets the system choose,
                         -1 turns them off.
  --config FILE          Configuration file: a server.properties or a kafkalite.toml.
  --set KEY=VALUE        Configuration key to set (repeatable).
  --profile dev          Defaults for tests: groups form without a delay.
  --console-write        Let clients of the admin API change topics, keys, records and groups.
  --test-control         Let clients of the admin API inject faults. Never on a broker in use.
  --topic NAME[:N]       Topic to create with N partitions, if it is missing (repeatable).
  --stop-with-stdin      Stop when stdin ends.
  --links-from-stdin     For tests: read addresses of brokers not to connect to, line by line.
  --stop-with-parent PID Stop when the parent process PID ends.
  --help, --version

A serving broker prints `ready: HOST:PORT` and `admin: URL` on stdout. The log goes to stderr;
KAFKALITE_LOG=debug logs more. `kafkalite config list` lists the keys. The environment sets keys
too: KAFKALITE_LOG_SEGMENT_BYTES sets log.segment.bytes. Unknown names cause a warning.

examples:
  kafkalite serve --data-dir data
  kafkalite serve --listen 0.0.0.0:9092 --advertise broker.example.com:9092
  kafkalite serve --listen 127.0.0.1:9093 --data-dir other --admin-port 0 --topic orders:3
  kafkalite serve --config server.properties --set log.retention.hours=24
";

/// The port of metrics and health, unless a key or flag says otherwise.
const ADMIN_PORT: &str = "9644";

/// What the words after `serve` ask for.
#[derive(Debug)]
pub enum Parsed {
    /// The help.
    Help,
    /// The version.
    Version,
    /// A broker.
    Run(Box<Order>),
}

/// The broker that is asked for.
#[derive(Debug, Default)]
pub struct Order {
    /// Where its configuration is.
    pub sources: Sources,
    /// Topics to make: name, and partitions if not as many as `num.partitions` says.
    pub topics: Vec<(String, Option<i32>)>,
    /// Whether it stops when stdin ends.
    pub stops_with_stdin: bool,
    /// Whether lines of stdin say which brokers it cannot reach.
    pub links_from_stdin: bool,
    /// The greatest level of records that it admits to support, where a test says so.
    pub record_version: Option<i16>,
    /// The process that started this one, if the broker stops with it.
    pub stops_with_parent: Option<u32>,
}

/// Reads the words after `serve`.
///
/// # Errors
/// A word that is no flag, a flag without its value, a value that cannot be one.
pub fn parse(words: &[&str]) -> Result<Parsed, Failure> {
    let sources = Sources {
        base: vec![("kafkalite.admin.port".to_owned(), ADMIN_PORT.to_owned())],
        environment: environment(),
        ..Sources::default()
    };
    let mut order = Order { sources, ..Order::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
            _ => (*word, None),
        };
        match flag {
            "-h" | "--help" => return Ok(Parsed::Help),
            "-V" | "--version" => return Ok(Parsed::Version),
            "--stop-with-stdin" if attached.is_none() => {
                order.stops_with_stdin = true;
                continue;
            }
            "--console-write" | "--test-control" if attached.is_none() => {
                let key = match flag {
                    "--console-write" => "kafkalite.console.write",
                    _ => "kafkalite.test.control",
                };
                order.sources.flags.push((key.to_owned(), "true".to_owned(), flag.to_owned()));
                continue;
            }
            "--links-from-stdin" if attached.is_none() => {
                order.links_from_stdin = true;
                continue;
            }
            _ => {}
        }
        if !FLAGS.contains(&flag) {
            return Err(unknown(flag));
        }
        let value = attached.or_else(|| words.next().copied());
        let value = value.ok_or_else(|| bad(format!("{flag} wants a value")))?;
        take(flag, value, &mut order)?;
    }
    if order.stops_with_stdin && order.links_from_stdin {
        return Err(bad("--links-from-stdin and --stop-with-stdin exclude each other".to_owned()));
    }
    Ok(Parsed::Run(Box::new(order)))
}

const FLAGS: &[&str] = &[
    "--listen",
    "--advertise",
    "--data-dir",
    "--join",
    "--admin-port",
    "--config",
    "--set",
    "--profile",
    "--topic",
    "--stop-with-parent",
    RECORD_VERSION,
];

/// For tests of rolling upgrades: the broker stands for an earlier release, which supports records
/// up to this level. The help leaves it out.
const RECORD_VERSION: &str = "--test-record-version";

fn take(flag: &str, value: &str, order: &mut Order) -> Result<(), Failure> {
    let sources = &mut order.sources;
    let mut set = |key: &str, value: &str| {
        sources.flags.push((key.to_owned(), value.to_owned(), flag.to_owned()));
    };
    match flag {
        "--listen" => set("listeners", &endpoint(flag, value)?),
        "--advertise" => set("advertised.listeners", &destination(flag, value)?),
        "--data-dir" => set("log.dirs", &directory(value)?),
        "--join" => {
            destination(flag, value)?;
            set("kafkalite.join", value);
        }
        "--admin-port" => set("kafkalite.admin.port", value),
        "--config" => sources.file = Some(PathBuf::from(value)),
        "--profile" => sources.profile = Some(value.to_owned()),
        "--topic" => order.topics.push(topic(value)?),
        "--stop-with-parent" => {
            let id = value.parse().ok().filter(|id| (1..=i32::MAX.cast_unsigned()).contains(id));
            let wrong = || bad(format!("--stop-with-parent wants a process id, not {value}"));
            order.stops_with_parent = Some(id.ok_or_else(wrong)?);
        }
        RECORD_VERSION => {
            let level = value.parse().ok().filter(|level| *level >= 1);
            let wrong = || bad(format!("{RECORD_VERSION} wants a level, not {value}"));
            order.record_version = Some(level.ok_or_else(wrong)?);
        }
        _ => {
            let pair = value.split_once('=');
            let (key, value) =
                pair.ok_or_else(|| bad(format!("--set wants KEY=VALUE: {value}")))?;
            set(key.trim(), value);
        }
    }
    Ok(())
}

fn endpoint(flag: &str, value: &str) -> Result<String, Failure> {
    if parse_host_port(value).is_none() || value.contains([',', '/']) {
        return Err(bad(format!("{flag} wants HOST:PORT, not {value}")));
    }
    Ok(format!("PLAINTEXT://{value}"))
}

/// An endpoint that clients can connect to.
fn destination(flag: &str, value: &str) -> Result<String, Failure> {
    let listener = endpoint(flag, value)?;
    if parse_listener(&listener).is_ok_and(|listener| listener.is_unspecified()) {
        return Err(bad(format!("{flag} wants a host that clients can connect to, not {value}")));
    }
    Ok(listener)
}

/// `NAME` or `NAME:PARTITIONS`; a topic's name has no colon.
fn topic(value: &str) -> Result<(String, Option<i32>), Failure> {
    let Some((name, partitions)) = value.split_once(':') else {
        return Ok((value.to_owned(), None));
    };
    let partitions = partitions.parse().ok().filter(|count| *count > 0);
    let bad = || bad(format!("--topic wants NAME or NAME:PARTITIONS, not {value}"));
    Ok((name.to_owned(), Some(partitions.ok_or_else(bad)?)))
}

/// `log.dirs` is a list, so it cannot hold a directory with a comma in its name.
fn directory(value: &str) -> Result<String, Failure> {
    if value.is_empty() || value.contains(',') {
        return Err(bad(format!("--data-dir wants one directory, without a comma: {value}")));
    }
    Ok(value.to_owned())
}

fn environment() -> Vec<(String, String)> {
    // A variable that is not text names none of our keys.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn bad(what: String) -> Failure {
    Failure::usage(what, "`kafkalite serve --help` tells the flags.".to_owned())
}

fn unknown(flag: &str) -> Failure {
    let nearest = crate::config::nearest(flag, FLAGS.iter().copied());
    let hint = match nearest {
        Some(meant) => format!("did you mean {meant}?"),
        None => "`kafkalite serve --help` tells the flags.".to_owned(),
    };
    Failure::usage(format!("unknown flag {flag}"), hint)
}
