//! Names that are given again and again, around kills and power cuts at any change of a file:
//! nothing of a topic is seen in the next one of its name, and nothing that was promised is lost.
//!
//! Each round is a random program over two names. Topics come and go, smaller, larger, compacted or
//! not. Records are produced, deleted and compacted; their only producer id starts again in each
//! life. Groups commit. At a random write, sync, rename or removal everything stops, with or
//! without the page cache, and a start may be cut off as well. Every value, key and offset says in
//! which life it was written.
//!
//! More rounds by hand: `KAFKALITE_ROUNDS=2000 KAFKALITE_SEED=7 cargo test --test life_of_a_name`.
#![allow(clippy::unwrap_used)]

mod client;
#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;

use client::{awaited, config, create_offsets_topic};
use faulty_storage::{Fault, FaultyStorage};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{Clock, ManualClock};
use kafkalite_broker::coordinator::{Commit, Committer};
use kafkalite_broker::metadata::controller::{NewTopic, NoRules, TopicDefaults, TopicName};
use kafkalite_broker::partitions::{Checkpoint, CommitStatus, Partition};
use kafkalite_log::ValidatedBatch;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tempfile::TempDir;

/// Programs that run each time, and steps of one.
const ROUNDS: u64 = 8;
const STEPS: usize = 60;

const NAMES: [&str; 2] = ["t", "u-0"];
const GROUPS: [&str; 2] = ["g", "h"];
const MOST_PARTITIONS: i32 = 3;
const NOW_MS: i64 = 1_700_000_000_000;
/// Longer than the intervals of the cleaner and of every checkpoint but two.
const A_WHILE_MS: u64 = 61_000;

const SETTINGS: [(&str, &str); 4] = [
    // What is acknowledged survives a power cut.
    ("log.flush.interval.messages", "1"),
    ("offsets.topic.num.partitions", "2"),
    ("log.initial.task.delay.ms", "0"),
    ("num.io.threads", "1"),
];

/// Numbers that only the seed decides (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// A record: its key, and its value unless it is a tombstone.
type Entry = (String, Option<String>);

/// One partition in one life of its name.
#[derive(Default)]
struct Log {
    acknowledged: BTreeMap<i64, Entry>,
    /// Keys of what was sent and not acknowledged.
    in_doubt: BTreeSet<String>,
    start: i64,
    /// Where the start may be by now.
    latest_start: i64,
    epoch: i16,
    sequence: i32,
}

