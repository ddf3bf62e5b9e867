//! The subscriptions of the metadata image, and what they ask of a client.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::config::{DEFAULT_INTERVAL_MS, Subscription};
use crate::metadata::image::Configs;
use crate::metadata::{ConfigResource, ConfigResourceType, MetadataImage};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::record_batch::crc32c;

use super::instance::Client;

/// Stands for all metrics.
const ALL: &str = "*";

/// What all subscriptions that match a client ask of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// Prefixes of metrics, sorted; `*` alone is all metrics, and none is nothing.
    pub metrics: Vec<String>,
    /// The time between two pushes, in milliseconds: the shortest.
    pub interval_ms: u32,
}

impl Asked {
    /// The number of this for one client. Every broker of a cluster computes the same number, so a
    /// client may push to another broker than the one it asked.
    ///
    /// Source: Kafka's `computeSubscriptionId` and `Uuid.hashCode`; the order of the metrics is
    /// ours.
    pub(super) fn id_for(&self, instance_id: Uuid) -> i32 {
        let text = format!("[{}]{}", self.metrics.join(", "), self.interval_ms);
        let id = u128::from_be_bytes(instance_id.0);
        let halves = (id >> 64) as u64 ^ id as u64;
        let hash = (halves >> 32) as u32 ^ halves as u32;
        (crc32c(text.as_bytes()) ^ hash).cast_signed()
    }
}

/// All subscriptions at one offset of the metadata log.
#[derive(Debug)]
pub(super) struct Subscriptions {
    offset: i64,
    /// The configs of all resources, as the image shares them: the same object has not changed.
    configs: Arc<BTreeMap<ConfigResource, Configs>>,
    of_clients: BTreeMap<String, Configs>,
    all: Vec<Subscription>,
    /// Raised when a subscription changes.
    pub(super) version: u64,
    /// What was worked out, by the subscriptions that match: clients share it.
    asked: HashMap<Vec<usize>, Arc<Asked>>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            offset: -1,
            configs: Arc::default(),
            of_clients: BTreeMap::new(),
            all: Vec::new(),
            version: 0,
            asked: HashMap::new(),
        }
    }
}

impl Subscriptions {
    /// Follows the image. One that is older than an image before changes nothing: requests on two
    /// threads may come in another order than they took their images.
    pub(super) fn follow(&mut self, image: &MetadataImage) {
        if image.offset < self.offset || Arc::ptr_eq(&self.configs, &image.configs) {
            return;
        }
        self.offset = image.offset;
        self.configs = Arc::clone(&image.configs);
        let of_clients = configs_of(image);
        if of_clients != self.of_clients {
            self.all = compiled(&of_clients);
            self.of_clients = of_clients;
            self.asked.clear();
            self.version += 1;
        }
    }

    /// What this client is asked for.
    pub(super) fn asked(&mut self, instance_id: Uuid, client: &Client) -> Arc<Asked> {
        let id = instance_id.to_string();
        let wants = |one: &Subscription| one.wants(|of| client.attribute(of, &id));
        let matching: Vec<usize> =
            (0..self.all.len()).filter(|index| wants(&self.all[*index])).collect();
        let subscriptions = matching.iter().map(|index| &self.all[*index]);
        let asked = || Arc::new(united(subscriptions));
        Arc::clone(self.asked.entry(matching.clone()).or_insert_with(asked))
    }
}

/// The subscriptions of an image. One that does not hold any more, of an earlier or a later
/// release, is left out.
fn compiled(of_clients: &BTreeMap<String, Configs>) -> Vec<Subscription> {
    let compile = |(name, configs): (&String, &Configs)| match Subscription::new(configs) {
        Ok(subscription) => Some(subscription),
        Err(error) => {
            tracing::warn!(%name, ?error, "a subscription of client metrics is left out");
            None
        }
    };
    of_clients.iter().filter_map(compile).collect()
}

fn configs_of(image: &MetadataImage) -> BTreeMap<String, Configs> {
    let is_one = |owner: &&ConfigResource| owner.resource_type == ConfigResourceType::ClientMetrics;
    let all = image.configs.iter().filter(|(owner, _)| is_one(owner));
    all.map(|(owner, configs)| (owner.name.clone(), configs.clone())).collect()
}

fn united<'a>(subscriptions: impl Iterator<Item = &'a Subscription>) -> Asked {
    let (mut metrics, mut interval_ms) = (BTreeSet::new(), DEFAULT_INTERVAL_MS);
    for one in subscriptions {
        metrics.extend(&one.metrics);
        interval_ms = interval_ms.min(one.interval_ms);
    }
    let metrics = match metrics.iter().any(|prefix| *prefix == ALL) {
        true => vec![ALL.to_owned()],
        false => metrics.into_iter().cloned().collect(),
    };
    Asked { metrics, interval_ms }
}
