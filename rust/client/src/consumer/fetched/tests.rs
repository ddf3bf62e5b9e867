//! Decoding, and the buffer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{RecordBatchBuilder, TimestampType};
use kafkalite_protocol::{LeaderEpoch, Offset};

use super::buffer::{Content, FetchBuffer};
use super::decode::{Aborted, DecodeOptions, Decoder};
use crate::consumer::cursor::{Cursor, Position};
use crate::consumer::record_block::{RecordBlock, RecordSlice};
use crate::topic_partition::TopicPartition;

const CHECKED: DecodeOptions =
    DecodeOptions { check_crcs: true, read_committed: false, batch_max_bytes: 1 << 20 };
const COMMITTED: DecodeOptions = DecodeOptions { read_committed: true, ..CHECKED };

fn cursor() -> Arc<Cursor> {
    Arc::new(Cursor::new(TopicPartition::new("x", 0), Position::at(0)))
}

/// A batch of `count` records from `base` on; values are their offsets.
fn batch(base: i64, count: i64, codec: Codec) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(codec);
    for offset in base..base + count {
        let text = offset.to_string();
        builder.append(1_000 + offset, None, Some(text.as_bytes()), &[("h", None)]);
    }
    sealed(builder, base)
}

fn sealed(builder: RecordBatchBuilder, base: i64) -> Vec<u8> {
    builder.build(Offset(base), LeaderEpoch(4)).expect("it compresses").to_vec()
}

/// A transaction's batch of one record, or its marker.
fn transactional(base: i64, producer: i64, marker: Option<u8>) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(producer, 0, 0).transactional();
    match marker {
        Some(kind) => {
            builder = builder.control();
            builder.append(0, Some(&[0, 0, 0, kind]), Some(&[0; 6]), &[]);
        }
        None => builder.append(0, None, Some(base.to_string().as_bytes()), &[]),
    }
    sealed(builder, base)
}

fn decoder(from: i64, parts: &[Vec<u8>], options: DecodeOptions) -> Decoder {
    let bytes = Bytes::from(parts.concat());
    Decoder::new(cursor(), Position::at(from), bytes, Vec::new(), options)
}

fn values(block: &RecordBlock) -> Vec<String> {
    let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or(b"null")).into();
    block.iter(0, block.len()).map(|record| text(record.value())).collect()
}

fn all_values(mut decoder: Decoder) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(block) = decoder.next_block(1, usize::MAX).expect("it is readable") {
        all.extend(values(&block));
    }
    all
}

#[test]
fn records_of_every_codec_come_out_with_all_they_carry() {
    for codec in Codec::ALL {
        let mut decoder = decoder(0, &[batch(0, 3, codec), batch(3, 2, codec)], CHECKED);
        let block = decoder.next_block(100, usize::MAX).expect("readable").expect("records");
        assert_eq!(values(&block), ["0", "1", "2", "3", "4"], "{codec:?}");
        let third = block.get(2);
        assert_eq!((third.offset(), third.timestamp_ms(), third.leader_epoch()), (2, 1_002, 4));
        assert_eq!(third.timestamp_type(), TimestampType::CreateTime);
        assert_eq!(
            (third.key(), third.headers().collect::<Vec<_>>()),
            (None, vec![(&b"h"[..], None)])
        );
        assert_eq!(block.next(), Position { offset: 5, leader_epoch: 4 });
        assert!(decoder.next_block(100, usize::MAX).expect("readable").is_none());
    }
}

#[test]
fn a_slice_shows_its_records_and_sums_them_up_across_runs() {
    let parts = [batch(0, 3, Codec::None), batch(3, 9, Codec::Lz4), batch(12, 2, Codec::None)];
    let mut decoder = decoder(0, &parts, CHECKED);
    let block = decoder.next_block(100, usize::MAX).expect("readable").expect("records");
    let block = Arc::new(block);
    for (from, to) in [(0, 14), (2, 4), (5, 13), (3, 3), (13, 14)] {
        let slice = RecordSlice { block: Arc::clone(&block), from, to };
        let mut seen = Vec::new();
        slice.visit(|record| seen.push(record.offset()));
        assert_eq!(seen, slice.iter().map(|record| record.offset()).collect::<Vec<_>>());
        assert_eq!(seen, (from as i64..to as i64).collect::<Vec<_>>());
        let value_bytes = (from..to).map(|offset| offset.to_string().len()).sum();
        let totals = slice.totals();
        assert_eq!((totals.values, totals.keys), (to - from, 0));
        assert_eq!((totals.value_bytes, totals.headers), (value_bytes, to - from));
    }
}

