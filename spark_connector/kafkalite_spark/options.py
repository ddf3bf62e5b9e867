"""Options, parsed once: from Spark's texts to what the connector works with.

Unknown names are errors that name the nearest; values are checked before anything starts. All here
is pure: the same options give the same answer on the driver and on an executor.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import offsets as offset
from .errors import OptionError
from .kafka_keys import is_key
from .offsets import EARLIEST, LATEST, Offsets, Partition
from .option_table import FORBIDDEN_KAFKA, OPTIONS, Option

__all__ = ["At", "ReadOptions", "WriteOptions", "parse_read", "parse_write"]

#: Names that Spark itself adds or understands.
SPARKS_OWN = {"queryname", "outputmode", "truncate"}

#: Offsets and times have eight bytes.
MOST = (1 << 63) - 1
#: A column of Arrow's counts its bytes with four.
MOST_BYTES = (1 << 31) - 1

FALL_BACK = 'Spark\'s own format("kafka") with its jar works against the same broker'

#: What places and times look like, for who gave something else.
PLACES = '{"orders": {"0": 23}}'
TIMES = '{"orders": {"0": 1700000000000}}'
TIME = "Give milliseconds since 1970"

_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_DURATION_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_BYTES = re.compile(r"(\d+)\s*([kmg]?)b?")


@dataclass(frozen=True)
class At:
    """Where reading begins or ends.

    Either one place for all (`everywhere`: -2 earliest, -1 latest) or a time for all (`timestamp`,
    ms). Or an offset for each (`offsets`), or a time for each (`timestamps`, ms).
    """

    everywhere: int | None = None
    timestamp: int | None = None
    offsets: Offsets | None = None
    timestamps: Offsets | None = None
    #: The option it came from.
    option: str = ""


@dataclass(frozen=True)
class ReadOptions:
    """What a query reads, and how."""

    kafka: dict[str, str]
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[Partition, ...]
    start: At
    end: At
    no_later_record_is_latest: bool
    fail_on_data_loss: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_s: float
    min_partitions: int | None
    max_records_per_partition: int | None
    stall_timeout_s: float
    rows_per_task: int
    parallelism: int | None
    batch_bytes: int
    fetch_buffer_bytes: int
    commit_to_group: str | None
    checkpoint: str | None


@dataclass(frozen=True)
class WriteOptions:
    """Where a query writes, and how."""

    kafka: dict[str, str]
    topic: str | None


class _Given:
    """The options a user gave, looked up in the table."""

    def __init__(self, options: Mapping[str, str], where: str) -> None:
        self.kafka: dict[str, str] = {}
        self._values: dict[str, str] = {}
        table = {option.name.lower(): option for option in OPTIONS}
        for key, value in options.items():
            name = key.lower()
            if name.startswith("kafka."):
                self.kafka[_kafka_key(name)] = value
            elif name in table:
                self._take(table[name], value, where)
            elif name not in SPARKS_OWN:
                raise _unknown(key, where)
        if "bootstrap.servers" not in self.kafka:
            raise OptionError("kafka.bootstrap.servers", "is missing", 'Give "host:port"')

    def _take(self, option: Option, value: str, where: str) -> None:
        if where not in option.where:
            places = ", ".join(sorted(option.where))
            raise OptionError(option.name, f"does not apply to {where}, only to {places}")
        if option.refused and (option.kind != "bool" or _flag(option, value)):
            raise OptionError(option.name, option.refused)
        self._values[option.name] = value

    def text(self, name: str) -> str | None:
        """Return what was given, or the default."""
        return self._values.get(name, _DEFAULTS[name])

    def given(self, *names: str) -> list[str]:
        """Return those of ``names`` that were given."""
        return [name for name in names if name in self._values]

    def flag(self, name: str) -> bool:
        """Return a truth."""
        return _flag(_ROWS[name], self.text(name) or "false")

    def number(self, name: str, least: int = 0, hint: str = "") -> int | None:
        """Return a number, at least ``least``."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d+", text.strip()):
            raise OptionError(name, f"`{text}` is no whole number", hint)
        if int(text) < least:
            raise OptionError(name, f"{text} is less than {least}")
        if int(text) > MOST:
            raise OptionError(name, f"{text} is more than {MOST}")
        return int(text)

    def json(self, name: str, hint: str) -> Any:
        """Return a JSON object; ``hint`` says what it would be."""
        try:
            return offset.value_of(self.text(name) or "")
        except ValueError as error:
            raise OptionError(name, str(error), hint) from error

    def offsets(self, name: str, hint: str) -> Offsets:
        """Return a number for each partition."""
        told = self.json(name, hint)
        try:
            return offset.from_json(told)
        except ValueError as error:
            raise OptionError(name, str(error), hint) from error

    def size(self, name: str) -> int:
        """Return bytes: ``1048576``, ``512k``, ``1m``."""
        text = self.text(name) or ""
        found = _BYTES.fullmatch(text.strip().lower())
        if not found or int(found[1]) == 0:
            raise OptionError(name, f"`{text}` is no number of bytes", "Write 1048576 or 1m")
        size = int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]
        if size > MOST_BYTES:
            raise OptionError(name, f"`{text}` is more than {MOST_BYTES} bytes")
        return size

    def seconds(self, name: str) -> float:
        """Return a duration: ``15m``, ``500ms``."""
        text = self.text(name) or ""
        found = _DURATION.fullmatch(text.strip().lower())
        if not found:
            raise OptionError(name, f"`{text}` is no duration", "Write 15m, 30s or 500ms")
        unit = found[2] or "ms"
        return int(found[1]) * (86_400_000 if unit == "d" else _DURATION_MS[unit]) / 1_000


