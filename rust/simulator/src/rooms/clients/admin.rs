//! An administrator: makes a topic and deletes it again, and deletes records that all readers have.

use super::{DATA, Io, UnderWay, answer};
use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest,
};
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafkalite_protocol::messages::delete_topics::DeleteTopicsRequest;

/// The topic that comes and goes.
const WORK: &str = "work";
/// How long a broker may take to change something, ms.
const TIMEOUT_MS: i32 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Create,
    Delete,
    DeleteRecords,
}

/// The administrator.
pub struct Admin {
    asked: Asked,
    under_way: UnderWay,
    /// A change had no answer: it may still happen.
    is_unsure: bool,
    /// All readers have what is below, by partition.
    pub read_to: Vec<i64>,
    /// Changes that were acknowledged.
    pub changes: u64,
}

impl Admin {
    /// The administrator of a topic with so many partitions.
    #[must_use]
    pub fn new(partitions: i32) -> Self {
        let read_to = (0..partitions).map(|_| 0).collect();
        let (asked, under_way) = (Asked::Delete, UnderWay::default());
        Self { asked, under_way, is_unsure: false, read_to, changes: 0 }
    }

    pub(super) fn tick(&mut self, io: &mut Io<'_>) {
        if self.under_way.waits(io.now_ms) || io.is_closing || io.rng.chance(700) {
            return;
        }
        self.is_unsure |= self.under_way.asked.take().is_some();
        if io.rng.chance(400) {
            return self.delete_records(io);
        }
        let Some(broker) = io.any_broker() else { return };
        let is_there = io.guess.topic(WORK).is_some();
        if is_there {
            self.asked = Asked::Delete;
            let topic_names = vec![WORK.to_owned()];
            let request =
                DeleteTopicsRequest { topic_names, timeout_ms: TIMEOUT_MS, ..Default::default() };
            return self.under_way.send(broker, &request, 5, io);
        }
        self.asked = Asked::Create;
        let ids: Vec<i32> = io.guess.brokers.keys().copied().collect();
        let first = io.rng.pick(&ids).copied();
        let broker_ids: Vec<i32> = first.into_iter().collect();
        let assignments = vec![CreatableReplicaAssignment { partition_index: 0, broker_ids }];
        let (num_partitions, replication_factor) = (-1, -1);
        let topic = CreatableTopic {
            name: WORK.to_owned(),
            num_partitions,
            replication_factor,
            assignments,
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: TIMEOUT_MS,
            ..Default::default()
        };
        self.under_way.send(broker, &request, 7, io);
    }

    fn delete_records(&mut self, io: &mut Io<'_>) {
        let partition = io.rng.below(self.read_to.len() as u64);
        let place = usize::try_from(partition).unwrap_or(0);
        let partition_index = i32::try_from(partition).unwrap_or(0);
        let Some((leader, _)) = io.leader(DATA, partition_index) else { return };
        let offset = self.read_to[place] * 3 / 4;
        // It may happen from now on, whatever the answer is.
        let retained = io.history.retained_to.entry(place).or_default();
        *retained = offset.max(*retained);
        self.asked = Asked::DeleteRecords;
        let partitions = vec![DeleteRecordsPartition { partition_index, offset }];
        let topics = vec![DeleteRecordsTopic { name: DATA.to_owned(), partitions }];
        let request = DeleteRecordsRequest { topics, timeout_ms: TIMEOUT_MS };
        self.under_way.send(leader, &request, 2, io);
    }

    pub(super) fn receive(&mut self, id: u64, bytes: Option<Bytes>, io: &mut Io<'_>) {
        let Some(version) = self.under_way.take(id) else { return };
        let code = match self.asked {
            Asked::DeleteRecords => return,
            Asked::Create => answer::<CreateTopicsRequest>(version, bytes)
                .and_then(|told| told.topics.first().map(|topic| topic.error_code)),
            Asked::Delete => answer::<DeleteTopicsRequest>(version, bytes)
                .and_then(|told| told.responses.first().map(|topic| topic.error_code)),
        };
        let Some(code) = code else {
            self.is_unsure = true;
            return;
        };
        match ErrorCode::from_code(code) {
            ErrorCode::None => self.changes += 1,
            ErrorCode::RequestTimedOut => {
                self.is_unsure = true;
                return;
            }
            _ => return,
        }
        let is_there = io.truth.topic(WORK).is_some();
        if !self.is_unsure && is_there != (self.asked == Asked::Create) {
            io.report("change-lost", format!("{:?} was answered, and does not hold", self.asked));
        }
    }
}