/// One topic of a name.
struct Life {
    number: i64,
    id: Option<Uuid>,
    compacted: bool,
    logs: Vec<Log>,
    /// By group and partition: what may be committed; the first is what was acknowledged last.
    commits: BTreeMap<(&'static str, i32), Vec<i64>>,
}

struct World {
    directory: TempDir,
    clock: Arc<ManualClock>,
    random: Random,
    storage: FaultyStorage,
    broker: Option<Broker>,
    lives: BTreeMap<&'static str, Life>,
    /// Lives whose topic may be there, or may be gone: the call that makes it so was cut off.
    in_doubt: BTreeMap<&'static str, Option<Life>>,
    count: i64,
    seed: u64,
    /// No start is cut off.
    never_cut_off: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new(NOW_MS)),
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            storage: FaultyStorage::default(),
            broker: None,
            lives: BTreeMap::new(),
            in_doubt: BTreeMap::new(),
            count: 0,
            seed,
            never_cut_off: false,
        };
        world.start();
        world
    }

    fn broker(&self) -> &Broker {
        self.broker.as_ref().unwrap()
    }

    fn has_crashed(&self) -> bool {
        self.storage.has_crashed()
    }

    /// Starts a broker; some starts are cut off, several in a row.
    fn start(&mut self) {
        for attempt in 0.. {
            self.storage = FaultyStorage::default();
            if attempt < 4 && !self.never_cut_off && self.random.one_in(3) {
                self.storage.plan(self.random.below(60), Fault::Crash);
            }
            let (settings, storage) = (config(self.directory.path(), &SETTINGS), &self.storage);
            let started =
                Broker::start_with(settings, self.clock.clone(), Arc::new(storage.clone()));
            // No fault later on that was meant for the start.
            self.storage.plan(u64::MAX, Fault::Crash);
            match started {
                Ok(broker) if !self.has_crashed() => {
                    self.broker = Some(broker);
                    break;
                }
                Ok(broker) => broker.kill(),
                Err(error) => assert!(self.has_crashed(), "seed {}: {error}", self.seed),
            }
            if self.random.one_in(2) {
                self.storage.cut_power().unwrap();
            }
        }
        self.settle();
    }

    /// Ends the broker as if it had been killed, or the power was cut.
    fn crash(&mut self) {
        self.storage.crash();
        self.broker.take().unwrap().kill();
        if self.random.one_in(2) {
            self.storage.cut_power().unwrap();
        }
        self.start();
    }

    /// The image shows the outcome of calls that were cut off.
    fn settle(&mut self) {
        for (name, made) in std::mem::take(&mut self.in_doubt) {
            let there = self.broker().rooms().controller.image().topic(name).map(|t| t.id);
            let before = self.lives.get(name).and_then(|life| life.id);
            if there.is_some() && there == before {
                continue;
            }
            self.lives.remove(name);
            if let Some(id) = there {
                let life = made.unwrap_or_else(|| panic!("seed {}: {name} came back", self.seed));
                self.lives.insert(name, Life { id: Some(id), ..life });
            }
        }
        self.verify();
    }

    fn step(&mut self) {
        let name = self.random.pick(&NAMES);
        if self.random.one_in(3) {
            let at = self.storage.changes() + self.random.below(30);
            self.storage.plan(at, Fault::Crash);
        }
        match (self.random.below(12), self.lives.contains_key(name)) {
            (0..=1, true) => self.delete(name),
            (_, false) => self.create(name),
            (2..=5, true) => self.produce(name),
            (6, true) => self.delete_records(name),
            (7..=8, true) => self.commit(name),
            (9, true) => {
                let which = self.random.pick(&Checkpoint::ALL);
                let _ = self.broker().rooms().partitions.checkpoint(which);
            }
            (10, true) => {
                self.broker.take().unwrap().stop();
                return self.start();
            }
            _ => self.clock.advance_ms(A_WHILE_MS),
        }
        if self.has_crashed() || self.random.one_in(12) {
            self.crash();
        }
    }

    fn create(&mut self, name: &'static str) {
        self.count += 1;
        let compacted = self.random.one_in(2);
        let partitions = 1 + self.random.below(MOST_PARTITIONS as u64) as i32;
        let configs = [
            ("cleanup.policy", if compacted { "compact" } else { "delete" }),
            ("internal.segment.bytes", "400"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("delete.retention.ms", "0"),
            ("file.delete.delay.ms", self.random.pick(&["0", "1000", "600000"])),
        ];
        let topic = NewTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            assignments: vec![],
            configs: configs.map(|(key, value)| (key.into(), Some(value.into()))).into(),
        };
        let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
        let controller = &self.broker().rooms().controller;
        let made =
            controller.blocking().create_topics(&[topic], defaults, &NoRules, false).pop().unwrap();
        let life = Life {
            number: self.count,
            id: made.as_ref().ok().map(|made| made.id),
            compacted,
            logs: (0..partitions).map(|_| Log::default()).collect(),
            commits: BTreeMap::new(),
        };
        match made {
            Ok(_) => drop(self.lives.insert(name, life)),
            Err(_) => drop(self.in_doubt.insert(name, Some(life))),
        }
    }

    fn delete(&mut self, name: &'static str) {
        let controller = &self.broker().rooms().controller;
        match controller.blocking().delete_topics(&[TopicName::Name(name.into())]).pop().unwrap() {
            Ok(_) => drop(self.lives.remove(name)),
            Err(_) => drop(self.in_doubt.insert(name, None)),
        }
    }

    fn partition(&self, name: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.broker().rooms().partitions.find_by_name(name, index)
    }

    fn produce(&mut self, name: &'static str) {
        let count = self.lives[name].logs.len() as u64;
        let index = self.random.below(count) as i32;
        for _ in 0..=self.random.below(4) {
            let (key, is_tombstone) = (self.random.below(3), self.random.one_in(4));
            let (storage, now_ms) = (self.storage.clone(), self.clock.wall_ms());
            let partition = self.partition(name, index);
            let life = self.lives.get_mut(name).unwrap();
            let log = &mut life.logs[index as usize];
            let tag = format!("life {} partition {index}", life.number);
            let key = format!("{tag} key {key}");
            let value = (!is_tombstone).then(|| format!("{tag} {}.{}", log.epoch, log.sequence));
            let builder = RecordBatchBuilder::new(Codec::None);
            let mut builder = builder.producer(7, log.epoch, log.sequence);
            builder.append(now_ms, Some(key.as_bytes()), value.as_deref().map(str::as_bytes), &[]);
            let batch = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
            let batch = ValidatedBatch::trusted(&batch).unwrap();
            let appended = partition.map_err(|_| ()).and_then(|partition| {
                let appended = partition.append(&batch, true, now_ms).map_err(drop)?;
                let (end, epoch) = (appended.end_offset, appended.leader_epoch);
                let is_safe = || partition.commit_status(end, epoch) == CommitStatus::Committed;
                let has_failed = || storage.has_crashed();
                awaited::until("an append is acknowledged", || is_safe() || has_failed());
                if is_safe() { Ok(appended.base_offset.0) } else { Err(()) }
            });
            let Ok(offset) = appended else {
                assert!(storage.has_crashed(), "seed {}", self.seed);
                log.in_doubt.insert(key);
                (log.epoch, log.sequence) = (log.epoch + 1, 0);
                return;
            };
            log.sequence += 1;
            let before = log.acknowledged.insert(offset, (key, value));
            assert_eq!(before, None, "seed {}: offset {offset} was given twice", self.seed);
        }
    }

    fn delete_records(&mut self, name: &'static str) {
        if self.lives[name].compacted {
            return;
        }
        let Ok(partition) = self.partition(name, 0) else { return };
        let to = self.random.below(partition.high_watermark().0 as u64 + 1) as i64;
        let log = &mut self.lives.get_mut(name).unwrap().logs[0];
        log.latest_start = log.latest_start.max(to);
        if partition.delete_records(Offset(to), self.clock.wall_ms()).is_ok()
            && self.broker().rooms().partitions.checkpoint_log_starts().is_ok()
        {
            let log = &mut self.lives.get_mut(name).unwrap().logs[0];
            log.start = log.start.max(to);
        }
    }

    fn commit(&mut self, name: &'static str) {
        let group = self.random.pick(&GROUPS);
        let life = self.lives.get_mut(name).unwrap();
        let partition = self.random.below(life.logs.len() as u64) as i32;
        let offset = life.number * 1_000 + self.random.below(1_000) as i64;
        let commit = Commit {
            topic: name.into(),
            topic_id: life.id.unwrap(),
            partition,
            offset,
            leader_epoch: -1,
            metadata: None,
        };
        let may_be = life.commits.entry((group, partition)).or_insert_with(|| vec![-1]);
        may_be.push(offset);
        let who = Committer {
            group_id: group.into(),
            generation: -1,
            retention_time_ms: -1,
            version: 9,
            ..Committer::default()
        };
        let broker = self.broker.as_ref().unwrap();
        if create_offsets_topic(broker).is_err() {
            return;
        }
        let groups = &broker.rooms().groups;
        let (answer, answered) = sync_channel(1);
        let answer = Box::new(move |errors| drop(answer.send(errors)));
        groups.commit(who, vec![commit], answer);
        // There are no answers once the disk is gone; the restart finds what the log has then.
        let mut errors = None;
        awaited::until("a commit is answered", || {
            errors = answered.try_recv().ok();
            errors.is_some() || self.storage.has_crashed()
        });
        if errors == Some(vec![ErrorCode::None]) {
            *may_be = vec![offset];
        }
    }

    /// Everything that can be seen is of the life that its name has now, and nothing is missing.
    fn verify(&mut self) {
        let groups = &self.broker().rooms().groups;
        let is_loaded = || {
            let made = create_offsets_topic(self.broker());
            made.is_ok() && GROUPS.iter().all(|group| groups.fetch(group, None).is_ok())
        };
        awaited::until("groups are loaded", is_loaded);
        for name in NAMES {
            let what = format!("seed {}, {name}", self.seed);
            for index in 0..MOST_PARTITIONS {
                self.verify_partition(name, index, &format!("{what}-{index}"));
                for group in GROUPS {
                    self.verify_commit(name, index, group, &format!("{what}-{index} of {group}"));
                }
            }
        }
    }

    fn verify_commit(&self, name: &str, index: i32, group: &'static str, what: &str) {
        let asked = [(name.to_owned(), vec![index])];
        let found = self.broker().rooms().groups.fetch(group, Some(&asked)).unwrap();
        let found = found.first().and_then(|(_, partitions)| partitions.first());
        let found = found.map_or(-1, |(_, value)| value.offset);
        let may_be = self.lives.get(name).and_then(|life| life.commits.get(&(group, index)));
        let may_be = may_be.map_or(&[-1][..], Vec::as_slice);
        assert!(may_be.contains(&found), "{what}: {found} is committed, not of {may_be:?}");
    }

    fn verify_partition(&self, name: &str, index: i32, what: &str) {
        let life = self.lives.get(name);
        let log = life.and_then(|life| life.logs.get(index as usize));
        let (Some(life), Some(log)) = (life, log) else {
            let error = self.partition(name, index).err();
            return assert_eq!(error, Some(ErrorCode::UnknownTopicOrPartition), "{what}");
        };
        let partition = self.partition(name, index).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(Some(partition.topic_id()), life.id, "{what}");
        let start = partition.log_start_offset().0;
        let starts = log.start..=log.latest_start;
        assert!(starts.contains(&start), "{what}: it starts at {start}, not in {starts:?}");
        let there = stored(&partition);
        let tag = format!("life {} partition {index} ", life.number);
        let mut values = BTreeSet::new();
        for (offset, (key, value)) in &there {
            assert!(key.starts_with(&tag), "{what}: {key} at {offset}, in {tag}");
            let is_new = value.as_ref().is_none_or(|value| values.insert(value.clone()));
            assert!(is_new, "{what}: {value:?} is there twice");
        }
        for (offset, entry) in log.acknowledged.range(start..) {
            let found = there.get(offset);
            match found {
                Some(found) => assert_eq!(found, entry, "{what}: offset {offset}"),
                None => assert!(life.compacted, "{what}: offset {offset} is gone"),
            }
            let last = log.acknowledged.range(offset + 1..).all(|(_, later)| later.0 != entry.0);
            if !last || log.in_doubt.contains(&entry.0) || found.is_some() {
                continue;
            }
            // The last word about a key may only be missing if it deleted it, and all before it.
            assert_eq!(entry.1, None, "{what}: the last value of {} is gone", entry.0);
            let older = there.values().find(|(key, _)| *key == entry.0);
            assert_eq!(older, None, "{what}: a deleted key came back");
        }
    }
}

