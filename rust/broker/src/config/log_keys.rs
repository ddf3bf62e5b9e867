//! The table, part two: the log's defaults, and the topics' keys that lean on them.

use super::key::DefaultValue::{Null, Text};
use super::key::Valid::{
    Any, AtLeast, Between, Fraction, MinusOneOr, OneOf, SomeOf, ThrottledReplicas,
};
use super::key::{ConfigKey, Dynamic, Importance, Kind, Synonym, TopicKey, Valid, keys};

const CODECS: Valid = OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const POLICIES: Valid = SomeOf(&["compact", "delete"]);
const TIMESTAMP_TYPES: Valid = OneOf(&["CreateTime", "LogAppendTime"]);

/// Segments, retention and compaction, for topics that do not say otherwise.
pub const LOG: &[ConfigKey] = keys! {
    High ClusterWide Int "log.segment.bytes" = Text("1073741824"), AtLeast(1_048_576),
        "A segment that would grow past this is rolled.";
    High ClusterWide Long "log.roll.ms" = Null, AtLeast(1),
        "A segment this old is rolled. Unset: log.roll.hours.";
    High ReadOnly Int "log.roll.hours" = Text("168"), AtLeast(1),
        "A segment this old is rolled.";
    High ClusterWide Long "log.roll.jitter.ms" = Null, AtLeast(0),
        "At most so much is taken off a segment's age. Unset: log.roll.jitter.hours.";
    High ReadOnly Int "log.roll.jitter.hours" = Text("0"), AtLeast(0),
        "At most so much is taken off a segment's age, so that not all roll at once.";
    Medium ClusterWide Int "log.index.size.max.bytes" = Text("10485760"), AtLeast(4),
        "A segment whose index is this large is rolled.";
    Medium ClusterWide Int "log.index.interval.bytes" = Text("4096"), AtLeast(0),
        "Bytes of log between two entries of the index.";
    High ClusterWide Long "log.flush.interval.messages" = Text("9223372036854775807"), AtLeast(1),
        "Records after which the log is flushed; 1 flushes before every acknowledgement.";
    High ClusterWide Long "log.flush.interval.ms" = Null, Any,
        "Time after which the log is flushed. Unset: log.flush.scheduler.interval.ms.";
    High ReadOnly Long "log.flush.scheduler.interval.ms" = Text("9223372036854775807"), Any,
        "How often logs are looked at for whether they need a flush.";
    High ReadOnly Int "log.flush.offset.checkpoint.interval.ms" = Text("60000"), AtLeast(0),
        "How often recovery points are written down.";
    High ReadOnly Int "log.flush.start.offset.checkpoint.interval.ms" = Text("60000"), AtLeast(0),
        "How often log start offsets are written down.";
    High ClusterWide Long "log.retention.bytes" = Text("-1"), Any,
        "A partition larger than this loses its oldest segments; -1 for no bound.";
    High ClusterWide Long "log.retention.ms" = Null, AtLeast(-1),
        "Segments older than this are deleted; -1 never. Unset: log.retention.minutes.";
    High ReadOnly Int "log.retention.minutes" = Null, Any,
        "Segments older than this are deleted. Unset: log.retention.hours.";
    High ReadOnly Int "log.retention.hours" = Text("168"), Any,
        "Segments older than this are deleted; -1 never.";
    Medium ReadOnly Long "log.retention.check.interval.ms" = Text("300000"), AtLeast(1),
        "How often segments are looked at for whether they are due.";
    Medium ClusterWide List "log.cleanup.policy" = Text("delete"), POLICIES,
        "What happens to old segments: delete them, compact them, or both.";
    High ClusterWide Int "message.max.bytes" = Text("1048588"), AtLeast(0),
        "The largest record batch, as it arrives.";
    High ClusterWide String "compression.type" = Text("producer"), CODECS,
        "Codec batches are stored with; producer keeps what came.";
    Medium ClusterWide Int "compression.gzip.level" = Text("-1"), MinusOneOr(1, 9),
        "Level where the broker itself compresses with gzip.";
    Medium ClusterWide Int "compression.lz4.level" = Text("9"), Between(1, 17),
        "Level where the broker itself compresses with lz4.";
    Medium ClusterWide Int "compression.zstd.level" = Text("3"), Between(-131_072, 22),
        "Level where the broker itself compresses with zstd.";
    Medium ClusterWide Boolean "log.preallocate" = Text("false"), Any,
        "Give a new segment its full size on disk at once.";
    Medium ClusterWide String "log.message.timestamp.type" = Text("CreateTime"), TIMESTAMP_TYPES,
        "Whose clock stamps records: the producer's or the broker's.";
    Medium ClusterWide Long "log.message.timestamp.before.max.ms" = Text("9223372036854775807"),
        AtLeast(0), "A record stamped longer ago than this is refused.";
    Medium ClusterWide Long "log.message.timestamp.after.max.ms" = Text("3600000"), AtLeast(0),
        "A record stamped further ahead than this is refused.";
    High ClusterWide Long "log.segment.delete.delay.ms" = Text("60000"), AtLeast(0),
        "How long a deleted segment's files stay under their .deleted name.";
    High ClusterWide Int "num.recovery.threads.per.data.dir" = Text("2"), AtLeast(1),
        "Threads that recover logs at the start, for each directory.";
    Medium ReadOnly Boolean "log.cleaner.enable" = Text("true"), Any,
        "Compact topics that ask for it.";
    Medium ClusterWide Int "log.cleaner.threads" = Text("1"), AtLeast(0),
        "Threads that compact.";
    Medium ClusterWide Long "log.cleaner.backoff.ms" = Text("15000"), AtLeast(0),
        "How long compaction sleeps when nothing is dirty.";
    Medium ClusterWide Long "log.cleaner.dedupe.buffer.size" = Text("134217728"), Any,
        "Memory for the keys of one compaction.";
    Medium ClusterWide Long "log.cleaner.delete.retention.ms" = Text("86400000"), AtLeast(0),
        "How long a compacted log keeps tombstones.";
    Medium ClusterWide Double "log.cleaner.min.cleanable.ratio" = Text("0.5"), Fraction,
        "The dirty part of a log from which compaction is worth it.";
    Medium ClusterWide Long "log.cleaner.min.compaction.lag.ms" = Text("0"), AtLeast(0),
        "A record younger than this is not compacted away.";
    Medium ClusterWide Long "log.cleaner.max.compaction.lag.ms" = Text("9223372036854775807"),
        AtLeast(1), "A record older than this is due for compaction whatever the ratio.";
};

