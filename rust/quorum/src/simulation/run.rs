//! One run: clients, an operator who mends, and a saboteur.

use super::SimTypes;
use super::checker::Checker;
use super::net::{Net, Rng, add_node, endpoint, kill, start, wipe};
use crate::error::QuorumError;
use crate::faulty_storage::Fault;
use crate::member::Member;
use crate::membership::MembershipChange;
use crate::types::{Proposal, VoterId};
use bytes::Bytes;
use openraft::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A bug put in on purpose: the checker must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// An fsync that does nothing: votes and entries are answered for before they are safe.
    DiskLies,
    /// A node whose disk was wiped comes back under its old id.
    WipedKeepsId,
    /// A node whose disk was wiped has a new id, and answers for the old one.
    AnswersForFormerLife,
}

/// What happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Everything breaks, in an order that the seed draws.
    Chaos,
    /// Of three voters one has an old log, one is dead and one lost its disk.
    LostDisk,
    /// One of three voters takes the leader for dead; then it dies, and both others know.
    DeadLeader,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub scenario: Scenario,
    pub planted: Option<Planted>,
}

/// What came of it.
pub struct Report {
    pub violations: Vec<String>,
    pub acknowledged: usize,
    pub terms: u64,
    pub trace: u64,
}

const EIO: i32 = 5;

struct Run {
    net: Arc<Mutex<Net>>,
    checker: Arc<Mutex<Checker>>,
    rng: Rng,
    plan: Plan,
    nodes: i32,
    is_over: Arc<AtomicBool>,
}

/// Runs a cluster of three or five for a while, breaks it all the time, and looks at what is left.
pub fn run(plan: Plan) -> Report {
    let temp = tempfile::tempdir().expect("a directory");
    let checker: Arc<Mutex<Checker>> = Arc::default();
    let rng = Rng::new(plan.seed);
    let net = Net {
        nodes: BTreeMap::new(),
        cut: BTreeSet::new(),
        loss: rng.below(4),
        checker: Arc::clone(&checker),
        rng: rng.clone(),
        disk_lies: plan.planted == Some(Planted::DiskLies),
        answers_for_all: plan.planted == Some(Planted::AnswersForFormerLife),
    };
    let is_small = plan.scenario != Scenario::Chaos || rng.happens(70);
    let nodes = if is_small { 3 } else { 5 };
    let net = Arc::new(Mutex::new(net));
    for number in 1..=nodes {
        add_node(&net, number, temp.path().join(number.to_string()), number == 1);
    }
    let is_over = Arc::default();
    let run = Run { net, checker: Arc::clone(&checker), rng, plan, nodes, is_over };
    let mut runtime = SimRuntime::with_seed(plan.seed);
    runtime.block_on(run.all());
    drop(runtime);
    let checker = checker.lock();
    Report {
        violations: checker.violations.clone(),
        acknowledged: checker.acknowledged_len(),
        terms: checker.terms(),
        trace: checker.trace,
    }
}

async fn sleep_ms(ms: u64) {
    SimRuntime::sleep(Duration::from_millis(ms)).await;
}

/// These voters take `leader` for dead; the first of them stands for election.
async fn claim(voters: &[Arc<Member<SimTypes>>], leader: VoterId) {
    for (place, voter) in voters.iter().enumerate().rev() {
        // An error says that the voter has stopped.
        let _ = voter.leader_is_gone(leader, place == 0).await;
    }
}

impl Run {
    async fn all(&self) {
        for number in 1..=self.nodes {
            self.start(number).await;
        }
        for client in 0..2 {
            drop(SimRuntime::spawn(Self::client(
                client,
                Arc::clone(&self.net),
                Arc::clone(&self.checker),
                self.rng.clone(),
                Arc::clone(&self.is_over),
            )));
        }
        if self.settles(20_000).await {
            match self.plan.scenario {
                Scenario::Chaos => self.chaos().await,
                Scenario::LostDisk => self.lost_disk().await,
                Scenario::DeadLeader => self.dead_leader().await,
            }
            self.settles(40_000).await;
        }
        self.is_over.store(true, Ordering::Relaxed);
        self.checker.lock().finish();
    }

    async fn chaos(&self) {
        for _ in 0..30 {
            self.break_something().await;
            sleep_ms(100 + self.rng.below(700)).await;
            self.mend().await;
        }
    }

