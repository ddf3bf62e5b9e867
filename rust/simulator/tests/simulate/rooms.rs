//! Level 2: seeds of the real rooms, and the proof that they find what is planted.

use kafkalite_simulator::rooms::{Planted, Rooms, Work};
use kafkalite_simulator::sweep::{Level, Options, find, report, shrink};

/// Every planted bug is found within so many seeds.
const SEEDS_FOR_A_BUG: u64 = 150;

/// Runs seeds that have to be clean.
#[track_caller]
fn sweep(from: u64) {
    if let Some(failure) = find::<Rooms>(from, 100, None) {
        panic!("{}", report(&shrink(failure)));
    }
}

#[test]
fn seeds_of_the_first_half_find_nothing_in_the_real_rooms() {
    sweep(0);
}

#[test]
fn seeds_of_the_second_half_find_nothing_in_the_real_rooms() {
    sweep(100);
}

/// By which rules each planted bug may show itself.
fn symptoms(bug: Planted) -> &'static [&'static str] {
    match bug {
        Planted::SyncsIgnored => &[
            "committed-lost",
            "lost-write",
            "unseen",
            "replicas-differ",
            "not-healed",
            "commit-lost",
            "position-beyond-log",
            "does-not-start",
            "ahead-of-replica",
        ],
        Planted::BitFlipped => &["bad-crc", "replicas-differ", "committed-lost", "not-healed"],
        Planted::AckBeforeCommit => &["acknowledged-uncommitted"],
        Planted::ReadAboveHighWatermark => &["read-uncommitted", "ahead-of-replica"],
        Planted::FollowerClaimsMore => &["ahead-of-replica"],
        Planted::TruncationSkipped => &["not-healed", "replicas-differ", "ahead-of-replica"],
        Planted::UncleanLeaderElected => &["committed-lost", "ahead-of-replica", "replicas-differ"],
        Planted::SequencesForgotten => &["duplicate"],
    }
}

/// Finds a bug, and runs the seed again.
#[track_caller]
fn finds(bug: Planted) {
    let failure = find::<Rooms>(0, SEEDS_FOR_A_BUG, Some(bug));
    let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not found"));
    let found = &failure.outcome.violations;
    let is_known = found.iter().any(|one| symptoms(bug).contains(&one.kind));
    assert!(is_known, "{bug:?} shows itself as {found:?}");
    let again = Rooms::run(&failure.options);
    assert_eq!(again.hash, failure.outcome.hash, "{bug:?}");
    assert_eq!(again.violations, failure.outcome.violations, "{bug:?}");
}

#[test]
fn bugs_planted_around_the_real_rooms_are_found_and_their_seeds_replay() {
    Planted::ALL.into_iter().for_each(finds);
}

#[test]
fn a_seed_of_the_real_rooms_has_one_history() {
    for seed in 0..40 {
        let hash = || Rooms::run(&Options { seed, ..Options::default() }).hash;
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}

#[test]
fn runs_of_the_real_rooms_write_read_commit_and_crash() {
    let work = |seed| Rooms::run(&Options { seed, ..Options::default() }).work;
    let done: Vec<Work> = (0..40).map(work).collect();
    let busy = |one: &&Work| one.sends >= 10 && one.polls >= 10 && one.changes >= 2;
    assert!(done.iter().filter(busy).count() >= 30, "too little happens: {done:?}");
    assert!(done.iter().map(|one| one.commits).sum::<u64>() >= 100, "{done:?}");
    assert!(done.iter().map(|one| one.ends).sum::<u64>() >= 60, "{done:?}");
    assert!(done.iter().map(|one| one.moves).sum::<u64>() >= 40, "{done:?}");
}
