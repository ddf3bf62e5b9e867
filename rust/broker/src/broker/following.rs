//! Events that reach the rooms from below: a new image from the control plane, a failure of a disk.

use super::freed_memory;
use crate::clock::Clock;
use crate::config::{BrokerConfig, TopicValues};
use crate::metadata::controller::{Done, altered_config};
use crate::metadata::{ApiError, Controller, MetadataImage, TopicImage};
use crate::network::ConnectionLimits;
use crate::partitions::{PartitionProposal, ReplicaManager, TopicSettings};
use crate::purgatory::Timer;
use crate::replication::{FetcherConfig, ReplicaFetchers, ReplicaFetchersConfig};
use arc_swap::ArcSwap;
use kafkalite_connection::CutLinks;
use kafkalite_protocol::Uuid;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A start with so many partitions leaves much free memory behind, and so does their deletion.
const MANY_PARTITIONS: usize = 1_000;

/// Between two looks at what the metadata say of a failed disk, in ms.
const HAND_OVER_MS: u64 = 1_000;

/// Answers the requests that wait at a partition when its disk fails, and has other brokers lead
/// it. A task of its own does it, because a disk may fail under any lock.
pub(super) fn tell_when_offline(
    controller: &Arc<Controller>,
    partitions: &Arc<ReplicaManager>,
    timer: &Arc<Timer>,
    local_id: i32,
) {
    for dir in partitions.dirs().iter() {
        let (controller, again) = (Arc::downgrade(controller), Arc::downgrade(timer));
        let hand_over = HandOver { controller, timer: again, local_id, directory: dir.id() };
        let hand_over = Arc::new(hand_over);
        let (told, timer) = (Arc::downgrade(partitions), timer.clone());
        let failed = Arc::downgrade(dir.log_dir());
        dir.log_dir().on_offline(move || {
            let (told, failed) = (told.clone(), failed.clone());
            let hand_over = Arc::clone(&hand_over);
            let tell = move || {
                if let (Some(partitions), Some(failed)) = (told.upgrade(), failed.upgrade()) {
                    partitions.tell_everyone_in(&failed);
                }
                hand_over.look();
            };
            timer.schedule(0, Box::new(tell));
        });
    }
}

/// Notes in the metadata that a log directory failed, and hands over what this broker leads there.
/// A registration that was under way may name the directory, so this looks again until the broker
/// stops: a failed disk does not come back.
struct HandOver {
    controller: Weak<Controller>,
    timer: Weak<Timer>,
    local_id: i32,
    directory: Uuid,
}

impl HandOver {
    fn look(self: Arc<Self>) {
        let Some(controller) = self.controller.upgrade() else { return };
        let (local_id, directory) = (self.local_id, self.directory);
        controller.leave_directory(local_id, directory, move || {
            if let Some(timer) = self.timer.upgrade() {
                timer.schedule(HAND_OVER_MS, Box::new(move || self.look()));
            }
        });
    }
}

/// Has the metadata note the log directories of replicas that were made. To be called before
/// [`follow_images`], which makes some.
pub(super) fn note_directories(
    controller: &Arc<Controller>,
    partitions: &Arc<ReplicaManager>,
    local_id: i32,
) {
    let (controller, told) = (Arc::downgrade(controller), Arc::downgrade(partitions));
    partitions.on_unassigned(move || {
        let Some(controller) = controller.upgrade() else { return };
        let (asked, told) = (told.clone(), told.clone());
        let directories = move || asked.upgrade().map(|it| it.unassigned()).unwrap_or_default();
        let done = move |result| {
            if let Some(partitions) = told.upgrade() {
                partitions.assigned(result);
            }
        };
        controller.assign_replicas(local_id, directories, Done::new(done));
    });
}

/// Has the controller change in-sync replicas as the leaders here see them. To be called before
/// [`follow_images`], which makes leaders.
pub(super) fn propose_in_sync(
    controller: &Arc<Controller>,
    partitions: &Arc<ReplicaManager>,
    local_id: i32,
) {
    let (controller, told) = (Arc::downgrade(controller), Arc::downgrade(partitions));
    partitions.on_isr_proposals(move |batch| {
        let Some(controller) = controller.upgrade() else { return };
        let told = told.clone();
        let changes = batch.iter().map(PartitionProposal::change).collect();
        let done = move |answers: Vec<Result<(), ApiError>>| {
            if let Some(partitions) = told.upgrade() {
                partitions.isr_answered(batch, answers);
            }
        };
        let epoch = controller.image().brokers.get(&local_id).map_or(-1, |broker| broker.epoch);
        controller.alter_partitions(local_id, epoch, changes, Done::new(done));
    });
}

/// The fetchers of this broker, which follow no leader yet.
pub(super) fn fetchers(
    config: &BrokerConfig,
    partitions: &Arc<ReplicaManager>,
    clock: &Arc<dyn Clock>,
    links: Option<Arc<CutLinks>>,
) -> Arc<ReplicaFetchers> {
    let fetchers_config = ReplicaFetchersConfig {
        local_id: config.node_id,
        listener: config.inter_broker_listener_name.clone(),
        links,
        asks: asks(config),
        socket_timeout: Duration::from_millis(config.replica_socket_timeout_ms),
        check_bytes_per_second: config.replica_check_bytes_per_second,
    };
    let (partitions, clock) = (Arc::clone(partitions), Arc::clone(clock));
    Arc::new(ReplicaFetchers::new(fetchers_config, partitions, clock))
}

