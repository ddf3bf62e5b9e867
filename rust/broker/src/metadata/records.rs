//! The records of the metadata log.
//!
//! They are written with postcard, which knows neither names nor versions. So a record that is on
//! somebody's disk never changes: a new form is a new variant, appended at the end.
//! Source: the roles of Kafka's metadata records (KIP-631); the bytes are our own.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a dynamic config belongs to; the numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConfigResourceType {
    /// A topic, by name.
    Topic,
    /// A broker by id; the empty name is the default of the whole cluster.
    Broker,
    /// The levels of a broker's loggers, by broker id.
    BrokerLogger,
    /// A client metrics subscription, by name.
    ClientMetrics,
    /// A group, by id.
    Group,
}

impl ConfigResourceType {
    /// The number on the wire.
    pub const fn code(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
            Self::BrokerLogger => 8,
            Self::ClientMetrics => 16,
            Self::Group => 32,
        }
    }

    /// The type with this number on the wire.
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            8 => Some(Self::BrokerLogger),
            16 => Some(Self::ClientMetrics),
            32 => Some(Self::Group),
            _ => None,
        }
    }
}

/// Whose configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConfigResource {
    /// What kind of thing.
    pub resource_type: ConfigResourceType,
    /// Which one.
    pub name: String,
}

impl ConfigResource {
    /// A topic's configs.
    pub fn topic(name: &str) -> Self {
        Self { resource_type: ConfigResourceType::Topic, name: name.to_owned() }
    }

    /// A broker's configs.
    pub fn broker(id: i32) -> Self {
        Self { resource_type: ConfigResourceType::Broker, name: id.to_string() }
    }

    /// The configs of every broker that has none of its own.
    pub const fn cluster() -> Self {
        Self { resource_type: ConfigResourceType::Broker, name: String::new() }
    }
}

/// Who leads and who follows a partition, as it is when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRecord {
    /// Broker ids; the first is the preferred leader.
    pub replicas: Vec<i32>,
    /// The in-sync ones among them.
    pub isr: Vec<i32>,
    /// The leader's broker id; -1 is none.
    pub leader: i32,
    /// The leader's reign.
    pub leader_epoch: i32,
    /// Raised at each change of the partition.
    pub partition_epoch: i32,
    /// Replicas outside the ISR that may still lead (KIP-966).
    pub elr: Vec<i32>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Vec<i32>,
    /// Replicas that a reassignment removes.
    pub removing_replicas: Vec<i32>,
}

/// Where clients of one listener find a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerRecord {
    /// `PLAINTEXT` for instance.
    pub name: String,
    /// The host told to clients.
    pub host: String,
    /// The port told to clients.
    pub port: u16,
}

/// One change of metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataRecord {
    /// The cluster's id: the first record of every metadata log.
    Cluster {
        /// 22 characters of URL-safe base64.
        cluster_id: String,
    },
    /// A controller begins to lead; the records after this one are of its epoch.
    ControllerEpoch {
        /// The controller's broker id.
        controller_id: i32,
        /// Its epoch.
        epoch: i32,
    },
    /// A broker is there, or is there again. Not written any more: `RegisterBrokerFully` is.
    RegisterBroker {
        /// `broker.id`.
        broker_id: i32,
        /// The host told to clients.
        host: String,
        /// The port told to clients.
        port: u16,
        /// `broker.rack`.
        rack: Option<String>,
        /// Its epoch; `None` is the offset of this record. Only snapshots, which renumber nothing,
        /// spell it out.
        epoch: Option<i64>,
    },
    /// A broker started: the leader epoch of every partition it leads goes up by one, because
    /// across a crash one (epoch, offset) must never name two records. One record for all, or a
    /// start would cost one per partition.
    RaiseLeaderEpochs {
        /// The broker that leads them.
        broker_id: i32,
    },
    /// A new topic with its partitions, numbered from 0, and its configs.
    CreateTopic {
        /// 1 to 249 characters.
        name: String,
        /// Drawn by the controller's shell.
        topic_id: [u8; 16],
        /// Partition 0, 1, ...
        partitions: Vec<PartitionRecord>,
        /// What was set; defaults are not written.
        configs: BTreeMap<String, String>,
    },
    /// More partitions for a topic, numbered from the ones it has.
    CreatePartitions {
        /// The topic.
        topic_id: [u8; 16],
        /// The new ones.
        partitions: Vec<PartitionRecord>,
    },
    /// One partition's new state.
    PartitionChange {
        /// The topic.
        topic_id: [u8; 16],
        /// The partition's number.
        partition_index: i32,
        /// All of its state.
        partition: PartitionRecord,
    },
    /// A topic, its partitions and its configs are gone.
    RemoveTopic {
        /// The topic.
        topic_id: [u8; 16],
    },
    /// One config of a resource is set, or taken away.
    SetConfig {
        /// Whose.
        resource: ConfigResource,
        /// The key, with dots.
        name: String,
        /// The new value; `None` goes back to the default.
        value: Option<String>,
    },
    /// Producer ids below this one have been given out in blocks.
    ProducerIds {
        /// The broker that got the block.
        broker_id: i32,
        /// The first id that is still free.
        next_producer_id: i64,
    },
    /// A feature is finalized at this level; 0 takes it away.
    FeatureLevel {
        /// As in `metadata.version`.
        name: String,
        /// The level.
        level: i16,
    },
    /// A broker is there, or is there again: at these addresses, with these log directories.
    RegisterBrokerFully {
        /// `broker.id`.
        broker_id: i32,
        /// One at least; the first one's clients are those that came in elsewhere.
        listeners: Vec<ListenerRecord>,
        /// `broker.rack`.
        rack: Option<String>,
        /// As in `RegisterBroker`.
        epoch: Option<i64>,
        /// The ids of all log directories that it has, or ever had.
        log_dirs: Vec<[u8; 16]>,
    },
}

/// Records that count together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsBatch {
    /// The offset of the first record; the others follow without a gap.
    pub base_offset: i64,
    /// The epoch of the controller that wrote them.
    pub epoch: i32,
    /// When they were written, in ms since 1970.
    pub timestamp_ms: i64,
    /// The records.
    pub records: Vec<MetadataRecord>,
}
