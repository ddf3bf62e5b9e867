//! The clients that are remembered: so many, so long, and with so much memory. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kafkalite_protocol::{ErrorCode, Uuid};
use kafkalite_telemetry::Report;

use crate::metadata::MetadataImage;

use super::instance::{Client, Instance};
use super::received::Received;
use super::subscriptions::{Asked, Subscriptions};

/// Clients that are remembered, as in Kafka. The one that was silent longest makes room.
pub(super) const MAX_INSTANCES: usize = 16_384;

/// Memory of all reports. Those of the clients that were silent longest are dropped first.
const MAX_BYTES: usize = 32 << 20;

/// Time between two looks for clients that are to be forgotten.
const SWEEP_MS: u64 = 1_000;

/// A client as others see it.
#[derive(Debug, Clone)]
pub struct InstanceView {
    /// Its id.
    pub instance_id: Uuid,
    /// Who it is.
    pub client: Client,
    /// What it is asked for.
    pub asked: Arc<Asked>,
    /// The number of that.
    pub subscription_id: i32,
    /// Its last push said that it ends.
    pub is_terminating: bool,
    /// What its last request got.
    pub last_error: ErrorCode,
    /// Time since its last request, in milliseconds.
    pub last_seen_ms_ago: u64,
    /// Pushes that were taken.
    pub pushes: u64,
    /// Its last report, if one was taken and is kept.
    pub report: Option<Arc<Received>>,
}

/// All clients that are remembered.
#[derive(Debug, Default)]
pub(super) struct Instances {
    subscriptions: Subscriptions,
    by_id: HashMap<Uuid, Instance>,
    /// Every client once, the one that was silent longest first.
    by_use: BTreeMap<u64, Uuid>,
    next_stamp: u64,
    swept_ms: u64,
    bytes: usize,
}

impl Instances {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// An id that no client has.
    pub fn new_id(&self) -> Uuid {
        loop {
            let mut bytes = [0; 16];
            // Without entropy the ids are poor, and still no two clients get one.
            if getrandom::fill(&mut bytes).is_err() {
                bytes = (u128::from(self.next_stamp) + 2).to_be_bytes();
            }
            let id = Uuid::from_random(bytes);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    pub fn follow(&mut self, image: &MetadataImage) {
        self.subscriptions.follow(image);
    }

    /// The client, which sends a request now. As in Kafka it begins again when subscriptions
    /// changed, and with each connection.
    pub fn enter(&mut self, id: Uuid, client: Client, now_ms: u64) -> &mut Instance {
        self.sweep(now_ms);
        let version = self.subscriptions.version;
        let known = self.by_id.remove(&id);
        if let Some(known) = &known {
            self.by_use.remove(&known.stamp);
        }
        let is_current = |known: &Instance| {
            known.version == version && known.client.connection_id == client.connection_id
        };
        let mut instance = match known {
            Some(known) if is_current(&known) => known,
            before => self.begin_again(id, client, before),
        };
        self.next_stamp += 1;
        instance.stamp = self.next_stamp;
        instance.last_seen_ms = now_ms;
        self.by_use.insert(instance.stamp, id);
        while self.by_id.len() >= MAX_INSTANCES {
            self.forget_one();
        }
        self.by_id.entry(id).insert_entry(instance).into_mut()
    }

    fn begin_again(&mut self, id: Uuid, client: Client, before: Option<Instance>) -> Instance {
        let asked = self.subscriptions.asked(id, &client);
        let mut next = Instance::new(id, client, asked, self.subscriptions.version);
        let Some(mut before) = before else { return next };
        if before.asked == next.asked {
            (next.pushes, next.report) = (before.pushes, before.report.take());
        }
        // The report is about what was asked for then.
        self.bytes -= bytes_of(&before);
        next
    }

    /// Notes the outcome of a push that was let in.
    pub fn receive(&mut self, id: Uuid, error: ErrorCode, report: Option<Report>, wall_ms: i64) {
        let Some(instance) = self.by_id.get_mut(&id) else { return };
        instance.last_error = error;
        if error != ErrorCode::None {
            return;
        }
        instance.pushes += 1;
        if let Some(report) = report {
            self.bytes -= bytes_of(instance);
            let received = Received::new(report, instance.report.as_deref(), wall_ms);
            instance.report = Some(Arc::new(received));
            self.bytes += bytes_of(instance);
        }
        self.drop_reports();
    }

    fn drop_reports(&mut self) {
        let mut oldest = self.by_use.values();
        while self.bytes > MAX_BYTES {
            let Some(id) = oldest.next() else { return };
            if let Some(instance) = self.by_id.get_mut(id) {
                self.bytes -= bytes_of(instance);
                instance.report = None;
            }
        }
    }

    fn forget_one(&mut self) {
        if let Some((_, id)) = self.by_use.pop_first()
            && let Some(instance) = self.by_id.remove(&id)
        {
            self.bytes -= bytes_of(&instance);
        }
    }

    /// Forgets clients that have been silent for too long.
    pub fn sweep(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.swept_ms) < SWEEP_MS {
            return;
        }
        self.swept_ms = now_ms;
        let (by_use, bytes) = (&mut self.by_use, &mut self.bytes);
        self.by_id.retain(|_, instance| {
            let is_kept = instance.expires_ms() > now_ms;
            if !is_kept {
                by_use.remove(&instance.stamp);
                *bytes -= bytes_of(instance);
            }
            is_kept
        });
    }

    pub fn list(
        &self,
        after: Uuid,
        most: usize,
        now_ms: u64,
        wants: impl Fn(&InstanceView) -> bool,
    ) -> Vec<InstanceView> {
        let mut ids: Vec<&Uuid> = self.by_id.keys().filter(|id| **id > after).collect();
        ids.sort_unstable();
        let views = ids.into_iter().filter_map(|id| self.find(*id, now_ms));
        views.filter(wants).take(most).collect()
    }

    pub fn find(&self, id: Uuid, now_ms: u64) -> Option<InstanceView> {
        let instance = self.by_id.get(&id)?;
        Some(InstanceView {
            instance_id: id,
            client: instance.client.clone(),
            asked: Arc::clone(&instance.asked),
            subscription_id: instance.subscription_id,
            is_terminating: instance.is_terminating,
            last_error: instance.last_error,
            last_seen_ms_ago: now_ms.saturating_sub(instance.last_seen_ms),
            pushes: instance.pushes,
            report: instance.report.clone(),
        })
    }

    pub fn reports(&self) -> Vec<Arc<Received>> {
        self.by_id.values().filter_map(|instance| instance.report.clone()).collect()
    }
}

fn bytes_of(instance: &Instance) -> usize {
    instance.report.as_ref().map_or(0, |report| report.bytes)
}
