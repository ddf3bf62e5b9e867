"""What the dashboard and the alert rules name means what it says: each figure beside the truth."""

from __future__ import annotations

import os
import resource
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S
from tests.unit.test_metrics import Figures, figures, plain_families
from tests.unit.test_monitoring import named

STAGE = "kafkalite_stage_duration_seconds"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
OFFLINE_REPLICAS = "kafka_server_replicamanager_offlinereplicacount"
OFFLINE_PARTITIONS = "kafka_controller_kafkacontroller_offlinepartitionscount"
ACTIVE_CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"

#: The test that reads the value of each name that the dashboard and the rules use.
TESTED = {
    "kafka_consumergroup_lag_sum": "test_metrics.test_a_group_tells_its_members_and_its_lag",
    "kafka_consumergroup_max_lag_seconds": "test_a_groups_lag_in_seconds_follows_the_clock",
    ACTIVE_CONTROLLERS: "test_a_cluster_that_loses_brokers_says_so",
    OFFLINE_PARTITIONS: "test_a_cluster_that_loses_brokers_says_so",
    "kafka_server_brokertopicmetrics_bytesin_total": (
        "test_metrics.test_a_topic_tells_its_traffic_and_each_partition_its_log"
    ),
    OFFLINE_REPLICAS: "test_a_replica_on_a_failed_disk_is_offline",
    UNDER_REPLICATED: "test_a_cluster_that_loses_brokers_says_so",
    "kafkalite_cold_read_bytes_total": "test_what_left_the_page_cache_is_counted_as_cold",
    "kafkalite_connections": "test_open_and_refused_connections_are_counted",
    "kafkalite_connections_refused_total": "test_open_and_refused_connections_are_counted",
    "kafkalite_io_threads": "test_requests_wait_in_the_queue_while_io_threads_stand_still",
    "kafkalite_io_threads_busy_seconds_total": "test_a_slow_disk_shows_in_stages_and_threads",
    "kafkalite_network_bytes_in_total": "test_bytes_are_counted_in_and_out",
    "kafkalite_network_bytes_out_copied_total": "test_bytes_are_counted_in_and_out",
    "kafkalite_network_bytes_out_zero_copy_total": "test_bytes_are_counted_in_and_out",
    "kafkalite_network_thread_busy_seconds_total": "test_a_slow_disk_shows_in_stages_and_threads",
    "kafkalite_purgatory_size": "test_fetches_that_wait_are_in_purgatory",
    "kafkalite_request_queue_size": (
        "test_requests_wait_in_the_queue_while_io_threads_stand_still"
    ),
    f"{STAGE}_bucket": "test_a_slow_disk_shows_in_stages_and_threads",
    f"{STAGE}_count": "test_a_slow_disk_shows_in_stages_and_threads",
    "kafkalite_zero_copy_share": "test_bytes_are_counted_in_and_out",
    "process_cpu_seconds_total": "test_a_process_tells_what_the_system_says_of_it",
    "process_max_fds": "test_a_process_tells_what_the_system_says_of_it",
    "process_open_fds": "test_a_process_tells_what_the_system_says_of_it",
    "process_resident_memory_bytes": "test_a_process_tells_what_the_system_says_of_it",
}


def test_the_value_of_each_name_is_tested() -> None:
    assert set(TESTED) == named()
    for test in TESTED.values():
        module, _, function = test.rpartition(".")
        path = Path(__file__).with_name(f"{module}.py") if module else Path(__file__)
        assert f"\ndef {function}(" in path.read_text(), test


def read(broker: kl.Broker, page: str = "/metrics") -> Figures:
    """The figures of a page."""
    assert broker.admin_url is not None
    with urllib.request.urlopen(broker.admin_url + page, timeout=PATIENCE_S) as answer:
        return figures(plain_families(answer.read().decode()))


def total(found: Figures, name: str, **labels: str) -> float:
    """The sum of a name's samples with these labels, of which there is one or more."""
    asked = labels.items()
    values = [value for (of, has), value in found.items() if of == name and asked <= has]
    assert values, name
    return sum(values)


def now(broker: kl.Broker, name: str, **labels: str) -> float:
    """The same of a page that is read now."""
    return total(read(broker), name, **labels)


@pytest.fixture
def broker() -> Iterator[kl.Broker]:
    """A broker of this process, for one test alone."""
    with kl.Broker(admin_port=0, topics=["t"]) as broker:
        yield broker


@pytest.fixture
def producer(broker: kl.Broker) -> Producer:
    """A producer whose first request was counted."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    send(producer, b"first")
    of = (f"{STAGE}_count", frozenset({"stage": "total", "api": "Produce"}.items()))
    eventually(lambda: read(broker).get(of) == 1)
    return producer


def send(producer: Producer, *values: bytes) -> None:
    """Produce to topic t, and wait until all is acknowledged."""
    for value in values:
        producer.produce("t", value)
    assert producer.flush(PATIENCE_S) == 0


def consume(servers: str, count: int) -> None:
    """Read so many records from the start of topic t."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    consumer.assign([TopicPartition("t", 0, 0)])
    deadline = time.monotonic() + PATIENCE_S
    while count > 0:
        count -= len(consumer.consume(count, timeout=1))
        assert time.monotonic() < deadline, "records are missing"
    consumer.close()


