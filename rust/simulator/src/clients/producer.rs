//! An idempotent producer with one batch in flight.

use super::Guess;
use crate::checker::history::{Fate, Outcome, Send};
use crate::io::{Io, Tick};
use crate::message::{Message, Node, Produce};
use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// A request without an answer is sent again after this, ms.
const REQUEST_MS: u64 = 120;
/// A batch is given up after this, ms.
const DELIVERY_MS: u64 = 1_500;

struct Pending {
    values: Vec<u64>,
    batch: Bytes,
    first_ms: u64,
    /// The newest request that carries it.
    id: u64,
    again_ms: u64,
}

/// A producer to one partition.
pub struct Producer {
    number: u64,
    partition: usize,
    acks_all: bool,
    producer_id: i64,
    sequence: i32,
    pending: Option<Pending>,
    next_value: u64,
    next_id: u64,
    stops: bool,
}

impl Producer {
    /// The producer of this number.
    #[must_use]
    pub fn new(number: u32, partition: usize, acks_all: bool) -> Self {
        let number = u64::from(number);
        Self {
            number,
            partition,
            acks_all,
            producer_id: i64::try_from(number).unwrap_or(0) * 1_000,
            sequence: 0,
            pending: None,
            next_value: 0,
            next_id: 0,
            stops: false,
        }
    }

    /// The partition it writes to.
    #[must_use]
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Sends what is begun, and no more.
    pub fn stop(&mut self) {
        self.stops = true;
    }

    /// Whether nothing is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// Goes on.
    pub fn tick(&mut self, guess: Guess, io: &mut Io<'_>) {
        let pause = io.rng.between(8, 30);
        io.after(pause, Tick::Client);
        if self.pending.as_ref().is_some_and(|one| io.now_ms >= one.first_ms + DELIVERY_MS) {
            self.give_up(io);
        }
        if self.pending.is_none() && !self.stops {
            self.begin(io);
        }
        let Some(pending) = self.pending.as_mut().filter(|one| io.now_ms >= one.again_ms) else {
            return;
        };
        let Some((leader, _)) = guess else { return };
        self.next_id += 1;
        (pending.id, pending.again_ms) = (self.next_id, io.now_ms + REQUEST_MS);
        let (partition, batch) = (self.partition, pending.batch.clone());
        let produce = Produce { partition, batch, acks_all: self.acks_all };
        io.send(Node::Broker(leader), self.next_id, Message::Produce(produce));
    }

    fn begin(&mut self, io: &mut Io<'_>) {
        let builder = RecordBatchBuilder::new(Codec::None);
        let mut builder = builder.producer(self.producer_id, 0, self.sequence);
        let mut values = Vec::new();
        for _ in 0..io.rng.between(1, 3) {
            self.next_value += 1;
            let value = self.number * 1_000_000 + self.next_value;
            let now_ms = crate::broker::WALL_MS + i64::try_from(io.now_ms).unwrap_or(0);
            builder.append(now_ms, None, Some(&value.to_be_bytes()), &[]);
            values.push(value);
        }
        // Without a codec nothing can fail.
        let Ok(batch) = builder.build(Offset(0), LeaderEpoch::UNKNOWN) else { return };
        let (first_ms, again_ms) = (io.now_ms, io.now_ms);
        self.pending = Some(Pending { values, batch, first_ms, id: 0, again_ms });
    }

    /// The answer to request `id`.
    pub fn receive(&mut self, id: u64, answer: Result<Offset, ErrorCode>, io: &mut Io<'_>) {
        let Some(pending) = self.pending.as_mut().filter(|one| one.id == id) else { return };
        match answer {
            Ok(base) => {
                let Some(pending) = self.pending.take() else { return };
                self.sequence += i32::try_from(pending.values.len()).unwrap_or(0);
                for (offset, value) in (base.0..).zip(&pending.values) {
                    // The leader alone promises nothing that outlives it.
                    let offset = self.acks_all.then_some(offset);
                    self.note(*value, Outcome::Ok, offset, io);
                }
            }
            Err(ErrorCode::OutOfOrderSequenceNumber | ErrorCode::InvalidProducerEpoch) => {
                self.give_up(io);
            }
            Err(_) => pending.again_ms = io.now_ms + 15,
        }
    }

    /// The outcome stays unknown; what follows is another producer's.
    fn give_up(&mut self, io: &mut Io<'_>) {
        let Some(pending) = self.pending.take() else { return };
        for value in pending.values {
            self.note(value, Outcome::Unknown, None, io);
        }
        self.producer_id += 1;
        self.sequence = 0;
    }

    /// At the end of a run nothing more becomes known.
    pub fn close(&mut self, io: &mut Io<'_>) {
        self.give_up(io);
    }

    fn note(&self, value: u64, outcome: Outcome, offset: Option<i64>, io: &mut Io<'_>) {
        let (partition, fate) = (self.partition, Fate::Committed);
        io.checker.history.sends.push(Send { value, partition, outcome, offset, fate });
    }
}
