"""Offset ranges of partitions as Arrow columns: for engines that plan what to read themselves.

A consumer follows a log; a range reader reads `[start, end)` of it, once, and ends. No group, no
commits, no Python object for a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Unpack

from ._native import ColumnBatch
from ._native import RangeReader as _NativeReader
from .config import ConfigValue, ConsumerOptions, merged, warn

if TYPE_CHECKING:
    from typing import Self

__all__ = ["COLUMNS", "ColumnBatch", "OffsetRange", "RangeReader"]

#: Every column there is, with the names and Arrow types of Spark's Kafka source:
#: key and value binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC],
#: timestampType int32 (0 set by the producer, 1 by the broker), headers
#: list<struct<key: string, value: binary>>.
COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)


class OffsetRange(NamedTuple):
    """Records of one partition, by their offsets."""

    topic: str
    partition: int
    #: The first offset that is wanted.
    start: int
    #: The first one that is not.
    end: int


class RangeReader:
    """Reads offset ranges into Arrow columns; works with any Kafka without TLS.

    One thread fetches ahead, ``kafkalite_fetch_buffer_max_bytes`` at most; the caller's thread
    decodes, without the GIL. One call of ``read`` at a time; the next one keeps the connections,
    and the iterator of the one before raises from then on.

    Args:
        config: A consumer's keys with dots. Keys about groups and resets change nothing.
        options: The same keys as keywords; they win over ``config``.

    Raises:
        ConfigError: A key or value that cannot be.
    Source:
        Kafka protocol, Fetch (key 1) and ListOffsets (key 2).
    """

    def __init__(
        self,
        *,
        config: Mapping[str, ConfigValue | None] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Make a reader; it connects when it first reads."""
        self._native = _NativeReader(merged(config, options))
        warn(self._native.warnings)

    def read(
        self,
        ranges: Iterable[OffsetRange | tuple[str, int, int, int]],
        *,
        columns: Sequence[str] = COLUMNS[:-1],
        batch_bytes: int = 1 << 20,
        batch_rows: int = 16_384,
        may_lose: bool = False,
        stall_timeout: float = 120.0,
        topic_ids: Mapping[str, str] | None = None,
    ) -> Iterator[ColumnBatch]:
        """Yield the records of ``ranges``; those of one partition in the order of their offsets.

        An end need not exist: a range ends even if its last records were compacted away.
        Dropping the iterator stops the reading.

        Args:
            ranges: One for each partition at most.
            columns: Which of ``COLUMNS``, in this order.
            batch_bytes: Bytes of keys, values and headers in a batch, give or take a record.
            batch_rows: Records in a batch at most.
            may_lose: Skip offsets and partitions that are gone, and count them in ``lost``.
                Otherwise they are an error.
            stall_timeout: Seconds in which no fetch brings anything, or no broker is reached: then
                it is an error. Markers and aborted records are something.
            topic_ids: The ids of the topics that the offsets are of, as far as they are known. A
                topic that was deleted and made again since is gone, whatever its new log has.

        Yields:
            Batches with ``__arrow_c_array__`` and ``__arrow_c_stream__``, each to be taken once.

        Raises:
            KafkaliteError: ``OFFSET_OUT_OF_RANGE`` for offsets that are gone, ``UNKNOWN_TOPIC_ID``
                for a topic that is, ``REQUEST_TIMED_OUT`` after ``stall_timeout``, or what keeps it
                from reading.
            IllegalStateError: A later ``read`` replaced these ranges.
            InvalidArgumentError: A partition has two ranges, or a range begins before 0.
            ValueError: A column that does not exist, or an id that is none.
        """
        wanted = list(ranges)
        limits = (batch_bytes, batch_rows)
        start = self._native.start(
            wanted, list(columns), *limits, may_lose, stall_timeout, dict(topic_ids or {})
        )
        return self._batches(start)

    def _batches(self, start: int) -> Iterator[ColumnBatch]:
        try:
            while (batch := self._native.next_batch(start)) is not None:
                yield batch
        finally:
            # A caller that leaves early drops these ranges.
            self._native.stop(start)

    @property
    def lost(self) -> int:
        """Offsets that the last ``read`` wanted and that were gone."""
        return self._native.lost

    def close(self, timeout: float = 5.0) -> None:
        """End its thread and connections, within ``timeout`` seconds."""
        self._native.close(timeout)

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader."""
        self.close()
