#![allow(clippy::unwrap_used)]
use super::net::{Rng, endpoint};
use super::{Plan, Planted, Report, Scenario, run};
use crate::codec::{encode, kind_of, voter_out};
use crate::faulty_storage::{Fault, FaultyStorage};
use crate::member::{Limits, Member, MemberOptions, Timing, form};
use crate::network::{Answer, ENVELOPE, Lane, Transport};
use crate::simulation::machine::ChainMachine;
use crate::simulation::{SimTypes, slow_disk};
use crate::types::{Endpoint, Proposal, VoterId};
use bytes::Bytes;
use kafkalite_protocol::messages::quorum_records as wire;
use openraft::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A number of the environment: `QUORUM_SEEDS=10000 QUORUM_FIRST_SEED=1 cargo test simulation`.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A scenario from a seed, with a bug or without.
type Run = fn(u64, Option<Planted>) -> Report;

fn chaos(seed: u64, planted: Option<Planted>) -> Report {
    run(Plan { seed, scenario: Scenario::Chaos, planted })
}

fn lost_disk(seed: u64, planted: Option<Planted>) -> Report {
    run(Plan { seed, scenario: Scenario::LostDisk, planted })
}

#[test]
fn no_seed_breaks_a_promise() {
    let first = number("QUORUM_FIRST_SEED", 1);
    let (mut acknowledged, mut terms) = (0, 0);
    for seed in first..first + number("QUORUM_SEEDS", 24) {
        let report = chaos(seed, None);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        acknowledged += report.acknowledged;
        terms += report.terms;
    }
    // A run in which nothing happens would break nothing.
    assert!(acknowledged > 1_000 && terms > 50, "{acknowledged} acknowledged, {terms} terms");
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    let traces = [1, 2].map(|_| chaos(5, None).trace);
    assert_eq!(traces[0], traces[1]);
}

#[test]
fn a_wiped_voter_does_not_outvote_what_it_acknowledged() {
    for seed in 1..=4 {
        let report = lost_disk(seed, None);
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    }
}

#[test]
fn a_leader_whose_process_is_gone_is_replaced_at_once_and_one_that_lives_is_not() {
    for seed in 1..=8 {
        let report = run(Plan { seed, scenario: Scenario::DeadLeader, planted: None });
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    }
}

#[test]
fn planted_bugs_are_found() {
    let runs: [(Planted, Run); 3] = [
        (Planted::DiskLies, chaos),
        (Planted::WipedKeepsId, lost_disk),
        (Planted::AnswersForFormerLife, lost_disk),
    ];
    for (planted, run) in runs {
        let found = (1..=10).find(|seed| !run(*seed, Some(planted)).violations.is_empty());
        assert!(found.is_some(), "{planted:?} goes unseen");
    }
}

/// No voter is at the other end.
struct NoPeer;

impl Transport for NoPeer {
    fn call(&self, _: &Endpoint, _: Lane, _: Bytes) -> Answer {
        Box::pin(async { Err("no peer".to_owned()) })
    }
}

const ME: VoterId = VoterId { node_id: 1, directory_id: kafkalite_protocol::Uuid([7; 16]) };

async fn open(dir: &Path, storage: FaultyStorage) -> Result<Member<SimTypes>, String> {
    let options = MemberOptions {
        cluster_id: "one".into(),
        me: ME,
        dir: dir.to_owned(),
        timing: Timing::default(),
        limits: Limits {
            snapshot_after_bytes: 40,
            snapshot_check_entries: 4,
            kept_entries: 2,
            roll_bytes: 300,
            ..Limits::default()
        },
    };
    let machine = Box::new(ChainMachine::new(Arc::default()));
    let disk = slow_disk(Rng::new(1));
    let member = Member::open(options, Arc::new(storage), disk, machine, Arc::new(NoPeer)).await;
    member.map_err(|error| error.to_string())
}

/// Proposes `count` records one by one, behind what is there; how many were acknowledged.
async fn propose(member: &Member<SimTypes>, count: i64) -> i64 {
    let mut acknowledged = member.status().end;
    for _ in 0..count {
        let proposal = Proposal {
            expected: acknowledged - 1,
            records: 1,
            payload: format!("record {acknowledged}").into_bytes().into(),
        };
        let outcome = SimRuntime::timeout(Duration::from_secs(5), member.propose(proposal)).await;
        match outcome {
            Ok(Ok(offset)) => assert_eq!(offset, acknowledged),
            _ => return acknowledged,
        }
        acknowledged += 1;
    }
    acknowledged
}

