//! The quorum on threads and in real time: what the broker will do with it.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::network::{Answer, Lane};
use crate::state_machine::MakeBytes;
use crate::types::Committed;
use kafkalite_log::storage::{RealStorage, UnsyncedStorage};
use kafkalite_protocol::Uuid;
use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// All payloads, one behind the other.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl StateMachine for Text {
    fn apply(&mut self, committed: Committed) -> Result<(), String> {
        self.0.lock().extend_from_slice(&committed.payload);
        Ok(())
    }

    fn snapshot(&self) -> MakeBytes {
        let text = self.0.lock().clone();
        Box::new(move || text)
    }

    fn restore(&mut self, state: &State) -> Result<(), String> {
        *self.0.lock() = state.bytes.to_vec();
        Ok(())
    }
}

/// The voters of one process, by port.
#[derive(Clone, Default)]
struct Local(Arc<Mutex<BTreeMap<u16, Weak<Quorum>>>>);

/// A network that is slow for what is large.
const NS_PER_BYTE: u64 = 100;

impl Transport for Local {
    fn call(&self, to: &Endpoint, _: Lane, request: Bytes) -> Answer {
        let target = self.0.lock().get(&to.port).and_then(Weak::upgrade);
        Box::pin(async move {
            let on_its_way = Duration::from_nanos(request.len() as u64 * NS_PER_BYTE);
            tokio::time::sleep(on_its_way).await;
            let (told, answer) = oneshot::channel();
            target.ok_or("the voter is away")?.answer(request, move |answer| _ = told.send(answer));
            answer.await.map_err(|error| error.to_string())
        })
    }
}

fn voter(number: u8) -> (VoterId, Endpoint) {
    let id = VoterId { node_id: i32::from(number), directory_id: Uuid([number; 16]) };
    (id, Endpoint { host: "localhost".to_owned(), port: u16::from(number) })
}

fn start(local: &Local, number: u8, dir: &Path, text: Text) -> Arc<Quorum> {
    start_at(local, number, voter(number).1, dir, text)
}

fn start_at(local: &Local, number: u8, at: Endpoint, dir: &Path, text: Text) -> Arc<Quorum> {
    let me = voter(number).0;
    let options = QuorumOptions {
        cluster_id: "local".to_owned(),
        me,
        at: at.clone(),
        dir: dir.to_owned(),
        timing: Timing::default(),
    };
    let transport = Arc::new(local.clone());
    let quorum = Quorum::start(options, Arc::new(RealStorage), Box::new(text), transport).unwrap();
    let quorum = Arc::new(quorum);
    local.0.lock().insert(at.port, Arc::downgrade(&quorum));
    quorum
}

/// Waits until `quorum` stands as `wanted` says.
fn await_status(
    quorum: &Quorum,
    wanted: impl Fn(&Status) -> bool + Send + Sync + 'static,
) -> Status {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    quorum.watch(move |status| {
        if wanted(&status) {
            _ = told.lock().send(status);
        }
    });
    heard.recv_timeout(DEADLINE).expect("the status that is waited for")
}

/// The answer that a call hands to its closure.
fn awaited<T: Send + 'static>(call: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (told, heard) = mpsc::channel();
    call(Box::new(move |answer| _ = told.send(answer)));
    heard.recv_timeout(DEADLINE).expect("an answer")
}

fn proposal(expected: i64, payload: &'static str) -> Proposal {
    Proposal { expected, records: 1, payload: payload.into() }
}

/// A new leader changes no members before its first entry is committed.
fn add_learner(leader: &Quorum, id: VoterId, at: Endpoint) {
    let (add, begun) = (MembershipChange::AddLearner(id, at), Instant::now());
    while let Err(error) = awaited(|done| leader.change(add.clone(), done)) {
        let is_early = matches!(error, QuorumError::Membership(_));
        assert!(is_early && begun.elapsed() < DEADLINE, "{error}");
    }
}

fn leads(status: &Status) -> bool {
    status.leader.as_ref().is_some_and(|(id, _)| *id == status.me)
}

