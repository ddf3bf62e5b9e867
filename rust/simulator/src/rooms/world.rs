//! One run: hosts, clients, and the order of what happens to them.

use super::clients::{Admin, Client, DATA, Io, Member, Producer, Reader};
use super::faults::{Fault, Faults};
use super::host::{Host, Shared};
use super::quorum::{Proposed, Quorum};
use super::scratch::Scratch;
use super::watch::Watch;
use super::wire::Call;
use super::{Options, Outcome, Work};
use crate::checker::Violation;
use crate::checker::history::{self, History};
use crate::drift::Drift;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::trace::Trace;
use bytes::Bytes;
use kafkalite_broker::metadata::controller::OFFSETS_TOPIC;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The wall time of a run's start, ms.
pub(super) const WALL_MS: i64 = 1_750_000_000_000;
/// How long faults happen, ms.
pub(super) const CHAOS_MS: u64 = 1_500;
/// How long the cluster may take to come to rest after that, ms.
const HEALING_MS: u64 = 6_000;
/// No run takes so many steps: one that does goes round in circles.
const MOST_STEPS: u64 = 60_000;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    Client(usize),
    /// A broker's process, that follows.
    Follower(i32, u32),
}

/// What happens at a point of virtual time.
pub(super) enum Event {
    Request { to: i32, life: u32, id: u64, call: Call },
    Answer { from: i32, asker: Asker, id: u64, bytes: Option<Bytes> },
    Turn(i32, u32),
    Client(usize),
    Proposal(Box<Proposed>),
    Fault,
    Reassign,
    Start(i32),
    Fence(i32, u32),
    Resume(i32, u32),
    Heal,
    Look,
}

/// What a run has from its seed.
pub(super) struct Settings {
    pub partitions: i32,
    pub min_isr: usize,
    /// `flush.messages=1`
    pub flushes: bool,
    pub segment_bytes: u64,
}

pub(super) struct World {
    pub settings: Settings,
    pub faults: Faults,
    pub schedule: Schedule<Event>,
    pub chaos: Rng,
    pub nodes: Rng,
    pub network: Rng,
    pub trace: Trace,
    pub shared: Shared,
    pub hosts: Vec<Host>,
    pub clients: Vec<Client>,
    pub watch: Watch,
    pub history: History,
    pub found: Vec<Violation>,
    /// Which requests wait for an answer, and of which process.
    asked: std::collections::BTreeMap<u64, Asker>,
    next_id: u64,
    /// The broker that lost records with its power and is not in sync again.
    pub bereft: Option<i32>,
    pub healed: bool,
    pub work: Work,
    /// Holds the directories until the run is over.
    scratch: Scratch,
}

impl World {
    pub fn run(options: &Options) -> Outcome {
        let scratch = match Scratch::new() {
            Ok(scratch) => scratch,
            Err(error) => return Self::nothing(error.to_string()),
        };
        let mut world = Self::new(options, scratch);
        world.begin();
        let mut is_over = false;
        while !is_over && world.is_clean() && world.trace.steps() < MOST_STEPS {
            let Some(event) = world.schedule.pop() else { break };
            is_over = world.step(event);
        }
        world.close(is_over)
    }

    fn nothing(why: String) -> Outcome {
        let violations = vec![Violation::new("no-directory", why)];
        let (faults, lines, work) = Default::default();
        Outcome { violations, steps: 0, hash: 0, faults, work, lines }
    }

    fn new(options: &Options, scratch: Scratch) -> Self {
        let stream = |purpose| Rng::stream(options.seed, purpose);
        let mut chaos = stream(1);
        let faults = Faults::draw(&mut chaos, &options.without);
        let brokers = match chaos.below(10) {
            0 | 1 => 1,
            2 | 3 => 2,
            _ => 3,
        };
        let settings = Settings {
            partitions: if chaos.chance(300) { 2 } else { 1 },
            min_isr: if brokers > 1 && chaos.chance(700) { 2 } else { 1 },
            flushes: chaos.chance(400),
            segment_bytes: chaos.between(600, 4_000),
        };
        let quorum: Arc<Quorum> = Arc::default();
        let topics = Arc::new(AtomicU64::new(1));
        let shared = Shared { quorum, topics, planted: options.planted };
        let mut rates = stream(5);
        let mut clock = || match Fault::ClockDrift.is_in(&faults) {
            true => (Drift::draw(&mut rates), WALL_MS + rates.between(0, 600_000) as i64),
            false => (Drift::NONE, WALL_MS),
        };
        let host = |id: i32| Host::new(id, scratch.path().join(id.to_string()), clock());
        let hosts = (1..=brokers).map(host).collect();
        Self {
            clients: clients(settings.partitions),
            settings,
            faults,
            schedule: Schedule::new(stream(2)),
            chaos,
            nodes: stream(3),
            network: stream(4),
            trace: Trace::new(options.keeps_text),
            shared,
            hosts,
            watch: Watch::default(),
            history: History { drained: true, ..History::default() },
            found: Vec::new(),
            asked: Default::default(),
            next_id: 0,
            bereft: None,
            healed: false,
            work: Work::default(),
            scratch,
        }
    }

