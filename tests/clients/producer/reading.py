"""What is in a topic, as confluent-kafka reads it: a judge that we did not write."""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition

#: How long what was acknowledged may take to be read; on a loaded machine all is slow.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Read:
    """A record as it was read."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Read]:
    """Read a topic of ``count`` records from the start, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[Read] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(min(count - len(found), 10_000), timeout=1.0):
                assert message.error() is None, message.error()
                kind, timestamp = message.timestamp()
                found.append(
                    Read(
                        message.partition() or 0,
                        message.offset() or 0,
                        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
                        message.key(),
                        message.value(),
                        _headers(message),
                    )
                )
        assert len(found) == count, f"{len(found)} records came, expected {count}"
        assert not consumer.consume(1, timeout=0.05), "more came than expected"
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    pairs = message.headers() or []
    assert isinstance(pairs, list)
    return tuple((key, value.encode() if isinstance(value, str) else value) for key, value in pairs)
