//! What a broker's values have to be together: each may be valid alone and impossible beside
//! another, or as the default of a topic's key.
//!
//! Every [`super::BrokerConfig`] was checked here, whether its values come from files and flags or
//! were altered at run time.
//! Source: Kafka's `KafkaConfig.validateValues` and the parsing of `LogConfig`, for the rules and
//! the sentences.

use super::error::ConfigError;
use super::key::{ConfigKey, TopicKey};
use super::topic_values::{inherited, inherited_from};
use super::value::{Value, parse};
use super::values::BrokerValues;
use super::{broker_key, topic_key, topic_keys};

/// The first rule that `values` break together.
///
/// # Errors
/// [`ConfigError::InvalidValue`]
pub(super) fn check(values: &BrokerValues) -> Result<(), ConfigError> {
    let read = Read { values };
    topic_keys().try_for_each(|topic| read.default_of(topic))?;
    read.lags()?;
    let retention = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    if read.topic_number("retention.ms") == Some(0) {
        let why = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1";
        return Err(read.invalid(&retention, why.to_owned()));
    }
    read.cleaners()?;
    read.connections()?;
    read.queue()?;
    read.replication()?;
    read.node_id()?;
    read.offsets_topic()
}

struct Read<'a> {
    values: &'a BrokerValues,
}

impl Read<'_> {
    /// A topic that says nothing gets the broker's value, so that has to be one of the topic's key.
    fn default_of(&self, topic: &TopicKey) -> Result<(), ConfigError> {
        let Some((key, text)) = inherited_from(self.values, topic) else { return Ok(()) };
        let valid = ConfigKey { name: key.name, ..topic.key };
        parse(&valid, &text).map(drop).map_err(|why| self.invalid(&[key.name], why))
    }

    fn lags(&self) -> Result<(), ConfigError> {
        let lags = [
            self.topic_number("min.compaction.lag.ms"),
            self.topic_number("max.compaction.lag.ms"),
        ];
        let [Some(min), Some(max)] = lags else { return Ok(()) };
        if min <= max {
            return Ok(());
        }
        let keys = ["log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"];
        let why = format!("conflict config setting {} ({min}) > {} ({max})", keys[0], keys[1]);
        Err(self.invalid(&keys, why))
    }

    fn cleaners(&self) -> Result<(), ConfigError> {
        let (buffer, threads) = ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads");
        let cleaners = self.number(threads);
        if cleaners < 1 {
            let why = format!("Invalid value {cleaners} for configuration {threads}");
            return Err(self.invalid(&[threads], format!("{why}: Value must be at least 1")));
        }
        if self.number(buffer) / cleaners <= 1 << 20 {
            let why = format!("{buffer} must be at least 1MB per cleaner thread.");
            return Err(self.invalid(&[buffer, threads], why));
        }
        Ok(())
    }

    /// Zero would refuse every client, because there are no overrides for single addresses here.
    fn connections(&self) -> Result<(), ConfigError> {
        if self.number("max.connections") == 0 {
            let why = "Invalid max.connections 0".to_owned();
            return Err(self.invalid(&["max.connections"], why));
        }
        if self.number("max.connections.per.ip") == 0 {
            let why = "max.connections.per.ip can be set to zero only if \
                       max.connections.per.ip.overrides property is set.";
            return Err(self.invalid(&["max.connections.per.ip"], why.to_owned()));
        }
        Ok(())
    }

    /// A queue that was given less room than one request: Kafka would never take that request. Ours
    /// takes it, and by default has less room; so only what was asked for is refused.
    fn queue(&self) -> Result<(), ConfigError> {
        let name = "queued.max.request.bytes";
        let (queued, request) = (self.number(name), self.number("socket.request.max.bytes"));
        if self.values.settings(name).is_empty() || queued <= 0 || queued >= request {
            return Ok(());
        }
        let why = format!("{name} must be larger or equal to socket.request.max.bytes");
        Err(self.invalid(&[name], why))
    }

    /// A follower that waits for longer than this is taken for one that is gone. Kafka starts with
    /// heartbeats as rare as sessions are long, and fences the broker between any two of them.
    fn replication(&self) -> Result<(), ConfigError> {
        let wait = "replica.fetch.wait.max.ms";
        let (timeout, lag) = ("replica.socket.timeout.ms", "replica.lag.time.max.ms");
        if self.number(wait) > self.number(timeout) {
            let why = format!("{timeout} should always be at least {wait}");
            let why = format!("{why} to prevent unnecessary socket timeouts");
            return Err(self.invalid(&[wait, timeout], why));
        }
        if self.number(wait) > self.number(lag) {
            let why = format!("{wait} should always be less than or equal to {lag}");
            return Err(
                self.invalid(&[wait, lag], format!("{why} to prevent frequent changes in ISR"))
            );
        }
        let (beat, session) = ("broker.heartbeat.interval.ms", "broker.session.timeout.ms");
        if self.number(beat) >= self.number(session) {
            let why = format!("{beat} must be less than {session}");
            return Err(self.invalid(&[beat, session], why));
        }
        Ok(())
    }

    fn node_id(&self) -> Result<(), ConfigError> {
        let (node, broker) = (self.number("node.id"), self.number("broker.id"));
        if self.values.settings("node.id").is_empty() || broker < 0 || node == broker {
            return Ok(());
        }
        let why = "You must set `node.id` to the same value as `broker.id`.";
        Err(self.invalid(&["broker.id", "node.id"], why.to_owned()))
    }

    /// The offsets topic is made with this as its segment.bytes.
    fn offsets_topic(&self) -> Result<(), ConfigError> {
        let name = "offsets.topic.segment.bytes";
        let segment = topic_key("segment.bytes").expect("the table has it; a test reads it");
        let valid = ConfigKey { name, ..segment.key };
        let text = self.number(name).to_string();
        parse(&valid, &text).map(drop).map_err(|why| self.invalid(&[name], why))
    }

    /// The value of a broker's key that is a number and has a default.
    fn number(&self, name: &str) -> i64 {
        match broker_key(name).and_then(|key| self.values.value(key)) {
            Some(Value::Number(number)) => number,
            other => panic!("{name} is a number in the table, not {other:?}"),
        }
    }

    fn topic_number(&self, name: &str) -> Option<i64> {
        inherited(self.values, topic_key(name)?)?.parse().ok()
    }

    /// `message`, and the place where the first of `names` was set.
    fn invalid(&self, names: &[&str], message: String) -> ConfigError {
        let mut settings = names.iter().filter_map(|name| self.values.settings(name).last());
        let origin = settings.next().map_or("default", |setting| setting.origin.as_str());
        ConfigError::InvalidValue { message, origin: origin.to_owned() }
    }
}
