//! Takes over a partition that Apache Kafka wrote and prints its records' offsets, timestamps, keys
//! and values: `adopt_partition SOURCE_PARTITION_DIR OUR_LOG_DIR TOPIC-PARTITION`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, adopt};
use kafkalite_protocol::record_batch::Batches;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [source, ours, name] = arguments.as_slice() else {
        return Err(
            "usage: adopt_partition SOURCE_PARTITION_DIR OUR_LOG_DIR TOPIC-PARTITION".into()
        );
    };
    let log_dir = LogDir::open(ours, Arc::new(RealStorage), 100)?;
    let config = LogConfig::default();
    let adopted = adopt(&log_dir, source.as_ref(), name, &config, 0)?;
    eprintln!("{adopted:?}");
    let log_start_offset = adopted.log_start_offset;
    let state = OpenState { clean: true, log_start_offset, ..OpenState::default() };
    let (log, _) = CommitLog::open(&log_dir, name, Arc::new(config), state, 0)?;
    let read = log.read(log_start_offset, u32::MAX, log.log_end_offset(), true)?;
    for slice in &read.slices {
        let bytes = slice.read()?;
        for batch in Batches::new(&bytes) {
            for record in &batch?.records(1 << 30)? {
                let record = record?;
                // The first batch may begin below the start, as for any reader.
                if record.offset < log_start_offset {
                    continue;
                }
                let text = |bytes: Option<&[u8]>| {
                    bytes.map_or("null".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
                };
                let (key, value) = (text(record.key), text(record.value));
                println!("{}\t{}\t{key}\t{value}", record.offset.0, record.timestamp_ms);
            }
        }
    }
    Ok(())
}
