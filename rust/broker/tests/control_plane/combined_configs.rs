//! Values of a broker and of its topics that are valid alone and impossible together.

use super::*;
use kafkalite_broker::metadata::ConfigResource;
use kafkalite_broker::metadata::controller::{ConfigChange, ConfigOperation, TableRules};
use kafkalite_log::LogConfig;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing::Level;

const HOUR_MS: &str = "3600000";
const MIN_LAG: &str = "log.cleaner.min.compaction.lag.ms";
const MAX_LAG: &str = "log.cleaner.max.compaction.lag.ms";

/// What was written to the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn change(resource: ConfigResource, set: &[(&str, &str)]) -> ConfigChange {
    let set = set
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ConfigOperation::Set((*value).to_owned())));
    ConfigChange { resource, replace: false, operations: set.collect() }
}

/// The code of each change's answer.
fn alter(broker: &Broker, changes: &[ConfigChange]) -> Vec<ErrorCode> {
    let rules = TableRules::new(broker.rooms().config());
    let answers =
        broker.rooms().controller.blocking().alter_configs(changes, &rules, false).into_iter();
    answers.map(|answer| answer.map_or_else(|error| error.code, |()| ErrorCode::None)).collect()
}

/// What the log of partition 0 obeys.
fn obeyed(broker: &Broker, topic: &str) -> Arc<LogConfig> {
    let image = broker.rooms().controller.image();
    let id = image.topic(topic).unwrap().id;
    let partitions = &broker.rooms().partitions;
    partitions.all().into_iter().find(|one| one.topic_id() == id).unwrap().log_config()
}

fn restarted(broker: &Broker, directory: &Path, settings: &[(&str, &str)]) -> Broker {
    broker.stop();
    client::start(directory, settings)
}

/// One accepted alteration kept a broker from ever starting again: what a topic inherits was not
/// looked at.
#[test]
fn a_broker_refuses_what_no_topic_can_inherit() {
    let fixture = Fixture::new();
    let this = ConfigResource::broker(fixture.broker.rooms().config().node_id);
    for resource in [this, ConfigResource::cluster()] {
        for set in [
            &[("log.flush.interval.ms", "-1")][..],
            &[("log.flush.interval.ms", "-1"), ("log.retention.ms", "5")],
            &[(MIN_LAG, "2000"), (MAX_LAG, "1000")],
            &[("log.cleaner.threads", "2"), ("log.cleaner.dedupe.buffer.size", "2000000")],
        ] {
            let answer = alter(&fixture.broker, &[change(resource.clone(), set)]);
            assert_eq!(answer, [ErrorCode::InvalidRequest], "{resource:?} {set:?}");
        }
        let image = fixture.broker.rooms().controller.image();
        let stored = image.configs_of(&resource).into_iter().flatten();
        assert_eq!(stored.filter(|(key, _)| key.starts_with("log.")).count(), 0);
    }
}

/// Values that contradict each other were let in when they came one after the other, or one for all
/// brokers and one for this.
#[test]
fn an_alteration_is_judged_beside_all_that_was_altered_before() {
    let fixture = Fixture::new();
    let this = || ConfigResource::broker(fixture.broker.rooms().config().node_id);
    let one = |resource, key, value| alter(&fixture.broker, &[change(resource, &[(key, value)])]);
    assert_eq!(one(this(), MIN_LAG, "2000"), [ErrorCode::None]);
    assert_eq!(one(this(), MAX_LAG, "1000"), [ErrorCode::InvalidRequest]);
    assert_eq!(one(ConfigResource::cluster(), MAX_LAG, "1000"), [ErrorCode::InvalidRequest]);
    assert_eq!(one(ConfigResource::cluster(), MAX_LAG, "3000"), [ErrorCode::None]);
    let mut taken_back = change(this(), &[]);
    taken_back.operations.push((MIN_LAG.to_owned(), ConfigOperation::Delete));
    assert_eq!(alter(&fixture.broker, &[taken_back]), [ErrorCode::None]);
    assert_eq!(one(ConfigResource::cluster(), MAX_LAG, "1000"), [ErrorCode::None]);
}

