//! Which values a broker would start with, and where each was said.

use super::failure::Failure;
use super::flags::{self, Parsed};
use crate::config::{Kind, broker_keys, load};

/// A key as `serve` would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The key.
    pub key: String,
    /// What holds; `None` is unset. A password is not told.
    pub value: Option<String>,
    /// Where that was said: a file and line, a variable, a flag, `default`.
    pub origin: String,
    /// Whether it has an effect: Kafka's keys that this broker lacks are ignored.
    pub known: bool,
}

/// Every key of the table, as `serve` with these words would find it, and Kafka's keys that were
/// set and are not ours.
///
/// # Errors
/// As `serve` would refuse the same words.
pub fn origins(words: &[String]) -> Result<Vec<Origin>, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Parsed::Run(order) = flags::parse(&words)? else { return Ok(Vec::new()) };
    let values = load(&order.sources)?.values;
    let known = broker_keys().map(|key| {
        let set = values.settings(key.name).last();
        let text = values.text(key);
        let hidden = key.kind == Kind::Password;
        Origin {
            key: key.name.to_owned(),
            value: text.map(|text| if hidden { "[hidden]".to_owned() } else { text }),
            origin: set.map_or_else(|| "default".to_owned(), |setting| setting.origin.clone()),
            known: true,
        }
    });
    let ignored = values.ignored().iter().map(|(key, origin)| Origin {
        key: key.clone(),
        value: None,
        origin: origin.clone(),
        known: false,
    });
    let unknown = values.unknown_variables().iter().map(|variable| Origin {
        key: variable.name.clone(),
        value: None,
        origin: "environment".to_owned(),
        known: false,
    });
    Ok(known.chain(ignored).chain(unknown).collect())
}
