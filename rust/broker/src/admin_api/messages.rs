//! `/topics/{name}/messages`: records of one partition, from an offset, from a time, or the last.
//!
//! What one request reads, inflates and shows is bounded, whatever was produced: the answer ends
//! early then, and `next_offset` says where to go on. The records are those that a consumer gets:
//! below the high watermark, without control records. They do not count as traffic.

use axum::http::StatusCode;
use kafkalite_log::FileSlice;
use kafkalite_protocol::record_batch::{Batches, Record, RecordBatch, TimestampType};
use kafkalite_protocol::{ErrorCode, Offset};
use serde::Serialize;

use super::asked::Asked;
use super::field::{Field, Format, field};
use super::topics::{find, replica};
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;
use crate::fetch_sessions::{FetchTarget, TopicRef};
use crate::partitions::{FetchReader, Fetched, Partition};

/// The parameters of its query.
pub(super) const QUERY: &[&str] = &[
    "partition",
    "offset",
    "time",
    "tail",
    "limit",
    "format",
    "key_format",
    "value_format",
    "field_bytes",
];

/// Records of an answer: at most, and of a client that does not say.
const MOST: usize = 500;
const USUAL: usize = 50;
/// Bytes of a key or value that are shown: at most, and of a client that does not say.
const MOST_FIELD_BYTES: usize = 64 << 10;
const USUAL_FIELD_BYTES: usize = 4 << 10;
/// Headers of a record that are shown, and bytes of the name and of the value of each.
const MOST_HEADERS: usize = 100;
const MOST_HEADER_BYTES: usize = 1 << 10;
/// Characters of an answer, before the last record.
const MOST_SHOWN: usize = 1 << 20;
/// Bytes of the log that are read at once. A larger batch is read alone.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of a batch, in the log and inflated.
const MOST_BATCH_BYTES: u64 = 8 << 20;
const MOST_INFLATED_BYTES: usize = 32 << 20;
/// Bytes that one request reads from the log, and bytes of records in them, before it ends.
const MOST_SPENT_BYTES: usize = 32 << 20;

#[derive(Serialize)]
struct Messages<'a> {
    broker_id: i32,
    topic: &'a str,
    partition: i32,
    log_start_offset: i64,
    high_watermark: i64,
    messages: Vec<Message>,
    /// Where the next answer begins; `None` at the high watermark.
    next_offset: Option<i64>,
}

#[derive(Serialize)]
struct Message {
    offset: i64,
    /// `None`: the record has none.
    timestamp_ms: Option<i64>,
    timestamp_type: &'static str,
    key: Option<Field>,
    value: Option<Field>,
    headers: Vec<Header>,
    /// Headers of the record, those that are not shown too.
    header_count: i32,
}

#[derive(Serialize)]
struct Header {
    name: String,
    value: Option<Field>,
}

/// What is shown of each record.
struct Look {
    limit: usize,
    key: Format,
    value: Format,
    field_bytes: usize,
}

/// `GET /topics/{name}/messages`
pub(super) fn read(api: &AdminApi, asked: &Asked) -> Answer {
    let image = api.controller.image();
    let topic = find(&image, asked.part("name"))?;
    let index = asked.number("partition", 0..=i32::MAX)?.ok_or_else(|| {
        let why = format!("topic {} has {} of them", topic.name, topic.partitions.len());
        let hint = "add ?partition=0, for instance.";
        Refusal::new(StatusCode::BAD_REQUEST, "which partition is not said", why, hint)
    })?;
    let look = Look::asked(asked)?;
    let partition = replica(api, topic, index)?;
    let from = first_offset(&partition, asked, look.limit)?;
    let mut reading = Reading { look, messages: Vec::new(), shown: 0, at: from, spent: 0 };
    let (log_start_offset, high_watermark) = reading.read(&partition)?;
    json(&Messages {
        broker_id: api.local_id,
        topic: &topic.name,
        partition: index,
        log_start_offset,
        high_watermark,
        next_offset: Some(reading.at).filter(|at| *at < high_watermark),
        messages: reading.messages,
    })
}

