"""Every option of the connector: the one place that names them, their defaults and meanings.

Names and defaults are those of Spark's own Kafka connector; those below ``OURS`` are additions.
``kafka.*`` options are clients' keys and stand in kafkalite's own table.
Source: Spark's Structured Streaming and Kafka integration guide.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["FORBIDDEN_KAFKA", "OPTIONS", "Option"]

#: Where an option has a meaning: batch read, stream read, batch write, stream write.
Where = frozenset[str]
Kind = Literal["text", "json", "int", "long", "bool", "bytes", "duration"]

READ: Where = frozenset({"read", "readStream"})
STREAM: Where = frozenset({"readStream"})
BATCH: Where = frozenset({"read"})
WRITE: Where = frozenset({"write", "writeStream"})
ALL: Where = READ | WRITE


class Option(NamedTuple):
    """One row of the table."""

    name: str
    kind: Kind
    default: str | None
    where: Where
    meaning: str
    #: Why it is refused; empty where it works.
    refused: str = ""


OPTIONS: tuple[Option, ...] = (
    Option("assign", "json", None, READ, 'Partitions to read: `{"topic": [0, 1]}`.'),
    Option("subscribe", "text", None, READ, "Topics to read, separated by commas."),
    Option(
        "subscribePattern",
        "text",
        None,
        READ,
        "Topics to read: a regular expression that is found in their names; `^a$` is `a` alone.",
    ),
    Option(
        "startingOffsets",
        "text",
        None,
        READ,
        '`earliest`, `latest`, or an offset for each partition: `{"topic": {"0": 23, "1": -2}}`, '
        "-2 for earliest, -1 for latest. A batch begins with earliest, a new stream with latest.",
    ),
    Option("endingOffsets", "text", "latest", BATCH, "`latest`, or an offset for each partition."),
    Option(
        "startingOffsetsByTimestamp",
        "json",
        None,
        READ,
        'Milliseconds since 1970 for each partition: `{"topic": {"0": 1700000000000}}`.',
    ),
    Option(
        "endingOffsetsByTimestamp",
        "json",
        None,
        BATCH,
        "The same for the end: the first record as new as that is left out.",
    ),
    Option("startingTimestamp", "long", None, READ, "Milliseconds since 1970, for all partitions."),
    Option("endingTimestamp", "long", None, BATCH, "The same for the end."),
    Option(
        "startingOffsetsByTimestampStrategy",
        "text",
        "error",
        READ,
        "What to do where no record is as new as a starting timestamp: `error`, or `latest`.",
    ),
    Option(
        "failOnDataLoss",
        "bool",
        "true",
        READ,
        "Whether offsets that are gone fail the query; else they are passed over with a warning.",
    ),
    Option("maxOffsetsPerTrigger", "long", None, STREAM, "Offsets in a micro-batch at most."),
    Option(
        "minOffsetsPerTrigger",
        "long",
        None,
        STREAM,
        "Offsets a micro-batch waits for; `maxTriggerDelay` ends the wait.",
    ),
    Option("maxTriggerDelay", "duration", "15m", STREAM, "How long `minOffsetsPerTrigger` waits."),
    Option(
        "minPartitions",
        "int",
        None,
        READ,
        "Tasks wanted at least: partitions of many records are split.",
    ),
    Option("maxRecordsPerPartition", "long", None, READ, "Offsets that one task reads at most."),
    Option(
        "includeHeaders",
        "bool",
        "false",
        ALL,
        "Whether there is a column `headers` to read. A sink writes it wherever it is there.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "long",
        "120000",
        READ,
        "A task to which brokers send nothing for so many milliseconds, not even a marker, fails.",
    ),
    Option(
        "fetchOffset.numRetries",
        "int",
        "3",
        READ,
        "Accepted and without effect: asking for offsets is tried again until "
        "`kafka.default.api.timeout.ms`.",
    ),
    Option(
        "fetchOffset.retryIntervalMs", "long", "10", READ, "Accepted and without effect, as above."
    ),
    Option(
        "groupIdPrefix",
        "text",
        "spark-kafka-source",
        READ,
        "Accepted and without effect: reading needs no group.",
    ),
    Option(
        "checkpointLocation",
        "text",
        None,
        ALL,
        "The query's checkpoint. A source needs it only to take over a checkpoint of Spark's own "
        "connector whose first micro-batch was not finished: it says where that began.",
    ),
    Option("topic", "text", None, WRITE, "The topic to write to; beats a column `topic`."),
    # Ours.
    Option(
        "rowsPerTask",
        "long",
        "250000",
        READ,
        "Maximum records of a task that reads several small partitions. Such a task also reads at "
        "most 16 MiB, as far as sizes can be estimated.",
    ),
    Option(
        "parallelism",
        "int",
        None,
        READ,
        "Tasks that the cluster runs at once: partitions share tasks only beyond so many. Unset it "
        "is the cores of the driver's machine.",
    ),
    Option("batchBytes", "bytes", "1048576", READ, "Bytes in a batch of columns for Spark."),
    Option(
        "fetchBufferBytes", "bytes", "33554432", READ, "Bytes that a task fetches ahead at most."
    ),
    Option(
        "pushFilters",
        "bool",
        "false",
        BATCH,
        "Narrow the ranges by filters.",
        refused="filters are not pushed down yet: give startingOffsets or startingTimestamp",
    ),
    Option(
        "commitOffsetsToGroup",
        "bool",
        "false",
        STREAM,
        "Whether the ends of finished micro-batches are committed to `kafka.group.id`, so that "
        "lag tools see the query.",
    ),
    Option(
        "transactional",
        "bool",
        "false",
        WRITE,
        "Exactly-once delivery.",
        refused="exactly-once is not built yet: rows are delivered at least once, by an "
        "idempotent producer. Leave it out, or keep an id in each row and drop doubles",
    ),
)

#: ``kafka.`` keys that Spark's connector refuses as well, and why.
FORBIDDEN_KAFKA = {
    "auto.offset.reset": "use startingOffsets",
    "key.deserializer": "keys are columns of bytes: decode them in the query",
    "value.deserializer": "values are columns of bytes: decode them in the query",
    "key.serializer": "keys are strings or bytes: encode them in the query",
    "value.serializer": "values are strings or bytes: encode them in the query",
    "enable.auto.commit": "the checkpoint keeps what was read; see commitOffsetsToGroup",
    "interceptor.classes": "there is no JVM to run them in",
}
