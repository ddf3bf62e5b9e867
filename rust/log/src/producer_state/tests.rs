#![allow(clippy::unwrap_used)]

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{RecordBatch, RecordBatchBuilder};
use kafkalite_protocol::types::LeaderEpoch;

use super::*;

fn batch(id: i64, epoch: i16, sequence: i32, records: i32, base_offset: i64) -> BatchHeader {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(id, epoch, sequence);
    for _ in 0..records {
        builder.append(1_000, None, Some(b"v"), &[]);
    }
    let bytes = builder.build(Offset(base_offset), LeaderEpoch(0)).unwrap();
    *RecordBatch::parse(&bytes).unwrap().header()
}

/// Producer 9, epoch 3, six batches of two records: sequences 0-11, offsets 100-111.
fn state() -> ProducerState {
    let mut state = ProducerState::default();
    for i in 0..6 {
        state.note(&batch(9, 3, i * 2, 2, 100 + i64::from(i) * 2));
    }
    state
}

#[test]
fn one_of_the_last_five_batches_gets_its_original_offset() {
    for (sequence, base) in [(2, 102), (4, 104), (10, 110)] {
        let duplicate = state().check(&batch(9, 3, sequence, 2, 0)).unwrap().unwrap();
        assert_eq!(
            (duplicate.base_offset, duplicate.last_offset),
            (Offset(base), Offset(base + 1))
        );
    }
}

#[test]
fn a_batch_is_refused_that_does_not_follow() {
    for (epoch, sequence, records) in [(3, 0, 2), (3, 13, 1), (3, 10, 1), (4, 1, 1)] {
        let outcome = state().check(&batch(9, epoch, sequence, records, 0));
        assert!(matches!(outcome, Err(LogError::OutOfOrderSequence { .. })), "{epoch} {sequence}");
    }
}

#[test]
fn an_older_epoch_is_refused() {
    let outcome = state().check(&batch(9, 2, 12, 1, 0));
    assert!(matches!(outcome, Err(LogError::InvalidProducerEpoch { current_epoch: 3, .. })));
}

#[test]
fn what_follows_is_accepted() {
    // The next sequence; a new epoch from 0; an unknown producer from anywhere.
    for (id, epoch, sequence) in [(9, 3, 12), (9, 4, 0), (8, 0, 77)] {
        assert_eq!(state().check(&batch(id, epoch, sequence, 1, 0)).unwrap(), None);
    }
}

#[test]
fn sequences_wrap() {
    let mut state = ProducerState::default();
    state.note(&batch(9, 0, i32::MAX - 1, 3, 50));
    assert_eq!(state.active()[0].last_sequence, 0);
    assert!(state.check(&batch(9, 0, i32::MAX - 1, 3, 0)).unwrap().is_some());
    assert_eq!(state.check(&batch(9, 0, 1, 1, 0)).unwrap(), None);
}

/// The log had the five batches of an older segment, and of the next one only the newest: the
/// cleaner had removed the others. A producer that sent them again was refused.
#[test]
fn what_was_noted_takes_the_place_of_what_compaction_left() {
    let mut read = state();
    read.note(&batch(9, 3, 26, 2, 126));
    let mut noted = state();
    for i in 6..14 {
        noted.note(&batch(9, 3, i * 2, 2, 100 + i64::from(i) * 2));
    }
    read.recall(noted);
    for sequence in [18, 20, 22, 24, 26] {
        assert!(read.check(&batch(9, 3, sequence, 2, 0)).unwrap().is_some(), "{sequence}");
    }
}

#[test]
fn undo_brings_back_what_was_known() {
    let mut state = state();
    let before = state.clone();
    let known = state.note(&batch(9, 4, 0, 1, 112)).unwrap();
    let unknown = state.note(&batch(1, 0, 0, 1, 113)).unwrap();
    state.undo(unknown);
    state.undo(known);
    assert_eq!(state, before);
}

#[test]
fn a_snapshot_keeps_the_last_batch_of_each_producer() {
    let restored = ProducerState::decode(&state().encode()).unwrap();
    assert_eq!(restored.active(), state().active());
    assert!(restored.check(&batch(9, 3, 10, 2, 0)).unwrap().is_some());
    assert_eq!(restored.check(&batch(9, 3, 12, 1, 0)).unwrap(), None);
}

/// Only the newest one was kept, as in Kafka. When a client sent its five batches again after a
/// restart, four were refused, and the client sent their records once more in another epoch.
#[test]
fn a_snapshot_keeps_the_last_five_batches_of_each_producer() {
    let mut state = state();
    for number in 0..7 {
        state.note(&batch(4, 1, number * 3, 3, i64::from(number) * 10));
        state.note(&batch(5, 0, number, 1, i64::from(number) * 10 + 3));
    }
    // Another epoch starts again.
    state.note(&batch(5, 1, 0, 1, 90));
    let restored = ProducerState::decode(&state.encode()).unwrap();
    assert_eq!(restored, state);
    let known = (0..7).filter(|number| {
        let again = batch(4, 1, number * 3, 3, 0);
        let found = restored.check(&again).ok().flatten();
        found.is_some_and(|found| found.base_offset == Offset(i64::from(*number) * 10))
    });
    assert_eq!(known.collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
}

#[test]
fn a_damaged_snapshot_is_none() {
    let good = state().encode();
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        assert_eq!(ProducerState::decode(&damaged), None, "byte {at}");
        assert_eq!(ProducerState::decode(&good[..at]), None, "cut at {at}");
    }
}

#[test]
fn an_inactive_producer_is_forgotten() {
    for (now_ms, left) in [(1_999, 1), (2_000, 0)] {
        let mut state = state();
        state.expire(now_ms, 1_000);
        assert_eq!(state.active().len(), left);
    }
}

#[test]
fn an_invented_id_is_not_the_greatest() {
    for (ids, greatest) in [
        (vec![], None),
        (vec![3, 5_000, 12], Some(5_000)),
        (vec![5_000, i64::MAX], Some(5_000)),
        (vec![1 << 62], None),
        (vec![(1 << 62) - 1], Some((1 << 62) - 1)),
    ] {
        let mut state = ProducerState::default();
        for id in &ids {
            state.note(&batch(*id, 0, 0, 1, 0));
        }
        assert_eq!(state.greatest_id(), greatest, "{ids:?}");
    }
}
