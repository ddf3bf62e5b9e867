//! What a restart finds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;

use super::groups::{heartbeat, stable};
use super::*;
use crate::awaited;
use crate::coordinator::group_record::offset_record;

#[test]
fn groups_and_offsets_are_there_again() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    for offset in 0..10 {
        broker.commit("simple", "t", offset);
    }
    let again = broker.restarted();
    assert_eq!(again.committed("simple", "t"), Some(9));
    assert_eq!(heartbeat(&again, "g", &member, 1), 0);
    assert_eq!(again.groups.describe("g", 6), broker.groups.describe("g", 6));
}

#[test]
fn sessions_begin_anew_after_a_restart() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    let again = broker.restarted();
    again.pass(9_500);
    assert_eq!(heartbeat(&again, "g", &member, 1), 0);
    again.pass(10_000);
    assert_eq!(heartbeat(&again, "g", &member, 1), ErrorCode::UnknownMemberId as i16);
}

#[test]
fn while_loading_requests_are_put_off_and_heartbeats_are_not() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    let config = GroupCoordinatorConfig::default();
    let clock = Arc::clone(&broker.clock) as Arc<dyn Clock>;
    let timer = Arc::clone(&broker.timer) as Arc<dyn GroupTimer>;
    let topic = Arc::clone(&broker.topic) as Arc<dyn OffsetsTopic>;
    let groups = Arc::new(GroupCoordinator::new(config, clock, timer, topic));
    let loading = Broker { groups, ..broker };
    let error = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(heartbeat(&loading, "g", &member, 1), 0);
    assert_eq!(taken(&loading.commit("g", "t", 1)), [error]);
    assert_eq!(loading.groups.fetch("g", None), Err(error));
    assert_eq!(loading.groups.describe("g", 6).error_code, error as i16);
    assert_eq!(loading.groups.list(&[], &[]).0, error);
    loading.groups.load_all().unwrap();
    assert_eq!(loading.groups.describe("g", 6).group_state, "Stable");
}

/// A topic that is named before its partitions are there, as the image names it.
struct HalfMade {
    topic: Arc<MemoryTopic>,
    is_there: AtomicBool,
    named: mpsc::SyncSender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl OffsetsTopic for HalfMade {
    fn partition_count(&self) -> i32 {
        self.topic.partition_count()
    }

    fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.topic.id_of(topic)
    }

    fn create(&self) -> Result<(), ErrorCode> {
        self.topic.create()?;
        self.named.send(()).unwrap();
        awaited::received("the test lets the topic be made", &self.go_on.lock());
        self.is_there.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn append(&self, partition: i32, batch: Bytes, done: AppendDone, late: AppendLate) {
        self.topic.append(partition, batch, done, late);
    }

    fn read(&self, partition: i32, from: Option<Offset>) -> Result<Bytes, ErrorCode> {
        match self.is_there.load(Ordering::SeqCst) {
            true => self.topic.read(partition, from),
            false => Err(ErrorCode::NotCoordinator),
        }
    }
}

/// Two clients came first, at the same time: the second one found the topic in the image, and
/// failed to load each of its partitions.
#[test]
fn who_comes_while_the_topic_is_made_waits_for_its_partitions() {
    let (named, is_named) = mpsc::sync_channel(1);
    let (make, go_on) = mpsc::sync_channel(1);
    let topic = MemoryTopic::of(0);
    let (is_there, go_on) = (AtomicBool::new(false), Mutex::new(go_on));
    let half_made = HalfMade { topic, is_there, named, go_on };
    let groups = GroupCoordinator::new(
        GroupCoordinatorConfig::default(),
        Arc::new(ManualClock::new(0)),
        Arc::new(TestTimer::default()),
        Arc::new(half_made),
    );
    let _ends = awaited::within("both callers have the topic");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| groups.ensure_topic());
        awaited::received("the topic is named", &is_named);
        let second = scope.spawn(|| groups.ensure_topic());
        std::thread::yield_now();
        make.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (Ok(()), Ok(())));
    });
    assert_eq!(groups.describe("g", 6).group_state, "Dead");
}