async fn leads(member: &Member<SimTypes>) -> bool {
    for _ in 0..100 {
        if member.status().leader.is_some() {
            return true;
        }
        SimRuntime::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// A quorum of one on a disk that fails at change `at`; whether the fault struck.
async fn one_that_breaks(at: u64, fault: Fault, power: bool) -> bool {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let disk: Arc<dyn kafkalite_log::storage::Storage> = Arc::new(storage.clone());
    storage.plan(at, fault);
    let formed = form(&disk, temp.path(), (ME, endpoint(1)), &ChainMachine::first()).is_ok();
    let mut acknowledged = 0;
    if formed && let Ok(member) = open(temp.path(), storage.clone()).await {
        if leads(&member).await {
            acknowledged = propose(&member, 24).await;
        }
        drop(SimRuntime::spawn(async move { member.stop().await }));
    }
    let struck = storage.changes() > at;
    if power {
        storage.cut_power_and_undo(|| at.is_multiple_of(2)).unwrap();
    } else {
        storage.crash();
    }
    let what = format!("{fault:?} at {at}, power {power}");
    let real = FaultyStorage::default();
    let disk: Arc<dyn kafkalite_log::storage::Storage> = Arc::new(real.clone());
    // Where the first attempt came to an end, the second one finds that it did.
    let _ = form(&disk, temp.path(), (ME, endpoint(1)), &ChainMachine::first());
    let member = open(temp.path(), real).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(leads(&member).await, "{what}: no leader");
    for _ in 0..100 {
        SimRuntime::sleep(Duration::from_millis(20)).await;
    }
    let end = member.status().end;
    assert!(end >= acknowledged, "{what}: {acknowledged} acknowledged, {end} there");
    assert_eq!(propose(&member, 5).await, end + 5, "{what}");
    member.stop().await;
    struck
}

#[test]
fn a_fault_at_any_change_of_the_disk_loses_nothing_acknowledged() {
    let (eio, mut changes) = (Fault::Fail(5), 0);
    for (fault, power) in [
        (eio, false),
        (eio, true),
        (Fault::Full, true),
        (Fault::Crash, false),
        (Fault::Crash, true),
    ] {
        for at in 0.. {
            let mut runtime = SimRuntime::with_seed(at);
            if !runtime.block_on(one_that_breaks(at, fault, power)) {
                break;
            }
            changes += 1;
        }
    }
    assert!(changes > 400, "only {changes} changes of the disk");
}

/// A voter gets requests that were changed on the way, and answers each of them.
#[test]
fn whatever_bytes_come_a_voter_answers_and_runs_on() {
    let temp = tempfile::tempdir().unwrap();
    let rng = Rng::new(3);
    let mut runtime = SimRuntime::with_seed(3);
    runtime.block_on(async {
        let storage = FaultyStorage::default();
        let disk: Arc<dyn kafkalite_log::storage::Storage> = Arc::new(storage.clone());
        form(&disk, temp.path(), (ME, endpoint(1)), &ChainMachine::first()).unwrap();
        let member = open(temp.path(), storage).await.unwrap();
        assert!(leads(&member).await);
        let mut requests = samples(&rng);
        for round in 0..3_000_usize {
            let mut bytes = requests[round % requests.len()].to_vec();
            match rng.below(4) {
                0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
                1 => bytes.extend_from_slice(&rng.next().to_be_bytes()),
                _ => {
                    for _ in 0..=rng.below(4) {
                        let at = rng.below(bytes.len() as u64) as usize;
                        bytes[at] = rng.next() as u8;
                    }
                }
            }
            let request = Bytes::from(bytes);
            let asked = member.answer(request.clone());
            let answer = SimRuntime::timeout(Duration::from_secs(5), asked).await.unwrap();
            let (kind, _) = kind_of(answer).unwrap();
            assert_eq!(kind, ENVELOPE);
            assert_eq!(member.status().stopped, None, "after {request:?}");
            if requests.len() < 64 {
                requests.push(request);
            }
        }
    });
}

/// Sound requests of every kind.
fn samples(rng: &Rng) -> Vec<Bytes> {
    use crate::network::{APPEND, PRE_VOTE, SNAPSHOT, TRANSFER, VOTE};
    let candidate = voter_out(VoterId { node_id: 2, directory_id: super::net::new_directory(rng) });
    let vote =
        |is_committed| wire::QuorumVote { term: 9, candidate: candidate.clone(), is_committed };
    let log_id = wire::QuorumLogId { term: 1, index: 3 };
    let entry = wire::QuorumEntry { term: 9, index: 4, ..Default::default() };
    let bodies = [
        encode(
            VOTE,
            &wire::QuorumVoteRequestRecord {
                vote: vote(false),
                last_log_id: log_id.clone(),
                leadership_transfer: true,
            },
        ),
        encode(
            PRE_VOTE,
            &wire::QuorumVoteRequestRecord {
                vote: vote(false),
                last_log_id: log_id.clone(),
                leadership_transfer: false,
            },
        ),
        encode(
            APPEND,
            &wire::QuorumAppendRequestRecord {
                vote: vote(true),
                previous: log_id.clone(),
                entries: vec![entry],
                committed: log_id.clone(),
            },
        ),
        encode(
            SNAPSHOT,
            &wire::QuorumSnapshotChunkRecord {
                vote: vote(true),
                snapshot: wire::QuorumSnapshotRecord {
                    last_log_id: log_id.clone(),
                    end: 3,
                    ..Default::default()
                },
                total: 4,
                position: 0,
                data: Bytes::from_static(b"half"),
            },
        ),
        encode(
            TRANSFER,
            &wire::QuorumTransferRequestRecord {
                vote: vote(true),
                target: voter_out(ME),
                last_log_id: log_id,
            },
        ),
    ];
    let wrap = |body| wire::QuorumRequestRecord {
        cluster_id: "one".to_owned(),
        sender: candidate.clone(),
        receiver: voter_out(ME),
        body,
    };
    bodies.into_iter().map(|body| encode(ENVELOPE, &wrap(body))).collect()
}
