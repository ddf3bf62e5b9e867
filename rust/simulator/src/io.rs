//! What a node gets with each event, and what it gives back: nodes touch neither the network nor
//! the schedule.

use crate::checker::Checker;
use crate::message::{Message, Node};
use crate::planted::Planted;
use crate::rng::Rng;
use kafkalite_log::LogEnd;

/// What a node asks itself to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// A broker: register or send a heartbeat.
    Heartbeat,
    /// A broker: fetch as a follower of this partition.
    Follow,
    /// A broker: look after the in-sync replicas.
    Replicas,
    /// A broker: the timer may have something due.
    Timer,
    /// A broker: put the logs on the disk that acknowledgements wait for.
    Flush,
    /// A broker: the log manager may have something to do.
    Chores,
    /// A broker: an I/O thread goes on with the admitted append of this number.
    Append(u64),
    /// A broker: the end of an append is reported to its partition's state.
    Report {
        /// The partition.
        partition: usize,
        /// Which of the broker's replicas of it, one after another.
        stay: u32,
        /// Where the log ended after the append.
        end: LogEnd,
    },
    /// A broker: the coordinator's records are read on.
    Load,
    /// A broker or the controller: the publisher goes on with what is committed.
    Publish,
    /// A broker: the followers of the image learn the newest one.
    Tell,
    /// The controller: the outcome of the proposal of this number.
    Proposal(u64),
    /// The controller: whose session is over?
    Sessions,
    /// A client: go on.
    Client,
}

/// Who asked, over which connection.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The node.
    pub node: Node,
    /// Its process, or its connection.
    pub process: u32,
    /// The request.
    pub id: u64,
}

/// What comes out of a node.
#[derive(Debug)]
pub enum Output {
    /// A message; `id` names a request and its answer.
    Send {
        /// To whom.
        to: Node,
        /// To which process or connection of it; `None` is the present one.
        process: Option<u32>,
        /// Of the request.
        id: u64,
        /// What.
        message: Message,
    },
    /// A tick of the same process.
    After(u64, Tick),
}

/// The inputs and outputs of one event.
pub struct Io<'a> {
    /// Virtual time, ms.
    pub now_ms: u64,
    /// How often the outcome of a proposal of metadata is not as it should be, of a thousand.
    pub proposals: u64,
    /// The bug of this run, if one is planted.
    pub planted: Option<Planted>,
    /// Random numbers of the nodes.
    pub rng: &'a mut Rng,
    /// Who watches.
    pub checker: &'a mut Checker,
    /// What the node does.
    pub out: &'a mut Vec<Output>,
}

impl Io<'_> {
    /// Sends a message.
    pub fn send(&mut self, to: Node, id: u64, message: Message) {
        self.out.push(Output::Send { to, process: None, id, message });
    }

    /// Sends the answer to a request that was not answered at once.
    pub fn answer(&mut self, to: Asker, message: Message) {
        let Asker { node, process, id } = to;
        self.out.push(Output::Send { to: node, process: Some(process), id, message });
    }

    /// Asks for a tick.
    pub fn after(&mut self, delay_ms: u64, tick: Tick) {
        self.out.push(Output::After(delay_ms, tick));
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }
}

/// What a run of the cluster has in common.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many brokers there are; their ids begin at 1.
    pub brokers: i32,
    /// How many of them have a replica of each partition at first.
    pub replicas: i32,
    /// Partitions with data. The one after them is the group's.
    pub partitions: usize,
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// `retention.ms` of the data; -1 keeps all.
    pub retention_ms: i64,
    /// How often a thread stands still between two locks, of a thousand.
    pub stalls: u64,
    /// `flush.messages=1`: nothing counts before it is on the disk.
    pub flush_messages: bool,
}

impl Settings {
    /// The partition that keeps the group.
    #[must_use]
    pub fn group_partition(&self) -> usize {
        self.partitions
    }

    /// Every partition.
    pub fn all(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.partitions
    }
}
