#![allow(clippy::unwrap_used)]
use super::super::frames::{FramesFile, Header};
use super::super::*;
use super::*;
use crate::faulty_storage::{Fault, FaultyStorage};
use crate::metadata::ConfigResource;
use kafkalite_log::storage::RealStorage;
use std::fs;

/// The bytes of a batch as release 0.1 wrote them.
pub fn encode(batch: &RecordsBatch) -> Vec<u8> {
    let records = batch.records.iter().map(Record::from).collect();
    let RecordsBatch { base_offset, epoch, timestamp_ms, .. } = *batch;
    postcard::to_stdvec(&Batch { base_offset, epoch, timestamp_ms, records }).unwrap()
}

impl From<&MetadataRecord> for Record {
    fn from(record: &MetadataRecord) -> Self {
        let partitions = |all: &[PartitionRecord]| all.iter().map(Partition::from).collect();
        match record.clone() {
            MetadataRecord::Cluster(ClusterRecord { cluster_id }) => Self::Cluster { cluster_id },
            MetadataRecord::ControllerEpoch(ControllerEpochRecord { controller_id, epoch }) => {
                Self::ControllerEpoch { controller_id, epoch }
            }
            MetadataRecord::RegisterBroker(record) => {
                let listeners = record.listeners.into_iter();
                Self::RegisterBrokerFully {
                    broker_id: record.broker_id,
                    listeners: listeners
                        .map(|ListenerRecord { name, host, port }| Listener { name, host, port })
                        .collect(),
                    rack: record.rack,
                    epoch: (record.epoch >= 0).then_some(record.epoch),
                    log_dirs: record.log_dirs.into_iter().map(|id| id.0).collect(),
                }
            }
            MetadataRecord::RaiseLeaderEpochs(RaiseLeaderEpochsRecord { broker_id }) => {
                Self::RaiseLeaderEpochs { broker_id }
            }
            MetadataRecord::CreateTopic(record) => Self::CreateTopic {
                name: record.name,
                topic_id: record.topic_id.0,
                partitions: partitions(&record.partitions),
                configs: record.configs.into_iter().map(|one| (one.name, one.value)).collect(),
            },
            MetadataRecord::CreatePartitions(record) => Self::CreatePartitions {
                topic_id: record.topic_id.0,
                partitions: partitions(&record.partitions),
            },
            MetadataRecord::PartitionChange(record) => Self::PartitionChange {
                topic_id: record.topic_id.0,
                partition_index: record.partition_index,
                partition: Partition::from(&record.partition),
            },
            MetadataRecord::AssignReplicas(_)
            | MetadataRecord::UnregisterBroker(_)
            | MetadataRecord::SetVoting(_)
            | MetadataRecord::FenceBroker(_)
            | MetadataRecord::UnfenceBroker(_) => panic!("format 1 has no such record"),
            MetadataRecord::RemoveTopic(record) => {
                Self::RemoveTopic { topic_id: record.topic_id.0 }
            }
            MetadataRecord::SetConfig(record) => {
                let resource_type = match record.resource_type {
                    2 => ResourceType::Topic,
                    4 => ResourceType::Broker,
                    8 => ResourceType::BrokerLogger,
                    16 => ResourceType::ClientMetrics,
                    _ => ResourceType::Group,
                };
                let resource = Resource { resource_type, name: record.resource_name };
                Self::SetConfig { resource, name: record.name, value: record.value }
            }
            MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id, next_producer_id }) => {
                Self::ProducerIds { broker_id, next_producer_id }
            }
            MetadataRecord::FeatureLevel(FeatureLevelRecord { name, level }) => {
                Self::FeatureLevel { name, level }
            }
        }
    }
}

impl From<&PartitionRecord> for Partition {
    fn from(record: &PartitionRecord) -> Self {
        let record = record.clone();
        Self {
            replicas: record.replicas,
            isr: record.isr,
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            elr: record.elr,
            adding_replicas: record.adding_replicas,
            removing_replicas: record.removing_replicas,
        }
    }
}