#[test]
fn a_quorum_of_one_grows_to_three_and_hands_its_lead_on() {
    let temps = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let texts: [Text; 3] = Default::default();
    let local = Local::default();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let state = State { end: 7, bytes: "older;".into() };
    let (me, at) = voter(1);
    Quorum::form(&storage, temps[0].path(), me, at.clone(), &state).unwrap();
    let again = Quorum::form(&storage, temps[0].path(), me, at, &state);
    assert!(matches!(again, Err(QuorumError::Exists { .. })));
    let quorums: Vec<_> = (0..3_usize)
        .map(|at| start(&local, at as u8 + 1, temps[at].path(), texts[at].clone()))
        .collect();
    let first = &quorums[0];
    await_status(first, leads);
    assert_eq!(awaited(|done| first.propose(proposal(6, "a;"), done)).unwrap(), 7);
    let overtaken = awaited(|done| first.propose(proposal(6, "b;"), done));
    assert!(matches!(overtaken, Err(QuorumError::Overtaken { expected: 6, found: 7 })));
    for number in 2..=3 {
        let (id, at) = voter(number);
        let add = MembershipChange::AddLearner(id, at);
        awaited(|done| first.change(add, done)).unwrap();
        await_status(first, move |status| {
            status.learners.iter().any(|learner| learner.id == id && learner.matched >= Some(2))
        });
        awaited(|done| first.change(MembershipChange::Promote(id), done)).unwrap();
    }
    assert_eq!(awaited(|done| first.propose(proposal(7, "c;"), done)).unwrap(), 8);
    let second = &quorums[1];
    let refused = awaited(|done| second.propose(proposal(8, "d;"), done));
    assert!(matches!(refused, Err(QuorumError::NotLeader { leader: Some((id, _)) }) if id == me));
    awaited(|done| first.transfer(voter(2).0, done)).unwrap();
    await_status(second, leads);
    // A new leader takes proposals when a majority has answered it.
    let begun = Instant::now();
    let written = loop {
        match awaited(|done| second.propose(proposal(8, "e;"), done)) {
            Err(QuorumError::NotLeader { .. }) if begun.elapsed() < DEADLINE => {}
            written => break written,
        }
    };
    assert_eq!(written.unwrap(), 9);
    await_status(&quorums[2], |status| status.end == 10);
    assert_eq!(texts[2].0.lock().as_slice(), b"older;a;c;e;");
    quorums.iter().for_each(|quorum| quorum.stop());
}

#[test]
fn an_entry_that_takes_longer_than_a_heartbeat_to_send_reaches_the_others() {
    let temps = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let texts: [Text; 2] = Default::default();
    let local = Local::default();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let (me, at) = voter(1);
    Quorum::form(&storage, temps[0].path(), me, at, &State::default()).unwrap();
    let begin = |at: usize| start(&local, at as u8 + 1, temps[at].path(), texts[at].clone());
    let quorums: Vec<_> = (0..2).map(begin).collect();
    let first = &quorums[0];
    await_status(first, leads);
    let (id, at) = voter(2);
    add_learner(first, id, at);
    await_status(first, move |status| {
        status.learners.iter().any(|learner| learner.id == id && learner.matched >= Some(1))
    });
    // Longer than any timeout that openraft gives an append, by far.
    let payload = Bytes::from(vec![b'x'; 8 << 20]);
    let large = Proposal { expected: -1, records: 1, payload };
    assert_eq!(awaited(|done| first.propose(large, done)).unwrap(), 0);
    await_status(&quorums[1], |status| status.end == 1);
    assert_eq!(texts[1].0.lock().len(), 8 << 20);
    quorums.iter().for_each(|quorum| quorum.stop());
}

