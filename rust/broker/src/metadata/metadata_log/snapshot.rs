//! Snapshots: an image written as the fewest records that add up to it.

use super::super::error::MetadataError;
use super::super::image::{BrokerImage, MetadataImage, TopicImage, Voting};
use super::super::records::{
    ClusterRecord, ControllerEpochRecord, CreateTopicRecord, FeatureLevelRecord, MetadataRecord,
    PartitionRecord, ProducerIdsRecord, RecordsBatch, SetVotingRecord, TopicConfig,
};
use super::frames::{FramesFile, Header};
use bytes::Bytes;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::{Reader, Writer};
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
        file.append_unsynced(&batch, image.record_version()).map_err(|failure| failure.error)?;
        base_offset += count;
    }
    file.commit_whole()?;
    file.take_name(storage, path)?;
    Ok(file.len())
}

/// A snapshot that was read.
pub struct Snapshot {
    /// What it adds up to.
    pub image: MetadataImage,
    /// How many bytes it takes.
    pub len: u64,
    /// Whether it has a format that is not written any more.
    pub is_legacy: bool,
}

/// Reads the image in `path`.
///
/// # Errors
/// Any byte of it is not what was written: a snapshot is never torn.
pub fn read(storage: &dyn Storage, path: &Path) -> Result<Snapshot, MetadataError> {
    let mut file = FramesFile::open(storage, path)?;
    let mut image = MetadataImage::default();
    file.replay(false, |_, batch| {
        image = image.with_batch(&batch)?;
        Ok(())
    })?;
    image.offset = file.header().offset - 1;
    image.epoch = file.header().epoch;
    Ok(Snapshot { image, len: file.len(), is_legacy: file.is_legacy() })
}

/// An image as bytes, for a quorum that keeps snapshots itself; its offset is kept elsewhere.
pub fn image_bytes(image: &MetadataImage) -> Vec<u8> {
    let mut records = records_of(image).peekable();
    let (mut writer, mut base_offset) = (Writer::new(), 0);
    writer.i32(image.epoch);
    while records.peek().is_some() {
        let records: Vec<_> = records.by_ref().take(RECORDS_PER_FRAME).collect();
        let count = records.len() as i64;
        let batch = RecordsBatch { base_offset, epoch: image.epoch, timestamp_ms: 0, records };
        writer.bytes(&batch.encode(image.record_version()), false);
        base_offset += count;
    }
    writer.into_bytes().to_vec()
}

/// The image that [`image_bytes`] made these bytes of, whose next record has offset `end`.
///
/// # Errors
/// The bytes are not those of an image.
pub fn image_of(end: i64, bytes: Bytes) -> Result<MetadataImage, String> {
    let mut reader = Reader::new(bytes);
    let epoch = reader.i32().map_err(|error| error.to_string())?;
    let mut image = MetadataImage::default();
    while reader.remaining() > 0 {
        let batch = reader.bytes(false).map_err(|error| error.to_string())?;
        let batch = RecordsBatch::decode(batch);
        let batch = batch.map_err(|(offset, error)| format!("record {offset}: {error:?}"))?;
        image = image.with_batch(&batch).map_err(|error| error.to_string())?;
    }
    image.offset = end - 1;
    image.epoch = epoch;
    Ok(image)
}

pub fn records_of(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> + '_ {
    let (controller_id, epoch) = (image.controller_id, image.epoch);
    let (broker_id, next_producer_id) = (-1, image.next_producer_id);
    let head = [
        MetadataRecord::Cluster(ClusterRecord { cluster_id: image.cluster_id.to_string() }),
        MetadataRecord::ControllerEpoch(ControllerEpochRecord { controller_id, epoch }),
        MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id, next_producer_id }),
    ];
    let brokers = image.brokers.values().map(registration);
    let voting = image.brokers.values().filter_map(voting);
    let features = image.features.iter().map(|(name, level)| {
        MetadataRecord::FeatureLevel(FeatureLevelRecord { name: name.clone(), level: *level })
    });
    let topics = image.topics.iter().map(|topic| creation(topic));
    let configs = image.configs.iter().flat_map(|(resource, configs)| {
        let set = |(name, value): (&String, &String)| {
            MetadataRecord::set_config(resource, name, Some(value))
        };
        configs.iter().map(set)
    });
    head.into_iter().chain(brokers).chain(voting).chain(features).chain(topics).chain(configs)
}

fn registration(broker: &BrokerImage) -> MetadataRecord {
    MetadataRecord::RegisterBroker(broker.record())
}

fn voting(broker: &BrokerImage) -> Option<MetadataRecord> {
    let said = broker.voting != Voting::IfNeeded;
    let (broker_id, quorum_dir) = (broker.id, broker.quorum_dir);
    let record = SetVotingRecord { broker_id, quorum_dir, voting: broker.voting.code() };
    said.then_some(MetadataRecord::SetVoting(record))
}

fn creation(topic: &TopicImage) -> MetadataRecord {
    let configs = topic.configs.iter();
    let configs =
        configs.map(|(name, value)| TopicConfig { name: name.clone(), value: value.clone() });
    MetadataRecord::CreateTopic(CreateTopicRecord {
        name: topic.name.to_string(),
        topic_id: topic.id,
        partitions: topic.partitions.iter().map(PartitionRecord::from).collect(),
        configs: configs.collect(),
    })
}
