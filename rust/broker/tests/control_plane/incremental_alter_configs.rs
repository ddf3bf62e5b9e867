use super::*;
use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use std::io::{Read, Write};
use std::net::TcpStream;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn resource(
    resource_type: i8,
    name: &str,
    configs: &[(&str, i8, Option<&str>)],
) -> AlterConfigsResource {
    let own = |(name, operation, value): &(&str, i8, Option<&str>)| AlterableConfig {
        name: (*name).to_owned(),
        config_operation: *operation,
        value: value.map(str::to_owned),
    };
    AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: configs.iter().map(own).collect(),
    }
}

fn request(resources: Vec<AlterConfigsResource>) -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest { resources, validate_only: false }
}

/// What is set on topic `t`.
fn configs(fixture: &Fixture) -> Vec<(String, String)> {
    let image = fixture.broker.rooms().controller.image();
    let configs = &image.topic("t").unwrap().configs;
    configs.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn keys_are_set_deleted_appended_to_and_subtracted_from() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for (key, operation, value, outcome) in [
        ("retention.ms", SET, Some("77"), vec![("retention.ms", "77")]),
        (
            "cleanup.policy",
            APPEND,
            Some("compact"),
            vec![("cleanup.policy", "delete,compact"), ("retention.ms", "77")],
        ),
        ("retention.ms", DELETE, None, vec![("cleanup.policy", "delete,compact")]),
        ("cleanup.policy", SUBTRACT, Some("delete"), vec![("cleanup.policy", "compact")]),
        ("bogus", DELETE, None, vec![("cleanup.policy", "compact")]),
    ] {
        let asked = request(vec![resource(TOPIC, "t", &[(key, operation, value)])]);
        let answer = fixture.call(&asked, 1).responses.remove(0);
        assert_eq!((answer.error_code, answer.error_message), (0, None));
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        assert_eq!(configs(&fixture), outcome.iter().map(own).collect::<Vec<_>>());
    }
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    client::create_topic(&fixture.broker, "t", 1, &[]);
    let (config, invalid) = (ErrorCode::InvalidConfig, ErrorCode::InvalidRequest);
    for (asked, code, message) in [
        (
            resource(TOPIC, "t", &[("retention.ms", APPEND, Some("5"))]),
            config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            resource(TOPIC, "t", &[("retention.ms", SET, None)]),
            invalid,
            "Null value not supported for : retention.ms",
        ),
        (
            resource(TOPIC, "t", &[("a", SET, Some("1")), ("a", SET, Some("2"))]),
            invalid,
            "Error due to duplicate config keys",
        ),
        (
            resource(TOPIC, "nope", &[("retention.ms", SET, Some("1"))]),
            ErrorCode::UnknownTopicOrPartition,
            "The topic 'nope' does not exist.",
        ),
        (
            resource(TOPIC, "", &[("retention.ms", SET, Some("1"))]),
            invalid,
            "Default topic resources are not allowed.",
        ),
        (
            resource(TOPIC, "", &[("retention.ms", APPEND, Some("5"))]),
            config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            resource(TOPIC, "nope", &[("cleanup.policy", APPEND, Some(""))]),
            config,
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            resource(TOPIC, "t", &[("cleanup.policy", APPEND, Some("none"))]),
            config,
            "Invalid value none for configuration cleanup.policy: String must be one of: \
             compact, delete",
        ),
        (
            resource(TOPIC, "t", &[("bogus", SET, Some("1"))]),
            config,
            "Unknown topic config name: bogus",
        ),
        (
            resource(TOPIC, "t", &[("retention.ms", SET, Some("x"))]),
            config,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            resource(BROKER, "77", &[("num.io.threads", SET, Some("9"))]),
            invalid,
            "Unexpected broker id, expected 1, but received 77",
        ),
        (
            resource(BROKER, "xx", &[("num.io.threads", SET, Some("9"))]),
            invalid,
            "Node id must be an integer, but it is: xx",
        ),
        (
            resource(8, "1", &[("nolog", SET, Some("DEBUG"))]),
            config,
            "Logger nolog does not exist!",
        ),
        (
            resource(32, "", &[("k", SET, Some("1"))]),
            invalid,
            "Default group resources are not allowed.",
        ),
        (
            resource(32, "g", &[("bogus", SET, Some("1"))]),
            config,
            "Unknown group config name: bogus",
        ),
        (resource(99, "1", &[]), invalid, "Unknown resource type 99"),
    ] {
        let answer = fixture.call(&request(vec![asked]), 1).responses.remove(0);
        assert_eq!((answer.error_code, answer.error_message), error(code, message));
    }
    assert_eq!(configs(&fixture), []);
    let read_only = resource(BROKER, "1", &[("num.partitions", SET, Some("9"))]);
    let answer = fixture.call(&request(vec![read_only]), 1).responses.remove(0);
    assert_eq!(answer.error_code, invalid.code());
}

