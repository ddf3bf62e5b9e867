//! Reads the batches of a partition back into a state machine, from the first to the last record.
//!
//! Records of a transaction count when its marker commits it.
//! Source: Kafka's `CoordinatorLoaderImpl`.

use std::collections::HashMap;

use bytes::Bytes;
use kafkalite_protocol::record_batch::{BatchHeader, Batches, Records};
use kafkalite_protocol::{ErrorCode, Offset};

use super::StateMachine;

/// The most a batch of a coordinator may decompress to, in bytes.
const BATCH_CAP: usize = 128 << 20;

/// A state machine, and what the records read so far leave open.
pub(super) struct Replay<S> {
    topic: &'static str,
    state: S,
    /// Producer id -> records of its transaction, which a marker may still take back.
    open: HashMap<i64, Vec<(Offset, Bytes, Option<Bytes>)>>,
}

/// Whether the marker in a control batch commits its transaction.
fn commits(key: Option<&[u8]>) -> bool {
    // Version, then type: 0 aborts, 1 commits.
    key.is_some_and(|key| key.get(2..4) == Some(&[0, 1]))
}

impl<S: StateMachine> Replay<S> {
    /// Begins with an empty state; `topic` names the log in messages.
    pub fn new(topic: &'static str, state: S) -> Self {
        Self { topic, state, open: HashMap::new() }
    }

    /// The state after the last record. A transaction that is still open counts as not there.
    pub fn into_state(self) -> S {
        self.state
    }

    /// Takes the batches in `bytes` in, which follow `from`; the offset after the last one.
    ///
    /// # Errors
    /// `CorruptMessage` where no batch follows: what comes after it cannot be found, and a state
    /// without it would be what it was long ago.
    pub fn read(
        &mut self,
        bytes: &Bytes,
        from: Option<Offset>,
    ) -> Result<Option<Offset>, ErrorCode> {
        let mut next = from;
        let mut batches = Batches::new(bytes);
        for batch in &mut batches {
            let batch = batch.map_err(|error| self.damaged(next, &error))?;
            if next.is_some_and(|next| batch.last_offset() < next) {
                return Err(self.damaged(next, &"an offset that was read before"));
            }
            next = Some(batch.last_offset().plus(1));
            match batch.verify_crc().and_then(|()| batch.records(BATCH_CAP)) {
                Ok(records) => self.take_batch(batch.header(), &records),
                Err(error) => tracing::error!(
                    topic = self.topic, offset = batch.base_offset().0, %error,
                    "a batch cannot be read and is left out"
                ),
            }
        }
        match batches.rest() {
            [] => Ok(next),
            _ => Err(self.damaged(next, &"a batch that does not end")),
        }
    }

    fn damaged(&self, offset: Option<Offset>, found: &dyn std::fmt::Display) -> ErrorCode {
        let offset = offset.map_or(0, |offset| offset.0);
        tracing::error!(topic = self.topic, offset, %found, "the log is damaged");
        ErrorCode::CorruptMessage
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
        match S::decode(key, value) {
            Ok(Some(record)) => self.state.replay(at, record, true),
            Ok(None) => {}
            Err(error) => tracing::error!(
                topic = self.topic, offset = at.0, %error, "a record is left out"
            ),
        }
    }
}