/// Writes rows of the topics' part: type, name, broker's keys, validity, meaning.
macro_rules! topic_keys {
    ($($kind:ident $name:literal = $default:expr,
       [$($synonym:literal x $factor:literal),*], $valid:expr, $doc:expr;)*) => {
        &[$(TopicKey {
            key: ConfigKey {
                name: $name,
                kind: Kind::$kind,
                default: $default,
                valid: $valid,
                importance: Importance::Medium,
                dynamic: Dynamic::ClusterWide,
                doc: $doc,
            },
            synonyms: &[$(Synonym { name: $synonym, factor: $factor }),*],
        }),*]
    };
}

/// What a topic may set for itself.
pub const TOPIC: &[TopicKey] = topic_keys! {
    List "cleanup.policy" = Null, ["log.cleanup.policy" x 1], POLICIES,
        "What happens to old segments: delete them, compact them, or both.";
    Int "compression.gzip.level" = Null, ["compression.gzip.level" x 1], MinusOneOr(1, 9),
        "Level where the broker itself compresses with gzip.";
    Int "compression.lz4.level" = Null, ["compression.lz4.level" x 1], Between(1, 17),
        "Level where the broker itself compresses with lz4.";
    String "compression.type" = Null, ["compression.type" x 1], CODECS,
        "Codec batches are stored with; producer keeps what came.";
    Int "compression.zstd.level" = Null, ["compression.zstd.level" x 1], Between(-131_072, 22),
        "Level where the broker itself compresses with zstd.";
    Long "delete.retention.ms" = Null, ["log.cleaner.delete.retention.ms" x 1], AtLeast(0),
        "How long a compacted log keeps tombstones.";
    Long "file.delete.delay.ms" = Null, ["log.segment.delete.delay.ms" x 1], AtLeast(0),
        "How long a deleted segment's files stay under their .deleted name.";
    Long "flush.messages" = Null, ["log.flush.interval.messages" x 1], AtLeast(1),
        "Records after which the log is flushed; 1 flushes before every acknowledgement.";
    Long "flush.ms" = Null,
        ["log.flush.interval.ms" x 1, "log.flush.scheduler.interval.ms" x 1], AtLeast(0),
        "Time after which the log is flushed.";
    List "follower.replication.throttled.replicas" = Text(""), [], ThrottledReplicas,
        "Replicas whose fetching is throttled: partition:broker pairs, or * for all.";
    Int "internal.segment.bytes" = Null, [], AtLeast(14),
        "Takes the place of segment.bytes without its lower bound; for tests, listed where set.";
    Int "index.interval.bytes" = Null, ["log.index.interval.bytes" x 1], AtLeast(0),
        "Bytes of log between two entries of the index.";
    List "leader.replication.throttled.replicas" = Text(""), [], ThrottledReplicas,
        "Replicas whose serving is throttled: partition:broker pairs, or * for all.";
    Long "max.compaction.lag.ms" = Null, ["log.cleaner.max.compaction.lag.ms" x 1], AtLeast(1),
        "A record older than this is due for compaction whatever the ratio.";
    Long "local.retention.bytes" = Text("-2"), [], AtLeast(-2),
        "Kept as given: it has a meaning with tiered storage only, which is not served.";
    Long "local.retention.ms" = Text("-2"), [], AtLeast(-2),
        "Kept as given: it has a meaning with tiered storage only, which is not served.";
    Int "max.message.bytes" = Null, ["message.max.bytes" x 1], AtLeast(0),
        "The largest record batch, as it arrives.";
    Long "message.timestamp.after.max.ms" = Null, ["log.message.timestamp.after.max.ms" x 1],
        AtLeast(0), "A record stamped further ahead than this is refused.";
    Long "message.timestamp.before.max.ms" = Null, ["log.message.timestamp.before.max.ms" x 1],
        AtLeast(0), "A record stamped longer ago than this is refused.";
    String "message.timestamp.type" = Null, ["log.message.timestamp.type" x 1], TIMESTAMP_TYPES,
        "Whose clock stamps records: the producer's or the broker's.";
    Double "min.cleanable.dirty.ratio" = Null, ["log.cleaner.min.cleanable.ratio" x 1], Fraction,
        "The dirty part of a log from which compaction is worth it.";
    Long "min.compaction.lag.ms" = Null, ["log.cleaner.min.compaction.lag.ms" x 1], AtLeast(0),
        "A record younger than this is not compacted away.";
    Int "min.insync.replicas" = Null, ["min.insync.replicas" x 1], AtLeast(1),
        "In-sync replicas without which acks=all is refused.";
    Boolean "preallocate" = Null, ["log.preallocate" x 1], Any,
        "Give a new segment its full size on disk at once.";
    Boolean "remote.log.copy.disable" = Text("false"), [], Any,
        "Kept as given: it has a meaning with tiered storage only, which is not served.";
    Boolean "remote.log.delete.on.disable" = Text("false"), [], Any,
        "Kept as given: it has a meaning with tiered storage only, which is not served.";
    Boolean "remote.storage.enable" = Text("false"), [], Any,
        "Tiered storage. It is not served, so true is refused.";
    Long "retention.bytes" = Null, ["log.retention.bytes" x 1], Any,
        "A partition larger than this loses its oldest segments; -1 for no bound.";
    Long "retention.ms" = Null,
        ["log.retention.ms" x 1, "log.retention.minutes" x 60_000,
         "log.retention.hours" x 3_600_000],
        AtLeast(-1), "Segments older than this are deleted; -1 never.";
    Int "segment.bytes" = Null, ["log.segment.bytes" x 1], AtLeast(1_048_576),
        "A segment that would grow past this is rolled.";
    Int "segment.index.bytes" = Null, ["log.index.size.max.bytes" x 1], AtLeast(4),
        "A segment whose index is this large is rolled.";
    Long "segment.jitter.ms" = Null,
        ["log.roll.jitter.ms" x 1, "log.roll.jitter.hours" x 3_600_000], AtLeast(0),
        "At most so much is taken off a segment's age, so that not all roll at once.";
    Long "segment.ms" = Null, ["log.roll.ms" x 1, "log.roll.hours" x 3_600_000], AtLeast(1),
        "A segment this old is rolled.";
    Boolean "unclean.leader.election.enable" = Null, ["unclean.leader.election.enable" x 1], Any,
        "Let a replica that is not in sync lead when no other is left, and lose records.";
    String "kafkalite.batch.validation" = Null, ["kafkalite.batch.validation" x 1],
        OneOf(&["strict", "relaxed"]),
        "strict: look into every compressed batch; relaxed: believe its header.";
};
