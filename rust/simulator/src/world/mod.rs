//! One run: a seed decides everything that happens to a cluster of three or four brokers.
//!
//! Faults happen for a while. Then the network heals, every broker runs, and the cluster has to
//! come to rest: full in-sync sets, everything read, the group settled. The checker runs at every
//! step, and the run ends at the first violation.

mod chaos;
mod healing;
mod moving;
mod network;

use crate::broker::{Broker, Disk};
use crate::checker::Checker;
use crate::clients::{Admin, Guess, Member, Producer, Reader};
use crate::controller::{Controller, WORK, partition_image};
use crate::drift::Drift;
use crate::faults::{Fault, Faults};
use crate::io::{Asker, Io, Output, Settings, Tick};
use crate::message::{Message, Node};
use crate::planted::Planted;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::sweep::{self, Level};
use crate::trace::Trace;
use kafkalite_protocol::Uuid;
use network::Network;

/// How long faults happen, ms.
const CHAOS_MS: u64 = 2_000;
/// How long the cluster may take to come to rest after that, ms.
const HEALING_MS: u64 = 6_000;
/// No run takes so many steps: one that does goes round in circles.
const MOST_STEPS: u64 = 60_000;
/// The first client of each kind.
const PRODUCERS: u32 = 0;
const READERS: u32 = 100;
const MEMBERS: u32 = 200;
const ADMIN: u32 = 300;

/// What clients achieved in a run.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Records that were read.
    pub polls: u64,
    /// Commits that the coordinator acknowledged.
    pub commits: u64,
    /// Changes of metadata that the controller acknowledged.
    pub changes: u64,
    /// Moves of partitions that ended.
    pub moves: u64,
}

/// Level 1: the broker's pure machines over logs in memory.
#[derive(Clone, Debug, Default)]
pub struct Machines;

pub(crate) type Options = sweep::Options<Machines>;
type Outcome = sweep::Outcome<Machines>;

/// What happens at a point of virtual time.
#[derive(Debug)]
enum Event {
    Deliver { from: (Node, u32), to: (Node, u32), id: u64, message: Message },
    Tick { node: Node, incarnation: u32, tick: Tick },
    Fault,
    Restart(i32),
    Operate,
    Reassign(usize, Vec<i32>),
    Heal,
    Look,
}

/// A broker's machine.
enum Host {
    Up(Box<Broker>),
    Down(Vec<Disk>),
}

enum Client {
    Producer(Producer),
    Reader(Reader),
    Member(Member),
    Admin(Admin),
}

/// The cluster, its clients, and what happens to them.
pub struct World {
    settings: Settings,
    planted: Option<Planted>,
    faults: Faults,
    schedule: Schedule<Event>,
    network: Network,
    chaos: Rng,
    nodes: Rng,
    trace: Trace,
    checker: Checker,
    controller: Controller,
    hosts: Vec<Host>,
    /// The number of each broker's newest process.
    incarnations: Vec<u32>,
    /// Until when each broker stands still, ms.
    paused_ms: Vec<u64>,
    /// The clocks of the controller and of each broker after it.
    clocks: Vec<Drift>,
    /// The broker that lost records with its power and is not in sync again.
    bereft: Option<i32>,
    clients: Vec<(u32, Client)>,
    healed: bool,
}

impl Level for Machines {
    type Fault = Fault;
    type Planted = Planted;
    type Work = Work;
    const PREFIX: &'static str = "";
    const PORTION: u64 = 1_000;

    fn run(options: &Options) -> Outcome {
        let mut world = World::new(options);
        world.start();
        let mut is_over = false;
        while !is_over && world.checker.is_clean() && world.trace.steps() < MOST_STEPS {
            let Some(event) = world.schedule.pop() else { break };
            is_over = world.step(event);
        }
        world.close(is_over)
    }
}

