"""A lake holds every record once by partition and offset, whatever was killed meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from tests.spark.live.processes import below

RECORDS, PARTITIONS = 20_000, 2


def workers() -> list[int]:
    """Return the Python processes that run tasks: children of Spark's daemon."""
    daemons = [pid for pid, words in below(os.getpid()).items() if "pyspark.daemon" in words]
    return [pid for daemon in daemons for pid in below(daemon)]


def drain(frame: DataFrame, path: Path, meanwhile: Callable[[], None]) -> bool:
    """Add to the lake what there is; return whether the query came to its end."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(path / "lake"))
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    end = time.monotonic() + 60
    while query.isActive and not query.recentProgress and time.monotonic() < end:
        time.sleep(0.02)
    meanwhile()
    try:
        return bool(query.awaitTermination(120))
    except PySparkException:
        return False


def stream(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return the topic as a stream of many micro-batches."""
    return (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS // 3)
        .load()
    )


def assert_every_record_once(spark: SparkSession, path: Path) -> None:
    """Compare the lake with what was written."""
    rows = spark.read.parquet(str(path / "lake")).select("partition", "offset").collect()
    found = sorted((row.partition, row.offset) for row in rows)
    assert found == [(part, offset) for part in range(PARTITIONS) for offset in range(RECORDS)]


@pytest.mark.slice
def test_killed_workers_lose_and_double_nothing(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        topic.fill(RECORDS, partition=partition)

    killed: list[int] = []

    def kill() -> None:
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    frame = stream(spark, topic.servers, topic.name)
    for meanwhile in (kill, kill, lambda: None, lambda: None):
        if drain(frame, tmp_path, meanwhile):
            break
    assert killed
    assert_every_record_once(spark, tmp_path)


def test_a_killed_broker_that_comes_back_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with kl.Broker(in_process=False, topics={"kills": PARTITIONS}) as broker:
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for partition in range(PARTITIONS):
                values = [b"%d" % number for number in range(RECORDS)]
                producer.send_batch("kills", values, partitions=partition).result(60)
        frame = stream(spark, broker.bootstrap_servers, "kills")

        def kill_and_start_again() -> None:
            broker.kill()
            time.sleep(2)
            broker.start()

        for meanwhile in (kill_and_start_again, lambda: None, lambda: None):
            if drain(frame, tmp_path, meanwhile):
                break
        assert_every_record_once(spark, tmp_path)