    /// Records are acknowledged by voters 1 and 2. Then 2 is dead, and 1 comes back without them:
    /// together with 3 it must not be a majority that knows nothing of them.
    async fn lost_disk(&self) {
        self.net.lock().cut.extend([(1, 3), (3, 1), (2, 3), (3, 2)]);
        // A leader that was cut off has lost its lease by then.
        sleep_ms(5_000).await;
        kill(&self.net, 2, false);
        wipe(&self.net, 1, self.plan.planted == Some(Planted::WipedKeepsId));
        self.net.lock().cut.clear();
        self.start(1).await;
        sleep_ms(8_000).await;
    }

    /// A leader that lives is not deposed, and one that died is replaced long before a voter
    /// misses its heartbeats.
    async fn dead_leader(&self) {
        let led = self.net.lock().leader();
        let Some((number, leader)) = led else {
            return self.checker.lock().violated("no leader".to_owned());
        };
        let term = leader.status().term;
        let others = || self.net.lock().alive().into_iter().filter(|(other, _)| *other != number);
        let stands = others().next().map(|(_, member)| member);
        for _ in 0..40 {
            claim(stands.as_slice(), leader.status().me).await;
            sleep_ms(50).await;
        }
        if leader.status().term != term {
            self.checker.lock().violated("one voter deposed a leader that lives".to_owned());
        }
        let dead = leader.status().me;
        drop(leader);
        kill(&self.net, number, false);
        for round in 0..16 {
            let mut all: Vec<_> = others().map(|(_, member)| member).collect();
            // One of them may lack entries that the other has: they take turns.
            all.rotate_left(round / 4 % 2);
            claim(&all, dead).await;
            sleep_ms(50).await;
            if self.net.lock().leader().is_some() {
                return;
            }
        }
        self.checker.lock().violated("no leader 800 ms after the death of one".to_owned());
    }

    async fn start(&self, number: i32) {
        if let Err(reason) = start(&self.net, number).await {
            self.checker.lock().violated(reason);
        }
    }

    /// Proposes to the leader. Two clients do, so that one is overtaken.
    async fn client(
        client: u64,
        net: Arc<Mutex<Net>>,
        checker: Arc<Mutex<Checker>>,
        rng: Rng,
        is_over: Arc<AtomicBool>,
    ) {
        for count in 0_u64.. {
            sleep_ms(5 + rng.below(60)).await;
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let Some((_, leader)) = net.lock().leader() else { continue };
            let payload: Bytes = format!("{client}-{count}").into_bytes().into();
            let records = 1 + rng.below(3) as u32;
            let expected = leader.status().end - 1;
            let proposal = Proposal { expected, records, payload: payload.clone() };
            let proposed = leader.propose(proposal);
            let Ok(outcome) = SimRuntime::timeout(Duration::from_secs(2), proposed).await else {
                continue;
            };
            let mut checker = checker.lock();
            match outcome {
                Ok(last) => checker.acknowledged(last + 1 - i64::from(records), payload),
                Err(QuorumError::Overtaken { .. } | QuorumError::NotLeader { .. }) => {
                    checker.rejected(payload);
                }
                Err(_) => {}
            }
        }
    }

    async fn break_something(&self) {
        let number = 1 + self.rng.below(self.nodes as u64) as i32;
        let other = 1 + self.rng.below(self.nodes as u64) as i32;
        let dice = self.rng.below(100);
        self.checker.lock().note(&format!("break {dice} {number} {other}"));
        match dice {
            0..=17 => kill(&self.net, number, false),
            18..=33 => kill(&self.net, number, true),
            34..=38 => (1..=self.nodes).for_each(|number| kill(&self.net, number, true)),
            39..=52 => _ = self.net.lock().cut.insert((number, other)),
            53..=62 => {
                let mut net = self.net.lock();
                for peer in 1..=self.nodes {
                    net.cut.extend([(number, peer), (peer, number)]);
                }
            }
            63..=70 => self.net.lock().cut.clear(),
            71..=78 => {
                let leader = self.net.lock().leader();
                if let Some((_, leader)) = leader {
                    let to = self.net.lock().nodes[&number].id;
                    let _ = leader.transfer(to).await;
                }
            }
            79..=85 => {
                let member = self.net.lock().nodes[&number].member.clone();
                if let Some(member) = member {
                    let _ = member.snapshot().await;
                }
            }
            86..=91 => {
                let mut net = self.net.lock();
                let fault = if self.rng.happens(50) { Fault::Full } else { Fault::Fail(EIO) };
                let node = net.nodes.get_mut(&number).expect("a node");
                node.may_stop = true;
                node.storage.plan(node.storage.changes() + self.rng.below(8), fault);
            }
            92..=95 => {
                // True or not.
                let alive = self.net.lock().alive();
                let leader = alive.iter().find_map(|(_, member)| member.status().leader);
                let some = alive.into_iter().map(|(_, member)| member);
                let some: Vec<_> = some.filter(|_| self.rng.happens(60)).collect();
                if let Some((leader, _)) = leader {
                    claim(&some, leader).await;
                }
            }
            _ => self.wipe(number).await,
        }
    }

