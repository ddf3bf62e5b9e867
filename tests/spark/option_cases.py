"""What happens with each option: the same questions for our connector and for Spark's own.

`tests/golden/spark_options.json` holds what Spark's own connector answered, on Apache Kafka. Where
ours answers otherwise on purpose, ``differs`` says why. Three topics are read:

========  ==========  =====================================================
topic     partitions  records
========  ==========  =====================================================
cases     2           10 and 5, `TIME` and a millisecond more each, a header
cases-two 1           3
short     1           10, of which the first 4 were deleted
========  ==========  =====================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CASES", "TIME", "Case"]

Use = Literal["read", "readStream", "write", "writeStream"]

#: The first record's time, in ms.
TIME = 1_700_000_000_000
#: Later than every record.
LATER = TIME + 86_400_000

ROWS = "cast(id as string) as key", "concat('v', cast(id as string)) as value"


@dataclass(frozen=True)
class Case:
    """One question. ``None`` as an option's value: not even the default of the test is given."""

    use: Use
    name: str
    options: Mapping[str, str | None] = field(default_factory=dict)
    #: What rows of ``range(3)`` are written.
    rows: tuple[str, ...] = ROWS
    #: How: a batch's save mode, a stream's output mode.
    mode: str = "append"
    #: A word that our error says, where it is not the name of an option.
    says: str = ""
    #: Why ours does otherwise than Spark's own.
    differs: str = ""

    @property
    def key(self) -> str:
        """Its name in the golden file."""
        return f"{self.use}: {self.name}"

    @property
    def covers(self) -> set[str]:
        """The options it asks about; what only keeps an error from taking minutes left out."""
        return {name for name in self.options if not name.endswith((".timeout.ms", "block.ms"))}


def _json(**topics: object) -> str:
    return json.dumps({name.replace("_", "-"): told for name, told in topics.items()})


ALL: dict[str, str | None] = {"subscribe": "cases"}
SOON: dict[str, str | None] = {
    "kafka.request.timeout.ms": "2000",
    "kafka.default.api.timeout.ms": "3000",
    "fetchOffset.numRetries": "1",
}
TYPO = "an unknown name is an error here, with the nearest known name"
MEANINGLESS = "an option that changes nothing is an error here; Spark's own says so in a log line"


