use super::*;

fn configs(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn refused(key: &str, value: &str) -> SubscriptionError {
    check_client_metrics("s", &configs(&[(key, value)])).expect_err(value)
}

fn illegal(pattern: &str) -> SubscriptionError {
    SubscriptionError::Config(format!("Illegal client matching pattern: {pattern}"))
}

/// The sentences and codes were seen at Apache Kafka 4.3.
#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let request = |words: &str| SubscriptionError::Request(words.to_owned());
    let config = |words: &str| SubscriptionError::Config(words.to_owned());
    assert_eq!(
        check_client_metrics("", &configs(&[])),
        Err(request("Subscription name can't be empty"))
    );
    let range = "interval must be between 100 and 3600000 (1 hour)";
    for value in ["99", "3600001", "-1"] {
        let words = format!("Invalid value {value} for interval.ms, {range}");
        assert_eq!(refused("interval.ms", value), SubscriptionError::Request(words));
    }
    for value in ["x", "", "99999999999"] {
        let words = format!(
            "Invalid value {value} for configuration interval.ms: Not a number of type INT"
        );
        assert_eq!(refused("interval.ms", value), SubscriptionError::Config(words));
    }
    let unknown = "Unknown client metrics configuration: no.such";
    assert_eq!(refused("no.such", "x"), request(unknown));
    for (key, value) in [("metrics", "a,,b"), ("metrics", ","), ("match", "client_id=a,")] {
        let words = format!("Configuration '{key}' values must not be empty.");
        assert_eq!(refused(key, value), config(&words));
    }
    for pattern in ["client_id", "x=y", "client_id=", "client_id=a=b", "client_id=(", "=a"] {
        assert_eq!(refused("match", pattern), illegal(pattern));
    }
}

/// Java's expressions are more than regular. What takes longer than the text is long is refused.
#[test]
fn patterns_that_could_take_long_are_refused() {
    for pattern in ["client_id=(?!a)b", r"client_id=(a)\1", "client_id=a)|(b"] {
        assert_eq!(refused("match", pattern), illegal(pattern));
    }
    let large = format!("client_id={}", "(a{900}){900}");
    assert_eq!(refused("match", &large), illegal(&large));
}

#[test]
fn what_kafka_takes_is_taken() {
    for (key, value) in [
        ("interval.ms", " 100 "),
        ("interval.ms", "3600000"),
        ("metrics", ""),
        ("metrics", "*"),
        ("metrics", "a,a"),
        ("match", ""),
        ("match", "client_id=a=="),
        ("match", "client_id=a,client_id=b"),
        ("match", " client_id = a , client_software_name = b"),
        ("match", r"client_source_port=\d+"),
    ] {
        assert_eq!(check_client_metrics("s", &configs(&[(key, value)])), Ok(()), "{key}={value}");
    }
}

#[test]
fn a_subscription_is_for_clients_whose_attributes_match_as_a_whole() {
    let client = |of| match of {
        ClientAttribute::Id => Some("app-17"),
        ClientAttribute::SoftwareName => Some("librdkafka"),
        ClientAttribute::SourcePort => Some("4711"),
        _ => None,
    };
    for (patterns, matches) in [
        ("", true),
        (r"client_id=app-\d+", true),
        ("client_id=app", false),
        ("client_id=app-17,client_software_name=lib.*", true),
        ("client_id=app-17,client_software_name=apache-kafka-java", false),
        ("client_id=x,client_id=app-17", true),
        ("client_source_port=47..", true),
        // What is not known never matches.
        ("client_software_version=.*", false),
    ] {
        let subscription = Subscription::new(&configs(&[("match", patterns)])).expect(patterns);
        assert_eq!(subscription.wants(client), matches, "{patterns}");
    }
}

#[test]
fn a_subscription_is_described_with_its_defaults() {
    let described = describe_client_metrics(&configs(&[("metrics", "b, a,b")]));
    let told: Vec<_> = described
        .iter()
        .map(|key| (&*key.name, key.value.as_deref().unwrap_or("null"), key.source.code()))
        .collect();
    assert_eq!(told, [("interval.ms", "300000", 5), ("match", "", 5), ("metrics", "b,a", 7)]);
    let synonyms: Vec<usize> = described.iter().map(|key| key.synonyms.len()).collect();
    assert_eq!(synonyms, [0, 0, 1]);
    let default = Subscription::new(&configs(&[])).expect("the defaults");
    assert_eq!(default.interval_ms, DEFAULT_INTERVAL_MS);
}
