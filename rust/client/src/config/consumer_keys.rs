//! The consumer's keys.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, NotEmpty, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    Consumer String "group.id" = None, NotEmpty,
        "The group that shares the partitions of the subscribed topics, and commits for them.";
    Consumer String "group.instance.id" = None, NotEmpty,
        "A name that stays with this member over restarts: coming back in time moves nothing.";
    Consumer String "group.protocol" = Some("classic"), OneOf(&["classic"]),
        "Which protocol the group speaks.";
    Consumer List "partition.assignment.strategy" = Some("range,cooperative-sticky"), NotEmpty,
        "How partitions are shared, the most wanted first: range, roundrobin, sticky, \
         cooperative-sticky.";
    Consumer String "auto.offset.reset" = Some("latest"), OneOf(&["latest", "earliest", "none"]),
        "Where to begin without a committed offset, or when it is out of range; none is an error.";
    Consumer Boolean "enable.auto.commit" = Some("true"), Any,
        "What earlier calls handed out is committed from time to time, and on close.";
    Consumer Int "auto.commit.interval.ms" = Some("5000"), AtLeast(0),
        "How often that is.";
    Consumer Int "session.timeout.ms" = Some("45000"), AtLeast(1),
        "A member that sends no heartbeat for this long is taken out of its group.";
    Consumer Int "heartbeat.interval.ms" = Some("3000"), AtLeast(1),
        "How often a heartbeat is sent; at most a third of session.timeout.ms.";
    Consumer Int "max.poll.interval.ms" = Some("300000"), AtLeast(1),
        "A member that asks for no records for this long leaves its group.";
    Consumer Int "max.poll.records" = Some("500"), AtLeast(1),
        "Records that one call hands out at most, where it does not say itself.";
    Consumer Int "fetch.min.bytes" = Some("1"), AtLeast(0),
        "Bytes a broker waits for before it answers a fetch.";
    Consumer Int "fetch.max.wait.ms" = Some("500"), AtLeast(0),
        "How long it waits for them.";
    Consumer Int "fetch.max.bytes" = Some("52428800"), AtLeast(0),
        "Bytes of one fetch response; a larger first batch is sent all the same.";
    Consumer Int "max.partition.fetch.bytes" = Some("1048576"), AtLeast(0),
        "Bytes of one partition in a fetch response; a larger first batch is sent all the same.";
    Consumer String "isolation.level" = Some("read_uncommitted"),
        OneOf(&["read_uncommitted", "read_committed"]),
        "Whether records of open and aborted transactions are handed out.";
    Consumer Boolean "check.crcs" = Some("true"), Any,
        "Whether the checksum of every batch is checked.";
    Consumer String "client.rack" = Some(""), Any,
        "Where this client is, for the assignor of its group; records come from leaders alone.";
    Consumer Boolean "exclude.internal.topics" = Some("true"), Any,
        "Whether a pattern leaves out internal topics.";
    Consumer Boolean "allow.auto.create.topics" = Some("true"), Any,
        "Whether asking for a topic may create it, if the broker allows it too.";
    Consumer Int "kafkalite.fetch.buffer.max.bytes" = Some("67108864"), AtLeast(1),
        "Bytes that are fetched ahead of the program at most; one response may pass it.";
    Consumer Int "kafkalite.batch.max.bytes" = Some("268435456"), AtLeast(1),
        "What the records of one batch may take when they are decompressed.";
};
