//! The producer's keys.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, Between, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    Producer String "acks" = Some("all"), OneOf(&["all", "-1", "0", "1"]),
        "Who must have a record before it counts as sent: all in-sync replicas, the leader (1), \
         nobody (0).";
    Producer Boolean "enable.idempotence" = Some("true"), Any,
        "A retried batch is stored once and in order. Needs acks=all and at most 5 requests in \
         flight.";
    Producer Long "linger.ms" = Some("5"), AtLeast(0),
        "How long a batch waits for more records before it is sent.";
    Producer Int "batch.size" = Some("1000000"), AtLeast(0),
        "A batch is sent when it reaches this many bytes; a larger record has a batch of its own.";
    Producer Long "buffer.memory" = Some("33554432"), AtLeast(1024),
        "Bytes that may wait to be sent; beyond that sending blocks for max.block.ms.";
    Producer String "compression.type" = Some("none"),
        OneOf(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "How batches are compressed.";
    Producer Int "compression.gzip.level" = Some("-1"), Between(-1, 9),
        "gzip's level, 1 to 9; -1 is gzip's own default.";
    Producer Int "compression.lz4.level" = Some("9"), Between(1, 17),
        "lz4's level as Kafka numbers it; every level is written by the fast compressor.";
    Producer Int "compression.zstd.level" = Some("3"), Between(-131_072, 22),
        "zstd's level.";
    Producer Int "delivery.timeout.ms" = Some("120000"), AtLeast(0),
        "A record that is not acknowledged this long after it was sent has failed. At least \
         linger.ms + request.timeout.ms.";
    Producer Long "max.block.ms" = Some("60000"), AtLeast(0),
        "How long sending may wait for room in the buffer or for a topic's metadata.";
    Producer Int "max.in.flight.requests.per.connection" = Some("5"), AtLeast(1),
        "Requests that wait for their answer on one connection.";
    Producer Int "max.request.size" = Some("1048576"), AtLeast(0),
        "The largest request, and with it the largest record, in bytes.";
    Producer Int "retries" = Some("2147483647"), AtLeast(0),
        "How often a batch is sent again; delivery.timeout.ms ends it earlier.";
    Producer String "partitioner" = Some("murmur2"),
        OneOf(&["murmur2", "consistent_random", "round_robin"]),
        "How records with a key find their partition: as Kafka's Java clients do (murmur2), as \
         librdkafka does (consistent_random), or by turns.";
    Producer Boolean "partitioner.ignore.keys" = Some("false"), Any,
        "Records with a key are spread like those without.";
    Producer Boolean "partitioner.adaptive.partitioning.enable" = Some("true"), Any,
        "Records without a key go more often to partitions whose brokers are faster.";
    Producer Long "partitioner.availability.timeout.ms" = Some("0"), AtLeast(0),
        "A partition whose leader took no batch for this long gets no records without a key; 0 \
         never.";
    Producer Long "metadata.max.idle.ms" = Some("300000"), AtLeast(5_000),
        "A topic that was not used for this long is not asked for any more.";
};