def _read() -> list[Case]:
    """Batches: what is read and from where to where."""
    assign = {"assign": _json(cases=[1])}
    two = {**ALL, "startingOffsetsByTimestamp": _json(cases={"0": TIME + 3, "1": TIME + 1})}
    late = {**ALL, "startingTimestamp": str(LATER)}
    kafka = [
        Case("read", f"kafka.{key}", {**ALL, f"kafka.{key}": value})
        for key, value in (
            ("auto.offset.reset", "earliest"),
            ("key.deserializer", "x"),
            ("value.deserializer", "x"),
            ("enable.auto.commit", "true"),
            ("interceptor.classes", "x"),
            ("group.id", "mine"),
            ("client.id", "mine"),
            ("isolation.level", "read_committed"),
            ("max.poll.records", "5"),
        )
    ]
    return [
        Case("read", "a topic", ALL),
        Case("read", "names in any case", {"SUBSCRIBE": "cases"}),
        Case("read", "two topics", {"subscribe": "cases, cases-two"}),
        Case("read", "no topic", {"subscribe": " "}),
        Case("read", "a missing topic", {**SOON, "subscribe": "nowhere"}, says="nowhere"),
        Case("read", "a pattern", {"subscribePattern": "cases.*"}),
        Case("read", "a pattern of a part", {"subscribePattern": "case"}),
        Case("read", "no pattern", {"subscribePattern": "("}),
        Case("read", "a partition", assign),
        Case("read", "no partitions", {"assign": "cases"}),
        Case(
            "read",
            "a missing partition",
            {**SOON, "assign": _json(cases=[7])},
            says="cases-7|UNKNOWN_TOPIC",
            differs="Spark's own reads nothing, and says nothing; here it is an error",
        ),
        Case("read", "two ways", {**ALL, **assign}),
        Case("read", "nothing to read", {}, says="subscribe"),
        Case("read", "no servers", {**ALL, "kafka.bootstrap.servers": None}),
        *_offsets(),
        Case("read", "times to start", two),
        Case("read", "a time to start", {**ALL, "startingTimestamp": str(TIME + 2)}),
        Case("read", "a time to start that is none", {**ALL, "startingTimestamp": "noon"}),
        Case(
            "read",
            "the time beats times beat offsets",
            {**two, "startingTimestamp": str(TIME + 2), "startingOffsets": "earliest"},
        ),
        Case("read", "a time after all records", late),
        Case(
            "read",
            "a time after all records, latest",
            {**late, "startingOffsetsByTimestampStrategy": "latest"},
        ),
        Case("read", "a strategy that is none", {**ALL, "startingOffsetsByTimestampStrategy": "x"}),
        Case(
            "read",
            "times to end",
            {**ALL, "endingOffsetsByTimestamp": _json(cases={"0": TIME + 3, "1": LATER})},
        ),
        Case("read", "a time to end", {**ALL, "endingTimestamp": str(TIME + 3)}),
        Case(
            "read",
            "times that end before they begin",
            {**ALL, "startingTimestamp": str(TIME + 3), "endingTimestamp": str(TIME + 1)},
        ),
        Case(
            "read",
            "a time before 1970",
            {**ALL, "startingOffsetsByTimestamp": _json(cases={"0": -1, "1": TIME})},
            differs="a time before 1970 is an error; Spark's own takes -1 for the latest offset",
        ),
        Case(
            "read",
            "offsets that end before they begin",
            {
                **ALL,
                "startingOffsets": _json(cases={"0": 5, "1": 0}),
                "endingOffsets": _json(cases={"0": 3, "1": -1}),
            },
        ),
        *_tasks(),
        *kafka,
        Case(
            "read",
            "kafka.nonsense",
            {**ALL, "kafka.nonsense": "1"},
            says="kafka.nonsense: unknown key",
            differs=TYPO,
        ),
        Case("read", "kafka.linger.ms", {**ALL, "kafka.linger.ms": "5"}, differs=MEANINGLESS),
        Case("read", "kafka.fetch.min.bytes that is none", {**ALL, "kafka.fetch.min.bytes": "x"}),
        Case("read", "isolation.level that is none", {**ALL, "kafka.isolation.level": "x"}),
        Case("read", "a typo", {**ALL, "startingOffset": "earliest"}, differs=TYPO),
        *(
            Case("read", name, {**ALL, name: value}, differs=MEANINGLESS)
            for name, value in (
                ("maxOffsetsPerTrigger", "5"),
                ("minOffsetsPerTrigger", "5"),
                ("maxTriggerDelay", "1s"),
                ("topic", "cases"),
            )
        ),
    ]


def _offsets() -> list[Case]:
    bounds: tuple[tuple[str, str, str], ...] = (
        ("startingOffsets", "earliest", "earliest"),
        ("startingOffsets", "latest", "latest"),
        ("startingOffsets", "for each", _json(cases={"0": 3, "1": -2})),
        ("startingOffsets", "-1", _json(cases={"0": -1, "1": -2})),
        ("startingOffsets", "for some", _json(cases={"0": 3})),
        ("startingOffsets", "of another", _json(other={"0": 3})),
        ("startingOffsets", "no JSON", "first"),
        ("endingOffsets", "latest", "latest"),
        ("endingOffsets", "earliest", "earliest"),
        ("endingOffsets", "for each", _json(cases={"0": 5, "1": -1})),
        ("endingOffsets", "-2", _json(cases={"0": -2, "1": -1})),
    )
    return [Case("read", f"{name}, {what}", {**ALL, name: value}) for name, what, value in bounds]


