//! From words to checked values.

use super::foreign_keys::{Foreign, foreign};
use super::key::{ClientKey, ClientKind};
use super::keys;
use crate::error::ClientError;
use kafkalite_protocol::nearest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Checked values: what was set, and below it the table's defaults.
#[derive(Clone, Debug)]
pub struct Values {
    kind: ClientKind,
    set: BTreeMap<&'static str, String>,
    /// What the user should know of, though nothing is wrong.
    pub warnings: Vec<String>,
}

/// Checks `pairs`, whose keys have dots or underscores, against the table. The error names all that
/// are wrong.
pub fn parse(kind: ClientKind, pairs: &BTreeMap<String, String>) -> Result<Values, ClientError> {
    let mut values = Values { kind, set: BTreeMap::new(), warnings: Vec::new() };
    let mut errors = Vec::new();
    for (given, value) in pairs {
        errors.extend(values.take(given, value).err());
    }
    match all_of(errors) {
        Some(error) => Err(error),
        None => Ok(values),
    }
}

/// One error of several: the first, with a line for each of the others.
fn all_of(errors: Vec<ClientError>) -> Option<ClientError> {
    let mut errors = errors.into_iter();
    let mut all = errors.next()?;
    for other in errors {
        let hint = match &other {
            ClientError::Config { hint: Some(hint), .. } => format!(" ({hint})"),
            _ => String::new(),
        };
        if let ClientError::Config { why, .. } = &mut all {
            why.push_str(&format!("\n{other}{hint}"));
        }
    }
    Some(all)
}

/// The warning for a key that is not in the table, or the error.
fn stranger(kind: ClientKind, name: &str, value: &str) -> Result<String, ClientError> {
    let wrong =
        |why: &str, hint| ClientError::Config { key: name.to_owned(), why: why.to_owned(), hint };
    match foreign(name) {
        Some(Foreign::Ignored) => {
            Ok(format!("{name}={value} is Kafka's, and changes nothing here"))
        }
        Some(Foreign::NotBuilt(why)) => Err(wrong(why, None)),
        Some(Foreign::Called(ours)) => {
            Err(wrong("unknown key", Some(format!("Kafka's name for it is {ours}."))))
        }
        Some(Foreign::Otherwise(how)) => Err(wrong("unknown key", Some(how.to_owned()))),
        None => {
            let names = keys().filter(|key| key.owner.includes(kind)).map(|key| key.name);
            let hint = nearest(name, names).map(|name| format!("did you mean {name}?"));
            Err(wrong("unknown key", hint))
        }
    }
}

fn someone_elses(kind: ClientKind, key: &ClientKey) -> ClientError {
    let owner = if key.owner.includes(ClientKind::Producer) { "producer" } else { "consumer" };
    ClientError::Config {
        key: key.name.to_owned(),
        why: format!("the {} has no such key", kind.name()),
        hint: Some(format!("it is a key of the {owner}.")),
    }
}

impl Values {
    /// Takes one pair.
    fn take(&mut self, given: &str, value: &str) -> Result<(), ClientError> {
        let name = given.replace('_', ".");
        let Some(key) = keys().find(|key| key.name == name) else {
            self.warnings.push(stranger(self.kind, &name, value)?);
            return Ok(());
        };
        if !key.owner.includes(self.kind) {
            return Err(someone_elses(self.kind, key));
        }
        if self.set.insert(key.name, key.checked(value)?).is_some() {
            let why = "is given twice, with dots and with underscores".to_owned();
            return Err(ClientError::Config { key: name, why, hint: None });
        }
        Ok(())
    }

    /// Which client they are for.
    pub fn kind(&self) -> ClientKind {
        self.kind
    }

    /// Whether `name` was set.
    pub fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    /// The value of `name`, or its default; `None` where it has neither.
    ///
    /// # Panics
    /// If the table has no such key.
    pub fn text(&self, name: &str) -> Option<&str> {
        let key = keys().find(|key| key.name == name);
        let key = key.unwrap_or_else(|| panic!("{name} is not in the table"));
        self.set.get(name).map(String::as_str).or(key.default)
    }

    /// The value of a key of type `INT` or `LONG` that has a default.
    pub fn number(&self, name: &str) -> i64 {
        let text = self.text(name).expect("the key has a default");
        text.parse().expect("numbers are checked")
    }

    /// A number that the table bounds from below at 0.
    pub fn count(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).expect("the table allows no less than 0")
    }

    /// A number of milliseconds that the table bounds from below at 0.
    pub fn ms(&self, name: &str) -> Duration {
        Duration::from_millis(self.count(name) as u64)
    }

    /// A number of milliseconds or bytes, where -1 is none.
    pub fn unless_minus_one(&self, name: &str) -> Option<u64> {
        u64::try_from(self.number(name)).ok()
    }

    /// The value of a key of type `BOOLEAN`.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// The values of a key of type `LIST`, without empty ones.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
    }

    /// An error about `name`.
    pub(super) fn wrong(name: &str, why: impl Into<String>, hint: Option<&str>) -> ClientError {
        ClientError::Config { key: name.to_owned(), why: why.into(), hint: hint.map(str::to_owned) }
    }
}
