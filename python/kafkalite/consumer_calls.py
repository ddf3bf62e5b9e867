"""What ``Consumer`` and ``AsyncConsumer`` have in common: arguments in, rows of the binary out."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

from ._native import Consumer as NativeConsumer
from ._native import Record, RecordBatch
from .arguments import checked_count, checked_ms, checked_seconds
from .config import ConfigValue, merged, warn
from .descriptions import CommittedOffset, ListedOffset
from .errors import InvalidArgumentError, KafkaliteError
from .records import Place, TopicPartition

T = TypeVar("T")

#: A topic by name, or topics by one pattern that whole names match.
OneSelection = str | re.Pattern[str]
#: What can be subscribed to: the same, one by one or as a list.
TopicSelection = OneSelection | Sequence[OneSelection] | Set[OneSelection]
#: What makes a key or a value out of bytes; null stays ``None``.
Deserializer = Callable[[bytes], Any]
#: What can be committed: what was handed out, records, batches, or offsets by partition.
Committable = Record[Any, Any] | RecordBatch | Mapping[Place, int | CommittedOffset] | None

BEGINNING, END = -2, -1
#: Records of one ``RecordBatch`` by default.
BATCH_RECORDS = 65_536
#: Bytes of one ``RecordBatch`` by default.
BATCH_BYTES = 16 << 20


def native_consumer(
    group_id: str | None,
    config: Mapping[str, ConfigValue | None] | None,
    keywords: Mapping[str, object],
    deserializers: tuple[Deserializer | None, Deserializer | None],
) -> NativeConsumer:
    """Make the binary's consumer."""
    native = NativeConsumer(merged(config, {**keywords, "group_id": group_id}), *deserializers)
    warn(native.warnings, stacklevel=4)
    return native


def selection_of(topics: tuple[TopicSelection, ...]) -> tuple[set[str], str | None]:
    """Return names, or one pattern, as the binary takes them.

    Raises:
        InvalidArgumentError: Neither names nor one pattern.
    """
    names: set[str] = set()
    patterns: list[str] = []
    for topic in _flat(topics):
        if isinstance(topic, re.Pattern) and isinstance(topic.pattern, str):
            patterns.append(_with_flags(topic))
        elif not isinstance(topic, str):
            raise InvalidArgumentError(
                f"INVALID_REQUEST: topics: {topic!r} is not a name or a pattern",
                hint='give names, as in ("orders", "returns"), and a configuration as config=.',
            )
        elif topic.startswith("^"):
            # No topic is called so: librdkafka's clients write patterns like this.
            patterns.append(topic)
        else:
            names.add(topic)
    if len(patterns) + bool(names) != 1:
        raise InvalidArgumentError("INVALID_REQUEST: topics: give names, or one pattern")
    return names, patterns[0] if patterns else None


def _flat(topics: tuple[TopicSelection, ...]) -> Iterator[object]:
    for topic in topics:
        if isinstance(topic, list | tuple | set | frozenset):
            yield from topic
        else:
            yield topic


def _with_flags(pattern: re.Pattern[str]) -> str:
    """Return a compiled pattern as a text, with those of its flags that change what matches."""
    flags = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
    letters = "".join(letter for flag, letter in flags.items() if pattern.flags & flag)
    # The line's end ends a comment of a verbose pattern.
    end = "\n" if pattern.flags & re.VERBOSE else ""
    return f"(?{letters}:{pattern.pattern}{end})" if letters else pattern.pattern


def seconds_left(deadline: float | None) -> float | None:
    """How long a wait may take that ends at ``deadline`` of the monotonic clock."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def deadline_after(timeout: float | None) -> float | None:
    """When a wait of ``timeout`` seconds ends; ``None`` is never."""
    timeout = checked_seconds(timeout)
    return None if timeout is None else time.monotonic() + timeout


def partitions_of(rows: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """Partitions as the binary tells them."""
    return [TopicPartition(*row) for row in rows]


def pairs_of(partitions: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Partitions as the binary takes them.

    Raises:
        InvalidArgumentError: What is no list of pairs of a topic and a number from 0.
    """
    try:
        rows = [(topic, number) for topic, number in partitions]
    except (TypeError, ValueError):
        rows = [("", -1)]
    if all(isinstance(topic, str) and isinstance(at, int) and at >= 0 for topic, at in rows):
        return rows
    raise InvalidArgumentError(
        f"INVALID_REQUEST: partitions: {partitions!r} is not a list of topics and numbers from 0",
        hint='give pairs, as in [("orders", 0), ("orders", 1)].',
    )


