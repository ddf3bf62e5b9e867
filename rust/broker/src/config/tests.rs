#![allow(clippy::unwrap_used)]
use std::collections::{BTreeMap, BTreeSet};

use super::*;

mod combined;
mod extremes;

fn overrides(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn with_flags(pairs: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    let flag =
        |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned(), "--set".to_owned());
    load(&Sources { flags: pairs.iter().map(flag).collect(), ..Sources::default() })
}

#[test]
fn every_default_of_the_table_is_valid() {
    for key in broker_keys().chain(topic_keys().map(|topic| &topic.key)) {
        let Some(text) = key.default.text() else { continue };
        assert!(parse(key, &text).is_ok(), "{}", key.name);
    }
}

#[test]
fn names_are_unique_and_synonyms_exist() {
    let names: BTreeSet<_> = broker_keys().map(|key| key.name).collect();
    assert_eq!(names.len(), broker_keys().count());
    let topics: BTreeSet<_> = topic_keys().map(|topic| topic.key.name).collect();
    assert_eq!(topics.len(), topic_keys().count());
    for topic in topic_keys() {
        for synonym in topic.synonyms {
            assert!(names.contains(synonym.name), "{}", synonym.name);
        }
        let has_default = topic.key.default.text().is_some();
        let listed = topic.key.name != "internal.segment.bytes";
        assert_eq!(has_default, topic.synonyms.is_empty() && listed, "{}", topic.key.name);
    }
}

#[test]
fn no_key_of_ours_is_listed_as_foreign() {
    assert!(kafka_keys::NAMES.is_sorted());
    for key in broker_keys() {
        assert!(!kafka_keys::is_kafka_key(key.name), "{}", key.name);
    }
}

#[test]
fn topic_defaults_are_kafkas() {
    let config = TopicConfig::new(&BrokerConfig::default(), &BTreeMap::new());
    assert_eq!(config.segment_bytes, 1 << 30);
    assert_eq!(config.segment_ms, 604_800_000);
    assert_eq!(config.retention_ms, 604_800_000);
    assert_eq!(config.retention_bytes, -1);
    assert_eq!(config.max_message_bytes, 1_048_588);
    assert_eq!((config.cleanup_delete, config.cleanup_compact), (true, false));
    assert_eq!(config.flush_ms, i64::MAX);
    assert_eq!(config.segment_jitter_ms, 0);
}

#[test]
fn retention_ms_is_the_first_of_topic_ms_minutes_hours() {
    let hours = [("log.retention.hours", "2")];
    let minutes = [("log.retention.hours", "2"), ("log.retention.minutes", "3")];
    let ms = [("log.retention.minutes", "3"), ("log.retention.ms", "4")];
    let for_ever = [("log.retention.hours", "-1")];
    let cases: [(&[(&str, &str)], i64); 4] =
        [(&hours, 7_200_000), (&minutes, 180_000), (&ms, 4), (&for_ever, -1)];
    for (flags, expected) in cases {
        let broker = with_flags(flags).unwrap();
        let topic = TopicConfig::new(&broker, &BTreeMap::new());
        assert_eq!(topic.retention_ms, expected, "{flags:?}");
        let own = TopicConfig::new(&broker, &overrides(&[("retention.ms", "9")]));
        assert_eq!(own.retention_ms, 9);
    }
}

#[test]
fn a_topic_value_that_is_wrong_is_refused_in_kafkas_words() {
    let long = "Invalid value abc for configuration retention.ms: Not a number of type LONG";
    let low = "Invalid value -5 for configuration retention.ms: Value must be at least -1";
    let boolean = "Invalid value maybe for configuration preallocate: \
                   Expected value to be either true or false";
    let policy = "Invalid value foo for configuration cleanup.policy: \
                  String must be one of: compact, delete";
    let ratio = "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: \
                 Value must be no more than 1";
    let level = "Invalid value 0 for configuration compression.gzip.level: \
                 Value must be between 1 and 9 or equal to -1";
    let int = "Invalid value 99999999999 for configuration segment.bytes: \
               Not a number of type INT";
    for (key, value, expected) in [
        ("retention.ms", "abc", long),
        ("retention.ms", "-5", low),
        ("preallocate", "maybe", boolean),
        ("cleanup.policy", "foo", policy),
        ("min.cleanable.dirty.ratio", "1.5", ratio),
        ("compression.gzip.level", "0", level),
        ("segment.bytes", "99999999999", int),
    ] {
        let error = check_topic_alteration(&BrokerConfig::default(), &overrides(&[(key, value)]));
        let Err(ConfigError::InvalidValue { message, .. }) = error else {
            panic!("{key}={value}: {error:?}")
        };
        assert_eq!(message, expected);
    }
}