fn open(dir: &Path) -> (MetadataLog, MetadataImage) {
    MetadataLog::open(Arc::new(RealStorage), dir).unwrap()
}

/// One record of each kind that a log of one broker holds, in an order that fits.
fn one_of_each() -> Vec<MetadataRecord> {
    let partition = PartitionRecord {
        leader: 1,
        replicas: vec![1, 2],
        isr: vec![1],
        elr: vec![2],
        adding_replicas: vec![2],
        ..PartitionRecord::default()
    };
    let listener =
        |name: &str, port| ListenerRecord { name: name.to_owned(), host: "h".to_owned(), port };
    let create = |name: &str, id: u8| {
        let configs = vec![TopicConfig { name: "k".to_owned(), value: "v".to_owned() }];
        let (name, topic_id) = (name.to_owned(), Uuid([id; 16]));
        let partitions = vec![partition.clone(); 2];
        MetadataRecord::CreateTopic(CreateTopicRecord { name, topic_id, partitions, configs })
    };
    let id = |id: u8| Uuid([id; 16]);
    vec![
        MetadataRecord::Cluster(ClusterRecord { cluster_id: "c".to_owned() }),
        MetadataRecord::ControllerEpoch(ControllerEpochRecord { controller_id: 1, epoch: 1 }),
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: 1,
            epoch: -1,
            rack: Some("r".to_owned()),
            listeners: vec![listener("A", 1), listener("B", 2)],
            log_dirs: vec![id(8), id(9)],
            ..RegisterBrokerRecord::default()
        }),
        create("kept", 1),
        create("gone", 2),
        MetadataRecord::RaiseLeaderEpochs(RaiseLeaderEpochsRecord { broker_id: 1 }),
        MetadataRecord::CreatePartitions(CreatePartitionsRecord {
            topic_id: id(1),
            partitions: vec![partition.clone()],
        }),
        MetadataRecord::PartitionChange(PartitionChangeRecord {
            topic_id: id(1),
            partition_index: 1,
            partition: PartitionRecord { leader_epoch: 7, ..partition },
        }),
        MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: id(2) }),
        MetadataRecord::set_config(&ConfigResource::topic("kept"), "a", Some("b")),
        MetadataRecord::set_config(&ConfigResource::broker(1), "a", Some("b")),
        MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: 1, next_producer_id: 5_000 }),
        MetadataRecord::FeatureLevel(FeatureLevelRecord { name: "f".to_owned(), level: 3 }),
    ]
}

fn batches() -> Vec<RecordsBatch> {
    let records = one_of_each().into_iter();
    let of = |(base_offset, record)| RecordsBatch {
        base_offset,
        epoch: 1,
        timestamp_ms: 77,
        records: vec![record],
    };
    (0..).zip(records).map(of).collect()
}

/// What release 0.1 left: `snapshot_at` of the batches in a snapshot, `torn` bytes of one more.
fn left(dir: &Path, snapshot_at: usize, torn: usize) -> MetadataImage {
    let (disk, batches) = (&RealStorage, batches());
    let mut image = MetadataImage::default();
    for batch in &batches[..snapshot_at] {
        image = image.with_batch(batch).unwrap();
    }
    let header = Header { offset: image.offset + 1, epoch: image.epoch };
    if snapshot_at > 0 {
        let name = format!("{:020}-{:010}.checkpoint", header.offset, header.epoch);
        let mut file = FramesFile::create_legacy(disk, &dir.join(name), header);
        let (base_offset, epoch) = (0, image.epoch);
        let records = snapshot::records_of(&image).collect();
        let batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
        assert!(file.append(&batch, 1).is_ok());
    }
    let path = dir.join(format!("{:020}.log", header.offset));
    let mut file = FramesFile::create_legacy(disk, &path, header);
    for batch in &batches[snapshot_at..] {
        image = image.with_batch(batch).unwrap();
        assert!(file.append(batch, 1).is_ok());
    }
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&b"\0\0\0\x09torn"[..torn]);
    fs::write(&path, bytes).unwrap();
    image
}

