//! Producer state in a file, so that a restart need not read the whole log.
//!
//! `OFFSET.snapshot` holds the state before the record at OFFSET. Big-endian:
//! ```text
//! version i16 (1) | CRC-32C u32 of all that follows | count i32 | entries of 46 bytes:
//! producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32
//! | timestamp i64 | coordinator epoch i32 | current transaction's first offset i64 (-1: none)
//! ```
//! Only the last batch of each producer is kept. Source: Kafka's `ProducerStateManager`, schema
//! `ProducerSnapshot`.

use std::collections::{HashMap, VecDeque};

use kafkalite_protocol::record_batch::{NO_SEQUENCE, crc32c};
use kafkalite_protocol::types::Offset;

use super::{BatchMetadata, ProducerEntry, ProducerState};

const VERSION: i16 = 1;
const HEAD_LENGTH: usize = 10;
const CRC_END: usize = 6;
const ENTRY_LENGTH: usize = 46;

/// Takes big-endian integers off the front of a slice that was checked to be long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}

impl ProducerState {
    /// The snapshot's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LENGTH + self.producers.len() * ENTRY_LENGTH);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.producers.len() as i32).to_be_bytes());
        for (id, entry) in &self.producers {
            let last = entry.batches.back();
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&entry.epoch.to_be_bytes());
            out.extend_from_slice(&entry.last_sequence().to_be_bytes());
            out.extend_from_slice(&last.map_or(-1, |batch| batch.last_offset.0).to_be_bytes());
            out.extend_from_slice(&last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
            out.extend_from_slice(&entry.last_timestamp_ms.to_be_bytes());
            out.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
            let first = entry.current_txn_first_offset.map_or(-1, |offset| offset.0);
            out.extend_from_slice(&first.to_be_bytes());
        }
        let crc = crc32c(&out[CRC_END..]);
        out[2..CRC_END].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a snapshot; `None` if it is not one, or not whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let version = i16::from_be_bytes(fields.take()?);
        let crc = u32::from_be_bytes(fields.take()?);
        if version != VERSION || crc32c(fields.0) != crc {
            return None;
        }
        let count = usize::try_from(i32::from_be_bytes(fields.take()?)).ok()?;
        // The bytes that are there bound what is allocated, whatever the count says.
        if fields.0.len() != count.checked_mul(ENTRY_LENGTH)? {
            return None;
        }
        let mut producers = HashMap::with_capacity(count);
        for _ in 0..count {
            let (id, entry) = decode_entry(&mut fields)?;
            producers.insert(id, entry);
        }
        Some(Self { producers })
    }
}

fn decode_entry(fields: &mut Fields<'_>) -> Option<(i64, ProducerEntry)> {
    let id = i64::from_be_bytes(fields.take()?);
    let epoch = i16::from_be_bytes(fields.take()?);
    let last_sequence = i32::from_be_bytes(fields.take()?);
    let last_offset = Offset(i64::from_be_bytes(fields.take()?));
    let offset_delta = i32::from_be_bytes(fields.take()?);
    let timestamp_ms = i64::from_be_bytes(fields.take()?);
    let coordinator_epoch = i32::from_be_bytes(fields.take()?);
    let first = i64::from_be_bytes(fields.take()?);
    let batch = BatchMetadata { last_sequence, last_offset, offset_delta, timestamp_ms };
    // An entry that only a marker made has no batch.
    let known = last_sequence != NO_SEQUENCE && last_offset.0 >= 0;
    let batches = if known { VecDeque::from([batch]) } else { VecDeque::new() };
    let entry = ProducerEntry {
        epoch,
        coordinator_epoch,
        last_timestamp_ms: timestamp_ms,
        current_txn_first_offset: (first >= 0).then_some(Offset(first)),
        batches,
    };
    Some((id, entry))
}
