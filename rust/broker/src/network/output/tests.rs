//! Bytes leave in order whatever the socket takes, gathered and corked as they should be.

use std::sync::{Arc, LazyLock};

use kafkalite_log::SegmentFile;
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::response_queue::Overlap;
use crate::response_queue::tests::segment;

const MIN: usize = 1_000;

/// A range whose bytes the record below makes up.
fn file(position: u64, length: u32) -> Piece {
    static EMPTY: LazyLock<Arc<SegmentFile>> = LazyLock::new(|| segment(b""));
    Piece::File(FileSlice { file: Arc::clone(&EMPTY), position, length, written_ms: None })
}

/// The byte of every file at `position`.
fn byte_at(position: u64) -> u8 {
    (position % 253) as u8
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Send { slices: usize, bytes: usize, more: bool },
    SendFile(usize),
    ReadFile(usize),
}

/// Records what is sent and takes at most `accepts` bytes a call, then blocks every other call.
#[derive(Default)]
struct Record {
    bytes: Vec<u8>,
    calls: Vec<Call>,
    accepts: Option<usize>,
    blocked: bool,
}

impl Record {
    fn take(&mut self, offered: usize) -> io::Result<usize> {
        let Some(accepts) = self.accepts else { return Ok(offered) };
        self.blocked = !self.blocked;
        if self.blocked { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(offered.min(accepts)) }
    }
}

impl Sink for Record {
    fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert!(!all.is_empty());
        let taken = self.take(all.len())?;
        self.bytes.extend(&all[..taken]);
        self.calls.push(Call::Send { slices: slices.len(), bytes: taken, more });
        Ok(taken)
    }

    fn send_file(&mut self, slice: &FileSlice, count: usize) -> io::Result<usize> {
        let taken = self.take(count.min(slice.length as usize))?;
        self.bytes.extend((slice.position..slice.position + taken as u64).map(byte_at));
        self.calls.push(Call::SendFile(taken));
        Ok(taken)
    }

    fn read_file(&mut self, slice: &FileSlice) -> io::Result<Bytes> {
        self.calls.push(Call::ReadFile(slice.length as usize));
        let end = slice.position + u64::from(slice.length);
        Ok((slice.position..end).map(byte_at).collect::<Vec<_>>().into())
    }
}

fn slot(correlation_id: i32) -> Slot {
    let overlap = Overlap::Fetch;
    Slot { api_key: 1, api_version: 0, correlation_id, overlap, received_ns: 0 }
}

fn mem(byte: u8, length: usize) -> Piece {
    Piece::Mem(Bytes::from(vec![byte; length]))
}

#[test]
fn many_small_responses_leave_with_one_call() {
    let (mut output, mut record) = (Output::new(MIN), Record::default());
    for id in 0..10 {
        output.push(smallvec![mem(1, 60)], slot(id), Passed::default());
    }
    let flushed = output.flush(&mut record, 1 << 20, &mut SentBytes::default());
    assert_eq!(flushed.expect("no error"), Flushed::All);
    assert_eq!(record.calls, [Call::Send { slices: 10, bytes: 600, more: false }]);
    let sent: Vec<i32> = std::iter::from_fn(|| output.pop_sent())
        .map(|sending| sending.slot.correlation_id)
        .collect();
    assert_eq!(sent, (0..10).collect::<Vec<_>>());
}

#[test]
fn memory_before_a_large_range_is_corked_and_small_ranges_join_it() {
    let (mut output, mut record) = (Output::new(MIN), Record::default());
    let pieces = [mem(1, 50), file(0, 999), mem(2, 10), file(999, 1_000), mem(3, 5)];
    output.push(pieces.into_iter().collect(), slot(1), Passed::default());
    let mut sent = SentBytes::default();
    let flushed = output.flush(&mut record, 1 << 20, &mut sent);
    assert_eq!(flushed.expect("no error"), Flushed::All);
    assert_eq!(
        record.calls,
        [
            Call::ReadFile(999),
            Call::Send { slices: 3, bytes: 1_059, more: true },
            Call::SendFile(1_000),
            Call::Send { slices: 1, bytes: 5, more: false },
        ]
    );
    assert_eq!(sent, SentBytes { copied: 1_064, zero_copy: 1_000 });
}

