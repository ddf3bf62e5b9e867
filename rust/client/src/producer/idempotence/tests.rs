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

/// What is refused with `code`, and is the first that is out, as it was sent.
fn refused(code: ErrorCode) -> Refused {
    Refused {
        code,
        stamp_replaced: false,
        is_first: true,
        half_of_unanswered: false,
        may_retry: true,
    }
}

#[test]
fn sequences_count_records_and_wrap() {
    let mut sequences = Sequences::default();
    assert_eq!(sequences.stamp(3), None, "no identity to count for");
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
fn a_gap_is_believed_of_the_first_batch_that_is_out_only() {
    let first = refused(ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(judge(&first), Verdict::RetryRenumbered);
    assert_eq!(judge(&Refused { is_first: false, ..first }), Verdict::Retry);
    let half = Refused { half_of_unanswered: true, ..first };
    assert_eq!(judge(&half), Verdict::Lost, "the whole may be written");
}

#[test]
fn what_was_given_up_is_resolved_once_all_that_was_numbered_is_written() {
    let mut sequences = sequences(Some(9));
    sequences.give_up();
    assert!(!sequences.resolve(), "10 to 39 are numbered and not written");
    sequences.acked(39, None);
    assert!(sequences.resolve() && !sequences.is_unresolved());
}

#[test]
fn other_refusals_follow_kafkas_table() {
    let cases = [
        (ErrorCode::DuplicateSequenceNumber, Verdict::Written),
        (ErrorCode::UnknownProducerId, Verdict::RetryRenumbered),
        (ErrorCode::NotLeaderOrFollower, Verdict::Retry),
        (ErrorCode::NotEnoughReplicas, Verdict::Retry),
        (ErrorCode::InvalidRecord, Verdict::Lost),
        (ErrorCode::MessageTooLarge, Verdict::Lost),
        (ErrorCode::InvalidProducerEpoch, Verdict::Lost),
        (ErrorCode::TopicAuthorizationFailed, Verdict::Lost),
    ];
    for (code, expected) in cases {
        assert_eq!(judge(&refused(code)), expected, "{code:?}");
    }
}

#[test]
fn what_is_said_of_an_old_number_says_nothing_of_the_new_one() {
    for code in [ErrorCode::OutOfOrderSequenceNumber, ErrorCode::UnknownProducerId] {
        let of_old = Refused { stamp_replaced: true, ..refused(code) };
        assert_eq!(judge(&of_old), Verdict::Retry);
        assert_eq!(judge(&Refused { may_retry: false, ..of_old }), Verdict::Lost);
    }
}

#[test]
fn an_epoch_ends_at_its_largest_number() {
    assert_eq!(US.bumped(), Some(Identity { producer_id: 7, epoch: 3 }));
    assert_eq!(Identity { producer_id: 7, epoch: i16::MAX }.bumped(), None);
}
