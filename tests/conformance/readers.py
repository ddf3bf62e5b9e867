"""Four clients we did not write read a whole topic: aiokafka, kafka-python, franz-go, Java.

Each returns rows of (partition, offset, key, value) in the order in which it got them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, TopicPartition

from tests.conformance import java, records
from tests.harness import places

Row = tuple[int, int, str, str]
Reader = Callable[[str, str, int], list[Row]]

#: Seconds a reader may take for a topic.
PATIENCE = 240.0


def by_aiokafka(bootstrap: str, topic: str, count: int) -> list[Row]:
    """aiokafka, without a group, until ``count`` records came."""

    async def read() -> list[Row]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            rows: list[Row] = []
            while len(rows) < count:
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    rows += [
                        (one.partition, one.offset, one.key.decode(), one.value.decode())
                        for one in batch
                    ]
            return rows
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), PATIENCE))


def by_kafka_python(bootstrap: str, topic: str, count: int) -> list[Row]:
    """kafka-python, without a group, until ``count`` records came."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=5_000
    )
    parts = consumer.partitions_for_topic(topic)
    consumer.assign([TopicPartition(topic, part) for part in sorted(parts)])
    rows: list[Row] = []
    deadline = time.monotonic() + PATIENCE
    while len(rows) < count and time.monotonic() < deadline:
        for batch in consumer.poll(500).values():
            rows += [
                (one.partition, one.offset, one.key.decode(), one.value.decode()) for one in batch
            ]
    consumer.close()
    return rows


def by_franz_go(bootstrap: str, topic: str, count: int) -> list[Row]:
    """The program in ``peers/go/records``, to the end offsets that it finds."""
    del count
    found = records.read_franz_go(bootstrap, [topic])[topic]
    return [(one.partition, one.offset, *_texts(one.row)) for one in found]


def _texts(row: records.Row) -> tuple[str, str]:
    assert row.key is not None
    assert row.value is not None
    return row.key.decode(), row.value.decode()


def by_java(bootstrap: str, topic: str, count: int) -> list[Row]:
    """Kafka's console consumer, until ``count`` records came."""
    if places.java() is None or not places.clients_jar().exists():
        pytest.skip("JDK or jars missing: python tests/conformance/prerequisites.py --install")
    printed = java.succeed(
        java.CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000",
        "--formatter-property", "print.key=true", "--formatter-property", "print.partition=true",
        "--formatter-property", "print.offset=true", timeout=PATIENCE,
    )  # fmt: skip
    rows = []
    for line in printed.lines:
        part, offset, key, value = line.split("\t", 3)
        rows.append((int(part.split(":")[1]), int(offset.split(":")[1]), key, value))
    return rows


READERS: dict[str, Reader] = {
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
    "franz-go": by_franz_go,
    "Java console consumer": by_java,
}
