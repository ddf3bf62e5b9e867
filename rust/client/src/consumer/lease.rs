//! Records on their way to the caller, who may fail to make something of them.
//!
//! A caller keeps the records of a lease, or a part of them. The rest goes back to its partitions
//! when the lease is dropped for any reason, and is handed out again. Nothing goes back to a
//! partition with a seek to another place meanwhile.

use std::ops::Deref;

use super::shared::Shared;
use crate::consumer::cursor::Position;
use crate::consumer::record_block::RecordSlice;

/// Records that were taken and are not kept yet.
pub struct Lease<'a> {
    shared: &'a Shared,
    slices: Vec<RecordSlice>,
}

impl<'a> Lease<'a> {
    pub(super) fn new(shared: &'a Shared, slices: Vec<RecordSlice>) -> Self {
        Self { shared, slices }
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
