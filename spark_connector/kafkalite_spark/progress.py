"""How far a stream is behind: from what Spark tells of its progress, for each query and partition.

Spark has no place for a Python source's own metrics, but tells where a micro-batch ended and what
the source last saw: the difference is the lag.
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
        told: Called with a query's name (or its id) and its ``Lag``.
    """

    def __init__(self, told: Callable[[str, Lag], None] | None = None) -> None:
        """Remember whom to tell."""
        self._told = told or _logged

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Say nothing yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Tell the lag of every query that reads with this connector."""
        progress: Mapping[str, Any] = json.loads(event.progress.json)
        lag = lag_of(progress)
        if lag is not None:
            self._told(progress.get("name") or progress["id"], lag)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Say nothing: the lag is what it was."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Say nothing more."""


def _logged(query: str, lag: Lag) -> None:
    log.info(
        "query %s: %d records behind, %.0f ms a micro-batch, %.0f records/s",
        query,
        lag.total,
        lag.batch_ms,
        lag.rows_per_s,
    )
