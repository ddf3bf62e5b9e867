//! Keys that may be altered while a broker of Kafka's runs, and that nothing here acts upon.
//!
//! They are checked, kept and described as in Kafka, so that a tool which sets them on its way, as
//! `kafka-reassign-partitions --throttle` does, gets there. Keys about security and about where
//! data is placed are not among them: whoever sets such a key has to hear that it has no effect.
//! So are those nobody has heard of, as in Kafka, but these are secrets in its answers.
//!
//! Source: `DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS` and `QuotaConfig`, types as DescribeConfigs
//! of Kafka 4.3 tells them.

use super::key::DefaultValue::Null;
use super::key::Valid::{Any, AtLeast};
use super::key::{ConfigKey, Dynamic, Importance, Kind, keys};

const REPLICATION: &str = "Kept as given: there is one broker, so nothing is replicated.";
const THREADS: &str = "Kept as given: there are no such threads here.";
const CLEANER: &str = "Kept as given: the cleaner has no such buffer and no such limit.";
const CONNECTIONS: &str = "Kept as given: see max.connections and max.connections.per.ip.";
const TIERED: &str = "Kept as given: tiered storage is not served.";
const GROUPS: &str = "Kept as given: only classic groups are served.";
const OTHER: &str = "Kept as given.";

/// In no order; a handful.
pub(super) const KEPT: &[ConfigKey] = keys! {
    Low ClusterWide Long "leader.replication.throttled.rate" = Null, AtLeast(0), REPLICATION;
    Low ClusterWide Long "follower.replication.throttled.rate" = Null, AtLeast(0), REPLICATION;
    Low ClusterWide Long "replica.alter.log.dirs.io.max.bytes.per.second" = Null, AtLeast(0),
        REPLICATION;
    Low ClusterWide Boolean "follower.fetch.last.tiered.offset.enable" = Null, Any, TIERED;
    Low ClusterWide Int "num.replica.fetchers" = Null, AtLeast(1), THREADS;
    Low ClusterWide Int "background.threads" = Null, AtLeast(1), THREADS;
    Low ClusterWide Double "log.cleaner.io.max.bytes.per.second" = Null, Any, CLEANER;
    Low ClusterWide Int "log.cleaner.io.buffer.size" = Null, AtLeast(0), CLEANER;
    Low ClusterWide Double "log.cleaner.io.buffer.load.factor" = Null, Any, CLEANER;
    Low ClusterWide String "max.connections.per.ip.overrides" = Null, Any, CONNECTIONS;
    Low ClusterWide Int "max.connection.creation.rate" = Null, AtLeast(0), CONNECTIONS;
    Low ClusterWide Long "log.local.retention.bytes" = Null, AtLeast(-2), TIERED;
    Low ClusterWide Long "log.local.retention.ms" = Null, AtLeast(-2), TIERED;
    Low ClusterWide Int "remote.fetch.max.wait.ms" = Null, AtLeast(1), TIERED;
    Low ClusterWide Long "remote.list.offsets.request.timeout.ms" = Null, AtLeast(1), TIERED;
    Low ClusterWide Long "remote.log.index.file.cache.total.size.bytes" = Null, AtLeast(1), TIERED;
    Low ClusterWide Int "remote.log.manager.copier.thread.pool.size" = Null, Any, TIERED;
    Low ClusterWide Long "remote.log.manager.copy.max.bytes.per.second" = Null, AtLeast(1), TIERED;
    Low ClusterWide Int "remote.log.manager.expiration.thread.pool.size" = Null, Any, TIERED;
    Low ClusterWide Long "remote.log.manager.fetch.max.bytes.per.second" = Null, AtLeast(1), TIERED;
    Low ClusterWide Int "remote.log.manager.follower.thread.pool.size" = Null, Any, TIERED;
    Low ClusterWide Int "remote.log.reader.threads" = Null, AtLeast(1), TIERED;
    Low ClusterWide Int "group.consumer.assignment.interval.ms" = Null, AtLeast(0), GROUPS;
    Low ClusterWide Int "group.share.assignment.interval.ms" = Null, AtLeast(0), GROUPS;
    Low ClusterWide Int "group.streams.assignment.interval.ms" = Null, AtLeast(0), GROUPS;
    Low ClusterWide Int "group.coordinator.cached.buffer.max.bytes" = Null, AtLeast(512), OTHER;
    Low ClusterWide Int "share.coordinator.cached.buffer.max.bytes" = Null, AtLeast(512), GROUPS;
    Low ClusterWide List "metric.reporters" = Null, Any, OTHER;
    Low ClusterWide Boolean "transaction.partition.verification.enable" = Null, Any, OTHER;
};
