"""The ceiling: a source that repeats one prebuilt batch, a sink that counts, a stream of few rows.

They do nothing but what Spark makes every Python data source do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)


def batch(rows: int, value_bytes: int) -> Any:
    """Return one batch of the columns of Kafka's source; keys have 8 bytes."""
    import pyarrow as pa

    return pa.record_batch(
        [
            pa.array([b"12345678"] * rows, pa.binary()),
            pa.array([b"x" * value_bytes] * rows, pa.binary()),
            pa.array(["benchmark"] * rows, pa.string()),
            pa.array([0] * rows, pa.int32()),
            pa.array(range(rows), pa.int64()),
            pa.array([1_700_000_000_000_000] * rows, pa.timestamp("us", tz="UTC")),
            pa.array([0] * rows, pa.int32()),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
    )


def repeated(rows: int, batch_rows: int, value_bytes: int) -> Iterator[Any]:
    """Yield ``rows`` rows."""
    whole = batch(min(rows, batch_rows), value_bytes)
    while rows > 0:
        yield whole.slice(0, min(rows, batch_rows))
        rows -= batch_rows


class Reader(DataSourceReader):
    """Two tasks that each repeat a batch."""

    def __init__(self, options: dict[str, str]) -> None:
        """Hold plain data."""
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return as many as were asked for."""
        return [InputPartition(n) for n in range(int(self.options.get("tasks", "2")))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield this task's share."""
        if partition is not None:
            tasks = int(self.options.get("tasks", "2"))
            rows = int(self.options["rows"]) // tasks
            width, value = int(self.options["batchrows"]), int(self.options["valuebytes"])
            yield from repeated(rows, width, value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A micro-batch of as many rows whenever Spark asks, ``idle``, or a file ``counted`` grows.

    With ``ends`` there are so many micro-batches.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Hold plain data."""
        self.options = options

    def _count(self) -> int | None:
        path = self.options.get("counted")
        return int(Path(path).read_text()) if path else None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the beginning."""
        return {"at": self._count() or 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: ``ends`` says where it ends."""

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        """Return the next one, or the same where nothing is to happen."""
        if self.options.get("idle") == "true":
            return start
        if (count := self._count()) is not None:
            return {"at": count}
        return {"at": min(start["at"] + 1, int(self.options.get("ends", sys.maxsize)))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return two tasks."""
        return [InputPartition(n) for n in range(int(self.options.get("tasks", "2")))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield a few rows."""
        tasks = int(self.options.get("tasks", "2"))
        yield from repeated(int(self.options["rows"]) // tasks, 10_000, 100)


class Counted(WriterCommitMessage):
    """What a task counted."""


class Writer(DataSourceArrowWriter):
    """Takes rows and drops them."""

    def write(self, iterator: Iterator[Any]) -> Counted:
        """Count."""
        sum(batch.num_rows for batch in iterator)
        return Counted()


class Toy(DataSource):
    """``format("toy")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name."""
        return "toy"

    def schema(self) -> str:
        """Return Kafka's columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> Reader:
        """Return the reader."""
        return Reader(dict(self.options.items()))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return StreamReader(dict(self.options.items()))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        """Return the writer."""
        return Writer()
