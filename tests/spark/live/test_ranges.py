"""Range readers as Spark's tasks use them: Arrow's columns, exactly those that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafkalite.errors import KafkaliteError
from kafkalite.ranges import COLUMNS, RangeReader

TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(
        pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
    ),
}


def table(reader: RangeReader, ranges: list[Any], **options: Any) -> pa.Table:
    batches = [pa.record_batch(batch) for batch in reader.read(ranges, **options)]
    return pa.Table.from_batches(batches)


def test_a_range_comes_in_the_columns_and_types_that_spark_compares(
    make_topic: Callable[..., Any],
) -> None:
    topic = make_topic(2)
    topic.write(b"one", key=b"k", partition=1, timestamp=1_700_000_000_123)
    topic.write(None, key=b"", partition=1, headers=[("h", b"x"), ("h", None)])
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        read = table(reader, [(topic.name, 1, 0, 2)], columns=COLUMNS)
    assert read.schema == pa.schema(list(TYPES.items()))
    first, second = read.to_pylist()
    assert first == {
        "key": b"k",
        "value": b"one",
        "topic": topic.name,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "timestampType": 0,
        "headers": None,
    }
    assert (second["key"], second["value"], second["offset"]) == (b"", None, 1)
    assert second["headers"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]


def test_ranges_of_several_partitions_are_read_to_their_ends_and_the_reader_again(
    make_topic: Callable[..., Any],
) -> None:
    topic = make_topic(3)
    for partition in range(3):
        topic.fill(5_000, partition=partition)
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        for start, end in [(0, 5_000), (17, 4_711), (4_999, 5_000), (3, 3)]:
            ranges = [(topic.name, partition, start, end) for partition in range(3)]
            batches = reader.read(ranges, columns=["partition", "offset"], batch_rows=1_000)
            rows = [row for batch in batches for row in pa.record_batch(batch).to_pylist()]
            for partition in range(3):
                offsets = [row["offset"] for row in rows if row["partition"] == partition]
                assert offsets == list(range(start, end))


def test_a_reader_that_stops_early_may_read_something_else(make_topic: Callable[..., Any]) -> None:
    topic = make_topic()
    topic.fill(2_000)
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        batches = reader.read([(topic.name, 0, 0, 2_000)], batch_rows=10)
        assert len(next(batches)) == 10
        batches.close()  # type: ignore[attr-defined]
        read = table(reader, [(topic.name, 0, 1_990, 2_000)], columns=["offset"])
    assert read.column("offset").to_pylist() == list(range(1_990, 2_000))


def test_a_batch_is_handed_over_once(make_topic: Callable[..., Any]) -> None:
    topic = make_topic()
    topic.fill(3)
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        batch = next(iter(reader.read([(topic.name, 0, 0, 3)])))
        assert pa.table(batch).num_rows == 3
        with pytest.raises(ValueError, match="handed over already"):
            pa.record_batch(batch)


def test_offsets_that_are_gone_are_an_error_or_counted(make_topic: Callable[..., Any]) -> None:
    topic = make_topic()
    topic.fill(10)
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        with pytest.raises(KafkaliteError, match=r"OFFSET_OUT_OF_RANGE.*are gone"):
            table(reader, [(topic.name, 0, 20, 30)])
        assert list(reader.read([(topic.name, 0, 20, 30)], may_lose=True)) == []
        assert reader.lost == 10


def test_a_column_that_does_not_exist_is_refused(make_topic: Callable[..., Any]) -> None:
    topic = make_topic()
    with (
        RangeReader(bootstrap_servers=topic.servers) as reader,
        pytest.raises(ValueError, match="no column `values`"),
    ):
        reader.read([(topic.name, 0, 0, 1)], columns=["values"])
