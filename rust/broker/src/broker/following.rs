//! What the rooms are told from below: by the control plane of new images, by the disk that it
//! failed.

use crate::config::BrokerConfig;
use crate::metadata::{ConfigResource, Controller, MetadataImage};
use crate::network::ConnectionLimits;
use crate::purgatory::Timer;
use crate::replication::Partitions;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Whoever waits at a partition is told when the disk fails, by a task of its own: it may fail
/// under any lock.
pub(super) fn tell_when_offline(partitions: &Arc<Partitions>, timer: &Arc<Timer>) {
    for dir in partitions.dirs().iter() {
        let (told, timer) = (Arc::downgrade(partitions), timer.clone());
        let failed = Arc::downgrade(dir.log_dir());
        dir.log_dir().on_offline(move || {
            let (told, failed) = (told.clone(), failed.clone());
            let tell = move || {
                if let (Some(partitions), Some(failed)) = (told.upgrade(), failed.upgrade()) {
                    partitions.tell_everyone_in(&failed);
                }
            };
            timer.schedule(0, Box::new(tell));
        });
    }
}

/// Makes configuration and partitions follow the control plane from now on, beginning with what
/// there is.
pub(super) fn follow_images(
    controller: &Controller,
    partitions: &Arc<Partitions>,
    config: &Arc<ArcSwap<BrokerConfig>>,
) {
    let (partitions, config) = (partitions.clone(), config.clone());
    controller.watch(Box::new(move |before, after| {
        if before.configs != after.configs {
            config.store(Arc::new(altered(&config.load(), after)));
            partitions.renew_settings();
        }
        partitions.follow_image(before, after);
    }));
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

/// The configuration with what was altered at run time; without it if it no longer holds.
pub(super) fn altered(config: &BrokerConfig, image: &MetadataImage) -> BrokerConfig {
    let of = |resource| image.configs_of(&resource).cloned().unwrap_or_default();
    let for_all = of(ConfigResource::cluster());
    let for_this = of(ConfigResource::broker(config.node_id));
    config.with_dynamic(&for_all, &for_this).unwrap_or_else(|error| {
        tracing::error!(%error, "altered configuration does not hold");
        config.clone()
    })
}
