use super::*;
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const METRICS: i8 = 16;
const GROUP: i8 = 32;

fn ask(resource_type: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsRequest {
    let keys = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: keys,
    };
    DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..DescribeConfigsRequest::default()
    }
}

fn names(result: &DescribeConfigsResult) -> Vec<&str> {
    result.configs.iter().map(|config| config.name.as_str()).collect()
}

#[test]
fn every_version_tells_the_value_of_a_topic_and_where_it_comes_from() {
    let mut fixture = Fixture::new();
    client::create_topic(&fixture.broker, "t", 1, &[("retention.ms", "77")]);
    let keys = ["retention.ms", "cleanup.policy", "bogus"];
    for version in 1..=4 {
        let result = fixture.call(&ask(TOPIC, "t", Some(&keys)), version).results.remove(0);
        assert_eq!((result.error_code, result.error_message.as_deref()), (0, Some("")));
        let told: Vec<_> = (result.configs.iter())
            .map(|config| {
                let value = config.value.as_deref().unwrap();
                (config.name.as_str(), value, config.config_source, config.read_only)
            })
            .collect();
        let expected = [("cleanup.policy", "delete", 5, false), ("retention.ms", "77", 1, false)];
        assert_eq!(told, expected, "v{version}");
        assert_eq!(result.configs[1].synonyms[0].name, "retention.ms");
        assert_eq!(result.configs[0].synonyms[0].name, "log.cleanup.policy");
    }
}

#[test]
fn no_list_of_keys_and_an_empty_one_ask_for_all() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for keys in [None, Some(&[][..])] {
        let response = fixture.call(&ask(TOPIC, "t", keys), 4);
        let told = names(&response.results[0]);
        for key in ["cleanup.policy", "max.message.bytes", "min.insync.replicas", "segment.ms"] {
            assert!(told.contains(&key), "{key} in {told:?}");
        }
    }
}

#[test]
fn synonyms_and_documentation_come_only_when_asked_for() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for asked in [true, false] {
        let request = DescribeConfigsRequest {
            include_synonyms: asked,
            include_documentation: asked,
            ..ask(TOPIC, "t", Some(&["cleanup.policy"]))
        };
        let response = fixture.call(&request, 4);
        let config = &response.results[0].configs[0];
        assert_eq!(!config.synonyms.is_empty(), asked);
        assert_eq!(config.documentation.is_some(), asked);
        assert_eq!(config.config_type, 7, "a list");
    }
}

#[test]
fn a_broker_tells_its_own_configs_and_the_cluster_what_was_altered_for_all() {
    let mut fixture = Fixture::new();
    let id = fixture.broker.rooms().config().node_id.to_string();
    let response = fixture.call(&ask(BROKER, &id, None), 4);
    assert!(names(&response.results[0]).contains(&"log.retention.ms"));
    let stored = ["min.insync.replicas"];
    assert_eq!(names(&fixture.call(&ask(BROKER, "", None), 4).results[0]), stored);
    let all = kafkalite_broker::metadata::ConfigResource::cluster();
    client::commit_configs(&fixture.broker, all, &[("log.retention.ms", "99")]);
    let response = fixture.call(&ask(BROKER, "", None), 4);
    let config = &response.results[0].configs[0];
    assert_eq!((config.name.as_str(), config.config_source), ("log.retention.ms", 3));
    let response = fixture.call(&ask(BROKER, &id, Some(&["log.retention.ms"])), 4);
    assert_eq!(response.results[0].configs[0].value.as_deref(), Some("99"));
}

#[test]
fn a_broker_tells_the_addresses_that_clients_are_sent_to() {
    let mut fixture = Fixture::with(&[("node.id", "5")]);
    let (_, address) = fixture.broker.listeners().remove(0);
    let asked = ["advertised.listeners", "broker.id", "listeners", "node.id"];
    let response = fixture.call(&ask(BROKER, "5", Some(&asked)), 4);
    let configs = response.results[0].configs.iter();
    let told: Vec<_> = configs.map(|c| (c.value.clone().unwrap(), c.config_source)).collect();
    let (listener, id) = (format!("PLAINTEXT://{address}"), "5".to_owned());
    assert_eq!(told, [(listener.clone(), 4), (id.clone(), 4), (listener, 4), (id, 4)]);
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    let invalid = ErrorCode::InvalidRequest;
    for (resource_type, name, code, message) in [
        (TOPIC, "nope", ErrorCode::UnknownTopicOrPartition, ""),
        (
            TOPIC,
            "x y",
            ErrorCode::InvalidTopicException,
            "Topic name is invalid: 'x y' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'",
        ),
        (
            TOPIC,
            "",
            ErrorCode::InvalidTopicException,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "99",
            invalid,
            "Unexpected broker id, expected 1 or empty string, but received 99",
        ),
        (BROKER, "abc", invalid, "Broker id must be an integer, but it is: abc"),
        (LOGGER, "99", invalid, "Unexpected broker id, expected 1 but received 99"),
        (LOGGER, "", invalid, "Broker id must not be empty"),
        (GROUP, "", invalid, "Group name must not be empty"),
        (METRICS, "", invalid, "Client metrics subscription name must not be empty"),
        (99, "x", invalid, "Unknown resource type 99"),
    ] {
        let result = fixture.call(&ask(resource_type, name, None), 4).results.remove(0);
        assert_eq!((result.error_code, result.error_message), error(code, message));
        assert_eq!(result.configs, []);
    }
}