#[test]
fn records_before_the_wanted_offset_are_left_out() {
    let mut decoder = decoder(4, &[batch(0, 3, Codec::None), batch(3, 3, Codec::None)], CHECKED);
    let block = decoder.next_block(100, usize::MAX).expect("readable").expect("records");
    assert_eq!(values(&block), ["4", "5"]);
}

#[test]
fn a_block_ends_with_the_batch_that_passes_its_bounds() {
    let parts = [batch(0, 3, Codec::None), batch(3, 3, Codec::None)];
    let mut decoder = decoder(0, &parts, CHECKED);
    let block = decoder.next_block(2, usize::MAX).expect("readable").expect("records");
    assert_eq!((block.len(), block.position_after(0).offset), (3, 1));
    assert_eq!(block.position_after(2).offset, 3);
    let block = decoder.next_block(100, 1).expect("readable").expect("records");
    assert_eq!(values(&block), ["3", "4", "5"]);
}

#[test]
fn a_batch_that_is_cut_short_at_the_end_is_left_for_the_next_fetch() {
    let mut cut = batch(3, 3, Codec::None);
    cut.truncate(70);
    assert_eq!(all_values(decoder(0, &[batch(0, 3, Codec::None), cut], CHECKED)).len(), 3);
}

#[test]
fn a_damaged_batch_is_an_error_with_its_offset_after_the_good_records() {
    let mut damaged = batch(3, 3, Codec::None);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let parts = [batch(0, 3, Codec::None), damaged];
    let mut checked = decoder(0, &parts, CHECKED);
    let block = checked.next_block(100, usize::MAX).expect("the first is good").expect("records");
    assert_eq!(values(&block), ["0", "1", "2"]);
    let failure = checked.next_block(100, usize::MAX).expect_err("the second is not");
    assert_eq!(failure.offset, 3);
    assert!(checked.next_block(100, usize::MAX).expect("it ended").is_none());
    let unchecked = DecodeOptions { check_crcs: false, ..CHECKED };
    let mut unchecked = decoder(0, &parts, unchecked);
    // The last byte is a header's value length: without a checksum it reads as something else.
    assert!(unchecked.next_block(1, usize::MAX).is_ok());
}

#[test]
fn compressed_bytes_that_lie_are_an_error_and_not_memory() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut damaged = batch(0, 50, codec);
        for byte in &mut damaged[70..] {
            *byte = 0xff;
        }
        let unchecked = DecodeOptions { check_crcs: false, ..CHECKED };
        assert!(decoder(0, &[damaged], unchecked).next_block(1, 1).is_err(), "{codec:?}");
    }
}

#[test]
fn a_batch_that_inflates_beyond_its_cap_is_an_error() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = RecordBatchBuilder::new(codec);
        builder.append(0, None, Some(&vec![0; 2 << 20]), &[]);
        let mut decoder = decoder(0, &[sealed(builder, 0)], CHECKED);
        let failure = decoder.next_block(1, 1).expect_err("it is too large");
        assert!(failure.why.to_string().contains("exceed"), "{codec:?}: {}", failure.why);
    }
}

#[test]
fn markers_are_never_records() {
    let parts = [transactional(0, 7, None), transactional(1, 7, Some(1)), batch(2, 1, Codec::None)];
    assert_eq!(all_values(decoder(0, &parts, CHECKED)), ["0", "2"]);
}

#[test]
fn a_block_of_markers_alone_moves_the_place_and_has_no_records() {
    let mut decoder = decoder(0, &[transactional(0, 7, Some(0))], CHECKED);
    let block = decoder.next_block(1, 1).expect("readable").expect("it moves");
    assert_eq!((block.len(), block.next().offset), (0, 1));
}