/// Follows the leaders of the partitions here that other brokers lead. To be called after
/// [`follow_images`]: of an image its watchers hear in the order in which they came.
pub(super) fn start_fetchers(controller: &Controller, fetchers: &Arc<ReplicaFetchers>) {
    let told = Arc::downgrade(fetchers);
    controller.watch(Box::new(move |before, after| {
        if let Some(fetchers) = told.upgrade() {
            fetchers.follow_image(before, after);
        }
    }));
}

/// What the configuration has followers ask of their leaders.
fn asks(config: &BrokerConfig) -> FetcherConfig {
    FetcherConfig {
        max_wait_ms: config.replica_fetch_wait_max_ms,
        min_bytes: config.replica_fetch_min_bytes,
        max_bytes: config.replica_fetch_response_max_bytes,
        partition_max_bytes: config.replica_fetch_max_bytes,
        // Without any wait a leader that does not answer would be asked without end.
        backoff_ms: config.replica_fetch_backoff_ms.max(1),
        ..FetcherConfig::default()
    }
}

/// Makes configuration and partitions follow the control plane from now on, beginning with what
/// there is.
pub(super) fn follow_images(
    controller: &Controller,
    partitions: &Arc<ReplicaManager>,
    config: &Arc<ArcSwap<BrokerConfig>>,
) {
    let (partitions, config) = (partitions.clone(), config.clone());
    controller.watch(Box::new(move |before, after| {
        let altered = before.configs != after.configs;
        if altered {
            config.store(Arc::new(in_force(&config.load(), after)));
            partitions.limit_throttles(&config.load());
        }
        report_topics(&config.load(), before, after);
        // The changed topics come first. Otherwise a log would for a moment obey the new defaults
        // with its old overrides, and could be cleaned up by them.
        partitions.follow_image(before, after);
        if altered {
            partitions.renew_settings();
        }
        if before.topics.partition_count().abs_diff(after.topics.partition_count())
            >= MANY_PARTITIONS
        {
            freed_memory::give_back();
        }
    }));
}

/// A topic's settings by what is in force.
pub(super) fn topic_settings(
    config: Arc<ArcSwap<BrokerConfig>>,
) -> Box<dyn Fn(&TopicImage) -> TopicSettings + Send + Sync> {
    Box::new(move |topic| TopicSettings::new(&config.load(), &topic.configs))
}

/// Reports overrides that do not hold beside the broker's values. None is ever committed; they may
/// come from an earlier release, or from a file that was edited since.
fn report_topics(config: &BrokerConfig, before: &MetadataImage, after: &MetadataImage) {
    let changed = before.topics.changes(&after.topics).into_iter().filter_map(|(_, topic)| topic);
    for topic in changed.filter(|topic| !topic.configs.is_empty()) {
        for problem in TopicValues::new(&config.values, &topic.configs).problems() {
            tracing::error!(topic = %topic.name, %problem, "an override of a topic does not hold");
        }
    }
}

/// Makes the bounds of connections follow the configuration. To be called after
/// [`follow_images`]: of an image its watchers hear in the order in which they came.
pub(super) fn bound_connections(
    controller: &Controller,
    config: &Arc<ArcSwap<BrokerConfig>>,
    limits: &Arc<ConnectionLimits>,
) {
    let (config, limits) = (config.clone(), limits.clone());
    controller.watch(Box::new(move |before, after| {
        if before.configs != after.configs {
            let config = config.load();
            limits.set_bounds(config.max_connections, config.max_connections_per_ip);
        }
    }));
}

/// The configuration with what was altered at run time. An alteration that does not hold is
/// reported, and left out.
pub(super) fn in_force(config: &BrokerConfig, image: &MetadataImage) -> BrokerConfig {
    let altered = altered_config(config, image);
    for problem in &altered.problems {
        tracing::error!(%problem, "an altered configuration does not hold and is left out");
    }
    altered.config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    #[test]
    fn followers_ask_for_what_the_configuration_says() {
        let asked = |flags: &[(&str, &str)]| {
            let flag =
                |(key, value): &(&str, &str)| (key.to_string(), value.to_string(), "".into());
            let flags = flags.iter().map(flag).collect();
            let config = load(&Sources { flags, ..Sources::default() }).expect("valid values");
            let FetcherConfig { max_wait_ms, min_bytes, max_bytes, partition_max_bytes, .. } =
                asks(&config);
            let backoff_ms = asks(&config).backoff_ms;
            (max_wait_ms, min_bytes, max_bytes, partition_max_bytes, backoff_ms)
        };
        assert_eq!(asked(&[]), (500, 1, 10 << 20, 1 << 20, 1_000), "Kafka's defaults");
        let keys = [
            ("replica.fetch.wait.max.ms", "250"),
            ("replica.fetch.min.bytes", "2"),
            ("replica.fetch.response.max.bytes", "3000"),
            ("replica.fetch.max.bytes", "400"),
            ("replica.fetch.backoff.ms", "0"),
        ];
        assert_eq!(asked(&keys), (250, 2, 3_000, 400, 1));
    }
}
