"""What the tests of consumers share: topics of their own, and records written by another client."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite import AsyncConsumer, Consumer, Record, TopicPartition

#: How long anything may take on a loaded machine.
PATIENCE_S = 30.0

_numbers = itertools.count()
_run = time.time_ns()


@dataclass(frozen=True)
class Cluster:
    """A broker to read from."""

    bootstrap: str

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic with a name of its own."""
        name = f"read-{_run}-{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])
        made[name].result(PATIENCE_S)
        return name

    def group(self) -> str:
        """Return a name that no other test has for its group."""
        return f"group-{_run}-{next(_numbers)}"

    def write(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int | None = None,
        codec: str = "none",
        **record: Any,
    ) -> None:
        """Write records with confluent-kafka and wait until they are there."""
        settings = {"bootstrap.servers": self.bootstrap, "compression.type": codec}
        producer = Producer({**settings, "linger.ms": 20})
        for value in values:
            if partition is None:
                producer.produce(topic, value, **record)
            else:
                producer.produce(topic, value, partition=partition, **record)
        assert producer.flush(PATIENCE_S) == 0

    def consumer(self, *topics: Any, **settings: Any) -> Consumer:
        """Make a consumer that begins at the beginning."""
        return Consumer(*topics, **self.settings(settings))

    def async_consumer(self, *topics: Any, **settings: Any) -> AsyncConsumer:
        """Make the same for asyncio."""
        return AsyncConsumer(*topics, **self.settings(settings))

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Add what every consumer of these tests has."""
        common = {"bootstrap_servers": self.bootstrap, "auto_offset_reset": "earliest"}
        return {**common, **settings}


def read(consumer: Consumer, count: int) -> list[Record[Any, Any]]:
    """Read ``count`` records, however many calls it takes."""
    records: list[Record[Any, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        records += consumer.consume(count - len(records), timeout=1)
    return records


def values(records: Iterable[Record[Any, Any]]) -> list[Any]:
    """Return the values."""
    return [record.value for record in records]


def numbered(count: int, prefix: str = "v") -> list[bytes | None]:
    """Return values that tell records apart."""
    return [f"{prefix}{number}".encode() for number in range(count)]


def part(topic: str, number: int = 0) -> TopicPartition:
    """Return a partition."""
    return TopicPartition(topic, number)


def settle(consumer: Consumer, partitions: int) -> None:
    """Poll until the consumer has so many partitions; records must not come meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while len(consumer.assignment()) != partitions:
        assert time.monotonic() < deadline, consumer.assignment()
        assert consumer.poll(0.05) is None
