//! What does it cost to find where in the log a fetch begins?
//!
//! `tail`: the newest batch, where waiting consumers read. `random`: any offset of a 256 MiB log of
//! 16 KiB batches. `sequential`: a consumer that catches up, 1 MiB a read. No record is copied.
#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_log::storage::RealStorage;
use kafkalite_log::validation::validate;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState};
use kafkalite_protocol::{LeaderEpoch, Offset};

const NOW_MS: i64 = 1_700_000_000_000;
const BATCHES: i64 = 16_384;
const FETCH_BYTES: u32 = 1 << 20;

fn index_lookup(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let log_dir = LogDir::open(dir.path(), Arc::new(RealStorage), 100).expect("it opens");
    let config = Arc::new(LogConfig::default());
    let state = OpenState::default();
    let (log, _) = CommitLog::open(&log_dir, "bench-0", Arc::clone(&config), state, NOW_MS)
        .expect("an empty log opens");
    let (bytes, records) = frames::record_batch(16 << 10, 1000, NOW_MS);
    let batch = validate(&Bytes::from(bytes), &config, NOW_MS, 9).expect("it is valid");
    log.become_leader(LeaderEpoch(0)).expect("nobody led before");
    for _ in 0..BATCHES {
        log.append_as_leader(&batch, LeaderEpoch(0), NOW_MS).expect("the disk has room");
    }
    let end = log.log_end_offset();
    let read = |from| log.read(black_box(Offset(from)), FETCH_BYTES, end, true).expect("it reads");

    let mut group = criterion.benchmark_group("index_lookup");
    group.bench_function("tail", |bencher| bencher.iter(|| read(end.0 - i64::from(records))));
    let mut state = 1_u64;
    group.bench_function("random", |bencher| {
        bencher.iter(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            read((state >> 33) as i64 % end.0)
        });
    });
    // 64 batches make a MiB; their headers do not change that.
    let (step, mut from) = (64 * i64::from(records), 0);
    group.bench_function("sequential", |bencher| {
        bencher.iter(|| {
            from = if from + step < end.0 { from + step } else { 0 };
            read(from)
        });
    });
}

criterion_group!(benches, index_lookup);
criterion_main!(benches);
