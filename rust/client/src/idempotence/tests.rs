#![allow(clippy::unwrap_used)]

use super::*;

const US: Identity = Identity { producer_id: 7, epoch: 2 };

fn sequences(acked: Option<i32>) -> Sequences {
    let mut sequences = Sequences::default();
    sequences.restart(US);
    for _ in 0..4 {
        sequences.stamp(10);
    }
    if let Some(acked) = acked {
        sequences.acked(acked, None);
    }
    sequences
}

fn verdict(code: ErrorCode, base_sequence: i32, sequences: &Sequences) -> Verdict {
    let stamp = Stamp { producer_id: 7, epoch: 2, base_sequence };
    let refused =
        Refused { code, log_start_offset: -1, stamp, stamp_replaced: false, may_retry: true };
    judge(&refused, sequences)
}

#[test]
fn sequences_count_records_and_wrap() {
    let mut sequences = Sequences::default();
    assert_eq!(sequences.stamp(3), None, "nobody to count for");
    sequences.restart(US);
    let bases: Vec<_> = [3, 1, i32::MAX as u32 - 3, 2]
        .into_iter()
        .map(|count| sequences.stamp(count).unwrap().base_sequence)
        .collect();
    assert_eq!(bases, [0, 3, 4, 0], "after 2^31-1 comes 0");
    sequences.acked(i32::MAX, None);
    assert!(sequences.is_next(0));
    sequences.acked(i32::MAX - 9, None);
    assert!(sequences.is_next(0), "a late answer does not turn it back");
}

#[test]
fn a_gap_is_believed_of_the_next_batch_only() {
    let gap = ErrorCode::OutOfOrderSequenceNumber;
    let cases = [
        (Some(9), 10, Verdict::RetryAnew),
        (Some(9), 20, Verdict::Retry),
        (None, 0, Verdict::RetryAnew),
        (None, 10, Verdict::Retry),
    ];
    for (acked, base, expected) in cases {
        assert_eq!(verdict(gap, base, &sequences(acked)), expected, "{acked:?} {base}");
    }
}

#[test]
fn after_a_batch_that_was_given_up_the_one_behind_it_tells_whether_it_was_written() {
    let mut sequences = sequences(Some(9));
    sequences.give_up(20);
    let gap = ErrorCode::OutOfOrderSequenceNumber;
    assert_eq!(verdict(gap, 10, &sequences), Verdict::Retry);
    assert_eq!(verdict(gap, 20, &sequences), Verdict::RetryAnew);
    assert_eq!(verdict(gap, 30, &sequences), Verdict::Retry);
    assert!(!sequences.resolve(), "30 to 39 are numbered and not written");
    sequences.acked(39, None);
    assert!(sequences.resolve() && !sequences.is_unresolved());
}

#[test]
fn other_refusals_follow_kafkas_table() {
    let cases = [
        (ErrorCode::DuplicateSequenceNumber, Verdict::Written),
        (ErrorCode::UnknownProducerId, Verdict::RetryAnew),
        (ErrorCode::NotLeaderOrFollower, Verdict::Retry),
        (ErrorCode::NotEnoughReplicas, Verdict::Retry),
        (ErrorCode::InvalidRecord, Verdict::Lost),
        (ErrorCode::MessageTooLarge, Verdict::Lost),
        (ErrorCode::InvalidProducerEpoch, Verdict::Lost),
        (ErrorCode::TopicAuthorizationFailed, Verdict::Lost),
    ];
    for (code, expected) in cases {
        assert_eq!(verdict(code, 10, &sequences(Some(9))), expected, "{code:?}");
    }
}

#[test]
fn what_is_said_of_an_old_number_says_nothing_of_the_new_one() {
    for code in [ErrorCode::OutOfOrderSequenceNumber, ErrorCode::UnknownProducerId] {
        let stamp = Stamp { producer_id: 7, epoch: 2, base_sequence: 10 };
        let refused =
            Refused { code, log_start_offset: 5, stamp, stamp_replaced: true, may_retry: true };
        assert_eq!(judge(&refused, &sequences(Some(9))), Verdict::Retry);
        assert_eq!(
            judge(&Refused { may_retry: false, ..refused }, &sequences(None)),
            Verdict::Lost
        );
    }
}

#[test]
fn an_epoch_ends_at_its_largest_number() {
    assert_eq!(US.bumped(), Some(Identity { producer_id: 7, epoch: 3 }));
    assert_eq!(Identity { producer_id: 7, epoch: i16::MAX }.bumped(), None);
}
