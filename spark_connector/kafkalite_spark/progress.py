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


class KafkaliteProgress(StreamingQueryListener):
    """Calls back with the lag after each micro-batch; without a callback it logs a line.

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
        """Do nothing."""


def _logged(query: str, lag: Lag) -> None:
    log.info(
        "query %s: %s is %d records behind, %.0f ms for the micro-batch, %.0f records/s",
        query,
        lag.source,
        lag.total,
        lag.batch_ms,
        lag.rows_per_s,
    )