impl World {
    fn new(options: &Options) -> Self {
        let stream = |purpose| Rng::stream(options.seed, purpose);
        let mut chaos = stream(1);
        let faults = Faults::draw(&mut chaos, &options.without);
        let retention_ms = i64::try_from(chaos.between(150, 1_500)).unwrap_or(-1);
        let settings = Settings {
            brokers: if faults.has(Fault::Reassign) { 4 } else { 3 },
            replicas: 3,
            partitions: 1,
            min_isr: if chaos.chance(800) { 2 } else { 1 },
            flush_messages: chaos.chance(300),
            stalls: chaos.between(0, 250),
            retention_ms: if chaos.chance(500) { -1 } else { retention_ms },
        };
        let count = usize::try_from(settings.brokers).unwrap_or(0);
        let mut rates = stream(7);
        let clock = |_| match faults.has(Fault::ClockDrift) {
            true => Drift::draw(&mut rates),
            false => Drift::NONE,
        };
        let clocks = (0..=count).map(clock).collect();
        let disks = |at: usize| {
            let is_here = i32::try_from(at).is_ok_and(|at| at < settings.replicas);
            settings.all().map(|_| Disk { is_here, ..Disk::default() }).collect()
        };
        let data = |number: u32| usize::try_from(number).unwrap_or(0) % settings.partitions;
        let producer = |number: u32| Producer::new(number + 1, data(number), number != 1);
        let producers = (0..2).map(|n| (PRODUCERS + n, Client::Producer(producer(n))));
        let readers = (0..2).map(|n| (READERS + n, Client::Reader(Reader::new(n, data(n)))));
        let members = (0..3).map(|n| (MEMBERS + n, Client::Member(Member::new())));
        let admin = [(ADMIN, Client::Admin(Admin::default()))];
        Self {
            settings,
            planted: options.planted,
            network: Network::new(stream(2), stream(6)),
            faults,
            schedule: Schedule::new(stream(3)),
            chaos,
            nodes: stream(4),
            trace: Trace::new(options.keeps_text),
            checker: Checker::default(),
            controller: Controller::new(settings),
            hosts: (0..count).map(|at| Host::Down(disks(at))).collect(),
            incarnations: vec![0; count],
            paused_ms: vec![0; count],
            clocks,
            bereft: None,
            clients: producers.chain(readers).chain(members).chain(admin).collect(),
            healed: false,
        }
    }

    fn start(&mut self) {
        for broker in 1..=self.settings.brokers {
            self.schedule.after(0, Event::Restart(broker));
        }
        let tick = |node, tick| Event::Tick { node, incarnation: 0, tick };
        self.schedule.after(40, tick(Node::Controller, Tick::Sessions));
        for (number, _) in &self.clients {
            self.schedule.after(100, tick(Node::Client(*number), Tick::Client));
        }
        self.schedule.after(200, Event::Fault);
        if self.faults.has(Fault::Reassign) {
            self.schedule.after(200, Event::Operate);
        }
        self.schedule.after(CHAOS_MS, Event::Heal);
    }

    /// Where a broker stands in the lists.
    fn at(broker: i32) -> usize {
        usize::try_from(broker - 1).unwrap_or(0)
    }

    /// The number of a broker's process, or of a member's connection: with it everything ends that
    /// is on its way.
    fn incarnation(&self, node: Node) -> u32 {
        match node {
            Node::Broker(broker) => self.incarnations[Self::at(broker)],
            Node::Controller => 0,
            Node::Client(number) => {
                self.clients.iter().find(|(one, _)| *one == number).map_or(0, |(_, client)| {
                    match client {
                        Client::Member(member) => member.connection(),
                        Client::Admin(admin) => admin.connection(),
                        Client::Producer(_) | Client::Reader(_) => 0,
                    }
                })
            }
        }
    }

    /// The monotonic clock of a node.
    fn clock(&self, node: Node) -> Drift {
        match node {
            Node::Controller => self.clocks[0],
            Node::Broker(broker) => self.clocks[Self::at(broker) + 1],
            Node::Client(_) => Drift::NONE,
        }
    }

    fn broker(&self, broker: i32) -> Option<&Broker> {
        match &self.hosts[Self::at(broker)] {
            Host::Up(process) => Some(process),
            Host::Down(_) => None,
        }
    }

    /// One event. Whether the run is over.
    fn step(&mut self, event: Event) -> bool {
        self.note(&event);
        match event {
            Event::Deliver { from, to, id, message } => self.deliver(from, to, id, message),
            Event::Tick { node, incarnation, tick } => self.tick(node, incarnation, tick),
            Event::Fault => self.next_fault(),
            Event::Restart(broker) => self.restart(broker),
            Event::Operate => self.operate(),
            Event::Reassign(partition, replicas) => self.reassign(partition, Some(replicas)),
            Event::Heal => self.heal(),
            Event::Look => return self.look(),
        }
        false
    }

