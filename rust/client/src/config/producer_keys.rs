//! The producer's keys.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, Between, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    Producer String "acks" = Some("all"), OneOf(&["all", "-1", "0", "1"]),
        "Replicas that must have a record: all in-sync replicas (all), the leader (1), or none \
         (0).";
    Producer Boolean "enable.idempotence" = Some("true"), Any,
        "Store a retried batch once and in order. Needs acks=all and at most 5 requests in \
         flight.";
    Producer Long "linger.ms" = Some("5"), AtLeast(0),
        "Time that a batch waits for more records.";
    Producer Int "batch.size" = Some("1000000"), AtLeast(0),
        "Size at which a batch is sent. A larger record gets its own batch.";
    Producer Long "buffer.memory" = Some("33554432"), AtLeast(1024),
        "Memory for records that wait. Beyond it, a send blocks up to max.block.ms.";
    Producer String "compression.type" = Some("none"),
        OneOf(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "Codec of the batches.";
    Producer Int "compression.gzip.level" = Some("-1"), Between(-1, 9),
        "gzip level, 1 to 9; -1 is gzip's own default.";
    Producer Int "compression.lz4.level" = Some("9"), Between(1, 17),
        "lz4 level in Kafka's numbers. Every level uses the fast compressor.";
    Producer Int "compression.zstd.level" = Some("3"), Between(-131_072, 22),
        "zstd level.";
    Producer Int "delivery.timeout.ms" = Some("120000"), AtLeast(0),
        "Time for an acknowledgement after send. Then the record has failed. At least \
         linger.ms + request.timeout.ms.";
    Producer Long "max.block.ms" = Some("60000"), AtLeast(0),
        "Maximum time that a send waits for memory or for the metadata of the topic.";
    Producer Int "max.in.flight.requests.per.connection" = Some("5"), AtLeast(1),
        "Maximum of unanswered requests on one connection.";
    Producer Int "max.request.size" = Some("1048576"), AtLeast(0),
        "Maximum size of a request, and of a record, in bytes.";
    Producer Int "retries" = Some("2147483647"), AtLeast(0),
        "Number of retries of a batch. delivery.timeout.ms can end them earlier.";
    Producer String "partitioner" = Some("murmur2"),
        OneOf(&["murmur2", "consistent_random", "round_robin"]),
        "Partition of a record with a key: as in Kafka's Java clients (murmur2), as in librdkafka \
         (consistent_random), or in turn.";
    Producer Boolean "partitioner.ignore.keys" = Some("false"), Any,
        "Ignore keys: partition all records like records without a key.";
    Producer Boolean "partitioner.adaptive.partitioning.enable" = Some("true"), Any,
        "Send more records without a key to partitions of faster brokers.";
    Producer Long "partitioner.availability.timeout.ms" = Some("0"), AtLeast(0),
        "Time without an accepted batch after which a partition gets no records without a key; 0 \
         turns this off.";
    Producer Long "metadata.max.idle.ms" = Some("300000"), AtLeast(5_000),
        "Idle time after which the client forgets a topic.";
};