_ROWS = {option.name: option for option in OPTIONS}
_DEFAULTS = {option.name: option.default for option in OPTIONS}


def _flag(option: Option, value: str) -> bool:
    if value.strip().lower() not in {"true", "false"}:
        raise OptionError(option.name, f"`{value}` is neither true nor false")
    return value.strip().lower() == "true"


def _kafka_key(name: str) -> str:
    # Clients take underscores for dots.
    key = name.removeprefix("kafka.").replace("_", ".")
    if why := FORBIDDEN_KAFKA.get(key):
        raise OptionError(name, f"is not yours to set: {why}")
    return key


def _unknown(key: str, where: str) -> OptionError:
    names = {option.name.lower(): option.name for option in OPTIONS if where in option.where}
    # Kafka's own keys without their prefix are the most usual slip of all.
    if is_key(key.lower()):
        return OptionError(key, "there is none", f"Did you mean kafka.{key.lower()}?")
    if key.lower() == "path":
        # `load("orders")`, `save("orders")`.
        right = "subscribe" if where.startswith("read") else "topic"
        return OptionError(key, "records are in topics", f"Give the option {right}")
    nearest = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
    hint = f"Did you mean {names[nearest[0]]}?" if nearest else ""
    return OptionError(key, "there is none", hint)


def parse_read(options: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Read the options of a source.

    Raises:
        OptionError: A name or a value that cannot be, or options that exclude each other.
    """
    given = _Given(options, "readStream" if stream else "read")
    topics, pattern, assigned = _what(given)
    limits = [given.number(name, 1) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")]
    if None not in limits and limits[0] < limits[1]:  # type: ignore[operator]
        raise OptionError("minOffsetsPerTrigger", "is more than maxOffsetsPerTrigger")
    for without_effect in ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"):
        given.number(without_effect)
    # The schema was asked for before: here it is known whether that was a truth.
    given.flag("includeHeaders")
    strategy = given.text("startingOffsetsByTimestampStrategy")
    if strategy not in {"error", "latest"}:
        name = "startingOffsetsByTimestampStrategy"
        raise OptionError(name, f"`{strategy}` is neither error nor latest")
    group = None
    if given.flag("commitOffsetsToGroup") and (group := given.kafka.get("group.id")) is None:
        raise OptionError("commitOffsetsToGroup", "needs kafka.group.id")
    return ReadOptions(
        kafka=given.kafka,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=_start(given, stream),
        end=_end(given, stream),
        no_later_record_is_latest=strategy == "latest",
        fail_on_data_loss=given.flag("failOnDataLoss"),
        max_offsets=limits[0],
        min_offsets=limits[1],
        max_delay_s=given.seconds("maxTriggerDelay"),
        min_partitions=given.number("minPartitions", 1),
        max_records_per_partition=given.number("maxRecordsPerPartition", 1),
        stall_timeout_s=(given.number("kafkaConsumer.pollTimeoutMs", 1) or 0) / 1_000,
        rows_per_task=given.number("rowsPerTask", 1) or 1,
        parallelism=given.number("parallelism", 1),
        batch_bytes=given.size("batchBytes"),
        fetch_buffer_bytes=given.size("fetchBufferBytes"),
        commit_to_group=group,
        checkpoint=given.text("checkpointLocation"),
    )


def _what(given: _Given) -> tuple[tuple[str, ...], str | None, tuple[Partition, ...]]:
    ways = given.given("assign", "subscribe", "subscribePattern")
    if len(ways) != 1:
        why = "exactly one of assign, subscribe and subscribePattern says what to read"
        raise OptionError(" and ".join(ways) or "subscribe", why)
    text = (given.text(ways[0]) or "").strip()
    if not text:
        raise OptionError(ways[0], "is empty")
    if ways[0] == "subscribe":
        topics = sorted({name.strip() for name in text.split(",") if name.strip()})
        if not topics:
            raise OptionError("subscribe", f"`{text}` names no topic")
        return tuple(topics), None, ()
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError("subscribePattern", f"is no regular expression: {error}") from error
        return (), text, ()
    partitions: set[Partition] = set()
    hint = 'Write {"orders": [0, 1]}'
    for topic, numbers in given.json("assign", hint).items():
        right = isinstance(numbers, list) and all(
            isinstance(number, int) and number >= 0 for number in numbers
        )
        if not right:
            raise OptionError(
                "assign", f"topic {topic!r} needs a list of partitions' numbers", hint
            )
        partitions |= {(topic, number) for number in numbers}
    if not partitions:
        raise OptionError("assign", "names no partition")
    return tuple(sorted({topic for topic, _ in partitions})), None, tuple(sorted(partitions))


def _start(given: _Given, stream: bool) -> At:
    if given.given("startingTimestamp"):
        time = given.number("startingTimestamp", hint=TIME)
        return At(timestamp=time, option="startingTimestamp")
    if given.given("startingOffsetsByTimestamp"):
        return _times(given, "startingOffsetsByTimestamp")
    text = (given.text("startingOffsets") or ("latest" if stream else "earliest")).strip()
    if text.lower() == "earliest":
        return At(everywhere=EARLIEST, option="startingOffsets")
    if text.lower() == "latest":
        if not stream:
            raise OptionError("startingOffsets", "a batch that begins at latest reads nothing")
        return At(everywhere=LATEST, option="startingOffsets")
    offsets = given.offsets("startingOffsets", f"Give earliest, latest or {PLACES}")
    if not stream and LATEST in offsets.values():
        raise OptionError("startingOffsets", "-1, the latest, is not for the start of a batch")
    return At(offsets=_checked("startingOffsets", offsets, EARLIEST), option="startingOffsets")


def _end(given: _Given, stream: bool) -> At:
    if stream:
        return At(everywhere=LATEST)
    if given.given("endingTimestamp"):
        return At(timestamp=given.number("endingTimestamp", hint=TIME), option="endingTimestamp")
    if given.given("endingOffsetsByTimestamp"):
        return _times(given, "endingOffsetsByTimestamp")
    text = (given.text("endingOffsets") or "latest").strip()
    if text.lower() == "latest":
        return At(everywhere=LATEST, option="endingOffsets")
    if text.lower() == "earliest":
        raise OptionError("endingOffsets", "a batch that ends at earliest reads nothing")
    offsets = given.offsets("endingOffsets", f"Give latest or {PLACES}")
    return At(offsets=_checked("endingOffsets", offsets, LATEST), option="endingOffsets")


def _times(given: _Given, name: str) -> At:
    return At(
        timestamps=_checked(name, given.offsets(name, f"{TIME}: {TIMES}"), 0, "time"), option=name
    )


def _checked(name: str, offsets: Offsets, least: int, what: str = "offset") -> Offsets:
    for (topic, partition), at in offsets.items():
        if not least <= at <= MOST:
            raise OptionError(name, f"{at} of {topic}-{partition} is no {what} here")
    return offsets


def parse_write(options: Mapping[str, str], *, stream: bool) -> WriteOptions:
    """Read the options of a sink.

    Raises:
        OptionError: A name or a value that cannot be.
    """
    given = _Given(options, "writeStream" if stream else "write")
    topic = given.text("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", "is empty")
    return WriteOptions(given.kafka, topic)
