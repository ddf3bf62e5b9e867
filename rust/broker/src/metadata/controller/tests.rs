#![allow(clippy::unwrap_used)]
use super::super::records::{ConfigResource, ListenerRecord};
use super::*;
use crate::clock::ManualClock;
use kafkalite_log::storage::RealStorage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

mod features;
mod replay;

pub(super) const DEFAULTS: TopicDefaults =
    TopicDefaults { num_partitions: 2, replication_factor: 1 };

pub(super) fn open(dir: &Path) -> Controller {
    let options = ControllerOptions {
        cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        dir: dir.to_owned(),
        broker: broker(vec![listener("PLAINTEXT", 9092)], vec![]),
        min_insync_replicas: 1,
    };
    Controller::open(options, Arc::new(RealStorage), Arc::new(ManualClock::new(0))).unwrap()
}

fn broker(listeners: Vec<ListenerRecord>, log_dirs: Vec<Uuid>) -> Registration {
    Registration { broker_id: 1, listeners, log_dirs, ..Registration::default() }
}

fn listener(name: &str, port: u16) -> ListenerRecord {
    ListenerRecord { name: name.to_owned(), host: "127.0.0.1".to_owned(), port }
}

pub(super) fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        ..NewTopic::default()
    }
}

fn create(controller: &Controller, topics: &[NewTopic]) -> Vec<Result<CreatedTopic, ApiError>> {
    controller.blocking().create_topics(topics, DEFAULTS, &NoRules, false)
}

#[test]
fn a_topic_gets_the_defaults_for_minus_one() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    let made = create(&controller, &[topic("t")]).pop().unwrap().unwrap();
    assert_eq!((made.num_partitions, made.replication_factor), (2, 1));
    let image = controller.image();
    let partition = image.partition("t", 1).unwrap();
    assert_eq!((partition.leader, &*partition.isr), (1, &[1][..]));
}

#[test]
fn no_topic_is_created_over_the_metadata_log() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    let refused = create(&controller, &[topic("__cluster_metadata")]).pop().unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidRequest);
    let config = Arc::new(BrokerConfig::default());
    let refused =
        controller.blocking().create_automatically(&["__cluster_metadata"], &config).pop().unwrap();
    assert_eq!(refused.unwrap_err().code, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(controller.image().topics.iter().count(), 0);
}

#[test]
fn refusals_carry_the_code_of_kafka() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    create(&controller, &[topic("here"), topic("a.b")]);
    let assigned = |assignments: &[(i32, &[i32])]| {
        let own = |(index, brokers): &(i32, &[i32])| (*index, brokers.to_vec());
        NewTopic { assignments: assignments.iter().map(own).collect(), ..topic("t") }
    };
    let of = |num_partitions, replication_factor| NewTopic {
        num_partitions,
        replication_factor,
        ..topic("t")
    };
    for (asked, code) in [
        (topic(""), ErrorCode::InvalidTopicException),
        (topic(".."), ErrorCode::InvalidTopicException),
        (topic("a b"), ErrorCode::InvalidTopicException),
        (topic(&"x".repeat(250)), ErrorCode::InvalidTopicException),
        (topic("here"), ErrorCode::TopicAlreadyExists),
        (topic("a_b"), ErrorCode::InvalidTopicException),
        (of(0, 1), ErrorCode::InvalidPartitions),
        (of(-2, 1), ErrorCode::InvalidPartitions),
        (of(1, 0), ErrorCode::InvalidReplicationFactor),
        (of(1, 2), ErrorCode::InvalidReplicationFactor),
        (of(i32::MAX, 1), ErrorCode::PolicyViolation),
        (assigned(&[(0, &[])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[2])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1, 1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(1, &[1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1]), (0, &[1])]), ErrorCode::InvalidReplicaAssignment),
        (NewTopic { num_partitions: 1, ..assigned(&[(0, &[1])]) }, ErrorCode::InvalidRequest),
    ] {
        let refused = create(&controller, std::slice::from_ref(&asked)).pop().unwrap();
        assert_eq!(refused.map_err(|error| error.code), Err(code), "{asked:?}");
    }
    assert_eq!(controller.image().topics.len(), 2);
}

#[test]
fn two_names_of_one_request_that_collide_are_not_both_made() {
    let dir = tempfile::tempdir().unwrap();
    let answers = create(&open(dir.path()), &[topic("x.y"), topic("x_y")]);
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().code, ErrorCode::InvalidTopicException);
}

#[test]
fn validate_only_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    let before = controller.image();
    assert!(
        controller.blocking().create_topics(&[topic("t")], DEFAULTS, &NoRules, true)[0].is_ok()
    );
    assert!(Arc::ptr_eq(&before, &controller.image()));
}

