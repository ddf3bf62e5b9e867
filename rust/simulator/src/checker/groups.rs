//! What a group must never show. Looked at when the coordinator answers, not when answers arrive.
//!
//! - `two-owners`: one partition has two members in one generation
//! - `generation-went-back`: an assignment of an older generation than one before
//! - `old-generation-commit`: a commit of a generation that is over was acknowledged
//! - `commit-went-back`: an acknowledged commit is below an earlier one of the partition
//! - `answered-uncommitted`: an answer stands on records above the high watermark
//! - `commit-lost`: a committed offset was acknowledged, and is not there for who asks later
//!
//! A coordinator that was deposed and does not know it may answer from what it remembers, as in
//! Kafka. So each rule compares with the same leader epoch and those before.

use super::Violation;
use kafkalite_protocol::Offset;
use std::collections::BTreeMap;

/// What was seen of the group.
#[derive(Debug, Default)]
pub struct Groups {
    pub(super) found: Vec<Violation>,
    /// Generation and partition -> the member that owns it.
    owners: BTreeMap<(i32, i32), String>,
    /// Coordinator epoch -> the highest generation whose assignment it gave out.
    generations: BTreeMap<i32, i32>,
    /// Partition and coordinator epoch -> the highest offset whose commit was acknowledged.
    commits: BTreeMap<(i32, i32), i64>,
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

    fn highest_commit(&self, epoch: i32, partition: i32) -> Option<i64> {
        self.commits.range((partition, i32::MIN)..=(partition, epoch)).map(|(_, at)| *at).max()
    }

    /// The coordinator of `epoch` acknowledged a commit that a member made in `generation`.
    pub fn committed(&mut self, epoch: i32, generation: i32, partition: i32, offset: i64) {
        self.acknowledged += 1;
        if self.generations.get(&epoch).is_some_and(|current| generation < *current) {
            let told = format!(
                "{offset} of partition {partition} in generation {generation}, of {:?}",
                self.generations.get(&epoch)
            );
            self.report("old-generation-commit", told);
        }
        let before = self.highest_commit(epoch, partition);
        if before.is_some_and(|before| offset < before) {
            let told = format!("partition {partition}: {offset} after {before:?}");
            self.report("commit-went-back", told);
        }
        let highest = self.commits.entry((partition, epoch)).or_insert(offset);
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

    /// The coordinator of `epoch` answered a question for a committed offset; -1 is none.
    pub fn fetched(&mut self, epoch: i32, partition: i32, offset: i64) {
        let owed = self.highest_commit(epoch, partition).unwrap_or(-1);
        if offset < owed {
            let told = format!(
                "partition {partition}, coordinator epoch {epoch}: {offset}, {owed} was committed"
            );
            self.report("commit-lost", told);
        }
    }
}
