//! Records on their way to the caller, who may fail to make something of them.
//!
//! A caller keeps the records of a lease, or a part of them. The rest goes back to its partitions
//! when the lease is dropped for any reason, and is handed out again. Nothing goes back to a
//! partition with a seek to another place meanwhile. Until then no commit counts them: a caller may
//! commit, or close, in the middle.

use std::ops::Deref;

use super::shared::Shared;
use crate::consumer::cursor::{Position, Taken};
use crate::consumer::record_block::RecordSlice;

/// Records that were taken and are not kept yet.
pub struct Lease<'a> {
    shared: &'a Shared,
    slices: Vec<RecordSlice>,
    /// Dropped last: what is not kept has gone back by then.
    taken: Vec<Taken>,
}

impl<'a> Lease<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, slices: Vec::new(), taken: Vec::new() }
    }

    pub(super) fn push(&mut self, slice: RecordSlice, taken: Taken) {
        self.slices.push(slice);
        self.taken.push(taken);
    }

    /// Keeps all of them: they are done when the caller comes back.
    #[must_use]
    pub fn keep(mut self) -> Vec<RecordSlice> {
        std::mem::take(&mut self.slices)
    }

    /// Keeps the first `count` of them; the others are the next ones of their partitions again.
    pub fn keep_first(mut self, count: usize) {
        let mut left = count;
        self.slices.retain_mut(|slice| {
            let kept = left.min(slice.len());
            slice.from += kept;
            left -= kept;
            !slice.is_empty()
        });
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if self.slices.is_empty() {
            return;
        }
        let mut subscription = self.shared.subscription.lock();
        for slice in self.slices.iter().filter(|slice| !slice.is_empty()) {
            let from = Position::at(slice.block.offset(slice.from));
            subscription.give_back(slice.block.cursor(), from);
        }
        drop(subscription);
        self.shared.look_again();
    }
}

impl Deref for Lease<'_> {
    type Target = [RecordSlice];

    fn deref(&self) -> &[RecordSlice] {
        &self.slices
    }
}

impl std::fmt::Debug for Lease<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("slices", &self.slices).finish_non_exhaustive()
    }
}

/// The lease of one record that lay ready.
#[must_use]
pub struct Single<'a> {
    shared: &'a Shared,
    kept: bool,
    /// Dropped last, as in [`Lease`].
    taken: Taken,
}

impl<'a> Single<'a> {
    pub(super) fn new(shared: &'a Shared, taken: Taken) -> Self {
        Self { shared, kept: false, taken }
    }

    /// Keeps it: it is done when the caller comes back.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Whether its partition is still read from there on.
    pub(super) fn is_wanted(&self) -> bool {
        let cursor = self.taken.cursor();
        // Where the client itself went back, it goes on behind this record.
        !cursor.is_retired() || self.shared.subscription.lock().goes_on_from(cursor)
    }

    /// Goes back where nothing moved since: `next` is still the position. Whether it did; if not,
    /// it goes back as others do, and is fetched again.
    pub(super) fn put_back(mut self, next: Position) -> bool {
        self.kept = self.taken.put_back(next);
        self.kept
    }
}

impl Drop for Single<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.subscription.lock().give_back(self.taken.cursor(), self.taken.from());
            self.shared.look_again();
        }
    }
}
