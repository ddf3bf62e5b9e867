//! The simulated voters, and the wires between them.

use super::checker::Checker;
use super::machine::ChainMachine;
use super::{SimTypes, slow_disk};
use crate::faulty_storage::FaultyStorage;
use crate::member::{Limits, Member, MemberOptions, Timing, form};
use crate::network::{Answer, Lane, Transport};
use crate::types::{Endpoint, VoterId};
use bytes::Bytes;
use kafkalite_log::storage::Storage;
use kafkalite_protocol::Uuid;
use openraft::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Random numbers from a seed. Clones draw from one stream.
#[derive(Clone)]
pub struct Rng(Arc<Mutex<u64>>);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// SplitMix64.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True `percent` times of 100.
    pub fn happens(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One node: a place, which lives of a voter follow each other in.
pub struct Node {
    pub id: VoterId,
    pub dir: PathBuf,
    pub storage: FaultyStorage,
    pub member: Option<Arc<Member<SimTypes>>>,
    /// Counts lives: what an earlier one sends or is sent is lost.
    life: u64,
    /// A fault was planned for its disk, so it may stop.
    pub may_stop: bool,
}

/// All nodes and wires.
pub struct Net {
    pub nodes: BTreeMap<i32, Node>,
    /// Wires that are cut, from one node to the other.
    pub cut: BTreeSet<(i32, i32)>,
    /// Of 100 messages, how many are lost.
    pub loss: u64,
    pub checker: Arc<Mutex<Checker>>,
    pub rng: Rng,
    /// Planted: fsync does nothing.
    pub disk_lies: bool,
    /// Planted: a voter answers what is meant for another one.
    pub answers_for_all: bool,
}

/// The wires as one life of a node has them.
struct Wires {
    from: i32,
    life: u64,
    net: Arc<Mutex<Net>>,
}

impl Net {
    fn is_alive(&self, node: i32, life: u64) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.life == life && node.member.is_some())
    }

    pub fn alive(&self) -> Vec<(i32, Arc<Member<SimTypes>>)> {
        let alive = self.nodes.iter();
        alive
            .filter_map(|(number, node)| Some((*number, Arc::clone(node.member.as_ref()?))))
            .collect()
    }

    /// Who leads and knows it.
    pub fn leader(&self) -> Option<(i32, Arc<Member<SimTypes>>)> {
        let leads = |member: &Member<SimTypes>| {
            let status = member.status();
            status.leader.is_some_and(|(id, _)| id == status.me) && status.stopped.is_none()
        };
        self.alive()
            .into_iter()
            .filter(|(_, member)| leads(member))
            .max_by_key(|(_, member)| member.status().term)
    }
}

impl Transport for Wires {
    fn call(&self, to: &Endpoint, lane: Lane, request: Bytes) -> Answer {
        let (from, life, to) = (self.from, self.life, i32::from(to.port));
        let net = Arc::clone(&self.net);
        Box::pin(async move {
            let rng = net.lock().rng.clone();
            {
                let net = net.lock();
                let mut checker = net.checker.lock();
                checker.saw_request(&request);
                checker.note(&format!("{from}>{to} {lane:?} {}", request.len()));
            }
            if rng.happens(2) {
                let again = deliver(Arc::clone(&net), (from, life), to, request.clone());
                drop(SimRuntime::spawn(async move { drop(again.await) }));
            }
            match deliver(net, (from, life), to, request).await {
                Some(answer) => answer,
                // Lost without a word.
                None => std::future::pending().await,
            }
        })
    }
}

/// The answer to a request that may be lost on its way, or its answer may.
async fn deliver(
    net: Arc<Mutex<Net>>,
    (from, life): (i32, u64),
    to: i32,
    request: Bytes,
) -> Option<Result<Bytes, String>> {
    let rng = net.lock().rng.clone();
    let is_lost = |from: i32, to: i32| {
        let net = net.lock();
        net.cut.contains(&(from, to)) || net.rng.happens(net.loss)
    };
    delay(&rng).await;
    if is_lost(from, to) || !net.lock().is_alive(from, life) {
        return None;
    }
    let target = {
        let net = net.lock();
        let node = net.nodes.get(&to)?;
        let Some(member) = node.member.clone() else {
            return Some(Err("connection refused".to_owned()));
        };
        let request = match net.answers_for_all {
            true => readdressed(&request, node.id),
            false => request.clone(),
        };
        (member, node.life, request)
    };
    let (member, target_life, sent) = target;
    let answer = member.answer(sent).await;
    drop(member);
    if !net.lock().is_alive(to, target_life) {
        return Some(Err("connection reset".to_owned()));
    }
    delay(&rng).await;
    if is_lost(to, from) || !net.lock().is_alive(from, life) {
        return None;
    }
    net.lock().checker.lock().saw_answer(&request, &answer);
    Some(Ok(answer))
}