/// The records that can be read, by offset.
fn stored(partition: &Partition) -> BTreeMap<i64, Entry> {
    let (start, end) = (partition.log_start_offset(), partition.high_watermark());
    let mut found = BTreeMap::new();
    if start == end {
        return found;
    }
    let read = partition.log().read(start, u32::MAX, end, true).unwrap();
    let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        let records = batch.records(1 << 20).unwrap();
        for record in records.iter().map(Result::unwrap).filter(|one| one.offset >= start) {
            found.insert(record.offset.0, (text(record.key.unwrap()), record.value.map(text)));
        }
    }
    found
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().expect("a number"))
}

/// If the broker was killed at a certain moment, a topic inherited its predecessor's log start,
/// cleaner checkpoint, committed offsets or directory.
#[test]
fn nothing_of_a_topic_is_seen_in_the_next_one_of_its_name() {
    let first = number("KAFKALITE_SEED", 0);
    for seed in first..first + number("KAFKALITE_ROUNDS", ROUNDS) {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.crash();
        world.broker.take().unwrap().stop();
    }
}

/// The same at each change of a file that a name's end and its next beginning take, one after the
/// other: the metadata log, the rename, the checkpoints, the new directory, the group's records.
#[test]
fn a_name_may_be_given_again_around_a_crash_at_every_change() {
    let life = |world: &mut World, name| {
        let steps: [fn(&mut World, &'static str); 7] = [
            World::create,
            World::produce,
            World::produce,
            World::delete_records,
            World::commit,
            |world, _| drop(world.broker().rooms().partitions.checkpoint(Checkpoint::LogStart)),
            World::delete,
        ];
        for step in steps {
            // Created is what is not there, and all else needs it.
            if world.has_crashed() {
                return;
            }
            step(world, name);
        }
    };
    let mut changes = 0;
    for at in 0.. {
        let mut world = World::new(at);
        world.never_cut_off = true;
        life(&mut world, "t");
        let before = world.storage.changes();
        world.storage.plan(before + at, Fault::Crash);
        life(&mut world, "t");
        let was_cut_off = world.has_crashed();
        world.crash();
        if world.lives.contains_key("t") {
            world.delete("t");
        }
        life(&mut world, "t");
        world.crash();
        world.broker.take().unwrap().stop();
        if !was_cut_off {
            break;
        }
        changes = at;
    }
    assert!(changes > 40, "only {changes} changes: the test does too little");
}
