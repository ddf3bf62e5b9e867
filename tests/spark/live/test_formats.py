"""Spark's own ``format("kafka")`` against our broker, and beside our connector."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from tests.harness.process import Processes

BOTH = ["kafkalite", pytest.param("kafka", marks=pytest.mark.jvm)]

COLUMNS = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]


def loaded(reader: Any, format_: str, servers: str, topic: str, **options: object) -> DataFrame:
    """Return a topic, from its first record on."""
    given = {"startingOffsets": "earliest", "includeHeaders": "true", **options}
    reader = reader.format(format_).option("kafka.bootstrap.servers", servers)
    for name, value in given.items():
        reader = reader.option(name, value)
    return reader.option("subscribe", topic).load()


def drain(frame: DataFrame, path: Path, **options: str) -> list[int]:
    """Write what there is to Parquet; return the rows of each micro-batch."""
    writer = frame.writeStream.format("parquet").option("path", str(path / "files"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint")).options(**options)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


def written(spark: SparkSession, path: Path) -> list[int]:
    """Return the offsets in Parquet."""
    return sorted(row.offset for row in spark.read.parquet(str(path / "files")).collect())


@pytest.mark.jvm
def test_what_either_connector_writes_both_read_alike(
    spark: SparkSession, make_topic: Callable[..., Any]
) -> None:
    schema = "key string, value binary, headers array<struct<key:string,value:binary>>"
    rows = [
        (None if n % 7 == 0 else f"k{n}", None if n % 5 == 0 else b"v%d" % n, [("h", b"%d" % n)])
        for n in range(5_000)
    ]
    frame = spark.createDataFrame(rows, schema)
    partitions = []
    for writing in ("kafka", "kafkalite"):
        topic = make_topic(4)
        (
            frame.write.format(writing)
            .mode("append")
            .option("kafka.bootstrap.servers", topic.servers)
            .option("kafka.compression.type", "lz4")
            .options(topic=topic.name, includeHeaders="true")
            .save()
        )
        read = [
            sorted(
                loaded(spark.read, reading, topic.servers, topic.name).select(COLUMNS).collect(),
                key=lambda row: (row.partition, row.offset),
            )
            for reading in ("kafka", "kafkalite")
        ]
        assert read[0] == read[1]
        found = [
            (
                None if row.key is None else bytes(row.key).decode(),
                None if row.value is None else bytes(row.value),
                [(header.key, bytes(header.value)) for header in row.headers],
            )
            for row in read[0]
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, rows))
        partitions.append({bytes(row.key): row.partition for row in read[0] if row.key})
    assert partitions[0] == partitions[1]


@pytest.mark.jvm
def test_a_stream_of_sparks_own_connector_copies_every_record_once(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    source, target = make_topic(3), make_topic(2)
    for partition in range(3):
        source.fill(2_000, partition=partition, first=partition * 2_000)
    stream = loaded(
        spark.readStream, "kafka", source.servers, source.name, maxOffsetsPerTrigger=2_500
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", target.servers)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) == 3
    copied = loaded(spark.read, "kafka", target.servers, target.name)
    assert sorted(int(row.value) for row in copied.collect()) == list(range(6_000))


@pytest.mark.jvm
def test_continuous_processing_of_sparks_own_connector_reads_and_writes(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic()
    source.fill(200)
    query = (
        loaded(spark.readStream, "kafka", source.servers, source.name)
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", target.servers)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path))
        .trigger(continuous="1 second")
        .start()
    )
    end = time.monotonic() + 60
    count = 0
    while count < 200 and query.isActive and time.monotonic() < end:
        count = loaded(spark.read, "kafka", target.servers, target.name).count()
    query.stop()
    assert count == 200


@pytest.mark.jvm
def test_a_checkpoint_of_sparks_own_connector_goes_on_with_ours_and_back(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic = make_topic(2)
    for round_, format_ in enumerate(("kafka", "kafkalite", "kafka")):
        for partition in range(2):
            topic.fill(100, partition=partition, first=round_ * 100)
        stream = loaded(spark.readStream, format_, topic.servers, topic.name)
        assert drain(stream, tmp_path) == [200]
    assert written(spark, tmp_path) == sorted([*range(300), *range(300)])


@pytest.mark.parametrize("format_", BOTH)
def test_a_first_micro_batch_that_was_not_finished_loses_nothing_from_the_latest(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path, format_: str
) -> None:
    topic = make_topic()
    topic.fill(100)
    latest = {"startingOffsets": "latest"}
    stream = loaded(spark.readStream, format_, topic.servers, topic.name, **latest)
    assert drain(stream, tmp_path) == []
    planned = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    # Ours adds its notes in the name of no topic.
    offsets = {name: ends for name, ends in json.loads(planned).items() if ends}
    assert offsets == {topic.name: {"0": 100}}
    # As if it had been killed then: Spark writes this file when a micro-batch is finished.
    for finished in (tmp_path / "checkpoint" / "commits").iterdir():
        finished.unlink()
    topic.fill(50, first=100)
    drain(stream, tmp_path)
    assert written(spark, tmp_path) == list(range(100, 150))


@pytest.fixture
def shrinking(processes: Processes) -> Iterator[tuple[str, Callable[[], int]]]:
    """Return a broker with a topic of 3 segments, and what lets retention delete all but the last.

    Its log begins at 0, and afterwards at what is returned.
    """
    broker = processes.serve("--set", "log.retention.check.interval.ms=100")
    with (
        kl.AdminClient(bootstrap_servers=broker.ready) as admin,
        kl.Producer(bootstrap_servers=broker.ready) as producer,
    ):
        admin.create_topic("shrinking", config={"segment.bytes": str(1 << 20)})
        for _ in range(300):
            producer.send("shrinking", b"x" * 10_000)
        producer.flush(30)

        def shrink() -> int:
            admin.alter_topic_config("shrinking", {"retention.bytes": 1 << 20})
            end = time.monotonic() + 30
            first = 0
            while first < 50 and time.monotonic() < end:
                first = admin.list_offsets([("shrinking", 0)], "earliest")["shrinking", 0].offset
            assert first > 50
            return first

        yield broker.ready, shrink


@pytest.mark.parametrize("format_", BOTH)
def test_what_retention_took_fails_a_stream_or_is_passed_over(
    spark: SparkSession,
    shrinking: tuple[str, Callable[[], int]],
    tmp_path: Path,
    format_: str,
) -> None:
    servers, shrink = shrinking

    def stream(**options: object) -> DataFrame:
        options = {"kafkaConsumer.pollTimeoutMs": 5_000, **options}
        return loaded(spark.readStream, format_, servers, "shrinking", **options)

    query = (
        stream(maxOffsetsPerTrigger=50)
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "files"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 hour")
        .start()
    )
    end = time.monotonic() + 60
    while not query.recentProgress and time.monotonic() < end:
        time.sleep(0.05)
    query.stop()
    first = shrink()
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        drain(stream(), tmp_path)
    drain(stream(failOnDataLoss="false"), tmp_path)
    assert written(spark, tmp_path) == [*range(50), *range(first, 300)]
