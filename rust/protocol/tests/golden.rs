//! Record batches as Apache Kafka's client library wrote them: `tests/golden/record_batches.txt`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::path::Path;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{
    RecordBatch, RecordBatchBuilder, TimestampType, crc32c, walk_records,
};
use kafkalite_protocol::{LeaderEpoch, Offset};

const CAP: usize = 1 << 20;

fn batches() -> HashMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/record_batches.txt");
    let unhex = |text: &str| {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    };
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, hex)| (name.to_owned(), unhex(hex)))
        .collect()
}

fn codecs() -> [(&'static str, Codec); 5] {
    Codec::ALL.map(|codec| (if codec == Codec::None { "none" } else { codec.name() }, codec))
}

#[test]
fn three_records_of_each_codec_are_read_as_kafka_wrote_them() {
    let golden = batches();
    for (name, codec) in codecs() {
        let batch = RecordBatch::parse(&golden[name]).unwrap();
        batch.verify_crc().unwrap();
        let header = batch.header();
        assert_eq!(header.codec(), Ok(codec));
        assert_eq!(header.size(), golden[name].len(), "{name}");
        assert_eq!((batch.base_offset(), batch.last_offset()), (Offset(100), Offset(102)));
        assert_eq!(header.leader_epoch, LeaderEpoch(5));
        assert_eq!(header.base_timestamp, 1_700_000_000_000);
        assert_eq!(header.max_timestamp, 1_700_000_000_123);
        assert!(!header.has_producer_id() && !header.is_transactional() && !header.is_control());
        let records = batch.records(CAP).unwrap();
        let seen: Vec<_> = records.iter().map(Result::unwrap).collect();
        assert_eq!(seen.len(), 3);
        assert_eq!((seen[0].offset, seen[0].timestamp_ms), (Offset(100), 1_700_000_000_000));
        assert_eq!((seen[0].key, seen[0].value), (Some(&b"key"[..]), Some(&b"value"[..])));
        assert_eq!((seen[1].key, seen[1].value), (None, Some(&b""[..])));
        let headers: Vec<_> = seen[1].headers().collect();
        assert_eq!(headers, [(&b"h"[..], Some(&b"v"[..])), (&b"null"[..], None)]);
        assert_eq!((seen[2].offset, seen[2].timestamp_ms), (Offset(102), 1_699_999_999_000));
        assert_eq!((seen[2].key, seen[2].value), (Some(&b""[..]), None));
    }
}

#[test]
fn a_batch_of_several_blocks_is_read_in_each_codec() {
    let golden = batches();
    for (name, _) in codecs().into_iter().skip(1) {
        let batch = RecordBatch::parse(&golden[&format!("large-{name}")]).unwrap();
        batch.verify_crc().unwrap();
        assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppendTime, "{name}");
        let mut walked = 0;
        walk_records(batch.header(), batch.payload(), CAP, |_, shape| {
            assert_eq!((shape.offset_delta, shape.has_key), (walked, true), "{name}");
            walked += 1;
        })
        .unwrap();
        assert_eq!(walked, 3_000, "{name}");
        for (index, record) in batch.records(CAP).unwrap().iter().enumerate() {
            let record = record.unwrap();
            assert_eq!(record.key, Some(index.to_string().as_bytes()), "{name}");
            assert_eq!(record.value, Some(&[b'x'; 50][..]), "{name}");
            assert_eq!(record.timestamp_ms, 1_700_000_000_000, "{name}");
        }
    }
}

#[test]
fn producer_fields_flags_and_sequences_are_kafkas() {
    let golden = batches();
    let batch = RecordBatch::parse(&golden["transactional"]).unwrap();
    batch.verify_crc().unwrap();
    let header = batch.header();
    assert!(header.is_transactional() && !header.is_control());
    assert_eq!((header.producer_id, header.producer_epoch), (9_000_000_000, 7));
    assert_eq!((header.base_sequence, header.last_sequence()), (i32::MAX - 1, 0));

    let marker = RecordBatch::parse(&golden["commit-marker"]).unwrap();
    marker.verify_crc().unwrap();
    assert!(marker.header().is_transactional() && marker.header().is_control());
    assert_eq!(marker.base_offset(), Offset(77));
    let records = marker.records(CAP).unwrap();
    let record = records.iter().next().unwrap().unwrap();
    // Version 0, type 1 (commit); the value is a version and the coordinator's epoch.
    assert_eq!(record.key, Some(&[0, 0, 0, 1][..]));
    assert_eq!(record.value, Some(&[0, 0, 0, 0, 0, 5][..]));
}

#[test]
fn an_uncompressed_batch_is_built_byte_for_byte_as_kafka_builds_it() {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), &[]);
    let headers = [("h", Some(&b"v"[..])), ("null", None)];
    builder.append(1_700_000_000_123, None, Some(b""), &headers);
    builder.append(1_699_999_999_000, Some(b""), None, &[]);
    let ours = builder.build(Offset(100), LeaderEpoch(5)).unwrap();
    assert_eq!(ours[..], batches()["none"][..]);
}

#[test]
fn crc32c_is_castagnolis() {
    // The check value of the algorithm, and RFC 3720's example of 32 zeros.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
}