impl Look {
    fn asked(asked: &Asked) -> Result<Self, Refusal> {
        let format = |name: &str, or| match asked.text(name) {
            None => Ok(or),
            Some(text) => Format::named(text).ok_or_else(|| {
                let (what, why) = (format!("there is no format {text:?}"), "formats have names");
                let hint = format!("{name} is one of {}.", Format::NAMES);
                Refusal::new(StatusCode::BAD_REQUEST, what, why, hint)
            }),
        };
        let both = format("format", Format::Auto)?;
        let field_bytes = asked.number("field_bytes", 0..=MOST_FIELD_BYTES)?;
        Ok(Self {
            limit: asked.number("limit", 1..=MOST)?.unwrap_or(USUAL),
            key: format("key_format", both)?,
            value: format("value_format", both)?,
            field_bytes: field_bytes.unwrap_or(USUAL_FIELD_BYTES),
        })
    }
}

/// Where the answer begins.
fn first_offset(partition: &Partition, asked: &Asked, limit: usize) -> Result<i64, Refusal> {
    let offset = asked.number("offset", 0..=i64::MAX)?;
    let time = asked.number("time", 0..=i64::MAX)?;
    let tail = asked.number("tail", 1..=MOST)?;
    let end = partition.high_watermark().0;
    match (offset, time, tail) {
        (Some(offset), None, None) => Ok(offset),
        (None, Some(time), None) => {
            let found = partition.offset_for_timestamp(time);
            let found = found.map_err(|error| not_read(partition, error))?;
            Ok(found.map_or(end, |found| found.offset.0.min(end)))
        }
        (None, None, tail) => {
            let tail = i64::try_from(tail.unwrap_or(limit)).unwrap_or(i64::MAX);
            Ok(end.saturating_sub(tail).max(partition.log_start_offset().0))
        }
        _ => {
            let why = "offset, time and tail each say where to begin";
            let hint = "give one of them.";
            let what = "the request begins at two places";
            Err(Refusal::new(StatusCode::BAD_REQUEST, what, why, hint))
        }
    }
}

/// Why records of a partition cannot be read.
fn not_read(partition: &Partition, error: ErrorCode) -> Refusal {
    let (name, index) = (partition.topic(), partition.index());
    let (status, hint) = match error {
        ErrorCode::OffsetOutOfRange => (StatusCode::RANGE_NOT_SATISFIABLE, {
            let (start, end) = (partition.log_start_offset().0, partition.high_watermark().0);
            format!("its offsets go from {start} to {end}.")
        }),
        ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch => {
            let hint = "ask the admin port of the broker that leads the partition.".to_owned();
            (StatusCode::CONFLICT, hint)
        }
        _ => {
            let hint = "look at the disk and into the broker's log.".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, hint)
        }
    };
    Refusal::new(status, format!("partition {index} of {name} is not read"), error.name(), hint)
}

/// An answer that is being made.
struct Reading {
    look: Look,
    messages: Vec<Message>,
    /// Characters in `messages`.
    shown: usize,
    /// The next offset.
    at: i64,
    /// Bytes that were read, and bytes of their records.
    spent: usize,
}

impl Reading {
    fn is_full(&self) -> bool {
        self.messages.len() >= self.look.limit
            || self.shown >= MOST_SHOWN
            || self.spent >= MOST_SPENT_BYTES
    }

    /// Reads until it is full, or at the high watermark. Returns where the log starts, and the high
    /// watermark.
    fn read(&mut self, partition: &Partition) -> Result<(i64, i64), Refusal> {
        loop {
            let (fetched, bytes) = self.fetch(partition)?;
            let range = (fetched.log_start_offset.0, fetched.readable_end.0);
            let before = self.at;
            match self.take(&bytes, range.1) {
                Err(refusal) if self.messages.is_empty() => return Err(refusal),
                // Told by the next answer, which begins there.
                Err(_) => return Ok(range),
                Ok(()) => {}
            }
            if self.is_full() || self.at >= range.1 || self.at == before {
                return Ok(range);
            }
        }
    }

