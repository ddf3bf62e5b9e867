//! Runs of both levels, many seeds of them, and what to do with one that fails.

use crate::checker::Violation;
use std::fmt::Debug;

/// A kind of fault or a planted bug, which a command names.
pub trait Named: Copy + Debug + PartialEq + 'static {
    /// Every one.
    const EACH: &'static [Self];

    /// The one of this name, as `Debug` writes it.
    #[must_use]
    fn by_name(name: &str) -> Option<Self> {
        Self::EACH.iter().copied().find(|one| format!("{one:?}") == name)
    }
}

/// A level of the simulation.
pub trait Level: Clone + Debug + Default {
    /// The kinds of faults that a run may have.
    type Fault: Named;
    /// The bugs that can be planted.
    type Planted: Named;
    /// What clients achieve in a run.
    type Work: Copy + Debug;
    /// What the commands of this level begin with.
    const PREFIX: &'static str;
    /// Seeds between two lines about progress.
    const PORTION: u64;

    /// Runs a seed.
    fn run(options: &Options<Self>) -> Outcome<Self>;
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options<L: Level> {
    /// Decides everything.
    pub seed: u64,
    /// Kinds of faults that are left out.
    pub without: Vec<L::Fault>,
    /// A bug to find.
    pub planted: Option<L::Planted>,
    /// Whether every step is kept as a line of text.
    pub keeps_text: bool,
}

impl<L: Level> Default for Options<L> {
    fn default() -> Self {
        Self { seed: 0, without: Vec::new(), planted: None, keeps_text: false }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome<L: Level> {
    /// What must not have happened; a clean run has none.
    pub violations: Vec<Violation>,
    /// How many steps it took.
    pub steps: u64,
    /// A hash of every step.
    pub hash: u64,
    /// The kinds of faults that it had.
    pub faults: Vec<L::Fault>,
    /// What was achieved.
    pub work: L::Work,
    /// The steps, if they were kept.
    pub lines: Vec<String>,
}

/// A seed that found something, with as few kinds of faults as still find it.
#[derive(Debug)]
pub struct Failure<L: Level> {
    /// How to run it again.
    pub options: Options<L>,
    /// What came of that run.
    pub outcome: Outcome<L>,
}

/// Runs `count` seeds from `from` on, and stops at the first that finds something.
#[must_use]
pub fn find<L: Level>(from: u64, count: u64, planted: Option<L::Planted>) -> Option<Failure<L>> {
    let options = |seed| Options { seed, planted, ..Options::default() };
    let mut runs = (from..from + count).map(|seed| (options(seed), L::run(&options(seed))));
    let failed = runs.find(|(_, outcome)| !outcome.violations.is_empty());
    failed.map(|(options, outcome)| Failure { options, outcome })
}

/// Leaves out every kind of fault without which the seed finds something as well.
#[must_use]
pub fn shrink<L: Level>(failure: Failure<L>) -> Failure<L> {
    let mut smallest = failure;
    for fault in L::Fault::EACH {
        if smallest.options.without.contains(fault) || !smallest.outcome.faults.contains(fault) {
            continue;
        }
        let mut options = smallest.options.clone();
        options.without.push(*fault);
        let outcome = L::run(&options);
        if !outcome.violations.is_empty() {
            smallest = Failure { options, outcome };
        }
    }
    smallest
}

/// The report of a failure: the violation, and the command that repeats it.
#[must_use]
pub fn report<L: Level>(failure: &Failure<L>) -> String {
    let Failure { options, outcome } = failure;
    let mut text = format!("seed {}, {} steps, found:\n", options.seed, outcome.steps);
    for violation in outcome.violations.iter().take(10) {
        text.push_str(&format!("  {violation}\n"));
    }
    let mut arguments = format!("{}replay {}", L::PREFIX, options.seed);
    for fault in &options.without {
        arguments.push_str(&format!(" --without {fault:?}"));
    }
    if let Some(bug) = options.planted {
        arguments.push_str(&format!(" --planted {bug:?}"));
    }
    text.push_str(&format!("to see every step: make simulate ARGS=\"{arguments}\"\n"));
    text
}
