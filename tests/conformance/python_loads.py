"""The load of ``load.py`` from aiokafka and kafka-python, and groups of Python clients."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError

import kafkalite as kl
from tests.harness.checker import Outcome, Send
from tests.harness.load import Load
from tests.harness.patience import ended

#: Seconds that a client may take for one record, through any number of tries.
DELIVERY_S = 120


class AioLoad(Load):
    """aiokafka's idempotent producer at a steady rate until told to stop."""

    def __init__(self, name: str, bootstrap: str, topic: str, *, per_second: int) -> None:
        super().__init__(name)
        self.bootstrap, self.topic, self.per_second = bootstrap, topic, per_second
        self.ended = threading.Event()

    def run(self) -> None:
        """One event loop for all."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            # For a record it is the time of all tries together.
            request_timeout_ms=DELIVERY_S * 1_000,
            retry_backoff_ms=20,
        )
        await producer.start()
        started = time.monotonic()
        while not self.ended.is_set():
            due = int((time.monotonic() - started) * self.per_second)
            while self.sent < due:
                await self._send_one(producer)
            await asyncio.sleep(0.005)
        await producer.stop()

    async def _send_one(self, producer: AIOKafkaProducer) -> None:
        number, value = self.sent, f"{self.name}:{self.sent}"
        self.sent += 1
        key = f"{self.name}-{number % 97}".encode()
        answer = await producer.send(self.topic, value.encode(), key=key)

        def told(done: asyncio.Future[Any]) -> None:
            if error := done.exception():
                self.errors.append(repr(error))
                self.sends.append(Send(value, 0, Outcome.UNKNOWN))
            else:
                metadata = done.result()
                self.acknowledged(number, value, metadata.partition, metadata.offset)

        answer.add_done_callback(told)

    def finish(self, seconds: float = DELIVERY_S + 10) -> None:
        """Stop sending and wait until every record has its answer."""
        self.ended.set()
        self.join(seconds)
        assert len(self.sends) == self.sent, (
            f"{self.name}: {self.sent - len(self.sends)} unanswered"
        )


class KafkaPythonLoad(Load):
    """kafka-python's idempotent producer at a steady rate until told to stop."""

    def __init__(self, name: str, bootstrap: str, topic: str, *, per_second: int) -> None:
        super().__init__(name)
        self.topic, self.per_second = topic, per_second
        self.ended = threading.Event()
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=DELIVERY_S * 1_000,
            request_timeout_ms=10_000,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=200,
        )

    def run(self) -> None:
        """Send in small steps, so that the rate is steady."""
        started = time.monotonic()
        while not self.ended.is_set():
            due = int((time.monotonic() - started) * self.per_second)
            while self.sent < due:
                self._send_one()
            time.sleep(0.005)

    def _send_one(self) -> None:
        number, value = self.sent, f"{self.name}:{self.sent}"
        self.sent += 1

        def failed(error: BaseException) -> None:
            self.errors.append(repr(error))
            self.sends.append(Send(value, 0, Outcome.UNKNOWN))

        def acknowledged(metadata: Any) -> None:
            self.acknowledged(number, value, metadata.partition, metadata.offset)

        key = f"{self.name}-{number % 97}".encode()
        answer = self.producer.send(self.topic, value.encode(), key=key)
        answer.add_callback(acknowledged)
        answer.add_errback(failed)

    def finish(self, seconds: float = DELIVERY_S + 10) -> None:
        """Stop sending and wait until every record has its answer."""
        self.ended.set()
        ended(self)
        self.producer.flush(seconds)
        self.producer.close()
        assert len(self.sends) == self.sent, (
            f"{self.name}: {self.sent - len(self.sends)} unanswered"
        )


class GroupReader(threading.Thread):
    """A group of one member that reads a topic and commits, through every death of a broker."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"group-{name}", daemon=True)
        self.bootstrap, self.topic = bootstrap, topic
        #: What it read, at least once.
        self.seen: set[str] = set()
        self.errors: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        """Read until told to stop; an error that the client gives to its caller ends it."""
        try:
            self.read()
        except Exception as error:  # noqa: BLE001 (the test judges it)
            self.errors.append(f"{self.name}: {error!r}")

    @abstractmethod
    def read(self) -> None:
        """Note values until ``ended``, and commit."""

    def finish(self) -> None:
        """Stop, and leave the group."""
        self.ended.set()
        self.join(60)


class ConfluentGroup(GroupReader):
    """confluent-kafka, which commits in the background."""

    def read(self) -> None:
        """Poll batches."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        while not self.ended.is_set():
            for record in consumer.consume(1_000, 0.1):
                if record.error() is None:
                    self.seen.add(record.value().decode())
                elif record.error().fatal():
                    self.errors.append(str(record.error()))
        consumer.close()


class KafkaPythonGroup(GroupReader):
    """kafka-python, which commits in the background."""

    def read(self) -> None:
        """Poll batches."""
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            reconnect_backoff_max_ms=200,
        )
        while not self.ended.is_set():
            try:
                polled = consumer.poll(100)
            except KafkaConnectionError:
                # Of a broker that is away. A program polls again.
                continue
            for records in polled.values():
                self.seen.update(record.value.decode() for record in records)
        consumer.close()


class AioGroup(GroupReader):
    """aiokafka, which commits in the background."""

    def read(self) -> None:
        """One event loop for all."""
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
        )
        await consumer.start()
        while not self.ended.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                self.seen.update(record.value.decode() for record in records)
        await consumer.stop()


class OwnGroup(GroupReader):
    """Our own consumer."""

    def read(self) -> None:
        """Poll batches."""
        with kl.Consumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
        ) as consumer:
            while not self.ended.is_set():
                for record in consumer.consume(1_000, timeout=0.1):
                    self.seen.add((record.value or b"").decode())
