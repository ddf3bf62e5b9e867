//! What was said about each key, by whom, and who wins.

use std::collections::BTreeMap;

use super::error::ConfigError;
use super::key::ConfigKey;
use super::value::{Value, parse};
use super::{broker_key, broker_keys, kafka_keys, kept_key, nearest, topic_key};

/// Where a value comes from, as DescribeConfigs numbers it (`ConfigEntry.ConfigSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// The table.
    Default,
    /// A profile, a file, the environment or a flag: fixed when the broker started.
    StaticBroker,
    /// Altered at run time for all brokers.
    DynamicDefaultBroker,
    /// Altered at run time for this broker.
    DynamicBroker,
    /// Set for one topic.
    DynamicTopic,
    /// Set for one subscription of client metrics.
    DynamicClientMetrics,
}

impl ConfigSource {
    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::DynamicTopic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
            Self::DynamicClientMetrics => 7,
        }
    }
}

/// One value and where it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value as written.
    pub value: String,
    /// Which kind of place said so.
    pub source: ConfigSource,
    /// The place: a file and line, a variable, a flag.
    pub origin: String,
}

/// An environment variable that begins with `KAFKALITE_` and names no key. It causes a warning and
/// no error, because other programs share the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
    /// The variable.
    pub name: String,
    /// The key that was probably meant.
    pub suggestion: Option<&'static str>,
}

/// Everything that was said about the broker's keys. Every key in it is known, every value valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerValues {
    /// For each key at most one setting of each source, weakest first.
    settings: BTreeMap<&'static str, Vec<Setting>>,
    /// Kafka's keys that are not ours, and where they were found.
    ignored: Vec<(String, String)>,
    /// Environment variables that begin like ours and name no key.
    unknown_variables: Vec<UnknownVariable>,
    /// Keys that stand in no table and were altered at run time, weakest first.
    kept: BTreeMap<String, Vec<Setting>>,
}

impl BrokerValues {
    /// Says that `name` is `value`, stronger than everything said from the same or a weaker source.
    ///
    /// # Errors
    /// An unknown key, or a value that the key cannot have. Kafka's keys that are not ours are
    /// noted in [`BrokerValues::ignored`].
    pub fn set(
        &mut self,
        name: &str,
        value: &str,
        source: ConfigSource,
        origin: &str,
    ) -> Result<(), ConfigError> {
        let key = broker_key(name);
        if key.is_none() && source <= ConfigSource::StaticBroker {
            return self.ignore_or_refuse(name, origin);
        }
        if let Some(key) = key.or_else(|| kept_key(name)) {
            parse(key, value).map_err(|message| ConfigError::InvalidValue {
                message,
                origin: origin.to_owned(),
            })?;
        }
        let settings = match key {
            Some(key) => self.settings.entry(key.name).or_default(),
            None => self.kept.entry(name.to_owned()).or_default(),
        };
        settings.retain(|setting| setting.source != source);
        let at = settings.partition_point(|setting| setting.source < source);
        let setting = Setting { value: value.to_owned(), source, origin: origin.to_owned() };
        settings.insert(at, setting);
        Ok(())
    }

    fn ignore_or_refuse(&mut self, name: &str, origin: &str) -> Result<(), ConfigError> {
        if kafka_keys::is_kafka_key(name) {
            if !self.ignored.iter().any(|(ignored, _)| ignored == name) {
                self.ignored.push((name.to_owned(), origin.to_owned()));
            }
            return Ok(());
        }
        // A topic's key is that of a broker with another name.
        let of_brokers = topic_key(name).and_then(|topic| topic.synonyms.first());
        let of_brokers = of_brokers.map(|synonym| synonym.name);
        Err(ConfigError::UnknownKey {
            key: name.to_owned(),
            origin: origin.to_owned(),
            suggestion: of_brokers.or_else(|| nearest(name, broker_keys().map(|key| key.name))),
        })
    }

    /// Forgets what was altered at run time.
    pub fn without_dynamic(mut self) -> Self {
        for settings in self.settings.values_mut() {
            settings.retain(|setting| setting.source <= ConfigSource::StaticBroker);
        }
        self.settings.retain(|_, settings| !settings.is_empty());
        self.kept.clear();
        self
    }

    /// Keys that stand in no table and were altered at run time, each with what was said, weakest
    /// first.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &[Setting])> {
        self.kept.iter().map(|(name, settings)| (name.as_str(), settings.as_slice()))
    }

    /// The value of a key that is kept and has no effect, if it was altered.
    #[must_use]
    pub fn kept_value(&self, key: &ConfigKey) -> Option<Value> {
        parse(key, &self.kept.get(key.name)?.last()?.value).ok()
    }

    /// As [`Self::set`] for what the environment variable `variable` says. One that names no key is
    /// noted in [`Self::unknown_variables`].
    ///
    /// # Errors
    /// A value that the key cannot have.
    pub fn set_from_variable(
        &mut self,
        variable: &str,
        name: &str,
        value: &str,
    ) -> Result<(), ConfigError> {
        let origin = format!("environment {variable}");
        match self.set(name, value, ConfigSource::StaticBroker, &origin) {
            Err(ConfigError::UnknownKey { suggestion, .. }) => {
                let name = variable.to_owned();
                self.unknown_variables.push(UnknownVariable { name, suggestion });
                Ok(())
            }
            other => other,
        }
    }

    /// Environment variables that begin with `KAFKALITE_` and name no key: each deserves a warning.
    #[must_use]
    pub fn unknown_variables(&self) -> &[UnknownVariable] {
        &self.unknown_variables
    }

    /// Kafka's keys that are not ours, and where they were found: each deserves one warning.
    #[must_use]
    pub fn ignored(&self) -> &[(String, String)] {
        &self.ignored
    }

    /// What was said about `name`, weakest first; the table's default is not among it.
    #[must_use]
    pub fn settings(&self, name: &str) -> &[Setting] {
        self.settings.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value of `key` that holds, as text without blanks around it; `None` is Kafka's null.
    #[must_use]
    pub fn text(&self, key: &ConfigKey) -> Option<String> {
        let strongest = self.settings(key.name).last();
        strongest.map(|setting| setting.value.trim().to_owned()).or_else(|| key.default.text())
    }

    /// The value of `key` that holds.
    #[must_use]
    pub fn value(&self, key: &ConfigKey) -> Option<Value> {
        let text = self.text(key)?;
        Some(parse(key, &text).expect("set() lets in valid values only, and defaults are tested"))
    }
}
