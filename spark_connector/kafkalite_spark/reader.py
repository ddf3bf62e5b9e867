"""Batches: everything between two places of the log, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from . import plan
from .cluster import Cluster
from .errors import ReadError
from .offsets import Offsets
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
            topics = {topic for topic, _ in partitions}
            ids = cluster.topic_ids(topics)
            start = cluster.resolved(options.start, partitions).offsets
            end = cluster.resolved(options.end, partitions).offsets
            self._check(start, end)
            now = cluster.topic_ids(topics)
            if again := sorted(topic for topic in topics if now.get(topic) != ids.get(topic)):
                what = f"{', '.join(again)} was deleted and created again"
                raise ReadError(f"{what} while the query was planned: run it once more")
            return in_tasks(plan.ranges_between(start, end), options, cluster, ids)
        finally:
            cluster.close()

    def _check(self, start: Offsets, end: Offsets) -> None:
        for (topic, partition), at in sorted(start.items()):
            if at > end[topic, partition]:
                raise ReadError(
                    f"{topic}-{partition} would be read from {at} to {end[topic, partition]}: "
                    f"compare {self._options.start.option} with {self._options.end.option}. Was "
                    "the topic created again, or its records deleted?"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        return read_ranges(partition, self._options, self._columns)
