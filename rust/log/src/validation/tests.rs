#![allow(clippy::unwrap_used)]

use kafkalite_protocol::record_batch::{CRC_START, RecordBatchBuilder, crc32c};
use kafkalite_protocol::types::{LeaderEpoch, Offset};

use super::*;

const NOW_MS: i64 = 1_700_000_000_000;

fn batch(codec: Codec) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(codec).producer(5, 0, 0);
    builder.append(NOW_MS - 5, Some(b"a"), Some(&[1; 100]), &[("h", None)]);
    builder.append(NOW_MS, Some(b"b"), None, &[]);
    builder.build(Offset(0), LeaderEpoch(-1)).unwrap().to_vec()
}

/// Changes bytes of a batch and makes its CRC right again.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = batch(Codec::None);
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c(&batch[CRC_START..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

fn outcome(bytes: Vec<u8>, config: &LogConfig) -> Result<ValidatedBatch, ValidationError> {
    validate(&Bytes::from(bytes), config, NOW_MS, 9)
}

fn code(error: &ValidationError) -> &'static str {
    match error {
        ValidationError::CorruptMessage { .. } => "corrupt",
        ValidationError::InvalidRecord { .. } => "invalid",
        ValidationError::NotOneBatch { .. } => "not one",
        ValidationError::InvalidTimestamp { .. } => "timestamp",
        ValidationError::MessageTooLarge { .. } => "large",
        ValidationError::UnsupportedCompressionType { .. } => "compression",
        ValidationError::UnsupportedForMessageFormat { .. } => "format",
    }
}

#[test]
fn a_sane_batch_passes_untouched_in_every_codec() {
    for codec in Codec::ALL {
        let bytes = batch(codec);
        let header = *RecordBatch::parse(&bytes).unwrap().header();
        let valid = outcome(bytes.clone(), &LogConfig::default()).unwrap();
        assert_eq!(*valid.header(), header, "{codec:?}");
        assert_eq!(valid.payload, bytes[HEADER_LENGTH..]);
    }
}

#[test]
fn each_flaw_has_its_error() {
    let whole = batch(Codec::None);
    let twice = [whole.clone(), whole.clone()].concat();
    let mut flipped = whole.clone();
    flipped[70] ^= 1;
    let cut = whole[..whole.len() - 1].to_vec();
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "not one"),
        ("cut short", cut, "not one"),
        ("two batches", twice, "not one"),
        ("flipped bit", flipped, "corrupt"),
        ("magic 1", patched(16, &[1]), "not one"),
        ("magic 3", patched(16, &[3]), "corrupt"),
        ("short length", patched(8, &20_i32.to_be_bytes()), "corrupt"),
        ("negative length", patched(8, &(-1_i32).to_be_bytes()), "corrupt"),
        ("base offset 7", patched(0, &7_i64.to_be_bytes()), "invalid"),
        ("count 3", patched(57, &3_i32.to_be_bytes()), "invalid"),
        ("count 0", patched(57, &0_i32.to_be_bytes()), "invalid"),
        ("count -1", patched(57, &(-1_i32).to_be_bytes()), "invalid"),
        ("last offset delta 2", patched(23, &2_i32.to_be_bytes()), "invalid"),
        ("control", patched(21, &0x20_i16.to_be_bytes()), "invalid"),
        ("log append time", patched(21, &0x08_i16.to_be_bytes()), "timestamp"),
        ("delete horizon", patched(21, &0x40_i16.to_be_bytes()), "invalid"),
        ("codec 5", patched(21, &5_i16.to_be_bytes()), "compression"),
        ("gzip that is none", patched(21, &1_i16.to_be_bytes()), "invalid"),
        ("no sequence", patched(53, &(-1_i32).to_be_bytes()), "invalid"),
        ("record length", patched(61, &[0x7e]), "invalid"),
        ("offset delta", patched(61 + 4, &[4]), "invalid"),
    ];
    for (what, bytes, expected) in table {
        let error = outcome(bytes, &LogConfig::default()).expect_err(what);
        assert_eq!(code(&error), expected, "{what}: {error}");
    }
}

#[test]
fn bytes_after_the_batch_that_are_no_batch_are_dropped() {
    let mut bytes = batch(Codec::None);
    let size = bytes.len();
    bytes.extend_from_slice(&[0; 10]);
    assert_eq!(outcome(bytes, &LogConfig::default()).unwrap().size(), size);
}

#[test]
fn size_is_judged_against_max_message_bytes() {
    let size = batch(Codec::None).len();
    for (max, passes) in [(size, true), (size - 1, false)] {
        let config = LogConfig { max_message_bytes: max as u32, ..LogConfig::default() };
        let outcome = outcome(batch(Codec::None), &config);
        assert_eq!(outcome.is_ok(), passes);
        assert!(passes || code(&outcome.unwrap_err()) == "large");
    }
}

