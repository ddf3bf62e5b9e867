//! A consumer in assign mode: it reads one partition from its beginning.

use super::Guess;
use crate::checker::history::{Fate, Poll};
use crate::io::{Io, Tick};
use crate::log::values;
use crate::message::{Fetch, Fetched, Message, Node};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// A fetch without an answer is given up after this, ms.
const FETCH_MS: u64 = 80;

/// A reader of one partition.
pub struct Reader {
    number: u32,
    partition: usize,
    position: Offset,
    epoch: LeaderEpoch,
    in_flight: Option<(u64, u64)>,
    next_id: u64,
    /// Its next record is not the one behind its last: retention took what lay between.
    sought: bool,
}

impl Reader {
    /// The reader of this number.
    #[must_use]
    pub fn new(number: u32, partition: usize) -> Self {
        let epoch = LeaderEpoch::UNKNOWN;
        let (position, in_flight, next_id) = (Offset::ZERO, None, 0);
        Self { number, partition, position, epoch, in_flight, next_id, sought: false }
    }

    /// The partition it reads.
    #[must_use]
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// The offset it reads next.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.position
    }

    /// Goes on.
    pub fn tick(&mut self, guess: Guess, io: &mut Io<'_>) {
        let pause = io.rng.between(15, 40);
        io.after(pause, Tick::Client);
        if self.in_flight.is_some_and(|(_, sent_ms)| io.now_ms < sent_ms + FETCH_MS) {
            return;
        }
        // A broker with an older epoch than the reader's knows an older leader.
        let Some((leader, epoch)) = guess.filter(|(_, epoch)| *epoch >= self.epoch) else {
            return;
        };
        self.epoch = epoch;
        self.next_id += 1;
        self.in_flight = Some((self.next_id, io.now_ms));
        let fetch = Fetch {
            partition: self.partition,
            offset: self.position,
            claimed: epoch,
            last_fetched: LeaderEpoch::UNKNOWN,
            log_start: self.position,
            broker_epoch: None,
        };
        io.send(Node::Broker(leader), self.next_id, Message::Fetch(fetch));
    }

    /// The answer to fetch `id`.
    pub fn receive(&mut self, id: u64, fetched: &Fetched, io: &mut Io<'_>) {
        if self.in_flight.is_none_or(|(asked, _)| asked != id) {
            return;
        }
        self.in_flight = None;
        match fetched.error {
            ErrorCode::None => {}
            ErrorCode::OffsetOutOfRange if fetched.log_start > self.position => {
                (self.position, self.sought) = (fetched.log_start, true);
            }
            ErrorCode::OffsetOutOfRange => {
                let told = format!("{} of partition {}", self.position.0, self.partition);
                io.checker.report("position-beyond-log", told);
            }
            _ => return,
        }
        let (reader, partition) = (self.number, self.partition);
        for (offset, value) in values(&fetched.batches) {
            if offset < self.position {
                continue;
            }
            self.position = offset.plus(1);
            let (offset, fate_then) = (offset.0, Fate::Committed);
            let sought = std::mem::take(&mut self.sought);
            let poll = Poll { reader, partition, offset, value, sought, fate_then };
            io.checker.history.polls.push(poll);
        }
    }
}
