//! What a voter takes: a broker of a cluster has one for as long as it runs.

#![allow(missing_docs, clippy::unwrap_used)]

use bytes::Bytes;
use kafkalite_log::storage::{RealStorage, Storage};
use kafkalite_quorum::{
    Answer, Committed, Endpoint, Lane, MakeBytes, Quorum, QuorumOptions, State, StateMachine,
    Timing, Transport, VoterId,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[path = "../../testing/counting.rs"]
mod counting;

/// A voter of its own quorum that leads takes less than half of this.
const MOST_BYTES: usize = 4 << 20;

/// Keeps nothing.
struct Nothing;

impl StateMachine for Nothing {
    fn apply(&mut self, _: Committed) -> Result<(), String> {
        Ok(())
    }

    fn snapshot(&self) -> MakeBytes {
        Box::new(Vec::new)
    }

    fn restore(&mut self, _: &State) -> Result<(), String> {
        Ok(())
    }
}

/// There are no others.
struct Alone;

impl Transport for Alone {
    fn call(&self, _: &Endpoint, _: Lane, _: Bytes) -> Answer {
        Box::pin(async { Err("no other voter".to_owned()) })
    }
}

/// openraft counts in histograms. Their library made tables of 25 MiB for all that it could do.
#[test]
fn a_voter_takes_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let me = VoterId { node_id: 1, ..VoterId::default() };
    let at = Endpoint { host: "localhost".to_owned(), port: 1 };
    Quorum::form(&storage, dir.path(), me, at.clone(), &State::default()).unwrap();
    let options = QuorumOptions {
        cluster_id: "memory".to_owned(),
        me,
        at,
        dir: dir.path().to_owned(),
        timing: Timing::default(),
    };
    let (peak, quorum) = counting::peak_of(|| {
        let quorum = Quorum::start(options, storage, Box::new(Nothing), Arc::new(Alone)).unwrap();
        let (told, heard) = mpsc::channel();
        quorum.watch(move |status| {
            if status.leader.is_some() {
                let _ = told.send(());
            }
        });
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
        quorum
    });
    quorum.stop();
    assert!(peak <= MOST_BYTES, "{peak} bytes");
}
