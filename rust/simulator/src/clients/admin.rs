//! An admin client: it deletes the group's topic, makes it again, and alters its config, one change
//! after another.

use crate::io::{Io, Tick};
use crate::message::{Change, Message, Node};
use kafkalite_protocol::{ErrorCode, Uuid};

/// A change without an answer is given up after this, ms.
const REQUEST_MS: u64 = 250;

/// The admin client.
#[derive(Default)]
pub struct Admin {
    /// Request, when it is given up, and what it asks for.
    in_flight: Option<(u64, u64, Change)>,
    /// The number of its connection; it begins a new one where an answer did not come.
    connection: u32,
    next_id: u64,
    stops: bool,
}

impl Admin {
    /// The number of its connection.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// Asks for nothing more.
    pub fn stop(&mut self) {
        self.stops = true;
    }

    /// Goes on. `live` is the topic as some broker knows it.
    pub fn tick(&mut self, live: Option<Uuid>, io: &mut Io<'_>) {
        let pause = io.rng.between(20, 160);
        io.after(pause, Tick::Client);
        match self.in_flight {
            Some((_, until_ms, _)) if io.now_ms < until_ms => return,
            // Its outcome is unknown.
            Some(_) => self.connection += 1,
            None => {}
        }
        self.in_flight = None;
        if self.stops {
            return;
        }
        self.next_id += 1;
        let (id, until_ms) = (self.next_id, io.now_ms + REQUEST_MS);
        // Each value is another one.
        let config = (100_000 + id).to_string();
        let change = match (live, io.rng.below(3)) {
            (Some(live), 0) => Change::Delete(live),
            (Some(_), _) => Change::Configure { config },
            (None, _) => Change::Create { config },
        };
        io.checker.topics.asked();
        self.in_flight = Some((id, until_ms, change.clone()));
        io.send(Node::Controller, id, Message::Change(change));
    }

    /// The answer to change `id`.
    pub fn receive(&mut self, id: u64, answer: Result<Option<Uuid>, ErrorCode>, io: &mut Io<'_>) {
        let Some((_, _, change)) = self.in_flight.take_if(|(asked, ..)| *asked == id) else {
            return;
        };
        let topics = &mut io.checker.topics;
        match (change, answer) {
            (Change::Create { config }, Ok(Some(id))) => topics.created(id, &config),
            (Change::Delete(_), Ok(Some(id))) => topics.deleted(id),
            (Change::Configure { config }, Ok(_)) => topics.configured(&config),
            // The log refused it: it does not count, and never will.
            (
                Change::Create { config } | Change::Configure { config },
                Err(ErrorCode::KafkaStorageError),
            ) => topics.refused(&config),
            _ => {}
        }
    }
}
