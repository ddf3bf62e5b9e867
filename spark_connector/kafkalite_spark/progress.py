"""Reports the lag of streams, for each query and partition.

Spark has no place for metrics of a Python source, and shows its Java class in place of a name. But
the progress of a query has the end of the micro-batch and the end of the partitions. The difference
is the lag, and the topics name the source: ``kafkalite[orders]``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from .lag import Lag, lag_of

__all__ = ["KafkaliteProgress"]

log = logging.getLogger(__name__)

#: Spark's error for a Python sink, which the connector cannot change.
UPDATE_REFUSED = "kafkalite does not support Update mode"
UPDATE_ADVICE = (
    "Spark refuses the output mode update for Python sinks. Write by micro-batch: "
    ".foreachBatch(writes_to(servers, topic)), with writes_to of kafkalite_spark.foreach_batch"
)


class KafkaliteProgress(StreamingQueryListener):
    """Calls back with the lag after each micro-batch; without a callback it logs a line.

    If Spark refuses a sink's output mode ``update``, it logs what to use instead.

    Use: ``spark.streams.addListener(KafkaliteProgress())``.

    Args:
        told: Called with the name of a query (or its id) and its ``Lag``.
    """

    def __init__(self, told: Callable[[str, Lag], None] | None = None) -> None:
        """Keep the callback."""
        self._told = told or _logged

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Report the lag of a query that reads with this connector."""
        progress: Mapping[str, Any] = json.loads(event.progress.json)
        lag = lag_of(progress)
        if lag is not None:
            self._told(progress.get("name") or progress["id"], lag)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the lag has not changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Name the way out for a query that Spark refuses before it asks the connector."""
        if UPDATE_REFUSED in (event.exception or ""):
            log.error("query %s: %s", event.id, UPDATE_ADVICE)


def _logged(query: str, lag: Lag) -> None:
    log.info(
        "query %s: %s is %d records behind, %.0f ms for the micro-batch, %.0f records/s",
        query,
        lag.source,
        lag.total,
        lag.batch_ms,
        lag.rows_per_s,
    )