#[test]
fn a_voter_that_moves_is_followed_and_one_that_loses_its_vote_keeps_the_log() {
    let temps = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let texts: [Text; 3] = Default::default();
    let local = Local::default();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let (me, at) = voter(1);
    Quorum::form(&storage, temps[0].path(), me, at, &State::default()).unwrap();
    let begin = |at: usize| start(&local, at as u8 + 1, temps[at].path(), texts[at].clone());
    let mut quorums: Vec<_> = (0..3).map(begin).collect();
    let first = Arc::clone(&quorums[0]);
    await_status(&first, leads);
    for number in 2..=3 {
        let (id, at) = voter(number);
        add_learner(&first, id, at);
        await_status(&first, move |status| {
            status.learners.iter().any(|learner| learner.id == id && learner.matched >= Some(2))
        });
        awaited(|done| first.change(MembershipChange::Promote(id), done)).unwrap();
    }
    let third = voter(3).0;
    quorums.pop().unwrap().stop();
    assert_eq!(awaited(|done| first.propose(proposal(-1, "a;"), done)).unwrap(), 0);
    let elsewhere = Endpoint { port: 13, ..voter(3).1 };
    let text = Text::default();
    let moved = start_at(&local, 3, elsewhere.clone(), temps[2].path(), text.clone());
    await_status(&moved, |status| status.end == 1);
    let change = MembershipChange::Move(third, elsewhere.clone());
    awaited(|done| first.change(change.clone(), done)).unwrap();
    assert!(awaited(|done| first.change(change, done)).is_err(), "it is there already");
    let status = first.status();
    let place = status.voters.iter().find(|one| one.id == third).unwrap();
    assert_eq!((&place.at, status.voters.len()), (&elsewhere, 3));
    awaited(|done| first.change(MembershipChange::Demote(third), done)).unwrap();
    assert_eq!(awaited(|done| first.propose(proposal(0, "b;"), done)).unwrap(), 1);
    await_status(&moved, |status| status.end == 2);
    let told = await_status(&first, move |status| {
        status.learners.iter().any(|one| one.id == third && one.end == Some(2))
    });
    assert_eq!(told.voters.len(), 2);
    assert!(told.learners[0].answered_ms_ago.is_some());
    assert_eq!(text.0.lock().as_slice(), b"a;b;");
    quorums.iter().chain([&moved]).for_each(|quorum| quorum.stop());
}

#[test]
fn a_quorum_of_one_finds_everything_again() {
    let temp = tempfile::tempdir().unwrap();
    let (storage, (me, at)): (Arc<dyn Storage>, _) = (Arc::new(RealStorage), voter(1));
    Quorum::form(&storage, temp.path(), me, at, &State::default()).unwrap();
    for round in 0..5_i64 {
        let text = Text::default();
        let quorum = start(&Local::default(), 1, temp.path(), text.clone());
        await_status(&quorum, move |status| leads(status) && status.end == round);
        assert_eq!(text.0.lock().len() as i64, round);
        assert_eq!(awaited(|done| quorum.propose(proposal(round - 1, "x"), done)).unwrap(), round);
        quorum.stop();
        assert!(quorum.status().stopped.is_some());
    }
}

/// What a quorum of one adds to a start: `cargo test --release -p kafkalite-quorum -- --ignored
/// --nocapture costs`.
#[test]
#[ignore = "a measurement"]
fn what_a_quorum_of_one_costs_at_a_start() {
    let storages: [(&str, Arc<dyn Storage>); 2] =
        [("fsynced", Arc::new(RealStorage)), ("unsynced", Arc::new(UnsyncedStorage))];
    for (name, storage) in storages {
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let temp = tempfile::tempdir().unwrap();
            for starts in [&mut first, &mut later] {
                let begun = Instant::now();
                let (me, at) = voter(1);
                let _ = Quorum::form(&storage, temp.path(), me, at, &State::default());
                let options = QuorumOptions {
                    cluster_id: "one".to_owned(),
                    me,
                    at: voter(1).1,
                    dir: temp.path().to_owned(),
                    timing: Timing::default(),
                };
                let (machine, transport) = (Box::new(Text::default()), Arc::new(Local::default()));
                let quorum =
                    Quorum::start(options, Arc::clone(&storage), machine, transport).unwrap();
                let end = await_status(&quorum, leads).end;
                awaited(|done| quorum.propose(proposal(end - 1, "x"), done)).unwrap();
                starts.push(begun.elapsed());
                quorum.stop();
            }
        }
        for starts in [&mut first, &mut later] {
            starts.sort();
        }
        let median = |starts: &[Duration]| starts[starts.len() / 2];
        eprintln!("{name}: first {:?}, later {:?}", median(&first), median(&later));
    }
}
