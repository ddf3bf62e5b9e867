//! A disk of the controller hangs, and the other brokers are healthy.

use super::join_cluster::{image, serve};
use super::*;
use client::batch;
use client::storage::{Asking, Use};
use kafkalite_broker::clock::SystemClock;
use kafkalite_broker::metadata::controller::{NewTopic, NoRules, TopicDefaults};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

const OFTEN: [(&str, &str); 2] =
    [("broker.heartbeat.interval.ms", "250"), ("broker.session.timeout.ms", "3000")];

/// What hangs before changes of files whose path has `part`, while the gate is closed.
struct Gate {
    lock: Arc<Mutex<()>>,
    is_closed: Arc<AtomicBool>,
    /// A message for each change that came to the closed gate.
    came: mpsc::Receiver<()>,
}

impl Gate {
    fn before(part: &'static str) -> (Arc<Asking>, Self) {
        let (lock, is_closed) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (told, came) = mpsc::channel();
        let (passed, closed, told) = (lock.clone(), is_closed.clone(), Mutex::new(told));
        let storage = Asking::new(move |what, path| {
            let is_meant = what == Use::Change && path.to_string_lossy().contains(part);
            if is_meant && closed.load(Ordering::SeqCst) {
                let _ = told.lock().unwrap().send(());
                drop(passed.lock().unwrap());
            }
            Ok(())
        });
        (storage, Self { lock, is_closed, came })
    }

    fn close(&self) -> MutexGuard<'_, ()> {
        let guard = self.lock.lock().unwrap();
        self.is_closed.store(true, Ordering::SeqCst);
        guard
    }
}

fn joined(directory: &Path, first: &Broker) -> Broker {
    let address = first.listeners()[0].1.to_string();
    client::start(directory, &[OFTEN[0], OFTEN[1], ("kafkalite.join", &address)])
}

/// Whether one of these brokers was fenced in an image of `broker` from now on.
fn fenced_from_now(broker: &Broker, ids: &'static [i32]) -> Arc<AtomicBool> {
    let was_fenced = Arc::new(AtomicBool::new(false));
    let noted = was_fenced.clone();
    broker.rooms().controller.watch(Box::new(move |_, after| {
        noted.fetch_or(ids.iter().any(|id| !after.is_alive(*id)), Ordering::SeqCst);
    }));
    was_fenced
}

/// A heartbeat stood behind the proposal of its broker, which waited for the leader's disk. When
/// the disk was back the healthy broker was fenced.
#[test]
fn a_broker_says_that_it_is_alive_while_its_proposal_waits_for_a_disk() {
    let (storage, gate) = Gate::before("__cluster_metadata");
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let settings = [OFTEN[0], OFTEN[1], ("kafkalite.recent.requests", "10000")];
    let config = client::config(directories[0].path(), &settings);
    let first = Broker::start_with(config, Arc::new(SystemClock::new()), storage).unwrap();
    let second = joined(directories[1].path(), &first);
    serve(&[&first, &second]);
    let was_fenced = fenced_from_now(&first, &[2]);
    let held = gate.close();
    std::thread::scope(|scope| {
        scope.spawn(|| client::create_topic(&second, "slow", 1, &[]));
        awaited::received("the proposal is at the disk", &gate.came);
        let recent = first.metrics().recent().unwrap();
        let beats = || recent.all().iter().filter(|one| one.api_key == 63).count();
        let before = beats();
        // Longer than a session.
        awaited::until("heartbeats go on", || beats() >= before + 16);
        drop(held);
    });
    assert!(image(&second).topic("slow").is_some());
    assert!(!was_fenced.load(Ordering::SeqCst), "a healthy broker was fenced");
    second.stop();
    first.stop();
}

/// The leader heard no heartbeats and no proposals while its threads hung at a disk of records. It
/// had the healthy brokers fenced, and they could not end that.
#[test]
fn a_leader_whose_threads_hang_hands_its_lead_on_and_fences_no_broker() {
    let (storage, gate) = Gate::before("hangs-0");
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let one_thread = [("num.io.threads", "1"), ("kafkalite.request.inline", "never")];
    let settings = [OFTEN[0], OFTEN[1], one_thread[0], one_thread[1]];
    let config = client::config(directories[0].path(), &settings);
    let first = Broker::start_with(config, Arc::new(SystemClock::new()), storage).unwrap();
    let [second, third] = [1, 2].map(|place| joined(directories[place].path(), &first));
    serve(&[&first, &second, &third]);
    awaited::until("all three vote, and the first one leads", || {
        let status = first.rooms().controller.quorum().status();
        status.leader_id == 1 && status.voters.len() == 3
    });
    let topic = NewTopic {
        name: "hangs".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![(0, vec![1])],
        configs: vec![],
    };
    let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
    let controller = first.rooms().controller.blocking();
    controller.create_topics(&[topic], defaults, &NoRules, false).pop().unwrap().unwrap();
    client::await_notes(&first);
    let was_fenced = fenced_from_now(&second, &[2, 3]);
    let held = gate.close();
    std::thread::scope(|scope| {
        scope.spawn(|| Client::connect(&first).produce("hangs", batch(&["v"], None), 1));
        awaited::received("the only thread hangs", &gate.came);
        awaited::until("another voter leads", || image(&second).controller_id != 1);
        client::create_topic(&second, "it-goes-on", 1, &[]);
        drop(held);
    });
    assert!(!was_fenced.load(Ordering::SeqCst), "healthy brokers were fenced");
    for broker in [third, second, first] {
        broker.stop();
    }
}
