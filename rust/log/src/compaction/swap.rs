//! Puts a compacted segment in the place of its sources. A crash at any moment leaves the old
//! segments or the new one.
//!
//! 1. `.cleaned` (complete, on the disk) becomes `.swap`, the `.log` last: from here on it counts.
//! 2. The old files become `.deleted`.
//! 3. `.swap` loses its suffix, the `.log` last.
//!
//! A full disk may stop this after 1. The next compaction goes on where it stopped, and so do a
//! truncation and a deletion before they begin. Otherwise the left `.swap` would bring back cut
//! records, or replace a segment that is not one of its sources.
//!
//! A truncation and the move wait for each other. If the log was truncated since the compaction
//! began, the new segment is void. It may have records above the cut, or such records may have
//! replaced others.
//!
//! After a crash `recovery` throws `.cleaned` away and finishes the move of `.swap`.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::rewrite::Rules;
use crate::commit_log::{CommitLog, Writer};
use crate::error::LogError;
use crate::recovery::{CLEANED_SUFFIX, SWAP_SUFFIX};
use crate::segment::{INDEX_SUFFIX, LOG_SUFFIX, Segment, TIME_INDEX_SUFFIX};

/// A compacted segment that counts and is not in its place.
#[derive(Debug)]
pub(crate) struct UnfinishedSwap {
    group: Vec<Arc<Segment>>,
    cleaned: Arc<Segment>,
    /// The names that end in `.swap` survive a power cut.
    on_disk: bool,
    /// What the files of the group are called, once all of them are on the way out.
    renamed: Option<Vec<PathBuf>>,
    now_ms: i64,
}

impl CommitLog {
    /// Puts `cleaned` in the place of `group`. `false` if it is void: some of the group are gone.
    pub(super) fn swap(
        &self,
        group: &[Arc<Segment>],
        cleaned: Segment,
        rules: &Rules<'_>,
    ) -> Result<bool, LogError> {
        // A `.swap` that a crash leaves counts: none may be there when a truncation is answered.
        let _flushing = self.flushing.lock();
        if self.truncations() != rules.truncations {
            return self.discard(&cleaned, CLEANED_SUFFIX).map(|()| false);
        }
        self.rename_all(&cleaned, CLEANED_SUFFIX, SWAP_SUFFIX)?;
        let synced = self.sync_dir();
        let mut writer = self.writer.lock();
        writer.unfinished_swap = Some(Box::new(UnfinishedSwap {
            group: group.to_vec(),
            cleaned: Arc::new(cleaned),
            on_disk: synced.is_ok(),
            renamed: None,
            now_ms: rules.now_ms,
        }));
        synced?;
        self.check_open()?;
        let counts = self.finish_swap(&mut writer)?;
        drop(writer);
        self.sync_dir().map(|()| counts)
    }

    /// Moves the segment of the last compaction into its place, if a full disk kept it from there.
    pub(super) fn finish_last_swap(&self) -> Result<(), LogError> {
        let _flushing = self.flushing.lock();
        self.finish_swap(&mut self.writer.lock()).map(drop)
    }

    /// As [`Self::finish_last_swap`], for a caller that holds the lock `writer`. Whether the
    /// segment counts: `false` if some of those that it replaces are gone.
    pub(crate) fn finish_swap(&self, writer: &mut Writer) -> Result<bool, LogError> {
        let Some(mut swap) = writer.unfinished_swap.take() else { return Ok(true) };
        let finished = self.move_in(writer, &mut swap);
        if finished.is_err() {
            writer.unfinished_swap = Some(swap);
        }
        finished
    }

    /// Each step may be done again.
    fn move_in(&self, writer: &mut Writer, swap: &mut UnfinishedSwap) -> Result<bool, LogError> {
        let UnfinishedSwap { group, cleaned, on_disk, renamed, now_ms } = swap;
        if !*on_disk {
            self.sync_dir()?;
            *on_disk = true;
        }
        let place = {
            let segments = self.segments.read();
            let first = segments.iter().position(|segment| Arc::ptr_eq(segment, &group[0]));
            first.filter(|first| {
                let there = &segments[*first..];
                there.len() > group.len()
                    && there.iter().zip(&*group).all(|(there, old)| Arc::ptr_eq(there, old))
            })
        };
        // Retention took some of them meanwhile: what was made of them is void.
        let Some(place) = place else {
            return self.discard(cleaned, SWAP_SUFFIX).map(|()| false);
        };
        cleaned.set_bytes_before(group[0].bytes_before());
        // A full disk may end this at any rename. The old segments are read on then, some of them
        // as `.deleted`; so none of their files goes before all is done. The new files get their
        // names once only: they are those of the old ones.
        let renamed = match renamed {
            Some(renamed) => renamed,
            None => {
                let mut all = Vec::new();
                for old in &*group {
                    all.extend(old.mark_deleted()?);
                }
                renamed.insert(all)
            }
        };
        self.rename_all(cleaned, SWAP_SUFFIX, "")?;
        self.remove_later(writer, std::mem::take(renamed), *now_ms);
        // Positions in the old files. Before the new segment can be found: who finds it must not
        // find them.
        self.forget_tail();
        self.segments.write().splice(place..place + group.len(), [cleaned.clone()]);
        self.prune_snapshots(writer).map(|()| true)
    }

    fn rename_all(&self, segment: &Segment, from: &str, to: &str) -> Result<(), LogError> {
        for suffix in [INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX] {
            let source = segment.name(&format!("{suffix}{from}"));
            let target = segment.name(&format!("{suffix}{to}"));
            // Held: between two looks at the directory's name, the partition could be deleted and
            // its place taken by another, whose files these would become.
            let dir = self.dir();
            let renamed =
                dir.at("", |at| dir.storage().rename(&at.join(&source), &at.join(&target)));
            match renamed {
                // An earlier attempt renamed it.
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && from == SWAP_SUFFIX
                        && suffix != LOG_SUFFIX => {}
                renamed => {
                    renamed.map_err(|error| self.dir().failed(self.dir().file(&source), error))?;
                }
            }
        }
        Ok(())
    }

    fn discard(&self, segment: &Segment, suffix: &str) -> Result<(), LogError> {
        // The `.log` first: it is what recovery goes by.
        for kind in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX] {
            let name = segment.name(&format!("{kind}{suffix}"));
            match self.dir().at(&name, |path| self.dir().storage().remove_file(path)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(self.dir().failed(self.dir().file(&name), error)),
            }
        }
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), LogError> {
        let synced = self.dir().at("", |dir| self.dir().storage().sync_dir(dir));
        synced.map_err(|error| self.dir().failed(&*self.dir().path(), error))
    }
}
