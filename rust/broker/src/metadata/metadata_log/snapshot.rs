//! Snapshots: an image written as the fewest records that add up to it.

use super::super::error::MetadataError;
use super::super::image::MetadataImage;
use super::super::records::{ConfigResource, MetadataRecord, PartitionRecord, RecordsBatch};
use super::frames::{FramesFile, Header};
use kafkalite_log::storage::Storage;
use std::path::Path;

/// Records a frame of a snapshot holds, so that neither side needs the whole of it in memory.
const RECORDS_PER_FRAME: usize = 256;

/// Writes `image` to `path` and fsyncs it; the file has its name only when it is whole. Returns its
/// length in bytes.
pub fn write(
    storage: &dyn Storage,
    path: &Path,
    image: &MetadataImage,
    timestamp_ms: i64,
) -> Result<u64, MetadataError> {
    let header = Header { offset: image.offset + 1, epoch: image.epoch };
    let mut file = FramesFile::create_unnamed(storage, path, header)?;
    let mut records = records_of(image).peekable();
    let mut base_offset = 0;
    while records.peek().is_some() {
        let records: Vec<_> = records.by_ref().take(RECORDS_PER_FRAME).collect();
        let count = records.len() as i64;
        let batch = RecordsBatch { base_offset, epoch: image.epoch, timestamp_ms, records };
        file.append_unsynced(&batch).map_err(|failure| failure.error)?;
        base_offset += count;
    }
    file.commit_whole()?;
    file.take_name(storage, path)?;
    Ok(file.len())
}

/// Reads the image in `path`, and how many bytes it takes.
///
/// # Errors
/// Any byte of it is not what was written: a snapshot is never torn.
pub fn read(storage: &dyn Storage, path: &Path) -> Result<(MetadataImage, u64), MetadataError> {
    let mut file = FramesFile::open(storage, path)?;
    let mut image = MetadataImage::default();
    file.replay(false, |_, batch| {
        image = image.with_batch(&batch)?;
        Ok(())
    })?;
    image.offset = file.header().offset - 1;
    image.epoch = file.header().epoch;
    Ok((image, file.len()))
}

fn records_of(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> + '_ {
    let head = [
        MetadataRecord::Cluster { cluster_id: image.cluster_id.to_string() },
        MetadataRecord::ControllerEpoch { controller_id: image.controller_id, epoch: image.epoch },
        MetadataRecord::ProducerIds { broker_id: -1, next_producer_id: image.next_producer_id },
    ];
    let brokers = image.brokers.values().map(registration);
    let features = image
        .features
        .iter()
        .map(|(name, level)| MetadataRecord::FeatureLevel { name: name.clone(), level: *level });
    let topics = image.topics.iter().map(|topic| MetadataRecord::CreateTopic {
        name: topic.name.to_string(),
        topic_id: topic.id.0,
        partitions: topic.partitions.iter().map(PartitionRecord::from).collect(),
        configs: (*topic.configs).clone(),
    });
    let configs = image.configs.iter().flat_map(|(resource, configs)| {
        configs.iter().map(|(name, value)| set_config(resource, name, value))
    });
    head.into_iter().chain(brokers).chain(features).chain(topics).chain(configs)
}

fn registration(broker: &crate::metadata::BrokerImage) -> MetadataRecord {
    let (broker_id, rack, epoch) = (broker.id, broker.rack.clone(), Some(broker.epoch));
    if broker.listeners.is_empty() {
        let (host, port) = (broker.host.clone(), broker.port);
        return MetadataRecord::RegisterBroker { broker_id, host, port, rack, epoch };
    }
    let listeners = broker.listeners.clone();
    let log_dirs = broker.log_dirs.iter().map(|id| id.0).collect();
    MetadataRecord::RegisterBrokerFully { broker_id, listeners, rack, epoch, log_dirs }
}

fn set_config(resource: &ConfigResource, name: &str, value: &str) -> MetadataRecord {
    MetadataRecord::SetConfig {
        resource: resource.clone(),
        name: name.to_owned(),
        value: Some(value.to_owned()),
    }
}
