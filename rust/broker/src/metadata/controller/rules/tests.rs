#![allow(clippy::unwrap_used)]
use super::*;

fn rules() -> TableRules {
    TableRules::new(Arc::default())
}

fn map(pairs: &[(&str, &str)]) -> Configs {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_new_topic_is_refused_with_the_words_of_kafka() {
    for (key, value, message) in [
        ("bogus", Some("1"), "Unknown topic config name: bogus"),
        (
            "retention.ms",
            Some("x"),
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "segment.ms",
            Some("0"),
            "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
    ] {
        let asked = [(key.to_owned(), value.map(str::to_owned))];
        let refused = rules().new_topic_configs(&MetadataImage::default(), &asked).unwrap_err();
        assert_eq!(refused, ApiError::new(ErrorCode::InvalidConfig, message));
    }
}

/// It was computed again for each topic of a request: 32,000 of them kept all other changes
/// waiting for half a minute.
#[test]
fn what_is_in_force_is_worked_out_once_until_it_changes() {
    let (rules, mut image) = (rules(), MetadataImage::default());
    let first = rules.in_force(&image);
    let topic = ConfigResource { resource_type: ConfigResourceType::Topic, name: "t".to_owned() };
    image.replace_configs(&topic, map(&[("retention.ms", "5000")]));
    assert!(Arc::ptr_eq(&first, &rules.in_force(&image)), "a topic's configs are its own");
    image.replace_configs(&ConfigResource::broker(1), map(&[("num.io.threads", "3")]));
    let second = rules.in_force(&image);
    assert!(!Arc::ptr_eq(&first, &second));
    image.replace_configs(&ConfigResource::broker(1), map(&[("num.io.threads", "4")]));
    assert!(!Arc::ptr_eq(&second, &rules.in_force(&image)));
}

#[test]
fn each_kind_of_resource_has_rules_of_its_own() {
    let (image, broker) = (MetadataImage::default(), ConfigResource::broker(1));
    let group = ConfigResource { resource_type: ConfigResourceType::Group, name: "g".to_owned() };
    let loggers =
        ConfigResource { resource_type: ConfigResourceType::BrokerLogger, name: "1".to_owned() };
    for (resource, after, outcome) in [
        (ConfigResource::topic("t"), map(&[("retention.ms", "5")]), Ok(())),
        (ConfigResource::topic("t"), map(&[("bogus", "5")]), Err(ErrorCode::InvalidConfig)),
        (broker.clone(), map(&[("log.retention.ms", "5")]), Ok(())),
        (ConfigResource::cluster(), map(&[("log.retention.ms", "5")]), Ok(())),
        (broker.clone(), map(&[("num.partitions", "5")]), Err(ErrorCode::InvalidRequest)),
        (broker.clone(), map(&[("bogus", "5")]), Ok(())),
        (broker, map(&[("log.retention.ms", "x")]), Err(ErrorCode::InvalidRequest)),
        (group.clone(), map(&[("bogus", "1")]), Err(ErrorCode::InvalidConfig)),
        (group, map(&[]), Ok(())),
        (loggers, map(&[("root", "DEBUG")]), Err(ErrorCode::InvalidRequest)),
        (ConfigResource::client_metrics("s"), map(&[("metrics", "*")]), Ok(())),
        (
            ConfigResource::client_metrics("s"),
            map(&[("match", "x=y")]),
            Err(ErrorCode::InvalidConfig),
        ),
        (
            ConfigResource::client_metrics(""),
            map(&[("metrics", "*")]),
            Err(ErrorCode::InvalidRequest),
        ),
    ] {
        let answer = rules().validate(&image, &resource, &Configs::new(), &after);
        assert_eq!(answer.map_err(|error| error.code), outcome, "{resource:?} {after:?}");
    }
}

#[test]
fn lists_start_from_their_default_and_nothing_else_is_a_list() {
    let (rules, image) = (rules(), MetadataImage::default());
    let of = |key| rules.list_default(&image, ConfigResourceType::Topic, key);
    assert_eq!(of("cleanup.policy"), Some(vec!["delete".to_owned()]));
    assert_eq!(of("retention.ms"), None);
    assert_eq!(of("bogus"), None);
    // As in Kafka, though these are lists.
    assert_eq!(rules.list_default(&image, ConfigResourceType::ClientMetrics, "metrics"), None);
    let broker = rules.list_default(&image, ConfigResourceType::Broker, "log.cleanup.policy");
    assert_eq!(broker, Some(vec!["delete".to_owned()]));
}
