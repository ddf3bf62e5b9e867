#![allow(clippy::unwrap_used)]
use super::super::super::records::{
    CreateTopicRecord, ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
};
use super::*;
use kafkalite_protocol::Uuid;

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

const MIN_LAG: &str = "log.cleaner.min.compaction.lag.ms";
const MAX_LAG: &str = "log.cleaner.max.compaction.lag.ms";

/// An image with brokers 1 and 2, of which 2 has configs of its own. Ours is broker 1.
fn with_another(own: &[(&str, &str)]) -> MetadataImage {
    let registration = |broker_id| {
        let listeners = vec![ListenerRecord::default()];
        let record =
            RegisterBrokerRecord { broker_id, listeners, ..RegisterBrokerRecord::default() };
        MetadataRecord::RegisterBroker(record)
    };
    let records = [1, 2].map(registration).to_vec();
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    let mut image = MetadataImage::default().with_batch(&batch).unwrap();
    image.replace_configs(&ConfigResource::broker(2), map(own));
    image
}

/// An alteration for all brokers was judged by the values of the broker that answered. Another
/// one then dropped a value of its own, and compacted earlier than it promised.
#[test]
fn a_value_for_all_brokers_is_judged_at_each_of_them() {
    let mut image = with_another(&[(MIN_LAG, "2000")]);
    let rules = rules();
    let all = |image: &MetadataImage, max| {
        let (resource, after) = (ConfigResource::cluster(), map(&[(MAX_LAG, max)]));
        rules.validate(image, &resource, &Configs::new(), &after)
    };
    let refused = all(&image, "1000").unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidRequest);
    let message = refused.message.unwrap();
    assert!(message.contains("at broker 2") && message.contains(MAX_LAG), "{message}");
    assert_eq!(all(&image, "2000"), Ok(()));
    // What only this broker gets is judged here, and what another one gets is judged there.
    let one = |id, key, value| {
        let (resource, after) = (ConfigResource::broker(id), map(&[(key, value)]));
        rules.validate(&image, &resource, &Configs::new(), &after).is_ok()
    };
    assert!(one(1, MAX_LAG, "1000"));
    let both = map(&[(MIN_LAG, "2000"), (MAX_LAG, "1000")]);
    let before = image.configs_of(&ConfigResource::broker(2)).cloned().unwrap();
    let refused = rules.validate(&image, &ConfigResource::broker(2), &before, &both);
    assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidRequest);
    // A broker that was unregistered obeys nothing.
    Arc::make_mut(&mut image.brokers).remove(&2);
    assert_eq!(all(&image, "1000"), Ok(()));
}

/// What is wrong already is no reason to refuse something else.
#[test]
fn a_contradiction_at_another_broker_that_is_there_already_is_not_held_against_a_change() {
    let mut image = with_another(&[(MIN_LAG, "2000")]);
    let before = map(&[(MAX_LAG, "1000")]);
    image.replace_configs(&ConfigResource::cluster(), before.clone());
    let mut after = before.clone();
    after.insert("log.retention.ms".to_owned(), "5".to_owned());
    assert_eq!(rules().validate(&image, &ConfigResource::cluster(), &before, &after), Ok(()));
}

#[test]
fn topics_and_the_values_of_every_broker_are_judged_together() {
    let mut image = with_another(&[(MAX_LAG, "1000")]);
    let (rules, topic) = (rules(), ConfigResource::topic("t"));
    let own = |lag| map(&[("min.compaction.lag.ms", lag)]);
    let refused = rules.validate(&image, &topic, &Configs::new(), &own("1001")).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidConfig);
    assert!(refused.message.unwrap().contains("at broker 2"));
    assert_eq!(rules.validate(&image, &topic, &Configs::new(), &own("1000")), Ok(()));
    let mut more = own("1001");
    more.insert("retention.ms".to_owned(), "5".to_owned());
    assert_eq!(rules.validate(&image, &topic, &own("1001"), &more), Ok(()), "wrong before");
    let asked = [("min.compaction.lag.ms".to_owned(), Some("1001".to_owned()))];
    assert!(rules.new_topic_configs(&image, &asked).is_err());
    // And the other way round: a value for all that a topic contradicts at broker 2 only.
    image.replace_configs(&ConfigResource::broker(2), map(&[(MIN_LAG, "5000")]));
    image.replace_configs(&ConfigResource::broker(1), map(&[(MAX_LAG, "9000")]));
    let topic = CreateTopicRecord {
        name: "t".to_owned(),
        topic_id: Uuid([1; 16]),
        ..CreateTopicRecord::default()
    };
    let records = vec![MetadataRecord::CreateTopic(topic)];
    let batch = RecordsBatch { base_offset: image.offset + 1, epoch: 1, timestamp_ms: 0, records };
    let mut image = image.with_batch(&batch).unwrap();
    image.replace_configs(&ConfigResource::topic("t"), own("8000"));
    let all = |max| {
        let (resource, after) = (ConfigResource::cluster(), map(&[(MAX_LAG, max)]));
        rules.validate(&image, &resource, &Configs::new(), &after).map_err(|error| error.message)
    };
    let message = all("7000").unwrap_err().unwrap();
    assert!(message.contains("for topic t at broker 2"), "{message}");
    assert_eq!(all("8000"), Ok(()));
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
