//! The records of the metadata log.
//!
//! Their fields, and what each field means in which version, stand in
//! `rust/protocol/schema/metadata_records.schema`. In the log a record is
//! `| type: u16 | version: i16 | fields |`, and the records of a batch are the byte arrays of one
//! `MetadataBatch`. Source: the roles of Kafka's metadata records (KIP-631); the bytes are our own.
//!
//! A type or a version that this release does not know is an error, never skipped: the image would
//! lack what the log says. Only unknown tagged fields may be overlooked.

use bytes::Bytes;
use kafkalite_protocol::messages::metadata_records::MetadataBatch;
use kafkalite_protocol::messages::{Versioned, Wire};
use kafkalite_protocol::{DecodeError, Reader, Writer};

pub use kafkalite_protocol::messages::metadata_records::{
    AssignReplicasRecord, AssignedTopic, ClusterRecord, ControllerEpochRecord,
    CreatePartitionsRecord, CreateTopicRecord, FeatureLevelRecord, FeatureRange, FenceBrokerRecord,
    ListenerRecord, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord,
    RaiseLeaderEpochsRecord, RegisterBrokerRecord, RemoveTopicRecord, SetConfigRecord,
    SetVotingRecord, TopicConfig, UnfenceBrokerRecord, UnregisterBrokerRecord,
};

/// What a dynamic config belongs to; the numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// A subscription of client metrics.
    pub fn client_metrics(name: &str) -> Self {
        Self { resource_type: ConfigResourceType::ClientMetrics, name: name.to_owned() }
    }

    /// The configs of every broker that has none of its own.
    pub const fn cluster() -> Self {
        Self { resource_type: ConfigResourceType::Broker, name: String::new() }
    }
}

/// Why the bytes of a record are not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// No record has this type number here.
    UnknownType(u16),
    /// A later release has changed the record.
    UnknownVersion {
        /// The record's type number.
        record_type: u16,
        /// The version that was found.
        version: i16,
        /// The newest one that is understood here.
        supported: i16,
    },
    /// The bytes are not those of a record.
    Unreadable(String),
}

