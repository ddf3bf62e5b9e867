//! Runs seeds by hand: `simulate run --from 0 --seeds 1000000`, `simulate replay 42`.

// A program's output is its purpose.
#![allow(clippy::print_stdout)]

use kafkalite_simulator::rooms::Rooms;
use kafkalite_simulator::sweep::{Level, Named, Options, find, report, shrink};
use kafkalite_simulator::world::Machines;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: simulate run [--from SEED] [--seeds COUNT] [--planted BUG]
       simulate replay SEED [--without FAULT]... [--planted BUG]
       simulate rooms-run ..., simulate rooms-replay ...: the same with the real rooms";

struct Arguments<L: Level> {
    replays: bool,
    options: Options<L>,
    count: u64,
}

/// `command` comes without the level's prefix.
fn parse<L: Level>(command: &str, words: &[String]) -> Option<Arguments<L>> {
    let mut words = words.iter();
    let replays = match command {
        "run" => false,
        "replay" => true,
        _ => return None,
    };
    let seed = if replays { words.next()?.parse().ok()? } else { 0 };
    let mut options = Options { seed, keeps_text: replays, ..Options::default() };
    let mut count = 10 * L::PORTION;
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--from" => options.seed = value.parse().ok()?,
            "--seeds" => count = value.parse().ok()?,
            "--without" => options.without.push(L::Fault::by_name(value)?),
            "--planted" => options.planted = Some(L::Planted::by_name(value)?),
            _ => return None,
        }
    }
    Some(Arguments { replays, options, count })
}

/// Shows every step of a run; whether it was clean.
fn replay<L: Level>(options: &Options<L>) -> bool {
    let outcome = L::run(options);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("{:?}", outcome.work);
    println!("faults {:?}, hash {:016x}", outcome.faults, outcome.hash);
    outcome.violations.iter().for_each(|violation| println!("{violation}"));
    outcome.violations.is_empty()
}

/// Runs seeds until one finds something; whether all were clean.
fn run<L: Level>(options: &Options<L>, count: u64) -> bool {
    let started = Instant::now();
    let mut done = 0;
    while done < count {
        let portion = L::PORTION.min(count - done);
        if let Some(failure) = find::<L>(options.seed + done, portion, options.planted) {
            let failure = shrink(failure);
            println!("{}", report(&failure));
            println!("go on behind it: --from {}", failure.options.seed + 1);
            return false;
        }
        done += portion;
        let seconds = started.elapsed().as_secs_f64();
        println!("{done} seeds in {seconds:.1} s; go on with --from {}", options.seed + done);
    }
    true
}

/// `None`: the words are no command.
fn follow<L: Level>(command: &str, words: &[String]) -> Option<bool> {
    let Arguments { replays, options, count } = parse::<L>(command, words)?;
    Some(if replays { replay(&options) } else { run(&options, count) })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let was_clean = words.split_first().and_then(|(command, words)| {
        match command.strip_prefix(Rooms::PREFIX) {
            Some(command) => follow::<Rooms>(command, words),
            None => follow::<Machines>(command, words),
        }
    });
    match was_clean {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            println!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}
