"""What a task does: reads its ranges with a reader that its worker process keeps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from .clients import Clients
from .errors import ReadError
from .kafka_keys import told
from .options import ReadOptions
from .plan import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalite.ranges import RangeReader

__all__ = ["TaskRanges", "client_config", "in_tasks", "read_ranges"]

log = logging.getLogger(__name__)

#: Connections that nobody used for so long are closed.
IDLE_MS = "60000"
#: A batch is emitted at so many records, whatever its bytes: Spark is slower with more.
BATCH_ROWS = 16_384


@dataclass
class TaskRanges(InputPartition):
    """The ranges of one task."""

    ranges: tuple[Range, ...]

    def __init__(self, ranges: list[Range]) -> None:
        """Hold plain data: it is pickled."""
        super().__init__(None)
        self.ranges = tuple(ranges)


def in_tasks(planned: list[list[Range]]) -> list[InputPartition]:
    """Return what Spark asks for: a list, one for each task."""
    return [TaskRanges(ranges) for ranges in planned]


def client_config(options: ReadOptions) -> dict[str, str]:
    """Return what a task's reader is made of."""
    needless = {"group.id", "group.instance.id"}
    config = {key: value for key, value in options.kafka.items() if key not in needless}
    config["kafkalite.fetch.buffer.max.bytes"] = str(options.fetch_buffer_bytes)
    config.setdefault("connections.max.idle.ms", IDLE_MS)
    # A range is read to its end at once: larger answers are fewer requests.
    config.setdefault("max.partition.fetch.bytes", str(4 << 20))
    return config


def _reader(config: dict[str, str]) -> RangeReader:
    from kafkalite.ranges import RangeReader

    return RangeReader(config=config)


_readers = Clients(_reader)


def read_ranges(
    partition: InputPartition | None, options: ReadOptions, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task, in Arrow's columns.

    Raises:
        ReadError: Offsets are gone and must not be, or nothing comes.
    """
    if not isinstance(partition, TaskRanges):
        # Spark makes one task of no tasks.
        return
    import pyarrow as pa

    from kafkalite.errors import KafkaliteError

    try:
        with _readers.lent(client_config(options)) as reader:
            batches = reader.read(
                [(one.topic, one.partition, one.start, one.end) for one in partition.ranges],
                columns=columns,
                batch_bytes=options.batch_bytes,
                batch_rows=BATCH_ROWS,
                may_lose=not options.fail_on_data_loss,
                stall_timeout=options.stall_timeout_s,
            )
            for batch in batches:
                yield pa.record_batch(batch)
            if reader.lost:
                log.warning("kafkalite: %d offsets were gone and passed over", reader.lost)
    except KafkaliteError as error:
        raise ReadError(f"{told(error)}{_advice(error)}") from error


def _advice(error: Exception) -> str:
    if "OFFSET_OUT_OF_RANGE" in str(error):
        return (
            ". Records were deleted before they were read, or the topic was made anew. With "
            "failOnDataLoss=false what is gone is passed over with a warning"
        )
    return ""
