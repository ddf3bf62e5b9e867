#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;

use super::runtime::tests::memory_topic::{MemoryTopic, TestTimer};
use super::runtime::{TopicFacts, partition_of};
use super::*;
use crate::clock::{Clock, ManualClock};

mod groups;
mod offsets;
mod restart;
mod topics;

impl OffsetsTopic for Arc<MemoryTopic> {
    fn facts(&self) -> Option<TopicFacts> {
        MemoryTopic::facts(self)
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.inner.lock().ids.get(topic).copied()
    }
}

/// Loads that wait for the test.
type Loads = Arc<Mutex<Vec<Load>>>;

struct Broker {
    groups: Arc<GroupCoordinator>,
    clock: Arc<ManualClock>,
    timer: Arc<TestTimer>,
    topic: Arc<MemoryTopic>,
    loads: Loads,
}

impl Broker {
    fn new() -> Self {
        Self::over(MemoryTopic::of(5), 1_000_000)
    }

    fn over(topic: Arc<MemoryTopic>, wall_ms: i64) -> Self {
        Self::with(topic, wall_ms, Codec::None)
    }

    fn with(topic: Arc<MemoryTopic>, wall_ms: i64, codec: Codec) -> Self {
        let broker = Self::unloaded(topic, wall_ms, codec);
        broker.load();
        broker
    }

    /// A broker that reads nothing before [`Self::load`].
    fn unloaded(topic: Arc<MemoryTopic>, wall_ms: i64, codec: Codec) -> Self {
        let clock = Arc::new(ManualClock::new(wall_ms));
        let timer = Arc::new(TestTimer::default());
        let mut config = GroupCoordinatorConfig { codec, ..GroupCoordinatorConfig::default() };
        config.groups.initial_rebalance_delay_ms = 0;
        let loads = Loads::default();
        let waiting = Arc::clone(&loads);
        let parts = GroupCoordinatorParts {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            timer: Arc::clone(&timer) as Arc<dyn runtime::CoordinatorTimer>,
            topic: Arc::new(Arc::clone(&topic)),
            execute: Box::new(move |load| {
                waiting.lock().push(load);
                Ok(())
            }),
        };
        let groups = Arc::new(GroupCoordinator::new(config, parts));
        groups.follow();
        Self { groups, clock, timer, topic, loads }
    }

    /// Loads what waits to be.
    fn load(&self) {
        let loads = std::mem::take(&mut *self.loads.lock());
        loads.into_iter().for_each(|mut load| while load() {});
    }

    /// Another broker over the same topic: what a restart finds.
    fn restarted(&self) -> Self {
        Self::over(Arc::clone(&self.topic), self.clock.wall_ms())
    }

    fn pass(&self, ms: u64) {
        for _ in 0..ms / 500 {
            self.clock.advance_ms(500);
            self.timer.pass(500);
        }
    }

    fn join(&self, group: &str, member: &str) -> Arc<Mutex<Option<JoinGroupResponse>>> {
        self.join_as(group, member, "u")
    }

    /// A member without an id gets one that ends with `uuid`.
    fn join_as(
        &self,
        group: &str,
        member: &str,
        uuid: &str,
    ) -> Arc<Mutex<Option<JoinGroupResponse>>> {
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
            uuid: uuid.to_owned(),
        };
        let (answer, got) = slot();
        self.groups.join(context, request, answer);
        got
    }

    fn commit(&self, group: &str, topic: &str, offset: i64) -> Arc<Mutex<Option<Vec<ErrorCode>>>> {
        let who = Committer { group_id: group.to_owned(), ..outsider() };
        let (answer, got) = slot();
        self.groups.commit(who, vec![one(topic, offset)], answer);
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
        topic: topic.into(),
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