    fn note(&mut self, event: &Event) {
        let now_ms = self.schedule.now_ms();
        match event {
            Event::Deliver { from, to, id, message } => {
                let (name, kind) = message.kind();
                let words = [kind, from.0.code(), to.0.code(), *id, message.content()];
                let text = || format!("{:?} -> {:?} {id} {name} {message:?}", from.0, to.0);
                self.trace.step(now_ms, &words, text);
            }
            Event::Tick { node, tick, .. } => {
                let number = match tick {
                    Tick::Append(number) => 100 + number,
                    Tick::Report { end, .. } => 1 << 32 | end.offset.0.unsigned_abs(),
                    Tick::Follow => 50,
                    Tick::Heartbeat => 1,
                    Tick::Replicas => 2,
                    Tick::Timer => 3,
                    Tick::Flush => 4,
                    Tick::Load => 5,
                    Tick::Sessions => 6,
                    Tick::Client => 7,
                    Tick::Publish => 8,
                    Tick::Tell => 9,
                    Tick::Chores => 10,
                    Tick::Proposal(number) => 1 << 24 | number,
                };
                let text = || format!("{node:?} {tick:?}");
                self.trace.step(now_ms, &[20, node.code(), number], text);
            }
            Event::Restart(broker) => {
                let text = || format!("broker {broker} starts");
                self.trace.step(now_ms, &[21, u64::from(broker.unsigned_abs())], text);
            }
            Event::Heal => self.trace.step(now_ms, &[22], || "the faults end".to_owned()),
            Event::Fault | Event::Look | Event::Operate | Event::Reassign(..) => {}
        }
    }

