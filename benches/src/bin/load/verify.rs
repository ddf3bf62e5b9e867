//! Reads every record batch back: their checksums, that offsets follow each other, and how many.

use std::io::{self, Write};
use std::net::TcpStream;

use kafkalite_benches::frames::{
    self, BATCH_CRC_START, BATCH_HEADER_BYTES, ResponseLayout, i16_at, i32_at, i64_at,
};

use crate::{Failure, Plan, exchange};

/// Checks all partitions and prints how many records they hold.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    let mut socket = TcpStream::connect(&plan.address)?;
    let mut records = 0;
    for partition in 0..plan.partitions {
        records += check(plan, partition, &mut socket)?;
    }
    if plan.records >= 0 && records != plan.records {
        return Err(format!("{} records were sent, {records} are there", plan.records).into());
    }
    writeln!(io::stdout(), "{{\"mode\": \"verify\", \"records\": {records}}}")?;
    Ok(())
}

/// The records of one partition, from offset 0 to its high watermark.
fn check(plan: &Plan, partition: i32, socket: &mut TcpStream) -> Result<i64, Failure> {
    let layout = ResponseLayout::fetch(&plan.topic);
    let (mut offset, mut high_watermark) = (0, i64::MAX);
    while offset < high_watermark {
        let frame = frames::fetch(0, &plan.topic, partition, offset, plan.fetch_bytes);
        let answer = exchange(socket, &frame)?;
        match i16_at(&answer, layout.error) {
            Some(0) => {}
            error => return Err(format!("fetch at {offset}: error {error:?}").into()),
        }
        high_watermark = i64_at(&answer, layout.error + 2).ok_or("a short response")?;
        let len = i32_at(&answer, layout.head - 4).ok_or("a short response")? as usize;
        let records = answer.get(layout.head..layout.head + len).ok_or("a short response")?;
        let begin = offset;
        offset = check_batches(records, offset)?;
        if offset == begin && offset < high_watermark {
            return Err(format!("nothing at {offset} of {high_watermark}").into());
        }
    }
    Ok(offset)
}

/// The offset after the last whole batch; the response may end within one.
fn check_batches(mut records: &[u8], mut offset: i64) -> Result<i64, Failure> {
    while let Some(len) = i32_at(records, 8) {
        let Some(batch) = records.get(..len as usize + 12) else {
            break;
        };
        if batch.len() < BATCH_HEADER_BYTES || i64_at(batch, 0) != Some(offset) {
            return Err(format!("the batch at {offset} begins at {:?}", i64_at(batch, 0)).into());
        }
        let crc = i32_at(batch, BATCH_CRC_START - 4).map(i32::cast_unsigned);
        if crc != Some(frames::batch_crc(batch)) {
            return Err(format!("the batch at {offset} is corrupt").into());
        }
        offset += i64::from(i32_at(batch, 23).ok_or("a short batch")?) + 1;
        records = &records[batch.len()..];
    }
    Ok(offset)
}
