//! The history checker: after any fault, what must no client have seen?
//!
//! The rules and their names are those of `tests/conformance/checker.py`, which judges real
//! processes. A history is a list of sends and of polls, with values that are unique.

use super::Violation;
use std::collections::{BTreeMap, BTreeSet};

/// The answer that a producer got about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Ok,
    /// Refused finally.
    Failed,
    /// No answer, or one that leaves both possible.
    Unknown,
}

/// The outcome of a transaction; a record outside of one is committed from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Committed.
    Committed,
    /// Aborted.
    Aborted,
    /// Not decided yet.
    Open,
}

/// One record handed to a producer.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// Unique.
    pub value: u64,
    /// The partition it was sent to.
    pub partition: usize,
    /// The answer that the producer got.
    pub outcome: Outcome,
    /// Set if it was acknowledged with an offset that binds the broker.
    pub offset: Option<i64>,
    /// The outcome of its transaction.
    pub fate: Fate,
}

/// One record a reader (in assign mode) got.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    /// Who read it.
    pub reader: u32,
    /// The partition it came from.
    pub partition: usize,
    /// Its offset.
    pub offset: i64,
    /// Its value.
    pub value: u64,
    /// The test moved the reader there.
    pub sought: bool,
    /// What had become of the value's transaction at the time of the poll.
    pub fate_then: Fate,
}

/// All sends and all polls of a run; each reader's polls in their order.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Sends, in any order.
    pub sends: Vec<Send>,
    /// Polls.
    pub polls: Vec<Poll>,
    /// By partition: below this retention took records.
    pub retained_to: BTreeMap<usize, i64>,
    /// By partition: below this some replica dropped its records, which retention took elsewhere,
    /// and forgot their producers.
    pub forgotten_to: BTreeMap<usize, i64>,
    /// Whether, after healing, some reader read every partition to its end.
    pub drained: bool,
    /// Whether the producers were not idempotent.
    pub may_repeat: bool,
}

/// Every violation in the history; an empty list is a clean run.
#[must_use]
pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    duplicates(history, &mut found);
    offsets(history, &mut found);
    losses(history, &mut found);
    transactions(history, &mut found);
    order(history, &mut found);
    phantoms(history, &mut found);
    found
}

type Places = BTreeMap<(usize, i64), BTreeSet<u64>>;

/// The values seen at each (partition, offset), by readers and by acknowledgements.
fn places(history: &History) -> Places {
    let mut places = Places::new();
    for poll in &history.polls {
        places.entry((poll.partition, poll.offset)).or_default().insert(poll.value);
    }
    for send in history.sends.iter().filter(|send| send.outcome == Outcome::Ok) {
        if let Some(offset) = send.offset.filter(|offset| *offset >= 0) {
            places.entry((send.partition, offset)).or_default().insert(send.value);
        }
    }
    places
}

fn duplicates(history: &History, found: &mut Vec<Violation>) {
    if history.may_repeat {
        return;
    }
    let mut places: BTreeMap<u64, BTreeSet<(usize, i64)>> = BTreeMap::new();
    for poll in &history.polls {
        let forgotten_to = history.forgotten_to.get(&poll.partition).copied().unwrap_or(0);
        if poll.offset >= forgotten_to {
            places.entry(poll.value).or_default().insert((poll.partition, poll.offset));
        }
    }
    let twice = places.iter().filter(|(_, places)| places.len() > 1);
    found
        .extend(twice.map(|(value, at)| Violation::new("duplicate", format!("{value} at {at:?}"))));
}

fn offsets(history: &History, found: &mut Vec<Violation>) {
    for (place, values) in places(history).iter().filter(|(_, values)| values.len() > 1) {
        found.push(Violation::new("inconsistent-offset", format!("{values:?} at {place:?}")));
    }
}

fn losses(history: &History, found: &mut Vec<Violation>) {
    let read: BTreeSet<u64> = history.polls.iter().map(|poll| poll.value).collect();
    let mut highest: BTreeMap<usize, i64> = BTreeMap::new();
    for poll in &history.polls {
        let most = highest.entry(poll.partition).or_insert(-1);
        *most = (*most).max(poll.offset);
    }
    for send in &history.sends {
        let owed = send.outcome == Outcome::Ok && send.fate == Fate::Committed;
        // An acknowledgement without an offset promises nothing.
        let Some(offset) = send.offset.filter(|offset| owed && *offset >= 0) else { continue };
        let retained_to = history.retained_to.get(&send.partition).copied().unwrap_or(0);
        if read.contains(&send.value) || offset < retained_to {
            continue;
        }
        let told = format!("{} acknowledged at {}:{offset}", send.value, send.partition);
        if offset < highest.get(&send.partition).copied().unwrap_or(-1) {
            found.push(Violation::new("lost-write", told));
        } else if history.drained {
            found.push(Violation::new("unseen", told));
        }
    }
}

fn transactions(history: &History, found: &mut Vec<Violation>) {
    let fates: BTreeMap<u64, Fate> = history.sends.iter().map(|s| (s.value, s.fate)).collect();
    for poll in &history.polls {
        let told = || format!("{} by reader {}", poll.value, poll.reader);
        if fates.get(&poll.value) == Some(&Fate::Aborted) {
            found.push(Violation::new("aborted-read", told()));
        } else if poll.fate_then == Fate::Open {
            found.push(Violation::new("precommitted-read", told()));
        }
    }
}

/// The next offset that holds a record, after each that does. Readers jump over aborted records.
fn following(history: &History) -> BTreeMap<(usize, i64), i64> {
    let aborted = history.sends.iter().filter(|send| send.fate == Fate::Aborted);
    let aborted: BTreeSet<u64> = aborted.map(|send| send.value).collect();
    let places = places(history);
    let held = places.iter().filter(|(_, values)| values.difference(&aborted).next().is_some());
    let held: Vec<(usize, i64)> = held.map(|(place, _)| *place).collect();
    let pairs = held.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| (pair[0], pair[1].1)).collect()
}

fn order(history: &History, found: &mut Vec<Violation>) {
    let following = following(history);
    let mut last: BTreeMap<(u32, usize), i64> = BTreeMap::new();
    for poll in &history.polls {
        let Some(before) = last.insert((poll.reader, poll.partition), poll.offset) else {
            continue;
        };
        if poll.sought {
            continue;
        }
        let told =
            || format!("{} at {}: {before} then {}", poll.reader, poll.partition, poll.offset);
        if poll.offset <= before {
            found.push(Violation::new("non-monotonic-poll", told()));
        } else if following.get(&(poll.partition, before)).is_some_and(|next| *next < poll.offset) {
            found.push(Violation::new("poll-skip", told()));
        }
    }
}

fn phantoms(history: &History, found: &mut Vec<Violation>) {
    let sent: BTreeSet<u64> = history.sends.iter().map(|send| send.value).collect();
    let read: BTreeSet<u64> = history.polls.iter().map(|poll| poll.value).collect();
    let made_up = read.difference(&sent);
    found.extend(made_up.map(|value| Violation::new("phantom", value.to_string())));
}