    pub fn is_clean(&self) -> bool {
        self.found.is_empty() && self.watch.found.is_empty()
    }

    pub fn now_ms(&self) -> u64 {
        self.schedule.now_ms()
    }

    pub fn host(&mut self, id: i32) -> &mut Host {
        let place = usize::try_from(id - 1).unwrap_or(0);
        &mut self.hosts[place]
    }

    /// One event; whether the run is over.
    fn step(&mut self, event: Event) -> bool {
        let now_ms = self.now_ms();
        self.hosts.iter().for_each(|host| host.keep_time(now_ms));
        match event {
            Event::Request { to, life, id, call } => self.request(to, life, id, call),
            Event::Answer { from, asker, id, bytes } => self.answer(from, asker, id, bytes),
            Event::Turn(id, life) => self.turn(id, life),
            Event::Client(number) => self.client(number),
            Event::Proposal(proposed) => self.propose(*proposed),
            Event::Fault => self.fault(),
            Event::Reassign => self.operate(),
            Event::Start(id) => self.start(id),
            Event::Fence(id, life) => self.fence(id, life),
            Event::Resume(id, life) => self.resume(id, life),
            Event::Heal => self.heal(),
            Event::Look => return self.look(),
        }
        for refused in self.shared.quorum.take_refused() {
            self.found.push(Violation::new("refused-decision", refused));
        }
        false
    }

    pub fn note(&mut self, words: &[u64], text: impl FnOnce() -> String) {
        self.trace.step(self.schedule.now_ms(), words, text);
    }

    fn request(&mut self, to: i32, life: u32, id: u64, call: Call) {
        let now_ms = self.now_ms();
        let host = self.host(to);
        if host.paused_ms > now_ms {
            let later = host.paused_ms - now_ms;
            return self.schedule.after(later, Event::Request { to, life, id, call });
        }
        if host.life != life {
            return;
        }
        let (api, length) = (call.api_key, call.body.len() as u64);
        if let Some(running) = &host.running {
            running.run(id, call, host.now_ms() * 1_000_000);
        } else {
            return;
        }
        self.note(&[1, to as u64, id, api as u64, length], || {
            format!("broker {to} handles request {id} of API {api}")
        });
        self.after_step(to);
    }

    fn answer(&mut self, from: i32, asker: Asker, id: u64, bytes: Option<Bytes>) {
        let now_ms = self.now_ms();
        match asker {
            Asker::Client(number) => {
                self.note(&[2, number as u64, id], || format!("client {number} gets answer {id}"));
                self.with_client(number, |client, io| client.receive(id, bytes, io));
            }
            Asker::Follower(follower, life) => {
                let planted = self.shared.planted;
                let host = self.host(follower);
                if host.paused_ms > now_ms {
                    let later = host.paused_ms - now_ms;
                    let event = Event::Answer { from, asker, id, bytes };
                    return self.schedule.after(later, event);
                }
                let now_ms = host.now_ms();
                let running = host.running.as_mut().filter(|_| host.life == life);
                let Some(running) = running else { return };
                running.answered(from, id, bytes, now_ms, planted);
                self.note(&[3, follower as u64, from as u64, id], || {
                    format!("broker {follower} takes answer {id} of its leader {from}")
                });
                self.after_step(follower);
            }
        }
    }

    fn turn(&mut self, id: i32, life: u32) {
        let (now_ms, planted) = (self.now_ms(), self.shared.planted);
        let mut rng = self.nodes.clone();
        let mut next_id = self.next_id;
        let host = self.host(id);
        if host.life != life {
            return;
        }
        let later = host.paused_ms.saturating_sub(now_ms);
        if later > 0 {
            return self.schedule.after(later, Event::Turn(id, life));
        }
        let now_ms = host.now_ms();
        let Some(running) = host.running.as_mut() else { return };
        running.turn(&mut rng);
        let next = || {
            next_id += 1;
            next_id
        };
        let questions = match rng.chance(700) {
            true => running.questions((id, now_ms), planted, next),
            false => Vec::new(),
        };
        let again = rng.between(2, 7);
        (self.nodes, self.next_id) = (rng, next_id);
        self.note(&[4, id as u64, questions.len() as u64], || {
            format!("broker {id} takes its turn, and asks {} leaders", questions.len())
        });
        for (leader, number, call) in questions {
            self.send(leader, number, call, Asker::Follower(id, life));
        }
        self.schedule.after(again, Event::Turn(id, life));
        self.after_step(id);
        self.end_if_offline(id);
    }

