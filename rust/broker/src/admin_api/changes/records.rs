//! `POST /topics/{name}/messages`: appends one record.

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use kafkalite_protocol::record_batch::{RecordBatchBuilder, RecordHeader};
use kafkalite_protocol::{LeaderEpoch, Offset, Records};
use serde::{Deserialize, Serialize};

use super::request::{TIMEOUT_MS, ask, check};
use super::{bad, read};
use crate::admin_api::commands::Change;
use crate::admin_api::topics::find;
use crate::admin_api::{Answer, failed, json};
use crate::admin_http::Refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    partition: i32,
    key: Option<Data>,
    value: Option<Data>,
    #[serde(default)]
    headers: Vec<Header>,
    /// `None`: now.
    timestamp_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    value: Option<Data>,
}

/// Bytes as JSON can carry them.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Data {
    /// In UTF-8.
    Text(String),
    /// Two digits for each byte.
    Hex(String),
}

#[derive(Serialize)]
struct Appended<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
}

/// `POST /topics/{name}/messages`
///
/// The record is acknowledged by all in-sync replicas when this answers.
pub(super) async fn append(change: Change) -> Answer {
    let Change { api, asked, body, .. } = &change;
    let name = asked.part("name");
    let record: Record = read(body)?;
    let topic_id = find(&api.controller.image(), name)?.id;
    let (index, now_ms) = (record.partition, api.clock.wall_ms());
    let timestamp_ms = record.timestamp_ms.unwrap_or(now_ms);
    let records = Some(Records::Bytes(batch(record, timestamp_ms)?));
    let partition_data = vec![PartitionProduceData { index, records }];
    let topic_data = vec![TopicProduceData { topic_id, partition_data, ..Default::default() }];
    let request =
        ProduceRequest { acks: -1, timeout_ms: TIMEOUT_MS, topic_data, ..Default::default() };
    let mut answer = ask(&change, 13, &request).await?;
    let of_topic = answer.responses.pop().and_then(|mut topic| topic.partition_responses.pop());
    let of_partition: PartitionProduceResponse =
        of_topic.ok_or_else(|| failed("its answer names no partition"))?;
    let what = format!("the record is not appended to partition {index} of {name:?}");
    check(&what, of_partition.error_code, of_partition.error_message)?;
    // With LogAppendTime the broker's own time counts.
    let appended_ms = Some(of_partition.log_append_time_ms).filter(|ms| *ms >= 0);
    json(&Appended {
        topic: name,
        partition: index,
        offset: of_partition.base_offset,
        timestamp_ms: appended_ms.unwrap_or(timestamp_ms),
    })
}

/// A batch of this one record.
fn batch(record: Record, timestamp_ms: i64) -> Result<bytes::Bytes, Refusal> {
    let (key, value) = (bytes("key", record.key)?, bytes("value", record.value)?);
    let mut headers = Vec::new();
    for Header { name, value } in record.headers {
        headers.push((name, bytes("value of a header", value)?));
    }
    let headers: Vec<RecordHeader<'_>> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let mut batch = RecordBatchBuilder::new(Codec::None);
    batch.append(timestamp_ms, key.as_deref(), value.as_deref(), &headers);
    batch.build(Offset(0), LeaderEpoch(-1)).map_err(|error| failed(&error.to_string()))
}

fn bytes(of: &str, data: Option<Data>) -> Result<Option<Vec<u8>>, Refusal> {
    let digits = match data {
        None => return Ok(None),
        Some(Data::Text(text)) => return Ok(Some(text.into_bytes())),
        Some(Data::Hex(digits)) => digits,
    };
    let unreadable = || {
        let hint = "give two hexadecimal digits for each byte, and nothing between them.";
        bad(format!("the {of} cannot be read"), "it is not in hexadecimal digits", hint)
    };
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) || digits.len() % 2 != 0 {
        return Err(unreadable());
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.map(byte).collect::<Option<Vec<u8>>>().map(Some).ok_or_else(unreadable)
}
