//! Alterations with extreme values, alone and in pairs, on a running broker with five topics of
//! different overrides, and starts after them.
//!
//! After each step the logs obey what DescribeConfigs answers, and a topic keeps its own values. No
//! topic's cleanup policy or retention moves unless it was altered. A start changes nothing.
//! `KAFKALITE_CONFIG_FUZZ_ROUNDS` is the number of random rounds, `KAFKALITE_CONFIG_FUZZ_SEED`
//! their first seed; a failure says which to give.
#![allow(clippy::unwrap_used)]

#[path = "client/mod.rs"]
mod client;

use client::Client;
use kafkalite_broker::broker::Broker;
use kafkalite_broker::config::{
    ConfigKey, Dynamic, Kind, broker_key, broker_keys, topic_key, topic_keys,
};
use kafkalite_broker::metadata::controller::auto_topic;
use kafkalite_broker::metadata::controller::{OFFSETS_TOPIC, TableRules, TopicDefaults};
use kafkalite_log::LogConfig;
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use std::collections::BTreeMap;
use std::path::Path;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

type Told = BTreeMap<String, String>;

/// Topic -> what it sets for itself.
const TOPICS: &[(&str, &[(&str, &str)])] = &[
    ("plain", &[]),
    ("compacted", &[("cleanup.policy", "compact"), ("min.compaction.lag.ms", "3600000")]),
    ("kept", &[("retention.ms", "86400000"), ("retention.bytes", "1000000000")]),
    ("both", &[("cleanup.policy", "compact,delete"), ("max.compaction.lag.ms", "7200000")]),
    ("stamped", &[("message.timestamp.type", "LogAppendTime"), ("segment.ms", "60000")]),
];

/// Broker keys and topic keys that are combined, with values at which they meet.
const PAIRS: &[(&str, &[&str], &str, &[&str])] = &[
    ("log.cleaner.min.compaction.lag.ms", LAGS, "log.cleaner.max.compaction.lag.ms", LAGS),
    ("log.cleaner.min.compaction.lag.ms", LAGS, "max.compaction.lag.ms", LAGS),
    ("log.cleaner.max.compaction.lag.ms", LAGS, "min.compaction.lag.ms", LAGS),
    ("log.cleaner.threads", &["1", "2"], "log.cleaner.dedupe.buffer.size", ROOM),
    ("log.cleanup.policy", POLICIES, "cleanup.policy", POLICIES),
    ("log.retention.ms", &["-1", "1", "5000"], "retention.ms", &["-1", "0", "9"]),
    ("log.roll.ms", &["1", "10"], "log.roll.jitter.ms", &["0", "9", "11"]),
    ("log.segment.bytes", &["1048576"], "message.max.bytes", &["1", "2147483647"]),
    ("log.flush.interval.ms", &["-1", "0"], "log.retention.ms", &["7"]),
    ("min.compaction.lag.ms", LAGS, "max.compaction.lag.ms", LAGS),
];
const LAGS: &[&str] = &["0", "1", "60000", "3600000", "9223372036854775807"];
const ROOM: &[&str] = &["1048576", "2097152", "2097153", "2097154", "9223372036854775807"];
const POLICIES: &[&str] = &["", "compact", "delete", "compact,delete"];

const NUMBERS: &[&str] = &[
    "-9223372036854775808",
    "-2147483649",
    "-2",
    "-1",
    "0",
    "1",
    "14",
    "1048576",
    "2147483647",
    "9223372036854775807",
    "9223372036854775808",
    " 5 ",
    "",
    "x",
];

/// Values of every kind of badness. Threads stay few: a start makes as many as there may be.
fn extremes(key: &ConfigKey) -> &'static [&'static str] {
    match key.kind {
        _ if key.name.contains("cleanup.policy") => POLICIES,
        _ if key.name.contains("threads") => &["-1", "0", "1", "2", "3", "2147483647"],
        _ if key.name.ends_with("compression.type") => &["gzip", "producer", "", "x"],
        _ if key.name.ends_with("timestamp.type") => &["CreateTime", "LogAppendTime", "x"],
        // A segment of its full size for each partition would fill the disk of a small machine.
        Kind::Boolean if key.name.ends_with("preallocate") => &["false", "yes"],
        Kind::Boolean => &["true", " FALSE ", "yes", ""],
        Kind::Int | Kind::Long | Kind::Short => NUMBERS,
        Kind::Double => &["-0.1", "0", "0.5", "1", "1.01", "NaN", "x"],
        _ => &["", "x", "*", "0:1", "strict", "none"],
    }
}

#[derive(Clone, Debug)]
struct Change {
    kind: i8,
    name: String,
    key: &'static str,
    /// `None` takes it back.
    value: Option<&'static str>,
}