    fn client(&mut self, number: usize) {
        if matches!(self.clients[number], Client::Admin(_)) {
            self.tell_admin();
        }
        let again = self.nodes.between(6, 25);
        self.schedule.after(again, Event::Client(number));
        self.with_client(number, Client::tick);
    }

    pub fn with_client(&mut self, number: usize, act: impl FnOnce(&mut Client, &mut Io<'_>)) {
        let up = self.hosts.iter().filter_map(|host| host.running.as_ref());
        let images: Vec<_> = up.map(|one| one.broker.rooms().controller.image()).collect();
        let truth = self.shared.quorum.image();
        let guess = self.network.pick(&images).unwrap_or(&truth).clone();
        let mut out = Vec::new();
        let mut io = Io {
            now_ms: self.schedule.now_ms(),
            rng: &mut self.nodes,
            guess: &guess,
            truth: &truth,
            history: &mut self.history,
            watch: &self.watch,
            found: &mut self.found,
            planted: self.shared.planted,
            is_closing: self.healed,
            out: &mut out,
            next_id: &mut self.next_id,
        };
        act(&mut self.clients[number], &mut io);
        for (broker, id, call) in out {
            self.note(&[5, number as u64, broker as u64, id], || {
                format!("client {number} asks broker {broker}: {id}, API {}", call.api_key)
            });
            self.send(broker, id, call, Asker::Client(number));
        }
    }

    /// How long a message takes; `None`: it is lost.
    fn latency(&mut self) -> Option<u64> {
        let Faults { drop, delay, .. } = self.faults;
        let (is_lost, is_late) = (self.network.chance(drop), self.network.chance(delay));
        let ms = self.network.between(1, 4);
        let late = self.network.between(50, 400);
        (self.healed || !is_lost).then_some(if is_late && !self.healed { late } else { ms })
    }

    fn send(&mut self, to: i32, id: u64, call: Call, asker: Asker) {
        let is_known = (1..=self.hosts.len()).contains(&usize::try_from(to).unwrap_or(0));
        let Some(delay) = self.latency().filter(|_| is_known) else { return };
        self.asked.insert(id, asker);
        let life = self.host(to).life;
        self.schedule.after(delay, Event::Request { to, life, id, call });
    }

    /// What follows from a step of a broker: answers, proposals, and a look at its replicas.
    pub fn after_step(&mut self, id: i32) {
        let host = self.host(id);
        if host.disk.has_crashed() && host.running.is_some() {
            return self.died(id, None);
        }
        let mut answers = host.running.as_ref().map(|one| one.take_answers()).unwrap_or_default();
        // The order of answers to different connections is that of hash maps.
        answers.sort_by_key(|(number, _)| *number);
        for (number, bytes) in answers {
            let Some(asker) = self.asked.remove(&number) else { continue };
            let told = bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64);
            self.note(&[6, id as u64, number, told], || format!("broker {id} answers {number}"));
            let Some(delay) = self.latency() else { continue };
            let event = Event::Answer { from: id, asker, id: number, bytes };
            self.schedule.after(delay, event);
        }
        for proposed in self.shared.quorum.take_proposed() {
            let delay = self.network.between(1, 5);
            self.schedule.after(delay, Event::Proposal(Box::new(proposed)));
        }
        self.observe(id);
    }

    fn observe(&mut self, id: i32) {
        let image = self.shared.quorum.image();
        let Self { hosts, watch, .. } = self;
        let place = usize::try_from(id - 1).unwrap_or(0);
        let host = &hosts[place];
        let Some(running) = &host.running else { return };
        let mut all = running.broker.rooms().partitions.all();
        all.sort_by(|one, other| (one.topic(), one.index()).cmp(&(other.topic(), other.index())));
        let mut words = vec![7, id as u64];
        for partition in &all {
            words.extend(watch.observe(id, host.life, partition).into_iter().flatten());
        }
        for (topic, index) in watched(self.settings.partitions) {
            for leader in hosts.iter() {
                let Some(partition) = leader.partition(topic, index) else { continue };
                let end_of = |replica: i32| {
                    let other = hosts.iter().find(|host| host.id == replica)?;
                    Some(other.partition(topic, index)?.log_end_offset().0)
                };
                watch.compare_in_sync(leader.id, &partition, &image, end_of);
            }
        }
        if words.len() > 2 {
            self.note(&words, || format!("broker {id} has {:?}", &words[2..]));
        }
    }

