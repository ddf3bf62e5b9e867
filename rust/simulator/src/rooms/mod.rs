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
mod planted;
mod quorum;
mod scratch;
mod watch;
mod wire;
mod world;

pub use faults::Fault;
pub use planted::Planted;

use crate::checker::Violation;
use world::World;

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Kinds of faults that are left out.
    pub without: Vec<Fault>,
    /// A bug to find.
    pub planted: Option<Planted>,
    /// Whether every step is kept as a line of text.
    pub keeps_text: bool,
}

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
    /// Processes of brokers that ended, cleanly or not.
    pub ends: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What must not have happened; a clean run has none.
    pub violations: Vec<Violation>,
    /// How many steps it took.
    pub steps: u64,
    /// A hash of every step.
    pub hash: u64,
    /// The kinds of faults that it had.
    pub faults: Vec<Fault>,
    /// What was achieved.
    pub work: Work,
    /// The steps, if they were kept.
    pub lines: Vec<String>,
}

/// A seed that found something.
#[derive(Debug)]
pub struct Failure {
    /// How to run it again.
    pub options: Options,
    /// What came of that run.
    pub outcome: Outcome,
}

/// Runs a seed.
#[must_use]
pub fn run(options: &Options) -> Outcome {
    World::run(options)
}

/// Runs `count` seeds from `from` on, and stops at the first that finds something.
#[must_use]
pub fn find(from: u64, count: u64, planted: Option<Planted>) -> Option<Failure> {
    let options = |seed| Options { seed, planted, ..Options::default() };
    let mut runs = (from..from + count).map(|seed| (options(seed), run(&options(seed))));
    let failed = runs.find(|(_, outcome)| !outcome.violations.is_empty());
    failed.map(|(options, outcome)| Failure { options, outcome })
}

/// Leaves out every kind of fault without which the seed finds something as well.
#[must_use]
pub fn shrink(failure: Failure) -> Failure {
    let mut smallest = failure;
    for fault in Fault::ALL {
        if !smallest.outcome.faults.contains(&fault) {
            continue;
        }
        let mut options = smallest.options.clone();
        options.without.push(fault);
        let outcome = run(&options);
        if !outcome.violations.is_empty() {
            smallest = Failure { options, outcome };
        }
    }
    smallest
}

/// The report of a failure: the violation, and the command that repeats it.
#[must_use]
pub fn report(failure: &Failure) -> String {
    let Failure { options, outcome } = failure;
    let mut text = format!("rooms: seed {}, {} steps, found:\n", options.seed, outcome.steps);
    for violation in outcome.violations.iter().take(10) {
        text.push_str(&format!("  {violation}\n"));
    }
    let mut arguments = format!("rooms-replay {}", options.seed);
    for fault in &options.without {
        arguments.push_str(&format!(" --without {fault:?}"));
    }
    if let Some(bug) = options.planted {
        arguments.push_str(&format!(" --planted {bug:?}"));
    }
    text.push_str(&format!("to see every step: make simulate ARGS=\"{arguments}\"\n"));
    text
}
