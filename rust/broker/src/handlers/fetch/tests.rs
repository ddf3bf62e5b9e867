//! A session's client knows what full fetches would have given it, and no request waits longer than
//! it has to.

use super::*;
use crate::clock::Clock;
use client::{Asks, Client};
use house::{House, ME, OTHER};
use kafkalite_protocol::Offset;
use proptest::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

mod client;
mod following;
mod house;
mod throttled;

const PATIENCE: Duration = Duration::from_secs(20);
const TOPICS: [&str; 2] = ["calm", "wild"];
/// Of each topic at its start; one more may be added.
const PARTITIONS: i32 = 2;
/// A batch of one record is about as large.
const BATCH_BYTES: i32 = 90;

/// One step: of the broker, of time or of the client.
#[derive(Clone, Debug)]
enum Step {
    Append {
        topic: usize,
        partition: i32,
        batches: usize,
    },
    Roll {
        topic: usize,
        partition: i32,
    },
    DeleteRecords {
        topic: usize,
        partition: i32,
        keep: i64,
    },
    /// Deletes the topic, or makes it again.
    Toggle {
        topic: usize,
    },
    /// Deletes the topic and creates it again before any fetch looks.
    MakeAgain {
        topic: usize,
    },
    AddPartition {
        topic: usize,
    },
    /// Another leader or in-sync set: the high watermark stands still while `OTHER` is in it.
    Elect {
        topic: usize,
        partition: i32,
        leader: i32,
        alone: bool,
    },
    FailTheDisk,
    Want {
        topic: usize,
        partition: i32,
    },
    Refresh,
    Seek {
        nth: usize,
        offset: i64,
    },
    SwitchIsolation,
    /// Another client's session takes the only slot.
    Evict,
    Fetch(Asks),
    /// The longest wait is over.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let topic = 0..TOPICS.len();
    let place = (0..TOPICS.len(), 0..=PARTITIONS);
    let limit = prop_oneof![Just(1), Just(2 * BATCH_BYTES), Just(1 << 20)];
    let fetch = (0..4 * BATCH_BYTES, limit, prop_oneof![Just(0), Just(500)]);
    prop_oneof![
        12 => (place.clone(), 1..4_usize).prop_map(|((topic, partition), batches)| {
            Step::Append { topic, partition, batches }
        }),
        2 => place.clone().prop_map(|(topic, partition)| Step::Roll { topic, partition }),
        2 => (place.clone(), 0..5_i64).prop_map(|((topic, partition), keep)| {
            Step::DeleteRecords { topic, partition, keep }
        }),
        1 => topic.clone().prop_map(|topic| Step::Toggle { topic }),
        1 => topic.clone().prop_map(|topic| Step::MakeAgain { topic }),
        1 => topic.prop_map(|topic| Step::AddPartition { topic }),
        2 => (place.clone(), prop_oneof![4 => Just(ME), 1 => Just(OTHER)], any::<bool>()).prop_map(
            |((topic, partition), leader, alone)| Step::Elect { topic, partition, leader, alone },
        ),
        3 => place.prop_map(|(topic, partition)| Step::Want { topic, partition }),
        2 => Just(Step::Refresh),
        1 => (0..8_usize, 0..12_i64).prop_map(|(nth, offset)| Step::Seek { nth, offset }),
        1 => Just(Step::SwitchIsolation),
        1 => Just(Step::Evict),
        16 => fetch.prop_map(|(min_bytes, max_bytes, max_wait_ms)| {
            Step::Fetch(Asks { min_bytes, max_bytes, max_wait_ms })
        }),
        2 => Just(Step::Wait),
    ]
}

/// The whole play: a broker, its client, and the request that waits.
struct Play {
    house: House,
    client: Client,
    parked: Option<(FetchRequest, Asks, mpsc::Receiver<house::Answer>)>,
}

impl Play {
    fn new(version: i16) -> Self {
        let house = House::new();
        for topic in TOPICS {
            house.create(topic, PARTITIONS as usize);
        }
        let mut client = Client::new(version);
        for topic in TOPICS {
            (0..PARTITIONS).for_each(|partition| client.toggle(&house, topic, partition));
        }
        Self { house, client, parked: None }
    }

