"""Clients of three kinds that do what a test says: librdkafka's, franz-go's and Java's.

Each command is for a client by its id, which is made at its first command. Commands of one client
run in order, those of two clients side by side. ``start()`` returns at once, so that a test can
look at a client that is stuck.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import kafkalite
from tests.harness import places
from tests.harness.brokers import java_command
from tests.harness.patience import ended

#: Seconds until a command must have an outcome; a client of the programs gives up after 60.
PATIENCE_S = 90.0
_WAIT_S = 60.0

#: ``offset`` or ``values`` of a command, as far as it has them.
Outcome = dict[str, Any]


class Clients(Protocol):
    """Clients of one kind."""

    def start(self, do: str, client: str, **members: Any) -> Future[Outcome]:
        """Give a client a command: ``produce``, ``read``, ``join``, ``commit`` or ``close``."""

    def end(self) -> None:
        """End all clients."""


class Program:
    """``peers/go/driven`` or ``java/Driven.java``: commands on stdin, outcomes on stdout."""

    def __init__(self, command: list[str]) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[Outcome]] = {}
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def start(self, do: str, client: str, **members: Any) -> Future[Outcome]:
        """Write a command."""
        assert self._process.stdin is not None
        future: Future[Outcome] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = future
            command = {"n": number, "do": do, "client": client, **members}
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        return future

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._lock:
                future = self._open.pop(told.pop("n"))
            if "error" in told:
                future.set_exception(AssertionError(told["error"]))
            else:
                future.set_result(told)
        with self._lock:
            for future in self._open.values():
                future.set_exception(AssertionError("the program ended"))

    def end(self) -> None:
        """End its input, and with it the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        ended(self._listener)
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Librdkafka:
    """One client id: its producer, its consumer, and the thread that runs its commands."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None

    def run(self, do: str, client: str, servers: str = "", **members: Any) -> Outcome:
        keys = {"bootstrap.servers": servers, "client.id": client, "log_level": 0}
        keys |= members.pop("keys", {})
        if "rack" in members:
            keys["client.rack"] = members.pop("rack")
        run: Callable[..., Outcome] = getattr(self, f"_{do}")
        return run(keys, **members)

    def _produce(self, keys: Outcome, topic: str, partition: int, value: str) -> Outcome:
        keys |= {"linger.ms": 0, "enable.idempotence": True}
        self.producer = self.producer or Producer(keys)
        done: list[Any] = []
        self.producer.produce(
            topic, value, partition=partition, on_delivery=lambda *told: done.append(told)
        )
        self.producer.flush(_WAIT_S)
        assert done, f"no answer after {_WAIT_S} s"
        error, message = done[0]
        if error is not None:
            raise KafkaException(error)
        return {"offset": message.offset()}

    def _poll(self, count: int) -> Outcome:
        assert self.consumer is not None
        values: list[str] = []
        deadline = time.monotonic() + _WAIT_S
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} records after {_WAIT_S} s"
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                values.append((message.value() or b"").decode())
        return {"values": values}

    def _made(self, keys: Outcome) -> Consumer:
        keys = {"auto.offset.reset": "earliest", "enable.auto.commit": False} | keys
        self.consumer = Consumer(keys)
        return self.consumer

    def _read(self, keys: Outcome, topic: str, partition: int, count: int) -> Outcome:
        if self.consumer is None:
            consumer = self._made(keys | {"group.id": "unused"})
            consumer.assign([TopicPartition(topic, partition, 0)])
        return self._poll(count)

    def _join(self, keys: Outcome, group: str, topic: str, count: int) -> Outcome:
        if self.consumer is None:
            self._made(keys | {"group.id": group}).subscribe([topic])
        return self._poll(count)

    def _commit(self, _: Outcome, topic: str, partition: int, offset: int) -> Outcome:
        assert self.consumer is not None
        at = TopicPartition(topic, partition, offset)
        self.consumer.commit(offsets=[at], asynchronous=False)
        return {}

    def _close(self, _: Outcome) -> Outcome:
        if self.consumer is not None:
            self.consumer.close()
        self.consumer = None
        return {}


class Librdkafka:
    """confluent-kafka, in threads of the test's process."""

    def __init__(self) -> None:
        self._clients: dict[str, _Librdkafka] = {}

    def start(self, do: str, client: str, **members: Any) -> Future[Outcome]:
        """Give the client's thread a command."""
        one = self._clients.setdefault(client, _Librdkafka())
        return one.thread.submit(one.run, do, client, **members)

    def end(self) -> None:
        """End all clients and their threads."""
        for one in self._clients.values():
            one.thread.shutdown(cancel_futures=True)
            if one.consumer is not None:
                one.consumer.close()


