//! The records of `__consumer_offsets`, in Kafka's bytes.
//!
//! ```text
//! key   i16 kind (0, 1: an offset; 2: a group), then the key of that kind
//! value i16 version, then the value in that version; null is a tombstone
//! ```
//! Kinds from 3 on belong to other group protocols. They are left where they are.
//! Source: Kafka's `GroupCoordinatorRecordSerde` and `GroupCoordinatorRecordHelpers`.

use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::messages::group_records::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use kafkalite_protocol::messages::{Versioned, Wire};
use kafkalite_protocol::{DecodeError, Reader, Writer};

use super::runtime::StoredRecord;

const OFFSET_KIND: i16 = 1;
const GROUP_KIND: i16 = 2;
/// The version that Kafka 4.3 writes.
const GROUP_VALUE_VERSION: i16 = 3;
/// The same, for offsets; it has no room for a time of its own to expire.
const OFFSET_VALUE_VERSION: i16 = 4;
/// The one version that has.
const EXPIRING_OFFSET_VALUE_VERSION: i16 = 1;

/// Whose offset in which partition. A request may make very many of them: they share their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetKey {
    /// The group's id.
    pub group: Arc<str>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// Partition of the topic.
    pub partition: i32,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    /// An offset was committed, or with `None` removed.
    Offset(OffsetKey, Option<OffsetCommitValue>),
    /// A group changed, or with `None` went away.
    Group(String, Option<GroupMetadataValue>),
}

fn versioned(version: i16, write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(version);
    write(&mut writer);
    writer.into_bytes()
}

/// A record in Kafka's bytes.
pub fn stored(record: &GroupRecord) -> StoredRecord {
    match record {
        GroupRecord::Offset(key, value) => {
            let value = value.as_ref().map(|value| {
                let version = match value.expire_timestamp {
                    -1 => OFFSET_VALUE_VERSION,
                    _ => EXPIRING_OFFSET_VALUE_VERSION,
                };
                versioned(version, |writer| value.encode(writer, version))
            });
            let OffsetKey { group, topic, partition } = key;
            let (group, topic, partition) = (group.to_string(), topic.to_string(), *partition);
            let key = OffsetCommitKey { group, topic, partition };
            StoredRecord { key: versioned(OFFSET_KIND, |writer| key.encode(writer, 0)), value }
        }
        GroupRecord::Group(group, value) => {
            let key = GroupMetadataKey { group: group.clone() };
            let version = GROUP_VALUE_VERSION;
            let encode = |value: &GroupMetadataValue| {
                versioned(version, |writer| value.encode(writer, version))
            };
            StoredRecord {
                key: versioned(GROUP_KIND, |writer| key.encode(writer, 0)),
                value: value.as_ref().map(encode),
            }
        }
    }
}

/// Reads a stored record; `None` if it is something of another protocol.
///
/// # Errors
/// It is of a kind that we know and does not parse.
pub fn parse(key: &[u8], value: Option<&[u8]>) -> Result<Option<GroupRecord>, DecodeError> {
    let mut reader = Reader::new(Bytes::copy_from_slice(key));
    match reader.i16()? {
        0 | OFFSET_KIND => {
            let OffsetCommitKey { group, topic, partition } =
                OffsetCommitKey::decode(&mut reader, 0)?;
            let key = OffsetKey { group: group.into(), topic: topic.into(), partition };
            match parse_value::<OffsetCommitValue>(value)? {
                Parsed::Unknown => Ok(None),
                Parsed::Null => Ok(Some(GroupRecord::Offset(key, None))),
                Parsed::Value(value) => Ok(Some(GroupRecord::Offset(key, Some(value)))),
            }
        }
        GROUP_KIND => {
            let key = GroupMetadataKey::decode(&mut reader, 0)?;
            match parse_value::<GroupMetadataValue>(value)? {
                Parsed::Unknown => Ok(None),
                Parsed::Null => Ok(Some(GroupRecord::Group(key.group, None))),
                Parsed::Value(value) => Ok(Some(GroupRecord::Group(key.group, Some(value)))),
            }
        }
        _ => Ok(None),
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
