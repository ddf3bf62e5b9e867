"""``kafkalite.read``: records of topics between two times, as batches or as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from . import tables
from .admin_calls import OffsetAt
from .config import ConfigValue, ConsumerOptions, merged
from .errors import InvalidArgumentError
from .ranges import ColumnBatch, OffsetRange, RangeReader

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Reading", "read"]

#: The columns of a table, unless others are asked for.
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class Reading:
    """Records that ``read`` found: iterate over batches, or take all of them as one table.

    Every iteration and every table reads the records again. It fails with ``UNKNOWN_TOPIC_ID`` if
    their topic was deleted and created again.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        columns: Sequence[str],
        config: Mapping[str, str],
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Note what to read; see ``read``."""
        self.ranges: tuple[OffsetRange, ...] = tuple(ranges)
        self.columns: tuple[str, ...] = tuple(columns)
        self._config = dict(config)
        self._topic_ids = dict(topic_ids or {})

    def __iter__(self) -> Iterator[ColumnBatch]:
        """Iterate over batches of Arrow columns; those of one partition in order."""
        with RangeReader(config=self._config) as reader:
            yield from reader.read(self.ranges, columns=self.columns, topic_ids=self._topic_ids)

    def to_arrow(self) -> Any:
        """Return all records as one ``pyarrow.Table``; needs pyarrow."""
        pyarrow: ModuleType = tables.module("pyarrow")
        found = [tables.to_arrow(batch) for batch in self]
        return pyarrow.concat_tables(found) if found else self._schema(pyarrow).empty_table()

    def to_pandas(self) -> Any:
        """Return all records as one ``pandas.DataFrame``; needs pandas and pyarrow."""
        return tables.to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """Return all records as one ``polars.DataFrame``; needs polars and pyarrow."""
        return tables.to_polars(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand all records over as one stream; needs pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Return how many offsets it covers."""
        offsets = sum(one.end - one.start for one in self.ranges)
        topics = ", ".join(sorted({one.topic for one in self.ranges})) or "no topic"
        return f"<kafkalite.Reading of {topics}: {offsets:,} offsets>"

    def _schema(self, pyarrow: ModuleType) -> Any:
        headers = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
        types = {
            "key": pyarrow.binary(),
            "value": pyarrow.binary(),
            "topic": pyarrow.string(),
            "partition": pyarrow.int32(),
            "offset": pyarrow.int64(),
            "timestamp": pyarrow.timestamp("us", "UTC"),
            "timestampType": pyarrow.int32(),
            "headers": pyarrow.list_(headers),
        }
        return pyarrow.schema([(name, types[name]) for name in self.columns])


def read(
    *topics: str,
    since: OffsetAt = "earliest",
    until: OffsetAt = "latest",
    columns: Sequence[str] = COLUMNS,
    config: Mapping[str, ConfigValue | None] | None = None,
    **options: Unpack[ConsumerOptions],
) -> Reading:
    """Find the records of topics between two times, without a group.

    What comes after this call is not read.

    Args:
        topics: Their names.
        since: The first record: ``earliest``, a ``datetime`` with a zone, or ms since 1970.
        until: The end: ``latest``, or the first record of this time or later, which is not read.
        columns: Which columns, in this order: ``topic``, ``partition``, ``offset``, ``timestamp``,
            ``timestampType``, ``key``, ``value``, ``headers``.
        config: A consumer's keys with dots.
        options: The same keys as keywords, such as ``bootstrap_servers``; they win over ``config``.

    Raises:
        UnknownTopicError: There is no such topic.
        ConfigError: A key or value that cannot be.

    Examples:
        >>> kl.read("orders", bootstrap_servers="localhost:9092").to_pandas()
    """
    from .admin import AdminClient
    from .config_table import client_keys

    if not topics:
        raise InvalidArgumentError(
            "INVALID_REQUEST: topics: none is given", hint='write read("orders").'
        )
    pairs = merged(config, options)
    others = {key.name for key in client_keys() if key.client == "consumer"}
    of_admin = {name: value for name, value in pairs.items() if name not in others}
    # What an open transaction holds back has no end yet.
    level: Any = pairs.get("isolation.level", "read_uncommitted").strip().lower()
    with AdminClient(config=of_admin) as admin:
        described = admin.describe_topics(dict.fromkeys(topics))
        places = [
            (name, each.partition) for name, of in described.items() for each in of.partitions
        ]
        offsets = partial(admin.list_offsets, places, isolation_level=level)
        ends = offsets("latest")
        starts = ends if since == "latest" else offsets(since)
        stops = ends if until == "latest" else offsets(until)
    ranges = []
    for place, end in ends.items():
        # -1: no record is so new. One that came since is behind the end.
        found = (starts[place].offset, stops[place].offset)
        start, stop = (min(at, end.offset) if at >= 0 else end.offset for at in found)
        if start < stop:
            ranges.append(OffsetRange(place.topic, place.partition, start, stop))
    ids = {name: of.topic_id for name, of in described.items() if of.topic_id is not None}
    return Reading(ranges, columns, pairs, ids)
