#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::compression::Codec;
use crate::types::LeaderEpoch;

const CAP: usize = 1 << 24;

fn three_records(codec: Codec) -> Bytes {
    let mut builder = RecordBatchBuilder::new(codec).producer(7, 2, 10);
    builder.append(1_000, Some(b"k1"), Some(b"v1"), &[("h", Some(b"x")), ("h", None)]);
    builder.append(990, None, Some(b""), &[]);
    builder.append(1_020, Some(b""), None, &[]);
    builder.build(Offset(40), LeaderEpoch(3)).unwrap()
}

#[test]
fn a_built_batch_reads_back_field_by_field() {
    for codec in Codec::ALL {
        let bytes = three_records(codec);
        let batch = RecordBatch::parse(&bytes).unwrap();
        batch.verify_crc().unwrap();
        let header = batch.header();
        assert_eq!(header.size(), bytes.len());
        assert_eq!((batch.base_offset(), batch.last_offset()), (Offset(40), Offset(42)));
        assert_eq!((header.base_timestamp, header.max_timestamp), (1_000, 1_020));
        assert_eq!((header.producer_id, header.producer_epoch), (7, 2));
        assert_eq!((header.base_sequence, header.last_sequence()), (10, 12));
        assert_eq!(header.codec(), Ok(codec));
        let records = batch.records(CAP).unwrap();
        let seen: Vec<_> = records.iter().map(|r| r.unwrap()).collect();
        assert_eq!(seen.len(), 3);
        assert_eq!((seen[0].offset, seen[0].timestamp_ms), (Offset(40), 1_000));
        assert_eq!((seen[0].key, seen[0].value), (Some(&b"k1"[..]), Some(&b"v1"[..])));
        let headers: Vec<_> = seen[0].headers().collect();
        assert_eq!(headers, [(&b"h"[..], Some(&b"x"[..])), (&b"h"[..], None)]);
        assert_eq!((seen[1].timestamp_ms, seen[1].key, seen[1].value), (990, None, Some(&b""[..])));
        assert_eq!((seen[2].offset, seen[2].value), (Offset(42), None));
    }
}

#[test]
fn the_walk_sees_each_record_once() {
    for codec in Codec::ALL {
        let bytes = three_records(codec);
        let batch = RecordBatch::parse(&bytes).unwrap();
        let mut seen = Vec::new();
        walk_records(batch.header(), batch.payload(), CAP, |index, shape| {
            seen.push((index, shape.offset_delta, shape.timestamp_delta, shape.has_key));
        })
        .unwrap();
        assert_eq!(seen, [(0, 0, 0, true), (1, 1, -10, false), (2, 2, 20, true)], "{codec:?}");
    }
}

#[test]
fn offset_and_leader_epoch_leave_the_crc_right() {
    let bytes = three_records(Codec::None);
    let mut header = *RecordBatch::parse(&bytes).unwrap().header();
    (header.base_offset, header.leader_epoch) = (Offset(900), LeaderEpoch(8));
    let patched = [&header.to_bytes()[..], &bytes[HEADER_LENGTH..]].concat();
    let patched = RecordBatch::parse(&patched).unwrap();
    patched.verify_crc().unwrap();
    assert_eq!(patched.base_offset(), Offset(900));
    assert_eq!(patched.header().leader_epoch, LeaderEpoch(8));
}

#[test]
fn a_flipped_bit_after_the_epoch_is_a_bad_crc() {
    let bytes = three_records(Codec::None);
    for at in CRC_START..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        let batch = RecordBatch::parse(&damaged).unwrap();
        assert!(matches!(batch.verify_crc(), Err(RecordBatchError::BadCrc { .. })), "byte {at}");
    }
}

#[test]
fn the_walk_refuses_records_that_contradict_the_header() {
    let good = three_records(Codec::None);
    let header = *RecordBatch::parse(&good).unwrap().header();
    let payload = &good[HEADER_LENGTH..];
    for count in [0, 1, 2, 4, i32::MAX] {
        let mut lying = header;
        lying.record_count = count;
        let outcome = walk_records(&lying, payload, CAP, |_, _| {});
        assert_eq!(outcome, Err(RecordBatchError::CountMismatch { declared: count }));
    }
}

#[test]
fn sequences_wrap_after_the_largest_i32() {
    for (sequence, increment, expected) in [
        (0, 0, 0),
        (5, 3, 8),
        (i32::MAX, 1, 0),
        (i32::MAX - 1, 3, 1),
        (i32::MAX, i32::MAX, i32::MAX - 1),
    ] {
        assert_eq!(advance_sequence(sequence, increment), expected);
    }
}

#[test]
fn batches_walk_ends_before_one_that_is_cut_short() {
    let one = three_records(Codec::Lz4);
    let mut two = one.to_vec();
    two.extend_from_slice(&one);
    for cut in 0..one.len() {
        let mut batches = Batches::new(&two[..one.len() + cut]);
        assert!(batches.next().unwrap().is_ok());
        assert!(batches.next().is_none(), "{cut} bytes of the second batch");
        assert_eq!(batches.rest().len(), cut);
    }
}

#[test]
fn batches_walk_reports_garbage_once() {
    let mut bytes = three_records(Codec::None).to_vec();
    bytes.extend_from_slice(&[0xff; 70]);
    let mut batches = Batches::new(&bytes);
    assert!(batches.next().unwrap().is_ok());
    assert_eq!(batches.next().unwrap().unwrap_err(), RecordBatchError::BadMagic { magic: -1 });
    assert!(batches.next().is_none());
}

proptest! {
    #[test]
    fn damaged_records_never_panic(
        at in HEADER_LENGTH..90, value in any::<u8>(), count in any::<i32>(), codec in 0_u8..5
    ) {
        let mut bytes = three_records(Codec::from_id(codec).expect("exists")).to_vec();
        if at < bytes.len() { bytes[at] = value; }
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        let batch = RecordBatch::parse(&bytes).expect("the lengths are untouched");
        let _ = walk_records(batch.header(), batch.payload(), CAP, |_, _| {});
        if let Ok(records) = batch.records(CAP) {
            for record in records.iter().flatten() { let _ = record.headers().count(); }
        }
    }

    #[test]
    fn arbitrary_records_read_back(
        records in prop::collection::vec(
            (any::<i32>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
             prop::option::of(prop::collection::vec(any::<u8>(), 0..200))), 1..20),
        codec in 0_u8..5,
    ) {
        let mut builder = RecordBatchBuilder::new(Codec::from_id(codec).expect("exists"));
        for (ts, key, value) in &records {
            builder.append(i64::from(*ts), key.as_deref(), value.as_deref(), &[]);
        }
        let bytes = builder.build(Offset(0), LeaderEpoch(0)).expect("compresses");
        let batch = RecordBatch::parse(&bytes).expect("parses");
        let back = batch.records(CAP).expect("decompresses");
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let back = back.iter().map(|record| record.expect("valid"));
        let back: Vec<_> = back.map(|record| (owned(record.key), owned(record.value))).collect();
        let expected: Vec<_> = records.iter().map(|(_, k, v)| (k.clone(), v.clone())).collect();
        prop_assert_eq!(back, expected);
    }
}
