"""The columns that are handed out: their types exactly, and who frees them."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkalite as kl
from kafkalite.ranges import ColumnBatch, RangeReader

pa = pytest.importorskip("pyarrow")

PATIENCE_S = 30.0
NOW_MS = 1_700_000_000_123
VALUES = [b"one", None, b"three", b"four"]
HEADERS: list[list[tuple[str, bytes | None]]] = [[("h", b"1"), ("h", None)], [], [("i", b"")], []]
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with four records in one topic, and a record of a megabyte in another."""
    with kl.Broker(topics=["t", "large"]) as broker:
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            sent = producer.send_batch(
                "t", VALUES, keys=[b"k", None, None, b""], headers=HEADERS, timestamps=NOW_MS
            )
            sent.result(PATIENCE_S)
            producer.send_batch("large", [b"x" * (MEGABYTE - 1_000)]).result(PATIENCE_S)
        yield broker.bootstrap_servers


def batch_of(servers: str, topic: str) -> kl.RecordBatch:
    """All records of a topic."""
    with kl.Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        batch = consumer.next_batch(timeout=PATIENCE_S)
    assert batch is not None
    return batch


def ranges_of(servers: str, columns: list[str], end: int = 4) -> ColumnBatch:
    """The same as columns for Spark."""
    with RangeReader(bootstrap_servers=servers) as reader:
        (batch,) = reader.read([("t", 0, 0, end)], columns=columns)
    return batch


def test_the_columns_of_a_batch_have_these_types(servers: str) -> None:
    pair = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary())])
    expected = pa.schema(
        [
            pa.field("topic", pa.dictionary(pa.int32(), pa.string()), False),
            pa.field("partition", pa.int32(), False),
            pa.field("offset", pa.int64(), False),
            pa.field("timestamp", pa.timestamp("ms", "UTC")),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", pair, False)), False),
        ]
    )
    batch = batch_of(servers, "t")
    for table in (pa.table(batch), pa.Table.from_batches([pa.record_batch(batch)])):
        assert table.schema.equals(expected, check_metadata=True)
        table.validate(full=True)
    assert pa.schema(batch).equals(expected, check_metadata=True)
    columns = pa.table(batch).to_pydict()
    assert columns["topic"] == ["t"] * 4
    assert columns["key"] == [b"k", None, None, b""]
    assert columns["value"] == VALUES
    pairs = [[(one["key"], one["value"]) for one in row] for row in columns["headers"]]
    assert pairs == HEADERS


def test_the_columns_for_spark_have_these_types(servers: str) -> None:
    pair = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", pair)),
    }
    table = pa.table(ranges_of(servers, list(types)))
    assert table.schema.equals(pa.schema(types), check_metadata=True)
    table.validate(full=True)
    columns = table.to_pydict()
    assert columns["value"] == VALUES
    assert columns["topic"] == ["t"] * 4
    assert columns["timestampType"] == [0] * 4
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [NOW_MS * 1_000] * 4
    pairs = [row and [(one["key"], one["value"]) for one in row] for row in columns["headers"]]
    assert pairs == [row or None for row in HEADERS]


def test_rows_without_columns_are_counted(servers: str) -> None:
    batch = ranges_of(servers, [], end=3)
    assert len(batch) == 3
    read = pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())
    assert (read.num_rows, read.num_columns) == (3, 0)
    with pytest.raises(ValueError, match="handed over already"):
        batch.__arrow_c_stream__()


def test_polars_and_pandas_read_the_same(servers: str) -> None:
    polars: Any = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    batch = batch_of(servers, "t")
    assert batch.to_polars()["value"].to_list() == VALUES
    assert batch.to_polars()["headers"][0].to_list() == [
        {"key": "h", "value": b"1"},
        {"key": "h", "value": None},
    ]
    assert list(batch.to_pandas()["offset"]) == [0, 1, 2, 3]
    assert isinstance(ranges_of(servers, ["topic"]).to_polars(), polars.DataFrame)


@pytest.mark.parametrize(
    "hand_out",
    [
        lambda batch: batch.__arrow_c_array__(),
        lambda batch: batch.__arrow_c_stream__(),
        lambda batch: pa.table(batch),
        lambda batch: pa.table(batch)["value"].chunk(0).slice(1),
        lambda batch: next(iter(pa.RecordBatchReader.from_stream(batch))),
    ],
    ids=["array", "stream", "table", "slice", "reader"],
)
def test_columns_are_freed_whether_they_are_read_or_not(
    servers: str, hand_out: Callable[[kl.RecordBatch], object]
) -> None:
    batch = batch_of(servers, "large")
    for _ in range(20):
        hand_out(batch)
    gc.collect()
    before = resident_bytes()
    for _ in range(300):
        hand_out(batch)
    gc.collect()
    assert resident_bytes() - before < 100 * MEGABYTE, "300 MB were handed out"


def resident_bytes() -> int:
    """Memory of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
