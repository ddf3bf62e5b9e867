//! What does a deadline cost?
//!
//! Almost every delayed operation is cancelled before its deadline, so `insert and cancel` is the
//! price of a fetch that waits; it must not grow with those that wait already.
#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafkalite_broker::purgatory::timing_wheel::TimingWheel;

const WAITING: [u64; 3] = [0, 1_000, 100_000];
const MAX_WAIT_MS: u64 = 500;

fn filled(waiting: u64) -> TimingWheel<u64> {
    let mut wheel = TimingWheel::new(0);
    for value in 0..waiting {
        wheel.insert(1 + value % MAX_WAIT_MS, value);
    }
    wheel
}

fn insert_and_cancel(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timing_wheel_insert_and_cancel");
    for waiting in WAITING {
        let mut wheel = filled(waiting);
        group.bench_function(BenchmarkId::from_parameter(waiting), |bencher| {
            bencher.iter(|| {
                let id = wheel.insert(black_box(MAX_WAIT_MS), 0);
                wheel.cancel(black_box(id))
            });
        });
    }
}

fn next_event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timing_wheel_next_event");
    for waiting in WAITING {
        let wheel = filled(waiting);
        group.bench_function(BenchmarkId::from_parameter(waiting), |bencher| {
            bencher.iter(|| black_box(&wheel).next_event_ms());
        });
    }
}

fn expire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timing_wheel_expire");
    for waiting in [1_000, 100_000] {
        group.throughput(Throughput::Elements(waiting));
        group.bench_function(BenchmarkId::from_parameter(waiting), |bencher| {
            let count = |mut wheel: TimingWheel<u64>| {
                let mut expired = 0;
                wheel.advance(MAX_WAIT_MS, |value| expired += value & 1);
                // Handed back, so that freeing it is not measured.
                (wheel, expired)
            };
            bencher.iter_batched(|| filled(waiting), count, BatchSize::LargeInput);
        });
    }
}

criterion_group!(benches, insert_and_cancel, next_event, expire);
criterion_main!(benches);
