//! How fast an unclean log is read: `recover_speed DIR MIB`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: recover_speed DIR MIB")?;
    let mib: usize = arguments.next().ok_or("usage: recover_speed DIR MIB")?.parse()?;
    let log_dir = LogDir::open(path, Arc::new(RealStorage), 100)?;
    let config = Arc::new(LogConfig::default());
    let open = || CommitLog::open(&log_dir, "t-0", config.clone(), OpenState::default(), 0);
    let mut builder = RecordBatchBuilder::new(Codec::None);
    while builder.payload_length() < 16 << 10 {
        builder.append(0, Some(b"key"), Some(&[7; 1_000]), &[]);
    }
    let bytes = builder.build(Offset(0), LeaderEpoch(-1))?;
    let batch = validation::validate(&bytes, &config, 0, 9)?;
    let log = open()?.0;
    log.become_leader(LeaderEpoch(0))?;
    for _ in 0..(mib << 20) / batch.size() {
        log.append_as_leader(&batch, LeaderEpoch(0), 0)?;
    }
    drop(log);
    let started = Instant::now();
    let (log, report) = open()?;
    let seconds = started.elapsed().as_secs_f64();
    let gb = report.scanned_bytes as f64 / 1e9;
    println!(
        "{gb:.2} GB to offset {} in {seconds:.2} s: {:.2} s/GB",
        log.log_end_offset().0,
        seconds / gb
    );
    Ok(())
}