#[test]
fn under_read_committed_aborted_transactions_are_left_out_to_their_markers() {
    let parts = [
        transactional(0, 7, None),
        transactional(1, 8, None),
        batch(2, 1, Codec::None),
        transactional(3, 7, Some(0)),
        transactional(4, 7, None),
        transactional(5, 7, Some(1)),
        transactional(6, 8, Some(1)),
    ];
    let aborted = vec![Aborted { producer_id: 7, first_offset: 0 }];
    let bytes = Bytes::from(parts.concat());
    let committed =
        Decoder::new(cursor(), Position::at(0), bytes.clone(), aborted.clone(), COMMITTED);
    assert_eq!(all_values(committed), ["1", "2", "4"]);
    let all = Decoder::new(cursor(), Position::at(0), bytes, aborted, CHECKED);
    assert_eq!(all_values(all), ["0", "1", "2", "4"]);
}

#[test]
fn the_buffer_counts_its_bytes_until_they_are_dropped() {
    let (buffer, cursor) = (FetchBuffer::default(), cursor());
    let bytes = Bytes::from(batch(0, 3, Codec::None));
    let length = bytes.len();
    let content = Content::Batches { bytes, aborted: Vec::new() };
    buffer.push_all(vec![(Arc::clone(&cursor), Position::at(0), content)]);
    assert_eq!((buffer.bytes(), cursor.buffered_bytes()), (length, length));
    let fetched = buffer.pop(|_| false).expect("it was pushed");
    assert_eq!(buffer.bytes(), length, "what was taken is accounted for while it lives");
    drop(fetched);
    assert_eq!((buffer.bytes(), cursor.buffered_bytes()), (0, 0));
}

#[test]
fn the_buffer_hands_out_neither_what_is_paused_nor_what_is_stale() {
    let buffer = FetchBuffer::default();
    let (paused, stale, open) = (cursor(), cursor(), cursor());
    let content = || Content::Unreadable(String::new());
    let all = [&paused, &stale, &open].map(|one| (Arc::clone(one), Position::at(0), content()));
    buffer.push_all(all.into());
    paused.set_paused(true);
    stale.retire();
    assert!(buffer.pop(|_| false).is_some_and(|fetched| Arc::ptr_eq(&fetched.cursor, &open)));
    assert!(buffer.pop(|_| false).is_none());
    paused.set_paused(false);
    assert!(buffer.pop(|_| false).is_some_and(|fetched| Arc::ptr_eq(&fetched.cursor, &paused)));
}

/// A resume on another thread could come in the middle of the look, behind the first fetch of a
/// partition. Then the second one was taken, and records came out of order.
#[test]
fn what_was_fetched_later_never_comes_first_though_a_cursor_goes_on_during_the_look() {
    let (buffer, one) = (FetchBuffer::default(), cursor());
    let content = || Content::Batches { bytes: Bytes::from_static(b"x"), aborted: Vec::new() };
    let fetched = |offset| (Arc::clone(&one), Position::at(offset), content());
    buffer.push_all(vec![fetched(0), fetched(10)]);
    let looks = std::cell::Cell::new(0);
    // The first look finds it held back, any later one finds that it goes on.
    let held_back_once = |_: &Arc<Cursor>| looks.replace(looks.get() + 1) == 0;
    assert!(buffer.pop(held_back_once).is_none());
    assert!(buffer.pop(|_| true).is_none(), "an earlier fetch of it is begun");
    assert_eq!(buffer.pop(|_| false).map(|fetched| fetched.from), Some(Position::at(0)));
}

#[test]
fn a_waiter_wakes_for_records_and_for_attention_and_a_waker_is_called_once() {
    let buffer = Arc::new(FetchBuffer::default());
    let (send, calls) = std::sync::mpsc::channel();
    let waker = |send: &std::sync::mpsc::Sender<()>| {
        let send = send.clone();
        Box::new(move || send.send(()).expect("the test listens")) as Box<dyn FnOnce() + Send>
    };
    buffer.wake_when_ready(waker(&send));
    buffer.call_attention();
    buffer.call_attention();
    assert_eq!(calls.try_iter().count(), 1);
    buffer.wake_when_ready(waker(&send));
    assert_eq!(calls.try_iter().count(), 1, "attention is still wanted");
    buffer.wait_until(Instant::now());
    assert!(buffer.take_attention());
    assert!(!buffer.take_attention());
}