def _tasks() -> list[Case]:
    gone: dict[str, str | None] = {
        "subscribe": "short",
        "startingOffsets": _json(short={"0": 0}),
        "kafkaConsumer.pollTimeoutMs": "5000",
    }
    return [
        Case("read", "data that is gone", gone, says="OFFSET_OUT_OF_RANGE"),
        Case("read", "data that may be gone", {**gone, "failOnDataLoss": "false"}),
        Case("read", "failOnDataLoss that is none", {**ALL, "failOnDataLoss": "perhaps"}),
        Case("read", "minPartitions", {**ALL, "minPartitions": "6"}),
        Case("read", "minPartitions that is none", {**ALL, "minPartitions": "x"}),
        Case("read", "maxRecordsPerPartition", {**ALL, "maxRecordsPerPartition": "3"}),
        Case("read", "includeHeaders", {**ALL, "includeHeaders": "true"}),
        Case("read", "pollTimeoutMs", {**ALL, "kafkaConsumer.pollTimeoutMs": "60000"}),
        Case("read", "pollTimeoutMs that is none", {**ALL, "kafkaConsumer.pollTimeoutMs": "x"}),
        Case("read", "numRetries", {**ALL, "fetchOffset.numRetries": "1"}),
        Case("read", "numRetries that is none", {**ALL, "fetchOffset.numRetries": "x"}),
        Case("read", "retryIntervalMs", {**ALL, "fetchOffset.retryIntervalMs": "5"}),
        Case("read", "groupIdPrefix", {**ALL, "groupIdPrefix": "mine"}),
    ]


