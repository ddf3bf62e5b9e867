//! Brings groups back: reads `__consumer_offsets` from the first to the last record.
//!
//! The last record of a key counts. Groups of a partition appear all at once, after its last
//! record; until then nothing of it is answered and nothing expires. Offsets of topics that were
//! deleted go, also if a crash left no tombstone of them.
//! Source: Kafka's `CoordinatorLoaderImpl` and `GroupMetadataManager.onLoaded`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::messages::group_records::GroupMetadataValue;
use kafkalite_protocol::record_batch::{BatchHeader, Batches, Records};
use kafkalite_protocol::{ErrorCode, Offset};
use parking_lot::MutexGuard;

use super::commits::remove_offsets;
use super::group::Group;
use super::group_coordinator::{GroupCoordinator, Load};
use super::group_record::{GroupRecord, parse};
use super::group_state::GroupState;
use super::offsets::GroupOffsets;
use crate::error::panics;

/// The most a batch of the coordinator may decompress to, in bytes.
const BATCH_CAP: usize = 128 << 20;

/// What the records read so far say.
#[derive(Default)]
struct Replay {
    groups: BTreeMap<String, GroupMetadataValue>,
    offsets: BTreeMap<String, GroupOffsets>,
    /// Producer id -> records of its transaction, which a marker may still take back.
    open: HashMap<i64, Vec<(Offset, Bytes, Option<Bytes>)>>,
}

/// Whether the marker in a control batch commits its transaction.
fn commits(key: Option<&[u8]>) -> bool {
    // Version, then type: 0 aborts, 1 commits.
    key.is_some_and(|key| key.get(2..4) == Some(&[0, 1]))
}

fn damaged(offset: Option<Offset>, found: &dyn std::fmt::Display) -> ErrorCode {
    let offset = offset.map_or(0, |offset| offset.0);
    tracing::error!(offset, %found, "__consumer_offsets is damaged");
    ErrorCode::CorruptMessage
}

impl Replay {
    /// Takes the batches in `bytes` in, which follow `from`; the offset after the last one.
    ///
    /// # Errors
    /// `CorruptMessage` where no batch follows: what comes after it cannot be found, and groups
    /// without it would be what they were long ago.
    fn read(&mut self, bytes: &Bytes, from: Option<Offset>) -> Result<Option<Offset>, ErrorCode> {
        let mut next = from;
        let mut batches = Batches::new(bytes);
        for batch in &mut batches {
            let batch = batch.map_err(|error| damaged(next, &error))?;
            if next.is_some_and(|next| batch.last_offset() < next) {
                return Err(damaged(next, &"an offset that was read before"));
            }
            next = Some(batch.last_offset().plus(1));
            match batch.verify_crc().and_then(|()| batch.records(BATCH_CAP)) {
                Ok(records) => self.take_batch(batch.header(), &records),
                Err(error) => tracing::error!(
                    offset = batch.base_offset().0, %error,
                    "a batch of __consumer_offsets cannot be read and is left out"
                ),
            }
        }
        match batches.rest() {
            [] => Ok(next),
            _ => Err(damaged(next, &"a batch that does not end")),
        }
    }

    fn take_batch(&mut self, header: &BatchHeader, records: &Records<'_>) {
        for record in records.iter().map_while(Result::ok) {
            if header.is_control() {
                let records = self.open.remove(&header.producer_id).unwrap_or_default();
                for (at, key, value) in records.iter().filter(|_| commits(record.key)) {
                    self.take(*at, Some(key), value.as_deref());
                }
            } else if header.is_transactional() {
                let copy = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
                let Some(key) = record.key.map(copy) else { continue };
                let open = self.open.entry(header.producer_id).or_default();
                open.push((record.offset, key, record.value.map(copy)));
            } else {
                self.take(record.offset, record.key, record.value);
            }
        }
    }

    fn take(&mut self, at: Offset, key: Option<&[u8]>, value: Option<&[u8]>) {
        let Some(key) = key else { return };
        match parse(key, value) {
            Ok(GroupRecord::Group(group, Some(value))) => {
                self.groups.insert(group, value);
            }
            Ok(GroupRecord::Group(group, None)) => {
                self.groups.remove(&group);
            }
            Ok(GroupRecord::Offset(key, Some(value))) => {
                let offsets = self.offsets.entry(key.group).or_default();
                offsets.insert(&key.topic, key.partition, at, value);
            }
            Ok(GroupRecord::Offset(key, None)) => {
                if let Some(offsets) = self.offsets.get_mut(&key.group) {
                    offsets.remove(&key.topic, key.partition, at);
                    if offsets.is_empty() {
                        self.offsets.remove(&key.group);
                    }
                }
            }
            Ok(GroupRecord::Foreign) => {}
            Err(error) => {
                tracing::error!(%error, "a record of __consumer_offsets is left out");
            }
        }
    }
}

