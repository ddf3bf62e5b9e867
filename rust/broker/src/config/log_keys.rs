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
        "Maximum size of a segment. A new segment is rolled before it would be exceeded.";
    High ClusterWide Long "log.roll.ms" = Null, AtLeast(1),
        "Age at which a segment is rolled. Unset: log.roll.hours.";
    High ReadOnly Int "log.roll.hours" = Text("168"), AtLeast(1),
        "Age at which a segment is rolled.";
    High ClusterWide Long "log.roll.jitter.ms" = Null, AtLeast(0),
        "Maximum random part of the roll time. Unset: log.roll.jitter.hours.";
    High ReadOnly Int "log.roll.jitter.hours" = Text("0"), AtLeast(0),
        "Maximum random part of the roll time, so that segments roll at different times.";
    Medium ClusterWide Int "log.index.size.max.bytes" = Text("10485760"), AtLeast(4),
        "Maximum size of an index. A segment with a full index is rolled.";
    Medium ClusterWide Int "log.index.interval.bytes" = Text("4096"), AtLeast(0),
        "Bytes of log between two index entries.";
    High ClusterWide Long "log.flush.interval.messages" = Text("9223372036854775807"), AtLeast(1),
        "Number of records between flushes. 1 flushes before every acknowledgement.";
    High ClusterWide Long "log.flush.interval.ms" = Null, Any,
        "Time between flushes. Unset: log.flush.scheduler.interval.ms.";
    High ReadOnly Long "log.flush.scheduler.interval.ms" = Text("9223372036854775807"), Any,
        "Interval between flush checks.";
    High ReadOnly Int "log.flush.offset.checkpoint.interval.ms" = Text("60000"), AtLeast(0),
        "Interval between checkpoints of recovery points.";
    High ReadOnly Int "log.flush.start.offset.checkpoint.interval.ms" = Text("60000"), AtLeast(0),
        "Interval between checkpoints of log start offsets.";
    High ClusterWide Long "log.retention.bytes" = Text("-1"), Any,
        "Maximum size of a partition. Retention deletes the oldest segments; -1 for no limit.";
    High ClusterWide Long "log.retention.ms" = Null, AtLeast(-1),
        "Age at which segments are deleted; -1 for never. Unset: log.retention.minutes.";
    High ReadOnly Int "log.retention.minutes" = Null, Any,
        "Age at which segments are deleted. Unset: log.retention.hours.";
    High ReadOnly Int "log.retention.hours" = Text("168"), Any,
        "Age at which segments are deleted; -1 for never.";
    Medium ReadOnly Long "log.retention.check.interval.ms" = Text("300000"), AtLeast(1),
        "Interval between retention checks.";
    Medium ClusterWide List "log.cleanup.policy" = Text("delete"), POLICIES,
        "Policy for old segments: delete, compact, or both.";
    High ClusterWide Int "message.max.bytes" = Text("1048588"), AtLeast(0),
        "Maximum size of a record batch, as received.";
    High ClusterWide String "compression.type" = Text("producer"), CODECS,
        "Codec of stored batches. producer keeps the producer's codec.";
    Medium ClusterWide Int "compression.gzip.level" = Text("-1"), MinusOneOr(1, 9),
        "gzip level for batches that the broker compresses.";
    Medium ClusterWide Int "compression.lz4.level" = Text("9"), Between(1, 17),
        "lz4 level for batches that the broker compresses.";
    Medium ClusterWide Int "compression.zstd.level" = Text("3"), Between(-131_072, 22),
        "zstd level for batches that the broker compresses.";
    Medium ClusterWide Boolean "log.preallocate" = Text("false"), Any,
        "Allocate the full size of a new segment on the disk at once.";
    Medium ClusterWide String "log.message.timestamp.type" = Text("CreateTime"), TIMESTAMP_TYPES,
        "Source of timestamps: the producer's clock or the broker's.";
    Medium ClusterWide Long "log.message.timestamp.before.max.ms" = Text("9223372036854775807"),
        AtLeast(0), "A record stamped longer ago than this is refused.";
    Medium ClusterWide Long "log.message.timestamp.after.max.ms" = Text("3600000"), AtLeast(0),
        "Maximum time that a record's timestamp may be in the future.";
    High ClusterWide Long "log.segment.delete.delay.ms" = Text("60000"), AtLeast(0),
        "Time that files of a deleted segment stay, with the suffix .deleted.";
    High ClusterWide Int "num.recovery.threads.per.data.dir" = Text("2"), AtLeast(1),
        "Threads for log recovery at the start, for each directory.";
    Medium ReadOnly Boolean "log.cleaner.enable" = Text("true"), Any,
        "Compact topics whose policy includes compact.";
    Medium ClusterWide Int "log.cleaner.threads" = Text("1"), AtLeast(0),
        "Threads for compaction.";
    Medium ClusterWide Long "log.cleaner.backoff.ms" = Text("15000"), AtLeast(0),
        "Time that an idle compaction thread sleeps.";
    Medium ClusterWide Long "log.cleaner.dedupe.buffer.size" = Text("134217728"), Any,
        "Memory for the keys of one compaction run.";
    Medium ClusterWide Long "log.cleaner.delete.retention.ms" = Text("86400000"), AtLeast(0),
        "Time that a compacted log keeps tombstones.";
    Medium ClusterWide Double "log.cleaner.min.cleanable.ratio" = Text("0.5"), Fraction,
        "Minimum dirty share of a log for compaction.";
    Medium ClusterWide Long "log.cleaner.min.compaction.lag.ms" = Text("0"), AtLeast(0),
        "Minimum age of a record for compaction.";
    Medium ClusterWide Long "log.cleaner.max.compaction.lag.ms" = Text("9223372036854775807"),
        AtLeast(1), "Age at which a record is due for compaction, with any dirty share.";
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
        "Policy for old segments: delete, compact, or both.";
    Int "compression.gzip.level" = Null, ["compression.gzip.level" x 1], MinusOneOr(1, 9),
        "gzip level for batches that the broker compresses.";
    Int "compression.lz4.level" = Null, ["compression.lz4.level" x 1], Between(1, 17),
        "lz4 level for batches that the broker compresses.";
    String "compression.type" = Null, ["compression.type" x 1], CODECS,
        "Codec of stored batches. producer keeps the producer's codec.";
    Int "compression.zstd.level" = Null, ["compression.zstd.level" x 1], Between(-131_072, 22),
        "zstd level for batches that the broker compresses.";
    Long "delete.retention.ms" = Null, ["log.cleaner.delete.retention.ms" x 1], AtLeast(0),
        "Time that a compacted log keeps tombstones.";
    Long "file.delete.delay.ms" = Null, ["log.segment.delete.delay.ms" x 1], AtLeast(0),
        "Time that files of a deleted segment stay, with the suffix .deleted.";
    Long "flush.messages" = Null, ["log.flush.interval.messages" x 1], AtLeast(1),
        "Number of records between flushes. 1 flushes before every acknowledgement.";
    Long "flush.ms" = Null,
        ["log.flush.interval.ms" x 1, "log.flush.scheduler.interval.ms" x 1], AtLeast(0),
        "Time between flushes.";
    List "follower.replication.throttled.replicas" = Text(""), [], ThrottledReplicas,
        "Replicas with throttled fetches: partition:broker pairs, or * for all.";
    Int "internal.segment.bytes" = Null, [], AtLeast(14),
        "Replaces segment.bytes, without a lower bound. For tests; listed only if set.";
    Int "index.interval.bytes" = Null, ["log.index.interval.bytes" x 1], AtLeast(0),
        "Bytes of log between two index entries.";
    List "leader.replication.throttled.replicas" = Text(""), [], ThrottledReplicas,
        "Replicas with throttled reads: partition:broker pairs, or * for all.";
    Long "max.compaction.lag.ms" = Null, ["log.cleaner.max.compaction.lag.ms" x 1], AtLeast(1),
        "Age at which a record is due for compaction, with any dirty share.";
    Long "local.retention.bytes" = Text("-2"), [], AtLeast(-2),
        "Stored without effect: tiered storage is not served.";
    Long "local.retention.ms" = Text("-2"), [], AtLeast(-2),
        "Stored without effect: tiered storage is not served.";
    Int "max.message.bytes" = Null, ["message.max.bytes" x 1], AtLeast(0),
        "Maximum size of a record batch, as received.";
    Long "message.timestamp.after.max.ms" = Null, ["log.message.timestamp.after.max.ms" x 1],
        AtLeast(0), "Maximum time that a record's timestamp may be in the future.";
    Long "message.timestamp.before.max.ms" = Null, ["log.message.timestamp.before.max.ms" x 1],
        AtLeast(0), "A record stamped longer ago than this is refused.";
    String "message.timestamp.type" = Null, ["log.message.timestamp.type" x 1], TIMESTAMP_TYPES,
        "Source of timestamps: the producer's clock or the broker's.";
    Double "min.cleanable.dirty.ratio" = Null, ["log.cleaner.min.cleanable.ratio" x 1], Fraction,
        "Minimum dirty share of a log for compaction.";
    Long "min.compaction.lag.ms" = Null, ["log.cleaner.min.compaction.lag.ms" x 1], AtLeast(0),
        "Minimum age of a record for compaction.";
    Int "min.insync.replicas" = Null, ["min.insync.replicas" x 1], AtLeast(1),
        "Minimum of in-sync replicas for acks=all.";
    Boolean "preallocate" = Null, ["log.preallocate" x 1], Any,
        "Allocate the full size of a new segment on the disk at once.";
    Boolean "remote.log.copy.disable" = Text("false"), [], Any,
        "Stored without effect: tiered storage is not served.";
    Boolean "remote.log.delete.on.disable" = Text("false"), [], Any,
        "Stored without effect: tiered storage is not served.";
    Boolean "remote.storage.enable" = Text("false"), [], Any,
        "Tiered storage is not served: true is refused.";
    Long "retention.bytes" = Null, ["log.retention.bytes" x 1], Any,
        "Maximum size of a partition. Retention deletes the oldest segments; -1 for no limit.";
    Long "retention.ms" = Null,
        ["log.retention.ms" x 1, "log.retention.minutes" x 60_000,
         "log.retention.hours" x 3_600_000],
        AtLeast(-1), "Age at which segments are deleted; -1 for never.";
    Int "segment.bytes" = Null, ["log.segment.bytes" x 1], AtLeast(1_048_576),
        "Maximum size of a segment. A new segment is rolled before it would be exceeded.";
    Int "segment.index.bytes" = Null, ["log.index.size.max.bytes" x 1], AtLeast(4),
        "Maximum size of an index. A segment with a full index is rolled.";
    Long "segment.jitter.ms" = Null,
        ["log.roll.jitter.ms" x 1, "log.roll.jitter.hours" x 3_600_000], AtLeast(0),
        "Maximum random part of the roll time, so that segments roll at different times.";
    Long "segment.ms" = Null, ["log.roll.ms" x 1, "log.roll.hours" x 3_600_000], AtLeast(1),
        "Age at which a segment is rolled.";
    Boolean "unclean.leader.election.enable" = Null, ["unclean.leader.election.enable" x 1], Any,
        "Let an out-of-sync replica lead if no other is left. This can lose records.";
    String "kafkalite.batch.validation" = Null, ["kafkalite.batch.validation" x 1],
        OneOf(&["strict", "relaxed"]),
        "strict: check the records of compressed batches. relaxed: check only their headers.";
};
