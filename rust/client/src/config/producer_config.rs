//! The configuration of a producer.

use super::client_config::ClientConfig;
use super::key::ClientKind;
use super::values::{Values, parse};
use crate::error::ClientError;
use kafkalite_protocol::compression::Codec;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who must have a record before it counts as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// No acknowledgement: no answer is sent.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas.
    All,
}

impl Acks {
    /// As Produce spells it.
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// A codec and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// Its level; `None` where it has none or its own default is wanted.
    pub level: Option<i32>,
}

/// How records with a key find their partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionerKind {
    /// As Kafka's Java clients do.
    Murmur2,
    /// As librdkafka does by default: CRC-32 of the key.
    ConsistentRandom,
    /// By turns, whatever the key.
    RoundRobin,
}

/// A producer's keys, as values.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// What every client has.
    pub client: ClientConfig,
    /// `acks`.
    pub acks: Acks,
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// `linger.ms`.
    pub linger: Duration,
    /// `batch.size`, in bytes.
    pub batch_size: usize,
    /// `buffer.memory`, in bytes.
    pub buffer_memory: usize,
    /// `compression.type` with its level.
    pub compression: Compression,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Duration,
    /// `max.block.ms`.
    pub max_block: Duration,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `max.request.size`, in bytes.
    pub max_request_size: usize,
    /// `retries`.
    pub retries: usize,
    /// `partitioner`.
    pub partitioner: PartitionerKind,
    /// `partitioner.ignore.keys`.
    pub partitioner_ignore_keys: bool,
    /// `partitioner.adaptive.partitioning.enable`.
    pub adaptive_partitioning: bool,
    /// `partitioner.availability.timeout.ms`; zero is never.
    pub partitioner_availability_timeout: Duration,
}

impl ProducerConfig {
    /// Reads a producer's configuration.
    pub fn from_pairs(pairs: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        let values = parse(ClientKind::Producer, pairs)?;
        let client = ClientConfig::from_values(&values)?;
        let acks = match values.text("acks") {
            Some("0") => Acks::None,
            Some("1") => Acks::Leader,
            _ => Acks::All,
        };
        let linger = values.ms("linger.ms");
        let config = Self {
            acks,
            idempotent: idempotence(&values, acks)?,
            linger,
            batch_size: values.count("batch.size"),
            buffer_memory: values.count("buffer.memory"),
            compression: compression(&values),
            delivery_timeout: delivery_timeout(&values, linger, client.connection.request_timeout)?,
            max_block: values.ms("max.block.ms"),
            max_in_flight: values.count("max.in.flight.requests.per.connection"),
            max_request_size: values.count("max.request.size"),
            retries: values.count("retries"),
            partitioner: match values.text("partitioner") {
                Some("consistent_random") => PartitionerKind::ConsistentRandom,
                Some("round_robin") => PartitionerKind::RoundRobin,
                _ => PartitionerKind::Murmur2,
            },
            partitioner_ignore_keys: values.flag("partitioner.ignore.keys"),
            adaptive_partitioning: values.flag("partitioner.adaptive.partitioning.enable"),
            partitioner_availability_timeout: values.ms("partitioner.availability.timeout.ms"),
            client,
        };
        Ok(config)
    }
}

/// Idempotence needs acks=all, retries and at most 5 in flight. Where it was not asked for in so
/// many words it gives way to what was; where it was, the contradiction is an error (KIP-679).
fn idempotence(values: &Values, acks: Acks) -> Result<bool, ClientError> {
    if !values.flag("enable.idempotence") {
        return Ok(false);
    }
    let in_flight = "max.in.flight.requests.per.connection";
    let conflict = if acks != Acks::All {
        Some(("acks", "acks=all"))
    } else if values.number(in_flight) > 5 {
        Some((in_flight, "max.in.flight.requests.per.connection of at most 5"))
    } else if values.number("retries") == 0 {
        Some(("retries", "retries of at least 1"))
    } else {
        None
    };
    match conflict {
        None => Ok(true),
        // Kafka refuses a wrong number in flight even so: order would be lost silently.
        Some((key, needs)) if values.is_set("enable.idempotence") || key == in_flight => {
            let why = format!("enable.idempotence=true needs {needs}");
            Err(Values::wrong(key, why, Some("or set enable.idempotence=false.")))
        }
        Some(_) => Ok(false),
    }
}

/// At least `linger + request_timeout`; a value that is not set is raised to it, as in Kafka.
fn delivery_timeout(
    values: &Values,
    linger: Duration,
    request_timeout: Duration,
) -> Result<Duration, ClientError> {
    let name = "delivery.timeout.ms";
    let chosen = values.ms(name);
    let least = linger + request_timeout;
    if chosen >= least {
        return Ok(chosen);
    }
    if values.is_set(name) {
        let least = least.as_millis();
        let why = format!("is less than linger.ms + request.timeout.ms, which is {least}");
        return Err(Values::wrong(name, why, Some("lower request.timeout.ms with it.")));
    }
    Ok(least)
}

fn compression(values: &Values) -> Compression {
    let level = |name: &str| i32::try_from(values.number(name)).ok();
    match values.text("compression.type") {
        Some("gzip") => Compression {
            codec: Codec::Gzip,
            level: level("compression.gzip.level").filter(|level| *level != -1),
        },
        Some("snappy") => Compression { codec: Codec::Snappy, level: None },
        Some("lz4") => Compression { codec: Codec::Lz4, level: level("compression.lz4.level") },
        Some("zstd") => Compression { codec: Codec::Zstd, level: level("compression.zstd.level") },
        _ => Compression { codec: Codec::None, level: None },
    }
}
