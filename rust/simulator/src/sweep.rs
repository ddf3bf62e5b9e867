//! Many seeds, and what to do with one that fails.

use crate::faults::Fault;
use crate::planted::Planted;
use crate::world::{Options, Outcome, run};

/// A seed that found something, with as few kinds of faults as still find it.
#[derive(Debug)]
pub struct Failure {
    /// How to run it again.
    pub options: Options,
    /// What came of that run.
    pub outcome: Outcome,
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
        if smallest.options.without.contains(&fault) || !smallest.outcome.faults.contains(&fault) {
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
    let mut text = format!("seed {}, {} steps, found:\n", options.seed, outcome.steps);
    for violation in outcome.violations.iter().take(10) {
        text.push_str(&format!("  {violation}\n"));
    }
    let mut arguments = format!("replay {}", options.seed);
    for fault in &options.without {
        arguments.push_str(&format!(" --without {fault:?}"));
    }
    if let Some(bug) = options.planted {
        arguments.push_str(&format!(" --planted {bug:?}"));
    }
    text.push_str(&format!("to see every step: make simulate ARGS=\"{arguments}\"\n"));
    text
}