    /// Runs `event` with what a node may use, and carries out what it does.
    fn with_io(&mut self, node: Node, event: impl FnOnce(&mut Self, &mut Io<'_>)) {
        let (now_ms, clock) = (self.schedule.now_ms(), self.clock(node));
        let mut out = Vec::new();
        let mut checker = std::mem::take(&mut self.checker);
        let mut nodes = self.nodes.clone();
        let mut io = Io {
            now_ms: clock.shown_ms(now_ms),
            proposals: self.faults.proposals,
            planted: self.planted,
            rng: &mut nodes,
            checker: &mut checker,
            out: &mut out,
        };
        event(self, &mut io);
        (self.checker, self.nodes) = (checker, nodes);
        let from = (node, self.incarnation(node));
        for output in out {
            match output {
                Output::After(delay_ms, tick) => {
                    let event = Event::Tick { node, incarnation: from.1, tick };
                    self.schedule.after(clock.until(now_ms, delay_ms), event);
                }
                Output::Send { to, process, id, message } => {
                    let to = (to, process.unwrap_or_else(|| self.incarnation(to)));
                    self.network.send(&mut self.schedule, &self.faults, from, to, id, message);
                }
            }
        }
    }

    fn tick(&mut self, node: Node, incarnation: u32, tick: Tick) {
        let is_client = matches!(node, Node::Client(_));
        if !is_client && incarnation != self.incarnation(node) {
            return;
        }
        match node {
            Node::Controller => self.with_io(node, |world, io| {
                world.controller.tick(tick, io);
            }),
            Node::Broker(broker) => {
                if let Some(wait_ms) = self.stands_still(broker) {
                    self.schedule.after(wait_ms, Event::Tick { node, incarnation, tick });
                    return;
                }
                self.with_io(node, |world, io| {
                    if let Host::Up(process) = &mut world.hosts[Self::at(broker)] {
                        process.tick(tick, io);
                    }
                });
                self.observe(broker);
            }
            Node::Client(number) => {
                let (guess, topic) = self.guess(number);
                self.with_io(node, |world, io| match world.client(number) {
                    Some(Client::Producer(producer)) => producer.tick(guess, io),
                    Some(Client::Reader(reader)) => reader.tick(guess, io),
                    Some(Client::Member(member)) => member.tick(guess, topic, io),
                    Some(Client::Admin(admin)) => admin.tick(topic.map(|topic| topic.0), io),
                    None => {}
                });
            }
        }
    }

    fn client(&mut self, number: u32) -> Option<&mut Client> {
        let found = self.clients.iter_mut().find(|(one, _)| *one == number);
        found.map(|(_, client)| client)
    }

    /// For how long a broker stands still from now on.
    fn stands_still(&self, broker: i32) -> Option<u64> {
        let until_ms = self.paused_ms[Self::at(broker)];
        let now_ms = self.schedule.now_ms();
        (until_ms > now_ms).then(|| until_ms - now_ms)
    }

    /// What a client learns from some broker that runs: of its partition, and of the group's topic
    /// with the offset of the broker's image.
    fn guess(&mut self, number: u32) -> (Guess, Option<(Uuid, i64)>) {
        let partition = match self.client(number) {
            Some(Client::Producer(producer)) => producer.partition(),
            Some(Client::Reader(reader)) => reader.partition(),
            _ => self.settings.group_partition(),
        };
        let broker = i32::try_from(self.nodes.between(1, self.hosts.len() as u64)).unwrap_or(1);
        let Some(image) = self.broker(broker).map(Broker::image) else { return (None, None) };
        let known = partition_image(&image, &self.settings, partition);
        let known = known.filter(|known| known.leader != -1);
        let topic = image.topic(WORK).map(|topic| (topic.id, image.offset));
        (known.map(|known| (known.leader, known.leader_epoch)), topic)
    }

    fn deliver(&mut self, from: (Node, u32), to: (Node, u32), id: u64, message: Message) {
        // A connection ends with either of its processes.
        if from.1 != self.incarnation(from.0) || to.1 != self.incarnation(to.0) {
            return;
        }
        if let Node::Broker(broker) = to.0
            && let Some(wait_ms) = self.stands_still(broker)
        {
            self.schedule.after(wait_ms, Event::Deliver { from, to, id, message });
            return;
        }
        let asker = Asker { node: from.0, process: from.1, id };
        self.with_io(to.0, |world, io| match (to.0, from.0) {
            (Node::Controller, _) => world.controller.receive(asker, message, io),
            (Node::Broker(broker), _) => {
                if let Host::Up(process) = &mut world.hosts[Self::at(broker)] {
                    process.receive(from.0, id, message, io);
                }
            }
            (Node::Client(number), _) => match (world.client(number), message) {
                (Some(Client::Producer(producer)), Message::Produced(answer)) => {
                    producer.receive(id, answer, io);
                }
                (Some(Client::Reader(reader)), Message::Fetched(fetched)) => {
                    reader.receive(id, &fetched, io);
                }
                (Some(Client::Member(member)), Message::GroupAnswer(answer)) => {
                    member.receive(id, answer);
                }
                (Some(Client::Admin(admin)), Message::Changed(answer)) => {
                    admin.receive(id, answer, io);
                }
                _ => {}
            },
        });
        if let Node::Broker(broker) = to.0 {
            self.observe(broker);
        }
    }

    /// Shows the checker a broker after a step of it.
    fn observe(&mut self, broker: i32) {
        let Host::Up(process) = &self.hosts[Self::at(broker)] else { return };
        let image = process.image();
        let committed = || self.controller.image_at(image.offset).is_some_and(|at| at == image);
        let now = self.controller.image();
        self.checker.topics.observe((broker, process.incarnation()), &image, committed);
        for replica in process.replicas() {
            if !replica.is_here() {
                continue;
            }
            let view = replica.view(process.incarnation());
            self.checker.logs.observe(&view);
            if !view.leads {
                continue;
            }
            let Some(now) = partition_image(&now, &self.settings, view.partition) else { continue };
            if (now.leader, now.leader_epoch) != (broker, view.epoch) {
                continue;
            }
            let mut others = now.isr.clone();
            // One that lost records leaves the set when its next process registers.
            let is_registered =
                |id: i32| self.controller.registered(id) == Some(self.incarnations[Self::at(id)]);
            others.retain(|id| *id != broker && (Some(*id) != self.bereft || is_registered(*id)));
            for other in &others {
                let end = match &self.hosts[Self::at(*other)] {
                    Host::Up(process) => process.replicas()[view.partition].log().end(),
                    Host::Down(disks) => disks[view.partition].log.end(),
                };
                self.checker.logs.compare(&view, *other, end);
            }
        }
    }
}
