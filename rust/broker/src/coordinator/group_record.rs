//! The records of `__consumer_offsets`, in Kafka's bytes.
//!
//! ```text
//! key   i16 kind (0, 1: an offset; 2: a group), then the key of that kind
//! value i16 version, then the value in that version; null is a tombstone
//! ```
//! Kinds from 3 on belong to other group protocols. They are left where they are.
//! Source: Kafka's `GroupCoordinatorRecordSerde` and `GroupCoordinatorRecordHelpers`.

use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::group_records::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use kafkalite_protocol::messages::{Versioned, Wire};
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{DecodeError, ErrorCode, LeaderEpoch, Offset, Reader, Writer};

const OFFSET_KIND: i16 = 1;
const GROUP_KIND: i16 = 2;
/// The version that Kafka 4.3 writes.
const GROUP_VALUE_VERSION: i16 = 3;
/// The same, for offsets; it has no room for a time of its own to expire.
const OFFSET_VALUE_VERSION: i16 = 4;
/// The one version that has.
const EXPIRING_OFFSET_VALUE_VERSION: i16 = 1;

/// A key and a value as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Kind and key.
    pub key: Bytes,
    /// Version and value; `None` is a tombstone.
    pub value: Option<Bytes>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    /// An offset was committed, or with `None` removed.
    Offset(OffsetCommitKey, Option<OffsetCommitValue>),
    /// A group changed, or with `None` went away.
    Group(String, Option<GroupMetadataValue>),
    /// Something of another protocol.
    Foreign,
}

fn versioned(version: i16, write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(version);
    write(&mut writer);
    writer.into_bytes()
}

/// A committed offset, or its tombstone.
pub fn offset_record(
    group: &str,
    topic: &str,
    partition: i32,
    value: Option<&OffsetCommitValue>,
) -> StoredRecord {
    let key = OffsetCommitKey { group: group.to_owned(), topic: topic.to_owned(), partition };
    let value = value.map(|value| {
        let version = match value.expire_timestamp {
            -1 => OFFSET_VALUE_VERSION,
            _ => EXPIRING_OFFSET_VALUE_VERSION,
        };
        versioned(version, |writer| value.encode(writer, version))
    });
    StoredRecord { key: versioned(OFFSET_KIND, |writer| key.encode(writer, 0)), value }
}

/// A group, or its tombstone.
pub fn group_record(group: &str, value: Option<&GroupMetadataValue>) -> StoredRecord {
    let key = GroupMetadataKey { group: group.to_owned() };
    let version = GROUP_VALUE_VERSION;
    StoredRecord {
        key: versioned(GROUP_KIND, |writer| key.encode(writer, 0)),
        value: value.map(|value| versioned(version, |writer| value.encode(writer, version))),
    }
}

/// One batch of `records`, to be appended.
///
/// # Errors
/// UNKNOWN_SERVER_ERROR if it cannot be built, which uncompressed batches always can.
pub fn batch(
    records: &[StoredRecord],
    codec: Codec,
    timestamp_ms: i64,
) -> Result<Bytes, ErrorCode> {
    let mut builder = RecordBatchBuilder::new(codec);
    for record in records {
        builder.append(timestamp_ms, Some(&record.key), record.value.as_deref(), &[]);
    }
    builder.build(Offset(0), LeaderEpoch::UNKNOWN).map_err(|_| ErrorCode::UnknownServerError)
}

/// Reads a stored record.
///
/// # Errors
/// It is of a kind that we know and does not parse.
pub fn parse(key: &[u8], value: Option<&[u8]>) -> Result<GroupRecord, DecodeError> {
    let mut reader = Reader::new(Bytes::copy_from_slice(key));
    match reader.i16()? {
        0 | OFFSET_KIND => {
            let key = OffsetCommitKey::decode(&mut reader, 0)?;
            match parse_value::<OffsetCommitValue>(value)? {
                Parsed::Unknown => Ok(GroupRecord::Foreign),
                Parsed::Null => Ok(GroupRecord::Offset(key, None)),
                Parsed::Value(value) => Ok(GroupRecord::Offset(key, Some(value))),
            }
        }
        GROUP_KIND => {
            let key = GroupMetadataKey::decode(&mut reader, 0)?;
            match parse_value::<GroupMetadataValue>(value)? {
                Parsed::Unknown => Ok(GroupRecord::Foreign),
                Parsed::Null => Ok(GroupRecord::Group(key.group, None)),
                Parsed::Value(value) => Ok(GroupRecord::Group(key.group, Some(value))),
            }
        }
        _ => Ok(GroupRecord::Foreign),
    }
}

enum Parsed<V> {
    Null,
    Value(V),
    /// A version from the future.
    Unknown,
}

fn parse_value<V: Versioned>(value: Option<&[u8]>) -> Result<Parsed<V>, DecodeError> {
    let Some(value) = value else { return Ok(Parsed::Null) };
    let mut reader = Reader::new(Bytes::copy_from_slice(value));
    let version = reader.i16()?;
    if V::VERSIONS.contains(version) {
        V::decode(&mut reader, version).map(Parsed::Value)
    } else {
        Ok(Parsed::Unknown)
    }
}

#[cfg(test)]
mod tests;
