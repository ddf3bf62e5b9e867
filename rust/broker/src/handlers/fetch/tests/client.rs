//! A client with a fetch session, and what a full fetch would have told it.

use super::super::answers::partition_data;
use super::super::reader;
use super::house::{Answer, House};
use crate::fetch_sessions::{FetchTarget, Look, Reader, TopicRef};
use crate::partitions::Fetched;
use kafkalite_log::FileSlice;
use kafkalite_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData,
};
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, Records, Uuid};
use std::collections::{BTreeMap, HashMap};

/// A partition as the client names it.
pub type Name = (String, Uuid, i32);

/// What the client knows of a partition: error, high watermark, last stable offset, log start.
pub type Facts = (i16, i64, i64, i64);

/// How much it asks for, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Asks {
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub max_wait_ms: i32,
}

impl Asks {
    /// For everything there is, now.
    pub const EVERYTHING: Self = Self { min_bytes: 0, max_bytes: 1 << 20, max_wait_ms: 0 };
}

/// Whether a fetch need not wait.
#[derive(Clone, Copy)]
pub struct Enough {
    /// By the log's count, which may be up to an index interval too high: it may be answered.
    pub counted: bool,
    /// By the true count, every batch having one record: it must be answered.
    pub exact: bool,
}

impl Enough {
    const ALWAYS: Self = Self { counted: true, exact: true };
}

#[derive(Clone, Debug, PartialEq)]
struct Wish {
    offset: i64,
    leader_epoch: i32,
}

/// Its session: what it asked for there.
struct Open {
    id: i32,
    epoch: i32,
    sent: BTreeMap<Name, Wish>,
}

pub struct Client {
    version: i16,
    isolation_level: i8,
    wishes: BTreeMap<Name, Wish>,
    open: Option<Open>,
    known: BTreeMap<Name, Facts>,
    /// Answers since records were there and not sent.
    hungry: HashMap<Name, usize>,
}

impl Client {
    pub fn new(version: i16) -> Self {
        Self {
            version,
            isolation_level: 0,
            wishes: BTreeMap::new(),
            open: None,
            known: BTreeMap::new(),
            hungry: HashMap::new(),
        }
    }

    fn by_id(&self) -> bool {
        self.version >= 13
    }

    /// `None` if the client needs a topic's id and there is none.
    fn name(&self, house: &House, topic: &str, partition: i32) -> Option<Name> {
        let id = if self.by_id() { house.topic_id(topic)? } else { Uuid::ZERO };
        Some((topic.to_owned(), id, partition))
    }

    /// Begins or ceases to want a partition.
    pub fn toggle(&mut self, house: &House, topic: &str, partition: i32) {
        let here = |name: &Name| name.0 == topic && name.2 == partition;
        if self.wishes.keys().any(here) {
            self.wishes.retain(|name, _| !here(name));
            // With fewer of them a turn comes sooner, but only from now on.
            self.hungry.clear();
            return;
        }
        let Some(name) = self.name(house, topic, partition) else { return };
        let start = house.partition(topic, partition).map_or(0, |found| found.log_start_offset().0);
        self.wishes.insert(name, Wish { offset: start, leader_epoch: -1 });
    }

    /// Learns ids and leader epochs of the image; a topic that was made again begins at its start.
    pub fn refresh(&mut self, house: &House) {
        let image = house.image();
        let before = std::mem::take(&mut self.wishes);
        for (old, wish) in before {
            let name = self.name(house, &old.0, old.2).unwrap_or_else(|| old.clone());
            let found = image.partition(&name.0, name.2);
            let leader_epoch = found.map_or(-1, |partition| partition.leader_epoch.0);
            let offset = if name == old { wish.offset } else { 0 };
            self.wishes.insert(name, Wish { offset, leader_epoch });
        }
    }

    pub fn switch_isolation(&mut self) {
        self.isolation_level = 1 - self.isolation_level;
    }

    /// Moves a position, as `seek` does.
    pub fn seek(&mut self, nth: usize, offset: i64) {
        let count = self.wishes.len().max(1);
        if let Some(wish) = self.wishes.values_mut().nth(nth % count) {
            wish.offset = offset;
        }
    }