#[test]
fn watchers_run_before_the_caller_is_answered_and_first_get_the_whole_image() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    create(&controller, &[topic("old")]);
    let seen = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&seen);
    controller.watch(Box::new(move |before, after| {
        told.fetch_add(after.topics.len() - before.topics.len(), Ordering::SeqCst);
    }));
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    create(&controller, &[topic("new")]);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn a_change_after_the_stop_is_refused_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    let _within = crate::awaited::within("two changes of a controller that has stopped");
    controller.stop();
    for _ in 0..2 {
        let refused = create(&controller, &[topic("t")]).pop().unwrap();
        assert_eq!(refused.unwrap_err().code, ErrorCode::UnknownServerError);
    }
}

#[test]
fn each_start_raises_the_leader_epoch_of_what_the_broker_leads() {
    let dir = tempfile::tempdir().unwrap();
    create(&open(dir.path()), &[topic("t")]);
    for epoch in 1..4 {
        let image = open(dir.path()).image();
        assert_eq!(image.partition("t", 0).unwrap().leader_epoch.0, epoch);
    }
}

#[test]
fn producer_ids_are_never_given_twice_across_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let controller = open(dir.path());
        for _ in 0..2 {
            let block = controller.blocking().allocate_producer_ids(1, -1).unwrap();
            assert_eq!(block.len, 1_000);
            seen.push(block.first);
        }
    }
    assert_eq!(seen, [0, 1_000, 2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn a_block_lies_above_the_ids_that_logs_hold() {
    let dir = tempfile::tempdir().unwrap();
    let firsts = |controller: &Controller| {
        [-1, 5_000, 5_000, 7_000, i64::MAX].map(|above| {
            controller.blocking().allocate_producer_ids(1, above).ok().map(|block| block.first)
        })
    };
    let expected = [Some(0), Some(5_001), Some(6_001), Some(7_001), None];
    assert_eq!(firsts(&open(dir.path())), expected);
    let next = open(dir.path()).blocking().allocate_producer_ids(1, -1).unwrap().first;
    assert_eq!(next, 8_001, "it is in the metadata log");
}

#[test]
fn a_deleted_topic_is_gone_and_unknown_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    let id = create(&controller, &[topic("t")]).pop().unwrap().unwrap().id;
    let answers = controller.blocking().delete_topics(&[
        TopicName::Id(id),
        TopicName::Name("none".to_owned()),
        TopicName::Id(Uuid([9; 16])),
    ]);
    assert_eq!(answers[0], Ok(("t".to_owned(), id)));
    assert_eq!(answers[1], Err(ErrorCode::UnknownTopicOrPartition.into()));
    assert_eq!(answers[2], Err(ErrorCode::UnknownTopicId.into()));
    assert!(controller.image().topics.is_empty());
}

#[test]
fn partitions_grow_and_never_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    create(&controller, &[topic("t")]);
    let ask = |count, assignments| {
        let name = "t".to_owned();
        let asked = NewPartitions { name, count, assignments };
        controller
            .blocking()
            .create_partitions(&[asked], false)
            .pop()
            .unwrap()
            .map_err(|error| error.code)
    };
    assert_eq!(ask(2, None), Err(ErrorCode::InvalidPartitions));
    assert_eq!(ask(1, None), Err(ErrorCode::InvalidPartitions));
    assert_eq!(ask(3, Some(vec![])), Err(ErrorCode::InvalidReplicaAssignment));
    assert_eq!(ask(3, Some(vec![vec![1, 1]])), Err(ErrorCode::InvalidReplicaAssignment));
    assert_eq!(ask(3, Some(vec![vec![1]])), Ok(()));
    assert_eq!(ask(5, None), Ok(()));
    assert_eq!(controller.image().topic("t").unwrap().partition_count(), 5);
}

#[test]
fn configs_are_replaced_or_changed_key_by_key() {
    let dir = tempfile::tempdir().unwrap();
    let controller = open(dir.path());
    create(&controller, &[topic("t")]);
    let alter = |replace, operations: &[(&str, ConfigOperation)]| {
        let own =
            |(key, operation): &(&str, ConfigOperation)| ((*key).to_owned(), operation.clone());
        let operations = operations.iter().map(own).collect();
        let change = ConfigChange { resource: ConfigResource::topic("t"), replace, operations };
        controller.blocking().alter_configs(&[change], &NoRules, false).pop().unwrap().unwrap();
        (*controller.image().topic("t").unwrap().configs).clone()
    };
    let set = |value: &str| ConfigOperation::Set(value.to_owned());
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(
        alter(false, &[("a", set("1")), ("b", set("x,y"))]),
        map(&[("a", "1"), ("b", "x,y")])
    );
    let append = ConfigOperation::Append("z,x".to_owned());
    let subtract = ConfigOperation::Subtract("y".to_owned());
    assert_eq!(alter(false, &[("b", append)]), map(&[("a", "1"), ("b", "x,y,z")]));
    assert_eq!(alter(false, &[("b", subtract)]), map(&[("a", "1"), ("b", "x,z")]));
    assert_eq!(alter(false, &[("a", ConfigOperation::Delete)]), map(&[("b", "x,z")]));
    assert_eq!(alter(true, &[("c", set("3"))]), map(&[("c", "3")]));
}