impl From<DecodeError> for RecordError {
    fn from(error: DecodeError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The table of records: type number, name, fields, and the version at each level of
/// `kafkalite.record.version` that changed it. A number is never given to another record.
macro_rules! records {
    ($($(#[$doc:meta])* $number:literal $name:ident($body:ident)
        [$($level:literal => $version:literal),+],)*) => {
        /// One change of metadata.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord {
            $($(#[$doc])* $name($body),)*
        }

        impl MetadataRecord {
            /// Levels that changed the record, rising, and its version since then.
            const fn versions(&self) -> &'static [(i16, i16)] {
                match self {
                    $(Self::$name(_) => &[$(($level, $version)),+],)*
                }
            }

            /// The record as it stands in the log, in this version.
            fn encode(&self, version: i16) -> Bytes {
                match self {
                    $(Self::$name(body) => encode($number, version, body),)*
                }
            }

            fn decode(bytes: Bytes) -> Result<Self, RecordError> {
                let mut reader = Reader::of_record(bytes);
                match reader.u16()? {
                    $($number => decode(reader, $number).map(Self::$name),)*
                    unknown => Err(RecordError::UnknownType(unknown)),
                }
            }
        }
    };
}

records! {
    /// The cluster's id, 22 characters of URL-safe base64: the first record of every metadata log.
    1 Cluster(ClusterRecord) [1 => 0],
    /// A controller begins to lead; the records after this one are of its epoch.
    2 ControllerEpoch(ControllerEpochRecord) [1 => 0],
    /// A broker started, for the first time or again. It has at least one listener; the first is
    /// for clients of other listeners. The record has the ids of all log directories that the
    /// broker has or ever had, and the levels of features that it supports. Its epoch is the offset
    /// of this record; only snapshots, which renumber, spell it out.
    3 RegisterBroker(RegisterBrokerRecord) [1 => 0, 2 => 1],
    /// A broker started. The leader epoch of every partition it leads goes up by one, because one
    /// (epoch, offset) must never name two records, even across a crash. One record for all, or a
    /// start would cost one per partition.
    4 RaiseLeaderEpochs(RaiseLeaderEpochsRecord) [1 => 0],
    /// A new topic with its partitions, numbered from 0, and what was set of its configs.
    5 CreateTopic(CreateTopicRecord) [1 => 0],
    /// More partitions for a topic, numbered from the ones it has.
    6 CreatePartitions(CreatePartitionsRecord) [1 => 0],
    /// One partition's new state, all of it.
    7 PartitionChange(PartitionChangeRecord) [1 => 0],
    /// A topic, its partitions and its configs are gone.
    8 RemoveTopic(RemoveTopicRecord) [1 => 0],
    /// One config of a resource is set; without a value it goes back to the default.
    9 SetConfig(SetConfigRecord) [1 => 0],
    /// Producer ids below this one have been given out in blocks.
    10 ProducerIds(ProducerIdsRecord) [1 => 0],
    /// A feature is finalized at this level; 0 takes it away.
    11 FeatureLevel(FeatureLevelRecord) [1 => 0],
    /// Replicas of a broker are in this one of its log directories. One record for all of them, or
    /// a topic would cost one per partition.
    12 AssignReplicas(AssignReplicasRecord) [1 => 0],
    /// A broker left the cluster and does not come back.
    13 UnregisterBroker(UnregisterBrokerRecord) [1 => 0],
    /// A broker is not there, or stops: clients are not sent to it. Of another epoch than the
    /// broker's it does not fit, so a later life of the broker is never hit.
    14 FenceBroker(FenceBrokerRecord) [1 => 0],
    /// The broker serves again.
    15 UnfenceBroker(UnfenceBrokerRecord) [1 => 0],
    /// Whether a broker is to be a voter of the controller quorum, as an operator said. It is about
    /// one directory: it says nothing of the broker with another one.
    16 SetVoting(SetVotingRecord) [1 => 0],
}

fn encode<R: Versioned>(record_type: u16, version: i16, body: &R) -> Bytes {
    let mut writer = Writer::new();
    writer.u16(record_type);
    writer.i16(version);
    body.encode(&mut writer, version);
    writer.into_bytes()
}

fn decode<R: Versioned>(mut reader: Reader, record_type: u16) -> Result<R, RecordError> {
    let version = reader.i16()?;
    if !R::VERSIONS.contains(version) {
        let supported = R::VERSIONS.max;
        return Err(RecordError::UnknownVersion { record_type, version, supported });
    }
    let body = R::decode(&mut reader, version)?;
    match reader.remaining() {
        0 => Ok(body),
        more => Err(RecordError::Unreadable(format!("{more} bytes follow a record"))),
    }
}

impl MetadataRecord {
    /// The version in which the record is written at a level of `kafkalite.record.version`; `None`
    /// where the level has no such records.
    pub fn version_at(&self, level: i16) -> Option<i16> {
        let known = self.versions().iter().rev().find(|(since, _)| *since <= level);
        known.map(|(_, version)| *version)
    }

    /// The record that sets a config of `resource`, or with `None` takes it away.
    pub fn set_config(resource: &ConfigResource, name: &str, value: Option<&str>) -> Self {
        Self::SetConfig(SetConfigRecord {
            resource_type: resource.resource_type.code(),
            resource_name: resource.name.clone(),
            name: name.to_owned(),
            value: value.map(str::to_owned),
        })
    }
}

/// Records that count together or not at all.
#[derive(Clone, Debug, PartialEq)]
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

impl RecordsBatch {
    /// The offset of the last record; one before the first where there is none.
    pub fn last_offset(&self) -> i64 {
        self.base_offset + self.records.len() as i64 - 1
    }

    /// The batch as it stands in a log at this level of `kafkalite.record.version`.
    pub fn encode(&self, level: i16) -> Bytes {
        let encoded = |record: &MetadataRecord| {
            // What the level has not is refused before it comes here.
            let version = record.version_at(level).unwrap_or(record.versions()[0].1);
            record.encode(version)
        };
        let batch = MetadataBatch {
            base_offset: self.base_offset,
            epoch: self.epoch,
            timestamp_ms: self.timestamp_ms,
            records: self.records.iter().map(encoded).collect(),
        };
        let mut writer = Writer::new();
        batch.encode(&mut writer, 0);
        writer.into_bytes()
    }

    /// The batch that these bytes are.
    ///
    /// # Errors
    /// The offset of the record that is not understood, and why; the first one's, if it is the
    /// batch itself.
    pub fn decode(bytes: Bytes) -> Result<Self, (i64, RecordError)> {
        let mut reader = Reader::of_record(bytes);
        let batch: MetadataBatch =
            MetadataBatch::decode(&mut reader, 0).map_err(|e| (-1, e.into()))?;
        let base_offset = batch.base_offset;
        if reader.remaining() > 0 {
            let reason = format!("{} bytes follow a batch", reader.remaining());
            return Err((base_offset, RecordError::Unreadable(reason)));
        }
        let records = (base_offset..).zip(batch.records);
        let records = records
            .map(|(offset, bytes)| MetadataRecord::decode(bytes).map_err(|error| (offset, error)))
            .collect::<Result<_, _>>()?;
        let (epoch, timestamp_ms) = (batch.epoch, batch.timestamp_ms);
        Ok(Self { base_offset, epoch, timestamp_ms, records })
    }
}

#[cfg(test)]
mod tests;
