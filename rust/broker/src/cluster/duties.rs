//! What the leader of the quorum has in hand.
//!
//! It looks at its cluster again and again. A duty that is under way is not begun a second time.
//! A change may wait for as long as no majority is reached, and all of its copies would be made.

use super::Member;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One thing to do, of the leader of one term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Duty {
    /// To write down that it leads.
    BeginEpoch,
    /// To fence this broker in this life.
    Fence(i32, i64),
    /// To elect leaders that may lack records.
    ElectUnclean,
    /// To end the fence of this broker itself; every broker does that, leader or not.
    Serve,
}

/// Those that are under way, by the term in which they began.
#[derive(Default)]
pub(super) struct Duties(Mutex<BTreeSet<(u64, Duty)>>);

impl Duties {
    fn begins(&self, term: u64, duty: Duty) -> bool {
        self.0.lock().insert((term, duty))
    }

    fn ended(&self, term: u64, duty: Duty) {
        self.0.lock().remove(&(term, duty));
    }
}

impl Member {
    /// Begins a duty, unless it is under way. What is returned takes its outcome.
    pub fn begins<A>(
        self: &Arc<Self>,
        term: u64,
        duty: Duty,
    ) -> Option<impl FnOnce(A) + Send + use<A>> {
        let this = Arc::clone(self);
        let ended = move |_: A| this.duties.ended(term, duty);
        self.duties.begins(term, duty).then_some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duty_that_is_under_way_is_not_begun_again_in_its_term() {
        let duties = Duties::default();
        assert!(duties.begins(1, Duty::Fence(2, 7)));
        assert!(!duties.begins(1, Duty::Fence(2, 7)));
        assert!(duties.begins(1, Duty::Fence(2, 8)), "another life");
        assert!(duties.begins(2, Duty::Fence(2, 7)), "another term: the first one is refused");
        duties.ended(1, Duty::Fence(2, 7));
        assert!(duties.begins(1, Duty::Fence(2, 7)));
    }
}