#[test]
fn a_blocked_socket_causes_no_reads_of_files_that_cannot_be_sent() {
    let mut output = Output::new(MIN);
    let mut record = Record { accepts: Some(0), ..Record::default() };
    output.push(smallvec![mem(1, 50), file(0, 5_000_000)], slot(1), Passed::default());
    output.push(smallvec![mem(1, 50), file(0, 900)], slot(2), Passed::default());
    let flushed = output.flush(&mut record, 1 << 20, &mut SentBytes::default());
    assert_eq!(flushed.expect("no error"), Flushed::Blocked);
    assert!(record.calls.is_empty());
    assert_eq!(output.held_bytes(), 100);
    assert_eq!(output.frames(), 2);
}

#[test]
fn a_turn_ends_when_its_budget_is_spent() {
    let (mut output, mut record) = (Output::new(MIN), Record::default());
    output.push(smallvec![file(0, 5_000)], slot(1), Passed::default());
    for left in [3_000u64, 1_000, 0] {
        let flushed = output.flush(&mut record, 2_000, &mut SentBytes::default());
        let expected = if left == 0 { Flushed::All } else { Flushed::Budget };
        assert_eq!(flushed.expect("no error"), expected);
        assert_eq!(record.bytes.len() as u64, 5_000 - left);
        assert_eq!(output.pop_sent().is_some(), left == 0, "sent with its last byte");
    }
}

#[test]
fn a_turn_leaves_no_rest_that_would_have_to_be_copied() {
    let (mut output, mut record) = (Output::new(MIN), Record::default());
    output.push(smallvec![file(0, 2_999)], slot(1), Passed::default());
    let flushed = output.flush(&mut record, 2_000, &mut SentBytes::default());
    assert_eq!(flushed.expect("no error"), Flushed::All);
    assert_eq!(record.calls, [Call::SendFile(2_999)]);
}

#[test]
fn a_range_beyond_the_end_of_its_file_is_an_error() {
    struct Short;
    impl Sink for Short {
        fn send(&mut self, slices: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
            Ok(slices.iter().map(|slice| slice.len()).sum())
        }
        fn send_file(&mut self, _: &FileSlice, _: usize) -> io::Result<usize> {
            Ok(0)
        }
        fn read_file(&mut self, _: &FileSlice) -> io::Result<Bytes> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
    for length in [10, 10_000] {
        let mut output = Output::new(MIN);
        output.push(smallvec![mem(1, 4), file(0, length)], slot(1), Passed::default());
        let flushed = output.flush(&mut Short, 1 << 20, &mut SentBytes::default());
        assert_eq!(flushed.expect_err("too short").kind(), io::ErrorKind::UnexpectedEof);
    }
}

proptest! {
    #[test]
    fn bytes_leave_in_order_whatever_the_socket_takes(
        frames in prop::collection::vec(
            prop::collection::vec((any::<bool>(), 0u32..3_000), 1..6),
            1..30,
        ),
        accepts in 1usize..4_000,
        budget in 1usize..5_000,
    ) {
        let mut output = Output::new(MIN);
        let mut expected = Vec::new();
        for (id, frame) in (0..).zip(&frames) {
            let mut pieces = SmallVec::new();
            for &(is_file, length) in frame {
                let position = expected.len() as u64;
                if is_file {
                    expected.extend((position..position + u64::from(length)).map(byte_at));
                    pieces.push(file(position, length));
                } else {
                    expected.extend(vec![id as u8; length as usize]);
                    pieces.push(mem(id as u8, length as usize));
                }
            }
            output.push(pieces, slot(id), Passed::default());
        }
        let mut record = Record { accepts: Some(accepts), ..Record::default() };
        let (mut sent, mut out) = (SentBytes::default(), 0);
        while !output.is_empty() {
            output.flush(&mut record, budget, &mut sent).expect("no error");
            while let Some(sending) = output.pop_sent() {
                prop_assert_eq!(sending.slot.correlation_id, out);
                out += 1;
            }
        }
        prop_assert!(record.bytes == expected);
        prop_assert_eq!(output.held_bytes(), 0);
        prop_assert_eq!((sent.copied + sent.zero_copy) as usize, expected.len());
        while output.pop_sent().is_some() {
            out += 1;
        }
        prop_assert_eq!(out as usize, frames.len());
    }
}
