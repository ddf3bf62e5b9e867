#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::purgatory::TimerTask;

mod groups;
mod offsets;
mod restart;

/// `__consumer_offsets` in memory.
#[derive(Default)]
struct MemoryTopic {
    inner: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    partitions: BTreeMap<i32, Vec<(i64, Bytes)>>,
    count: i32,
    /// Appends are not committed before [`MemoryTopic::commit`].
    holds: bool,
    fails: Option<ErrorCode>,
    held: VecDeque<(Offset, AppendDone, Option<AppendLate>)>,
    /// Ids of the topics that are there, by name.
    ids: BTreeMap<String, Uuid>,
}

impl MemoryTopic {
    fn of(count: i32) -> Arc<Self> {
        let topic = Self::default();
        topic.inner.lock().count = count;
        Arc::new(topic)
    }

    /// Commits what is held, oldest first, or fails it.
    fn commit(&self, error: Option<ErrorCode>) {
        while let Some((offset, done, _)) = { self.inner.lock().held.pop_front() } {
            done(error.map_or(Ok(offset), Err));
        }
    }

    /// Says of all that is held that it takes too long.
    fn be_late(&self) {
        let late: Vec<AppendLate> =
            self.inner.lock().held.iter_mut().filter_map(|(.., late)| late.take()).collect();
        late.into_iter().for_each(|late| late());
    }

    fn batches(&self) -> usize {
        self.inner.lock().partitions.values().map(Vec::len).sum()
    }
}

impl OffsetsTopic for MemoryTopic {
    fn partition_count(&self) -> i32 {
        self.inner.lock().count
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.inner.lock().ids.get(topic).copied()
    }

    fn create(&self) -> Result<(), ErrorCode> {
        self.inner.lock().count = 5;
        Ok(())
    }

    fn append(&self, partition: i32, batch: Bytes, done: AppendDone, late: AppendLate) {
        let mut inner = self.inner.lock();
        if let Some(error) = inner.fails {
            drop(inner);
            return done(Err(error));
        }
        let batches = inner.partitions.entry(partition).or_default();
        let offset = batches.last().map_or(0, |(last, _)| last + 1);
        let mut header = BatchHeader::parse(&batch).unwrap();
        (header.base_offset, header.leader_epoch) = (Offset(offset), LeaderEpoch(0));
        let mut bytes = BytesMut::from(&batch[..]);
        bytes[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        batches.push((offset + i64::from(header.last_offset_delta), bytes.freeze()));
        if inner.holds {
            inner.held.push_back((Offset(offset), done, Some(late)));
        } else {
            drop(inner);
            done(Ok(Offset(offset)));
        }
    }

    fn read(&self, partition: i32, from: Option<Offset>) -> Result<Bytes, ErrorCode> {
        let inner = self.inner.lock();
        let from = from.map_or(0, |from| from.0);
        let all = inner.partitions.get(&partition).map_or(&[][..], Vec::as_slice);
        // One batch at a time, so that the loader has to come back.
        let next = all.iter().find(|(last, _)| *last >= from);
        Ok(next.map_or_else(Bytes::new, |(_, batch)| batch.clone()))
    }
}

/// A timer that fires when the test says so.
#[derive(Default)]
struct TestTimer {
    tasks: Mutex<Vec<(u64, TimerTask)>>,
    now_ms: Mutex<u64>,
}

impl GroupTimer for TestTimer {
    fn schedule(&self, delay_ms: u64, task: TimerTask) {
        self.tasks.lock().push((*self.now_ms.lock() + delay_ms, task));
    }
}

struct Broker {
    groups: Arc<GroupCoordinator>,
    clock: Arc<ManualClock>,
    timer: Arc<TestTimer>,
    topic: Arc<MemoryTopic>,
}

impl Broker {
    fn new() -> Self {
        Self::over(MemoryTopic::of(5), 1_000_000)
    }

    fn over(topic: Arc<MemoryTopic>, wall_ms: i64) -> Self {
        Self::with(topic, wall_ms, Codec::None)
    }

    fn with(topic: Arc<MemoryTopic>, wall_ms: i64, codec: Codec) -> Self {
        let clock = Arc::new(ManualClock::new(wall_ms));
        let timer = Arc::new(TestTimer::default());
        let config =
            GroupCoordinatorConfig { initial_rebalance_delay_ms: 0, codec, ..Default::default() };
        let groups = Arc::new(GroupCoordinator::new(
            config,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::clone(&timer) as Arc<dyn GroupTimer>,
            Arc::clone(&topic) as Arc<dyn OffsetsTopic>,
        ));
        groups.load_all().unwrap();
        Self { groups, clock, timer, topic }
    }

    /// Another broker over the same topic: what a restart finds.
    fn restarted(&self) -> Self {
        Self::over(Arc::clone(&self.topic), self.clock.wall_ms())
    }

    fn pass(&self, ms: u64) {
        for _ in 0..ms / 500 {
            self.clock.advance_ms(500);
            *self.timer.now_ms.lock() += 500;
            let now = *self.timer.now_ms.lock();
            let due: Vec<TimerTask> = {
                let mut tasks = self.timer.tasks.lock();
                let (due, later) = tasks.drain(..).partition(|(at, _)| *at <= now);
                *tasks = later;
                due.into_iter().map(|(_, task): (u64, TimerTask)| task).collect()
            };
            due.into_iter().for_each(|task| task());
        }
    }

    fn join(&self, group: &str, member: &str) -> Arc<Mutex<Option<JoinGroupResponse>>> {
        let request = JoinGroupRequest {
            group_id: group.to_owned(),
            member_id: member.to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".to_owned(),
                // Reads the topic `orders`.
                metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff"),
            }],
            ..JoinGroupRequest::default()
        };
        let context = JoinContext {
            version: 3,
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            uuid: "u".to_owned(),
        };
        let (answer, got) = slot();
        self.groups.join(context, request, answer);
        got
    }

    fn commit(&self, group: &str, topic: &str, offset: i64) -> Arc<Mutex<Option<Vec<ErrorCode>>>> {
        let who = Committer { group_id: group.to_owned(), ..outsider() };
        let (answer, got) = slot();
        self.groups.commit(&who, vec![one(topic, offset)], answer);
        got
    }

    fn committed(&self, group: &str, topic: &str) -> Option<i64> {
        let asked = [(topic.to_owned(), vec![0])];
        let found = self.groups.fetch(group, Some(&asked)).unwrap();
        found.first().and_then(|(_, partitions)| partitions.first()).map(|(_, value)| value.offset)
    }
}

fn outsider() -> Committer {
    Committer { generation: -1, retention_time_ms: -1, version: 8, ..Committer::default() }
}

fn one(topic: &str, offset: i64) -> Commit {
    Commit {
        topic: topic.to_owned(),
        topic_id: Uuid::ZERO,
        partition: 0,
        offset,
        leader_epoch: -1,
        metadata: None,
    }
}

/// An answer, and where it will be found.
fn slot<T: Send + 'static>() -> (Answer<T>, Arc<Mutex<Option<T>>>) {
    let place = Arc::new(Mutex::new(None));
    let inside = Arc::clone(&place);
    (Box::new(move |answer| *inside.lock() = Some(answer)), place)
}

fn taken<T>(place: &Mutex<Option<T>>) -> T {
    place.lock().take().expect("it is answered")
}
