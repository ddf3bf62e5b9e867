"""What records are made of and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from ._native import Record, RecordBatch

__all__ = [
    "ArrowArray",
    "ArrowStream",
    "Data",
    "Headers",
    "Place",
    "Record",
    "RecordBatch",
    "TopicPartition",
]

#: What bytes of a record may be made of; a text is written as UTF-8, ``None`` is null.
Data = bytes | bytearray | memoryview | str | None

#: Headers of a record, in order; a list of pairs may repeat a name.
Headers = Mapping[str, Data] | Iterable[tuple[str, Data]]


#: A key of what is given by partition. A variable, because type checkers take no mapping of
#: partitions for one of pairs.
Place = TypeVar("Place", bound=tuple[str, int])


class ArrowStream(Protocol):
    """Whatever hands out Arrow data as a stream: a table, a data frame, a chunked array."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule named ``arrow_array_stream``."""


class ArrowArray(Protocol):
    """Whatever hands out Arrow data as one array."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules named ``arrow_schema`` and ``arrow_array``."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return ``topic-partition``, as Kafka writes it."""
        return f"{self.topic}-{self.partition}"
