//! Who makes records count.
//!
//! A quorum takes records in, and when they are committed (on the disks of a majority; here: on
//! ours) it applies them to the image. The controller decides; the quorum only keeps order and
//! promises.

use super::error::MetadataError;
use super::image::MetadataImage;
use super::metadata_log::MetadataLog;
use super::records::{MetadataRecord, RecordsBatch};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;

/// What is told of a new image: the one before and the one after, in order, before the caller that
/// changed it gets its answer. The first call is from the empty image. It must not ask the
/// controller for another change.
pub type OnImage = Box<dyn Fn(&Arc<MetadataImage>, &Arc<MetadataImage>) + Send + Sync + 'static>;

/// A log of metadata that some voters agree on.
pub trait MetadataQuorum: Send + Sync {
    /// Adds `records`, all or none, and returns when they are committed and in the image.
    /// Returns the offset of the last one.
    ///
    /// # Errors
    /// They could not be written; then they are in no image.
    fn propose(
        &self,
        records: Vec<MetadataRecord>,
        timestamp_ms: i64,
    ) -> Result<i64, MetadataError>;

    /// The newest committed image.
    fn image(&self) -> Arc<MetadataImage>;

    /// How the voters stand.
    fn status(&self) -> QuorumStatus;
}

/// How the voters of the metadata log stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    /// The leader's broker id; -1 is none.
    pub leader_id: i32,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// The end of what is committed, exclusive.
    pub high_watermark: i64,
    /// The voters: broker id and log end offset.
    pub voters: Vec<(i32, i64)>,
}

/// The quorum of one voter: what is on its disk is committed.
pub struct QuorumOfOne {
    node_id: i32,
    epoch: i32,
    log: Mutex<MetadataLog>,
    image: ArcSwap<MetadataImage>,
}

impl QuorumOfOne {
    /// Takes the log and the image it adds up to; leads from now on in the epoch after the image's.
    pub fn new(node_id: i32, log: MetadataLog, image: MetadataImage) -> Self {
        let epoch = image.epoch + 1;
        Self { node_id, epoch, log: Mutex::new(log), image: ArcSwap::from_pointee(image) }
    }
}

impl MetadataQuorum for QuorumOfOne {
    fn propose(
        &self,
        records: Vec<MetadataRecord>,
        timestamp_ms: i64,
    ) -> Result<i64, MetadataError> {
        let mut log = self.log.lock();
        let image = self.image.load_full();
        let base_offset = image.offset + 1;
        let batch = RecordsBatch { base_offset, epoch: self.epoch, timestamp_ms, records };
        // Applied first, written second: a record that does not fit must never reach the disk.
        let next = image.with_batch(&batch)?;
        log.append(&batch)?;
        let next = Arc::new(next);
        self.image.store(Arc::clone(&next));
        log.snapshot_if_due(&next, timestamp_ms);
        Ok(next.offset)
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    fn status(&self) -> QuorumStatus {
        let end = self.image.load().offset + 1;
        QuorumStatus {
            leader_id: self.node_id,
            leader_epoch: self.epoch,
            high_watermark: end,
            voters: vec![(self.node_id, end)],
        }
    }
}

#[cfg(test)]
mod tests;
