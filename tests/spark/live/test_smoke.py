"""What works in every PySpark from 4.0 on, and errors for what does not: `make spark-versions`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafkalite import AdminClient

MINOR = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def stream(spark: SparkSession, topic: Any, **options: object) -> DataFrame:
    """Return a topic as a stream, from its first record on."""
    reader = spark.readStream.format("kafkalite").option("startingOffsets", "earliest")
    reader = reader.option("kafka.bootstrap.servers", topic.servers)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.option("subscribe", topic.name).load()


def drain(frame: DataFrame, path: Path) -> None:
    """Write what there is to Parquet."""
    writer = frame.writeStream.format("parquet").option("path", str(path / "files"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def written(spark: SparkSession, path: Path) -> list[tuple[int, int]]:
    """Return partition and offset of every row."""
    rows = spark.read.parquet(str(path / "files")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def test_a_batch_is_written_and_read(
    spark: SparkSession, make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic(2)
    rows = spark.range(1_000).selectExpr("cast(id as string) as key", "'v' as value")
    writer = rows.write.format("kafkalite").mode("append").option("topic", topic.name)
    writer.option("kafka.bootstrap.servers", topic.servers).save()
    found = read(topic).collect()
    assert sorted(int(row.key) for row in found) == list(range(1_000))


def test_a_stream_goes_on_after_a_restart_with_partitions_that_came_meanwhile(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic = make_topic()
    topic.fill(100)
    drain(stream(spark, topic), tmp_path)
    drain(stream(spark, topic), tmp_path)
    with AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.create_partitions(topic.name, 2)
    topic.fill(50, first=100)
    topic.fill(30, partition=1)
    drain(stream(spark, topic), tmp_path)
    expected = [(0, offset) for offset in range(150)] + [(1, offset) for offset in range(30)]
    assert written(spark, tmp_path) == expected


def test_a_running_stream_reads_what_comes(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic = make_topic()
    frame = stream(spark, topic)
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "files"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    for first in (0, 10, 20):
        topic.fill(10, first=first)
        query.processAllAvailable()
    query.stop()
    assert written(spark, tmp_path) == [(0, offset) for offset in range(30)]


def test_a_stream_is_written_or_refused_with_the_version_that_can(
    spark: SparkSession, make_topic: Callable[..., Any], read: Callable[..., Any], tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic()
    source.fill(100)
    writer = stream(spark, source).select("key", "value").writeStream.format("kafkalite")
    writer = writer.option("kafka.bootstrap.servers", target.servers).option("topic", target.name)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    if MINOR < (4, 1):
        with pytest.raises(PySparkException, match=r"needs PySpark 4\.1"):
            writer.start().awaitTermination(60)
        return
    assert writer.start().awaitTermination(60)
    assert read(target).count() == 100


def test_limits_of_micro_batches_hold_or_are_refused_with_the_version_that_can(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic = make_topic()
    topic.fill(100)
    limited = stream(spark, topic, maxOffsetsPerTrigger=40)
    if MINOR < (4, 2):
        with pytest.raises(PySparkException, match=r"maxOffsetsPerTrigger.*4\.2"):
            drain(limited, tmp_path)
        return
    drain(limited, tmp_path)
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 3