#[test]
fn a_resource_that_comes_twice_is_refused_and_the_others_are_changed() {
    let mut fixture = Fixture::with_topics(&[("t", 1), ("u", 1)]);
    let twice = resource(TOPIC, "u", &[]);
    let once = resource(TOPIC, "t", &[("retention.ms", SET, Some("5"))]);
    let response = fixture.call(&request(vec![twice.clone(), once, twice]), 0);
    let codes: Vec<_> = response.responses.iter().map(|answer| answer.error_code).collect();
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(codes, [invalid, 0, invalid]);
    assert_eq!(configs(&fixture), [("retention.ms".to_owned(), "5".to_owned())]);
}

#[test]
fn validate_only_changes_nothing() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let asked = IncrementalAlterConfigsRequest {
        validate_only: true,
        ..request(vec![resource(TOPIC, "t", &[("retention.ms", SET, Some("5"))])])
    };
    assert_eq!(fixture.call(&asked, 1).responses[0].error_code, 0);
    assert_eq!(configs(&fixture), []);
}

#[test]
fn what_is_altered_for_a_topic_holds_for_the_next_record() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let small = resource(TOPIC, "t", &[("max.message.bytes", SET, Some("10"))]);
    fixture.call(&request(vec![small]), 1);
    let answer = fixture.client.produce("t", client::batch(&["too long"], None), 1);
    assert_eq!(answer.error_code, ErrorCode::MessageTooLarge.code());
}

#[test]
fn what_was_altered_for_a_broker_counts_from_its_next_start_on() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("node.id", "1"), ("num.io.threads", "2")];
    let broker = client::start(directory.path(), &settings);
    let keys = [("num.io.threads", SET, Some("3")), ("no.such.key", SET, Some("secret"))];
    let answer = Client::connect(&broker).call(&request(vec![resource(BROKER, "1", &keys)]), 1);
    assert_eq!(answer.responses[0].error_code, 0);
    broker.stop();
    drop(broker);
    let broker = client::start(directory.path(), &settings);
    let config = broker.rooms().config();
    assert_eq!(config.num_io_threads, 3);
    assert_eq!(config.values.kept().map(|(name, _)| name).collect::<Vec<_>>(), ["no.such.key"]);
    broker.stop();
}

#[test]
fn an_altered_bound_of_connections_counts_for_the_next_connection() {
    let mut fixture = Fixture::with_topics(&[]);
    let address = fixture.broker.listeners()[0].1;
    let is_served = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(awaited::LIMIT)).unwrap();
        let api_versions = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff";
        stream.write_all(api_versions).is_ok() && matches!(stream.read(&mut [0; 4]), Ok(4))
    };
    assert!(is_served());
    for (bound, served) in [("1", false), ("100", true)] {
        let key = ("max.connections.per.ip", SET, Some(bound));
        let asked = request(vec![resource(BROKER, "", &[key])]);
        assert_eq!(fixture.call(&asked, 1).responses[0].error_code, 0);
        assert_eq!(is_served(), served, "max.connections.per.ip={bound}");
    }
}
