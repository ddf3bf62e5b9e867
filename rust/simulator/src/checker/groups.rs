//! What a group must never show. Looked at when the coordinator answers, not when answers arrive.
//!
//! - `two-owners`: one partition has two members in one generation
//! - `generation-went-back`: an assignment of an older generation than one before
//! - `old-generation-commit`: a commit of a generation that is over was acknowledged
//! - `commit-went-back`: an acknowledged commit is below an earlier one of the partition
//! - `answered-uncommitted`: an answer stands on records above the high watermark
//! - `commit-lost`: a committed offset was acknowledged, and is not there for who asks later
//! - `former-topic`: an answer has an offset that was committed for another topic of the name
//!
//! A coordinator that was deposed and does not know it may answer from what it remembers, as in
//! Kafka. So each rule compares with the same leader epoch and those before.

use super::Violation;
use kafkalite_protocol::{Offset, Uuid};
use std::collections::BTreeMap;

/// A partition that the group shares out: its topic and its number.
pub type Place = (Uuid, i32);

/// What was seen of the group.
#[derive(Debug, Default)]
pub struct Groups {
    pub(super) found: Vec<Violation>,
    /// Generation and partition -> the member that owns it.
    owners: BTreeMap<(i32, i32), String>,
    /// Coordinator epoch -> the highest generation whose assignment it gave out.
    generations: BTreeMap<i32, i32>,
    /// Partition and coordinator epoch -> the highest offset whose commit was acknowledged.
    commits: BTreeMap<(Place, i32), i64>,
    /// How many commits were acknowledged.
    pub acknowledged: u64,
}

impl Groups {
    fn report(&mut self, kind: &'static str, detail: String) {
        self.found.push(Violation::new(kind, detail));
    }

    /// The coordinator of `epoch` gave `member` its assignment.
    pub fn assigned(&mut self, epoch: i32, generation: i32, member: &str, partitions: &[i32]) {
        for partition in partitions {
            let owner = self.owners.entry((generation, *partition));
            let owner = owner.or_insert_with(|| member.to_owned()).clone();
            if owner != member {
                let told = format!(
                    "partition {partition} belongs to {owner} and {member} in {generation}"
                );
                self.report("two-owners", told);
            }
        }
        let before = self.generations.range(..=epoch).map(|(_, highest)| *highest).max();
        if before.is_some_and(|before| generation < before) {
            let told = format!("{generation} after {before:?}, coordinator epoch {epoch}");
            self.report("generation-went-back", told);
        }
        let highest = self.generations.entry(epoch).or_insert(generation);
        *highest = generation.max(*highest);
    }

    fn highest_commit(&self, epoch: i32, place: Place) -> Option<i64> {
        self.commits.range((place, i32::MIN)..=(place, epoch)).map(|(_, at)| *at).max()
    }

    /// The coordinator of `epoch` acknowledged a commit that a member made in `generation`.
    pub fn committed(&mut self, epoch: i32, generation: i32, place: Place, offset: i64) {
        self.acknowledged += 1;
        if self.generations.get(&epoch).is_some_and(|current| generation < *current) {
            let told = format!(
                "{offset} of {place:?} in generation {generation}, of {:?}",
                self.generations.get(&epoch)
            );
            self.report("old-generation-commit", told);
        }
        let before = self.highest_commit(epoch, place);
        if before.is_some_and(|before| offset < before) {
            let told = format!("{place:?}: {offset} after {before:?}");
            self.report("commit-went-back", told);
        }
        let highest = self.commits.entry((place, epoch)).or_insert(offset);
        *highest = offset.max(*highest);
    }

    /// The coordinator of `epoch` answered from the records below `loaded_end`.
    pub fn answered(&mut self, epoch: i32, loaded_end: Offset, high_watermark: Offset) {
        if loaded_end > high_watermark {
            let (end, high_watermark) = (loaded_end.0, high_watermark.0);
            let told = format!("coordinator epoch {epoch}: {end} is above {high_watermark}");
            self.report("answered-uncommitted", told);
        }
    }

    /// The coordinator of `epoch` answered a question for a committed offset of a topic that is
    /// there; -1 is none.
    pub fn fetched(&mut self, epoch: i32, place: Place, offset: i64) {
        let owed = self.highest_commit(epoch, place).unwrap_or(-1);
        if offset < owed {
            let told =
                format!("{place:?}, coordinator epoch {epoch}: {offset}, {owed} was committed");
            self.report("commit-lost", told);
        }
    }

    /// The coordinator of `epoch` told an offset of `place` that was committed for `topic`.
    pub fn told_offset(&mut self, epoch: i32, place: Place, topic: &str) {
        if topic != place.0.to_string() {
            let told = format!("{place:?}, coordinator epoch {epoch}: an offset of topic {topic}");
            self.report("former-topic", told);
        }
    }
}