/// A broker's new value took all overrides from a topic that contradicted it, and then its records.
#[test]
fn a_broker_refuses_what_an_override_contradicts_and_a_topic_what_its_broker_does() {
    let fixture = Fixture::new();
    let compact = [("cleanup.policy", "compact"), ("min.compaction.lag.ms", HOUR_MS)];
    client::create_topic(&fixture.broker, "t", 1, &compact);
    client::create_topic(&fixture.broker, "u", 1, &[]);
    let all = ConfigResource::cluster;
    let shorter = change(all(), &[(MAX_LAG, "60000")]);
    assert_eq!(alter(&fixture.broker, std::slice::from_ref(&shorter)), [ErrorCode::InvalidRequest]);
    assert!(obeyed(&fixture.broker, "t").cleanup_compact);
    // In one request as well: each change is judged on top of those before it.
    let topic = change(ConfigResource::topic("u"), &[("min.compaction.lag.ms", HOUR_MS)]);
    let longer = change(all(), &[(MAX_LAG, "3600001")]);
    let answers = alter(&fixture.broker, &[topic, shorter, longer]);
    assert_eq!(answers, [ErrorCode::None, ErrorCode::InvalidRequest, ErrorCode::None]);
    let topic = change(ConfigResource::topic("u"), &[("min.compaction.lag.ms", "3600002")]);
    assert_eq!(alter(&fixture.broker, &[topic]), [ErrorCode::InvalidConfig]);
}

/// Starts a broker, whose log has an error for each of `left_out`, and no other.
fn start_that_complains(directory: &Path, left_out: &[&str]) -> Broker {
    let errors = Lines::default();
    let written = errors.clone();
    let log = tracing_subscriber::fmt().with_max_level(Level::ERROR).with_ansi(false);
    let log = log.with_writer(move || written.clone()).finish();
    let broker = tracing::subscriber::with_default(log, || client::start(directory, &[]));
    let errors = String::from_utf8(errors.0.lock().unwrap().clone()).unwrap();
    for key in left_out {
        let of_it = |line: &str| line.contains("is left out") && line.contains(key);
        assert!(errors.lines().any(of_it), "{key}: {errors}");
    }
    let is_known = |line: &str| left_out.iter().any(|key| line.contains(key));
    assert!(errors.lines().all(is_known), "{errors}");
    broker
}

/// A committed alteration that does not hold stopped every start, and a topic whose overrides did
/// not hold got bare defaults.
#[test]
fn a_broker_starts_with_what_holds_of_its_committed_configs() {
    let directory = tempfile::tempdir().unwrap();
    let broker = client::start(directory.path(), &[]);
    let own = [("cleanup.policy", "compact"), ("min.compaction.lag.ms", HOUR_MS)];
    client::create_topic(&broker, "t", 1, &own);
    client::create_topic(
        &broker,
        "small",
        1,
        &[("cleanup.policy", "compact"), ("segment.bytes", "1000")],
    );
    client::commit_configs(
        &broker,
        ConfigResource::cluster(),
        &[
            ("log.flush.interval.ms", "-1"),
            ("log.retention.ms", "77"),
            (MIN_LAG, "2000"),
            (MAX_LAG, "1000"),
        ],
    );
    for life in 0..2 {
        let again = || start_that_complains(directory.path(), &["log.flush.interval.ms", MAX_LAG]);
        let broker = if life == 0 { &broker } else { &again() };
        client::create_topic(broker, &format!("new-{life}"), 1, &[]);
        for topic in ["t", "small"] {
            let log = obeyed(broker, topic);
            assert_eq!((log.cleanup_compact, log.cleanup_delete), (true, false), "{topic}");
            assert_eq!((log.retention_ms, log.flush_ms), (77, i64::MAX), "{topic}");
        }
        assert_eq!(obeyed(broker, "t").min_compaction_lag_ms, 3_600_000);
        assert_eq!(obeyed(broker, "small").segment_bytes, 1 << 30);
        // An unrelated alteration is still accepted.
        let other = change(ConfigResource::cluster(), &[("log.retention.ms", "77")]);
        assert_eq!(alter(broker, &[other]), [ErrorCode::None]);
        broker.stop();
    }
}

/// A value in a file that a topic's override contradicts cost the topic all of its overrides.
#[test]
fn a_static_value_that_an_override_contradicts_costs_the_topic_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let broker = client::start(directory.path(), &[]);
    let own = [("cleanup.policy", "compact"), ("min.compaction.lag.ms", HOUR_MS)];
    client::create_topic(&broker, "t", 1, &own);
    let broker = restarted(&broker, directory.path(), &[(MAX_LAG, "60000")]);
    let log = obeyed(&broker, "t");
    assert!(log.cleanup_compact && !log.cleanup_delete);
    assert_eq!((log.min_compaction_lag_ms, log.max_compaction_lag_ms), (3_600_000, 3_600_000));
    broker.stop();
}
