//! A thread that fills batches, beside brokers and a sender that do what the test says.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use kafkalite_connection::testing::{
    Answer, Asked, FakeBroker, Held, NODE, OTHER, hold, release, two, wait_held,
};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::produce::{
    LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, Records};

use super::*;
use crate::awaited;
use crate::producer::accumulator::{self, Record};
use crate::producer::idempotence::Identity;
use crate::runtime::Runtime;

const LIMIT: Duration = awaited::LIMIT;

/// The answer to a produce request for one partition: its offset, or that the other broker leads.
fn produced(asked: &Asked, base_offset: Option<i64>) -> Answer {
    let request: ProduceRequest = asked.read();
    let told = &request.topic_data[0];
    let moved = LeaderIdAndEpoch { leader_id: OTHER, leader_epoch: 1 };
    let partition = PartitionProduceResponse {
        index: told.partition_data[0].index,
        error_code: base_offset.map_or(ErrorCode::NotLeaderOrFollower, |_| ErrorCode::None).code(),
        base_offset: base_offset.unwrap_or(-1),
        current_leader: if base_offset.is_none() { moved } else { LeaderIdAndEpoch::default() },
        ..PartitionProduceResponse::default()
    };
    let topic = TopicProduceResponse {
        name: told.name.clone(),
        topic_id: told.topic_id,
        partition_responses: vec![partition],
    };
    let response = ProduceResponse { responses: vec![topic], ..ProduceResponse::default() };
    asked.answer::<ProduceRequest>(&response)
}

/// The first value of the only batch.
fn value(asked: &Asked) -> u8 {
    let request: ProduceRequest = asked.read();
    let records = request.topic_data[0].partition_data[0].records.clone();
    let Some(Records::Bytes(bytes)) = records else { panic!("no records") };
    let batch = RecordBatch::parse(&bytes).unwrap();
    let records = batch.records(1 << 24).unwrap();
    records.iter().next().unwrap().unwrap().value.unwrap()[0]
}

/// Appends records until a batch is full.
fn fill(accumulator: &Accumulator<()>, value: u8) {
    let topic = accumulator.follow("t", Uuid::ZERO, 1);
    let value = [value; 400];
    let record = Record { timestamp_ms: 5, key: None, value: Some(&value), headers: (0, &[]) };
    let mut records = std::iter::repeat(record).peekable();
    let run = accumulator.append_run(&topic, 0, &mut records, None, None);
    assert!(run.ok().unwrap().filled);
}

struct World {
    accumulator: Arc<Accumulator<()>>,
    outbox: Arc<Outbox<()>>,
    told: mpsc::UnboundedReceiver<Event>,
    /// Told when a thread waits for a place in flight.
    waiting: std::sync::mpsc::Receiver<()>,
    /// Carries the connections.
    _runtime: Runtime,
}

impl World {
    /// Connected to both brokers, and an idempotent producer; it waits for a place for as long as
    /// the test may take, and every answer is a quick one.
    fn new(bootstrap: &FakeBroker) -> Self {
        let pairs = [
            ("bootstrap.servers", bootstrap.place.to_string()),
            ("batch.size", "1000".to_owned()),
            ("max.request.size", "1000".to_owned()),
        ];
        let pairs: BTreeMap<_, _> =
            pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let config = ProducerConfig::from_pairs(&pairs).unwrap();
        let settings = accumulator::Settings {
            batch_size: config.batch_size,
            buffer_memory: config.buffer_memory,
            max_request_size: config.max_request_size,
            partitioner: config.partitioner,
            ignore_keys: config.partitioner_ignore_keys,
        };
        let accumulator = Accumulator::new(settings, 1);
        let cluster = Cluster::new(config.client.connection.clone());
        let runtime = Runtime::start("test").unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let (known, waiting) = (cluster.clone(), Arc::clone(&accumulator));
        let mut outbox = Outbox::new(config, known, waiting, Arc::new(()), Arc::default(), tell);
        let (waits, waiting) = std::sync::mpsc::channel();
        let own = Arc::get_mut(&mut outbox).unwrap();
        (own.patience, own.quick, own.waiting) = (LIMIT, LIMIT, Some(waits));
        outbox.is_quick.store(true, Ordering::Relaxed);
        let connect = async move {
            let soon = Instant::now() + LIMIT;
            cluster.topic("t", soon).await?;
            Ok([cluster.connection(NODE).await?, cluster.connection(OTHER).await?])
        };
        let connections = runtime.call(connect, Instant::now() + LIMIT).unwrap();
        let mut state = outbox.lock();
        for (node, connection) in (NODE..).zip(connections) {
            state.connected(node, connection);
        }
        state.dispatch.identified(Identity { producer_id: 7, epoch: 0 });
        drop(state);
        Self { accumulator, outbox, told, waiting, _runtime: runtime }
    }

    /// Takes the next answer, as the sender does.
    fn take_answer(&mut self) {
        let mut event = None;
        awaited::until("a request is answered", || {
            event = self.told.try_recv().ok();
            event.is_some()
        });
        let Some(Event::Answered(id, answers)) = event else { panic!("a request failed") };
        self.outbox.lock().dispatch.answered(id, answers, Instant::now());
        self.outbox.made_room();
    }
}

/// The retry was queued for the new leader, and the connection to the old one was written: it lay
/// there until the request's time was over.
#[test]
fn what_waits_for_a_place_when_its_leader_moves_is_written_to_the_new_one() {
    let (held, written) = (Arc::new(Held::default()), Arc::new(Mutex::new(Vec::new())));
    let (of_first, of_second) = (Arc::clone(&held), Arc::clone(&written));
    let [first, second] = two(
        move |asked| match asked.is(ApiKey::Produce) {
            true => hold(&of_first, produced(asked, None)),
            false => Answer::Usual,
        },
        move |asked| match asked.is(ApiKey::Produce) {
            true => {
                of_second.lock().push(value(asked));
                produced(asked, Some(2 * asked.before as i64))
            }
            false => Answer::Usual,
        },
    );
    let mut world = World::new(&first);
    fill(&world.accumulator, b'a');
    let queue = Arc::clone(&world.accumulator.follow("t", Uuid::ZERO, 1).queues()[0]);
    assert!(world.outbox.send_filled(&queue));
    fill(&world.accumulator, b'b');
    let (outbox, filled) = (Arc::clone(&world.outbox), Arc::clone(&queue));
    let filler = std::thread::spawn(move || outbox.send_filled(&filled));
    // The second batch waits for the answer to the first.
    // Nothing else takes the lock until then: a thread that finds it taken leaves the batch to the
    // sender, and this test has none.
    awaited::received("the second batch waits for a place", &world.waiting);
    assert!(world.outbox.lock().dispatch.is_claimed(queue.index()));
    wait_held(&held);
    release(&held);
    for _ in 0..3 {
        world.take_answer();
    }
    let _ends = awaited::within("the thread that waited has sent its batch");
    assert!(filler.join().unwrap(), "it left nothing to the sender");
    assert_eq!((written.lock().as_slice(), second.count(ApiKey::Produce)), (&b"ab"[..], 2));
}
