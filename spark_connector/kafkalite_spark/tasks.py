"""What a task does: reads its ranges with a reader that its worker process keeps."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from . import plan
from .clients import Clients
from .cluster import Cluster
from .errors import ReadError
from .kafka_keys import told
from .options import ReadOptions
from .plan import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalite.ranges import RangeReader

__all__ = ["TaskRanges", "client_config", "in_tasks", "read_ranges"]

log = logging.getLogger(__name__)

#: Idle time after which connections are closed.
IDLE_MS = "60000"
#: A batch is emitted at so many records, whatever its bytes: Spark is slower with more.
BATCH_ROWS = 16_384


@dataclass
class TaskRanges(InputPartition):
    """The ranges of one task."""

    ranges: tuple[Range, ...]
    #: The ids of their topics, as far as they are known: nothing is read of a topic made since.
    topic_ids: dict[str, str]

    def __init__(self, ranges: list[Range], topic_ids: Mapping[str, str]) -> None:
        """Hold plain data: it is pickled."""
        super().__init__(None)
        self.ranges = tuple(ranges)
        read = {one.topic for one in ranges}
        self.topic_ids = {topic: one for topic, one in topic_ids.items() if topic in read}


def in_tasks(
    ranges: list[Range],
    options: ReadOptions,
    cluster: Cluster,
    topic_ids: Mapping[str, str | None] | None = None,
) -> list[InputPartition]:
    """Share ranges out to tasks; return what Spark asks for, one for each task.

    Spark's planning process does not know how many tasks its cluster runs at once.
    """
    parallelism = options.parallelism or _cores()
    packs = len(ranges) > parallelism
    planned = plan.tasks(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        rows_per_task=options.rows_per_task,
        record_bytes=cluster.record_bytes({one.topic for one in ranges}) if packs else None,
        parallelism=parallelism,
    )
    known = {topic: one for topic, one in (topic_ids or {}).items() if one is not None}
    return [TaskRanges(one, known) for one in planned]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
                topic_ids=partition.topic_ids,
            )
            for batch in batches:
                yield pa.record_batch(batch)
            if reader.lost:
                log.warning("kafkalite: %d offsets were gone and passed over", reader.lost)
    except KafkaliteError as error:
        raise ReadError(f"{told(error)}{_advice(error)}") from error


def _advice(error: Exception) -> str:
    if "CORRUPT_MESSAGE" in str(error):
        return ". End before it with endingOffsets, and begin behind it with startingOffsets"
    if "OFFSET_OUT_OF_RANGE" in str(error) or "UNKNOWN_TOPIC_ID" in str(error):
        return (
            ". Records were deleted before they were read, or the topic was created again. With "
            "failOnDataLoss=false what is gone is passed over with a warning"
        )
    return ""