    /// Whether the cluster came to rest; the run ends then, or when it took too long.
    fn look(&mut self) -> bool {
        self.schedule.after(20, Event::Look);
        let missing = self.unrest();
        let is_late = self.now_ms() > CHAOS_MS + HEALING_MS;
        if let Some(missing) = missing.as_ref().filter(|_| is_late) {
            self.found.push(Violation::new("not-healed", missing.clone()));
        }
        missing.is_none() || is_late
    }

    fn unrest(&self) -> Option<String> {
        let image = self.shared.quorum.image();
        if let Some(down) = self.hosts.iter().find(|host| host.running.is_none()) {
            return Some(format!("broker {} does not run", down.id));
        }
        for (topic, index) in watched(self.settings.partitions) {
            let Some(now) = image.partition(topic, index) else {
                return Some(format!("{topic} is not there"));
            };
            if now.isr.len() < now.replicas.len() {
                return Some(format!("{topic}-{index}: {:?} are in sync", now.isr));
            }
            if let Some(misplaced) = self.misplaced((topic, index), now) {
                return Some(misplaced);
            }
            let leader = self.hosts.iter().find(|host| host.id == now.leader);
            let leader = leader.and_then(|host| host.partition(topic, index));
            let Some(leader) = leader else { return Some(format!("{topic}-{index} is not led")) };
            let (end, mark) = (leader.log_end_offset().0, leader.high_watermark().0);
            if mark < end {
                return Some(format!("{topic}-{index}: {mark} of {end} is committed"));
            }
            let behind = self.clients.iter().any(|client| match client {
                Client::Reader(one) => one.partition() == index && one.position() < end,
                _ => false,
            });
            if topic == DATA && behind {
                return Some(format!("{topic}-{index} is not read up to {end}"));
            }
        }
        let is_busy = |client: &Client| matches!(client, Client::Producer(one) if !one.is_idle());
        self.clients.iter().any(is_busy).then(|| "a producer waits".to_owned())
    }

    fn close(mut self, is_over: bool) -> Outcome {
        for number in 0..self.clients.len() {
            self.with_client(number, |client, io| {
                if let Client::Producer(one) = client {
                    one.give_up(io);
                }
            });
        }
        let mut violations = std::mem::take(&mut self.found);
        violations.append(&mut self.watch.found);
        if violations.is_empty() && !is_over {
            let told = format!("{} steps", self.trace.steps());
            violations.push(Violation::new("not-healed", told));
        }
        self.history.drained = violations.is_empty();
        self.note_restarts();
        violations.extend(history::check(&self.history));
        // The directory has another name in each run.
        let place = self.scratch.path().display().to_string();
        for violation in &mut violations {
            violation.detail = violation.detail.replace(&place, "");
        }
        for client in &self.clients {
            match client {
                Client::Member(one) => self.work.commits += one.commits,
                Client::Admin(one) => self.work.changes += one.changes,
                _ => {}
            }
        }
        let sends = self.history.sends.iter();
        self.work.sends = sends.filter(|send| send.outcome == history::Outcome::Ok).count() as u64;
        self.work.polls = self.history.polls.len() as u64;
        self.work.moves = self.shared.quorum.moves();
        for host in &mut self.hosts {
            host.kill(&self.shared.quorum, None);
        }
        let (steps, hash, faults) = (self.trace.steps(), self.trace.hash(), self.faults.enabled);
        Outcome { violations, steps, hash, faults, work: self.work, lines: self.trace.into_lines() }
    }
}

/// The partitions that are compared.
pub(super) fn watched(partitions: i32) -> impl Iterator<Item = (&'static str, i32)> {
    let data = (0..partitions).map(|index| (DATA, index));
    data.chain(std::iter::once((OFFSETS_TOPIC, 0)))
}

fn clients(partitions: i32) -> Vec<Client> {
    let mut clients = Vec::new();
    for (number, partition) in (0..2).map(|number| (number, number % partitions)) {
        let name = u64::from(number.unsigned_abs()) + 1;
        clients.push(Client::Producer(Producer::new(name, partition, WALL_MS)));
        clients.push(Client::Reader(Reader::new(number.unsigned_abs(), partition)));
    }
    clients.push(Client::Member(Member::default()));
    clients.push(Client::Admin(Admin::new(partitions)));
    clients
}

impl Fault {
    pub(super) fn is_in(self, faults: &Faults) -> bool {
        faults.enabled.contains(&self)
    }
}