    fn take(&mut self, step: &Step) {
        let house = &self.house;
        match *step {
            Step::Append { topic, partition, batches } => {
                (0..batches).for_each(|_| house.append(TOPICS[topic], partition, 1));
            }
            Step::Roll { topic, partition } => {
                // A follower rolls when it appends, and this broker follows no leader here.
                let partition_here = house.partition(TOPICS[topic], partition);
                if let Some(partition) = partition_here.filter(|partition| partition.is_led()) {
                    let _ = partition.log().roll(house.clock.wall_ms());
                }
                house.append(TOPICS[topic], partition, 1);
            }
            Step::DeleteRecords { topic, partition, keep } => {
                if let Some(partition) = house.partition(TOPICS[topic], partition) {
                    let to = Offset((partition.high_watermark().0 - keep).max(0));
                    let _ = partition.delete_records(to, house.clock.wall_ms());
                }
            }
            Step::Toggle { topic } => match house.topic_id(TOPICS[topic]) {
                Some(_) => house.delete(TOPICS[topic]),
                None => house.create(TOPICS[topic], PARTITIONS as usize),
            },
            Step::MakeAgain { topic } => {
                house.delete(TOPICS[topic]);
                // Its deletion ends the wait, and that answer no longer holds afterwards.
                self.look_after_parked();
                self.house.create(TOPICS[topic], PARTITIONS as usize);
            }
            Step::AddPartition { topic } => house.add_partition(TOPICS[topic]),
            Step::Elect { topic, partition, leader, alone } => {
                let isr: &[i32] = if alone { &[ME] } else { &[ME, OTHER] };
                house.elect(TOPICS[topic], partition, leader, isr);
            }
            Step::FailTheDisk => house.fail_the_disk(),
            Step::Evict => self.evict(),
            Step::Wait => self.wait(),
            // The client does nothing while its request waits.
            _ if self.parked.is_some() => {}
            Step::Want { topic, partition } => self.client.toggle(house, TOPICS[topic], partition),
            Step::Refresh => self.client.refresh(house),
            Step::Seek { nth, offset } => self.client.seek(nth, offset),
            Step::SwitchIsolation => self.client.switch_isolation(),
            Step::Fetch(asks) => {
                self.fetch(asks);
            }
        }
        self.look_after_parked();
    }

    /// Sends a request. Returns how many partitions had records, if it was answered at once.
    fn fetch(&mut self, asks: Asks) -> Option<usize> {
        let request = self.client.request(asks);
        let answers = match self.house.fetch(&request, self.client.version()) {
            Ok(answers) => answers,
            Err(error) => {
                self.client.refused(error);
                return None;
            }
        };
        let full = self.client.full(&self.house);
        let at_once = asks.max_wait_ms == 0
            || asks.min_bytes == 0
            || self.client.enough(&self.house, asks.min_bytes).counted;
        match answers.try_recv() {
            Ok(answer) => {
                assert!(at_once, "it should have waited");
                let before = self.client.positions();
                let records = self.client.learn(&self.house, &request, answer);
                self.client.assert_knows(&full, records);
                self.client.assert_is_fair(&full, &before);
                Some(records)
            }
            Err(_) => {
                assert!(!at_once, "it waits although there is enough");
                self.parked = Some((request, asks, answers));
                None
            }
        }
    }

    fn look_after_parked(&mut self) {
        let Some((request, asks, answers)) = self.parked.take() else { return };
        let enough = self.client.enough(&self.house, asks.min_bytes);
        match answers.try_recv() {
            Ok(answer) => {
                assert!(enough.counted, "it was woken for nothing");
                self.client.learn(&self.house, &request, answer);
            }
            Err(_) => {
                assert!(!enough.exact, "a wake-up was missed");
                self.parked = Some((request, asks, answers));
            }
        }
    }

    fn wait(&mut self) {
        let Some((request, asks, answers)) = self.parked.take() else { return };
        let full = self.client.full(&self.house);
        self.house.clock.advance_ms(asks.max_wait_ms.unsigned_abs().into());
        let answer = answers.recv_timeout(PATIENCE).expect("every request is answered in time");
        let records = self.client.learn(&self.house, &request, answer);
        self.client.assert_knows(&full, records);
    }

    fn evict(&mut self) {
        // The client's session stays unused for long; if its request waits, the wait ends
        // meanwhile.
        self.wait();
        self.house.clock.advance_ms(200_000);
        let mut other = Client::new(12);
        other.toggle(&self.house, TOPICS[0], 0);
        let request = other.request(Asks::EVERYTHING);
        self.house.fetch(&request, 12).expect("a full fetch");
        self.house.clock.advance_ms(200_000);
    }

