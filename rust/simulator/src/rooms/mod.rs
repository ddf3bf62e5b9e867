//! Level 2: the real rooms of one to three brokers, driven step by step from a seed.
//!
//! Requests go through `handlers::run` into real `CommitLog`s, on a storage that tears writes,
//! fails, fills up and loses power, in a temporary directory. No thread runs. The seed decides when
//! each of these takes a step: publisher, timer, group commit, loads of coordinators, log manager,
//! tasks of I/O threads. Followers are production's `Fetcher` over `LocalLogs`.
//!
//! Plain models: the quorum, sessions of brokers, the network and the clients. The elections are
//! production's. Compaction, cold reads, sockets and the thread of a replica fetcher are left out.

mod chaos;
mod clients;
mod faults;
mod host;
mod moving;
mod planted;
mod quorum;
mod scratch;
mod watch;
mod wire;
mod world;

pub use faults::Fault;
pub use planted::Planted;

use crate::sweep::{self, Level};
use world::World;

/// What clients achieved in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Records that were acknowledged.
    pub sends: u64,
    /// Records that were read.
    pub polls: u64,
    /// Commits of offsets that were acknowledged.
    pub commits: u64,
    /// Changes of metadata that were acknowledged.
    pub changes: u64,
    /// Moves of partitions that ended.
    pub moves: u64,
    /// Processes of brokers that ended, cleanly or not.
    pub ends: u64,
}

/// Level 2: see above.
#[derive(Clone, Debug, Default)]
pub struct Rooms;

type Options = sweep::Options<Rooms>;
type Outcome = sweep::Outcome<Rooms>;

impl Level for Rooms {
    type Fault = Fault;
    type Planted = Planted;
    type Work = Work;
    const PREFIX: &'static str = "rooms-";
    const PORTION: u64 = 20;

    fn run(options: &Options) -> Outcome {
        World::run(options)
    }
}
