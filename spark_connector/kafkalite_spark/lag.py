"""The lag of a query, computed from its progress. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .offsets import Offsets, from_json

__all__ = ["Lag", "lag_of"]


@dataclass(frozen=True)
class Lag:
    """How far a query is behind after a micro-batch.

    Attributes:
        partitions: Records between the end of the micro-batch and the end of the partition, by
            topic and number.
        batch_ms: How long the micro-batch took, in milliseconds.
        rows_per_s: Records a second while it ran.
    """

    partitions: Offsets
    batch_ms: float
    rows_per_s: float

    @property
    def total(self) -> int:
        """Records of all partitions."""
        return sum(self.partitions.values())

    @property
    def source(self) -> str:
        """The name of the source with its topics: ``kafkalite[orders, returns]``."""
        return f"kafkalite[{', '.join(sorted({topic for topic, _ in self.partitions}))}]"


def lag_of(progress: Mapping[str, Any]) -> Lag | None:
    """Return the lag; ``None`` if no source has offsets in Kafka's format.

    Args:
        progress: A ``StreamingQueryProgress`` as JSON, or ``query.lastProgress``.
    """
    behind: Offsets = {}
    for source in progress.get("sources", ()):
        end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        for partition, at in (latest or {}).items():
            behind[partition] = max(0, at - (end or {}).get(partition, at))
    if not behind:
        return None
    took = float(progress.get("durationMs", {}).get("triggerExecution", 0))
    return Lag(behind, took, float(progress.get("processedRowsPerSecond") or 0))


def _offsets(told: Any) -> Offsets | None:
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except json.JSONDecodeError:
            return None
    if not isinstance(told, Mapping):
        return None
    try:
        return from_json(told)
    except ValueError:
        return None
