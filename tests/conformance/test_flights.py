"""Real input: the flights table through the broker and back, while the broker is killed.

confluent-kafka (idempotent) produces at a pace, keyed by carrier into six partitions. Four
clients read the rows back, and they have to be equal, in the order of each key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer

from tests.conformance.budget import Budget
from tests.conformance.flights import table
from tests.conformance.readers import READERS, Row
from tests.harness.brokers import Broker
from tests.harness.load import create_topic
from tests.harness.patience import ended

PARTITIONS = 6
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Start = Callable[[dict[str, str] | None], Broker]


def produce(
    bootstrap: str, topic: str, rows: list[tuple[str, str]], codec: str, seconds: float
) -> None:
    """Send all rows at an even pace; every one of them has to be acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 20,
            "message.timeout.ms": 180_000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "partitioner": "murmur2_random",
            "log_level": 0,
        }
    )
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(error)

    started, at = time.monotonic(), 0
    while at < len(rows):
        due = int((time.monotonic() - started) / seconds * len(rows)) + 1
        try:
            while at < min(due, len(rows)):
                producer.produce(topic, rows[at][1], key=rows[at][0], on_delivery=told)
                at += 1
        except BufferError:
            pass
        producer.poll(0.01)
    assert producer.flush(180) == 0
    assert not refused, refused[:3]


def kill_evenly(broker: Broker, kills: int, seconds: float) -> threading.Thread:
    """Kill and start the broker at even distances within ``seconds``; a started thread."""

    def work() -> None:
        started = time.monotonic()
        for number in range(1, kills + 1):
            due = started + seconds * number / (kills + 1)
            time.sleep(max(0.0, due - time.monotonic()))
            broker.restart(hard=True)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def judge(rows: list[tuple[str, str]], got: list[Row]) -> str | None:
    """What is wrong with the rows a client read; None if nothing is."""
    if len(got) != len(rows):
        return f"{len(got)} rows instead of {len(rows)}"
    if sorted((key, value) for _, _, key, value in got) != sorted(rows):
        return "the rows differ"
    homes: dict[str, int] = {}
    order: dict[str, list[tuple[int, str]]] = {}
    for partition, offset, key, value in got:
        if homes.setdefault(key, partition) != partition:
            return f"{key} lies in two partitions"
        order.setdefault(key, []).append((offset, value))
    expected: dict[str, list[str]] = {}
    for key, value in rows:
        expected.setdefault(key, []).append(value)
    for key, seen in order.items():
        if seen != sorted(seen, key=lambda pair: pair[0]):
            return f"{key} was read out of the order of its offsets"
        if [value for _, value in seen] != expected[key]:
            return f"the order of {key} is not that of the table"
    return None


@pytest.mark.parametrize("codec", CODECS)
def test_every_flight_comes_back_through_kills_of_the_broker(
    own_broker: Start, budget: Budget, codec: str
) -> None:
    if codec not in budget.flights_codecs.split(","):
        pytest.skip(f"{codec} is not in this run's slice")
    rows = table()[: budget.flights_rows or None]
    broker = own_broker(None)
    topic = f"flights-{codec}"
    create_topic(broker.bootstrap, topic, PARTITIONS)
    killer = kill_evenly(broker, budget.flights_kills, budget.flights_seconds)
    started = time.monotonic()
    produce(broker.bootstrap, topic, rows, codec, budget.flights_seconds)
    took = time.monotonic() - started
    ended(killer)
    told = [f"{codec}: {len(rows)} rows in {took:.1f} s through {broker.starts - 1} kills"]
    for name, read in READERS.items():
        started = time.monotonic()
        wrong = judge(rows, read(broker.bootstrap, topic, len(rows)))
        assert wrong is None, f"{name}: {wrong}"
        told.append(f"{name} {time.monotonic() - started:.1f} s")
    print(", ".join(told))


ROWS = [("UA", "1"), ("AA", "2"), ("UA", "3")]

ODD: dict[str, tuple[list[Row], str | None]] = {
    "right": ([(0, 0, "UA", "1"), (1, 0, "AA", "2"), (0, 1, "UA", "3")], None),
    "one lost": ([(0, 0, "UA", "1"), (1, 0, "AA", "2")], "2 rows instead of 3"),
    "one changed": ([(0, 0, "UA", "1"), (1, 0, "AA", "9"), (0, 1, "UA", "3")], "the rows differ"),
    "one twice": ([(0, 0, "UA", "1"), (1, 0, "AA", "2"), (0, 1, "UA", "1")], "the rows differ"),
    "a key in two partitions": (
        [(0, 0, "UA", "1"), (1, 0, "AA", "2"), (1, 1, "UA", "3")],
        "UA lies in two partitions",
    ),
    "swapped in the log": (
        [(0, 0, "UA", "3"), (1, 0, "AA", "2"), (0, 1, "UA", "1")],
        "the order of UA is not that of the table",
    ),
    "read backwards": (
        [(0, 1, "UA", "3"), (1, 0, "AA", "2"), (0, 0, "UA", "1")],
        "UA was read out of the order of its offsets",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_the_comparison_of_rows_sees_what_is_wrong(name: str) -> None:
    got, wrong = ODD[name]
    assert judge(ROWS, got) == wrong