    /// The next request; it lists what the session does not know yet.
    pub fn request(&self, asks: Asks) -> FetchRequest {
        let nothing = BTreeMap::new();
        let sent = self.open.as_ref().map_or(&nothing, |open| &open.sent);
        let mut request = FetchRequest {
            replica_id: -1,
            max_wait_ms: asks.max_wait_ms,
            min_bytes: asks.min_bytes,
            max_bytes: asks.max_bytes,
            isolation_level: self.isolation_level,
            session_id: self.open.as_ref().map_or(0, |open| open.id),
            session_epoch: self.open.as_ref().map_or(0, |open| open.epoch),
            ..FetchRequest::default()
        };
        for (name, wish) in &self.wishes {
            if sent.get(name) != Some(wish) {
                request.topics.push(FetchTopic {
                    topic: name.0.clone(),
                    topic_id: name.1,
                    partitions: vec![FetchPartition {
                        partition: name.2,
                        fetch_offset: wish.offset,
                        current_leader_epoch: wish.leader_epoch,
                        partition_max_bytes: 1 << 20,
                        ..FetchPartition::default()
                    }],
                });
            }
        }
        for name in sent.keys().filter(|name| !self.wishes.contains_key(*name)) {
            request.forgotten_topics_data.push(ForgottenTopic {
                topic: name.0.clone(),
                topic_id: name.1,
                partitions: vec![name.2],
            });
        }
        request
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    /// What a full fetch would say of each partition that the client wants, and its readable bytes.
    pub fn full(&self, house: &House) -> BTreeMap<Name, (PartitionData, u32)> {
        let all = self.wishes.iter().map(|(name, wish)| {
            let target = self.target(name, wish);
            let reader = reader(Reader {
                replica_id: -1,
                broker_epoch: -1,
                isolation_level: self.isolation_level,
            });
            let fetched = match house.partitions.find(&target.topic, target.partition) {
                Ok(partition) => partition.read(&target, 1 << 20, true, reader),
                Err(error) => Fetched::refused(error),
            };
            let bytes = fetched.bytes;
            let records = Records::External { token: 0, len: bytes };
            let data = partition_data(&Look::once(target), &fetched, reader, records);
            (name.clone(), (data, bytes))
        });
        all.collect()
    }

    fn target(&self, name: &Name, wish: &Wish) -> FetchTarget {
        let topic = if self.by_id() {
            TopicRef::Id(name.1)
        } else {
            TopicRef::Name(name.0.as_str().into())
        };
        FetchTarget {
            topic: topic.into(),
            partition: name.2,
            fetch_offset: wish.offset,
            max_bytes: 1 << 20,
            current_leader_epoch: wish.leader_epoch,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            leader_only: false,
        }
    }

    /// Whether a fetch of everything that the client wants now need not wait for `min_bytes`.
    pub fn enough(&self, house: &House, min_bytes: i32) -> Enough {
        let reader = reader(Reader {
            replica_id: -1,
            broker_epoch: -1,
            isolation_level: self.isolation_level,
        });
        let (mut counted, mut exact) = (0, 0);
        for (name, wish) in &self.wishes {
            let target = self.target(name, wish);
            let found = house.partitions.find(&target.topic, target.partition);
            let Ok(partition) = found else { return Enough::ALWAYS };
            match partition.plan(&target, reader) {
                Ok(plan) if !plan.will_not_grow() => counted += plan.bytes(),
                _ => return Enough::ALWAYS,
            }
            let records = (partition.readable_end(reader).0 - wish.offset).max(0);
            exact += records.unsigned_abs() * house.batch_bytes;
        }
        let min_bytes = u64::from(min_bytes.unsigned_abs());
        let reached = |bytes| self.wishes.is_empty() || bytes >= min_bytes;
        Enough { counted: reached(counted), exact: reached(exact) }
    }

    /// The next request opens a new session in place of a lost one.
    pub fn refused(&mut self, error: ErrorCode) {
        assert_eq!(error, ErrorCode::FetchSessionIdNotFound);
        self.open = None;
        // Turns start again with the session.
        self.hungry.clear();
    }

    /// Learns from an answer to `request`. Returns how many records it had.
    pub fn learn(&mut self, house: &House, request: &FetchRequest, answer: Answer) -> usize {
        let (response, files) = answer;
        assert_eq!(response.error_code, 0);
        let is_full = request.session_epoch == 0;
        if is_full {
            self.known.clear();
        }
        let epoch = request.session_epoch + 1;
        self.open = (response.session_id != 0).then(|| Open {
            id: response.session_id,
            epoch,
            sent: self.wishes.clone(),
        });
        self.known.retain(|name, _| self.wishes.contains_key(name));
        let mut records = 0;
        for topic in response.responses {
            for data in topic.partitions {
                let here = |name: &&Name| {
                    let same = if self.version >= 13 {
                        name.1 == topic.topic_id
                    } else {
                        name.0 == topic.topic
                    };
                    same && name.2 == data.partition_index
                };
                let name = self.wishes.keys().find(here).expect("it was asked for").clone();
                self.known.insert(name.clone(), facts(&data));
                let offset = next_offset(&data, &files);
                records += usize::from(offset.is_some());
                let wish = self.wishes.get_mut(&name).expect("it was just found");
                wish.offset = offset.unwrap_or(wish.offset);
                react(house, &name, wish, &data);
            }
        }
        records
    }

    /// Asserts that an answer just given, with what was known before, says what a full fetch says.
    pub fn assert_knows(&mut self, full: &BTreeMap<Name, (PartitionData, u32)>, records: usize) {
        for (name, (data, bytes)) in full {
            if self.open.is_none() {
                continue;
            }
            assert_eq!(self.known.get(name), Some(&facts(data)), "{name:?}");
            if *bytes > 0 && records == 0 {
                panic!("{name:?} has {bytes} bytes and nothing was sent");
            }
        }
    }

    /// Counts how long each partition was passed over, and asserts that no partition starves.
    pub fn assert_is_fair(
        &mut self,
        full: &BTreeMap<Name, (PartitionData, u32)>,
        before: &BTreeMap<Name, i64>,
    ) {
        let now = self.positions();
        for (name, (_, bytes)) in full {
            let served = now.get(name) != before.get(name);
            let passed_over = self.hungry.entry(name.clone()).or_default();
            *passed_over = if *bytes > 0 && !served { *passed_over + 1 } else { 0 };
            assert!(*passed_over <= full.len(), "{name:?} starves");
        }
        self.hungry.retain(|name, _| full.contains_key(name));
    }

    pub fn positions(&self) -> BTreeMap<Name, i64> {
        self.wishes.iter().map(|(name, wish)| (name.clone(), wish.offset)).collect()
    }
}

fn facts(data: &PartitionData) -> Facts {
    (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset)
}

/// What a client does about an error.
fn react(house: &House, name: &Name, wish: &mut Wish, data: &PartitionData) {
    if data.error_code == ErrorCode::OffsetOutOfRange.code() {
        let found = house.partition(&name.0, name.2);
        wish.offset = found.map_or(0, |partition| partition.log_start_offset().0);
    }
    let fenced = [ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownLeaderEpoch];
    if fenced.iter().any(|error| error.code() == data.error_code) {
        wish.leader_epoch = -1;
    }
}

/// The offset after the last whole batch; `None` if there is none.
fn next_offset(data: &PartitionData, files: &[Vec<FileSlice>]) -> Option<i64> {
    let Some(Records::External { token, .. }) = &data.records else { return None };
    let slices = files.get(*token as usize)?.iter();
    let bytes: Vec<u8> = slices.flat_map(|slice| slice.read().expect("it is there")).collect();
    let mut rest = &bytes[..];
    let mut next = None;
    while let Ok(batch) = RecordBatch::parse(rest) {
        next = Some(batch.header().next_offset().0);
        rest = &rest[batch.header().size()..];
    }
    next
}
