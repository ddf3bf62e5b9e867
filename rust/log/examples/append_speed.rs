//! CPU time of validation, append and reads, in us a batch: `append_speed DIR`. Beside it stands
//! the time of a bare `pwrite` of the same bytes to a fresh file. CPU time of this thread, so that
//! other load on the machine shows less.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};

const TURNS: usize = 4_000;

struct Stopwatch(Duration);

impl Stopwatch {
    fn now() -> Duration {
        // The first field: time on a CPU, in ns.
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let ns = text.split(' ').next().and_then(|field| field.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    }
    fn start() -> Self {
        Self(Self::now())
    }
    fn elapsed(&self) -> Duration {
        Self::now().saturating_sub(self.0)
    }
}

/// With records of `record_bytes` until the batch has `batch_bytes`.
fn filled(
    mut builder: RecordBatchBuilder,
    record_bytes: usize,
    batch_bytes: usize,
    now_ms: i64,
) -> RecordBatchBuilder {
    while builder.payload_length() < batch_bytes {
        let value: Vec<u8> = (0..record_bytes).map(|i| (i * 7 + i * i) as u8).collect();
        builder.append(now_ms, None, Some(&value), &[]);
    }
    builder
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: append_speed DIR")?;
    let log_dir = LogDir::open(path, Arc::new(RealStorage), 100)?;
    let config = Arc::new(LogConfig { segment_bytes: 1 << 30, ..LogConfig::default() });
    let now_ms = 1_700_000_000_000;
    for (name, record_bytes, batch_bytes) in [
        ("1k-100", 100, 1 << 10),
        ("16k-100", 100, 16 << 10),
        ("16k-1000", 1000, 16 << 10),
        ("128k-1000", 1000, 128 << 10),
    ] {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
            let topic = format!("{name}-{codec:?}-0");
            let (log, _) =
                CommitLog::open(&log_dir, &topic, config.clone(), OpenState::default(), now_ms)?;
            log.become_leader(LeaderEpoch(0))?;
            let builder = filled(RecordBatchBuilder::new(codec), record_bytes, batch_bytes, now_ms);
            let bytes = builder.build(Offset(0), LeaderEpoch(-1))?;
            let started = Stopwatch::start();
            for _ in 0..TURNS {
                std::hint::black_box(validation::validate(&bytes, &config, now_ms, 9)?);
            }
            let validate = started.elapsed();
            let raw_path = log.path().join("raw");
            let raw_file = std::fs::File::create(&raw_path)?;
            let started = Stopwatch::start();
            for turn in 0..TURNS {
                raw_file.write_all_at(&bytes, (turn * bytes.len()) as u64)?;
            }
            let raw = started.elapsed();
            std::fs::remove_file(raw_path)?;
            let batch = validation::validate(&bytes, &config, now_ms, 9)?;
            let started = Stopwatch::start();
            for _ in 0..TURNS {
                log.append_as_leader(&batch, LeaderEpoch(0), now_ms)?;
            }
            let append = started.elapsed();
            let end = log.log_end_offset();
            let count = i64::from(batch.header().record_count);
            log.read(Offset(end.0 - count), 1 << 20, end, true)?;
            for _ in 0..10 {
                log.append_as_leader(&batch, LeaderEpoch(0), now_ms)?;
            }
            let end = log.log_end_offset();
            let started = Stopwatch::start();
            for _ in 0..TURNS {
                std::hint::black_box(log.read(Offset(end.0 - count), 1 << 20, end, true)?);
            }
            let read = started.elapsed();
            let started = Stopwatch::start();
            for i in 0..TURNS {
                let from = Offset((i as i64 * 7_919 * count) % (end.0 / 2));
                std::hint::black_box(log.read(from, 1 << 20, end, true)?);
            }
            let cold = started.elapsed();
            let us = |d: Duration| d.as_secs_f64() * 1e6 / TURNS as f64;
            println!(
                "{topic:20} {:6} B: validate {:6.2} pwrite {:6.2} append {:6.2} \
                 tail read {:5.2} indexed read {:5.2} us",
                batch.size(),
                us(validate),
                us(raw),
                us(append),
                us(read),
                us(cold)
            );
            log.rename_and_close("gone-delete")?;
            std::fs::remove_dir_all(log.path())?;
        }
    }
    Ok(())
}
