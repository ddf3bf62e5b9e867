//! One image, three ways to it: live, from the log, from a snapshot and the log behind it.

use super::super::super::metadata_log::MetadataLog;
use super::*;
use proptest::prelude::*;

fn read(dir: &Path) -> Result<(MetadataLog, MetadataImage), MetadataError> {
    MetadataLog::open(Arc::new(RealStorage), dir)
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, i32),
    Delete(u8),
    Grow(u8, i32),
    Config(u8, u8, Option<u8>),
    BrokerConfig(u8, Option<u8>),
    ProducerIds,
    Snapshot,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..20, 1..6).prop_map(|(name, count)| Step::Create(name, count)),
        2 => (0_u8..20).prop_map(Step::Delete),
        2 => (0_u8..20, 1..9).prop_map(|(name, count)| Step::Grow(name, count)),
        3 => (0_u8..20, 0_u8..4, any::<Option<u8>>()).prop_map(|(t, k, v)| Step::Config(t, k, v)),
        1 => (0_u8..4, any::<Option<u8>>()).prop_map(|(key, value)| Step::BrokerConfig(key, value)),
        1 => Just(Step::ProducerIds),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

fn config(resource: ConfigResource, key: u8, value: Option<u8>) -> ConfigChange {
    let operation =
        value.map_or(ConfigOperation::Delete, |value| ConfigOperation::Set(value.to_string()));
    ConfigChange { resource, replace: false, operations: vec![(format!("k{key}"), operation)] }
}

fn run(controller: &Controller, step: &Step) {
    let name = |topic: &u8| format!("t{topic}");
    match step {
        Step::Create(at, num_partitions) => {
            let asked = NewTopic { num_partitions: *num_partitions, ..topic(&name(at)) };
            controller.blocking().create_topics(&[asked], DEFAULTS, &NoRules, false);
        }
        Step::Delete(topic) => {
            controller.blocking().delete_topics(&[TopicName::Name(name(topic))]);
        }
        Step::Grow(topic, count) => {
            let asked = NewPartitions { name: name(topic), count: *count, assignments: None };
            controller.blocking().create_partitions(&[asked], false);
        }
        Step::Config(topic, key, value) => {
            let change = config(ConfigResource::topic(&name(topic)), *key, *value);
            controller.blocking().alter_configs(&[change], &NoRules, false);
        }
        Step::BrokerConfig(key, value) => {
            let change = config(ConfigResource::broker(1), *key, *value);
            controller.blocking().alter_configs(&[change], &NoRules, false);
        }
        Step::ProducerIds => {
            controller.blocking().allocate_producer_ids(1, -1).unwrap();
        }
        Step::Snapshot | Step::Restart => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_image_is_the_same_live_from_the_log_and_from_a_snapshot(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut controller = open(dir.path());
        for step in &steps {
            run(&controller, step);
            let live = controller.image();
            match step {
                Step::Snapshot => {
                    drop(controller);
                    let (mut log, image) = read(dir.path()).unwrap();
                    prop_assert_eq!(&image, &*live);
                    log.snapshot(&image, 0).unwrap();
                    let (_, again) = read(dir.path()).unwrap();
                    prop_assert_eq!(&again, &*live);
                    controller = open(dir.path());
                }
                Step::Restart => {
                    drop(controller);
                    controller = open(dir.path());
                }
                _ => {
                    let (_, replayed) = read(dir.path()).unwrap();
                    prop_assert_eq!(&replayed, &*live);
                }
            }
        }
    }
}
