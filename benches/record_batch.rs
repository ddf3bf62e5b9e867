//! What does a record batch cost before it may be appended?
//!
//! `crc`: the checksum alone. `relaxed`: the header and the checksum are believed. `strict`: the
//! records are walked too, decompressed as they come. The difference is the price of strictness.
#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{RecordBatch, RecordBatchBuilder, crc32c, walk_records};
use kafkalite_protocol::{LeaderEpoch, Offset};

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 128 << 10, 1 << 20];
const MAX_DECOMPRESSED_BYTES: usize = 64 << 20;

/// Half of each value repeats and half does not: about what JSON compresses to.
fn compressed_batch(codec: Codec, payload_bytes: usize) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(codec);
    let (mut state, mut value) = (1_u64, vec![b'a'; 1000]);
    while builder.payload_length() < payload_bytes {
        for byte in &mut value[..500] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        builder.append(1_700_000_000_000, None, Some(&value), &[]);
    }
    builder.build(Offset(0), LeaderEpoch(0)).expect("an own batch compresses").to_vec()
}

fn relaxed(bytes: &[u8]) -> i32 {
    let batch = RecordBatch::parse(bytes).expect("the batch is well formed");
    batch.verify_crc().expect("the checksum is right");
    batch.header().record_count
}

fn strict(bytes: &[u8]) -> usize {
    let batch = RecordBatch::parse(bytes).expect("the batch is well formed");
    batch.verify_crc().expect("the checksum is right");
    let mut seen = 0;
    walk_records(batch.header(), batch.payload(), MAX_DECOMPRESSED_BYTES, |_, _| seen += 1)
        .expect("the records are well formed");
    seen
}

fn uncompressed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record_batch");
    for size in SIZES {
        let (batch, _) = frames::record_batch(size, 1000, 1_700_000_000_000);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        group.bench_with_input(BenchmarkId::new("crc", size), &batch, |bencher, batch| {
            bencher.iter(|| crc32c(black_box(&batch[21..])));
        });
        group.bench_with_input(BenchmarkId::new("relaxed", size), &batch, |bencher, batch| {
            bencher.iter(|| relaxed(black_box(batch)));
        });
        group.bench_with_input(BenchmarkId::new("strict", size), &batch, |bencher, batch| {
            bencher.iter(|| strict(black_box(batch)));
        });
    }
    let (batch, _) = frames::record_batch(128 << 10, 100, 1_700_000_000_000);
    group.throughput(Throughput::Bytes(batch.len() as u64));
    group.bench_function("strict of 100 B records/131072", |bencher| {
        bencher.iter(|| strict(black_box(&batch)));
    });
}

/// Throughput counts the bytes before compression, so that the codecs compare.
fn compressed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record_batch_strict");
    for codec in Codec::ALL {
        let payload_bytes = 128 << 10;
        let batch = compressed_batch(codec, payload_bytes);
        group.throughput(Throughput::Bytes(payload_bytes as u64));
        group.bench_function(codec.name(), |bencher| bencher.iter(|| strict(black_box(&batch))));
    }
}

criterion_group!(benches, uncompressed, compressed);
criterion_main!(benches);