def _franz_go() -> Clients:
    binary = places.GO_BINARIES / "driven"
    if not binary.exists():
        pytest.skip("franz-go's driven: python tests/conformance/prerequisites.py --install")
    return Program([str(binary)])


def _java() -> Clients:
    if places.java() is None or not places.clients_jar().exists():
        pytest.skip("JDK or jars missing: python tests/conformance/prerequisites.py --install")
    # The launcher compiles a source file by itself.
    return Program(java_command(str(places.CONFORMANCE / "java" / "Driven.java")))


#: What makes clients of each kind, by the names of the docs.
KINDS: dict[str, Callable[[], Clients]] = {
    "confluent-kafka": Librdkafka,
    "franz-go": _franz_go,
    "Java": _java,
}


@contextmanager
def clients_of(kind: str) -> Iterator[Clients]:
    """Clients of a kind, which end with the block."""
    clients = KINDS[kind]()
    try:
        yield clients
    finally:
        clients.end()


class Driver:
    """What one test does with clients of one kind, on a topic of its own."""

    def __init__(self, clients: Clients, servers: str, topic: str) -> None:
        """The client ids are made of the topic's name."""
        self.clients, self.servers, self.topic = clients, servers, topic
        self.used: set[str] = set()

    def id(self, role: str) -> str:
        """The client id of a role."""
        return f"{role}-{self.topic}"

    def start(self, do: str, role: str, **members: Any) -> Future[Outcome]:
        """Begin a command of the client of a role."""
        self.used.add(role)
        given = {"servers": self.servers, "topic": self.topic, **members}
        return self.clients.start(do, self.id(role), **given)

    def produce(self, value: str, partition: int = 0, role: str = "writer") -> int:
        """Produce a record; return its offset."""
        sent = self.start("produce", role, partition=partition, value=value)
        return int(sent.result(PATIENCE_S)["offset"])

    def read(self, count: int, partition: int = 0, role: str = "reader", **more: Any) -> list[str]:
        """Read the next records of a partition."""
        found = self.start("read", role, partition=partition, count=count, **more)
        return list(found.result(PATIENCE_S).get("values", []))

    def join(self, count: int, role: str = "member", **more: Any) -> list[str]:
        """Read the next records of the topic as a member of a group that is named like it."""
        found = self.start("join", role, group=self.topic, count=count, **more)
        return list(found.result(PATIENCE_S).get("values", []))

    def commit(self, offset: int, partition: int = 0, role: str = "member") -> None:
        """Commit an offset."""
        self.start("commit", role, partition=partition, offset=offset).result(PATIENCE_S)

    def close(self) -> None:
        """Close the clients."""
        for role in sorted(self.used):
            self.clients.start("close", self.id(role)).result(PATIENCE_S)


@contextmanager
def broker_of(kind: str) -> Iterator[kafkalite.Broker]:
    """A broker with test control for the tests of a file; each has a topic of its own."""
    if kind != "kafkalite":
        pytest.skip("no other broker has test control")
    config = {"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": "false"}
    with kafkalite.Broker(config=config) as broker:
        yield broker


@contextmanager
def cluster_of(kind: str, **options: Any) -> Iterator[kafkalite.Cluster]:
    """Three brokers with test control for the tests of a file."""
    if kind != "kafkalite":
        pytest.skip("no other broker has test control")
    with kafkalite.Cluster(**options) as cluster:
        cluster.wait_ready()
        yield cluster


@contextmanager
def driver_on(
    served: kafkalite.Broker | kafkalite.Cluster, clients: Clients, topic: str, partitions: int
) -> Iterator[Driver]:
    """Clients with a topic of their own; faults end with the block."""
    with kafkalite.AdminClient(bootstrap_servers=served.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=partitions)
    driver = Driver(clients, served.bootstrap_servers, topic)
    try:
        yield driver
    finally:
        served.faults.clear()
        driver.close()