    /// Wipes a disk; one at a time, as an operator who loses two of three disks loses the cluster.
    async fn wipe(&self, number: i32) {
        if self.settles(15_000).await {
            wipe(&self.net, number, self.plan.planted == Some(Planted::WipedKeepsId));
        }
    }

    /// Starts what is dead, and what has stopped for its disk.
    async fn mend(&self) {
        for number in 1..=self.nodes {
            let (is_dead, stopped, may_stop) = {
                let net = self.net.lock();
                let node = &net.nodes[&number];
                let stopped = node.member.as_ref().and_then(|member| member.status().stopped);
                (node.member.is_none(), stopped, node.may_stop)
            };
            if let Some(reason) = stopped {
                if !may_stop {
                    self.checker.lock().violated(format!("node {number} stopped: {reason}"));
                }
                kill(&self.net, number, self.rng.happens(50));
                self.start(number).await;
            } else if is_dead && self.rng.happens(50) {
                self.start(number).await;
            }
        }
        self.operate().await;
    }

    async fn heal(&self) {
        {
            let mut net = self.net.lock();
            net.cut.clear();
            net.loss = 0;
        }
        for number in 1..=self.nodes {
            let is_dead = self.net.lock().nodes[&number].member.is_none();
            if is_dead {
                self.start(number).await;
            }
        }
    }

    /// One step towards the membership that is wanted: every node, in its present life.
    async fn operate(&self) {
        let wanted: BTreeMap<VoterId, i32> =
            self.net.lock().nodes.iter().map(|(number, node)| (node.id, *number)).collect();
        let Some((_, leader)) = self.net.lock().leader() else { return };
        let status = leader.status();
        let voters: Vec<_> = status.voters.iter().map(|voter| voter.id).collect();
        let learners: Vec<_> = status.learners.iter().map(|learner| learner.id).collect();
        let missing = wanted.iter().find(|(id, _)| !voters.contains(id) && !learners.contains(id));
        let ready = learners.iter().find(|id| wanted.contains_key(id));
        let stale = voters.iter().chain(&learners).find(|id| !wanted.contains_key(id));
        let change = if let Some((id, number)) = missing {
            MembershipChange::AddLearner(*id, endpoint(*number))
        } else if let Some(id) = stale {
            MembershipChange::Remove(*id)
        } else if let Some(id) = ready {
            MembershipChange::Promote(*id)
        } else {
            return;
        };
        let _ = SimRuntime::timeout(Duration::from_secs(2), leader.change(change)).await;
    }

    /// Waits until every node is a voter and has what was acknowledged; whether that came to pass.
    async fn settles(&self, ms: u64) -> bool {
        self.heal().await;
        let begun = self.checker.lock().acknowledged_end();
        for _ in 0..ms / 200 {
            sleep_ms(200).await;
            self.mend().await;
            let end = self.checker.lock().acknowledged_end();
            let net = self.net.lock();
            let ids: Vec<VoterId> = net.nodes.values().map(|node| node.id).collect();
            let has_all = net.alive().iter().all(|(_, member)| {
                let status = member.status();
                let voters: Vec<_> = status.voters.iter().map(|voter| voter.id).collect();
                status.end >= begun && voters == ids && status.leader.is_some()
            });
            if has_all && net.alive().len() == ids.len() && end > begun {
                return true;
            }
        }
        let alive = self.net.lock().alive();
        let statuses: Vec<_> = alive.iter().map(|(_, member)| member.status()).collect();
        self.checker.lock().violated(format!("no progress: {statuses:?}"));
        false
    }
}
