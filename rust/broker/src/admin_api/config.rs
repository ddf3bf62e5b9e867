//! `/config` and `/topics/{name}/config`: every key, its value, and who said it.
//!
//! Secrets are not shown. The tables have some hundred keys, so an answer has all of them.

use serde::Serialize;

use super::asked::{Asked, Search};
use super::topics::find;
use super::{AdminApi, Answer, json};
use crate::config::{BrokerConfig, ConfigSource, Described, describe_broker, describe_topic};

#[derive(Serialize)]
struct Keys<'a> {
    broker_id: i32,
    /// `None`: the keys are the broker's.
    topic: Option<&'a str>,
    keys: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    name: &'a str,
    /// `None` is unset, or a secret.
    value: Option<&'a str>,
    /// Which kind of place said so.
    source: &'static str,
    /// The place: a file and line, a variable, a flag. `None` for defaults.
    origin: Option<&'a str>,
    /// It is fixed while the broker runs.
    read_only: bool,
    /// Its value is a secret.
    sensitive: bool,
    documentation: Option<&'a str>,
}

/// `GET /config`
pub(super) fn of_broker(api: &AdminApi, asked: &Asked) -> Answer {
    let config = api.config.load_full();
    keys(api, &config, None, &describe_broker(&config), &asked.search())
}

/// `GET /topics/{name}/config`
pub(super) fn of_topic(api: &AdminApi, asked: &Asked) -> Answer {
    let (image, config) = (api.controller.image(), api.config.load_full());
    let topic = find(&image, asked.part("name"))?;
    let described = describe_topic(&config, &topic.configs);
    keys(api, &config, Some(&topic.name), &described, &asked.search())
}

fn keys(
    api: &AdminApi,
    config: &BrokerConfig,
    topic: Option<&str>,
    described: &[Described],
    search: &Search,
) -> Answer {
    let wanted = described.iter().filter(|key| search.wants(&key.name));
    let keys = wanted.map(|key| Key {
        name: &key.name,
        value: key.value.as_deref(),
        source: source(key.source),
        origin: origin(config, key),
        read_only: key.read_only,
        sensitive: key.sensitive,
        documentation: key.documentation,
    });
    json(&Keys { broker_id: api.local_id, topic, keys: keys.collect() })
}

/// Where the value that holds was said. A topic's key may get it from a key of the broker.
fn origin<'a>(config: &'a BrokerConfig, key: &Described) -> Option<&'a str> {
    let said = key.synonyms.first()?;
    let settings = config.values.settings(&said.name).iter();
    let mut of_source = settings.filter(|setting| setting.source == said.source);
    of_source.next().map(|setting| setting.origin.as_str())
}

fn source(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Default => "default",
        ConfigSource::StaticBroker => "static_broker",
        ConfigSource::DynamicDefaultBroker => "dynamic_cluster",
        ConfigSource::DynamicBroker => "dynamic_broker",
        ConfigSource::DynamicTopic => "dynamic_topic",
        ConfigSource::DynamicClientMetrics => "dynamic_client_metrics",
    }
}
