"""What records are made of and where they stand."""

from __future__ import annotations

from typing import NamedTuple

from ._native import Record, RecordBatch

__all__ = ["Record", "RecordBatch", "TopicPartition"]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return ``topic-partition``, as Kafka writes it."""
        return f"{self.topic}-{self.partition}"
