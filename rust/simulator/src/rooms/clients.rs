//! The clients of the real rooms: producers, readers, a member of a group, an administrator.
//!
//! Each has one request under way. A request without an answer is given up after a while, and its
//! outcome stays unknown.

mod admin;
mod member;
mod producer;
mod reader;

use super::planted::Planted;
use super::watch::Watch;
use super::wire::{self, Call};
use crate::checker::Violation;
use crate::checker::history::History;
use crate::rng::Rng;
use bytes::Bytes;
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_protocol::messages::Request;

pub use admin::Admin;
pub use member::Member;
pub use producer::Producer;
pub use reader::Reader;

/// The topic with records.
pub const DATA: &str = "data";

/// A request without an answer is given up after this, ms.
const REQUEST_MS: u64 = 250;

/// What a client gets with each event, and what it gives back.
pub struct Io<'a> {
    /// Virtual time, ms.
    pub now_ms: u64,
    /// Random numbers of the clients.
    pub rng: &'a mut Rng,
    /// The image of some broker: where clients think that leaders are.
    pub guess: &'a MetadataImage,
    /// The image of all that is committed. Only for checks.
    pub truth: &'a MetadataImage,
    /// What clients saw.
    pub history: &'a mut History,
    /// What the replicas show.
    pub watch: &'a Watch,
    /// What must not have happened.
    pub found: &'a mut Vec<Violation>,
    /// The bug of this run.
    pub planted: Option<Planted>,
    /// Faults are over: nothing new is begun.
    pub is_closing: bool,
    /// Requests on their way: to which broker, their numbers, and what.
    pub out: &'a mut Vec<(i32, u64, Call)>,
    /// The number of the next request.
    pub next_id: &'a mut u64,
}

impl Io<'_> {
    fn report(&mut self, kind: &'static str, detail: String) {
        self.found.push(Violation::new(kind, detail));
    }

    /// The leader of a partition, as far as clients know, and its epoch.
    fn leader(&self, topic: &str, partition: i32) -> Option<(i32, i32)> {
        let now = self.guess.partition(topic, partition)?;
        (now.leader >= 0).then_some((now.leader, now.leader_epoch.0))
    }

    /// Any broker.
    fn any_broker(&mut self) -> Option<i32> {
        let ids: Vec<i32> = self.guess.brokers.keys().copied().collect();
        self.rng.pick(&ids).copied()
    }
}

/// The request that a client has under way.
#[derive(Debug, Default)]
struct UnderWay {
    asked: Option<(u64, u64, i16)>,
}

impl UnderWay {
    /// Whether a request waits for its answer still.
    fn waits(&self, now_ms: u64) -> bool {
        self.asked.is_some_and(|(_, sent_ms, _)| now_ms < sent_ms + REQUEST_MS)
    }

    fn send<R: Request>(&mut self, broker: i32, request: &R, version: i16, io: &mut Io<'_>) {
        self.send_as(broker, Call::new(request, version), io);
    }

    fn send_as(&mut self, broker: i32, call: Call, io: &mut Io<'_>) {
        *io.next_id += 1;
        self.asked = Some((*io.next_id, io.now_ms, call.version));
        io.out.push((broker, *io.next_id, call));
    }

    /// The version of the request under way, if this is its answer.
    fn take(&mut self, id: u64) -> Option<i16> {
        self.asked.take_if(|(asked, ..)| *asked == id).map(|(.., version)| version)
    }
}

fn answer<R: Request>(version: i16, bytes: Option<Bytes>) -> Option<R::Response> {
    wire::decode::<R>(version, bytes?)
}

/// A client of any kind.
pub enum Client {
    /// Writes records.
    Producer(Producer),
    /// Reads them.
    Reader(Reader),
    /// Commits offsets.
    Member(Member),
    /// Changes topics.
    Admin(Admin),
}

impl Client {
    /// Goes on.
    pub fn tick(&mut self, io: &mut Io<'_>) {
        match self {
            Self::Producer(one) => one.tick(io),
            Self::Reader(one) => one.tick(io),
            Self::Member(one) => one.tick(io),
            Self::Admin(one) => one.tick(io),
        }
    }

    /// The answer to request `id`; `None`: its connection was closed.
    pub fn receive(&mut self, id: u64, bytes: Option<Bytes>, io: &mut Io<'_>) {
        match self {
            Self::Producer(one) => one.receive(id, bytes, io),
            Self::Reader(one) => one.receive(id, bytes, io),
            Self::Member(one) => one.receive(id, bytes, io),
            Self::Admin(one) => one.receive(id, bytes, io),
        }
    }
}
