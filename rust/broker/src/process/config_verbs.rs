//! `config list` and `config explain`: the table, told to people.

use std::fmt::Write;

use super::failure::Failure;
use crate::config::{
    ConfigKey, DefaultValue, Dynamic, TopicKey, broker_key, broker_keys, nearest, topic_key,
    topic_keys,
};

const HELP: &str = "usage: kafkalite config list | kafkalite config explain KEY\n";

/// The answer to `words`.
///
/// # Errors
/// Words that ask for nothing, or a key that does not exist.
pub fn run(words: &[&str]) -> Result<String, Failure> {
    match words {
        ["list"] => Ok(listed()),
        ["explain", name] => explained(name),
        ["-h" | "--help"] => Ok(HELP.to_owned()),
        _ => Err(Failure::usage(
            "config wants to know what to tell".to_owned(),
            "`kafkalite config list`, or `kafkalite config explain KEY`.".to_owned(),
        )),
    }
}

fn listed() -> String {
    let mut out = String::from("broker:\n");
    for key in broker_keys() {
        row(&mut out, key, &default_of(key));
    }
    out.push_str("topic:\n");
    for topic in topic_keys().filter(|topic| !topic.key.name.starts_with("internal.")) {
        row(&mut out, &topic.key, &topic_default(topic));
    }
    out
}

fn row(out: &mut String, key: &ConfigKey, default: &str) {
    let kind = key.kind.name().to_ascii_lowercase();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "  {} ({kind}, {default})\n      {}", key.name, key.doc);
}

fn default_of(key: &ConfigKey) -> String {
    match key.default {
        DefaultValue::Null => "unset".to_owned(),
        DefaultValue::Text("") => "empty".to_owned(),
        DefaultValue::Text(text) => text.to_owned(),
        DefaultValue::Machine(ask) => format!("{} on this machine", ask()),
    }
}

fn topic_default(topic: &TopicKey) -> String {
    match topic.synonyms.first() {
        Some(synonym) => format!("the broker's {}", synonym.name),
        None => default_of(&topic.key),
    }
}

fn explained(name: &str) -> Result<String, Failure> {
    let mut out = String::new();
    if let Some(key) = broker_key(name) {
        let changes = match key.dynamic {
            Dynamic::ReadOnly => "when the broker starts",
            Dynamic::PerBroker => "while it runs, one broker at a time",
            Dynamic::ClusterWide => "while it runs, one broker or all",
        };
        paragraph(&mut out, "broker", key, &default_of(key), changes);
    }
    if let Some(topic) = topic_key(name) {
        let default = topic_default(topic);
        paragraph(&mut out, "topic", &topic.key, &default, "while the broker runs");
        let names: Vec<&str> = topic.synonyms.iter().map(|synonym| synonym.name).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "  the first of these that is set: {}", names.join(", "));
        }
    }
    if !out.is_empty() {
        return Ok(out);
    }
    let names = broker_keys().chain(topic_keys().map(|topic| &topic.key)).map(|key| key.name);
    let hint = match nearest(name, names) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "`kafkalite config list` lists the keys that exist.".to_owned(),
    };
    Err(Failure { exit_code: 5, ..Failure::usage(format!("unknown key {name}"), hint) })
}

fn paragraph(out: &mut String, level: &str, key: &ConfigKey, default: &str, changes: &str) {
    let kind = key.kind.name().to_ascii_lowercase();
    let _ = writeln!(out, "{} ({level})\n  {}\n  type: {kind}", key.name, key.doc);
    for (label, text) in [
        ("unit", key.unit()),
        ("valid", &key.valid_values()),
        ("default", default),
        ("changes", changes),
    ] {
        if !text.is_empty() {
            let _ = writeln!(out, "  {label}: {text}");
        }
    }
}