/// The request as if it meant `receiver`.
fn readdressed(request: &Bytes, receiver: VoterId) -> Bytes {
    use crate::codec::{decode, encode, kind_of, voter_out};
    use kafkalite_protocol::messages::quorum_records::QuorumRequestRecord;
    let Ok((kind, reader)) = kind_of(request.clone()) else { return request.clone() };
    let Ok(mut record) = decode::<QuorumRequestRecord>(reader) else { return request.clone() };
    record.receiver = voter_out(receiver);
    encode(kind, &record)
}

async fn delay(rng: &Rng) {
    // Mostly quick, sometimes slow enough to be overtaken.
    let most = if rng.happens(5) { 60_000 } else { 3_000 };
    SimRuntime::sleep(Duration::from_micros(200 + rng.below(most))).await;
}

fn limits() -> Limits {
    Limits {
        snapshot_after_bytes: 600,
        snapshot_check_entries: 8,
        kept_entries: 10,
        roll_bytes: 1_500,
        chunk_bytes: 1_000,
        chunk_timeout_ms: 1_000,
    }
}

/// An id of a directory that no other one has.
pub fn new_directory(rng: &Rng) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rng.next().to_be_bytes());
    Uuid::from_random(bytes)
}

/// A node that is no voter yet. The first one forms the cluster.
pub fn add_node(net: &Mutex<Net>, number: i32, dir: PathBuf, is_first: bool) {
    let mut held = net.lock();
    let directory_id = new_directory(&held.rng);
    let (id, storage) = (VoterId { node_id: number, directory_id }, FaultyStorage::default());
    std::fs::create_dir_all(&dir).expect("a directory");
    if is_first {
        let disk: Arc<dyn Storage> = Arc::new(storage.clone());
        form(&disk, &dir, (id, endpoint(number)), &ChainMachine::first()).expect("a cluster");
    }
    let node = Node { id, dir, storage, member: None, life: 0, may_stop: false };
    held.nodes.insert(number, node);
}

pub fn endpoint(number: i32) -> Endpoint {
    Endpoint { host: "node".to_owned(), port: number as u16 }
}

/// Starts a node on what its disk holds. An error says why it does not start.
pub async fn start(net: &Arc<Mutex<Net>>, number: i32) -> Result<(), String> {
    let (options, storage, wires, machine, rng, lies) = {
        let mut held = net.lock();
        let (lies, checker, rng) = (held.disk_lies, Arc::clone(&held.checker), held.rng.clone());
        let node = held.nodes.get_mut(&number).expect("a node");
        node.storage = FaultyStorage::default();
        node.life += 1;
        node.may_stop = false;
        let options = MemberOptions {
            cluster_id: "simulated".into(),
            me: node.id,
            dir: node.dir.clone(),
            timing: Timing::default(),
            limits: limits(),
        };
        let wires = Wires { from: number, life: node.life, net: Arc::clone(net) };
        (options, node.storage.clone(), wires, ChainMachine::new(checker), rng, lies)
    };
    let disk = slow_disk(rng);
    let opened =
        Member::open(options, Arc::new(storage.clone()), disk, Box::new(machine), Arc::new(wires))
            .await;
    storage.ignore_syncs(lies);
    let member = opened.map_err(|error| format!("node {number} does not start: {error}"))?;
    net.lock().nodes.get_mut(&number).expect("a node").member = Some(Arc::new(member));
    Ok(())
}

/// Ends a node at once; with `power` cut, what was not synced is gone as well.
pub fn kill(net: &Mutex<Net>, number: i32, power: bool) {
    let mut held = net.lock();
    let rng = held.rng.clone();
    let node = held.nodes.get_mut(&number).expect("a node");
    node.life += 1;
    if power {
        node.storage.cut_power_and_undo(|| rng.happens(50)).expect("the real disk");
    } else {
        node.storage.crash();
    }
    if let Some(member) = node.member.take() {
        // Its tasks find a disk that is gone, and what they send is lost.
        drop(SimRuntime::spawn(async move { member.stop().await }));
    }
}

/// Ends a node and takes away its disk. It comes back as another voter, unless that is the bug.
pub fn wipe(net: &Mutex<Net>, number: i32, keeps_id: bool) {
    kill(net, number, false);
    let mut held = net.lock();
    let directory_id = new_directory(&held.rng);
    let node = held.nodes.get_mut(&number).expect("a node");
    // What a power cut could undo is gone with the disk.
    node.storage = FaultyStorage::default();
    std::fs::remove_dir_all(&node.dir).expect("the real disk");
    std::fs::create_dir_all(&node.dir).expect("the real disk");
    if !keeps_id {
        node.id.directory_id = directory_id;
    }
}
