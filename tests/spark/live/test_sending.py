"""What a task of a sink does while no broker answers; without Spark and without a broker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkalite.errors import NoBrokerReachable
from kafkalite_spark import sending
from kafkalite_spark.clients import Clients
from kafkalite_spark.errors import WriteError
from kafkalite_spark.options import WriteOptions


class Unreached:
    """A producer that finds no broker before a time; each search takes three seconds."""

    def __init__(self, until: float) -> None:
        self.now = 0.0
        self._until = until
        self.sent: list[int] = []

    def send_batch(self, topic: str, batch: pa.RecordBatch) -> Any:
        """Take the batch, or fail as a producer does that never reached a broker."""
        if self.now < self._until:
            self.now += 3.0
            raise NoBrokerReachable(f"no broker answers, {self.now} s")
        self.sent.append(batch.num_rows)
        return self

    def result(self) -> None:
        """Be delivered."""

    def flush(self) -> None:
        """Have nothing left."""

    def close(self, timeout: float = 5.0) -> None:
        """Hold nothing."""


def send(producer: Unreached, monkeypatch: pytest.MonkeyPatch, **kafka: str) -> int:
    monkeypatch.setattr(sending, "_producers", Clients(lambda config: producer))
    batch = pa.record_batch({"value": [b"one", b"two"]})
    options = WriteOptions({"bootstrap.servers": "x:1", **kafka}, "topic")
    return sending.send_rows(iter([batch]), options, clock=lambda: producer.now).rows


def test_a_task_in_a_fresh_worker_waits_for_brokers_as_long_as_one_that_reached_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It gave up after its producer's first search, which takes three seconds.
    producer = Unreached(until=100.0)
    assert send(producer, monkeypatch) == 2
    assert producer.sent == [2]


@pytest.mark.parametrize(("given", "ends"), [({}, 120.0), ({"delivery.timeout.ms": "60000"}, 60.0)])
def test_a_task_that_finds_no_broker_gives_up_after_the_delivery_timeout(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], ends: float
) -> None:
    producer = Unreached(until=1e9)
    with pytest.raises(WriteError, match=f"no broker answers, {ends} s"):
        send(producer, monkeypatch, **given)
    assert producer.sent == []
