//! Runs seeds by hand: `simulate run --from 0 --seeds 1000000`, `simulate replay 42`.

// A program's output is its purpose.
#![allow(clippy::print_stdout)]

use kafkalite_simulator::checker::Violation;
use kafkalite_simulator::faults::Fault;
use kafkalite_simulator::planted::Planted;
use kafkalite_simulator::rooms;
use kafkalite_simulator::sweep::{Failure, find, report, shrink};
use kafkalite_simulator::world::{Options, run};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: simulate run [--from SEED] [--seeds COUNT] [--planted BUG]
       simulate replay SEED [--without FAULT]... [--planted BUG]
       simulate rooms-run ..., simulate rooms-replay ...: the same with the real rooms";
/// Between two lines about progress, seeds.
const PORTION: u64 = 1_000;
/// The same with the real rooms, which take longer.
const ROOMS_PORTION: u64 = 20;

/// One of the two levels.
enum Level {
    Machines(Options),
    Rooms(rooms::Options),
}

struct Arguments {
    replays: bool,
    level: Level,
    count: u64,
}

fn parse() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let command = words.next()?;
    let is_rooms = command.starts_with("rooms-");
    let replays = match command.trim_start_matches("rooms-") {
        "run" => false,
        "replay" => true,
        _ => return None,
    };
    let seed = if replays { words.next()?.parse().ok()? } else { 0 };
    let mut machines = Options { seed, keeps_text: replays, ..Options::default() };
    let mut real = rooms::Options { seed, keeps_text: replays, ..rooms::Options::default() };
    let mut count = if is_rooms { 200 } else { 10_000 };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match (word.as_str(), is_rooms) {
            ("--from", _) => {
                machines.seed = value.parse().ok()?;
                real.seed = machines.seed;
            }
            ("--seeds", _) => count = value.parse().ok()?,
            ("--without", false) => machines.without.push(Fault::by_name(&value)?),
            ("--without", true) => real.without.push(rooms::Fault::by_name(&value)?),
            ("--planted", false) => machines.planted = Some(Planted::by_name(&value)?),
            ("--planted", true) => real.planted = Some(rooms::Planted::by_name(&value)?),
            _ => return None,
        }
    }
    let level = if is_rooms { Level::Rooms(real) } else { Level::Machines(machines) };
    Some(Arguments { replays, level, count })
}

/// Shows every step of a run; whether it was clean.
fn show(lines: &[String], faults: &dyn std::fmt::Debug, hash: u64, found: &[Violation]) -> bool {
    lines.iter().for_each(|line| println!("{line}"));
    println!("faults {faults:?}, hash {hash:016x}");
    found.iter().for_each(|violation| println!("{violation}"));
    found.is_empty()
}

fn replay(level: &Level) -> bool {
    match level {
        Level::Machines(options) => {
            let outcome = run(options);
            show(&outcome.lines, &outcome.faults, outcome.hash, &outcome.violations)
        }
        Level::Rooms(options) => {
            let outcome = rooms::run(options);
            println!("{:?}", outcome.work);
            show(&outcome.lines, &outcome.faults, outcome.hash, &outcome.violations)
        }
    }
}

/// The report of the first failure among these seeds, and its seed.
fn failure_among(level: &Level, done: u64, portion: u64) -> Option<(String, u64)> {
    match level {
        Level::Machines(options) => {
            let failure: Failure = find(options.seed + done, portion, options.planted)?;
            let failure = shrink(failure);
            Some((report(&failure), failure.options.seed))
        }
        Level::Rooms(options) => {
            let failure = rooms::find(options.seed + done, portion, options.planted)?;
            let failure = rooms::shrink(failure);
            Some((rooms::report(&failure), failure.options.seed))
        }
    }
}

fn main() -> ExitCode {
    let Some(Arguments { replays, level, count }) = parse() else {
        println!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if replays {
        return if replay(&level) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (from, longest) = match &level {
        Level::Machines(options) => (options.seed, PORTION),
        Level::Rooms(options) => (options.seed, ROOMS_PORTION),
    };
    let started = Instant::now();
    let mut done = 0;
    while done < count {
        let portion = longest.min(count - done);
        if let Some((report, seed)) = failure_among(&level, done, portion) {
            println!("{report}");
            println!("go on behind it: --from {}", seed + 1);
            return ExitCode::FAILURE;
        }
        done += portion;
        let seconds = started.elapsed().as_secs_f64();
        println!("{done} seeds in {seconds:.1} s; go on with --from {}", from + done);
    }
    ExitCode::SUCCESS
}
