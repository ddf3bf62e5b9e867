//! Batches of format 1, the one of release 0.1: read once, when a data directory of then is opened.
//!
//! They were written with postcard, which knows neither names nor versions: the order of variants
//! and fields is the format. Nothing here may change, and nothing else reads these bytes.

use crate::metadata::records::{
    ClusterRecord, ControllerEpochRecord, CreatePartitionsRecord, CreateTopicRecord,
    FeatureLevelRecord, ListenerRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord,
    ProducerIdsRecord, RaiseLeaderEpochsRecord, RecordsBatch, RegisterBrokerRecord,
    RemoveTopicRecord, SetConfigRecord, TopicConfig,
};
use kafkalite_protocol::Uuid;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The number of the format in a file's header.
pub const FORMAT: u8 = 1;

/// The name of the only listener in registrations that did not list all.
const FIRST_LISTENER: &str = "PLAINTEXT";

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum ResourceType {
    Topic,
    Broker,
    BrokerLogger,
    ClientMetrics,
    Group,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct Resource {
    resource_type: ResourceType,
    name: String,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct Partition {
    replicas: Vec<i32>,
    isr: Vec<i32>,
    leader: i32,
    leader_epoch: i32,
    partition_epoch: i32,
    elr: Vec<i32>,
    adding_replicas: Vec<i32>,
    removing_replicas: Vec<i32>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct Listener {
    name: String,
    host: String,
    port: u16,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum Record {
    Cluster {
        cluster_id: String,
    },
    ControllerEpoch {
        controller_id: i32,
        epoch: i32,
    },
    RegisterBroker {
        broker_id: i32,
        host: String,
        port: u16,
        rack: Option<String>,
        epoch: Option<i64>,
    },
    RaiseLeaderEpochs {
        broker_id: i32,
    },
    CreateTopic {
        name: String,
        topic_id: [u8; 16],
        partitions: Vec<Partition>,
        configs: BTreeMap<String, String>,
    },
    CreatePartitions {
        topic_id: [u8; 16],
        partitions: Vec<Partition>,
    },
    PartitionChange {
        topic_id: [u8; 16],
        partition_index: i32,
        partition: Partition,
    },
    RemoveTopic {
        topic_id: [u8; 16],
    },
    SetConfig {
        resource: Resource,
        name: String,
        value: Option<String>,
    },
    ProducerIds {
        broker_id: i32,
        next_producer_id: i64,
    },
    FeatureLevel {
        name: String,
        level: i16,
    },
    RegisterBrokerFully {
        broker_id: i32,
        listeners: Vec<Listener>,
        rack: Option<String>,
        epoch: Option<i64>,
        log_dirs: Vec<[u8; 16]>,
    },
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct Batch {
    base_offset: i64,
    epoch: i32,
    timestamp_ms: i64,
    records: Vec<Record>,
}

/// The batch that these bytes are, in today's records.
///
/// # Errors
/// They are not a batch of this format.
pub fn decode(payload: &[u8]) -> Result<RecordsBatch, String> {
    let batch: Batch = postcard::from_bytes(payload).map_err(|error| error.to_string())?;
    let Batch { base_offset, epoch, timestamp_ms, records } = batch;
    let records = records.into_iter().map(MetadataRecord::from).collect();
    Ok(RecordsBatch { base_offset, epoch, timestamp_ms, records })
}

impl From<Record> for MetadataRecord {
    fn from(record: Record) -> Self {
        match record {
            Record::Cluster { cluster_id } => Self::Cluster(ClusterRecord { cluster_id }),
            Record::ControllerEpoch { controller_id, epoch } => {
                Self::ControllerEpoch(ControllerEpochRecord { controller_id, epoch })
            }
            Record::RegisterBroker { broker_id, host, port, rack, epoch } => {
                let listener = Listener { name: FIRST_LISTENER.to_owned(), host, port };
                registration(broker_id, vec![listener], rack, epoch, vec![])
            }
            Record::RegisterBrokerFully { broker_id, listeners, rack, epoch, log_dirs } => {
                registration(broker_id, listeners, rack, epoch, log_dirs)
            }
            Record::RaiseLeaderEpochs { broker_id } => {
                Self::RaiseLeaderEpochs(RaiseLeaderEpochsRecord { broker_id })
            }
            Record::CreateTopic { name, topic_id, partitions, configs } => {
                let configs = configs.into_iter().map(|(name, value)| TopicConfig { name, value });
                Self::CreateTopic(CreateTopicRecord {
                    name,
                    topic_id: Uuid(topic_id),
                    partitions: partitions.into_iter().map(PartitionRecord::from).collect(),
                    configs: configs.collect(),
                })
            }
            Record::CreatePartitions { topic_id, partitions } => {
                let partitions = partitions.into_iter().map(PartitionRecord::from).collect();
                let topic_id = Uuid(topic_id);
                Self::CreatePartitions(CreatePartitionsRecord { topic_id, partitions })
            }
            Record::PartitionChange { topic_id, partition_index, partition } => {
                let (topic_id, partition) = (Uuid(topic_id), partition.into());
                let change = PartitionChangeRecord { topic_id, partition_index, partition };
                Self::PartitionChange(change)
            }
            Record::RemoveTopic { topic_id } => {
                Self::RemoveTopic(RemoveTopicRecord { topic_id: Uuid(topic_id) })
            }
            Record::SetConfig { resource, name, value } => Self::SetConfig(SetConfigRecord {
                resource_type: resource.resource_type.code(),
                resource_name: resource.name,
                name,
                value,
            }),
            Record::ProducerIds { broker_id, next_producer_id } => {
                Self::ProducerIds(ProducerIdsRecord { broker_id, next_producer_id })
            }
            Record::FeatureLevel { name, level } => {
                Self::FeatureLevel(FeatureLevelRecord { name, level })
            }
        }
    }
}

fn registration(
    broker_id: i32,
    listeners: Vec<Listener>,
    rack: Option<String>,
    epoch: Option<i64>,
    log_dirs: Vec<[u8; 16]>,
) -> MetadataRecord {
    let listeners = listeners.into_iter();
    let listeners =
        listeners.map(|Listener { name, host, port }| ListenerRecord { name, host, port });
    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id,
        epoch: epoch.unwrap_or(-1),
        rack,
        listeners: listeners.collect(),
        log_dirs: log_dirs.into_iter().map(Uuid).collect(),
        ..RegisterBrokerRecord::default()
    })
}

impl ResourceType {
    /// The number on the wire.
    const fn code(&self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
            Self::BrokerLogger => 8,
            Self::ClientMetrics => 16,
            Self::Group => 32,
        }
    }
}

impl From<Partition> for PartitionRecord {
    /// Which directory holds a replica was not written down then.
    fn from(partition: Partition) -> Self {
        Self {
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            replicas: partition.replicas,
            isr: partition.isr,
            directories: Vec::new(),
            elr: partition.elr,
            adding_replicas: partition.adding_replicas,
            removing_replicas: partition.removing_replicas,
            last_leader: -1,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
