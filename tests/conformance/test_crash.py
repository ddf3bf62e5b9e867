"""kill -9 under load: nothing acknowledged is lost, nothing comes twice, and it is back soon."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.budget import Budget
from tests.harness import checker
from tests.harness.brokers import Broker
from tests.harness.load import LoadProducer, LoadReader, create_topic, history_of

PARTITIONS = 4
PRODUCERS = 4
GIB = 1 << 30

Start = Callable[[dict[str, str] | None], Broker]


def log_bytes(broker: Broker, topic: str) -> int:
    """Size of the topic's ``.log`` files."""
    folders = [broker.partition_dir(topic, p) for p in range(PARTITIONS)]
    return sum(log.stat().st_size for folder in folders for log in folder.glob("*.log"))


def drop_page_cache(folder: Path) -> str:
    """Throw out of the page cache what this machine lets us throw out. Says what was possible.

    Only clean pages go: what the broker did not flush stays in the kernel, as after any kill -9.
    """
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")
        return "fadvise and drop_caches"
    return "fadvise only"


def check_logs(broker: Broker, topic: str) -> list[checker.Violation]:
    """Every segment's batches, and that one segment ends where the next one starts."""
    found: list[checker.Violation] = []
    for partition in range(PARTITIONS):
        for log in sorted(broker.partition_dir(topic, partition).glob("*.log")):
            found += checker.check_log(log.read_bytes(), int(log.stem))
    return found


def survive(broker: Broker, kills: int, seconds: float, *, drop_cache: bool = False) -> None:
    """Kill the broker ``kills`` times under load, and check everything afterwards."""
    topic = "crash"
    create_topic(broker.bootstrap, topic, PARTITIONS)
    producers = [
        LoadProducer(f"p{i}", broker.bootstrap, topic, per_second=1_500, size=100)
        for i in range(PRODUCERS)
    ]
    live = LoadReader("live", broker.bootstrap, topic, PARTITIONS)
    for one in (*producers, live):
        one.start()
    ready: list[float] = []
    for _ in range(kills):
        time.sleep(seconds)
        broker.kill()
        if drop_cache:
            drop_page_cache(broker.data_dir)
        ready.append(broker.start())
    time.sleep(1.0)
    for producer in producers:
        producer.finish()
    live.finish()
    afterwards = LoadReader("afterwards", broker.bootstrap, topic, PARTITIONS)
    afterwards.drain()
    size = log_bytes(broker, topic)
    history = history_of(producers, [live, afterwards])
    print(
        f"{kills} kills, {len(history.sends)} sends, {len(afterwards.polls)} records, "
        f"{size / GIB:.3f} GiB, ready after {min(ready):.2f} to {max(ready):.2f} s"
    )
    assert not [error for one in (*producers, live) for error in one.errors]
    violations = checker.check(history)
    assert not violations, checker.summary(violations)
    failed = [send for send in history.sends if send.outcome is not checker.Outcome.OK]
    assert not failed, failed[:5]
    broker.stop()
    violations = check_logs(broker, topic)
    assert not violations, checker.summary(violations)


def test_nothing_acknowledged_is_lost_or_doubled_through_kills_under_load(
    own_broker: Start, budget: Budget
) -> None:
    survive(own_broker(None), budget.kills, budget.seconds_between_kills)


def test_nothing_is_lost_with_group_commit_and_a_dropped_page_cache(
    own_broker: Start, budget: Budget
) -> None:
    broker = own_broker({"log.flush.interval.messages": "1"})
    kills = max(1, budget.kills // 4)
    survive(broker, kills, budget.seconds_between_kills, drop_cache=True)


def test_a_broker_is_ready_within_three_seconds_for_each_gib_of_unchecked_log(
    own_broker: Start, budget: Budget
) -> None:
    broker = own_broker(None)
    topic = "unchecked"
    create_topic(broker.bootstrap, topic, PARTITIONS)
    clean = broker.restart()
    target = int(budget.unchecked_gib * GIB)
    producer = LoadProducer(
        "filler", broker.bootstrap, topic, per_second=0, size=0, **{"linger.ms": 20}
    ).producer
    written = 0
    while written < target:
        try:
            producer.produce(topic, os.urandom(16_384), key=os.urandom(8))
            written += 16_384
        except BufferError:
            producer.poll(0.05)
    assert producer.flush(120) == 0
    size = log_bytes(broker, topic)
    ready = broker.restart(hard=True, timeout=120)
    gib = size / GIB
    print(f"{gib:.2f} GiB unchecked: ready after {ready:.2f} s; a clean start takes {clean:.2f} s")
    if broker.kind == "kafka":
        pytest.skip("Kafka's figure stands above for comparison; the bound is ours")
    assert not budget.judge_times or ready <= clean + 3.0 * gib
