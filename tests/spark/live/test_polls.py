"""Polls of a stream that is idle: planned with a cluster that is made up, without a session."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite_spark.cluster import Cluster
from kafkalite_spark.offsets import from_json
from kafkalite_spark.options import parse_read
from kafkalite_spark.stream_reader import KafkaliteStreamReader, ReadMaxRows

needs_limits = pytest.mark.skipif(ReadMaxRows is None, reason="PySpark before 4.2 has no limits")


class Quiet(Cluster):
    """One partition, a clock, and records that come at their times."""

    def __init__(self, come: dict[float, int]) -> None:
        """Have ``come[time]`` as the end of the log from that time on."""
        self.now = 100.0
        self.asked: list[float] = []
        self._come = come

    def partitions(self) -> list[tuple[str, int]]:
        """Return the one."""
        return [("a", 0)]

    def ends(self, partitions: Any, at: str) -> dict[tuple[str, int], int]:
        """Return what came so far."""
        self.asked.append(self.now)
        end = max(end for when, end in self._come.items() if when <= self.now)
        return dict.fromkeys(partitions, end if at == "latest" else 0)

    def topic_ids(self, topics: object) -> dict[str, str | None]:
        """Return the one of the one."""
        return {"a": "first"}

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def reader_of(cluster: Quiet, **options: object) -> KafkaliteStreamReader:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    given |= {name: str(value) for name, value in options.items()}
    return KafkaliteStreamReader(
        parse_read(given, stream=True),
        ["value"],
        clock=lambda: cluster.now,
        cluster=cluster,
        sleep=cluster.sleep,
    )


def poll_until(reader: KafkaliteStreamReader, cluster: Quiet, end: float) -> dict[str, Any]:
    """Poll as Spark does after the first micro-batch, 12 ms after each answer.

    Return the first answer that makes a micro-batch.
    """
    start = reader.latestOffset(reader.initialOffset())
    cluster.asked.clear()
    while cluster.now < end:
        if (latest := reader.latestOffset(start)) != start:
            return latest
        cluster.now += 0.012
    return start


def test_an_idle_stream_asks_the_broker_about_twenty_times_a_second() -> None:
    cluster = Quiet({0: 70})
    poll_until(reader_of(cluster), cluster, 110.0)
    cluster.asked.clear()
    poll_until(reader_of(cluster), cluster, 130.0)
    assert len([at for at in cluster.asked if at >= 120]) == pytest.approx(200, abs=3)


def test_every_poll_ends_with_a_question_to_the_broker_so_that_no_answer_is_old() -> None:
    cluster = Quiet({0: 70})
    reader = reader_of(cluster)
    start = reader.latestOffset(reader.initialOffset())
    for _ in range(1_000):
        reader.latestOffset(start)
        assert cluster.asked[-1] == cluster.now
        cluster.now += 0.012


def test_what_comes_after_a_silence_is_seen_within_50_ms() -> None:
    cluster = Quiet({0: 70, 140.0: 80})
    assert from_json(poll_until(reader_of(cluster), cluster, 150.0)) == {("a", 0): 80}
    assert cluster.now == pytest.approx(140.025, abs=0.026)


def test_what_comes_soon_after_the_last_is_seen_at_once() -> None:
    cluster = Quiet({0: 70, 100.2: 80})
    assert from_json(poll_until(reader_of(cluster), cluster, 150.0)) == {("a", 0): 80}
    assert cluster.now <= 100.2 + 0.012


def test_max_trigger_delay_is_kept_within_50_ms_while_too_little_waits() -> None:
    cluster = Quiet({0: 70, 101.0: 71})
    reader = reader_of(cluster, minOffsetsPerTrigger=10, maxTriggerDelay="20s")
    # The first micro-batch of a query comes without a delay; it starts the clock.
    first = poll_until(reader, cluster, 110.0)
    assert from_json(first) == {("a", 0): 71}
    cluster._come[102.0] = 72
    begun = cluster.now
    while reader.latestOffset(first) == first:
        cluster.now += 0.012
    assert cluster.now - begun == pytest.approx(20.025, abs=0.026)


@needs_limits
def test_available_now_never_waits() -> None:
    cluster = Quiet({0: 1_000})
    reader = reader_of(cluster, startingOffsets='{"a":{"0":0}}', maxOffsetsPerTrigger=10)
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    while (latest := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        at = latest
    assert (from_json(at), cluster.now) == ({("a", 0): 1_000}, 100.0)