struct Fuzz<'a> {
    directory: &'a Path,
    broker: Broker,
    client: Client,
    /// Values that each topic set and the broker accepted, by topic and key.
    own: BTreeMap<(String, &'static str), Option<&'static str>>,
}

fn start(directory: &Path) -> (Broker, Client) {
    let settings = [
        ("kafkalite.disk.sync", "false"),
        ("kafkalite.stop.timeout.ms", "0"),
        ("log.segment.bytes", "2000000"),
        ("offsets.topic.num.partitions", "1"),
        ("num.io.threads", "2"),
        ("num.network.threads", "1"),
    ];
    let broker = client::start(directory, &settings);
    let client = Client::connect(&broker);
    (broker, client)
}

impl<'a> Fuzz<'a> {
    fn new(directory: &'a Path) -> Self {
        let (broker, client) = start(directory);
        for (name, configs) in TOPICS {
            client::create_topic(&broker, name, 1, configs);
        }
        let rooms = broker.rooms();
        let offsets = auto_topic(OFFSETS_TOPIC, &rooms.config(), &rooms.controller.image());
        let rules = TableRules::new(rooms.config());
        let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
        let made =
            rooms.controller.blocking().create_topics(&[offsets.unwrap()], defaults, &rules, false);
        assert!(made[0].is_ok(), "{made:?}");
        let own = TOPICS.iter().flat_map(|(name, configs)| {
            configs.iter().map(|(key, value)| (((*name).to_owned(), *key), Some(*value)))
        });
        let mut own: BTreeMap<_, _> = own.collect();
        own.insert((OFFSETS_TOPIC.to_owned(), "cleanup.policy"), Some("compact"));
        own.insert((OFFSETS_TOPIC.to_owned(), "segment.bytes"), Some("104857600"));
        Self { directory, broker, client, own }
    }

    fn node(&self) -> String {
        self.broker.rooms().config().node_id.to_string()
    }

    /// Makes the changes in one request and checks what came of them.
    fn alter(&mut self, changes: &[Change]) {
        let before = self.told();
        let mut resources: Vec<AlterConfigsResource> = Vec::new();
        for change in changes {
            let config = AlterableConfig {
                name: change.key.to_owned(),
                config_operation: i8::from(change.value.is_none()),
                value: change.value.map(str::to_owned),
            };
            let named = |one: &&mut AlterConfigsResource| {
                one.resource_type == change.kind && one.resource_name == change.name
            };
            match resources.iter_mut().find(named) {
                Some(resource) => resource.configs.push(config),
                None => resources.push(AlterConfigsResource {
                    resource_type: change.kind,
                    resource_name: change.name.clone(),
                    configs: vec![config],
                }),
            }
        }
        let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
        let answers = self.client.call(&request, 1).responses;
        let taken = |change: &&Change| {
            let mut answers = answers.iter();
            let of = answers
                .find(|one| one.resource_type == change.kind && one.resource_name == change.name);
            let code = of.unwrap().error_code;
            assert!([0, 40, 42].contains(&code), "{changes:?}: {answers:?}");
            code == 0
        };
        let taken: Vec<_> = changes.iter().filter(taken).cloned().collect();
        for change in taken.iter().filter(|change| change.kind == TOPIC) {
            self.own.insert((change.name.clone(), change.key), change.value);
        }
        self.check(&before, &taken);
    }

    /// Key -> value, of the broker and of every topic.
    fn told(&mut self) -> BTreeMap<String, Told> {
        let names = TOPICS.iter().map(|(name, _)| (TOPIC, (*name).to_owned()));
        let internal = (TOPIC, OFFSETS_TOPIC.to_owned());
        let asked: Vec<_> = names.chain([internal, (BROKER, self.node())]).collect();
        let resources = asked.into_iter().map(|(resource_type, resource_name)| {
            DescribeConfigsResource { resource_type, resource_name, configuration_keys: None }
        });
        let request = DescribeConfigsRequest {
            resources: resources.collect(),
            ..DescribeConfigsRequest::default()
        };
        let results = self.client.call(&request, 4).results.into_iter();
        results
            .map(|result| {
                assert_eq!(result.error_code, 0, "{}", result.resource_name);
                let configs = result.configs.into_iter();
                let told = configs.map(|one| (one.name, one.value.unwrap_or_default()));
                (result.resource_name, told.collect())
            })
            .collect()
    }

