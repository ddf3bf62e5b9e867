//! Values at which keys turn, as a recording of Apache Kafka 4.3 has them.

use super::*;

/// Whether `key` may be given `value` at a broker that has `altered`.
fn is_taken(altered: &[(&str, &str)], key: &str, value: &str) -> bool {
    let nothing = BTreeMap::new();
    let broker = BrokerConfig::default().with_dynamic(&overrides(altered), &nothing).config;
    let changes = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
    check_broker_alteration(&broker, &changes, false).is_ok()
}

#[test]
fn keys_without_effect_turn_where_kafkas_do() {
    for (key, good, bad) in [
        ("group.consumer.assignment.interval.ms", "15000", "15001"),
        ("group.share.assignment.interval.ms", "0", "-1"),
        ("group.streams.assignment.interval.ms", "15000", "15001"),
        ("group.coordinator.cached.buffer.max.bytes", "524288", "524287"),
        ("share.coordinator.cached.buffer.max.bytes", "524288", "524287"),
        ("max.connection.creation.rate", "1", "0"),
        ("ssl.cipher.suites", "a,b", "a,,b"),
        ("ssl.enabled.protocols", "", ","),
        ("sasl.enabled.mechanisms", "a,a", "a,"),
        ("sasl.kerberos.principal.to.local.rules", "a", ",a"),
        ("metric.reporters", " ", " ,"),
    ] {
        assert!(is_taken(&[], key, good), "{key}={good}");
        assert!(!is_taken(&[], key, bad), "{key}={bad}");
    }
}

#[test]
fn threads_that_are_not_ours_at_most_double_and_halve() {
    for (key, good, bad) in [
        ("background.threads", ["5", "20"], ["4", "21"]),
        ("num.replica.fetchers", ["1", "2"], ["0", "3"]),
        ("remote.log.reader.threads", ["5", "20"], ["4", "21"]),
        ("remote.log.manager.copier.thread.pool.size", ["5", "20"], ["-1", "21"]),
        ("remote.log.manager.expiration.thread.pool.size", ["5", "20"], ["4", "21"]),
        ("remote.log.manager.follower.thread.pool.size", ["1", "4"], ["0", "5"]),
    ] {
        assert!(good.iter().all(|value| is_taken(&[], key, value)), "{key}");
        assert!(!bad.iter().any(|value| is_taken(&[], key, value)), "{key}");
    }
    // From what was altered before.
    let key = "background.threads";
    assert!(is_taken(&[(key, "20")], key, "40") && !is_taken(&[(key, "20")], key, "9"));
}

#[test]
fn connections_of_a_host_are_a_host_and_a_number() {
    let key = "max.connections.per.ip.overrides";
    for good in [
        "",
        " ",
        ",",
        "127.0.0.1:5",
        "a:1,",
        "a: 1",
        " a :1",
        "a_b%c:5",
        "::1:5",
        ":5",
        "a:+5",
        "a:-1",
    ] {
        assert!(is_taken(&[], key, good), "{good:?}");
    }
    for bad in ["x", "a:1,,b:2", ",a:1", "[::1]:5", "a:2147483648", "a:", "\u{e9}:1", "*", "a/b:1"]
    {
        assert!(!is_taken(&[], key, bad), "{bad:?}");
    }
}

#[test]
fn empty_parts_of_throttled_replicas_are_left_out() {
    let broker = BrokerConfig::default();
    let key = "leader.replication.throttled.replicas";
    let of = |value: &str| overrides(&[(key, value)]);
    for good in [",", "0:1,", "0:1,,1:1", " 0:1 , 1:1", ",,"] {
        assert_eq!(check_topic_alteration(&broker, &of(good)), Ok(()), "{good:?}");
    }
    assert!(check_topic_alteration(&broker, &of("*,0:1")).is_err());
    let topic = TopicConfig::new(&broker, &of("0:1,,2:1,3:2"));
    assert!(topic.throttled.leader.names(0) && topic.throttled.leader.names(2));
    assert!(!topic.throttled.leader.names(1) && !topic.throttled.leader.names(3));
}
