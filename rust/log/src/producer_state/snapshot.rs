//! Producer state in a file, so that a restart need not read the whole log.
//!
//! `OFFSET.snapshot` holds the state before the record at OFFSET. Big-endian:
//! ```text
//! version i16 (1) | CRC-32C u32 of all that follows | count i32 | entries of 46 bytes:
//! producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32
//! | timestamp i64 | coordinator epoch i32 | current transaction's first offset i64 (-1: none)
//! ```
//! A producer has an entry for each batch that is known of it, the newest one last. Kafka writes
//! only the newest one, and of several entries keeps the last. So after a restart Kafka refuses all
//! except one of the batches that a client sends again.
//! Source: Kafka's `ProducerStateManager`, schema `ProducerSnapshot`.

use std::collections::{HashMap, VecDeque};

use kafkalite_protocol::record_batch::{NO_SEQUENCE, crc32c};
use kafkalite_protocol::types::Offset;

use super::{BATCHES_KEPT, BatchMetadata, ProducerEntry, ProducerState};

const VERSION: i16 = 1;
/// Bytes before the entries.
pub(crate) const HEAD_LENGTH: usize = 10;
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

/// How long a snapshot is that begins with `head`; `None` if none does.
pub(crate) fn length(head: [u8; HEAD_LENGTH]) -> Option<u64> {
    let mut fields = Fields(&head);
    let version = i16::from_be_bytes(fields.take()?);
    let _crc: [u8; 4] = fields.take()?;
    let count = u64::try_from(i32::from_be_bytes(fields.take()?)).ok()?;
    (version == VERSION).then_some(HEAD_LENGTH as u64 + count * ENTRY_LENGTH as u64)
}

impl ProducerState {
    /// The snapshot's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = self.producers.values().map(|entry| entry.batches.len().max(1));
        let count: usize = entries.sum();
        let mut out = Vec::with_capacity(HEAD_LENGTH + count * ENTRY_LENGTH);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(count as i32).to_be_bytes());
        for (id, entry) in &self.producers {
            let older = entry.batches.len().saturating_sub(1);
            for batch in entry.batches.iter().take(older) {
                encode_entry(&mut out, *id, entry, Some(batch), batch.timestamp_ms);
            }
            encode_entry(&mut out, *id, entry, entry.batches.back(), entry.last_timestamp_ms);
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
            let entry = match producers.remove(&id) {
                Some(older) => behind(older, entry),
                None => entry,
            };
            producers.insert(id, entry);
        }
        Some(Self { producers })
    }
}

fn encode_entry(
    out: &mut Vec<u8>,
    id: i64,
    entry: &ProducerEntry,
    batch: Option<&BatchMetadata>,
    timestamp_ms: i64,
) {
    let last_sequence = batch.map_or(NO_SEQUENCE, |batch| batch.last_sequence);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&entry.epoch.to_be_bytes());
    out.extend_from_slice(&last_sequence.to_be_bytes());
    out.extend_from_slice(&batch.map_or(-1, |batch| batch.last_offset.0).to_be_bytes());
    out.extend_from_slice(&batch.map_or(0, |batch| batch.offset_delta).to_be_bytes());
    out.extend_from_slice(&timestamp_ms.to_be_bytes());
    out.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
    let first = entry.current_txn_first_offset.map_or(-1, |offset| offset.0);
    out.extend_from_slice(&first.to_be_bytes());
}

/// `newer` with the batches before it that an older entry of the producer has.
fn behind(older: ProducerEntry, mut newer: ProducerEntry) -> ProducerEntry {
    let first = newer.batches.front().map(|batch| batch.last_offset);
    let is_before = |batch: &BatchMetadata| first.is_some_and(|first| batch.last_offset < first);
    if older.epoch == newer.epoch && older.batches.iter().all(is_before) {
        for batch in older.batches.into_iter().rev().take(BATCHES_KEPT - newer.batches.len()) {
            newer.batches.push_front(batch);
        }
    }
    newer
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
