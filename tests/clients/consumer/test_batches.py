"""Batches of records, and their columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite import RecordBatch, errors
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, part, read, values


def batch_of(cluster: Cluster, topic: str, count: int, **settings: Any) -> RecordBatch:
    """Read a batch of exactly ``count`` records, which must be there already."""
    with cluster.consumer(topic, fetch_min_bytes=1, **settings) as consumer:
        # One look shows all only when all was fetched: wait for the first, then begin again.
        read(consumer, count)
        consumer.seek_to_beginning()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            batch = consumer.next_batch(timeout=PATIENCE_S)
            assert batch is not None
            if len(batch) == count:
                return batch
            consumer.seek_to_beginning()
    raise AssertionError("the records never came at once")


def taken(batches: Iterator[RecordBatch], count: int) -> list[RecordBatch]:
    """Take batches until they hold ``count`` records."""
    found: list[RecordBatch] = []
    while sum(map(len, found)) < count:
        found.append(next(batches))
    assert sum(map(len, found)) == count
    return found


def test_a_batch_shows_its_records_one_by_one_and_as_columns(cluster: Cluster) -> None:
    topic = cluster.topic()
    now = time.time_ns() // 1_000_000
    cluster.write(topic, numbered(99), key=b"k", timestamp=now, headers=[("h", b"x")])
    cluster.write(topic, [None], timestamp=now + 1)
    batch = batch_of(cluster, topic, 100)
    assert len(batch) == 100
    assert batch[7].value == b"v7"
    assert (batch[-1].offset, batch[-1].value, batch[-1].key) == (99, None, None)
    assert batch.values() == [*numbered(99), None]
    assert batch.keys() == [b"k"] * 99 + [None]
    assert batch.headers() == [(("h", b"x"),)] * 99 + [()]
    assert batch.offsets.tolist() == list(range(100))
    assert batch.timestamps_ms.tolist() == [now] * 99 + [now + 1]
    assert batch.partitions.tolist() == [0] * 100
    assert [record.offset for record in batch.records()] == list(range(100))
    assert [record.offset for record in batch] == list(range(100))
    assert batch.ends == [(topic, 0, 100, 0)]
    headers = len("hx") * 99
    assert batch.nbytes == len("".join(f"v{number}" for number in range(99))) + 99 + headers
    size = f"100 records, {batch.nbytes:,} bytes"
    assert repr(batch) == f"<RecordBatch of {size}: {topic}-0 @ 0..99>"
    with pytest.raises(IndexError):
        batch[100]


def test_a_slice_of_a_batch_is_a_batch(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(20))
    batch = batch_of(cluster, topic, 20)
    assert batch[5:8].values() == numbered(20)[5:8]
    assert batch[-3:].offsets.tolist() == [17, 18, 19]
    assert batch[5:8].ends == [(topic, 0, 8, 0)]
    assert len(batch[8:5]) == 0
    assert batch[8:5].values() == []
    with pytest.raises(ValueError):
        batch[::2]


def test_a_batch_keeps_its_records_after_its_consumer_is_closed(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10), codec="zstd")
    assert batch_of(cluster, topic, 10).values() == numbered(10)


def test_batches_end_when_nothing_comes_and_keep_to_their_limits(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.write(topic, [b"x" * 100] * 30, partition=0)
    cluster.write(topic, [b"y" * 100] * 30, partition=1)
    with cluster.consumer(topic) as consumer:
        batches = taken(consumer.batches(max_records=7, timeout=PATIENCE_S), 60)
        assert max(map(len, batches)) == 7
        consumer.seek_to_beginning()
        batches = taken(consumer.batches(max_bytes=250, timeout=PATIENCE_S), 60)
        assert max(batch.nbytes for batch in batches) == 200
        assert list(consumer.batches(timeout=0.1)) == []


def test_one_record_comes_whatever_its_size(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, [b"x" * 10_000] * 2)
    with cluster.consumer(topic) as consumer:
        batch = consumer.next_batch(max_bytes=1, timeout=PATIENCE_S)
        assert batch is not None
        assert len(batch) == 1


@pytest.mark.parametrize(("records", "size"), [(0, 1), (1, 0), (1, 1 << 31)])
def test_limits_under_which_nothing_fits_are_refused(
    cluster: Cluster, records: int, size: int
) -> None:
    with cluster.consumer() as consumer, pytest.raises(errors.InvalidArgumentError):
        consumer.next_batch(records, size, timeout=0)


def test_a_batch_can_be_committed(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(10))
    with cluster.consumer(topic, group_id=group, enable_auto_commit=False) as consumer:
        batch = consumer.next_batch(max_records=4, timeout=PATIENCE_S)
        assert batch is not None
        consumer.commit(batch)
        assert consumer.committed()[part(topic)].offset == len(batch)


def test_deserializers_are_called_by_what_shows_values(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, [b"1", b"2"])
    batch = batch_of(cluster, topic, 2, value_deserializer=int)
    assert batch.values() == values(batch.records()) == [1, 2]


@pytest.mark.parametrize("part_of", ["key", "value"])
@pytest.mark.parametrize(
    "show",
    [
        lambda batch, part_of: getattr(batch, f"{part_of}s")(),
        lambda batch, _: batch.records(),
        lambda batch, _: batch[0],
    ],
)
def test_an_unreadable_part_of_a_batch_is_an_error_with_its_place(
    cluster: Cluster, part_of: str, show: Callable[[RecordBatch, str], object]
) -> None:
    topic = cluster.topic()
    cluster.write(topic, [b"x"], key=b"x")
    with cluster.consumer(topic, **{f"{part_of}_deserializer": int}) as consumer:
        batch = consumer.next_batch(timeout=PATIENCE_S)
    assert batch is not None
    with pytest.raises(errors.SerializationError, match=f"the {part_of} of {topic}-0 at") as told:
        show(batch, part_of)
    assert (told.value.partition, told.value.offset) == (part(topic), 0)
    assert isinstance(told.value.__cause__, ValueError)


def test_a_batch_is_a_table_for_readers_of_arrow(cluster: Cluster) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = cluster.topic(2)
    now = time.time_ns() // 1_000_000
    cluster.write(topic, [b"a", None], partition=0, key=b"k", timestamp=now)
    cluster.write(topic, [b"b"], partition=1, headers=[("h", None), ("h", b"1")], timestamp=now)
    batch = batch_of(cluster, topic, 3)
    for table in [pa.table(batch), pa.Table.from_batches([pa.record_batch(batch)])]:
        table.validate(full=True)
        rows = sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
        assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
            (topic, 0, 0),
            (topic, 0, 1),
            (topic, 1, 0),
        ]
        assert [(row["key"], row["value"]) for row in rows] == [
            (b"k", b"a"),
            (b"k", None),
            (None, b"b"),
        ]
        assert rows[2]["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": b"1"}]
        assert {row["timestamp"].timestamp() for row in rows} == {now / 1_000}
    assert pa.schema(batch).equals(pa.table(batch).schema)
    assert pa.table(batch[3:]).num_rows == 0


def test_arrow_capsules_are_made_without_any_library(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(3))
    batch = batch_of(cluster, topic, 3)
    for _ in range(3):
        # Unopened capsules free what they hold.
        batch.__arrow_c_schema__()
        batch.__arrow_c_array__()
        assert "arrow_array_stream" in repr(batch.__arrow_c_stream__())
