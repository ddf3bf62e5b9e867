"""Drivers and executors killed with SIGKILL, in the middle of a lake and of counts by window."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import kafkalite as kl
from examples.clusters import standalone
from kafkalite.ranges import RangeReader
from tests.spark.live.processes import below

RECORDS, PARTITIONS = 8_000, 2
START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000)
STEP_MS = 200


class Driver:
    """The program `driver.py`, and what it says."""

    def __init__(self, master: str, source: Any, target: Any, place: Path, *more: str) -> None:
        """Start it in a process group of its own: its JVM is in it."""
        program = str(Path(__file__).with_name("driver.py"))
        words = [master, source.servers, source.name, target.name, str(place), *more]
        self._errors = (place / "errors.txt").open("a")
        self.process = subprocess.Popen(
            [sys.executable, program, *words],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def until(self, batches: int) -> int:
        """Read on until so many more micro-batches are through; fewer if it ended before."""
        assert self.process.stdout is not None
        return sum(1 for _ in zip(range(batches), self.process.stdout, strict=False))

    def kill(self) -> None:
        """End Python and JVM at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self._ended()

    def result(self) -> int:
        """Read to its end, and return its exit code."""
        assert self.process.stdout is not None
        self.process.stdout.read()
        return self._ended()

    def _ended(self) -> int:
        assert self.process.stdout is not None
        code = self.process.wait(60)
        self.process.stdout.close()
        self._errors.close()
        return code


def fill(topic: Any) -> Counter[str]:
    """Write records with times of their own; return how many there are of each minute."""
    with kl.AdminClient(bootstrap_servers=topic.servers) as admin:
        # They are older than logs are usually kept: retention took them in the middle of the test.
        admin.alter_topic_config(topic.name, {"retention.ms": -1})
    times = [START_MS + number * STEP_MS for number in range(RECORDS)]
    with kl.Producer(bootstrap_servers=topic.servers) as producer:
        for partition in range(PARTITIONS):
            values = [b"%d" % number for number in range(RECORDS)]
            producer.send_batch(topic.name, values, partitions=partition, timestamps=times).result(
                60
            )
    minutes = (datetime.fromtimestamp(time / 1_000, UTC).strftime("%H:%M") for time in times)
    return Counter({minute: count * PARTITIONS for minute, count in Counter(minutes).items()})


def last_counts(topic: Any) -> dict[str, int]:
    """Return the last record of each minute, read without Spark."""
    with kl.AdminClient(bootstrap_servers=topic.servers) as admin:
        ends = admin.list_offsets([(topic.name, 0)])
    last: dict[str, int] = {}
    with RangeReader(bootstrap_servers=topic.servers) as reader:
        ranges = [(topic.name, 0, 0, end.offset) for end in ends.values()]
        for batch in reader.read(ranges, columns=["key", "value"]):
            for row in pa.record_batch(batch).to_pylist():
                last[row["key"].decode()] = int(row["value"])
    return last


def assert_true(spark: SparkSession, place: Path, target: Any, minutes: Counter[str]) -> None:
    """Compare both results with what was written."""
    rows = spark.read.parquet(str(place / "lake")).select("partition", "offset").collect()
    found = sorted((row.partition, row.offset) for row in rows)
    assert found == [(part, offset) for part in range(PARTITIONS) for offset in range(RECORDS)]
    assert last_counts(target) == dict(minutes)


#: With `local` from a place on, the settings for local checkpoints are made after a crash.
@pytest.mark.parametrize(
    "checkpoints", [("", "", ""), ("", "local", "local")], ids=["plain", "local"]
)
def test_a_killed_driver_goes_on_from_its_checkpoints(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    tmp_path: Path,
    checkpoints: tuple[str, str, str],
) -> None:
    source, target = make_topic(PARTITIONS), make_topic()
    minutes = fill(source)
    # Both queries together need 16: it is killed in the middle.
    for words in checkpoints[:2]:
        driver = Driver("local[2]", source, target, tmp_path, words)
        assert driver.until(5) == 5
        driver.kill()
    assert Driver("local[2]", source, target, tmp_path, checkpoints[2]).result() == 0
    assert_true(spark, tmp_path, target, minutes)


def test_killed_executors_are_replaced(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    source, target = make_topic(PARTITIONS), make_topic()
    minutes = fill(source)
    killed: set[int] = set()
    with standalone() as master:
        driver = Driver(master, source, target, tmp_path)
        for _ in range(2):
            assert driver.until(4) == 4
            # They are children of the standalone workers, as those are of this process.
            executors = [
                pid
                for pid, words in below(os.getpid()).items()
                if "CoarseGrainedExecutorBackend" in words and pid not in killed
            ]
            os.kill(executors[0], signal.SIGKILL)
            killed.add(executors[0])
        code = driver.result()
        # A query may fail with its executor: it goes on from its checkpoint, as any other.
        if code != 0:
            assert Driver(master, source, target, tmp_path).result() == 0
    assert len(killed) == 2
    assert_true(spark, tmp_path, target, minutes)
