"""Three brokers, and the leaders die under streams: each record arrives once, and no query ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import kafkalite as kl
from tests.harness.patience import ended, eventually

PARTITIONS = 3
PER_SECOND = 500
#: Seconds for a query to go on after a kill.
PATIENCE_S = 60.0


class Numbers:
    """A producer of 0, 1, 2, ... at a steady rate, over the partitions in turn.

    At the end of its ``with`` block it sends no more, and every record is acknowledged.
    """

    def __init__(self, servers: str) -> None:
        """Begin."""
        self.sent = 0
        self._ended = threading.Event()
        self._producer = kl.Producer(bootstrap_servers=servers)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(0.01):
            while self.sent < (time.monotonic() - started) * PER_SECOND:
                self._producer.send("in", b"%d" % self.sent, partition=self.sent % PARTITIONS)
                self.sent += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        ended(self._thread, PATIENCE_S)
        self._producer.flush(PATIENCE_S)
        self._producer.close()


@pytest.fixture
def cluster() -> Iterator[kl.Cluster]:
    """Three processes, with a topic to read and one to write."""
    topics = {"in": PARTITIONS, "out": PARTITIONS}
    with kl.Cluster(3, in_process=False, topics=topics) as running:
        yield running


def start(spark: SparkSession, source: str, servers: str, path: Path) -> list[StreamingQuery]:
    """One query into a lake, and one into a topic."""
    frame = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .load()
    )
    lake = frame.select("value").writeStream.format("parquet").option("path", str(path / "lake"))
    sink = (
        frame.select("value")
        .writeStream.format(source)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "out")
    )
    return [
        to.option("checkpointLocation", str(path / name))
        .trigger(processingTime="300 milliseconds")
        .start()
        for name, to in (("of-lake", lake), ("of-sink", sink))
    ]


def read(query: StreamingQuery) -> int:
    """How many rows a query has taken; an error if it has ended."""
    assert query.isActive, query.exception()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


@pytest.mark.parametrize("source", ["kafkalite", pytest.param("kafka", marks=pytest.mark.jvm)])
def test_streams_outlive_the_leaders_of_what_they_read_and_write(
    spark: SparkSession, cluster: kl.Cluster, tmp_path: Path, source: str
) -> None:
    servers = cluster.bootstrap_servers
    with Numbers(servers) as load:
        queries = start(spark, source, servers, tmp_path)
        eventually(lambda: all(read(query) for query in queries), PATIENCE_S)
        for partition in range(PARTITIONS):
            sent = load.sent
            dead = cluster.kill_leader("in", partition)
            eventually(lambda sent=sent: all(read(query) > sent for query in queries), PATIENCE_S)
            dead.start()
            cluster.wait_ready(PATIENCE_S)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    everything = list(range(load.sent))
    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert sorted(int(bytes(row.value)) for row in lake.collect()) == everything
    with kl.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("out", partition) for partition in range(PARTITIONS)])
        written: list[int] = []

        def has_all() -> bool:
            records = consumer.consume(10_000, timeout=0.5)
            written.extend(int(record.value) for record in records)
            return len(set(written)) == len(everything)

        eventually(has_all, PATIENCE_S)
    # A sink delivers at least once.
    assert sorted(set(written)) == everything
