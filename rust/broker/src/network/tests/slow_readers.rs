//! A peer that reads slowly keeps its connection, although the broker cannot write for long.

use std::net::Shutdown;

use super::*;

/// What an answer is made of: more than the socket takes.
const ANSWER_BYTES: usize = 2 << 20;
/// More than the machine of the peer holds, and less than what lets the broker write again.
const SOME_BYTES: usize = 10_000;

/// A slow reader whose answer is being written, and another client of the same thread.
struct House {
    clock: Arc<ManualClock>,
    broker: Broker,
    other: Client,
    reader: Client,
    has_read: usize,
}

impl House {
    /// The broker has written what the socket takes. `half_closed`: the reader sends no more.
    fn new(half_closed: bool) -> Self {
        let config = NetworkConfig {
            max_idle_ms: 5_000,
            send_buffer_bytes: Some(200 << 10),
            ..NetworkConfig::default()
        };
        let clock = Arc::new(ManualClock::new(0));
        let bounds = LaneBounds { max_requests: 500, max_bytes: 64 << 20 };
        let run: RunRequest = Arc::new(|request| match request.header.api_key {
            METADATA => {
                let answer = frame(request.header.correlation_id, &vec![7; ANSWER_BYTES]);
                request.responder.send(answer);
            }
            _ => echo(request),
        });
        let handed = Arc::clone(&clock) as Arc<dyn Clock>;
        let broker = Broker::start_with(config, bounds, handed, run);
        let (other, mut reader) = (broker.connect(), broker.connect_slow_reader());
        reader.send(&request(METADATA, 1, b""));
        if half_closed {
            reader.stream.shutdown(Shutdown::Write).expect("it is connected");
        }
        let mut house = Self { clock, broker, other, reader, has_read: 0 };
        house.reads(SOME_BYTES);
        house.turns();
        house
    }

    /// The reader takes so many bytes.
    fn reads(&mut self, count: usize) {
        self.reader.stream.read_exact(&mut vec![0; count]).expect("the broker goes on writing");
        self.has_read += count;
    }

    /// The network thread does all that it can do now.
    fn turns(&mut self) {
        for id in 0..4 {
            self.other.send(&request(HEARTBEAT, id, b""));
            assert_eq!(self.other.receive_id(), id);
        }
    }

    /// The time passes, and what is due then is done.
    fn passes_ms(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        self.turns();
    }

    fn closed(&self) -> u64 {
        ["idle", "peer"]
            .map(|why| self.broker.counter("kafkalite_connections_closed", why))
            .iter()
            .sum()
    }
}

/// A reader of 200 KB/s lost its connection after five seconds, with most of its answer unread.
#[test]
fn a_peer_that_takes_its_answer_slowly_keeps_its_connection() {
    for half_closed in [false, true] {
        let mut house = House::new(half_closed);
        house.passes_ms(1_000);
        for _ in 0..3 {
            for ms in [2_000, 3_000] {
                house.reads(SOME_BYTES);
                house.passes_ms(ms);
            }
            assert_eq!(house.closed(), 0, "half closed: {half_closed}");
        }
        house.reads(4 + 4 + ANSWER_BYTES - house.has_read);
        house.turns();
        assert_eq!(house.closed(), u64::from(half_closed), "it has its answer");
    }
}

#[test]
fn a_peer_that_takes_nothing_more_of_its_answer_is_left() {
    for half_closed in [false, true] {
        let mut house = House::new(half_closed);
        house.passes_ms(1_000);
        house.reads(SOME_BYTES);
        // What the system sends by itself looks like a peer that reads, so it may take longer.
        let closed = || {
            house.passes_ms(1_000);
            house.closed() == 1
        };
        awaited::until("the connection ends", closed);
    }
}