#[test]
fn offsets_of_a_transaction_count_if_it_was_committed() {
    for (marker, expected) in [(1, Some(7)), (0, None)] {
        let topic = MemoryTopic::of(5);
        let partition = partition_of("g", 5);
        let value = kafkalite_protocol::messages::group_records::OffsetCommitValue {
            offset: 7,
            ..Default::default()
        };
        let record = offset_record("g", "t", 0, Some(&value));
        let mut open = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0).transactional();
        open.append(0, Some(&record.key), record.value.as_deref(), &[]);
        let mut end = RecordBatchBuilder::new(Codec::None).producer(9, 0, -1);
        end = end.transactional().control();
        end.append(0, Some(&[0, 0, 0, marker]), Some(&[0; 6]), &[]);
        for batch in [open, end] {
            let batch = batch.build(Offset(0), LeaderEpoch(0)).unwrap();
            topic.append(partition, batch, Box::new(|_| {}), Box::new(|| {}));
        }
        let broker = Broker::over(topic, 0);
        assert_eq!(broker.committed("g", "t"), expected, "marker {marker}");
    }
}

/// A broker whose second of three commits has this bit of its batch flipped.
fn damaged_at(byte: usize, bit: u8) -> Broker {
    let broker = Broker::with(MemoryTopic::of(1), 0, Codec::None);
    for offset in [1, 2, 3] {
        broker.commit("g", "t", offset);
    }
    let mut inner = broker.topic.inner.lock();
    let batch = &mut inner.partitions.get_mut(&0).unwrap()[1].1;
    let mut bytes = batch.to_vec();
    bytes[byte] ^= bit;
    *batch = Bytes::from(bytes);
    drop(inner);
    broker
}

/// A batch whose header is damaged was taken for the end of history: a group that had committed 3
/// was answered 1, as if the commits after it had never been.
#[test]
fn groups_behind_a_batch_whose_end_is_unknown_are_not_loaded() {
    // Its base offset, its length, its magic.
    for (byte, bit) in [(7, 1), (8, 0x40), (16, 0x40)] {
        let broker = damaged_at(byte, bit);
        let topic = Arc::clone(&broker.topic) as Arc<dyn OffsetsTopic>;
        let clock = Arc::clone(&broker.clock) as Arc<dyn Clock>;
        let timer = Arc::clone(&broker.timer) as Arc<dyn GroupTimer>;
        let config = GroupCoordinatorConfig::default();
        let again = GroupCoordinator::new(config, clock, timer, topic);
        assert_eq!(again.load_all(), Err(ErrorCode::CorruptMessage), "byte {byte}");
        assert_eq!(again.fetch("g", None), Err(ErrorCode::NotCoordinator));
        // Requests that come later do not have it read again and again.
        assert_eq!(again.ensure_topic(), Ok(()));
        assert_eq!(again.list(&[], &[]), (ErrorCode::None, Vec::new()));
    }
}

#[test]
fn a_batch_whose_records_are_damaged_is_left_out_and_what_follows_counts() {
    for byte in [17, HEADER_LENGTH + 12] {
        assert_eq!(damaged_at(byte, 0x40).restarted().committed("g", "t"), Some(3), "byte {byte}");
    }
}

#[test]
fn records_of_other_protocols_and_garbage_are_stepped_over() {
    let topic = MemoryTopic::of(5);
    let mut batch = RecordBatchBuilder::new(Codec::None);
    for key in [&b"\0\x03\0\x01g"[..], b"", b"\0\x01\0\x09", b"\0\x02\xff"] {
        batch.append(0, Some(key), Some(b"?"), &[]);
    }
    batch.append(0, None, None, &[]);
    let batch = batch.build(Offset(0), LeaderEpoch(0)).unwrap();
    topic.append(0, batch, Box::new(|_| {}), Box::new(|| {}));
    let broker = Broker::over(topic, 0);
    assert_eq!(broker.groups.list(&[], &[]), (ErrorCode::None, Vec::new()));
    stable(&broker, "g");
    assert!(broker.topic.batches() > 1);
}

#[test]
fn without_its_topic_every_group_is_gone_until_there_is_one_again() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    broker.topic.inner.lock().count = 0;
    broker.topic.inner.lock().partitions.clear();
    broker.groups.topics_deleted(&["__consumer_offsets".to_owned()]);
    assert_eq!(heartbeat(&broker, "g", &member, 1), ErrorCode::NotCoordinator as i16);
    broker.groups.ensure_topic().unwrap();
    assert_eq!(heartbeat(&broker, "g", &member, 1), ErrorCode::UnknownMemberId as i16);
}

#[test]
fn a_compressed_topic_is_read_back() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let broker = Broker::with(MemoryTopic::of(1), 1_000_000, codec);
        broker.commit("g", "t", 5);
        let batch = broker.topic.read(0, None).unwrap();
        assert_eq!(BatchHeader::parse(&batch).unwrap().codec().unwrap(), codec);
        assert_eq!(broker.restarted().committed("g", "t"), Some(5));
    }
}
