#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::time::Duration;

use kafkalite_connection::Backoff;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatch;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::config::PartitionerKind;
use crate::producer::accumulator::{self, Handle, Record};

mod order;
mod rules;

/// A producer without sockets, and the brokers it speaks to.
struct World {
    dispatch: Dispatch<()>,
    accumulator: Arc<Accumulator<()>>,
    clock: Arc<Mutex<Instant>>,
    /// Requests on their way to each broker, and answers on their way back.
    requests: BTreeMap<NodeId, VecDeque<Outgoing>>,
    answers: BTreeMap<NodeId, VecDeque<Answered>>,
    leaders: Vec<Leader>,
    logs: Vec<Log>,
    sent: Vec<Sent>,
    next_value: u64,
    wants_identity: bool,
    identities: i64,
}

/// A request's number, and what is answered for its partitions.
type Answered = (u64, Vec<Option<Answer>>);

/// A record that was appended: its value, and the handle of its outcome.
struct Sent {
    partition: i32,
    value: u64,
    handle: Arc<Handle<()>>,
    index: u32,
}

/// A partition as every replica has it: nothing that was written is ever lost here.
#[derive(Default)]
struct Log {
    /// How often its topic was made again.
    life: u8,
    values: Vec<u64>,
    /// What the topics before had.
    former: Vec<Vec<u64>>,
    producers: BTreeMap<i64, Producer>,
    /// What the next batch is refused with, whatever it is.
    refuse_next: Option<ErrorCode>,
    max_batch_records: Option<i32>,
}

/// What a broker remembers of a producer: (base sequence, last sequence, offset) of five batches.
struct Producer {
    epoch: i16,
    batches: VecDeque<(i32, i32, i64)>,
}

impl Log {
    fn topic_id(&self) -> Uuid {
        Uuid::from_random([self.life; 16])
    }

    /// Its topic is deleted, and another one made of the name.
    fn make_again(&mut self) {
        self.former.push(std::mem::take(&mut self.values));
        self.producers.clear();
        self.life += 1;
    }

    /// As a broker does it, with what Kafka's `ProducerStateManager` asks of sequences.
    fn append(&mut self, bytes: &[u8]) -> Result<i64, ErrorCode> {
        let batch = RecordBatch::parse(bytes).unwrap();
        batch.verify_crc().unwrap();
        let header = batch.header();
        if let Some(code) = self.refuse_next.take() {
            return Err(code);
        }
        if self.max_batch_records.is_some_and(|most| header.record_count > most) {
            return Err(ErrorCode::MessageTooLarge);
        }
        let offset = self.values.len() as i64;
        if header.has_producer_id() {
            let (first, last) = (header.base_sequence, header.last_sequence());
            match self.producers.get_mut(&header.producer_id) {
                Some(known) if header.producer_epoch < known.epoch => {
                    return Err(ErrorCode::InvalidProducerEpoch);
                }
                Some(known) if header.producer_epoch == known.epoch => {
                    let same = known.batches.iter().find(|b| b.0 == first && b.1 == last);
                    if let Some((_, _, offset)) = same {
                        return Ok(*offset);
                    }
                    let newest = known.batches.back().map_or(-1, |batch| batch.1);
                    if first != advance_sequence(newest, 1) {
                        return Err(ErrorCode::OutOfOrderSequenceNumber);
                    }
                    known.batches.push_back((first, last, offset));
                    if known.batches.len() > 5 {
                        known.batches.pop_front();
                    }
                }
                Some(_) if first != 0 => return Err(ErrorCode::OutOfOrderSequenceNumber),
                // A new epoch starts at 0, and an unknown producer wherever it likes.
                _ => {
                    let batches = VecDeque::from([(first, last, offset)]);
                    let producer = Producer { epoch: header.producer_epoch, batches };
                    self.producers.insert(header.producer_id, producer);
                }
            }
        }
        let records = batch.records(1 << 24).unwrap();
        for record in &records {
            let value = record.unwrap().value.unwrap();
            self.values.push(u64::from_be_bytes(value.try_into().unwrap()));
        }
        Ok(offset)
    }
}

/// A leader of the topic as it was first made.
fn led(node: NodeId, epoch: i32) -> Leader {
    Leader { node, epoch, topic_id: Log::default().topic_id() }
}

fn settings() -> Settings {
    Settings {
        idempotent: true,
        linger: Duration::from_millis(5),
        max_in_flight: 5,
        max_request_size: 1 << 20,
        retries: usize::MAX,
        retry_backoff: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1) },
        delivery_timeout: Duration::from_secs(120),
        codec: Codec::None,
        level: None,
    }
}

impl World {
    fn new(settings: Settings, partitions: u32, batch_size: usize) -> Self {
        let clock = Arc::new(Mutex::new(Instant::now() + Duration::from_secs(1_000)));
        let told = Arc::clone(&clock);
        let of_accumulator = accumulator::Settings {
            batch_size,
            buffer_memory: 1 << 20,
            max_request_size: 1 << 20,
            partitioner: PartitionerKind::Murmur2,
            ignore_keys: false,
        };
        let now = Box::new(move || *told.lock());
        let accumulator = Accumulator::with_clock(of_accumulator, 1, now);
        accumulator.follow("t", Uuid::ZERO, partitions);
        Self {
            dispatch: Dispatch::new(settings, Arc::clone(&accumulator), Arc::default()),
            accumulator,
            clock,
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            leaders: vec![led(1, 0); partitions as usize],
            logs: (0..partitions).map(|_| Log::default()).collect(),
            sent: Vec::new(),
            next_value: 0,
            wants_identity: false,
            identities: 0,
        }
    }