#: An append of this time, in ms, is above the 1 s that the rule for produce requests allows.
SLOW_MS = 1_200


@pytest.mark.parametrize(
    ("threads", "others", "size"),
    [
        ("kafkalite_network_thread_busy_seconds_total", "kafkalite_io_threads_busy", 1),
        ("kafkalite_io_threads_busy_seconds_total", "kafkalite_network_thread_busy", 200_000),
    ],
    ids=["a network thread", "an I/O thread"],
)
def test_a_slow_disk_shows_in_stages_and_threads(
    broker: kl.Broker, producer: Producer, threads: str, others: str, size: int
) -> None:
    """A small request runs on the thread that reads it."""
    before, began = read(broker), time.monotonic()
    broker.faults.disk("slow", ms=SLOW_MS, topic="t", operation="write", times=1)
    send(producer, b"x" * size)
    eventually(lambda: now(broker, f"{STAGE}_count", stage="total", api="Produce") == 2)
    after, took_s = read(broker), time.monotonic() - began

    def risen(name: str, **labels: str) -> float:
        return total(after, name, **labels) - total(before, name, **labels)

    for stage, is_slow in (
        ("total", True),
        ("local", True),
        ("append", True),
        ("network", False),
        ("request_queue", False),
        ("response_send", False),
    ):
        of = {"stage": stage, "api": "Produce"}
        assert risen(f"{STAGE}_count", **of) == 1
        assert risen(f"{STAGE}_bucket", **of, le="+Inf") == 1
        if is_slow:
            assert risen(f"{STAGE}_bucket", **of, le="1.073741824") == 0
            assert SLOW_MS / 1e3 <= risen(f"{STAGE}_sum", **of) <= took_s
        else:
            assert risen(f"{STAGE}_sum", **of) < took_s - SLOW_MS / 1e3
    assert SLOW_MS / 1e3 <= risen(threads) <= took_s
    assert 0 <= risen(f"{others}_seconds_total") <= 2 * (took_s - SLOW_MS / 1e3)


def test_requests_wait_in_the_queue_while_io_threads_stand_still() -> None:
    keys = {"num.io.threads": 3}
    with (
        kl.Broker(admin_port=0, topics=["t"], config=keys) as broker,
        broker.faults.stall("io_threads") as stall,
    ):
        assert now(broker, "kafkalite_io_threads") == 3
        servers = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}
        producers = [Producer(servers) for _ in range(5)]
        for producer in producers:
            producer.produce("t", b"x" * 200_000)
            producer.poll(0)
        eventually(lambda: now(broker, "kafkalite_request_queue_size") == 5)
        stall.remove()
        assert [producer.flush(PATIENCE_S) for producer in producers] == [0] * 5
        assert now(broker, "kafkalite_request_queue_size") == 0


def test_fetches_that_wait_are_in_purgatory(broker: kl.Broker) -> None:
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    patient = {"fetch.wait.max.ms": 90_000, "socket.timeout.ms": 120_000}
    with ExitStack() as stack:
        for _ in range(3):
            consumer = Consumer(keys | patient)
            stack.callback(consumer.close)
            consumer.assign([TopicPartition("t", 0, 0)])
            consumer.poll(0)
        eventually(lambda: now(broker, "kafkalite_purgatory_size", operation="Fetch") == 3)
        assert now(broker, "kafkalite_purgatory_size", operation="Produce") == 0
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result(timeout=PATIENCE_S)
        # They are answered, and wait for the next record.
        eventually(lambda: now(broker, "kafkalite_purgatory_size", operation="Fetch") == 3)
    # The broker does not look whether a client is still there, as Kafka does not.
    broker.clock.advance("2m", monotonic=True)
    eventually(lambda: now(broker, "kafkalite_purgatory_size", operation="Fetch") == 0)


def test_bytes_are_counted_in_and_out(broker: kl.Broker, producer: Producer) -> None:
    before = read(broker)
    values = [os.urandom(100_000) for _ in range(50)]
    payload = sum(map(len, values))
    send(producer, *values)
    consume(broker.bootstrap_servers, 51)
    found = read(broker)

    def risen(name: str) -> float:
        return total(found, name) - total(before, name)

    copied = risen("kafkalite_network_bytes_out_copied_total")
    zero_copy = risen("kafkalite_network_bytes_out_zero_copy_total")
    assert payload < risen("kafkalite_network_bytes_in_total") < 1.1 * payload
    assert payload < zero_copy < 2 * payload
    assert 0 < copied < 0.1 * payload
    share = zero_copy / (zero_copy + total(found, "kafkalite_network_bytes_out_copied_total"))
    assert total(found, "kafkalite_zero_copy_share") == pytest.approx(share, rel=1e-3)


