//! Writes a partition with batches of every codec, several segments and two leader epochs, to be
//! looked at with Kafka's own `DumpLogSegments`: `write_partition DIR`.

use std::error::Error;
use std::sync::Arc;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: write_partition DIR")?;
    let log_dir = LogDir::open(path, Arc::new(RealStorage), 100)?;
    let config = LogConfig { segment_bytes: 200_000, ..LogConfig::default() };
    let now_ms = 1_700_000_000_000;
    let opened = CommitLog::open(
        &log_dir,
        "written-0",
        Arc::new(config.clone()),
        OpenState::default(),
        now_ms,
    )?;
    let log = opened.0;
    let mut sequence = 0;
    for round in 0..500_i64 {
        let codec = Codec::ALL[usize::try_from(round)? % Codec::ALL.len()];
        let mut builder = RecordBatchBuilder::new(codec).producer(77, 0, sequence);
        for i in 0..10_i64 {
            let value = vec![u8::try_from(i)?; 200];
            let key = format!("key-{round}-{i}");
            let timestamp_ms = now_ms + round * 100 + i;
            builder.append(timestamp_ms, Some(key.as_bytes()), Some(&value), &[("h", Some(b"v"))]);
        }
        sequence += 10;
        let bytes = builder.build(Offset(0), LeaderEpoch(-1))?;
        let batch = validation::validate(&bytes, &config, now_ms + round * 100 + 9, 9)?;
        let epoch = LeaderEpoch(if round < 250 { 0 } else { 3 });
        log.become_leader(epoch)?;
        log.append_as_leader(&batch, epoch, now_ms)?;
    }
    log.close(true)?;
    Ok(())
}
