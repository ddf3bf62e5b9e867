//! A quorum in virtual time, from a seed.
//!
//! openraft runs on its deterministic runtime, our log on a faulty storage. Messages are lost,
//! late, doubled and cut, and a checker looks on.
//!
//! One thread, one order of events: a seed that fails, fails again.

mod checker;
mod machine;
mod net;
mod run;
mod tests;

use crate::disk::{Disk, Job};
use crate::types::{Applied, Endpoint, LeaderId, Proposal, VoterId};

use openraft::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use net::Rng;
pub use run::{Plan, Planted, Report, Scenario, run};

openraft::declare_raft_types!(
    /// The quorum in virtual time.
    pub SimTypes:
        D = Proposal,
        R = Applied,
        NodeId = VoterId,
        Node = Endpoint,
        LeaderId = LeaderId,
        AsyncRuntime = SimRuntime,
);

/// openraft's own tests of a storage number their voters.
impl From<u64> for VoterId {
    fn from(number: u64) -> Self {
        Self { node_id: number as i32, ..Self::default() }
    }
}

/// A disk that takes its time: each job waits for up to 4 ms, and then for the one before.
pub fn slow_disk(rng: Rng) -> Disk {
    let queue: Arc<Mutex<(VecDeque<Job>, bool)>> = Arc::default();
    Disk::new(move |job| {
        let mut held = queue.lock();
        held.0.push_back(job);
        if std::mem::replace(&mut held.1, true) {
            return;
        }
        drop(held);
        let (queue, rng) = (Arc::clone(&queue), rng.clone());
        let work = async move {
            loop {
                SimRuntime::sleep(Duration::from_micros(rng.below(4_000))).await;
                let next = queue.lock().0.pop_front();
                match next {
                    Some(job) => job(),
                    None => break,
                }
                let mut held = queue.lock();
                if held.0.is_empty() {
                    held.1 = false;
                    break;
                }
            }
        };
        drop(SimRuntime::spawn(work));
    })
}
