//! The table of keys, row by row, and what a broker would make of files, variables and flags.

use kafkalite_broker::config::{self, Dynamic, Kind};
use kafkalite_broker::process;
use pyo3::prelude::*;

use crate::error::refused;

/// One row of the table.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct ConfigKey {
    name: &'static str,
    /// `broker` or `topic`.
    level: &'static str,
    /// In small letters: `int`, `list`, ...
    kind: String,
    /// Unset is `None`. A topic's key that has synonyms has no default of its own.
    default: Option<String>,
    /// Whether the default is what this machine suggests.
    by_machine: bool,
    /// In Kafka's notation; empty if every value of the kind is valid.
    valid: String,
    /// Empty for counts and texts.
    unit: &'static str,
    /// `high`, `medium` or `low`.
    importance: String,
    /// `start`, `broker` (while it runs, one at a time) or `cluster` (one or all).
    changes: &'static str,
    doc: &'static str,
    /// The broker's keys that give the default, strongest first.
    synonyms: Vec<&'static str>,
}

impl ConfigKey {
    fn new(key: &config::ConfigKey, level: &'static str, synonyms: Vec<&'static str>) -> Self {
        let changes = match key.dynamic {
            Dynamic::ReadOnly => "start",
            Dynamic::PerBroker => "broker",
            Dynamic::ClusterWide => "cluster",
        };
        Self {
            name: key.name,
            level,
            kind: key.kind.name().to_ascii_lowercase(),
            default: key.default.text().filter(|_| key.kind != Kind::Password),
            by_machine: matches!(key.default, config::DefaultValue::Machine(_)),
            valid: key.valid_values(),
            unit: key.unit(),
            importance: format!("{:?}", key.importance).to_ascii_lowercase(),
            changes: if level == "topic" { "cluster" } else { changes },
            doc: key.doc,
            synonyms,
        }
    }
}

/// Every key of brokers and topics, in the order of the table.
#[pyfunction]
fn config_keys() -> Vec<ConfigKey> {
    let topics = config::topic_keys().filter(|topic| !topic.key.name.starts_with("internal."));
    let topics = topics.map(|topic| {
        let synonyms = topic.synonyms.iter().map(|synonym| synonym.name).collect();
        ConfigKey::new(&topic.key, "topic", synonyms)
    });
    config::broker_keys().map(|key| ConfigKey::new(key, "broker", vec![])).chain(topics).collect()
}

/// The one of `names` that was probably meant by `name`.
#[pyfunction]
fn nearest(name: &str, names: Vec<String>) -> Option<String> {
    config::nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// A key as `serve` would find it.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct ConfigOrigin {
    key: String,
    /// What holds; `None` is unset.
    value: Option<String>,
    /// A file and line, a variable, a flag, or `default`.
    origin: String,
    /// Whether the broker has such a key; else it is Kafka's, and read over.
    known: bool,
}

/// Every key that `serve` with these words would see.
#[pyfunction]
fn config_origins(py: Python<'_>, words: Vec<String>) -> PyResult<Vec<ConfigOrigin>> {
    let told = py.detach(|| process::origins(&words)).map_err(|failure| refused(py, &failure))?;
    let row = |row: process::Origin| ConfigOrigin {
        key: row.key,
        value: row.value,
        origin: row.origin,
        known: row.known,
    };
    Ok(told.into_iter().map(row).collect())
}

/// Adds them to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ConfigKey>()?;
    module.add_class::<ConfigOrigin>()?;
    module.add_function(wrap_pyfunction!(config_keys, module)?)?;
    module.add_function(wrap_pyfunction!(config_origins, module)?)?;
    module.add_function(wrap_pyfunction!(nearest, module)?)
}
