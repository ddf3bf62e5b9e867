//! The cost of idle partitions: `open_many DIR COUNT`. Opens COUNT of them with a few records each,
//! after a clean stop and after a crash. Prints the time and the resident memory.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};

fn resident_kib() -> Result<i64, Box<dyn Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).ok_or("statm")?.parse::<i64>()? * 4)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: open_many DIR COUNT")?;
    let count: usize = arguments.next().ok_or("usage: open_many DIR COUNT")?.parse()?;
    let log_dir = LogDir::open(path, Arc::new(RealStorage), 1_000)?;
    let config = Arc::new(LogConfig::default());
    let open_all = |clean: bool| -> Result<Vec<CommitLog>, Box<dyn Error>> {
        let (before, started) = (resident_kib()?, Instant::now());
        let mut logs = Vec::with_capacity(count);
        for index in 0..count {
            let state = OpenState { clean, ..OpenState::default() };
            let name = format!("t-{index}");
            logs.push(CommitLog::open(&log_dir, &name, config.clone(), state, 0)?.0);
        }
        let each = (resident_kib()? - before) as f64 / count as f64;
        println!("{count} opened in {:?}, {each:.2} KiB each", started.elapsed());
        Ok(logs)
    };
    let logs = open_all(false)?;
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(0, Some(b"key"), Some(&[7; 1_000]), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1))?;
    let batch = validation::validate(&bytes, &config, 0, 9)?;
    let before = resident_kib()?;
    for log in &logs {
        log.become_leader(LeaderEpoch(0))?;
        for _ in 0..20 {
            log.append_as_leader(&batch, LeaderEpoch(0), 0)?;
        }
    }
    println!(
        "after 20 appends each: {:.2} KiB more",
        (resident_kib()? - before) as f64 / count as f64
    );
    for log in &logs {
        log.close(true)?;
    }
    drop(logs);
    let logs = open_all(true)?;
    drop(logs);
    open_all(false).map(drop)
}