#[test]
fn a_registration_tells_every_listener_and_never_forgets_a_log_directory() {
    let dir = tempfile::tempdir().unwrap();
    let register = |log_dirs: &[u8]| {
        let options = ControllerOptions {
            cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            dir: dir.path().to_owned(),
            broker: broker(
                vec![listener("INSIDE", 1), listener("OUTSIDE", 2)],
                log_dirs.iter().map(|id| Uuid([*id; 16])).collect(),
            ),
            min_insync_replicas: 1,
        };
        let clock = Arc::new(ManualClock::new(0));
        let image = Controller::open(options, Arc::new(RealStorage), clock).unwrap().image();
        image.brokers[&1].clone()
    };
    assert_eq!(register(&[1, 2]).log_dirs.len(), 2);
    let broker = register(&[2, 3]);
    assert_eq!(broker.log_dirs, [1, 2, 3].map(|id| Uuid([id; 16])));
    let ports = ["INSIDE", "OUTSIDE", "ELSEWHERE"].map(|name| broker.endpoint(name).1);
    assert_eq!(ports, [1, 2, 1]);
}

#[test]
fn the_log_of_another_cluster_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let options = ControllerOptions {
        cluster_id: "BAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        dir: dir.path().to_owned(),
        broker: broker(vec![listener("PLAINTEXT", 9092)], vec![]),
        min_insync_replicas: 1,
    };
    let opened = Controller::open(options, Arc::new(RealStorage), Arc::new(ManualClock::new(0)));
    assert!(matches!(opened, Err(MetadataError::ClusterId { .. })));
}

/// The key's source was another than in Kafka 4.3, which stores it for eligible leader replicas.
#[test]
fn a_cluster_stores_min_insync_replicas_once_and_takes_over_a_brokers_own() {
    let dir = tempfile::tempdir().unwrap();
    let open = |min_insync_replicas| {
        let options = ControllerOptions {
            cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            dir: dir.path().to_owned(),
            broker: broker(vec![listener("PLAINTEXT", 9092)], vec![]),
            min_insync_replicas,
        };
        Controller::open(options, Arc::new(RealStorage), Arc::new(ManualClock::new(0))).unwrap()
    };
    let stored = |controller: &Controller, resource: &ConfigResource| {
        let image = controller.image();
        image.configs_of(resource).and_then(|configs| configs.get("min.insync.replicas").cloned())
    };
    let (cluster, broker) = (ConfigResource::cluster(), ConfigResource::broker(1));
    assert_eq!(stored(&open(2), &cluster).as_deref(), Some("2"));
    let controller = open(3);
    assert_eq!(stored(&controller, &cluster).as_deref(), Some("2"));
    let change = |resource: &ConfigResource, operation, replace| {
        let operations = Vec::from_iter(operation).into_iter();
        let operations = operations.map(|one| ("min.insync.replicas".to_owned(), one)).collect();
        let change = ConfigChange { resource: resource.clone(), replace, operations };
        let answer = controller.blocking().alter_configs(&[change], &NoRules, false).pop().unwrap();
        answer.map_err(|error| error.code)
    };
    let set = || Some(ConfigOperation::Set("4".to_owned()));
    assert_eq!(change(&broker, set(), false), Err(ErrorCode::InvalidConfig));
    assert_eq!(
        change(&broker, Some(ConfigOperation::Delete), false),
        Err(ErrorCode::InvalidConfig)
    );
    assert_eq!(
        change(&cluster, Some(ConfigOperation::Delete), false),
        Err(ErrorCode::InvalidConfig)
    );
    assert_eq!(change(&cluster, None, true), Err(ErrorCode::InvalidConfig));
    assert_eq!(change(&cluster, set(), false), Ok(()));
    // An earlier release let brokers have one.
    let record = MetadataRecord::set_config(&broker, "min.insync.replicas", Some("5"));
    let decide = move |_: &MetadataImage| (vec![record.clone()], vec![Ok(())]);
    let committed = blocking::wait(1, |done| controller.change(false, 1, decide, done));
    committed.into_iter().for_each(Result::unwrap);
    drop(controller);
    let controller = open(1);
    assert_eq!(stored(&controller, &cluster).as_deref(), Some("5"));
    assert_eq!(stored(&controller, &broker), None);
}
