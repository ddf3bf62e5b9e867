//! Values that are valid alone and impossible together.

use super::*;

const NOTHING: BTreeMap<String, String> = BTreeMap::new();

fn lags(min: &str, max: &str) -> BTreeMap<String, String> {
    let (min_key, max_key) =
        ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms");
    overrides(&[(min_key, min), (max_key, max)])
}

/// A broker started with a smallest lag above its largest died when it made its first topic.
#[test]
fn a_start_with_static_values_that_contradict_each_other_is_refused() {
    for flags in [
        &[("log.cleaner.min.compaction.lag.ms", "2"), ("log.cleaner.max.compaction.lag.ms", "1")],
        &[("node.id", "1"), ("broker.id", "2")],
        &[("socket.request.max.bytes", "1000"), ("queued.max.request.bytes", "999")],
        &[("replica.fetch.wait.max.ms", "2000"), ("replica.socket.timeout.ms", "1999")],
        &[("replica.fetch.wait.max.ms", "2000"), ("replica.lag.time.max.ms", "1999")],
        &[("broker.heartbeat.interval.ms", "700"), ("broker.session.timeout.ms", "700")],
    ] {
        let refused = with_flags(flags);
        assert!(matches!(refused, Err(ConfigError::InvalidValue { .. })), "{flags:?} {refused:?}");
    }
    assert!(with_flags(&[("socket.request.max.bytes", "1000")]).is_ok());
    assert!(with_flags(&[("node.id", "2"), ("broker.id", "2")]).is_ok());
    assert!(with_flags(&[("broker.heartbeat.interval.ms", "3000")]).is_err(), "the default");
    let together = [
        ("replica.fetch.wait.max.ms", "2000"),
        ("replica.socket.timeout.ms", "2000"),
        ("replica.lag.time.max.ms", "2000"),
        ("broker.heartbeat.interval.ms", "699"),
        ("broker.session.timeout.ms", "700"),
    ];
    assert!(with_flags(&together).is_ok());
}

/// A topic whose overrides contradicted a broker's value lost all of them, and then its records.
#[test]
fn a_topic_keeps_every_override_but_the_one_that_does_not_hold() {
    let broker = with_flags(&[("log.cleaner.max.compaction.lag.ms", "60000")]).unwrap();
    let own = overrides(&[
        ("cleanup.policy", "compact"),
        ("min.compaction.lag.ms", "3600000"),
        ("retention.ms", "never"),
        ("segment.bytes", "1000"),
        ("internal.segment.bytes", "14"),
        ("no.such.key", "1"),
        ("remote.storage.enable", "true"),
        ("max.message.bytes", "5000"),
    ]);
    let topic = TopicConfig::new(&broker, &own);
    assert_eq!((topic.cleanup_compact, topic.cleanup_delete), (true, false));
    assert_eq!((topic.min_compaction_lag_ms, topic.max_compaction_lag_ms), (3_600_000, 3_600_000));
    assert_eq!((topic.retention_ms, topic.segment_bytes), (604_800_000, 14));
    assert_eq!(topic.max_message_bytes, 5_000);
    assert_eq!(TopicValues::new(&broker.values, &own).problems().len(), 5);
    let told = |key: &str| {
        let entries = describe_topic(&broker, &own).into_iter();
        let mut entries = entries.filter(|entry| entry.name == key);
        entries.next().map(|entry| (entry.value.unwrap_or_default(), entry.source)).unwrap()
    };
    // The described value is the value that the log obeys.
    for (key, value, source) in [
        ("cleanup.policy", "compact", ConfigSource::DynamicTopic),
        ("max.compaction.lag.ms", "3600000", ConfigSource::StaticBroker),
        ("retention.ms", "604800000", ConfigSource::Default),
        ("segment.bytes", "1073741824", ConfigSource::Default),
        ("remote.storage.enable", "false", ConfigSource::Default),
        // As Kafka: listed where it is set.
        ("internal.segment.bytes", "14", ConfigSource::DynamicTopic),
    ] {
        assert_eq!(told(key), (value.to_owned(), source), "{key}");
    }
}

