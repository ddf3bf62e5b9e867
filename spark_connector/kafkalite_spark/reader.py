"""Batches: everything between two places of the log, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from . import plan
from .cluster import Cluster
from .errors import ReadError
from .options import ReadOptions
from .tasks import in_tasks, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaliteReader"]


class KafkaliteReader(DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        """Hold plain data: it is pickled."""
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each task reads."""
        options = self._options
        cluster = Cluster(options)
        try:
            partitions = cluster.partitions()
            start = cluster.resolved(options.start, partitions).offsets
            end = cluster.resolved(options.end, partitions).offsets
        finally:
            cluster.close()
        for (topic, partition), at in sorted(start.items()):
            if at > end[topic, partition]:
                raise ReadError(
                    f"{topic}-{partition} would be read from {at} to {end[topic, partition]}: "
                    f"compare {options.start.option} with {options.end.option}. Was the topic "
                    "made anew, or its records deleted?"
                )
        planned = plan.tasks(
            plan.ranges_between(start, end),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
            rows_per_task=options.rows_per_task,
        )
        return in_tasks(planned)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        return read_ranges(partition, self._options, self._columns)