    fn check(&mut self, before: &BTreeMap<String, Told>, taken: &[Change]) {
        let now = self.told();
        let node = self.node();
        for (name, told) in now.iter().filter(|(name, _)| **name != node) {
            assert_obeyed(&self.broker, name, told);
            for ((_, key), own) in self.own.iter().filter(|((topic, _), _)| topic == name) {
                if let Some(own) = own {
                    assert_eq!(told[*key], shown(key, own), "{name} lost its {key}: {taken:?}");
                }
            }
            for key in ["cleanup.policy", "retention.ms", "retention.bytes"] {
                let altered = taken.iter().any(|change| {
                    let broker = topic_key(key).unwrap().synonyms.iter();
                    change.key == key || broker.clone().any(|one| one.name == change.key)
                });
                assert!(altered || told[key] == before[name][key], "{name} {key}: {taken:?}");
            }
        }
    }

    fn restart(mut self) -> Self {
        let before = self.told();
        self.broker.stop();
        (self.broker, self.client) = start(self.directory);
        let mut after = self.told();
        for (name, told) in &mut after {
            for key in ["listeners", "advertised.listeners"] {
                if let Some(value) = told.get_mut(key) {
                    value.clone_from(&before[name][key]);
                }
            }
        }
        assert_eq!(before, after);
        self.check(&before, &[]);
        self
    }

    /// Takes everything back that was altered, of topics first.
    fn take_back(&mut self) {
        let image = self.broker.rooms().controller.image();
        let brokers = image.configs.iter().flat_map(|(resource, configs)| {
            configs.keys().map(|key| (BROKER, resource.name.clone(), key.clone()))
        });
        let topics = image.topics.iter().flat_map(|topic| {
            topic.configs.keys().map(|key| (TOPIC, topic.name.to_string(), key.clone()))
        });
        for (kind, name, key) in topics.chain(brokers).collect::<Vec<_>>() {
            let known = topic_key(&key).map(|topic| topic.key.name).filter(|_| kind == TOPIC);
            let known = known.or_else(|| broker_key(&key).map(|key| key.name));
            let Some(key) = known.filter(|key| *key != "min.insync.replicas") else { continue };
            let first = TOPICS.iter().find(|(topic, _)| *topic == name);
            let first = first.and_then(|(_, own)| own.iter().find(|(own, _)| *own == key));
            let internal =
                name == OFFSETS_TOPIC && matches!(key, "cleanup.policy" | "segment.bytes");
            let value = first.map(|(_, value)| *value);
            if !internal {
                self.alter(&[Change { kind, name, key, value }]);
            }
        }
    }
}

/// A value as DescribeConfigs writes it.
fn shown(key: &str, text: &str) -> String {
    let key = &topic_key(key).unwrap().key;
    kafkalite_broker::config::parse(key, text).unwrap().to_string()
}

/// The described values of a topic are those that its log obeys.
fn assert_obeyed(broker: &Broker, topic: &str, told: &Told) {
    let image = broker.rooms().controller.image();
    let id = image.topic(topic).unwrap().id;
    let partitions = broker.rooms().partitions.all();
    let mut here = partitions.into_iter().filter(|one| one.topic_id() == id).peekable();
    assert!(here.peek().is_some(), "{topic} has no partition");
    for partition in here {
        let log = &*partition.log_config();
        for (key, obeyed) in obeyed(log) {
            let own = Some("internal.segment.bytes").filter(|_| key == "segment.bytes");
            let told = own.and_then(|own| told.get(own)).unwrap_or(&told[key]);
            assert_eq!(*told, obeyed, "{topic}: {key}");
        }
    }
}

