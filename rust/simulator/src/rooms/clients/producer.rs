//! An idempotent producer with one batch in flight and acks=all.

use super::{DATA, Io, UnderWay, answer};
use crate::checker::history::{Fate, Outcome, Send};
use crate::rooms::planted::Planted;
use crate::rooms::watch::key;
use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::init_producer_id::InitProducerIdRequest;
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Records};

/// A batch is given up after this, ms.
const DELIVERY_MS: u64 = 1_800;
/// How long a broker may wait for the replicas, ms.
const TIMEOUT_MS: i32 = 150;

struct Pending {
    values: Vec<u64>,
    first_ms: u64,
    sent: u32,
}

/// A producer to one partition.
pub struct Producer {
    number: u64,
    partition: i32,
    producer: Option<(i64, i16)>,
    sequence: i32,
    pending: Option<Pending>,
    next_value: u64,
    under_way: UnderWay,
    wall_ms: i64,
}

impl Producer {
    /// The producer of this number; its records are of this wall time.
    #[must_use]
    pub fn new(number: u64, partition: i32, wall_ms: i64) -> Self {
        let (producer, sequence, pending, next_value) = (None, 0, None, 0);
        let under_way = UnderWay::default();
        Self { number, partition, producer, sequence, pending, next_value, under_way, wall_ms }
    }

    /// Whether nothing is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    pub(super) fn tick(&mut self, io: &mut Io<'_>) {
        if self.pending.as_ref().is_some_and(|one| io.now_ms >= one.first_ms + DELIVERY_MS) {
            self.give_up(io);
        }
        if self.under_way.waits(io.now_ms) || (io.is_closing && self.pending.is_none()) {
            return;
        }
        let Some(producer) = self.producer else {
            let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
            if let Some(broker) = io.any_broker() {
                self.under_way.send(broker, &request, 4, io);
            }
            return;
        };
        if self.pending.is_none() {
            let count = io.rng.between(1, 3);
            let values = (0..count).map(|n| self.number * 1_000_000 + self.next_value + n + 1);
            let values = values.collect();
            self.next_value += count;
            self.pending = Some(Pending { values, first_ms: io.now_ms, sent: 0 });
        }
        let Some((leader, _)) = io.leader(DATA, self.partition) else { return };
        let (sequence, wall_ms) = (self.sequence, self.wall_ms);
        let Some(pending) = &mut self.pending else { return };
        pending.sent += 1;
        let is_forgotten = pending.sent > 1 && io.planted == Some(Planted::SequencesForgotten);
        let producer = (!is_forgotten).then_some((producer.0, producer.1, sequence));
        let Some(batch) = batch(&pending.values, producer, wall_ms) else { return };
        let is_hasty = io.planted == Some(Planted::AckBeforeCommit);
        let data =
            PartitionProduceData { index: self.partition, records: Some(Records::Bytes(batch)) };
        let topic = TopicProduceData {
            name: DATA.to_owned(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: if is_hasty { 1 } else { -1 },
            timeout_ms: TIMEOUT_MS,
            topic_data: vec![topic],
            ..Default::default()
        };
        self.under_way.send(leader, &request, 9, io);
    }

    pub(super) fn receive(&mut self, id: u64, bytes: Option<Bytes>, io: &mut Io<'_>) {
        let Some(version) = self.under_way.take(id) else { return };
        if self.producer.is_none() {
            let given = answer::<InitProducerIdRequest>(version, bytes);
            let given = given.filter(|given| given.error_code == 0);
            self.producer = given.map(|given| (given.producer_id, given.producer_epoch));
            self.sequence = 0;
            return;
        }
        let Some(response) = answer::<ProduceRequest>(version, bytes) else { return };
        let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        for told in answers {
            match ErrorCode::from_code(told.error_code) {
                ErrorCode::None => self.stored(Some(told.base_offset), io),
                ErrorCode::DuplicateSequenceNumber => self.stored(None, io),
                ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::UnknownProducerId => self.give_up(io),
                _ => {}
            }
        }
    }

    fn stored(&mut self, base: Option<i64>, io: &mut Io<'_>) {
        let Some(pending) = self.pending.take() else { return };
        self.sequence += i32::try_from(pending.values.len()).unwrap_or(0);
        for (number, value) in (0..).zip(&pending.values) {
            let offset = base.filter(|base| *base >= 0).map(|base| base + number);
            self.note(*value, Outcome::Ok, offset, io);
            let topic = io.truth.topic(DATA).map(|topic| key(topic.id, self.partition));
            if let (Some(topic), Some(offset)) = (topic, offset)
                && !io.watch.is_committed(topic, offset)
            {
                let told = format!("{value} at {}:{offset}", self.partition);
                io.report("acknowledged-uncommitted", told);
            }
        }
    }

    /// The outcome stays unknown; what follows is another producer's.
    pub(in crate::rooms) fn give_up(&mut self, io: &mut Io<'_>) {
        self.producer = None;
        self.under_way = UnderWay::default();
        let Some(pending) = self.pending.take() else { return };
        for value in pending.values {
            self.note(value, Outcome::Unknown, None, io);
        }
    }

    fn note(&self, value: u64, outcome: Outcome, offset: Option<i64>, io: &mut Io<'_>) {
        let partition = usize::try_from(self.partition).unwrap_or(0);
        let fate = Fate::Committed;
        io.history.sends.push(Send { value, partition, outcome, offset, fate });
    }
}

fn batch(values: &[u64], producer: Option<(i64, i16, i32)>, wall_ms: i64) -> Option<Bytes> {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for value in values {
        builder.append(wall_ms, None, Some(&value.to_be_bytes()), &[]);
    }
    builder.build(Offset(0), LeaderEpoch::UNKNOWN).ok()
}
