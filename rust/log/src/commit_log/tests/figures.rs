use super::*;

#[test]
fn segments_are_listed_from_the_one_that_holds_an_offset() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..30 {
        append(&log, 3);
    }
    let all = log.segment_figures(Offset::ZERO, 100).unwrap();
    assert!(all.len() > 2, "{all:?}");
    assert_eq!(all.len(), log.segment_count());
    assert_eq!(all.iter().map(|one| u64::from(one.bytes)).sum::<u64>(), log.size_bytes());
    assert!(all.windows(2).all(|two| two[0].end_offset == two[1].base_offset));
    assert_eq!(all.last().unwrap().end_offset, log.log_end_offset());
    let active: Vec<bool> = all.iter().map(|one| one.is_active).collect();
    assert_eq!(active.iter().filter(|is_active| **is_active).count(), 1);
    assert!(active[active.len() - 1]);
    assert!(all.iter().all(|one| one.newest_timestamp_ms == NOW_MS));
    assert!(all[0].offset_index_entries > 0 && all[0].time_index_entries > 0);

    let inside = Offset(all[1].base_offset.0 + 1);
    assert_eq!(log.segment_figures(inside, 1).unwrap(), all[1..2]);
    assert_eq!(log.segment_figures(log.log_end_offset(), 9).unwrap(), all[all.len() - 1..]);
    assert_eq!(log.segment_figures(Offset(-1), 1).unwrap(), all[..1]);
}

#[test]
fn an_empty_log_has_one_segment_without_entries() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let [only] = log.segment_figures(Offset::ZERO, 100).unwrap()[..] else { panic!("one") };
    assert_eq!((only.bytes, only.newest_timestamp_ms), (0, -1));
    assert_eq!((only.offset_index_entries, only.time_index_entries), (0, 0));
    assert!(only.is_active);
}

#[test]
fn a_closed_log_tells_no_segments() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    log.close(true).unwrap();
    assert!(matches!(log.segment_figures(Offset::ZERO, 1), Err(LogError::Closed { .. })));
}
