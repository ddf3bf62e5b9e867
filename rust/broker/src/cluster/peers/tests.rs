use super::*;

/// The leader confirmed a decision without records, and the broker that asked took the answer for
/// nonsense: an alteration that changed nothing was answered by REQUEST_TIMED_OUT.
#[test]
fn a_decision_without_records_is_confirmed_at_the_offset_that_it_was_made_on() {
    let committed = |offset| {
        let outcome = outcome::COMMITTED;
        match accepted(7, ProposeRecordsResponse { outcome, offset, ..Default::default() }) {
            Accepted::Outcome(Outcome::Committed(offset)) => Some(offset),
            _ => None,
        }
    };
    assert_eq!((committed(6), committed(7), committed(9)), (None, Some(7), Some(9)));
}