/// Names of the files, and whether each has today's format.
fn formats(dir: &Path) -> Vec<(String, bool)> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found: Vec<_> = names
        .map(|name| {
            let is_current = fs::read(dir.join(&name)).unwrap()[7] == 2;
            (name.into_string().unwrap(), is_current)
        })
        .collect();
    found.sort();
    found
}

const MIGRATED: [&str; 2] =
    ["00000000000000000013-0000000001.checkpoint", "00000000000000000013.log"];

#[test]
fn every_record_of_before_is_read_as_what_it_was() {
    for batch in batches() {
        assert_eq!(decode(&encode(&batch)).unwrap(), batch);
    }
}

#[test]
fn a_broker_registered_with_one_address_is_found_at_that_address() {
    let record = Record::RegisterBroker {
        broker_id: 1,
        host: "h".to_owned(),
        port: 9,
        rack: None,
        epoch: Some(4),
    };
    let records = vec![MetadataRecord::from(record)];
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    let image = MetadataImage::default().with_batch(&batch).unwrap();
    assert_eq!((image.brokers[&1].endpoint("ANY"), image.brokers[&1].epoch), (("h", 9), 4));
}

#[test]
fn a_directory_of_before_opens_with_its_image_and_keeps_no_file_of_before() {
    for (snapshot_at, torn) in [(0, 0), (5, 0), (5, 7), (13, 0), (13, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let expected = left(dir.path(), snapshot_at, torn);
        for _ in 0..2 {
            let (_, image) = open(dir.path());
            assert_eq!(image, expected, "snapshot at {snapshot_at}, torn {torn}");
            let current = MIGRATED.map(|name| (name.to_owned(), true));
            assert_eq!(formats(dir.path()), current, "snapshot at {snapshot_at}, torn {torn}");
        }
    }
}

#[test]
fn an_empty_log_of_before_opens_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{:020}.log", 0));
    FramesFile::create_legacy(&RealStorage, &path, Header { offset: 0, epoch: 0 });
    for _ in 0..2 {
        assert_eq!(open(dir.path()).1, MetadataImage::default());
        assert!(formats(dir.path()).into_iter().all(|(_, is_current)| is_current));
    }
}

/// A crash or a power cut interrupts the migration at each of its changes, and once more at the
/// same change of the next try.
#[test]
fn a_migration_that_is_interrupted_anywhere_loses_nothing() {
    for (snapshot_at, power) in [(0, false), (0, true), (5, false), (5, true), (13, true)] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let expected = left(dir.path(), snapshot_at, 4);
            let mut finished = false;
            for _ in 0..2 {
                let storage = FaultyStorage::default();
                storage.plan(at, Fault::Crash);
                finished = MetadataLog::open(Arc::new(storage.clone()), dir.path()).is_ok();
                if power {
                    storage.cut_power().unwrap();
                }
            }
            let context = format!("snapshot at {snapshot_at}, change {at}, power cut {power}");
            let (mut log, image) = open(dir.path());
            assert_eq!(image, expected, "{context}");
            let (base_offset, epoch) = (image.offset + 1, 1);
            let ids = ProducerIdsRecord { broker_id: 1, next_producer_id: 9_000 };
            let records = vec![MetadataRecord::ProducerIds(ids)];
            log.append(&RecordsBatch { base_offset, epoch, timestamp_ms: 0, records }, 1).unwrap();
            drop(log);
            assert_eq!(open(dir.path()).1.next_producer_id, 9_000, "{context}");
            let current = MIGRATED.map(|name| (name.to_owned(), true));
            assert_eq!(formats(dir.path()), current, "{context}");
            if finished {
                assert!(at > 8, "{context}: the faults reached the end of the migration");
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_fails_the_start_and_leaves_the_directory_as_it_was() {
    let enospc = 28;
    for at in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let expected = left(dir.path(), 5, 0);
        let storage = FaultyStorage::default();
        storage.plan(at, Fault::Fail(enospc));
        assert!(MetadataLog::open(Arc::new(storage), dir.path()).is_err(), "change {at}");
        assert_eq!(open(dir.path()).1, expected, "change {at}");
    }
}