def _read_stream() -> list[Case]:
    """Streams with the trigger availableNow."""
    old: dict[str, str | None] = {**ALL, "startingOffsets": "earliest"}
    least: dict[str, str | None] = {**old, "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1s"}
    late: dict[str, str | None] = {**ALL, "startingTimestamp": str(LATER)}
    gone: dict[str, str | None] = {
        "subscribe": "short",
        "startingOffsets": _json(short={"0": 0}),
        "kafkaConsumer.pollTimeoutMs": "5000",
    }
    table: tuple[tuple[str, dict[str, str | None]], ...] = (
        ("from the latest", ALL),
        ("from the earliest", old),
        ("a pattern", {"subscribePattern": "cases.*", "startingOffsets": "earliest"}),
        ("a partition", {"assign": _json(cases=[1]), "startingOffsets": "earliest"}),
        ("offsets", {**ALL, "startingOffsets": _json(cases={"0": 3, "1": -1})}),
        ("offsets for some", {**ALL, "startingOffsets": _json(cases={"0": 3})}),
        (
            "times to start",
            {**ALL, "startingOffsetsByTimestamp": _json(cases={"0": TIME + 3, "1": TIME + 1})},
        ),
        ("a time to start", {**ALL, "startingTimestamp": str(TIME + 2)}),
        ("a time after all records", late),
        (
            "a time after all records, latest",
            {**late, "startingOffsetsByTimestampStrategy": "latest"},
        ),
        ("maxOffsetsPerTrigger", {**old, "maxOffsetsPerTrigger": "6"}),
        ("maxOffsetsPerTrigger that is none", {**old, "maxOffsetsPerTrigger": "x"}),
        ("minOffsetsPerTrigger", least),
        ("more at least than at most", {**least, "maxOffsetsPerTrigger": "2"}),
        ("maxTriggerDelay that is none", {**least, "maxTriggerDelay": "soon"}),
        ("endingOffsets", {**ALL, "endingOffsets": "latest"}),
        ("endingOffsetsByTimestamp", {**ALL, "endingOffsetsByTimestamp": _json(cases={"0": 1})}),
        ("data that may be gone", {**gone, "failOnDataLoss": "false"}),
        ("includeHeaders", {**old, "includeHeaders": "true"}),
        ("minPartitions", {**old, "minPartitions": "4"}),
        ("maxRecordsPerPartition", {**old, "maxRecordsPerPartition": "4"}),
        ("the rest", {**old, "groupIdPrefix": "a", "kafkaConsumer.pollTimeoutMs": "9000",
                      "fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "5"}),
        ("failOnDataLoss that is none", {**old, "failOnDataLoss": "perhaps"}),
    )  # fmt: skip
    return [
        *(Case("readStream", name, options) for name, options in table),
        Case("readStream", "endingTimestamp", {**ALL, "endingTimestamp": "1"}, differs=MEANINGLESS),
        Case("readStream", "data that is gone", gone, says="OFFSET_OUT_OF_RANGE"),
        Case("readStream", "a missing topic", {**SOON, "subscribe": "nowhere"}, says="nowhere"),
    ]


def _write() -> list[Case]:
    """Sinks; ``out`` becomes a topic of two partitions that no other case has."""
    to: dict[str, str | None] = {"topic": "out"}
    header = "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers"
    pair = "struct<key:string,value:binary>"
    nameless = "array(struct(cast(null as string) as key, cast('x' as binary) as value)) as headers"
    beyond: dict[str, str | None] = {
        **to,
        "kafka.max.block.ms": "2000",
        "kafka.request.timeout.ms": "1000",
        "kafka.delivery.timeout.ms": "3000",
    }
    batches = (
        Case("write", "to the option's topic", to),
        Case("write", "to the column's topic", {}, (*ROWS, "'out' as topic")),
        Case("write", "the option beats the column", to, (*ROWS, "'elsewhere' as topic")),
        Case("write", "no topic", {}, says="topic"),
        Case("write", "a row without topic", {}, (*ROWS, "cast(null as string) as topic"),
             says="topic"),
        Case("write", "no value", to, ROWS[:1], says="value"),
        Case("write", "a value that is a number", to, ("id as value",), says="value"),
        Case("write", "a key that is a number", to, ("id as key", ROWS[1]), says="key"),
        Case("write", "a value that is null", to, (ROWS[0], "cast(null as string) as value")),
        Case("write", "partitions", to, (*ROWS, "cast(id % 2 as int) as partition")),
        Case("write", "a partition that is a long", to, (*ROWS, "id as partition"),
             says="partition"),
        Case("write", "a missing partition", beyond, (*ROWS, "7 as partition"),
             says="partition|UNKNOWN_TOPIC"),
        Case("write", "more columns", to, (*ROWS, "id as more")),
        Case("write", "headers", {**to, "includeHeaders": "true"}, (*ROWS, header)),
        Case("write", "headers that are not asked for", to, (*ROWS, header)),
        Case("write", "a header without a name", {**to, "includeHeaders": "true"},
             (*ROWS, nameless), says="a header without a name"),
        Case("write", "a header that is null", {**to, "includeHeaders": "true"},
             (*ROWS, f"array(cast(null as {pair})) as headers"), says="a header without a name"),
        Case("write", "a partition below 0", to, (*ROWS, "-1 as partition"), says="partition"),
        Case("write", "a topic without a name", {"topic": ""}),
        Case("write", "kafka.lingr.ms", {**to, "kafka.lingr.ms": "5"}, differs=TYPO),
        Case("write", "kafka.linger.ms that is none", {**to, "kafka.linger.ms": "x"}),
        Case("write", "headers that are text", {**to, "includeHeaders": "true"},
             (*ROWS, "'h' as headers"), says="headers"),
        Case("write", "kafka.key.serializer", {**to, "kafka.key.serializer": "x"}),
        Case("write", "kafka.value.serializer", {**to, "kafka.value.serializer": "x"}),
        Case("write", "kafka.acks", {**to, "kafka.acks": "1", "kafka.enable.idempotence": "false"}),
        Case("write", "kafka.compression.type", {**to, "kafka.compression.type": "zstd"}),
        Case("write", "a typo", {**to, "topics": "x"}, differs=TYPO),
        Case("write", "overwrite", to, mode="overwrite", says="only added to"),
        Case("write", "ignore", to, mode="ignore", says="SAVE_MODE"),
        Case("write", "no save mode", to, mode="errorifexists", says="SAVE_MODE",
             differs="Spark refuses every mode but append and overwrite for Python sinks"),
    )  # fmt: skip
    streams = (
        Case("writeStream", "append", to),
        Case("writeStream", "append to a column's topic", {}, (*ROWS, "'out' as topic")),
        Case("writeStream", "headers", {**to, "includeHeaders": "true"}, (*ROWS, header)),
        Case("writeStream", "no topic", {}, says="topic"),
        Case("writeStream", "update", to, mode="update", says="[Uu]pdate",
             differs="Spark refuses the output mode for Python sinks: foreach_batch is for it"),
    )  # fmt: skip
    return [*batches, *streams]


CASES: tuple[Case, ...] = (*_read(), *_read_stream(), *_write())
