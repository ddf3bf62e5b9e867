//! A consumer of one partition, in assign mode. It also asks where the log begins, where it ends,
//! and where an epoch ended.

use super::{DATA, Io, UnderWay, answer};
use crate::checker::history::{Fate, Poll};
use crate::log::values;
use crate::rooms::planted::Planted;
use crate::rooms::watch::key;
use crate::rooms::wire::Call;
use bytes::Bytes;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafkalite_protocol::{ErrorCode, Records};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Records,
    Latest,
    Earliest,
    EndOfEpoch,
}

/// A reader.
pub struct Reader {
    number: u32,
    partition: i32,
    position: i64,
    epoch: i32,
    sought: bool,
    asked: Asked,
    next: Asked,
    under_way: UnderWay,
}

impl Reader {
    /// The reader of this number.
    #[must_use]
    pub fn new(number: u32, partition: i32) -> Self {
        let (asked, under_way) = (Asked::Records, UnderWay::default());
        let (position, epoch, sought) = (0, -1, false);
        Self { number, partition, position, epoch, sought, asked, next: asked, under_way }
    }

    /// The partition it reads.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset it reads next.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.position
    }

    pub(super) fn tick(&mut self, io: &mut Io<'_>) {
        if self.under_way.waits(io.now_ms) {
            return;
        }
        // A broker with an older epoch than the reader's knows an older leader.
        let leader = io.leader(DATA, self.partition).filter(|(_, epoch)| *epoch >= self.epoch);
        let Some((leader, epoch)) = leader else { return };
        self.epoch = epoch;
        self.asked = match self.next {
            Asked::Records if io.rng.chance(60) => Asked::Latest,
            Asked::Records if io.rng.chance(60) => Asked::EndOfEpoch,
            asked => asked,
        };
        match self.asked {
            Asked::Records => self.fetch(leader, io),
            Asked::Latest => self.list(leader, LATEST, io),
            Asked::Earliest => self.list(leader, EARLIEST, io),
            Asked::EndOfEpoch => {
                let partition = OffsetForLeaderPartition {
                    partition: self.partition,
                    current_leader_epoch: epoch,
                    leader_epoch: epoch,
                };
                let partitions = vec![partition];
                let topics = vec![OffsetForLeaderTopic { topic: DATA.to_owned(), partitions }];
                let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
                self.under_way.send(leader, &request, 4, io);
            }
        }
    }

    fn fetch(&mut self, leader: i32, io: &mut Io<'_>) {
        let partition = FetchPartition {
            partition: self.partition,
            current_leader_epoch: self.epoch,
            fetch_offset: self.position,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: DATA.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        let mut request = FetchRequest {
            max_wait_ms: 60,
            min_bytes: 1,
            max_bytes: 1 << 20,
            topics: vec![topic],
            ..Default::default()
        };
        let is_posing = io.planted == Some(Planted::ReadAboveHighWatermark);
        let replicas = io.guess.partition(DATA, self.partition).map(|now| now.replicas.clone());
        let other = replicas.iter().flatten().find(|id| **id != leader).copied();
        if let Some(other) = other.filter(|_| is_posing) {
            request.replica_id = other;
            request.max_wait_ms = 0;
        }
        let is_of_broker = request.replica_id >= 0;
        self.under_way.send_as(leader, Call { is_of_broker, ..Call::new(&request, 12) }, io);
    }

    fn list(&mut self, leader: i32, timestamp: i64, io: &mut Io<'_>) {
        let partition = ListOffsetsPartition {
            partition_index: self.partition,
            current_leader_epoch: self.epoch,
            timestamp,
        };
        let topics = vec![ListOffsetsTopic { name: DATA.to_owned(), partitions: vec![partition] }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
        self.under_way.send(leader, &request, 10, io);
    }

    pub(super) fn receive(&mut self, id: u64, bytes: Option<Bytes>, io: &mut Io<'_>) {
        let Some(version) = self.under_way.take(id) else { return };
        match self.asked {
            Asked::Records => self.fetched(version, bytes, io),
            Asked::EndOfEpoch => {
                let told = answer::<OffsetForLeaderEpochRequest>(version, bytes);
                for one in told.iter().flat_map(|told| &told.topics).flat_map(|t| &t.partitions) {
                    // The leader's log holds what it let this reader see.
                    if one.error_code == 0 && one.end_offset < self.position {
                        let (end, at) = (one.end_offset, self.position);
                        let told = format!("{} ends at {end}, and {at} was read", self.partition);
                        io.report("epoch-ends-too-early", told);
                    }
                }
            }
            Asked::Latest | Asked::Earliest => {
                let told = answer::<ListOffsetsRequest>(version, bytes);
                let told = told.iter().flat_map(|told| &told.topics).flat_map(|t| &t.partitions);
                for one in told.filter(|one| one.error_code == 0) {
                    self.listed(one.offset, io);
                }
            }
        }
    }

    fn listed(&mut self, offset: i64, io: &mut Io<'_>) {
        if self.asked == Asked::Latest {
            let topic = io.truth.topic(DATA).map(|topic| key(topic.id, self.partition));
            let end = topic.map_or(0, |topic| io.watch.committed_end(topic));
            if offset > end {
                let told = format!("{} up to {offset}, and {end} is committed", self.partition);
                io.report("listed-uncommitted", told);
            }
            return;
        }
        self.next = Asked::Records;
        if offset > self.position {
            (self.position, self.sought) = (offset, true);
        } else {
            let told = format!("{} of partition {}", self.position, self.partition);
            io.report("position-beyond-log", told);
        }
    }

    fn fetched(&mut self, version: i16, bytes: Option<Bytes>, io: &mut Io<'_>) {
        let Some(response) = answer::<FetchRequest>(version, bytes) else { return };
        let topic = io.truth.topic(DATA).map(|topic| key(topic.id, self.partition));
        for told in response.responses.iter().flat_map(|topic| &topic.partitions) {
            match ErrorCode::from_code(told.error_code) {
                ErrorCode::None => {}
                ErrorCode::OffsetOutOfRange => self.next = Asked::Earliest,
                _ => continue,
            }
            let Some(Records::Bytes(records)) = &told.records else { continue };
            let (reader, partition) = (self.number, usize::try_from(self.partition).unwrap_or(0));
            for (offset, value) in values(records) {
                if offset.0 < self.position {
                    continue;
                }
                if topic.is_some_and(|topic| !io.watch.is_committed(topic, offset.0)) {
                    let told = format!("{value} at {}:{}", self.partition, offset.0);
                    io.report("read-uncommitted", told);
                }
                self.position = offset.0 + 1;
                let (offset, fate_then) = (offset.0, Fate::Committed);
                let sought = std::mem::take(&mut self.sought);
                let poll = Poll { reader, partition, offset, value, sought, fate_then };
                io.history.polls.push(poll);
            }
        }
    }
}
