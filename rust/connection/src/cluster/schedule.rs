//! What is to be asked of the cluster next, and when. Pure: time is handed in.
//!
//! Wishes are collected in a batch, and each caller gets the ticket of the pending batch. A batch
//! is due when any of its wishes is. A new wish is due at once. A repeated wish is due after a
//! back-off, which doubles while answers are of no use. The request may be creating a topic that
//! its answer lacks, so the back-off for such a topic begins with a few milliseconds. Wishes that
//! are not due travel along.

use crate::backoff::Backoff;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Brokers alone.
    Brokers,
    /// Brokers and all topics that are known when it is asked.
    Known,
    /// Brokers and these topics.
    Topics(Vec<String>),
    /// Brokers and all topics there are.
    All,
}

/// One request's worth of wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Grows with every batch.
    pub ticket: u64,
    /// Whether all topics are wanted.
    pub all: bool,
    /// Whether the topics that are known already are wanted.
    pub known: bool,
    /// The topics that are.
    pub topics: BTreeSet<String>,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is wanted.
    Idle,
    /// Nothing before then, unless more is wanted.
    At(Instant),
    /// Ask for this.
    Ask(Batch),
}

/// The result of an answer for one wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// All that was asked for.
    Good,
    /// It is not there yet, or has no leader.
    NotYet,
    /// There was no answer.
    Nothing,
}

/// What came of asking for something.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// It is due again no earlier.
    again: Instant,
    /// Answers in a row that brought no good.
    failures: u32,
}

/// Something that is asked for: the brokers, all topics, those that are known, or a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    Brokers,
    All,
    Known,
    Topic(String),
}

/// What has been due for this long is forgotten: nothing is owed to it any more.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// A topic that was not there yet is asked for again after this.
const SOONEST: Duration = Duration::from_millis(8);

/// Collects wishes.
#[derive(Debug)]
pub struct Schedule {
    backoff: Backoff,
    /// The same for topics that were not there yet.
    soon: Backoff,
    pending: Option<Batch>,
    /// The ticket of the last batch that was made.
    tickets: u64,
    asked: HashMap<Item, Asked>,
    /// Whether a task works through it.
    pub driven: bool,
}

impl Schedule {
    /// An empty one.
    pub fn new(backoff: Backoff) -> Self {
        let soon = Backoff { initial: SOONEST.min(backoff.initial), ..backoff };
        Self { backoff, soon, pending: None, tickets: 0, asked: HashMap::new(), driven: false }
    }

    /// Adds a wish; returns the ticket of the batch that will fulfil it.
    pub fn want(&mut self, wanted: Wanted) -> u64 {
        let tickets = &mut self.tickets;
        let batch = self.pending.get_or_insert_with(|| {
            *tickets += 1;
            Batch { ticket: *tickets, ..Batch::default() }
        });
        match wanted {
            Wanted::Brokers => {}
            Wanted::Topics(names) => batch.topics.extend(names),
            Wanted::All => batch.all = true,
            Wanted::Known => batch.known = true,
        }
        batch.ticket
    }

    /// What to do now; a batch that is handed out is pending no longer.
    pub fn next(&mut self, now: Instant) -> Next {
        let Some(batch) = &self.pending else { return Next::Idle };
        let due = items(batch).map(|item| self.asked.get(&item).map_or(now, |asked| asked.again));
        let due = due.min().unwrap_or(now);
        if due > now {
            return Next::At(due);
        }
        self.asked.retain(|_, asked| now.saturating_duration_since(asked.again) < FORGET_AFTER);
        Next::Ask(self.pending.take().expect("it was there"))
    }

    /// A batch was answered; `told` gives the result for each topic, and for all other wishes.
    pub fn answered(&mut self, batch: &Batch, now: Instant, told: impl Fn(Option<&str>) -> Told) {
        for item in items(batch) {
            let name = match &item {
                Item::Topic(name) => Some(name.as_str()),
                Item::Brokers | Item::All | Item::Known => None,
            };
            let told = told(name);
            let backoff = match name {
                Some(_) if told == Told::NotYet => &self.soon,
                _ => &self.backoff,
            };
            let asked = self.asked.entry(item).or_insert(Asked { again: now, failures: 0 });
            asked.failures = if told == Told::Good { 0 } else { asked.failures.saturating_add(1) };
            asked.again = now + backoff.after(asked.failures.max(1));
        }
    }
}

/// What a batch asks for. Brokers come with everything, so they count only where nothing else does.
fn items(batch: &Batch) -> impl Iterator<Item = Item> {
    let alone = !batch.all && !batch.known && batch.topics.is_empty();
    let whole = batch.all.then_some(Item::All);
    let known = batch.known.then_some(Item::Known);
    let topics = batch.topics.iter().map(|name| Item::Topic(name.clone()));
    alone.then_some(Item::Brokers).into_iter().chain(whole).chain(known).chain(topics)
}

#[cfg(test)]
mod tests;