    /// Fetches until nothing comes any more: the client knows everything then.
    fn catch_up(&mut self) {
        self.wait();
        for _ in 0..100 {
            let before = self.client.positions();
            let records = self.fetch(Asks::EVERYTHING);
            if records == Some(0) && before == self.client.positions() {
                return;
            }
        }
        panic!("there is no end of it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_session_tells_what_full_fetches_would_tell_and_misses_no_wake_up(
        steps in prop::collection::vec(step(), 1..60),
        version in prop_oneof![Just(12_i16), Just(13_i16)],
        disk_fails in prop::bool::weighted(0.2),
    ) {
        let mut play = Play::new(version);
        for step in &steps {
            play.take(step);
        }
        if disk_fails {
            play.take(&Step::FailTheDisk);
        }
        play.catch_up();
    }
}

/// A client that wants every partition of a topic, knows everything and has opened its session.
fn settled(house: &House, topic: &str, partitions: i32) -> Client {
    house.create(topic, partitions as usize);
    let mut client = Client::new(12);
    (0..partitions).for_each(|partition| client.toggle(house, topic, partition));
    for _ in 0..2 {
        exchange(house, &mut client, Asks::EVERYTHING);
    }
    client
}

/// One request that is answered at once. Returns how many partitions had records.
fn exchange(house: &House, client: &mut Client, asks: Asks) -> usize {
    let request = client.request(asks);
    let answers = house.fetch(&request, client.version()).expect("the session is open");
    let answer = answers.try_recv().expect("it need not wait");
    client.learn(house, &request, answer)
}

#[test]
fn an_incremental_fetch_of_1000_partitions_with_3_changed_looks_at_3() {
    let house = House::new();
    let mut client = settled(&house, "t", 1_000);
    let looked_at = || house.looked_at.get();
    let before = looked_at();
    assert_eq!(exchange(&house, &mut client, Asks::EVERYTHING), 0);
    assert_eq!(looked_at(), before, "nothing moved");
    [17, 500, 999].into_iter().for_each(|partition| house.append("t", partition, 1));
    assert_eq!(exchange(&house, &mut client, Asks::EVERYTHING), 3);
    assert_eq!(looked_at(), before + 3);
    // Their new offsets are news to the broker; then they are clean as well.
    assert_eq!(exchange(&house, &mut client, Asks::EVERYTHING), 0);
    assert_eq!(looked_at(), before + 6);
    assert_eq!(exchange(&house, &mut client, Asks::EVERYTHING), 0);
    assert_eq!(looked_at(), before + 6);
}

#[test]
fn a_fetch_that_waits_looks_only_at_what_moves() {
    let house = House::new();
    let client = settled(&house, "t", 100);
    let before = house.looked_at.get();
    let asks = Asks { min_bytes: 2 * BATCH_BYTES, max_bytes: 1 << 20, max_wait_ms: 500 };
    let answers = house.fetch(&client.request(asks), client.version()).expect("an open session");
    house.append("t", 3, 1);
    assert!(answers.try_recv().is_err(), "one batch is too little");
    house.append("t", 70, 1);
    house.append("t", 3, 1);
    let (response, _) = answers.try_recv().expect("it is answered");
    let told = response.responses.iter().flat_map(|topic| &topic.partitions);
    assert_eq!(told.map(|data| data.partition_index).collect::<Vec<_>>(), [3, 70]);
    assert_eq!(house.looked_at.get(), before + 2);
}

/// An answer begins with a whole batch, whatever its limits. Once such a batch counted only up to
/// the limit of its partition, and the fetch waited for its whole time.
#[test]
fn a_first_batch_above_the_limit_of_its_partition_counts_whole() {
    for is_there_before in [true, false] {
        let house = House::new();
        house.create("t", 1);
        let mut client = Client::new(12);
        client.toggle(&house, "t", 0);
        if is_there_before {
            house.append("t", 0, 1);
        }
        let asks = Asks { min_bytes: BATCH_BYTES / 2, max_bytes: 1 << 20, max_wait_ms: 60_000 };
        let mut request = client.request(asks);
        request.topics[0].partitions[0].partition_max_bytes = 1;
        let answers = house.fetch(&request, 12).expect("a full fetch");
        if !is_there_before {
            house.append("t", 0, 1);
        }
        let answer = answers.try_recv().expect("the batch is larger than the fetch asks for");
        assert_eq!(client.learn(&house, &request, answer), 1);
    }
}

#[test]
fn a_fetch_from_a_segment_that_ends_gets_what_there_is() {
    let house = House::new();
    let mut client = Client::new(12);
    house.create("t", 1);
    client.toggle(&house, "t", 0);
    house.append("t", 0, 1);
    let asks = Asks { min_bytes: 10 * BATCH_BYTES, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    let answers = house.fetch(&client.request(asks), 12).expect("a full fetch");
    let partition = house.partition("t", 0).expect("it was made");
    partition.log().roll(house.clock.wall_ms()).expect("a new segment");
    assert!(answers.try_recv().is_err(), "there is too little");
    house.append("t", 0, 1);
    assert!(answers.try_recv().is_ok(), "the segment that is read will not grow");
}

#[test]
fn retention_that_moves_the_log_start_is_answered() {
    let house = House::new();
    let mut client = settled(&house, "t", 1);
    let partition = house.partition("t", 0).expect("it was made");
    house.append("t", 0, 1);
    exchange(&house, &mut client, Asks::EVERYTHING);
    exchange(&house, &mut client, Asks::EVERYTHING);
    let week_ms = partition.log_config().retention_ms;
    house.clock.advance_ms(week_ms.unsigned_abs() + 1_000);
    partition.retain(house.clock.wall_ms()).expect("old records go");
    assert_eq!(partition.log_start_offset(), Offset(1));
    let full = client.full(&house);
    exchange(&house, &mut client, Asks::EVERYTHING);
    client.assert_knows(&full, 0);
}

#[test]
fn a_follower_is_woken_by_records_above_the_high_watermark() {
    let house = House::new();
    house.create("t", 1);
    house.elect("t", 0, ME, &[ME, OTHER]);
    let mut client = Client::new(12);
    client.toggle(&house, "t", 0);
    let waits = Asks { min_bytes: 1, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    let from = |replica_id| {
        let request = FetchRequest { replica_id, ..client.request(waits) };
        house.fetch(&request, 12).expect("a full fetch")
    };
    let (consumer, follower) = (from(-1), from(OTHER));
    house.append("t", 0, 1);
    assert!(consumer.try_recv().is_err(), "the high watermark stands still");
    let (response, _) = follower.try_recv().expect("followers read to the log's end");
    assert!(response.session_id > 0);
    house.elect("t", 0, ME, &[ME]);
    assert!(consumer.try_recv().is_ok(), "an in-sync set of one lets it pass");
}

#[test]
fn appends_of_many_threads_wake_a_session_each_time() {
    const THREADS: i32 = 4;
    const EACH: i32 = 200;
    let house = House::new();
    let mut client = settled(&house, "t", THREADS);
    let asks = Asks { min_bytes: 1, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let house = &house;
            // Each thread appends to its own partition and to partition 0, which all share.
            scope.spawn(move || {
                for _ in 0..EACH {
                    house.append("t", thread, 1);
                    house.append("t", 0, 1);
                }
            });
        }
        let read = |client: &Client| client.positions().values().sum::<i64>();
        while read(&client) < i64::from(2 * THREADS * EACH) {
            let request = client.request(asks);
            let answers = house.fetch(&request, client.version()).expect("an open session");
            let answer = answers.recv_timeout(PATIENCE).expect("a wake-up was missed");
            client.learn(&house, &request, answer);
        }
    });
}

/// One append may publish the end of another append, which then has nothing left to publish. Once
/// the bytes of the other append were not counted, and the fetch waited for its whole time.
#[test]
fn bytes_that_several_appends_publish_together_all_count() {
    const THREADS: i32 = 4;
    const EACH: i32 = 5;
    let house = House::new();
    let mut client = settled(&house, "t", 1);
    house.append("t", 0, 1);
    let batch_bytes = house.partition("t", 0).expect("it was made").log().size_bytes();
    let all = i32::try_from(batch_bytes).expect("a small batch") * THREADS * EACH;
    let asks = Asks { min_bytes: all, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    for _ in 0..50 {
        exchange(&house, &mut client, Asks::EVERYTHING);
        let request = client.request(asks);
        let answers = house.fetch(&request, client.version()).expect("an open session");
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..EACH).for_each(|_| house.append("t", 0, 1)));
            }
        });
        let answer = answers.try_recv().expect("everything was appended");
        assert_eq!(client.learn(&house, &request, answer), 1);
    }
}
