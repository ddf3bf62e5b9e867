//! Runs seeds by hand: `simulate run --from 0 --seeds 1000000`, `simulate replay 42`.

// A program's output is its purpose.
#![allow(clippy::print_stdout)]

use kafkalite_simulator::faults::Fault;
use kafkalite_simulator::planted::Planted;
use kafkalite_simulator::sweep::{Failure, find, report, shrink};
use kafkalite_simulator::world::{Options, run};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: simulate run [--from SEED] [--seeds COUNT] [--planted BUG]
       simulate replay SEED [--without FAULT]... [--planted BUG]";
/// Between two lines about progress, seeds.
const PORTION: u64 = 1_000;

struct Arguments {
    replays: bool,
    options: Options,
    count: u64,
}

fn parse() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let replays = match words.next()?.as_str() {
        "run" => false,
        "replay" => true,
        _ => return None,
    };
    let mut options = Options { keeps_text: replays, ..Options::default() };
    if replays {
        options.seed = words.next()?.parse().ok()?;
    }
    let mut count = 10_000;
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--from" => options.seed = value.parse().ok()?,
            "--seeds" => count = value.parse().ok()?,
            "--without" => options.without.push(Fault::by_name(&value)?),
            "--planted" => options.planted = Some(Planted::by_name(&value)?),
            _ => return None,
        }
    }
    Some(Arguments { replays, options, count })
}

fn main() -> ExitCode {
    let Some(Arguments { replays, options, count }) = parse() else {
        println!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if replays {
        let outcome = run(&options);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        println!("faults {:?}, hash {:016x}", outcome.faults, outcome.hash);
        outcome.violations.iter().for_each(|violation| println!("{violation}"));
        return if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let started = Instant::now();
    let mut done = 0;
    while done < count {
        let portion = PORTION.min(count - done);
        let from = options.seed + done;
        if let Some(failure) = find(from, portion, options.planted) {
            let failure: Failure = shrink(failure);
            println!("{}", report(&failure));
            println!("go on behind it: --from {}", failure.options.seed + 1);
            return ExitCode::FAILURE;
        }
        done += portion;
        let seconds = started.elapsed().as_secs_f64();
        println!("{done} seeds in {seconds:.1} s; go on with --from {}", options.seed + done);
    }
    ExitCode::SUCCESS
}