def test_open_and_refused_connections_are_counted() -> None:
    keys = {"max.connections.per.ip": 4}
    with kl.Broker(admin_port=0, config=keys) as broker, ExitStack() as stack:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        for _ in range(6):
            one = socket.create_connection((host, int(port)), PATIENCE_S)
            stack.enter_context(one)
        eventually(lambda: now(broker, "kafkalite_connections_refused_total") == 2)
        assert now(broker, "kafkalite_connections") == 4
        stack.close()
        eventually(lambda: now(broker, "kafkalite_connections") == 0)


def test_what_left_the_page_cache_is_counted_as_cold(tmp_path: Path) -> None:
    with kl.Broker(admin_port=0, topics=["t"], data_dir=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        values = [os.urandom(100_000) for _ in range(20)]
        send(producer, *values)
        consume(broker.bootstrap_servers, 20)
        assert now(broker, "kafkalite_cold_read_bytes_total") == 0
        # What was written just now counts as cached.
        broker.clock.advance("1m")
        drop_from_cache(next(tmp_path.glob("t-0/*.log")))
        consume(broker.bootstrap_servers, 20)
        cold = now(broker, "kafkalite_cold_read_bytes_total")
        # The kernel reads some of it ahead.
        assert 100_000 < cold < 2 * sum(map(len, values))


def drop_from_cache(path: Path) -> None:
    """Drop what is cached of a file."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_groups_lag_in_seconds_follows_the_clock(broker: kl.Broker, producer: Producer) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "late"})
    consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    consumer.close()
    assert producer.flush(PATIENCE_S) == 0
    broker.clock.advance("10m")
    found = read(broker, "/metrics/groups")
    of = {"consumergroup": "late"}
    assert total(found, "kafka_consumergroup_lag_sum", **of) == 1
    assert 600 <= total(found, "kafka_consumergroup_max_lag_seconds", **of) < 600 + 2 * PATIENCE_S


def test_a_process_tells_what_the_system_says_of_it(broker: kl.Broker) -> None:
    began_s = time.process_time()
    before = read(broker)
    ended_s, tick_s = time.process_time(), 1 / os.sysconf("SC_CLK_TCK")
    cpu_s = total(before, "process_cpu_seconds_total")
    assert began_s - 2 * tick_s <= cpu_s <= ended_s + 2 * tick_s
    assert total(before, "process_max_fds") == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = bytearray(os.urandom(1 << 20) * 64)
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(Path("/dev/null").open())
        after = read(broker)
    risen = total(after, "process_open_fds") - total(before, "process_open_fds")
    assert risen == pytest.approx(50, abs=10)
    name = "process_resident_memory_bytes"
    risen = total(after, name) - total(before, name)
    assert risen == pytest.approx(len(room), rel=0.5)


def test_a_replica_on_a_failed_disk_is_offline(broker: kl.Broker, producer: Producer) -> None:
    assert now(broker, OFFLINE_REPLICAS) == 0
    broker.faults.disk("error", topic="t", operation="write")
    producer.produce("t", b"x")
    producer.poll(0)
    eventually(lambda: now(broker, OFFLINE_REPLICAS) == 1)
    producer.purge()


def test_a_cluster_that_loses_brokers_says_so() -> None:
    """The last broker went on to call itself the active controller: no alert was raised."""
    with kl.Cluster(topics={"t": 3}, admin_port=0) as cluster:
        with kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("lone", partitions=3, replication_factor=1)
            partitions = admin.describe_topic("lone").partitions

        def sums(name: str, *brokers: kl.Broker) -> float:
            return sum(now(broker, name) for broker in brokers)

        def becomes(value: float, name: str, *brokers: kl.Broker) -> None:
            eventually(lambda: sums(name, *brokers) == value)

        becomes(1, ACTIVE_CONTROLLERS, *cluster.brokers)
        for name in (UNDER_REPLICATED, OFFLINE_PARTITIONS, OFFLINE_REPLICAS):
            becomes(0, name, *cluster.brokers)
        # The controller stays: it is the one that could believe to lead on.
        last = next(one for one in cluster.brokers if now(one, ACTIVE_CONTROLLERS) == 1)
        first, second = (one for one in cluster.brokers if one is not last)
        lost = cluster.brokers.index(first)
        first.kill()
        becomes(3, UNDER_REPLICATED, last, second)
        gone = sum(lost in partition.replicas for partition in partitions)
        assert gone == 1
        for broker in (last, second):
            becomes(gone, OFFLINE_PARTITIONS, broker)
        becomes(1, ACTIVE_CONTROLLERS, last, second)
        second.kill()
        becomes(0, ACTIVE_CONTROLLERS, last)
        for broker in (first, second):
            broker.start()
        becomes(1, ACTIVE_CONTROLLERS, *cluster.brokers)
        becomes(0, OFFLINE_PARTITIONS, *cluster.brokers)
        becomes(0, UNDER_REPLICATED, *cluster.brokers)