impl GroupCoordinator {
    /// Makes `__consumer_offsets` if it is not there, and takes over its partitions.
    ///
    /// # Errors
    /// The topic cannot be made or read.
    pub fn ensure_topic(&self) -> Result<(), ErrorCode> {
        if self.is_loaded() {
            return Ok(());
        }
        {
            // The image names the topic before its partitions are here. Whoever asks meanwhile
            // waits, once in a cluster's life, for as long as it takes to make it.
            let _only_me = self.making.lock();
            if self.around.topic.partition_count() == 0 {
                self.around.topic.create()?;
                return self.load_all();
            }
        }
        // Somebody who is loading already will get to it; waiting would cost an I/O thread.
        match self.loading.try_lock() {
            Some(only_me) => self.load_missing(&only_me),
            None => Ok(()),
        }
    }

    fn is_loaded(&self) -> bool {
        let loads = self.loads.read();
        let waits = |load: &Load| matches!(load, Load::Pending | Load::Failed);
        !loads.is_empty() && !loads.iter().any(waits)
    }

    /// Loads every partition that is not loaded yet. To be called at start, and whenever the topic
    /// appeared; it takes as long as reading takes.
    ///
    /// # Errors
    /// A partition cannot be read; the others are loaded, that one is not.
    pub fn load_all(&self) -> Result<(), ErrorCode> {
        self.load_missing(&self.loading.lock())
    }

    fn load_missing(&self, _only_me: &MutexGuard<'_, ()>) -> Result<(), ErrorCode> {
        let count = self.around.topic.partition_count();
        {
            let mut loads = self.loads.write();
            let count = usize::try_from(count).unwrap_or(0);
            // A group's partition depends on the count: it never changes while groups are here.
            if loads.is_empty() {
                loads.resize(count, Load::Pending);
            }
        }
        let mut result = Ok(());
        for partition in 0..count {
            if let Err(error) = self.load(partition) {
                tracing::error!(partition, ?error, "cannot load __consumer_offsets");
                result = Err(error);
            }
        }
        result
    }

    fn load(&self, partition: i32) -> Result<(), ErrorCode> {
        if !self.claim(partition) {
            return Ok(());
        }
        // A partition that is neither loaded nor waiting for it would be loading for ever.
        let load = || self.replay(partition).map(|replay| self.install(partition, replay));
        let result = panics::contain("loading __consumer_offsets", load)
            .unwrap_or(Err(ErrorCode::UnknownServerError));
        let load = match result {
            Ok(()) => Load::Active,
            Err(ErrorCode::CorruptMessage) => Load::Damaged,
            Err(_) => Load::Failed,
        };
        if let Some(place) = self.loads.write().get_mut(usize::try_from(partition).unwrap_or(0)) {
            *place = load;
        }
        result
    }

    /// Whether the partition has to be loaded; from now on it is being loaded.
    fn claim(&self, partition: i32) -> bool {
        let mut loads = self.loads.write();
        match loads.get_mut(usize::try_from(partition).unwrap_or(usize::MAX)) {
            Some(load @ (Load::Pending | Load::Failed)) => {
                *load = Load::Loading;
                true
            }
            _ => false,
        }
    }

    fn replay(&self, partition: i32) -> Result<Replay, ErrorCode> {
        let mut replay = Replay::default();
        let mut from = None;
        loop {
            let bytes = self.around.topic.read(partition, from)?;
            if bytes.is_empty() {
                return Ok(replay);
            }
            from = replay.read(&bytes, from)?;
        }
    }

    fn install(&self, partition: i32, mut replay: Replay) {
        let now = self.around.now();
        let mut states: Vec<(GroupState, GroupOffsets)> = Vec::new();
        for (id, value) in std::mem::take(&mut replay.groups) {
            let offsets = replay.offsets.remove(&id).unwrap_or_default();
            states.push((GroupState::load(Arc::from(id), self.limits(), now, &value), offsets));
        }
        // Offsets without a group: somebody commits and is in no group.
        for (id, offsets) in replay.offsets {
            states.push((GroupState::new(Arc::from(id), self.limits(), now, false), offsets));
        }
        tracing::debug!(partition, groups = states.len(), "loaded __consumer_offsets");
        for (state, offsets) in states {
            let group = Group::new(state, offsets, partition, Arc::clone(&self.around));
            self.groups.write().insert(Arc::clone(group.id()), Arc::clone(&group));
            // Now that the group can be found: a topic that is deleted from here on finds it, too.
            group.run(|inner, now| {
                inner.state.loaded(now);
                let former = inner.offsets.former(|topic| self.around.topic.id_of(topic));
                remove_offsets(inner, former, |_| {});
            });
        }
    }
}
