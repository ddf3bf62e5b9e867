//! The greatest producer id that the logs of this broker hold.

use std::sync::atomic::{AtomicI64, Ordering};

use kafkalite_log::FIRST_INVENTED_ID;

/// The greatest producer id that a log here holds, or held: a new producer gets a greater one.
#[derive(Debug)]
pub struct ProducerIdsSeen(AtomicI64);

impl Default for ProducerIdsSeen {
    fn default() -> Self {
        Self(AtomicI64::new(-1))
    }
}

impl ProducerIdsSeen {
    /// -1: no log holds one.
    #[must_use]
    pub fn greatest(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// A log takes, or holds, a batch with this id. An id that no cluster gives out changes
    /// nothing.
    pub fn saw(&self, id: i64) {
        // The first look keeps the line of the cache shared: few batches have a greater id.
        if id < FIRST_INVENTED_ID && id > self.greatest() {
            self.0.fetch_max(id, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_id_only_grows_and_is_never_an_invented_one() {
        let seen = ProducerIdsSeen::default();
        let after = |id| {
            seen.saw(id);
            seen.greatest()
        };
        assert_eq!([-1, 7, 5, i64::MAX, 8].map(after), [-1, 7, 7, 7, 8]);
    }
}
