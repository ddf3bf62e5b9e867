//! What does an append add to the `write` it cannot do without?
//!
//! `write`: the bare syscall, the floor. `validate`: what happens before the partition's lock.
//! `append`: what happens under it. `append_all`: 8 batches that waited for the lock, together.
//! Files are fresh and at most 256 MiB long, because a file that grows is what a log is.
#![allow(missing_docs, reason = "criterion's macros")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_log::storage::RealStorage;
use kafkalite_log::validation::validate;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState};
use kafkalite_protocol::LeaderEpoch;
use tempfile::TempDir;

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 128 << 10, 1 << 20];
const FILE_BYTES: u64 = 256 << 20;
const NOW_MS: i64 = 1_700_000_000_000;
const EPOCH: LeaderEpoch = LeaderEpoch(0);
const PRODUCE_VERSION: i16 = 9;

fn batch(size: usize) -> Bytes {
    Bytes::from(frames::record_batch(size, 1000, NOW_MS).0)
}

/// A log of its own directory; dropping the directory drops its dirty pages.
fn fresh_log() -> (TempDir, CommitLog) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let log_dir = LogDir::open(dir.path(), Arc::new(RealStorage), 100).expect("it opens");
    let config = Arc::new(LogConfig::default());
    let opened = CommitLog::open(&log_dir, "bench-0", config, OpenState::default(), NOW_MS);
    let (log, _) = opened.expect("an empty log opens");
    log.become_leader(EPOCH).expect("nobody led before");
    (dir, log)
}

/// Runs `iterations` times, with a new `begin` whenever a file would grow too long.
fn in_short_files<T>(
    iterations: u64,
    bytes_each: u64,
    begin: impl Fn() -> T,
    mut run: impl FnMut(&T, u64),
) -> Duration {
    let (in_file, mut left, mut spent) = (FILE_BYTES / bytes_each, iterations, Duration::ZERO);
    while left > 0 {
        let (now, target) = (left.min(in_file), begin());
        let started = Instant::now();
        (0..now).for_each(|index| run(&target, index));
        spent += started.elapsed();
        left -= now;
    }
    spent
}

fn bare_file() -> (TempDir, File) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let file = File::create(dir.path().join("floor")).expect("a file can be made");
    (dir, file)
}

fn log_append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("log_append");
    let config = LogConfig::default();
    for size in SIZES {
        let bytes = batch(size);
        let len = bytes.len() as u64;
        group.throughput(Throughput::Bytes(len));
        group.bench_function(BenchmarkId::new("write", size), |bencher| {
            bencher.iter_custom(|iterations| {
                in_short_files(iterations, len, bare_file, |(_, file), index| {
                    file.write_all_at(&bytes, index * len).expect("the disk has room");
                })
            });
        });
        group.bench_function(BenchmarkId::new("validate", size), |bencher| {
            bencher.iter(|| validate(&bytes, &config, NOW_MS, PRODUCE_VERSION).is_ok());
        });
        let valid = validate(&bytes, &config, NOW_MS, PRODUCE_VERSION).expect("it is valid");
        group.bench_function(BenchmarkId::new("append", size), |bencher| {
            bencher.iter_custom(|iterations| {
                in_short_files(iterations, len, fresh_log, |(_, log), _| {
                    log.append_as_leader(&valid, EPOCH, NOW_MS).expect("the disk has room");
                })
            });
        });
        let eight = vec![valid; 8];
        group.throughput(Throughput::Bytes(len * 8));
        group.bench_function(BenchmarkId::new("append_all of 8", size), |bencher| {
            bencher.iter_custom(|iterations| {
                in_short_files(iterations, len * 8, fresh_log, |(_, log), _| {
                    assert_eq!(log.append_all(&eight, EPOCH, NOW_MS).len(), 8);
                })
            });
        });
    }
}

criterion_group!(benches, log_append);
criterion_main!(benches);
