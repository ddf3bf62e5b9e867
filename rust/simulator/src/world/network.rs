//! The network: every message takes its time, some are lost, doubled, late or damaged.

use super::Event;
use crate::faults::Faults;
use crate::message::{Message, Node};
use crate::rng::Rng;
use crate::schedule::Schedule;
use bytes::{Bytes, BytesMut};
use kafkalite_broker::replication::Answer;
use kafkalite_protocol::Records;
use kafkalite_protocol::record_batch::Batches;
use std::collections::{BTreeMap, BTreeSet};

/// A message that is late is so by up to this, ms.
const LATE_MS: u64 = 300;
/// The first byte of a batch that its CRC covers.
const COVERED: usize = 21;

/// A connection that a node keeps, one at a time: the order of its messages holds, and none comes
/// twice. Requests that have none race with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    /// A broker's registration and heartbeats.
    Heartbeats,
    /// A leader's proposals, which have a connection of their own, as in Kafka.
    Proposals,
    /// A member and its coordinator.
    Group,
    /// The admin client's.
    Changes,
}

fn channel(message: &Message) -> Option<Channel> {
    match message {
        Message::Register
        | Message::Registered(_)
        | Message::Heartbeat { .. }
        | Message::Metadata(_) => Some(Channel::Heartbeats),
        Message::AlterPartition(_) | Message::Altered(..) | Message::AssignReplicas(_) => {
            Some(Channel::Proposals)
        }
        Message::Group(_) | Message::GroupAnswer(_) => Some(Channel::Group),
        Message::Change(_) | Message::Changed(_) => Some(Channel::Changes),
        Message::Produce(_)
        | Message::Produced(_)
        | Message::Fetch(_)
        | Message::Fetched(_)
        | Message::Ask(_)
        | Message::Answer(_) => None,
    }
}

/// A node and the number of its process.
type Process = (Node, u32);

/// Links and what is wrong with them.
pub struct Network {
    rng: Rng,
    /// Whether a message fails is drawn here, so that one kind of fault more or less changes
    /// nothing about the times of all messages.
    misfortune: Rng,
    cut: BTreeSet<(Node, Node)>,
    /// When the last message of a connection arrives.
    last_ms: BTreeMap<(Node, Node, Channel), u64>,
}

impl Network {
    /// A network without faults.
    #[must_use]
    pub fn new(rng: Rng, misfortune: Rng) -> Self {
        Self { rng, misfortune, cut: BTreeSet::new(), last_ms: BTreeMap::new() }
    }

    /// Nothing goes from `from` to `to` any more.
    pub fn cut(&mut self, from: Node, to: Node) {
        self.cut.insert((from, to));
    }

    /// Every link works again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Puts a message on its way.
    pub fn send(
        &mut self,
        schedule: &mut Schedule<Event>,
        faults: &Faults,
        from: Process,
        to: Process,
        id: u64,
        message: Message,
    ) {
        let delay_ms = self.rng.between(0, 6);
        let fate = [(); 4].map(|()| self.misfortune.below(1_000));
        let how = self.misfortune.word();
        if self.cut.contains(&(from.0, to.0)) || fate[0] < faults.drop {
            return;
        }
        let late_ms = if fate[1] < faults.delay { how % LATE_MS } else { 0 };
        let message = match fate[2] < faults.corrupt {
            true => damaged(message, how),
            false => message,
        };
        let mut delay_ms = delay_ms + late_ms;
        let channel = channel(&message);
        if let Some(channel) = channel {
            let last_ms = self.last_ms.entry((from.0, to.0, channel)).or_insert(0);
            *last_ms = (schedule.now_ms() + delay_ms).max(*last_ms + 1);
            delay_ms = *last_ms - schedule.now_ms();
        } else if fate[3] < faults.duplicate {
            let again = Event::Deliver { from, to, id, message: message.clone() };
            schedule.after(delay_ms + how % LATE_MS, again);
        }
        schedule.after(delay_ms, Event::Deliver { from, to, id, message });
    }
}

/// The message with one bit flipped in the batches it carries to a log.
fn damaged(message: Message, how: u64) -> Message {
    match message {
        Message::Produce(mut produce) => {
            produce.batch = flipped(&produce.batch, how);
            Message::Produce(produce)
        }
        Message::Fetched(mut fetched) => {
            fetched.batches = flipped(&fetched.batches, how);
            Message::Fetched(fetched)
        }
        Message::Answer(mut answer) => {
            if let Answer::Fetch(response) = &mut *answer {
                let told = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
                for records in told.filter_map(|one| one.records.as_mut()) {
                    let bytes = std::mem::take(records).into_bytes();
                    *records = Records::Bytes(flipped(&bytes, how));
                }
            }
            Message::Answer(answer)
        }
        other => other,
    }
}

/// Flips a bit that the CRC of its batch covers; the others are guarded by TCP's checksum alone, in
/// Kafka as here.
fn flipped(bytes: &Bytes, how: u64) -> Bytes {
    let how_far = usize::try_from(how >> 8).unwrap_or(0);
    let mut spans = Vec::new();
    let mut at = 0;
    for batch in Batches::new(bytes).map_while(Result::ok) {
        spans.push(at + COVERED..at + batch.bytes().len());
        at += batch.bytes().len();
    }
    let Some(span) = spans.get(how_far % spans.len().max(1)) else { return bytes.clone() };
    let at = span.start + how_far % span.len().max(1);
    let mut damaged = BytesMut::from(&bytes[..]);
    damaged[at] ^= 1 << (how % 8);
    damaged.freeze()
}
