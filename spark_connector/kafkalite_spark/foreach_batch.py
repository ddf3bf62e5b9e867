"""The batch sink by micro-batch: for the output mode ``update``, refused for Python sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["writes_to"]


def writes_to(servers: str, topic: str, **options: Any) -> Callable[[DataFrame, int], None]:
    """Return what ``writeStream.foreachBatch`` takes: it writes each micro-batch to ``topic``.

    At least once: a micro-batch that Spark runs again is written again.

    Args:
        servers: ``kafka.bootstrap.servers``.
        topic: Where to.
        options: More options of the sink, those with dots as ``**{"kafka.linger.ms": 50}``.
    """

    def write(rows: DataFrame, _batch_id: int) -> None:
        writer = rows.write.format("kafkalite").mode("append")
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.save()

    return write
