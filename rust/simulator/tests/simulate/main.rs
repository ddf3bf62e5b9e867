//! The simulator over many seeds, and the proof that it finds what it is made to find.

#![allow(clippy::unwrap_used)]

use kafkalite_simulator::planted::Planted;
use kafkalite_simulator::sweep::{Level, Options, Outcome, find, report, shrink};
use kafkalite_simulator::world::{Machines, Work};

mod checker;
mod memory_log;
mod rooms;

/// Every planted bug is found within so many seeds.
const SEEDS_FOR_A_BUG: u64 = 1_000;

/// Runs seeds that have to be clean. A test of its own for each part: they run side by side.
#[track_caller]
fn sweep(from: u64) {
    if let Some(failure) = find::<Machines>(from, 2_500, None) {
        panic!("{}", report(&shrink(failure)));
    }
}

#[test]
fn seeds_of_the_first_quarter_find_nothing() {
    sweep(0);
}

#[test]
fn seeds_of_the_second_quarter_find_nothing() {
    sweep(2_500);
}

#[test]
fn seeds_of_the_third_quarter_find_nothing() {
    sweep(5_000);
}

#[test]
fn seeds_of_the_last_quarter_find_nothing() {
    sweep(7_500);
}

/// By which rules each planted bug may show itself.
fn symptoms(bug: Planted) -> &'static [&'static str] {
    match bug {
        Planted::AckBeforeAppend => &["inconsistent-offset", "lost-write", "unseen"],
        Planted::CrcSkipped => &["replicas-differ", "bad-crc"],
        Planted::HighWatermarkPastFollower => &["ahead-of-replica"],
        Planted::EpochFenceDropped => {
            &["mark-went-back", "ahead-of-replica", "replicas-differ", "two-leaders", "not-healed"]
        }
        Planted::DemotedLeaderAppends => {
            &["mark-went-back", "replicas-differ", "epoch-went-back", "not-healed"]
        }
        Planted::CommitAcrossEpochs => &["inconsistent-offset", "lost-write", "two-leaders"],
        Planted::LateAppendUndoesTruncation => {
            &["mark-went-back", "mark-beyond-end", "cannot-load"]
        }
        Planted::StaleIsrAccepted
        | Planted::OldBrokerEpochAccepted
        | Planted::JoiningReplicaNotCounted => {
            // A replica that leads without what is committed has its followers cut it off.
            &["ahead-of-replica", "committed-lost", "mark-went-back", "replicas-differ"]
        }
        Planted::OldGenerationCommits => &["old-generation-commit", "commit-went-back"],
        Planted::LoadedToHighWatermark => {
            &["commit-lost", "commit-went-back", "two-owners", "generation-went-back"]
        }
        Planted::LoadedUncommitted => &["answered-uncommitted", "two-owners"],
        Planted::CommitAnsweredByDeposedCoordinator => {
            &["two-owners", "generation-went-back", "commit-lost"]
        }
        Planted::ImageForgetsLastBatch => &["image-differs", "not-healed"],
        Planted::TimerFiresTwice => &["timer-fired-twice"],
        Planted::TruncationSkipped => &["not-healed", "replicas-differ"],
        Planted::LoadSkipsABatch => {
            &["commit-lost", "commit-went-back", "two-owners", "generation-went-back"]
        }
        Planted::CommitsWithoutTopicId => &["former-topic", "commit-went-back", "commit-lost"],
        Planted::OldMetadataApplied => &["image-went-back", "image-differs", "not-healed"],
        Planted::OvertakenProposalCommits => {
            &["change-lost", "refused-change", "two-leaders", "not-healed"]
        }
        Planted::UnknownTakenForRejected => &["refused-change"],
        Planted::MetadataLogLosesItsEnd => &["change-lost", "image-went-back", "image-differs"],
        Planted::FollowerAcknowledgesUnflushed
        | Planted::UncleanLeaderElected
        | Planted::HighWatermarkMovesBelowMin => {
            // A leader that never flushed what it followed commits nothing.
            &["committed-lost", "lost-write", "ahead-of-replica", "mark-went-back", "not-healed"]
        }
        Planted::RetentionPassesHighWatermark => &["retained-uncommitted"],
        Planted::RetentionByAnotherPolicy => &["retained-too-early"],
        Planted::LateFollowerKeepsItsLog => &["not-healed"],
        Planted::DeletedRecordsTrusted => &["replicas-differ"],
        Planted::EpochStaysWhenReplicaLeaves | Planted::MoveEndsEarly => &[
            "ahead-of-replica",
            "committed-lost",
            "mark-went-back",
            "replicas-differ",
            "lost-write",
        ],
        Planted::CheckpointNotesLogEnd => {
            &["ahead-of-replica", "committed-lost", "replicas-differ"]
        }
    }
}

/// Finds a bug, and runs the seed again.
#[track_caller]
fn finds(bug: Planted) {
    let failure = find::<Machines>(0, SEEDS_FOR_A_BUG, Some(bug));
    let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not found"));
    let found = &failure.outcome.violations;
    let is_known = found.iter().any(|one| symptoms(bug).contains(&one.kind));
    assert!(is_known, "{bug:?} shows itself as {found:?}");
    let again = Machines::run(&failure.options);
    assert_eq!(again.hash, failure.outcome.hash, "{bug:?}");
    assert_eq!(again.violations, failure.outcome.violations, "{bug:?}");
}

#[test]
fn planted_bugs_are_found_and_their_seeds_replay() {
    Planted::ALL.into_iter().for_each(finds);
}

fn seeded(seed: u64) -> Outcome<Machines> {
    Machines::run(&Options { seed, ..Options::default() })
}

#[test]
fn a_seed_has_one_history_and_another_seed_another() {
    let hash = |seed| seeded(seed).hash;
    let first: Vec<u64> = (0..20).map(hash).collect();
    let second: Vec<u64> = (0..20).map(hash).collect();
    assert_eq!(first, second);
    let mut others = first;
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), 20);
}

#[test]
fn keeping_the_text_changes_nothing() {
    let short = seeded(5);
    let long = Machines::run(&Options { seed: 5, keeps_text: true, ..Options::default() });
    assert_eq!(short.hash, long.hash);
    assert_eq!(u64::try_from(long.lines.len()).unwrap(), long.steps);
    assert!(short.lines.is_empty());
}

#[test]
fn runs_read_records_commit_offsets_and_change_metadata() {
    let work = |seed| seeded(seed).work;
    let done: Vec<Work> = (0..50).map(work).collect();
    let busy = |one: &&Work| one.polls >= 50 && one.commits >= 5 && one.changes >= 3;
    assert!(done.iter().filter(busy).count() >= 40, "too little happens: {done:?}");
    let moves = done.iter().map(|one| one.moves).sum::<u64>();
    assert!(moves >= 100, "too little moves: {done:?}");
}

#[test]
fn a_failure_shrinks_to_few_kinds_of_faults() {
    let failure = find::<Machines>(0, 100, Some(Planted::HighWatermarkPastFollower)).unwrap();
    let seed = failure.options.seed;
    let smallest = shrink(failure);
    assert_eq!(smallest.options.seed, seed);
    // This bug needs no fault at all.
    assert!(smallest.outcome.faults.is_empty(), "{:?}", smallest.outcome.faults);
    let text = report(&smallest);
    let command = format!("make simulate ARGS=\"replay {seed}");
    assert!(text.contains(&command), "{text}");
    assert!(text.contains("ahead-of-replica"), "{text}");
}
