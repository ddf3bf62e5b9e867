"""Reads a partition from its first record to its last."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.harness.process import PATIENCE_S


def values(servers: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every value of a partition, as confluent-kafka reads it; offsets may have gaps."""
    keys = {"bootstrap.servers": servers, "group.id": "reading", "enable.auto.commit": False}
    consumer = Consumer({**keys, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[bytes | None] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "nothing comes, not even the end"
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()
