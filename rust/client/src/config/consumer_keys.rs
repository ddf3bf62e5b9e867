//! The consumer's keys.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, NotEmpty, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    Consumer String "group.id" = None, NotEmpty,
        "Consumer group: divides the partitions of the subscribed topics, and commits offsets.";
    Consumer String "group.instance.id" = None, NotEmpty,
        "Static name of this member. A restart within the session timeout causes no rebalance.";
    Consumer String "group.protocol" = Some("classic"), OneOf(&["classic"]),
        "Protocol of the group.";
    Consumer List "partition.assignment.strategy" = Some("range,cooperative-sticky"), NotEmpty,
        "Assignors of the group, in order of preference: range, roundrobin, sticky, \
         cooperative-sticky.";
    Consumer String "auto.offset.reset" = Some("latest"), OneOf(&["latest", "earliest", "none"]),
        "Position without a valid committed offset. With none, the consumer raises an error.";
    Consumer Boolean "enable.auto.commit" = Some("true"), Any,
        "Commit the records that earlier calls returned, at intervals and on close.";
    Consumer Int "auto.commit.interval.ms" = Some("5000"), AtLeast(0),
        "Interval between automatic commits.";
    Consumer Int "session.timeout.ms" = Some("45000"), AtLeast(1),
        "Time without a heartbeat after which a member is removed from its group.";
    Consumer Int "heartbeat.interval.ms" = Some("3000"), AtLeast(1),
        "Interval between heartbeats; at most a third of session.timeout.ms.";
    Consumer Int "max.poll.interval.ms" = Some("300000"), AtLeast(1),
        "Maximum time between two calls that read. Then the member leaves its group.";
    Consumer Int "max.poll.records" = Some("500"), AtLeast(1),
        "Maximum of records that one call returns, unless the call has its own limit.";
    Consumer Int "fetch.min.bytes" = Some("1"), AtLeast(0),
        "Bytes that a broker waits for before it answers a fetch.";
    Consumer Int "fetch.max.wait.ms" = Some("500"), AtLeast(0),
        "Maximum time that a broker waits for fetch.min.bytes.";
    Consumer Int "fetch.max.bytes" = Some("52428800"), AtLeast(0),
        "Maximum bytes of a fetch response. A larger first batch is still sent.";
    Consumer Int "max.partition.fetch.bytes" = Some("1048576"), AtLeast(0),
        "Maximum bytes of a partition in a fetch response. A larger first batch is still sent.";
    Consumer String "isolation.level" = Some("read_uncommitted"),
        OneOf(&["read_uncommitted", "read_committed"]),
        "Whether to return records of open and aborted transactions.";
    Consumer Boolean "check.crcs" = Some("true"), Any,
        "Check the checksum of every batch.";
    Consumer String "client.rack" = Some(""), Any,
        "Rack of this client: leaders may send it to a replica there, and assignors count racks.";
    Consumer Boolean "exclude.internal.topics" = Some("true"), Any,
        "Exclude internal topics from patterns.";
    Consumer Boolean "allow.auto.create.topics" = Some("true"), Any,
        "Create a missing topic on first use, if the broker allows that.";
    Consumer Int "kafkalite.fetch.buffer.max.bytes" = Some("67108864"), AtLeast(1),
        "Maximum bytes to fetch ahead of the program. One response may exceed it.";
    Consumer Int "kafkalite.batch.max.bytes" = Some("268435456"), AtLeast(1),
        "Maximum size of a batch after decompression.";
};
