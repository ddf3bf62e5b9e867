use super::*;
use kafkalite_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterableConfig,
};

fn request(resource_type: i8, name: &str, configs: &[(&str, Option<&str>)]) -> AlterConfigsRequest {
    let own = |(name, value): &(&str, Option<&str>)| AlterableConfig {
        name: (*name).to_owned(),
        value: value.map(str::to_owned),
    };
    let resource = AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: configs.iter().map(own).collect(),
    };
    AlterConfigsRequest { resources: vec![resource], validate_only: false }
}

#[test]
fn every_version_replaces_what_was_set() {
    let mut fixture = Fixture::new();
    client::create_topic(&fixture.broker, "t", 1, &[("retention.ms", "5")]);
    for version in 0..=2 {
        let value = (100 + version).to_string();
        let asked = request(2, "t", &[("segment.ms", Some(&value))]);
        assert_eq!(fixture.call(&asked, version).responses[0].error_code, 0, "v{version}");
        let image = fixture.broker.rooms().controller.image();
        let configs: Vec<_> = image.topic("t").unwrap().configs.iter().collect();
        assert_eq!(configs, [(&"segment.ms".to_owned(), &value)], "v{version}");
    }
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    client::create_topic(&fixture.broker, "t", 1, &[]);
    let invalid = ErrorCode::InvalidRequest;
    for (asked, code, message) in [
        (
            request(2, "t", &[("retention.ms", Some("9")), ("retention.ms", Some("8"))]),
            invalid,
            "Error due to duplicate config keys",
        ),
        (
            request(2, "t", &[("segment.ms", None)]),
            invalid,
            "Null value not supported for : segment.ms",
        ),
        (
            request(2, "nope", &[("segment.ms", Some("1"))]),
            ErrorCode::UnknownTopicOrPartition,
            "The topic 'nope' does not exist.",
        ),
        (request(8, "1", &[("root", Some("INFO"))]), invalid, "Unknown resource type 8"),
    ] {
        let answer = fixture.call(&asked, 2).responses.remove(0);
        assert_eq!((answer.error_code, answer.error_message), error(code, message));
    }
}

#[test]
fn what_is_altered_for_a_broker_is_its_configuration_from_then_on() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    let asked = request(4, "1", &[("message.max.bytes", Some("4321"))]);
    assert_eq!(fixture.call(&asked, 2).responses[0].error_code, 0);
    let config = fixture.broker.rooms().config();
    let key = kafkalite_broker::config::broker_key("message.max.bytes").unwrap();
    assert_eq!(config.values.text(key).as_deref(), Some("4321"));
}