fn obeyed(log: &LogConfig) -> Vec<(&'static str, String)> {
    let mut policies = Vec::new();
    // In the order in which tests write them.
    policies.extend(log.cleanup_compact.then_some("compact"));
    policies.extend(log.cleanup_delete.then_some("delete"));
    let numbers: [(&'static str, i64); 15] = [
        ("segment.bytes", log.segment_bytes.into()),
        ("segment.ms", log.segment_ms),
        ("segment.jitter.ms", log.segment_jitter_ms),
        ("segment.index.bytes", log.segment_index_bytes.into()),
        ("index.interval.bytes", log.index_interval_bytes.into()),
        ("retention.ms", log.retention_ms),
        ("retention.bytes", log.retention_bytes),
        ("max.message.bytes", log.max_message_bytes.into()),
        ("flush.ms", log.flush_ms),
        ("delete.retention.ms", log.delete_retention_ms),
        ("min.compaction.lag.ms", log.min_compaction_lag_ms),
        ("max.compaction.lag.ms", log.max_compaction_lag_ms),
        ("message.timestamp.before.max.ms", log.message_timestamp_before_max_ms),
        ("message.timestamp.after.max.ms", log.message_timestamp_after_max_ms),
        ("file.delete.delay.ms", log.file_delete_delay_ms),
    ];
    let numbers = numbers.into_iter().map(|(key, value)| (key, value.to_string()));
    let others = [
        ("cleanup.policy", policies.join(",")),
        ("preallocate", log.preallocate.to_string()),
        ("compression.type", log.compression_type.map_or("producer", |one| one.name()).to_owned()),
    ];
    numbers.chain(others).collect()
}

/// Where a key may be altered: a broker's for this one and for all, a topic's for a topic.
fn places(key: &'static str, node: &str, topic: &str) -> Vec<(i8, String)> {
    let mut places = Vec::new();
    let is_topics = topic_key(key).is_some();
    // compression.type, min.insync.replicas and a few are both.
    if broker_key(key).is_some() {
        places.extend([(BROKER, node.to_owned()), (BROKER, String::new())]);
    }
    if is_topics {
        places.push((TOPIC, topic.to_owned()));
    }
    places
}

#[test]
fn every_key_takes_extreme_values_and_the_broker_starts_after_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut fuzz = Fuzz::new(directory.path());
    let node = fuzz.node();
    let dynamic = broker_keys().filter(|key| key.dynamic != Dynamic::ReadOnly);
    let keys = dynamic.chain(topic_keys().map(|topic| &topic.key));
    for (i, key) in keys.enumerate() {
        let topic = TOPICS[i % TOPICS.len()].0;
        for (kind, name) in places(key.name, &node, topic) {
            for value in extremes(key) {
                let change = Change { kind, name: name.clone(), key: key.name, value: Some(value) };
                fuzz.alter(&[change]);
            }
        }
        // With all that was altered so far.
        if i % 16 == 15 {
            fuzz = fuzz.restart();
            fuzz.take_back();
        }
    }
    fuzz.restart().broker.stop();
}

#[test]
fn keys_that_are_combined_are_altered_together_and_the_broker_starts_after_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut fuzz = Fuzz::new(directory.path());
    let node = fuzz.node();
    for (one, ones, other, others) in PAIRS {
        for topic in ["plain", "compacted", "both"] {
            for ((kind, name), (other_kind, other_name)) in places(one, &node, topic)
                .into_iter()
                .zip(places(other, &node, topic).into_iter().cycle())
            {
                for (value, other_value) in
                    ones.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)))
                {
                    let first = Change { kind, name: name.clone(), key: one, value: Some(value) };
                    let (kind, name) = (other_kind, other_name.clone());
                    let second = Change { kind, name, key: other, value: Some(other_value) };
                    fuzz.alter(&[first.clone(), second.clone()]);
                    fuzz.alter(&[second]);
                    fuzz.alter(&[first]);
                }
            }
        }
        fuzz = fuzz.restart();
        fuzz.take_back();
    }
    fuzz.broker.stop();
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Two hundred requests of one to three changes each.
fn play(seed: u64) {
    let (directory, mut dice) = (tempfile::tempdir().unwrap(), Dice(seed));
    let mut fuzz = Fuzz::new(directory.path());
    let node = fuzz.node();
    let dynamic = broker_keys().filter(|key| key.dynamic != Dynamic::ReadOnly);
    let keys: Vec<_> = dynamic.chain(topic_keys().map(|topic| &topic.key)).collect();
    for step in 1..=200 {
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..=dice.below(3) {
            let topic = TOPICS[dice.below(TOPICS.len())].0;
            let (key, values) = if dice.below(2) == 0 {
                let (one, ones, other, others) = dice.one_of(PAIRS);
                if dice.below(2) == 0 { (one, ones) } else { (other, others) }
            } else {
                let key = dice.one_of(&keys);
                (key.name, extremes(key))
            };
            let places = places(key, &node, topic);
            let (kind, name) = places[dice.below(places.len())].clone();
            let is_there = |one: &Change| one.kind == kind && one.name == name && one.key == key;
            if !changes.iter().any(is_there) {
                let value = (dice.below(4) > 0).then(|| dice.one_of(values));
                changes.push(Change { kind, name, key, value });
            }
        }
        fuzz.alter(&changes);
        if step % 50 == 0 {
            fuzz = fuzz.restart();
        }
    }
    fuzz.broker.stop();
}

#[test]
fn alterations_at_random_leave_topics_what_they_set_and_the_broker_able_to_start() {
    let first = number("KAFKALITE_CONFIG_FUZZ_SEED", 1);
    for seed in first..first + number("KAFKALITE_CONFIG_FUZZ_ROUNDS", 3) {
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(played.is_ok(), "KAFKALITE_CONFIG_FUZZ_SEED={seed} fails");
    }
}
