//! A broker's image: production's `Publisher` applies what is committed, and tells the followers
//! of the image.
//!
//! On a real broker a thread does both, and requests come in between. Some of them use the new
//! image before the replicas and the coordinator follow it.

use super::Broker;
use crate::controller::partition_image;
use crate::io::{Io, Tick};
use crate::planted::Planted;
use kafkalite_broker::metadata::records::{FeatureLevelRecord, MetadataRecord, RecordsBatch};
use kafkalite_broker::metadata::{MetadataImage, Publisher};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// An image, and the one before it.
type Step = (Arc<MetadataImage>, Arc<MetadataImage>);

/// The image, and what is on its way to it.
pub(super) struct Metadata {
    publisher: Arc<Publisher>,
    /// The last record that came.
    received: i64,
    /// Batches that wait to be applied.
    waiting: usize,
    /// A tick goes on with them.
    is_publishing: bool,
    /// Steps that the followers of the image do not know.
    untold: Arc<Mutex<VecDeque<Step>>>,
    /// The last record of the image that they know.
    told: i64,
    /// The image that replicas and coordinator followed last.
    followed: Arc<MetadataImage>,
}

impl Metadata {
    /// No metadata yet: a process reads all of the log.
    pub fn new() -> Self {
        let publisher = Arc::new(Publisher::without_thread(MetadataImage::default(), |_| {}));
        let untold: Arc<Mutex<VecDeque<Step>>> = Arc::default();
        let steps = Arc::clone(&untold);
        let follower = move |before: &Arc<MetadataImage>, after: &Arc<MetadataImage>| {
            if after.offset >= 0 {
                steps.lock().push_back((Arc::clone(before), Arc::clone(after)));
            }
        };
        publisher.follow(Box::new(follower), Box::new(|| {}));
        publisher.turn();
        let (received, waiting, is_publishing, told) = (-1, 0, false, -1);
        let followed = Arc::default();
        Self { publisher, received, waiting, is_publishing, untold, told, followed }
    }

    /// Who has the newest image.
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// The last record that the followers of the image know.
    pub fn told(&self) -> i64 {
        self.told
    }
}

impl Broker {
    /// Takes committed metadata in.
    pub(super) fn take_metadata(&mut self, batches: &[Arc<RecordsBatch>], io: &mut Io<'_>) {
        let metadata = &mut self.metadata;
        // A restart replays the log from its beginning.
        let is_restart = metadata.received == -1 && batches.len() > 2;
        let forgets = is_restart && io.has(Planted::ImageForgetsLastBatch);
        for (number, batch) in batches.iter().enumerate() {
            let is_next = batch.base_offset == metadata.received + 1;
            if !is_next && !io.has(Planted::OldMetadataApplied) {
                continue;
            }
            let mut batch = (**batch).clone();
            if forgets && number + 1 == batches.len() {
                batch.records.fill(MetadataRecord::FeatureLevel(FeatureLevelRecord::default()));
            }
            metadata.received = batch.last_offset();
            metadata.waiting += 1;
            metadata.publisher.committed(batch);
        }
        if metadata.waiting > 0 && !std::mem::replace(&mut metadata.is_publishing, true) {
            let pause = self.stall(io);
            io.after(pause, Tick::Publish);
        }
    }

    /// Applies what waits. The followers of the image may learn it late.
    pub(super) fn publish(&mut self, io: &mut Io<'_>) {
        while self.metadata.waiting > 0 {
            self.metadata.waiting -= 1;
            self.metadata.publisher.turn();
            let pause = self.stall(io);
            if pause > 0 {
                return io.after(pause, Tick::Tell);
            }
            self.tell(io);
        }
        self.metadata.is_publishing = false;
    }

    /// Tells the followers of the image.
    pub(super) fn tell(&mut self, io: &mut Io<'_>) {
        let steps = std::mem::take(&mut *self.metadata.untold.lock());
        for (_, after) in steps {
            let before = std::mem::replace(&mut self.metadata.told, after.offset);
            let Some(epoch) = self.epoch.filter(|epoch| after.offset >= *epoch) else { continue };
            if before < epoch {
                // It waits to be let in.
                self.send_heartbeat(io);
            }
            let before = std::mem::replace(&mut self.metadata.followed, Arc::clone(&after));
            for partition in self.settings.all() {
                if let Some(image) = partition_image(&after, &self.settings, partition) {
                    self.follow(partition, image, io);
                }
            }
            self.lend(|me| me.coordination.follow_image(&before, &after));
            self.assign_replicas(io);
        }
    }
}
