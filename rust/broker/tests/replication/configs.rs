//! Configs for all brokers, beside what one of them has for itself.

use super::awaited;
use super::cluster::Cluster;
use kafkalite_broker::broker::Broker;
use kafkalite_broker::metadata::ConfigResource;
use kafkalite_broker::metadata::controller::{
    ConfigChange, ConfigOperation, ConfigRules, NoRules, TableRules,
};
use kafkalite_protocol::ErrorCode;

const MIN_LAG: &str = "log.cleaner.min.compaction.lag.ms";
const MAX_LAG: &str = "log.cleaner.max.compaction.lag.ms";

/// What `broker` answers to an alteration.
fn alter(broker: &Broker, resource: ConfigResource, key: &str, value: &str) -> ErrorCode {
    let rules = TableRules::new(broker.rooms().config());
    altered(broker, resource, key, value, &rules)
}

fn altered(
    broker: &Broker,
    resource: ConfigResource,
    key: &str,
    value: &str,
    rules: &(impl ConfigRules + Clone + 'static),
) -> ErrorCode {
    let operations = vec![(key.to_owned(), ConfigOperation::Set(value.to_owned()))];
    let change = ConfigChange { resource, replace: false, operations };
    let answer = broker.rooms().controller.blocking().alter_configs(&[change], rules, false);
    answer[0].as_ref().map_or_else(|error| error.code, |()| ErrorCode::None)
}

/// The lags that the log of `t` obeys at broker `id`.
fn lags(cluster: &Cluster, id: i32) -> (i64, i64) {
    let log = cluster.partition(id).log_config();
    (log.min_compaction_lag_ms, log.max_compaction_lag_ms)
}

/// Broker 1 accepted it, and broker 2 dropped its own value: it compacted earlier than promised.
#[test]
fn a_broker_refuses_for_all_what_contradicts_another_ones_own() {
    let cluster = Cluster::start(2, 1);
    let (first, second) = (cluster.broker(1), cluster.broker(2));
    let own = ConfigResource::broker(2);
    assert_eq!(alter(second, own, MIN_LAG, "2000"), ErrorCode::None);
    for broker in [first, second] {
        let answer = alter(broker, ConfigResource::cluster(), MAX_LAG, "1000");
        assert_eq!(answer, ErrorCode::InvalidRequest);
    }
    assert_eq!(alter(first, ConfigResource::cluster(), MAX_LAG, "3000"), ErrorCode::None);
    awaited::until("both follow", || {
        (lags(&cluster, 1), lags(&cluster, 2)) == ((0, 3_000), (2_000, 3_000))
    });
}

/// As after an earlier release, which accepted it.
#[test]
fn a_broker_keeps_its_own_value_where_the_one_for_all_contradicts_it() {
    let mut cluster = Cluster::start(2, 1);
    let (first, second) = (cluster.broker(1), cluster.broker(2));
    assert_eq!(alter(second, ConfigResource::broker(2), MIN_LAG, "2000"), ErrorCode::None);
    let answer = altered(first, ConfigResource::cluster(), MAX_LAG, "1000", &NoRules);
    assert_eq!(answer, ErrorCode::None);
    let settled =
        |cluster: &Cluster| (lags(cluster, 1), lags(cluster, 2)) == ((0, 1_000), (2_000, i64::MAX));
    awaited::until("both follow", || settled(&cluster));
    cluster.kill(2);
    cluster.restart(2);
    awaited::until("it starts with the same", || settled(&cluster));
}
