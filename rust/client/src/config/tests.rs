use super::address::parse_server;
use super::*;
use crate::error::ClientError;
use kafkalite_connection::HostPort;
use std::collections::{BTreeMap, HashSet};

fn pairs(given: &[(&str, &str)]) -> BTreeMap<String, String> {
    let servers = ("bootstrap.servers", "localhost:9092");
    let all = std::iter::once(&servers).chain(given);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (String, Option<String>) {
    let error = result.expect_err("a refusal");
    (error.to_string(), error.hint())
}

#[test]
fn every_key_has_one_row_and_a_valid_default() {
    let mut seen = HashSet::new();
    for key in keys() {
        assert!(seen.insert(key.name), "{} stands twice", key.name);
        assert!(!key.name.contains('_'), "{}: underscores are for keywords", key.name);
        assert!(key.doc.ends_with('.'), "{}", key.name);
        if let Some(default) = key.default {
            assert_eq!(key.checked(default).as_deref(), Ok(default), "{}", key.name);
        }
    }
}

#[test]
fn the_defaults_of_the_three_clients_fit_together() {
    let producer = ProducerConfig::from_pairs(&pairs(&[])).expect("defaults");
    assert_eq!((producer.acks, producer.idempotent, producer.max_in_flight), (Acks::All, true, 5));
    let consumer = ConsumerConfig::from_pairs(&pairs(&[])).expect("defaults");
    assert_eq!(consumer.auto_offset_reset, AutoOffsetReset::Latest);
    assert_eq!(consumer.assignors, ["range", "cooperative-sticky"]);
    assert!(!consumer.auto_commit, "without a group there is nothing to commit for");
    let admin = ClientConfig::from_pairs(ClientKind::Admin, &pairs(&[])).expect("defaults");
    assert!(!admin.connection.allow_auto_create_topics);
}

#[test]
fn dots_and_underscores_are_the_same_key() {
    for key in ["linger.ms", "linger_ms"] {
        let config = ProducerConfig::from_pairs(&pairs(&[(key, "20")])).expect("a valid key");
        assert_eq!(config.linger.as_millis(), 20);
    }
    let twice = pairs(&[("linger.ms", "20"), ("linger_ms", "30")]);
    assert!(refusal(ProducerConfig::from_pairs(&twice)).0.contains("twice"));
}

#[test]
fn wrong_keys_say_what_was_meant() {
    for (key, text, hint) in [
        ("lingr_ms", "lingr.ms: unknown key", "did you mean linger.ms?"),
        ("group.id", "the producer has no such key", "it is a key of the consumer."),
        ("message.max.bytes", "unknown key", "Kafka's name for it is max.request.size."),
        (
            "on_delivery",
            "on.delivery: unknown key",
            "leave it out: produce(..., on_delivery=...) takes one.",
        ),
    ] {
        let (error, hinted) = refusal(ProducerConfig::from_pairs(&pairs(&[(key, "1")])));
        assert!(error.contains(text), "{error}");
        assert_eq!(hinted.as_deref(), Some(hint), "{key}");
    }
    let (error, _) = refusal(ProducerConfig::from_pairs(&pairs(&[("sasl.mechanism", "PLAIN")])));
    assert!(error.contains("PLAINTEXT only"), "{error}");
}

#[test]
fn keys_of_kafka_that_change_nothing_are_a_warning() {
    let config = ProducerConfig::from_pairs(&pairs(&[("interceptor.classes", "x")]));
    let warnings = config.expect("accepted").client.warnings;
    assert_eq!(warnings, ["interceptor.classes=x is Kafka's, and changes nothing here"]);
}

#[test]
fn wrong_values_are_refused_with_their_key() {
    for (key, value, why) in [
        ("linger.ms", "soon", "`soon` is not a whole number"),
        ("linger.ms", "-1", "`-1` is less than 0"),
        ("batch.size", "3000000000", "`3000000000` is more than 2147483647"),
        ("acks", "2", "`2` is not one of all, -1, 0, 1"),
        ("enable.idempotence", "yes", "`yes` is neither true nor false"),
        ("bootstrap.servers", "a:b", "`a:b` has no port from 1 to 65535"),
        ("bootstrap.servers", " , ", "is missing"),
        ("bootstrap.servers", "::1", "an IPv6 address takes brackets"),
        ("bootstrap.servers", "SSL://a:1", "names a protocol that is not PLAINTEXT"),
        ("delivery.timeout.ms", "1000", "is less than linger.ms + request.timeout.ms"),
        ("max.in.flight.requests.per.connection", "6", "enable.idempotence=true needs"),
    ] {
        let (error, _) = refusal(ProducerConfig::from_pairs(&pairs(&[(key, value)])));
        assert!(error.starts_with(&format!("INVALID_CONFIG: {key}: ")), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn idempotence_gives_way_to_acks_unless_it_was_asked_for() {
    let config = ProducerConfig::from_pairs(&pairs(&[("acks", "1")])).expect("valid");
    assert!(!config.idempotent);
    let both = pairs(&[("acks", "1"), ("enable.idempotence", "true")]);
    assert!(refusal(ProducerConfig::from_pairs(&both)).0.contains("needs acks=all"));
}

#[test]
fn addresses_are_read_as_they_are_written() {
    for (text, host, port) in [
        ("localhost", "localhost", 9092),
        ("PLAINTEXT://10.0.0.1:1", "10.0.0.1", 1),
        ("[::1]:9093", "::1", 9093),
    ] {
        let address = HostPort { host: host.into(), port };
        assert_eq!(parse_server(text), Ok(address), "{text}");
    }
    assert_eq!(parse_server("[::1]:9093").expect("valid").to_string(), "[::1]:9093");
}

#[test]
fn assignors_are_known_by_javas_names_too() {
    let given = "org.apache.kafka.clients.consumer.RangeAssignor,CooperativeStickyAssignor,range";
    let given = pairs(&[("partition.assignment.strategy", given)]);
    let config = ConsumerConfig::from_pairs(&given).expect("valid");
    assert_eq!(config.assignors, ["range", "cooperative-sticky"]);
    let wrong = pairs(&[("partition.assignment.strategy", "stiky")]);
    let (_, hint) = refusal(ConsumerConfig::from_pairs(&wrong));
    assert_eq!(hint.as_deref(), Some("did you mean sticky?"));
}
