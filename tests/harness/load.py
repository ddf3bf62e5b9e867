"""A load that survives chaos: idempotent producers and a reader, and the history of both.

Values are ``producer:number`` and unique; keys spread them over all partitions. Producers
retry on their own through every death of the broker; their answers go into the history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.harness.checker import History, Outcome, Poll, Send
from tests.harness.patience import ended


def create_topic(
    bootstrap: str, topic: str, partitions: int, *, replicas: int = 1, **config: str
) -> None:
    """Create a topic and wait until each of its leaders answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(30)
    wait_until_led(bootstrap, topic, partitions)


def wait_until_led(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until the leader of each partition answers.

    Kafka shows a leader in its metadata before that leader has opened the log. Meanwhile a producer
    with acks=0 loses records, and one without idempotence may see them reordered.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    parts = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    deadline = time.monotonic() + 30
    while True:
        try:
            for found in admin.list_offsets(parts, request_timeout=10).values():
                found.result(15)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Load(threading.Thread):
    """What one producer sent, and the answers that it got."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.sends: list[Send] = []
        self.sent = 0
        #: The greatest number that was acknowledged.
        self.newest = -1
        self.errors: list[str] = []

    def acknowledged(self, number: int, value: str, partition: int, offset: int | None) -> None:
        """Note that a record is in the log."""
        self.newest = max(self.newest, number)
        self.sends.append(Send(value, partition, Outcome.OK, offset))

    def finish(self, seconds: float = 130) -> None:
        """Stop sending and wait until every record has its answer."""
        raise NotImplementedError


class LoadProducer(Load):
    """One idempotent producer at a steady rate until told to stop."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, *, per_second: int, size: int, **config: Any
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.per_second = per_second
        self.padding = "x" * size
        self.ended = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": 120_000,
            "socket.connection.setup.timeout.ms": 2_000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "error_cb": self._error,
            "log_level": 0,
        }
        self.producer = Producer({**settings, **config})

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(str(error))

    def run(self) -> None:
        """Send in small steps, so that the rate is steady and callbacks are served."""
        started = time.monotonic()
        while not self.ended.is_set():
            due = int((time.monotonic() - started) * self.per_second)
            while self.sent < due:
                self._send_one()
            self.producer.poll(0.005)

    def _send_one(self) -> None:
        number = self.sent
        value = f"{self.name}:{number}:{self.padding}"

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.acknowledged(number, value, message.partition(), message.offset())
                return
            timed_out = error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT)
            outcome = Outcome.UNKNOWN if timed_out else Outcome.FAILED
            self.sends.append(Send(value, message.partition(), outcome))

        try:
            key = f"{self.name}-{number % 97}"
            self.producer.produce(self.topic, value, key=key, on_delivery=told)
            self.sent += 1
        except BufferError:
            self.producer.poll(0.05)

    def finish(self, seconds: float = 130) -> None:
        """Stop sending and wait until every record has its answer."""
        self.ended.set()
        ended(self)
        left = self.producer.flush(seconds)
        assert left == 0, f"{self.name}: {left} records without an answer"
        assert len(self.sends) == self.sent


class LoadReader(threading.Thread):
    """One reader in assign mode, from the start, through every death of the broker."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.polls: list[Poll] = []
        self.ended = threading.Event()
        self.errors: list[str] = []

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": f"unused-{self.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(self.partitions)])
        return consumer

    def _take(self, consumer: Consumer, seconds: float) -> int:
        batch = consumer.consume(2_000, seconds)
        for message in batch:
            error = message.error()
            if error is None:
                value = message.value().decode()
                poll = Poll(self.name, message.partition(), message.offset(), value)
                self.polls.append(poll)
            elif not error.retriable() and error.code() not in _PASSING:
                self.errors.append(str(error))
        return len(batch)

    def run(self) -> None:
        """Read until told to stop."""
        consumer = self._consumer()
        while not self.ended.is_set():
            self._take(consumer, 0.1)
        consumer.close()

    def finish(self) -> None:
        """Stop reading."""
        self.ended.set()
        ended(self)

    def drain(self, seconds: float = 120) -> None:
        """Read every partition to the end it has now; on the caller's thread."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        parts = [TopicPartition(self.topic, p) for p in range(self.partitions)]
        asked = admin.list_offsets({part: OffsetSpec.latest() for part in parts})
        ends = {part.partition: found.result(30).offset for part, found in asked.items()}
        consumer = self._consumer()
        left = sum(ends.values())
        deadline = time.monotonic() + seconds
        while left > len(self.polls) and time.monotonic() < deadline:
            self._take(consumer, 0.5)
        consumer.close()
        assert len(self.polls) == left, f"{len(self.polls)} of {left} records read"


#: What librdkafka reports while a broker is away; it goes on by itself.
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
}


def history_of(producers: Sequence[Load], readers: Sequence[LoadReader]) -> History:
    """One history of all clients."""
    history = History()
    for producer in producers:
        history.sends += producer.sends
    for reader in readers:
        history.polls += reader.polls
    return history