#[test]
fn values_that_kafka_takes_are_taken() {
    for (key, value) in [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact, delete"),
        ("retention.ms", " 5 "),
        ("preallocate", " TRUE "),
        ("retention.bytes", "-7"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("remote.storage.enable", "false"),
    ] {
        let taken = check_topic_alteration(&BrokerConfig::default(), &overrides(&[(key, value)]));
        assert_eq!(taken, Ok(()), "{key}={value}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    let error = with_flags(&[("log.segmnet.bytes", "1")]).unwrap_err();
    assert_eq!(error.hint(), "did you mean log.segment.bytes?");
    let error = with_flags(&[("pizza", "1")]).unwrap_err();
    assert!(matches!(error, ConfigError::UnknownKey { suggestion: None, .. }));
}

#[test]
fn a_key_of_kafkas_that_is_not_ours_changes_nothing_and_is_noted_once() {
    let config = with_flags(&[("process.roles", "broker"), ("process.roles", "x")]).unwrap();
    assert_eq!(config.values.ignored().len(), 1);
    assert_eq!(BrokerConfig { values: BrokerValues::default(), ..config }, BrokerConfig::default());
}

#[test]
fn flags_beat_the_environment_beats_the_file_beats_the_profile() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.properties");
    let key = "group.initial.rebalance.delay.ms";
    std::fs::write(&file, format!("num.partitions=2\n{key}=7\n")).unwrap();
    let mut sources = Sources { profile: Some("dev".to_owned()), ..Sources::default() };
    assert_eq!(load(&sources).unwrap().group_initial_rebalance_delay_ms, 0);
    sources.file = Some(file);
    assert_eq!(load(&sources).unwrap().group_initial_rebalance_delay_ms, 7);
    let variable = "KAFKALITE_GROUP_INITIAL_REBALANCE_DELAY_MS".to_owned();
    sources.environment = vec![(variable, "8".to_owned())];
    assert_eq!(load(&sources).unwrap().group_initial_rebalance_delay_ms, 8);
    sources.flags = vec![(key.to_owned(), "9".to_owned(), "--set".to_owned())];
    let config = load(&sources).unwrap();
    assert_eq!((config.group_initial_rebalance_delay_ms, config.num_partitions), (9, 2));
}

#[test]
fn a_variable_names_a_key_of_kafkas_or_of_ours() {
    for (variable, value) in
        [("KAFKALITE_REQUEST_INLINE", "never"), ("KAFKALITE_KAFKALITE_REQUEST_INLINE", "never")]
    {
        let environment = vec![(variable.to_owned(), value.to_owned())];
        let config = load(&Sources { environment, ..Sources::default() }).unwrap();
        assert_eq!(config.request_inline, RequestInline::Never, "{variable}");
    }
}

/// A Service named `kafkalite` in the namespace made `serve` refuse to start: Kubernetes sets
/// variables that begin like ours and name no key.
#[test]
fn variables_of_a_kubernetes_service_are_passed_over_and_unknown_ones_are_noted() {
    let load_from = |environment: &[(&str, &str)]| {
        let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        load(&Sources { environment: environment.collect(), ..Sources::default() })
    };
    let links = [
        ("KAFKALITE_SERVICE_HOST", "10.0.0.11"),
        ("KAFKALITE_SERVICE_PORT", "9092"),
        ("KAFKALITE_SERVICE_PORT_PLAIN", "9092"),
        ("KAFKALITE_PORT", "tcp://10.0.0.11:9092"),
        ("KAFKALITE_PORT_9092_TCP", "tcp://10.0.0.11:9092"),
        ("KAFKALITE_PORT_9092_TCP_PROTO", "tcp"),
        ("KAFKALITE_PORT_9092_TCP_PORT", "9092"),
        ("KAFKALITE_PORT_9092_TCP_ADDR", "10.0.0.11"),
        // A Service `kafkalite-admin`: the name of a key of ours, and no value for it.
        ("KAFKALITE_ADMIN_PORT", "tcp://10.0.0.12:9644"),
        ("KAFKALITE_ADMIN_SERVICE_HOST", "10.0.0.12"),
        ("KAFKALITE_ADMIN_PORT_9644_TCP", "tcp://10.0.0.12:9644"),
    ];
    let config = load_from(&links).unwrap();
    assert_eq!(config, BrokerConfig::default());
    let unknown = [("KAFKALITE_NUM_PARTITION", "3"), ("KAFKALITE_HOME", "/srv")];
    let config = load_from(&unknown).unwrap();
    let noted = config.values.unknown_variables();
    let noted: Vec<_> = noted.iter().map(|one| (one.name.as_str(), one.suggestion)).collect();
    assert_eq!(noted[0], ("KAFKALITE_NUM_PARTITION", Some("num.partitions")));
    assert_eq!((noted.len(), noted[1].0), (2, "KAFKALITE_HOME"));
    assert_eq!(load_from(&[("KAFKALITE_ADMIN_PORT", "9645")]).unwrap().admin_port, Some(9645));
    assert!(load_from(&[("KAFKALITE_NUM_PARTITIONS", "many")]).is_err());
}

#[test]
fn properties_are_read_as_java_reads_them() {
    let text = "# comment\n! comment\n a=1\nb : 2\nc 3\nd=x,\\\n   y\ne\\=f=g\\u0041\nh\n";
    let read = properties::entries(text).unwrap();
    let expected = [
        (3, "a", "1"),
        (4, "b", "2"),
        (5, "c", "3"),
        (6, "d", "x,y"),
        (8, "e=f", "gA"),
        (9, "h", ""),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(line, k, v)| (*line, (*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!(read, expected);
    assert_eq!(properties::entries("a=\\uZZ").unwrap_err().0, 1);
}

/// A server.properties in Latin-1 or with a byte order mark was refused, CR line ends were misread.
#[test]
fn properties_are_read_in_every_encoding_and_with_every_line_end() {
    let read = |bytes: &[u8]| {
        let entries = properties::entries(&properties::decode(bytes)).unwrap().into_iter();
        entries.map(|(line, key, value)| format!("{line} {key}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(read(b"a=1\rb=2\r\rc=x\\\r  y\r\nd=3\n"), ["1 a=1", "2 b=2", "4 c=xy", "6 d=3"]);
    assert_eq!(read(b"\xef\xbb\xbfa=\xc3\xa4\n"), ["1 a=\u{e4}"]);
    assert_eq!(read(b"# \xe4\na=\xe4\xa0\n"), ["2 a=\u{e4}\u{a0}"]);
    assert_eq!(read(b"\x0ca\x0c=\x0c1\n"), ["1 a=1"]);
    assert_eq!(read(b"a=\\ud83d\\ude00\\u0041\n"), ["1 a=\u{1f600}A"]);
    for broken in ["a=\\ud83d", "a=\\ud83d\\u0041", "a=\\u+041", "a=\\u00"] {
        assert_eq!(properties::entries(broken).unwrap_err().0, 1, "{broken}");
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("server.properties", &b"\xef\xbb\xbfnum.partitions=3\rlog.dirs=/data/\xe4"[..]),
        ("kafkalite.toml", b"\xef\xbb\xbf\"num.partitions\" = 3\n"),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        let read = load(&Sources { file: Some(file), ..Sources::default() });
        assert_eq!(read.unwrap().num_partitions, 3, "{name}");
    }
}

/// Clients were sent to addresses that are none to connect to.
#[test]
fn an_advertised_address_is_one_that_clients_can_connect_to() {
    for (host, is_taken) in
        [("", false), ("0.0.0.0", false), ("[::]", false), ("kafka.example", true), ("[::1]", true)]
    {
        let listener = format!("PLAINTEXT://{host}:9092");
        let read = with_flags(&[("advertised.listeners", &listener)]);
        assert_eq!(read.is_ok(), is_taken, "{listener}: {read:?}");
    }
}

#[test]
fn toml_keys_may_be_quoted_or_nested() {
    let text = "\"num.partitions\" = 3\n[log]\nsegment.bytes = 1048576\ndirs = [\"a\", \"b\"]\n";
    let read: BTreeMap<_, _> = toml_file::entries(text).unwrap().into_iter().collect();
    let expected = [("num.partitions", "3"), ("log.segment.bytes", "1048576"), ("log.dirs", "a,b")];
    assert_eq!(read, overrides(&expected));
    assert_eq!(toml_file::entries("a = 1\nb = \n").unwrap_err().0, 2);
}

#[test]
fn the_controllers_listener_of_a_kraft_file_is_left_out() {
    let config = with_flags(&[
        ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
        ("advertised.listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"),
        ("controller.listener.names", "CONTROLLER"),
    ])
    .unwrap();
    assert_eq!(config.listeners.len(), 1);
    assert!(!config.listeners[0].is_loopback());
    assert_eq!(config.advertised_listeners[0].host, "localhost");
}

#[test]
fn a_listener_for_brokers_stands_beside_one_for_clients() {
    let two = "PLAINTEXT://:9092,INTERNAL://:9093";
    let map = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT";
    let brokers = |listeners, name| {
        let map = ("listener.security.protocol.map", map);
        with_flags(&[("listeners", listeners), map, ("inter.broker.listener.name", name)])
    };
    assert_eq!(brokers(two, "INTERNAL").unwrap().inter_broker_listener(), Some("INTERNAL"));
    assert_eq!(brokers("PLAINTEXT://:9092", "PLAINTEXT").unwrap().inter_broker_listener(), None);
    let error = brokers(two, "OTHER");
    assert!(matches!(error, Err(ConfigError::InvalidValue { .. })), "{error:?}");
}

#[test]
fn listeners_that_cannot_be_served_are_refused() {
    for listeners in
        ["PLAINTEXT:9092", "SSL://:9093", "A://:1,A://:2", "X://h:1", "PLAINTEXT://::1"]
    {
        let error = with_flags(&[("listeners", listeners)]);
        assert!(matches!(error, Err(ConfigError::InvalidValue { .. })), "{listeners}: {error:?}");
    }
    let mapped = [("listeners", "X://[::1]:0"), ("listener.security.protocol.map", "X:PLAINTEXT")];
    assert!(with_flags(&mapped).unwrap().listeners[0].is_loopback());
}

#[test]
fn what_is_altered_at_run_time_is_strongest_and_can_be_taken_back() {
    let broker = with_flags(&[("message.max.bytes", "1000")]).unwrap();
    let nothing = BTreeMap::new();
    let all = broker.with_dynamic(&overrides(&[("message.max.bytes", "2000")]), &nothing).config;
    let one = all
        .with_dynamic(
            &overrides(&[("message.max.bytes", "2000")]),
            &overrides(&[("message.max.bytes", "3000")]),
        )
        .config;
    let back = one.with_dynamic(&nothing, &nothing).config;
    for (config, expected) in [(&broker, 1000), (&all, 2000), (&one, 3000), (&back, 1000)] {
        let topic = TopicConfig::new(config, &nothing);
        assert_eq!(topic.max_message_bytes, expected);
    }
}

#[test]
fn describing_a_topic_tells_where_each_value_comes_from() {
    let broker = with_flags(&[("log.retention.hours", "2")]).unwrap();
    let described = describe_topic(&broker, &overrides(&[("segment.bytes", "2000000")]));
    let entry = |name: &str| described.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(entry("retention.ms").value.as_deref(), Some("7200000"));
    // Kafka leaves log.retention.hours out unless log.retention.ms is set.
    assert_eq!(entry("retention.ms").source, ConfigSource::Default);
    assert!(entry("retention.ms").synonyms.is_empty());
    assert_eq!(entry("segment.bytes").source, ConfigSource::DynamicTopic);
    let sources: Vec<_> = entry("segment.bytes").synonyms.iter().map(|s| s.source).collect();
    assert_eq!(sources, [ConfigSource::DynamicTopic, ConfigSource::Default]);
    assert_eq!(entry("cleanup.policy").source, ConfigSource::Default);
    let set = [("preallocate", " TRUE "), ("retention.ms", "1000")];
    let described = describe_topic(&BrokerConfig::default(), &overrides(&set));
    let entry = |name: &str| described.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(entry("preallocate").value.as_deref(), Some("true"));
    // The default of log.retention.hours stands behind log.retention.ms, which has none.
    assert_eq!(entry("retention.ms").synonyms.len(), 1);
    let broker = with_flags(&[("log.retention.ms", "1000")]).unwrap();
    let described = describe_topic(&broker, &overrides(&[]));
    let entry = |name: &str| described.iter().find(|entry| entry.name == name).unwrap();
    let said: Vec<_> = entry("retention.ms").synonyms.iter().map(|s| s.name.as_ref()).collect();
    assert_eq!(said, ["log.retention.ms", "log.retention.hours"]);
    assert!(!described.iter().any(|entry| entry.name.starts_with("internal.")));
}

#[test]
fn a_value_is_described_as_java_writes_it() {
    for (key, text, expected) in [
        ("cleanup.policy", " compact , delete,compact", "compact,delete"),
        ("retention.ms", " +0700 ", "700"),
        ("compression.type", " gzip ", "gzip"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "0.0012", "0.0012"),
        ("min.cleanable.dirty.ratio", "0.0005", "5.0E-4"),
        ("min.cleanable.dirty.ratio", "0.00000125", "1.25E-6"),
    ] {
        let described = describe_topic(&BrokerConfig::default(), &overrides(&[(key, text)]));
        let entry = described.iter().find(|entry| entry.name == key).unwrap();
        assert_eq!(entry.value.as_deref(), Some(expected), "{key}={text}");
    }
}

#[test]
fn a_brokers_key_tells_beside_its_value_how_it_was_written() {
    let altered = overrides(&[("log.cleaner.min.cleanable.ratio", " 0.50 ")]);
    let broker = BrokerConfig::default().with_dynamic(&altered, &BTreeMap::new()).config;
    let described = describe_broker(&broker);
    let entry = described.iter().find(|entry| entry.name == "log.cleaner.min.cleanable.ratio");
    let (value, said) = (entry.unwrap().value.as_deref(), &entry.unwrap().synonyms[0].value);
    assert_eq!((value, said.as_deref()), (Some("0.5"), Some(" 0.50 ")));
}

#[test]
fn a_brokers_key_tells_what_stands_behind_it_once_it_is_set() {
    let told = |flags: &[(&str, &str)]| {
        let described = describe_broker(&with_flags(flags).unwrap()).into_iter();
        let mut described = described.filter(|entry| entry.name == "log.roll.ms");
        let synonyms = described.next().unwrap().synonyms.into_iter();
        synonyms.map(|synonym| synonym.name).collect::<Vec<_>>()
    };
    assert!(told(&[]).is_empty());
    assert!(told(&[("log.roll.hours", "2")]).is_empty());
    assert_eq!(told(&[("log.roll.ms", "2")]), ["log.roll.ms", "log.roll.hours"]);
}

#[test]
fn a_read_only_key_may_not_be_altered_while_the_broker_runs() {
    let broker = BrokerConfig::default();
    let change = |key: &str, value: &str| {
        let changes = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
        check_broker_alteration(&broker, &changes, true)
    };
    assert_eq!(change("log.segment.bytes", "2000000"), Ok(()));
    assert!(change("log.segment.bytes", "1").is_err());
    assert!(change("node.id", "2").is_err());
    assert!(change("ssl.keystore.location", "x").is_err());
    assert!(change("num.partitions", "2").is_err());
}

#[test]
fn what_is_kept_without_effect_is_checked_and_told() {
    let broker = BrokerConfig::default();
    let change = |key: &str, value: &str| {
        let changes = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
        check_broker_alteration(&broker, &changes, true).is_ok()
    };
    for (key, value, is_taken) in [
        ("leader.replication.throttled.rate", "1000", true),
        ("leader.replication.throttled.rate", "-1", false),
        ("leader.replication.throttled.rate", "fast", false),
        ("num.replica.fetchers", "2", true),
        ("cordoned.log.dirs", "x", false),
        ("listeners", "PLAINTEXT://:1", false),
        ("ssl.client.auth", "perhaps", false),
        ("log.local.retention.ms", "-2", true),
        ("principal.builder.class", "x", false),
        ("no.such.key", "x", true),
    ] {
        assert_eq!(change(key, value), is_taken, "{key}={value}");
    }
    let altered = overrides(&[("num.replica.fetchers", "3"), ("no.such.key", "x")]);
    let nothing = BTreeMap::new();
    let told = |config: &BrokerConfig, key: &str| {
        let entry = describe_broker(config).into_iter().find(|entry| entry.name == key)?;
        Some((entry.value, entry.read_only, entry.sensitive, entry.source, entry.kind))
    };
    let altered = broker.with_dynamic(&altered, &nothing).config;
    let source = ConfigSource::DynamicDefaultBroker;
    let known = (Some("3".to_owned()), false, false, source, Some(Kind::Int));
    assert_eq!(told(&altered, "num.replica.fetchers"), Some(known));
    assert_eq!(told(&altered, "no.such.key"), Some((None, true, true, source, None)));
    let back = altered.with_dynamic(&nothing, &nothing).config;
    assert_eq!(told(&back, "no.such.key"), None);
}

#[test]
fn a_broker_takes_no_number_that_leaves_it_without_clients_records_or_room() {
    let threads = ("log.cleaner.threads", "2");
    assert!(with_flags(&[("log.cleaner.threads", "0")]).is_err());
    for (key, value, is_taken) in [
        ("max.connections", "0", false),
        ("max.connections", "1", true),
        ("max.connections.per.ip", "0", false),
        ("max.connections.per.ip", "1", true),
        ("log.retention.ms", "0", false),
        ("log.retention.ms", "-1", true),
        ("log.retention.minutes", "0", false),
        ("log.retention.hours", "0", false),
        ("log.retention.hours", "-5", true),
        ("log.cleaner.dedupe.buffer.size", "2097153", false),
        ("log.cleaner.dedupe.buffer.size", "2097154", true),
        ("log.flush.interval.ms", "-1", false),
        ("log.flush.interval.ms", "0", true),
        ("log.flush.scheduler.interval.ms", "-1", false),
        ("offsets.topic.segment.bytes", "1048575", false),
        ("offsets.topic.segment.bytes", "1048576", true),
    ] {
        let started = with_flags(&[threads, (key, value)]);
        assert_eq!(started.is_ok(), is_taken, "{key}={value}: {started:?}");
        let altered = with_flags(&[threads]).unwrap();
        let altered = altered.with_dynamic(&overrides(&[(key, value)]), &BTreeMap::new());
        let may_be = is_taken && broker_key(key).unwrap().dynamic == Dynamic::ClusterWide;
        assert_eq!(altered.problems.is_empty(), may_be, "{key}={value}: {altered:?}");
        assert_eq!(altered.config == with_flags(&[threads]).unwrap(), !may_be);
    }
}

#[test]
fn a_pool_of_threads_is_at_most_doubled_or_halved() {
    let broker = with_flags(&[("num.io.threads", "8")]).unwrap();
    for (threads, is_taken) in
        [("3", false), ("4", true), ("16", true), ("17", false), ("0", false)]
    {
        let changes = BTreeMap::from([("num.io.threads".to_owned(), Some(threads.to_owned()))]);
        assert_eq!(
            check_broker_alteration(&broker, &changes, false).is_ok(),
            is_taken,
            "{threads}"
        );
    }
}

#[test]
fn both_names_of_the_nodes_id_tell_it() {
    for key in ["node.id", "broker.id"] {
        let described = describe_broker(&with_flags(&[(key, "7")]).unwrap());
        for name in ["node.id", "broker.id"] {
            let entry = described.iter().find(|entry| entry.name == name).unwrap();
            let told = (entry.value.as_deref(), entry.source);
            assert_eq!(told, (Some("7"), ConfigSource::StaticBroker), "{name} by {key}");
        }
    }
}
