//! Keys that may be altered while a broker of Kafka's runs, and that no file sets.
//!
//! The rates of replication are limits, which `kafka-reassign-partitions --throttle` sets. Nothing
//! here acts upon the others. They are checked, kept and described as in Kafka, so that tools which
//! set them still work. Keys of TLS and SASL have no effect in Kafka
//! either if every listener is PLAINTEXT. Keys that open listeners or place data are not in this
//! list, because an accepted key would promise an effect. Unknown keys are kept too, as in Kafka,
//! and answers treat them as secrets.
//!
//! Source: `DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS` and `QuotaConfig`, types as DescribeConfigs
//! of Kafka 4.3 tells them.

use super::key::DefaultValue::Null;
use super::key::Valid::{Any, AtLeast, Between, HostCounts, NoneEmpty, OneOf};
use super::key::{ConfigKey, Dynamic, Importance, Kind, keys};

const FETCHERS: &str = "Kept as given: one thread follows each leader, and asks for more at once.";
const THREADS: &str = "Kept as given: there are no such threads here.";
const CLEANER: &str = "Kept as given: the cleaner has no such buffer and no such limit.";
const CONNECTIONS: &str = "Kept as given: see max.connections and max.connections.per.ip.";
const TIERED: &str = "Kept as given: tiered storage is not served.";
const GROUPS: &str = "Kept as given: only classic groups are served.";
const SECURITY: &str = "Kept as given: listeners are PLAINTEXT, without TLS and without SASL.";
const OTHER: &str = "Kept as given.";

/// In no order; a handful.
pub(super) const KEPT: &[ConfigKey] = keys! {
    Low ClusterWide Long "leader.replication.throttled.rate" = Null, AtLeast(0),
        "Bytes a second that leaders send of leader.replication.throttled.replicas.";
    Low ClusterWide Long "follower.replication.throttled.rate" = Null, AtLeast(0),
        "Bytes a second that followers fetch of follower.replication.throttled.replicas.";
    Low ClusterWide Long "replica.alter.log.dirs.io.max.bytes.per.second" = Null, AtLeast(0),
        "Bytes a second that are copied of replicas that move between log directories.";
    Low ClusterWide Boolean "follower.fetch.last.tiered.offset.enable" = Null, Any, TIERED;
    Low ClusterWide Int "num.replica.fetchers" = Null, AtLeast(1), FETCHERS;
    Low ClusterWide Int "background.threads" = Null, AtLeast(1), THREADS;
    Low ClusterWide Double "log.cleaner.io.max.bytes.per.second" = Null, Any, CLEANER;
    Low ClusterWide Int "log.cleaner.io.buffer.size" = Null, AtLeast(0), CLEANER;
    Low ClusterWide Double "log.cleaner.io.buffer.load.factor" = Null, Any, CLEANER;
    Low ClusterWide String "max.connections.per.ip.overrides" = Null, HostCounts, CONNECTIONS;
    Low ClusterWide Int "max.connection.creation.rate" = Null, AtLeast(1), CONNECTIONS;
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
    Low ClusterWide Int "group.consumer.assignment.interval.ms" = Null, Between(0, 15_000), GROUPS;
    Low ClusterWide Int "group.share.assignment.interval.ms" = Null, Between(0, 15_000), GROUPS;
    Low ClusterWide Int "group.streams.assignment.interval.ms" = Null, Between(0, 15_000), GROUPS;
    Low ClusterWide Int "group.coordinator.cached.buffer.max.bytes" = Null, AtLeast(524_288), OTHER;
    Low ClusterWide Int "share.coordinator.cached.buffer.max.bytes" = Null, AtLeast(524_288),
        GROUPS;
    Low PerBroker Long "sasl.kerberos.min.time.before.relogin" = Null, Any, SECURITY;
    Low PerBroker Double "sasl.kerberos.ticket.renew.jitter" = Null, Any, SECURITY;
    Low PerBroker Double "sasl.kerberos.ticket.renew.window.factor" = Null, Any, SECURITY;
    Low PerBroker String "sasl.kerberos.kinit.cmd" = Null, Any, SECURITY;
    Low PerBroker List "sasl.kerberos.principal.to.local.rules" = Null, NoneEmpty, SECURITY;
    Low PerBroker String "sasl.kerberos.service.name" = Null, Any, SECURITY;
    Low PerBroker Short "sasl.login.refresh.buffer.seconds" = Null, Any, SECURITY;
    Low PerBroker Short "sasl.login.refresh.min.period.seconds" = Null, Any, SECURITY;
    Low PerBroker Double "sasl.login.refresh.window.factor" = Null, Any, SECURITY;
    Low PerBroker Double "sasl.login.refresh.window.jitter" = Null, Any, SECURITY;
    Low PerBroker List "sasl.enabled.mechanisms" = Null, NoneEmpty, SECURITY;
    Low PerBroker Password "sasl.jaas.config" = Null, Any, SECURITY;
    Low PerBroker String "sasl.mechanism.inter.broker.protocol" = Null, Any, SECURITY;
    Low PerBroker List "ssl.cipher.suites" = Null, NoneEmpty, SECURITY;
    Low PerBroker String "ssl.client.auth" = Null,
        OneOf(&["required", "requested", "none"]), SECURITY;
    Low PerBroker List "ssl.enabled.protocols" = Null, NoneEmpty, SECURITY;
    Low PerBroker String "ssl.endpoint.identification.algorithm" = Null, Any, SECURITY;
    Low PerBroker String "ssl.keymanager.algorithm" = Null, Any, SECURITY;
    Low PerBroker String "ssl.protocol" = Null, Any, SECURITY;
    Low PerBroker String "ssl.provider" = Null, Any, SECURITY;
    Low PerBroker String "ssl.secure.random.implementation" = Null, Any, SECURITY;
    Low PerBroker String "ssl.trustmanager.algorithm" = Null, Any, SECURITY;
    Low ClusterWide List "config.providers" = Null, Any, OTHER;
    Low ClusterWide List "metric.reporters" = Null, NoneEmpty, OTHER;
    Low ClusterWide Boolean "transaction.partition.verification.enable" = Null, Any, OTHER;
};