def places_of(partitions: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    """Return partitions that are given one by one, as the binary takes them.

    Raises:
        InvalidArgumentError: One is no pair of a topic and a number from 0.
    """
    try:
        return pairs_of(partitions)
    except InvalidArgumentError as error:
        one = partitions[0] if len(partitions) == 1 else partitions
        raise InvalidArgumentError(
            f"INVALID_REQUEST: partition: {one!r} is not a pair of a topic and a number from 0",
            hint='give pairs one by one, as in ("orders", 0), ("orders", 1).',
        ) from error


def checked_by_partition(what: str, given: Mapping[Any, T]) -> Mapping[Any, T]:
    """Return something by partition as it is.

    Raises:
        InvalidArgumentError: It is no mapping whose keys are partitions.
    """
    if isinstance(given, Mapping):
        pairs_of(given)
        return given
    raise InvalidArgumentError(
        f"INVALID_REQUEST: {what}: {given!r} is not a mapping by partition",
        hint='give a dictionary, as in {("orders", 0): 5}.',
    )


def rows_of_times(times: Mapping[Any, int]) -> list[tuple[str, int, int]]:
    """Return times in ms by partition as the binary takes them; none is before 1970.

    Raises:
        InvalidArgumentError: No mapping by partition.
        TypeError: A time that is no whole number.
    """
    by_partition = checked_by_partition("times", times).items()
    return [(topic, at, max(checked_ms("a time", ms), 0)) for (topic, at), ms in by_partition]


#: Topic, number, offset, leader epoch, metadata, and the tenure in which the record before it was
#: read: how long the consumer has held the partition. 0 if unknown.
CommitRow = tuple[str, int, int, int, str, int]


def commit_rows(offsets: Committable[Place]) -> list[CommitRow] | None:
    """What is to be committed, as the binary takes it; ``None`` is all that was handed out.

    Raises:
        InvalidArgumentError: An offset that is negative, or nothing that can be committed.
    """
    if offsets is None:
        return None
    if isinstance(offsets, Record):
        return [offsets._claim]
    if isinstance(offsets, RecordBatch):
        return offsets._claims
    rows = []
    for (topic, partition), offset in checked_by_partition("offsets", offsets).items():
        place, epoch = place_of(offset)
        if place < 0:
            raise InvalidArgumentError(
                f"INVALID_REQUEST: offsets: {place} of {topic}-{partition} is negative"
            )
        metadata = "" if isinstance(offset, int) else offset.metadata
        rows.append((topic, partition, place, epoch, metadata, 0))
    return rows


def place_of(offset: int | CommittedOffset) -> tuple[int, int]:
    """Return offset and leader epoch, -1 for one that is not known.

    Raises:
        InvalidArgumentError: What is no offset.
    """
    if isinstance(offset, int):
        return offset, -1
    if not isinstance(offset, CommittedOffset):
        raise InvalidArgumentError(f"INVALID_REQUEST: offset: {offset!r} is not a number")
    return offset.offset, -1 if offset.leader_epoch is None else offset.leader_epoch


def known(number: int) -> int | None:
    """Return what stands on the wire as -1 as ``None``."""
    return number if number >= 0 else None


def committed_of(rows: Iterable[Any]) -> dict[TopicPartition, CommittedOffset]:
    """Committed offsets as the binary tells them."""
    return {
        TopicPartition(topic, partition): CommittedOffset(offset, known(epoch), metadata)
        for topic, partition, offset, epoch, metadata in rows
    }


def found_of(
    partitions: Iterable[tuple[str, int]], rows: Iterable[Any]
) -> dict[TopicPartition, ListedOffset | None]:
    """Offsets of times as the binary tells them; ``None`` where there is none."""
    found: dict[TopicPartition, ListedOffset | None]
    found = dict.fromkeys(partitions_of(partitions))
    for topic, partition, offset, timestamp_ms, epoch in rows:
        told = ListedOffset(offset, known(timestamp_ms), known(epoch))
        found[TopicPartition(topic, partition)] = told
    return found


def ends_of(rows: Iterable[Any]) -> dict[TopicPartition, int]:
    """Offsets of ends as the binary tells them."""
    return {TopicPartition(topic, partition): offset for topic, partition, offset, *_ in rows}


def warn_of_commit(error: KafkaliteError) -> None:
    """Say that the last commit of revoked partitions failed: their next owner reads them again."""
    logging.getLogger("kafkalite.consumer").warning("commit before a rebalance: %s", error)


def checked_limits(max_records: int, max_bytes: int) -> None:
    """Refuse limits under which nothing could be handed out.

    Raises:
        InvalidArgumentError: A limit below 1, or more bytes than an Arrow column can count.
    """
    checked_count("max_records", max_records)
    checked_count("max_bytes", max_bytes)
    if max_records < 1:
        raise InvalidArgumentError(f"INVALID_REQUEST: max_records: {max_records} is below 1")
    if not 1 <= max_bytes < 1 << 31:
        raise InvalidArgumentError(f"INVALID_REQUEST: max_bytes: {max_bytes} is not in 1..2^31-1")
