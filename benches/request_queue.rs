//! What does the way through the request queue cost, beside running a request on the spot?
//!
//! `inline`: `submit` runs it at once. `queued`: into the queue and out of it on the same thread,
//! so the price of the structure without a wake. `hop`: an I/O thread takes it and answers while we
//! wait, so two wakes on top. The handler only answers.
#![allow(missing_docs, reason = "criterion's macros")]

use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use kafkalite_broker::clock::{Clock, SystemClock};
use kafkalite_broker::handlers::policy;
use kafkalite_broker::io_threads::IoThreads;
use kafkalite_broker::metrics::Metrics;
use kafkalite_broker::request_queue::{
    Audience, ConnectionRequests, InlineGate, InlineMode, Lane, LaneBounds, Request,
    RequestContext, RequestQueue, Work,
};
use kafkalite_broker::response_queue::{Responder, Response};
use kafkalite_protocol::header::RequestHeader;

const PRODUCE: i16 = 0;
const FRAME_BYTES: usize = 16_384;

struct Room {
    queue: Arc<RequestQueue>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    context: Arc<RequestContext>,
}

impl Room {
    fn new() -> Self {
        let (clock, metrics) = (Arc::new(SystemClock::new()), Arc::new(Metrics::new()));
        let bounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };
        let run = Arc::new(|request: Request| request.responder.send(Response::NoResponse));
        let clock: Arc<dyn Clock> = clock;
        let queue = RequestQueue::new(
            bounds,
            bounds,
            run,
            policy,
            Arc::clone(&clock),
            Arc::clone(&metrics),
        );
        let local = "127.0.0.1:9092".parse().expect("an address");
        let listener = Arc::from("PLAINTEXT");
        let clients = Audience::Clients;
        let context = Arc::new(RequestContext::anonymous((local, local), listener, clients, 1));
        Self { queue, clock, metrics, context }
    }

    fn request(&self, answer: impl FnOnce(Response) + Send + 'static) -> Request {
        let client_id = Some("bench".to_owned());
        Request {
            header: RequestHeader {
                api_key: PRODUCE,
                api_version: 9,
                correlation_id: 1,
                client_id,
            },
            body: Bytes::new(),
            context: Arc::clone(&self.context),
            lane: Lane::Data,
            responder: Responder::to(PRODUCE, 9, answer),
            received_ns: self.clock.monotonic_ns(),
        }
    }

    fn submit(
        &self,
        connection: &Arc<ConnectionRequests>,
        gate: &mut InlineGate,
        answer: impl FnOnce(Response) + Send + 'static,
    ) {
        let place =
            self.queue.enter(Lane::Data, FRAME_BYTES, &mut None).expect("the queue is empty");
        gate.next_turn();
        self.queue.submit(connection, self.request(answer), place, gate);
    }
}

fn gate(mode: InlineMode) -> InlineGate {
    InlineGate::new(mode, 32 << 10)
}

fn request_queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request_queue");
    let room = Room::new();
    let connection = Arc::new(ConnectionRequests::default());
    let mut inline = gate(InlineMode::Always);
    group.bench_function("inline", |bencher| {
        bencher.iter(|| room.submit(&connection, &mut inline, |_| ()));
    });
    let mut never = gate(InlineMode::Never);
    group.bench_function("queued", |bencher| {
        bencher.iter(|| {
            room.submit(&connection, &mut never, |_| ());
            let Some(Work::Connection(taken)) = room.queue.try_take() else { return };
            while let Some((request, place)) = taken.next() {
                request.responder.send(Response::NoResponse);
                drop(place);
            }
        });
    });
    let (answered, answers) = mpsc::channel();
    let threads = IoThreads::start(1, Arc::clone(&room.queue), &room.clock, &room.metrics)
        .expect("a thread starts");
    group.bench_function("hop", |bencher| {
        bencher.iter(|| {
            let answered = answered.clone();
            room.submit(&connection, &mut never, move |_| {
                let _ = answered.send(thread::current().id());
            });
            answers.recv().expect("the I/O thread answers")
        });
    });
    threads.stop();
}

criterion_group!(benches, request_queue);
criterion_main!(benches);