    /// Some batches from `at` on, one at least if there is any.
    fn fetch(&mut self, partition: &Partition) -> Result<(Fetched, Vec<u8>), Refusal> {
        let target = FetchTarget {
            topic: TopicRef::Id(partition.topic_id()).into(),
            partition: partition.index(),
            fetch_offset: self.at,
            max_bytes: i32::MAX,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            leader_only: true,
        };
        let refused = |error| not_read(partition, error);
        let plan = partition.plan(&target, FetchReader::ReadUncommitted).map_err(refused)?;
        let mut fetched = plan.read(STEP_BYTES, false);
        if fetched.bytes == 0 && self.at < fetched.readable_end.0 {
            fetched = plan.read(MOST_BATCH_BYTES, false);
        }
        if fetched.error != ErrorCode::None {
            return Err(refused(fetched.error));
        }
        if fetched.bytes == 0 && self.at < fetched.readable_end.0 && self.messages.is_empty() {
            return Err(too_large(self.at));
        }
        let read = fetched.slices.iter().map(FileSlice::read).collect::<Result<Vec<_>, _>>();
        let bytes = read.map_err(|_| refused(ErrorCode::KafkaStorageError))?.concat();
        self.spent += bytes.len();
        Ok((fetched, bytes))
    }

    /// Takes the records below `end` of some batches.
    fn take(&mut self, bytes: &[u8], end: i64) -> Result<(), Refusal> {
        for batch in Batches::new(bytes) {
            let batch = batch.map_err(|error| damaged(self.at, &error.to_string()))?;
            if self.is_full() || batch.base_offset().0 >= end {
                break;
            }
            if batch.header().is_control() || self.take_batch(&batch)? {
                self.at = self.at.max(batch.header().next_offset().0);
            }
        }
        Ok(())
    }

    /// Whether all of its records were taken, or lie before.
    fn take_batch(&mut self, batch: &RecordBatch<'_>) -> Result<bool, Refusal> {
        let records = batch.records(MOST_INFLATED_BYTES);
        let records = records.map_err(|error| damaged(self.at, &error.to_string()))?;
        let timestamp_type = match batch.header().timestamp_type() {
            TimestampType::CreateTime => "create_time",
            TimestampType::LogAppendTime => "log_append_time",
        };
        self.spent += records.payload().len();
        for record in &records {
            let record = record.map_err(|error| damaged(self.at, &error.to_string()))?;
            if record.offset < Offset(self.at) {
                continue;
            }
            // What the batch inflated to is spent: its records are shown as far as there is room.
            if self.messages.len() >= self.look.limit || self.shown >= MOST_SHOWN {
                return Ok(false);
            }
            let message = self.look.message(&record, timestamp_type);
            self.shown += message.characters();
            self.messages.push(message);
            self.at = record.offset.0.saturating_add(1);
        }
        Ok(true)
    }
}

fn too_large(offset: i64) -> Refusal {
    let most = MOST_BATCH_BYTES >> 20;
    let what = format!("the batch at offset {offset} is not shown");
    let hint = "kafkalite log dump shows it, or begin at a later offset.";
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, what, format!("it has over {most} MiB"), hint)
}

fn damaged(offset: i64, why: &str) -> Refusal {
    let what = format!("the batch at offset {offset} is not shown");
    let hint = "kafkalite log verify checks the log, or begin at a later offset.";
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, what, why, hint)
}

impl Look {
    fn message(&self, record: &Record<'_>, timestamp_type: &'static str) -> Message {
        let shown = |bytes: Option<&[u8]>, format| {
            bytes.map(|bytes| field(bytes, format, self.field_bytes))
        };
        let most = self.field_bytes.min(MOST_HEADER_BYTES);
        let headers = record.headers().take(MOST_HEADERS).map(|(name, value)| Header {
            name: field(name, Format::Text, MOST_HEADER_BYTES).data,
            value: value.map(|value| field(value, Format::Auto, most)),
        });
        Message {
            offset: record.offset.0,
            timestamp_ms: Some(record.timestamp_ms).filter(|ms| *ms >= 0),
            timestamp_type,
            key: shown(record.key, self.key),
            value: shown(record.value, self.value),
            headers: headers.collect(),
            header_count: record.header_count(),
        }
    }
}

impl Message {
    /// About how much it adds to the answer.
    fn characters(&self) -> usize {
        let length = |field: &Option<Field>| field.as_ref().map_or(0, |field| field.data.len());
        let headers = self.headers.iter().map(|header| header.name.len() + length(&header.value));
        200 + length(&self.key) + length(&self.value) + headers.sum::<usize>()
    }
}