    fn now(&self) -> Instant {
        *self.clock.lock()
    }

    fn advance(&mut self, ms: u64) {
        *self.clock.lock() += Duration::from_millis(ms);
        self.plan();
    }

    fn append(&mut self, partition: u32) {
        let topic = self.accumulator.topic("t").unwrap();
        let value = self.next_value;
        self.next_value += 1;
        let bytes = value.to_be_bytes();
        let record = Record { timestamp_ms: 0, key: None, value: Some(&bytes), headers: (0, &[]) };
        if let Ok(place) = self.accumulator.append(&topic, partition, record, None, None) {
            let (handle, index) = (place.handle, place.index);
            self.sent.push(Sent { partition: partition as i32, value, handle, index });
        }
    }

    fn plan(&mut self) -> Plan {
        let now = self.now();
        let leaders = self.leaders.clone();
        let leader = |_: &str, partition: i32| leaders.get(partition as usize).copied();
        let mut plan = self.dispatch.plan(now, leader, |_| Room::Free);
        if plan.wants_identity {
            self.identities += 1;
            let identity = Identity { producer_id: self.identities, epoch: 0 };
            self.dispatch.identified(identity);
            plan = self.dispatch.plan(now, leader, |_| Room::Free);
        }
        self.wants_identity |= plan.wants_identity;
        for request in plan.requests.drain(..) {
            self.requests.entry(request.node).or_default().push_back(request);
        }
        plan
    }

    /// The broker takes its next request; whether it does so as the leader of the partitions.
    fn carry_out(&mut self, node: NodeId) -> Option<Answered> {
        let request = self.requests.get_mut(&node)?.pop_front()?;
        let answers = request.batches.iter().map(|batch| {
            let index = batch.partition as usize;
            let result = if batch.leader.topic_id != self.logs[index].topic_id() {
                Err(ErrorCode::UnknownTopicId)
            } else if self.leaders[index].node != node {
                Err(ErrorCode::NotLeaderOrFollower)
            } else {
                self.logs[index].append(&batch.bytes)
            };
            Some(answer(result))
        });
        Some((request.id, answers.collect()))
    }

    fn deliver(&mut self, node: NodeId) {
        if let Some(answer) = self.carry_out(node) {
            self.answers.entry(node).or_default().push_back(answer);
        }
    }

    /// The producer learns which topic it is now.
    fn learn(&mut self) {
        for (leader, log) in self.leaders.iter_mut().zip(&self.logs) {
            leader.topic_id = log.topic_id();
        }
        self.plan();
    }

    fn respond(&mut self, node: NodeId) {
        if let Some((id, answers)) = self.answers.entry(node).or_default().pop_front() {
            self.dispatch.answered(id, answers, self.now());
            self.plan();
        }
    }

    /// The connection breaks; of the requests on their way, the broker takes `taken` more.
    fn disconnect(&mut self, node: NodeId, taken: usize) {
        let mut lost: Vec<u64> =
            self.answers.remove(&node).unwrap_or_default().into_iter().map(|a| a.0).collect();
        for _ in 0..taken {
            lost.extend(self.carry_out(node).map(|answer| answer.0));
        }
        lost.extend(self.requests.remove(&node).unwrap_or_default().into_iter().map(|r| r.id));
        for id in lost {
            let error =
                ClientError::Disconnected { address: "b:1".to_owned(), why: "x".to_owned() };
            self.dispatch.failed(id, error, self.now());
        }
        self.plan();
    }

    /// No more faults: everything is delivered or fails.
    fn settle(&mut self) {
        self.learn();
        for _ in 0..400 {
            self.advance(50);
            for node in [1, 2] {
                while self.requests.get(&node).is_some_and(|queue| !queue.is_empty()) {
                    self.deliver(node);
                }
                while self.answers.get(&node).is_some_and(|queue| !queue.is_empty()) {
                    self.respond(node);
                }
            }
            if self.accumulator.is_idle() {
                return;
            }
        }
        panic!("a request never ends");
    }

    /// The offset of each record; `None` for those that failed.
    fn offsets(&self, partition: i32) -> Vec<(u64, Option<i64>)> {
        let of = self.sent.iter().filter(|sent| sent.partition == partition);
        of.map(|sent| {
            let fate = sent.handle.result(sent.index, 0).expect("its fate is known");
            (sent.value, fate.ok().map(|metadata| metadata.offset))
        })
        .collect()
    }
}

fn answer(result: Result<i64, ErrorCode>) -> Answer {
    Answer {
        code: result.err().unwrap_or(ErrorCode::None),
        message: None,
        base_offset: result.unwrap_or(-1),
        log_append_time_ms: -1,
        record_errors: Vec::new(),
    }
}
