//! The places where keys are set before the broker starts, in the order of their strength.

use std::path::{Path, PathBuf};

use super::broker_config::BrokerConfig;
use super::error::ConfigError;
use super::values::{BrokerValues, ConfigSource};
use super::{broker_key, properties, toml_file};

/// Where to read a configuration from. The default reads nothing: the table's defaults hold.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// What the caller sets in place of the table's defaults, weaker than all that follows.
    pub base: Vec<(String, String)>,
    /// Named overrides that stand in for defaults; `dev` is the only one.
    pub profile: Option<String>,
    /// A `.toml` file, or else a file of properties.
    pub file: Option<PathBuf>,
    /// Environment variables; those that do not begin with `KAFKALITE_` are passed over.
    pub environment: Vec<(String, String)>,
    /// What flags set: key, value and the flag.
    pub flags: Vec<(String, String, String)>,
}

/// What the profile `dev` sets, for tests and for trying things out: `serve --profile dev`,
/// `kafkalite dev`, embedded brokers and the fixtures all take it from here.
const DEV: &[(&str, &str)] = &[
    ("group.initial.rebalance.delay.ms", "0"),
    ("auto.create.topics.enable", "true"),
    ("offsets.topic.num.partitions", "4"),
    ("kafkalite.stop.timeout.ms", "500"),
    ("kafkalite.recent.requests", "256"),
    ("kafkalite.test.control", "true"),
    ("kafkalite.console.write", "true"),
];

const PREFIX: &str = "KAFKALITE_";

/// The origin of what the caller sets in place of the table's defaults.
pub const BASE: &str = "default";

/// Variables that are no keys of a broker: the log filter of the process, and where the command
/// line's clients connect to.
const NOT_KEYS: &[&str] = &["KAFKALITE_LOG", "KAFKALITE_BOOTSTRAP_SERVERS"];

/// Reads `sources`, weakest first, each stronger than those before.
///
/// # Errors
/// A file or profile that is wrong; or all keys and values that are wrong, each with the place it
/// was found in.
pub fn load(sources: &Sources) -> Result<BrokerConfig, ConfigError> {
    let mut values = BrokerValues::default();
    let mut errors = Vec::new();
    for (key, value) in &sources.base {
        values.set(key, value, ConfigSource::StaticBroker, BASE)?;
    }
    if let Some(name) = &sources.profile {
        if name != "dev" {
            return Err(ConfigError::UnknownProfile { name: name.clone() });
        }
        for (key, value) in DEV {
            values.set(key, value, ConfigSource::StaticBroker, "--profile dev")?;
        }
    }
    if let Some(path) = &sources.file {
        for (key, value, origin) in read_file(path)? {
            errors.extend(values.set(&key, &value, ConfigSource::StaticBroker, &origin).err());
        }
    }
    for (variable, value) in &sources.environment {
        let is_key = variable.starts_with(PREFIX) && !NOT_KEYS.contains(&variable.as_str());
        if is_key && !is_service_link(variable, value) {
            errors.extend(values.set_from_variable(variable, &key_of(variable), value).err());
        }
    }
    for (key, value, flag) in &sources.flags {
        errors.extend(values.set(key, value, ConfigSource::StaticBroker, flag).err());
    }
    ConfigError::all(errors)?;
    BrokerConfig::new(values)
}

/// The key a variable names: KAFKALITE_LOG_SEGMENT_BYTES is log.segment.bytes, and
/// KAFKALITE_REQUEST_INLINE is kafkalite.request.inline, for only we have such a key.
fn key_of(variable: &str) -> String {
    let dotted = variable.to_ascii_lowercase().replace('_', ".");
    let without_prefix = &dotted[PREFIX.len()..];
    if broker_key(without_prefix).is_none() && broker_key(&dotted).is_some() {
        return dotted;
    }
    without_prefix.to_owned()
}

/// Whether Kubernetes set the variable because of a Service whose name begins with `kafkalite`.
///
/// For a Service `kafkalite` with port 9092 named `plain` every pod of the namespace gets
/// ```text
/// KAFKALITE_SERVICE_HOST=10.0.0.11     KAFKALITE_PORT=tcp://10.0.0.11:9092
/// KAFKALITE_SERVICE_PORT=9092          KAFKALITE_PORT_9092_TCP=tcp://10.0.0.11:9092
/// KAFKALITE_SERVICE_PORT_PLAIN=9092    KAFKALITE_PORT_9092_TCP_{PROTO,PORT,ADDR}=...
/// ```
/// Source: Kubernetes' "Environment variables" of Services, which keep Docker's link format.
fn is_service_link(variable: &str, value: &str) -> bool {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    if variable.ends_with("_SERVICE_HOST") || variable.ends_with("_SERVICE_PORT") {
        return true;
    }
    if variable.contains("_SERVICE_PORT_") {
        return value.parse::<u16>().is_ok();
    }
    if variable.ends_with("_PORT") && value.contains("://") {
        return true;
    }
    // PORT_<number>_<protocol>, and perhaps one word more.
    let Some((_, link)) = variable.rsplit_once("_PORT_").filter(|(_, link)| !link.is_empty())
    else {
        return false;
    };
    let mut words = link.split('_');
    words.next().is_some_and(|number| number.parse::<u16>().is_ok())
        && words.next().is_some_and(|protocol| PROTOCOLS.contains(&protocol))
}

fn read_file(path: &Path) -> Result<Vec<(String, String, String)>, ConfigError> {
    let unreadable = |reason: String| ConfigError::UnreadableFile { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let malformed =
        |(line, reason)| ConfigError::MalformedFile { path: path.to_owned(), line, reason };
    let shown = path.display();
    if path.extension().is_some_and(|extension| extension == "toml") {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let entries = toml_file::entries(text).map_err(malformed)?;
        return Ok(entries.into_iter().map(|(k, v)| (k, v, shown.to_string())).collect());
    }
    let entries = properties::entries(&properties::decode(&bytes)).map_err(malformed)?;
    Ok(entries.into_iter().map(|(line, k, v)| (k, v, format!("{shown} line {line}"))).collect())
}