#[test]
fn zstd_needs_produce_version_7() {
    for (version, passes) in [(3, false), (6, false), (7, true)] {
        let bytes = Bytes::from(batch(Codec::Zstd));
        let outcome = validate(&bytes, &LogConfig::default(), NOW_MS, version);
        assert_eq!(outcome.is_ok(), passes, "version {version}");
        assert!(passes || code(&outcome.unwrap_err()) == "compression");
    }
}

#[test]
fn a_wrong_max_timestamp_is_corrected() {
    for wrong in [0_i64, -1, NOW_MS + 100] {
        let valid = outcome(patched(35, &wrong.to_be_bytes()), &LogConfig::default()).unwrap();
        assert_eq!(valid.header().max_timestamp, NOW_MS);
        let mut whole = valid.header().to_bytes().to_vec();
        whole.extend_from_slice(&valid.payload);
        RecordBatch::parse(&whole).unwrap().verify_crc().unwrap();
    }
}

#[test]
fn log_append_time_is_the_brokers() {
    let config = LogConfig {
        message_timestamp_type: TimestampType::LogAppendTime,
        message_timestamp_before_max_ms: 0,
        ..LogConfig::default()
    };
    let valid = validate(&Bytes::from(batch(Codec::Gzip)), &config, NOW_MS + 9, 9).unwrap();
    assert_eq!(valid.header().max_timestamp, NOW_MS + 9);
    assert_eq!(valid.header().timestamp_type(), TimestampType::LogAppendTime);
}

#[test]
fn records_out_of_the_time_bounds_are_named() {
    let strict = LogConfig { message_timestamp_before_max_ms: 4, ..LogConfig::default() };
    let Err(ValidationError::InvalidTimestamp { record_errors, .. }) =
        outcome(batch(Codec::Lz4), &strict)
    else {
        panic!("a record is 5 ms old");
    };
    let blamed: Vec<_> = record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(blamed, [0]);
    let bytes = Bytes::from(batch(Codec::None));
    let early = NOW_MS - LogConfig::default().message_timestamp_after_max_ms - 1;
    let error = validate(&bytes, &LogConfig::default(), early, 9).unwrap_err();
    assert_eq!(code(&error), "timestamp");
}

#[test]
fn a_compacted_topic_names_the_records_without_keys() {
    let config = LogConfig { cleanup_compact: true, ..LogConfig::default() };
    let mut builder = RecordBatchBuilder::new(Codec::Zstd);
    builder.append(NOW_MS, Some(b"k"), None, &[]);
    builder.append(NOW_MS, None, Some(b"v"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap().to_vec();
    let Err(ValidationError::InvalidRecord { record_errors, .. }) = outcome(bytes, &config) else {
        panic!("a record has no key");
    };
    assert_eq!(record_errors.len(), 1);
    assert_eq!(record_errors[0].batch_index, 1);
}

#[test]
fn a_topic_with_a_codec_of_its_own_recompresses() {
    for wanted in Codec::ALL {
        for sent in Codec::ALL {
            let config = LogConfig { compression_type: Some(wanted), ..LogConfig::default() };
            let valid = outcome(batch(sent), &config).unwrap();
            let mut whole = valid.header().to_bytes().to_vec();
            whole.extend_from_slice(&valid.payload);
            let stored = RecordBatch::parse(&whole).unwrap();
            stored.verify_crc().unwrap();
            assert_eq!(stored.header().codec(), Ok(wanted));
            let records = stored.records(1 << 20).unwrap();
            let keys: Vec<_> = records.iter().map(|r| r.unwrap().key.unwrap().to_vec()).collect();
            assert_eq!(keys, [b"a", b"b"], "{sent:?} to {wanted:?}");
        }
    }
}

/// Whatever level a topic asked for, its batches were compressed at the codec's default.
#[test]
fn a_topic_with_a_level_of_its_own_recompresses_at_that_level() {
    let text: String = (0..4_000).map(|n| format!("{} {};", n * 7_919 % 1_013, n % 17)).collect();
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, Some(b"a"), Some(text.as_bytes()), &[]);
    let sent = builder.build(Offset(0), LeaderEpoch(-1)).unwrap().to_vec();
    for (codec, low, high) in [(Codec::Gzip, 1, 9), (Codec::Zstd, -50, 19)] {
        let size = |level| {
            let config = LogConfig {
                compression_type: Some(codec),
                compression_level: level,
                ..LogConfig::default()
            };
            outcome(sent.clone(), &config).unwrap().payload.len()
        };
        assert!(size(Some(low)) > size(Some(high)), "{codec:?}");
        assert!(size(None) <= size(Some(low)), "{codec:?}");
    }
}

#[test]
fn relaxed_validation_believes_compressed_batches_only() {
    let config = LogConfig { validation: BatchValidation::Relaxed, ..LogConfig::default() };
    // A compressed payload that is none, with a right CRC.
    let lying = patched(21, &1_i16.to_be_bytes());
    assert!(outcome(lying.clone(), &config).is_ok());
    let compacted = LogConfig { cleanup_compact: true, ..config.clone() };
    assert!(outcome(lying, &compacted).is_err());
    assert!(outcome(patched(61, &[0x7e]), &config).is_err());
}