/// Alterations that contradict each other kept a broker from ever starting again.
#[test]
fn of_altered_values_that_do_not_hold_the_others_are_in_force_in_any_order() {
    let broker = BrokerConfig::default();
    let mut all = lags("2000", "1000");
    all.insert("log.flush.interval.ms".to_owned(), "-1".to_owned());
    all.insert("log.retention.ms".to_owned(), "77".to_owned());
    all.insert("num.partitions".to_owned(), "9".to_owned());
    let found = broker.with_dynamic(&all, &NOTHING);
    assert_eq!(found.problems.len(), 3, "{:?}", found.problems);
    let topic = TopicConfig::new(&found.config, &NOTHING);
    assert_eq!((topic.flush_ms, topic.retention_ms), (i64::MAX, 77));
    assert!(topic.min_compaction_lag_ms <= topic.max_compaction_lag_ms);
    assert_eq!(found.config.num_partitions, 1);
    // Whichever way it came to be, the same is in force.
    let again = found.config.with_dynamic(&lags("1", "5"), &NOTHING).config;
    assert_eq!(again.with_dynamic(&all, &NOTHING), found);
}

/// What one broker says for itself was not looked at when a value was altered for all.
#[test]
fn values_for_all_brokers_and_for_one_are_judged_together() {
    let broker = BrokerConfig::default();
    let found = broker.with_dynamic(
        &lags("0", "1000"),
        &overrides(&[("log.cleaner.min.compaction.lag.ms", "2000")]),
    );
    assert_eq!(found.problems.len(), 1);
    let fits = broker.with_dynamic(&lags("2000", "1000"), &lags("0", "5000"));
    assert_eq!(fits.problems, []);
}

/// What one broker says for itself gave way to a weaker value for all of them.
#[test]
fn of_two_values_that_contradict_each_other_the_stronger_holds() {
    let (min_key, max_key) =
        ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms");
    let inherited = |for_all: &[(&str, &str)], for_this: &[(&str, &str)]| {
        let found = BrokerConfig::default().with_dynamic(&overrides(for_all), &overrides(for_this));
        assert_eq!(found.problems.len(), 1, "{for_all:?} {for_this:?}");
        let topic = TopicConfig::new(&found.config, &NOTHING);
        (topic.min_compaction_lag_ms, topic.max_compaction_lag_ms)
    };
    assert_eq!(inherited(&[(max_key, "1000")], &[(min_key, "2000")]), (2_000, i64::MAX));
    assert_eq!(inherited(&[(min_key, "2000")], &[(max_key, "1000")]), (0, 1_000));
    // Among values of the same strength, no record is compacted earlier than one of them says.
    assert_eq!(inherited(&[(max_key, "1000"), (min_key, "2000")], &[]), (2_000, i64::MAX));
    assert_eq!(inherited(&[], &[(max_key, "1000"), (min_key, "2000")]), (2_000, i64::MAX));
}

#[test]
fn an_alteration_is_refused_if_it_breaks_a_topic_and_not_if_the_topic_was_broken_before() {
    let broker = BrokerConfig::default();
    let after = |max: &str| broker.with_dynamic(&lags("0", max), &NOTHING);
    let own = overrides(&[("min.compaction.lag.ms", "3600000")]);
    let check = |before: &AlteredConfig, after: &AlteredConfig| {
        check_results(before, after, [("orders", &own)].into_iter())
    };
    let refused = check(&after("3600000"), &after("60000")).unwrap_err().to_string();
    assert!(refused.contains("for topic orders"), "{refused}");
    assert_eq!(check(&after("3600000"), &after("3600000")), Ok(()));
    let mut other = after("60000");
    other.config = other
        .config
        .with_dynamic(&lags("0", "60000"), &overrides(&[("log.retention.ms", "5")]))
        .config;
    assert_eq!(check(&after("60000"), &other), Ok(()));
    assert_eq!(check(&after("60000"), &after("3600000")), Ok(()));
}
