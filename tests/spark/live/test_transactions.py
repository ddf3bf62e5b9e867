"""Topics that others write in transactions: what is committed is read, once. Needs Apache Kafka.

`make spark-kafka-test`; kafkalite's broker has no transactions yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.sql import DataFrame, SparkSession

from kafkalite.ranges import RangeReader

#: Offsets of committed records: each transaction ends with a marker, 5, 11, 17 and 21.
COMMITTED = [*range(5), *range(12, 17)]
#: With those of aborted transactions.
WRITTEN = [*range(5), *range(6, 11), *range(12, 17), *range(18, 21)]


@pytest.fixture
def written(make_topic: Callable[..., Any]) -> Iterator[tuple[Any, Producer]]:
    """Return a topic with two committed and two aborted transactions, and their producer."""
    topic = make_topic()
    producer = Producer(
        {"bootstrap.servers": topic.servers, "transactional.id": f"writes-{topic.name}"}
    )
    try:
        producer.init_transactions(10)
    except KafkaException as error:
        pytest.skip(f"this broker has no transactions: {error}")
    for count, end in (
        (5, producer.commit_transaction),
        (5, producer.abort_transaction),
        (5, producer.commit_transaction),
        (3, producer.abort_transaction),
    ):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic.name, b"v")
        producer.flush(30)
        end()
    yield topic, producer
    with suppress(KafkaException):
        producer.abort_transaction()


def stream(spark: SparkSession, topic: Any, **options: object) -> DataFrame:
    """Return the topic as a stream of what is committed."""
    reader = spark.readStream.format("kafkalite").option("startingOffsets", "earliest")
    reader = reader.option("kafka.isolation.level", "read_committed")
    for name, value in options.items():
        reader = reader.option(name, value)
    return (
        reader.option("kafka.bootstrap.servers", topic.servers)
        .option("subscribe", topic.name)
        .load()
    )


def drain(frame: DataFrame, path: Path) -> None:
    """Write what there is to Parquet."""
    writer = frame.writeStream.format("parquet").option("path", str(path / "files"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(60)


def offsets(frame: DataFrame) -> list[int]:
    """Return the offsets in order."""
    return sorted(row.offset for row in frame.select("offset").collect())


def test_a_batch_reads_what_is_committed_or_all(
    written: tuple[Any, Producer], read: Callable[..., DataFrame]
) -> None:
    topic, _ = written
    for level, expected in (("read_committed", COMMITTED), ("READ_COMMITTED", COMMITTED)):
        assert offsets(read(topic, **{"kafka.isolation.level": level})) == expected
    assert offsets(read(topic)) == WRITTEN


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(3, 8, [3, 4]), (6, 12, []), (17, 22, []), (18, 20, []), (5, 6, []), (10, 13, [12])],
)
def test_a_range_ends_where_nothing_is_committed_any_more(
    written: tuple[Any, Producer], start: int, end: int, expected: list[int]
) -> None:
    topic, _ = written
    with RangeReader(bootstrap_servers=topic.servers, isolation_level="read_committed") as reader:
        batches = reader.read([(topic.name, 0, start, end)], columns=["offset"], stall_timeout=10)
        found = [row for batch in batches for row in pa.record_batch(batch).to_pylist()]
    assert [row["offset"] for row in found] == expected


def test_a_stream_goes_on_over_aborted_transactions_and_waits_for_open_ones(
    spark: SparkSession, written: tuple[Any, Producer], tmp_path: Path
) -> None:
    topic, producer = written
    frame = stream(spark, topic, maxOffsetsPerTrigger=4)
    producer.begin_transaction()
    producer.produce(topic.name, b"v")
    producer.flush(30)
    drain(frame, tmp_path)
    files = str(tmp_path / "files")
    assert offsets(spark.read.parquet(files)) == COMMITTED
    producer.commit_transaction()
    drain(frame, tmp_path)
    assert offsets(spark.read.parquet(files)) == [*COMMITTED, 22]
