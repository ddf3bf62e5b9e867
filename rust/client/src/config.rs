//! The configuration of a client: one table of keys, with Kafka's names.
//!
//! A key is written with dots or with underscores; both are the same key. An unknown key and a bad
//! value are errors, with a hint at the key or value that was probably meant. Keys of Kafka that
//! change nothing here are accepted with a warning. Defaults stand only in the table.
//! Source: `CommonClientConfigs`, `ProducerConfig`, `ConsumerConfig`, `AdminClientConfig` of Kafka.

use crate::error::ClientError;
use std::collections::BTreeMap;

mod address;
mod client_config;
mod client_keys;
mod consumer_config;
mod consumer_keys;
mod foreign_keys;
mod key;
mod producer_config;
mod producer_keys;
mod values;

pub use client_config::ClientConfig;
pub use consumer_config::{AutoOffsetReset, ConsumerConfig, IsolationLevel};
pub use key::{ClientKey, ClientKind, Kind, Owner, Valid};
pub use producer_config::{Acks, Compression, PartitionerKind, ProducerConfig};
pub use values::{Values, parse};

/// Every key of every client.
pub fn keys() -> impl Iterator<Item = &'static ClientKey> {
    client_keys::KEYS.iter().chain(producer_keys::KEYS).chain(consumer_keys::KEYS)
}

/// Checks what a client would be made of, without making it; returns what its user should know.
///
/// # Errors
/// Those of the client.
pub fn check(
    kind: ClientKind,
    pairs: &BTreeMap<String, String>,
) -> Result<Vec<String>, ClientError> {
    let client = match kind {
        ClientKind::Admin => ClientConfig::from_pairs(kind, pairs)?,
        ClientKind::Consumer => ConsumerConfig::from_pairs(pairs)?.client,
        ClientKind::Producer => ProducerConfig::from_pairs(pairs)?.client,
    };
    Ok(client.warnings)
}

#[cfg(test)]
mod tests;
