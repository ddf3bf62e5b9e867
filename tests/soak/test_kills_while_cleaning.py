"""A broker killed while it compacts and deletes: what it must keep is there, once and in order."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

import kafkalite as kl
from tests.harness.patience import ended

ROUNDS = 6
KILLS_PER_ROUND = 4
KEYS = 300
PATIENCE_S = 120.0
MIB = 1 << 20
#: Something is always being cleaned, so that a kill meets it in the middle.
EAGER = {
    "log.cleaner.backoff.ms": 50,
    "log.initial.task.delay.ms": 50,
    "log.retention.check.interval.ms": 100,
    "log.segment.delete.delay.ms": 200,
}
SMALL: dict[str, str | float] = {
    "segment.bytes": MIB,
    "segment.ms": 300,
    "min.cleanable.dirty.ratio": 0.01,
    "max.compaction.lag.ms": 1_000,
}
TOPICS: dict[str, dict[str, str | float]] = {
    "compacted": {**SMALL, "cleanup.policy": "compact"},
    "trimmed": {**SMALL, "cleanup.policy": "delete", "retention.bytes": 3 * MIB},
}


@dataclass
class Topic:
    """What was acknowledged: the last number of each key, and the end of the log."""

    name: str
    last: dict[bytes, int] = field(default_factory=dict)
    end: int = 0

    def tell(self, error: KafkaError | None, message: Message) -> None:
        """Note a delivery; nothing may be refused."""
        assert error is None, error
        self.last[message.key() or b""] = number_of(message)
        self.end = max(self.end, (message.offset() or 0) + 1)


def number_of(message: Message) -> int:
    """The number that a value begins with."""
    return int((message.value() or b"").partition(b" ")[0])


def write_while_killed(broker: kl.Broker, topics: list[Topic], chance: random.Random) -> None:
    """Writes without a pause while the broker is killed and started, until all is acknowledged."""

    def kill() -> None:
        for _ in range(KILLS_PER_ROUND):
            time.sleep(chance.uniform(0.1, 1.5))
            broker.kill()
            broker.start()

    killer = threading.Thread(target=kill)
    killer.start()
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "enable.idempotence": True,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    producer = Producer(settings)
    numbers = random.Random(chance.random())
    began = max((max(topic.last.values(), default=0) for topic in topics), default=0)
    number = began
    while killer.is_alive():
        for topic in topics:
            number += 1
            value = b"%d " % number + numbers.randbytes(numbers.choice([10, 200, 2_000]))
            key = b"%d" % numbers.randrange(KEYS)
            producer.produce(topic.name, value, key, partition=0, on_delivery=topic.tell)
        producer.poll(0.001)
    ended(killer)
    assert producer.flush(PATIENCE_S) == 0


def read(broker: kl.Broker, name: str) -> tuple[list[Message], int]:
    """Everything in the topic's partition, as confluent-kafka reads it; then its start."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "judge",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    place = TopicPartition(name, 0, OFFSET_BEGINNING)
    try:
        consumer.assign([place])
        found: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=1.0):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found, consumer.get_watermark_offsets(place, PATIENCE_S)[0]
        raise AssertionError(f"{name} has no end")
    finally:
        consumer.close()


def test_compaction_and_retention_lose_nothing_that_they_must_keep_through_kills() -> None:
    chance = random.Random(4)
    compacted, trimmed = topics = [Topic(name) for name in TOPICS]
    with kl.Broker(in_process=False, config=EAGER) as broker:
        with kl.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name, config in TOPICS.items():
                admin.create_topic(name, config=config)
        for _ in range(ROUNDS):
            write_while_killed(broker, topics, chance)
            kept, _ = read(broker, compacted.name)
            assert {message.key(): number_of(message) for message in kept} == compacted.last
            rest, start = read(broker, trimmed.name)
            # What is deleted while it is read may be missing.
            offsets = [message.offset() for message in rest if (message.offset() or 0) >= start]
            assert offsets == list(range(start, trimmed.end))
            for numbers in ([number_of(message) for message in found] for found in (kept, rest)):
                assert numbers == sorted(set(numbers))
    print(f"{compacted.end} records and {len(kept)} kept, {trimmed.end} and {len(rest)} kept")
    assert len(kept) < compacted.end / 2
    assert start > 0
