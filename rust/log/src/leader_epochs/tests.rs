use super::*;

/// Epochs 2, 5 and 6 start at 10, 20 and 30.
fn epochs() -> LeaderEpochs {
    let mut epochs = LeaderEpochs::default();
    for (epoch, start) in [(2, 10), (5, 20), (6, 30)] {
        epochs.assign(LeaderEpoch(epoch), Offset(start));
    }
    epochs
}

#[test]
fn an_epoch_ends_where_the_next_one_starts() {
    let table = [
        (2, Some((2, 20))),
        (3, Some((2, 20))),
        (5, Some((5, 30))),
        (6, Some((6, 44))),
        (7, None),
        (-1, None),
        (1, Some((1, 10))),
    ];
    for (asked, expected) in table {
        let end = epochs().end_offset_for(LeaderEpoch(asked), Offset(44));
        let end = end.map(|end| (end.epoch.0, end.end_offset.0));
        assert_eq!(end, expected, "epoch {asked}");
    }
}

#[test]
fn an_epoch_without_records_leaves_no_trace() {
    let mut epochs = epochs();
    assert!(epochs.assign(LeaderEpoch(7), Offset(40)));
    assert!(epochs.assign(LeaderEpoch(9), Offset(40)));
    let last: Vec<_> = epochs.entries().iter().map(|entry| entry.epoch.0).collect();
    assert_eq!(last, [2, 5, 6, 9]);
}

#[test]
fn an_older_epoch_is_not_assigned() {
    for epoch in [-1, 0, 5, 6] {
        assert!(!epochs().assign(LeaderEpoch(epoch), Offset(40)), "epoch {epoch}");
    }
}

#[test]
fn truncation_from_the_end_forgets_what_starts_there() {
    for (offset, left) in [(31, 3), (30, 2), (20, 1), (10, 0), (0, 0)] {
        let mut epochs = epochs();
        epochs.truncate_from_end(Offset(offset));
        assert_eq!(epochs.entries().len(), left, "offset {offset}");
    }
}

#[test]
fn truncation_from_the_start_moves_the_epoch_it_falls_into() {
    for (offset, first) in
        [(5, (2, 10)), (15, (2, 15)), (20, (5, 20)), (29, (5, 29)), (99, (6, 99))]
    {
        let mut epochs = epochs();
        epochs.truncate_from_start(Offset(offset));
        let start = epochs.entries()[0];
        assert_eq!((start.epoch.0, start.start_offset.0), first, "offset {offset}");
    }
}

#[test]
fn a_batch_confirms_what_is_known_and_removes_what_contradicts_it() {
    let known = [(2, 10), (5, 20), (6, 30)];
    for ((epoch, offset), expected) in [
        // Compaction removed the first batches of the epoch.
        ((5, 25), &known[..]),
        ((6, 40), &known),
        ((-1, 15), &known),
        ((7, 40), &[(2, 10), (5, 20), (6, 30), (7, 40)]),
        // The file is of a log that was cut since, and got other records.
        ((5, 35), &known[..2]),
        ((4, 25), &[(2, 10), (4, 25)]),
        ((4, 15), &[(2, 10), (4, 15)]),
        ((1, 5), &[(1, 5)]),
    ] {
        let mut epochs = epochs();
        epochs.confirm(LeaderEpoch(epoch), Offset(offset));
        let left = epochs.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0));
        assert_eq!(left.collect::<Vec<_>>(), expected, "epoch {epoch} at {offset}");
    }
}

#[test]
fn the_epoch_at_an_offset_is_the_last_that_started() {
    for (offset, epoch) in [(9, None), (10, Some(2)), (29, Some(5)), (30, Some(6)), (99, Some(6))] {
        assert_eq!(epochs().epoch_at(Offset(offset)), epoch.map(LeaderEpoch), "offset {offset}");
    }
}

#[test]
fn a_copy_parts_where_this_log_cannot_know_that_it_had_the_same() {
    let ends = |epoch, end| {
        Agreement::Parts(EpochEnd { epoch: LeaderEpoch(epoch), end_offset: Offset(end) })
    };
    // The copy's start, end and last epoch. This log starts at 10 and ends at 44.
    let table = [
        ((0, 44, 6), Agreement::Agrees),
        ((0, 20, 2), Agreement::Agrees),
        ((0, 21, 2), ends(2, 20)),
        ((0, 25, 4), ends(2, 20)),
        ((0, 44, 7), Agreement::UnknownEpoch),
        // Older than all here: what it has was deleted here, or something else was.
        ((0, 10, 1), ends(1, 10)),
        ((0, 7, 1), ends(1, 10)),
        ((10, 10, 1), Agreement::Agrees),
    ];
    for ((start, end, epoch), expected) in table {
        let copy = CopyEnd { start: Offset(start), end: Offset(end), epoch: LeaderEpoch(epoch) };
        assert_eq!(epochs().agreement(&copy, Offset(44)), expected, "{copy:?}");
    }
}
