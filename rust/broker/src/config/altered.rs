//! A broker's configuration with what was altered while it ran.
//!
//! The result depends on the static values and on the alterations only. The order of the
//! alterations does not matter, so a restart gives the same result. It always exists: an alteration
//! that does not hold is left out and reported, and the value behind it is in force. The metadata
//! log may have such alterations from an earlier release, or beside a file that was edited since.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::error::ConfigError;
use super::key::Dynamic;
use super::topic_values::TopicValues;
use super::values::ConfigSource;
use super::{broker_key, kept_key};

/// A configuration, and which alterations it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct AlteredConfig {
    /// What is in force.
    pub config: BrokerConfig,
    /// Why each alteration that is left out does not hold.
    pub problems: Vec<ConfigError>,
}

const MAX_LAG: &str = "log.cleaner.max.compaction.lag.ms";

/// One key that was altered.
struct Alteration<'a> {
    key: &'a str,
    value: &'a str,
    source: ConfigSource,
}

impl BrokerConfig {
    /// The same configuration with what was altered at run time, which takes the place of every
    /// earlier alteration. `for_all` holds for all brokers, `for_this` is stronger.
    #[must_use]
    pub fn with_dynamic<'a>(
        &self,
        for_all: &'a BTreeMap<String, String>,
        for_this: &'a BTreeMap<String, String>,
    ) -> AlteredConfig {
        let alterations = |configs: &'a BTreeMap<String, String>, source: ConfigSource| {
            configs.iter().map(move |(key, value)| Alteration { key, value, source })
        };
        let all = alterations(for_all, ConfigSource::DynamicDefaultBroker);
        let this = alterations(for_this, ConfigSource::DynamicBroker);
        let alterations: Vec<_> = all.chain(this).collect();
        // Without alterations it is the one that the broker was started with.
        let start = Self::new(self.values.clone().without_dynamic());
        let start = start.unwrap_or_else(|_| self.clone());
        match start.with(&alterations) {
            Ok(config) => AlteredConfig { config, problems: Vec::new() },
            Err(_) => start.with_what_holds(alterations),
        }
    }

    fn with(&self, alterations: &[Alteration<'_>]) -> Result<Self, ConfigError> {
        let mut values = self.values.clone();
        for Alteration { key, value, source } in alterations {
            let (may_be, origin) = match source {
                ConfigSource::DynamicBroker => (true, "altered for this broker"),
                _ => (dynamic(key) != Dynamic::PerBroker, "altered for all brokers"),
            };
            if !may_be || dynamic(key) == Dynamic::ReadOnly {
                let message = format!("Cannot update these configs dynamically: [{key}]");
                return Err(ConfigError::InvalidValue { message, origin: origin.to_owned() });
            }
            values.set(key, value, *source, origin)?;
        }
        Self::new(values)
    }

    /// Takes one alteration after the other, as long as there is one that holds beside those
    /// before. The strongest are tried first: of two values that contradict each other, the weaker
    /// one gives way. The largest compaction lag is tried last, so that no record is compacted too
    /// early.
    fn with_what_holds(mut self, mut left: Vec<Alteration<'_>>) -> AlteredConfig {
        left.sort_by_key(|one| (Reverse(one.source), one.key == MAX_LAG));
        loop {
            let (mut refused, mut problems) = (Vec::new(), Vec::new());
            let tried = left.len();
            for alteration in left {
                match self.with(std::slice::from_ref(&alteration)) {
                    Ok(config) => self = config,
                    Err(problem) => {
                        problems.push(problem);
                        refused.push(alteration);
                    }
                }
            }
            if refused.len() == tried {
                return AlteredConfig { config: self, problems };
            }
            left = refused;
        }
    }
}

/// Whether a key can be changed while the broker runs. An unknown key always can.
pub(super) fn dynamic(name: &str) -> Dynamic {
    match broker_key(name).or_else(|| kept_key(name)) {
        Some(key) => key.dynamic,
        None if super::kafka_keys::is_kafka_key(name) => Dynamic::ReadOnly,
        None => Dynamic::ClusterWide,
    }
}

/// May a broker go from `before` to `after` with these topics, each with its overrides?
///
/// # Errors
/// The first alteration that does not hold, or topic whose overrides do not hold any more, and that
/// did `before`.
pub fn check_results<'a>(
    before: &AlteredConfig,
    after: &AlteredConfig,
    topics: impl Iterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Result<(), ConfigError> {
    let problem = after.problems.iter().find(|problem| !before.problems.contains(problem));
    if let Some(problem) = problem {
        return Err(problem.clone());
    }
    let nothing = BTreeMap::new();
    let inherited = |altered: &AlteredConfig| TopicValues::new(&altered.config.values, &nothing);
    if inherited(before) == inherited(after) {
        // No topic's values move. There may be thousands of topics, and many brokers.
        return Ok(());
    }
    for (name, overrides) in topics.filter(|(_, overrides)| !overrides.is_empty()) {
        let before = TopicValues::new(&before.config.values, overrides);
        let after = TopicValues::new(&after.config.values, overrides);
        let mut problems = after.problems().iter();
        if let Some(problem) = problems.find(|problem| !before.problems().contains(problem)) {
            return Err(problem.clone().of_topic(name));
        }
    }
    Ok(())
}
